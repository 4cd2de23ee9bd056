"""Copies a capture, and replaces some of its packets by messages in clear.

A pcapng file is copied byte for byte, with two exceptions: section lengths in section headers, which may change, become
unknown, and a comment can be added to the first section header. A pcap file is converted to a pcapng file of one
section and one interface, because pcap has no comments.

A frame in clear may be longer than the snapshot length of its interface. An enhanced packet block has a length field,
so the frame is written completely. The captured length of a simple packet block follows from the snapshot length, so a
longer frame is not written.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final

import numpy as np
from msgspec.structs import replace

from ikeanalyze._version import installed_version
from ikeanalyze.capture.decode.link import LinkType, get_link_type_name, locate_ip_packets
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.pcapng_blocks import PacketBlockHeader
from ikeanalyze.capture.formats.records import CaptureError, Interface, RecordBatch
from ikeanalyze.capture.reader import CaptureReader, FileSegment, open_capture
from ikeanalyze.capture.write.frames import (
    MAX_MESSAGE_BYTES,
    CleartextFrame,
    CleartextMessage,
    FrameRewriteError,
    build_cleartext_frame,
    frame_check_sequence,
)
from ikeanalyze.capture.write.pcap_as_pcapng import ORDER, encode_file_header, encode_packet_blocks, encode_timestamps
from ikeanalyze.io.atomic_write import open_output

Progress = Callable[[int, int | None], None]
"""Called with the number of bytes read from the file, and the size of the file (None if unknown)."""

#: Further warnings about single packets are only counted.
_MAX_WARNINGS: Final = 1000
#: Upper limit of the bytes of all headers before a message.
_MAX_HEADER_BYTES: Final = 256
_ETHERNET_FCS: Final = 4
#: Bits of epb_flags: direction and reception type, and bytes of the frame check sequence. Higher bits are link-layer
#: errors.
_FLAGS_DIRECTION: Final = 0x1F
_FLAGS_FCS: Final = 0x1E0
_FCS_SHIFT: Final = 5

_IN_TCP: Final = "in the capture this message is in a TCP stream (RFC 9329); here it is a UDP datagram of its own"


@dataclass(frozen=True, slots=True)
class PacketEdit:
    """The change to one packet. The packet is removed if `clear` is empty and `keep` is false."""

    clear: tuple[CleartextMessage, ...] = ()  # messages that replace the packet, each as a packet with its time
    keep: bool = False  # keep the packet, before these
    #: for a removed packet: the number of the packet that is replaced by its message. The packet is removed only if
    #: that message fits into a packet
    into: int | None = None


@dataclass(slots=True)
class RewriteResult:
    """Counts and warnings; `written == packets - removed + inserted`."""

    packets: int = 0  # of the source
    written: int = 0  # packets in the output
    replaced: int = 0  # packets that were replaced
    removed: int = 0  # packets that were removed without replacement
    inserted: int = 0  # additional packets in clear: after a kept packet, or after the first replacement
    unchanged: int = 0  # packets whose edit could not be applied
    damage: str | None = None  # where and why reading the source stopped early; the packets before are written
    warnings: list[tuple[int | None, str]] = field(default_factory=list)  # by packet number; None: whole capture


def rewrite_capture(
    path: str,
    out: str | BinaryIO,
    edits: Mapping[int, PacketEdit],
    *,
    comment: str | None = None,
    progress: Progress | None = None,
    new_owner_only: bool = False,
) -> RewriteResult:
    """Copy a capture (pcap or pcapng, plain or compressed; "-": standard input) to pcapng, with changes.

    `out` is a path, whose file is created when it is complete, "-" for standard output, or a stream. `edits` are by
    packet number, from 1. `comment` is a comment on the whole file. `new_owner_only`: only the owner may read and write
    a file that is new.

    Raises:
        CaptureError: the source cannot be read, is also the output, or has a link type that pcapng does not support.
        OSError: the output cannot be written.
    """
    with open_capture(path) as reader:
        reader.source.refuse_as_output(out)
        head = _encode_file_header(reader, edits, comment) if reader.format == "pcap" else b""
        rewriter = _CaptureRewriter(reader, edits, comment)
        with open_output(out, new_owner_only=new_owner_only) as stream:
            stream.write(head)
            for segment in reader.iterate_segments():
                for chunk in rewriter.rewrite_segment(segment):
                    stream.write(chunk)
                if progress is not None:
                    progress(reader.source.consumed, reader.source.size)
        return rewriter.finish()


def _encode_file_header(reader: CaptureReader, edits: Mapping[int, PacketEdit], comment: str | None) -> bytes:
    longest = max((len(clear.message) for edit in edits.values() for clear in edit.clear), default=0)
    application = f"ikeanalyze {installed_version()}"
    try:
        return encode_file_header(reader.interfaces[0], application, comment, longest + _MAX_HEADER_BYTES)
    except ValueError as error:
        raise CaptureError(f"{reader.source.name}: {error}") from None


class _CaptureRewriter:
    def __init__(self, reader: CaptureReader, edits: Mapping[int, PacketEdit], comment: str | None) -> None:
        self._interfaces = reader.interfaces
        self._reader = reader
        self._edits = edits
        self._numbers = np.sort(np.fromiter(edits, np.int64, len(edits)))
        self._comment = comment
        self._order = ORDER  # of the section at the start of the next segment
        self._result = RewriteResult()
        self._unlisted = 0
        self._uncommented = 0
        self._first_uncommented = 0
        self._too_long = self._find_long_messages()

    def rewrite_segment(self, segment: FileSegment) -> Iterator[bytes | memoryview]:
        """The output for a segment of the source."""
        batch = segment.batch
        first = self._result.packets + 1
        wanted = self._numbers[slice(*np.searchsorted(self._numbers, [first, first + len(batch)]))]
        edits = {number - first: edit for number in wanted.tolist() if (edit := self._get_edit(number))}
        frames = self._build_frames(batch, edits)
        if self._reader.format == "pcap":
            yield self._rewrite_records(batch, edits, frames)
        else:
            yield from self._rewrite_blocks(segment, edits, frames)
        self._result.packets += len(batch)

    def finish(self) -> RewriteResult:
        """The result at the end of the source."""
        result, damage = self._result, self._reader.damage
        result.written = result.packets - result.removed + result.inserted
        if damage is not None:
            result.damage = f"damaged at byte {damage.offset}: {damage.what}"
            result.warnings.append((None, f"{result.damage}; written up to there"))
        missing = len(self._numbers) - int(np.searchsorted(self._numbers, result.packets, "right"))
        if missing:
            text = f"{missing} packets to be written in clear do not exist: the capture has {result.packets}"
            result.warnings.append((None, text))
        if self._uncommented:
            text = f"{self._uncommented} packets in clear have no comment: simple packet blocks have no options"
            result.warnings.append((self._first_uncommented, text))
        if self._unlisted:
            result.warnings.append((None, f"{self._unlisted} more such packets, counted but not listed"))
        return result

    def _find_long_messages(self) -> set[int]:
        """The packets whose edit cannot be applied because a message is too long."""
        too_long: set[int] = set()
        for number in self._numbers.tolist():
            for clear in self._edits[number].clear:
                if len(clear.message) > MAX_MESSAGE_BYTES:
                    size = max(len(clear.message) for clear in self._edits[number].clear)
                    too_long.add(number)
                    self._warn(number, f"a message of {size} bytes does not fit into an IP packet")
                    break
        return too_long

    def _get_edit(self, number: int) -> PacketEdit | None:
        edit = self._edits[number]
        if number in self._too_long or (not edit.clear and not edit.keep and edit.into in self._too_long):
            self._result.unchanged += 1
            return None
        return edit if edit.clear or not edit.keep else None

    def _warn(self, number: int, text: str) -> None:
        if len(self._result.warnings) < _MAX_WARNINGS:
            self._result.warnings.append((number, f"{text}: left unchanged"))
        else:
            self._unlisted += 1

    def _build_frames(self, batch: RecordBatch, edits: dict[int, PacketEdit]) -> dict[int, list[CleartextFrame]]:
        """The frames in clear by row of the batch; edits that cannot be applied are removed from `edits`."""
        # a packet that is removed for a message in another one has a link header of the same kind: both are refused
        rows = np.array(list(edits), np.int64)
        clear_frames: dict[int, list[CleartextFrame]] = {}
        if not len(rows):
            return clear_frames
        at = batch.offset[rows]
        end = at + batch.captured[rows]
        link_types = np.array([interface.link_type for interface in self._interfaces])[batch.interface[rows]]
        source = batch.buffer.data
        for link_type in np.unique(link_types).tolist():
            its = np.flatnonzero(link_types == link_type)
            located = locate_ip_packets(link_type, batch.buffer, at[its], end[its])
            if located is None:
                self._leave_unchanged(
                    edits, rows[its].tolist(), f"link type {get_link_type_name(link_type)} is not decoded"
                )
                continue
            columns = (rows[its], at[its], end[its], located.at - at[its], located.family)
            for row, low, high, ip_at, family in zip(*(column.tolist() for column in columns), strict=True):
                if not family:
                    self._leave_unchanged(edits, [row], "it has no IP packet")
                    continue
                frame = bytes(source[low:high])
                try:
                    clear_frames[row] = [
                        build_cleartext_frame(frame, link_type, ip_at, clear) for clear in edits[row].clear
                    ]
                except FrameRewriteError as error:
                    self._leave_unchanged(edits, [row], str(error))
        return clear_frames

    def _leave_unchanged(self, edits: dict[int, PacketEdit], rows: Sequence[int], text: str) -> None:
        for row in rows:
            del edits[row]
            self._result.unchanged += 1
            self._warn(self._result.packets + 1 + row, text)

    def _count(self, edit: PacketEdit) -> None:
        if edit.keep:
            self._result.inserted += len(edit.clear)
        elif edit.clear:
            self._result.replaced += 1
            self._result.inserted += len(edit.clear) - 1
        else:
            self._result.removed += 1

    def _rewrite_blocks(
        self, segment: FileSegment, edits: dict[int, PacketEdit], frames: dict[int, list[CleartextFrame]]
    ) -> Iterator[bytes | memoryview]:
        whole = memoryview(segment.buffer)[: segment.stop]
        if not edits and not pcapng_blocks.may_have_section(segment.buffer, segment.stop):
            yield whole
            return
        done, row = 0, -1
        for block_type, at, size, order in pcapng_blocks.iterate_blocks(segment.buffer, segment.stop, self._order):
            if block_type == pcapng_blocks.SECTION:
                self._order = order
                yield whole[done:at]
                yield pcapng_blocks.reopen_section_header(bytes(whole[at : at + size]), order, self._comment)
                self._comment = None
                done = at + size
            elif block_type in pcapng_blocks.PACKET_BLOCKS:
                row += 1
                if (edit := edits.get(row)) is None:
                    continue
                interface = self._interfaces[int(segment.batch.interface[row])]
                new = self._encode_blocks(
                    row, edit, frames.get(row, []), bytes(whole[at : at + size]), block_type, interface
                )
                if new is None:
                    continue
                self._count(edit)
                yield whole[done : at + size if edit.keep else at]
                yield new
                done = at + size
        yield whole[done:]

    def _encode_blocks(
        self,
        row: int,
        edit: PacketEdit,
        frames: list[CleartextFrame],
        block: bytes,
        block_type: int,
        interface: Interface,
    ) -> bytes | None:
        """The blocks of the frames in clear; None if they cannot be written."""
        order = self._order
        if block_type != pcapng_blocks.SIMPLE_PACKET:
            head = pcapng_blocks.parse_packet_block_header(block, order)
            return b"".join(
                self._encode_enhanced_packet(head, clear, frame, interface, again=edit.keep or index > 0)
                for index, (clear, frame) in enumerate(zip(edit.clear, frames, strict=True))
            )
        whole = [_append_fcs(frame.frame, interface, interface.fcs_bytes) for frame in frames]
        if interface.snaplen and any(len(frame) > interface.snaplen for frame in whole):
            self._result.unchanged += 1
            text = f"in clear it is longer than the snapshot length of {interface.snaplen} bytes"
            self._warn(self._result.packets + 1 + row, text)
            return None
        if any(clear.comment for clear in edit.clear) or any(frame.tcp for frame in frames):
            self._first_uncommented = self._first_uncommented or self._result.packets + 1 + row
            self._uncommented += len(frames)
        return b"".join(pcapng_blocks.encode_simple_packet(frame, order) for frame in whole)

    def _encode_enhanced_packet(
        self,
        head: PacketBlockHeader,
        clear: CleartextMessage,
        clear_frame: CleartextFrame,
        interface: Interface,
        *,
        again: bool,
    ) -> bytes:
        """An enhanced packet block; `again`: an earlier block has the options of the packet."""
        order, fcs, options = self._order, interface.fcs_bytes, []
        for code, value in head.options:
            if code == pcapng_blocks.EPB_FLAGS and len(value) == 4:
                flags = struct.unpack(order + "I", value)[0]
                fcs = (flags & _FLAGS_FCS) >> _FCS_SHIFT or fcs
                kept = flags & _FLAGS_DIRECTION
                if fcs == _ETHERNET_FCS and interface.link_type == LinkType.ETHERNET:
                    kept |= flags & _FLAGS_FCS
                options.append((code, struct.pack(order + "I", kept)))
            elif code != pcapng_blocks.EPB_HASH and code not in pcapng_blocks.UNCOPIED_OPTIONS and not again:
                options.append((code, value))
        options += _make_comments(clear, clear_frame)
        frame = _append_fcs(clear_frame.frame, interface, fcs)
        return pcapng_blocks.encode_enhanced_packet(replace(head, options=tuple(options)), frame, order)

    def _rewrite_records(
        self, batch: RecordBatch, edits: dict[int, PacketEdit], frames: dict[int, list[CleartextFrame]]
    ) -> bytes | memoryview:
        """The packets of a batch as enhanced packet blocks."""
        interface = self._interfaces[0]
        left_out = np.zeros(len(batch), np.bool_)
        new: dict[int, bytes] = {}
        if edits:
            times = np.column_stack(encode_timestamps(batch, interface.resolution)).tobytes()
        for row, edit in edits.items():
            self._count(edit)
            left_out[row] = not edit.keep
            head = PacketBlockHeader(0, times[8 * row : 8 * row + 8], ())
            new[row] = b"".join(
                self._encode_enhanced_packet(head, clear, frame, interface, again=False)
                for clear, frame in zip(edit.clear, frames.get(row, ()), strict=True)
            )
        return encode_packet_blocks(batch, interface.resolution, left_out, new)


def _make_comments(clear: CleartextMessage, clear_frame: CleartextFrame) -> list[pcapng_blocks.Option]:
    texts = [clear.comment] if clear.comment else []
    if clear_frame.tcp:
        texts.append(_IN_TCP)
    # one line: tshark 4.6 prints each line of a comment as a separate value
    return [pcapng_blocks.make_comment_option("; ".join(texts))] if texts else []


def _append_fcs(frame: bytes, interface: Interface, fcs_bytes: int | None) -> bytes:
    """Append the frame check sequence if frames of the interface have one."""
    if fcs_bytes == _ETHERNET_FCS and interface.link_type == LinkType.ETHERNET:
        return frame + frame_check_sequence(frame)
    return frame
