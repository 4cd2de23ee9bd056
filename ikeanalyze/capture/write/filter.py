"""Copies selected packets of a capture to a new capture, of the same format or of pcapng with packet comments.

The file header and the selected records of a pcap file are copied byte for byte; of a pcapng file, the sections,
interfaces and selected packets. Other blocks of a pcapng file (names, interface statistics, secrets) are dropped,
because they may refer to packets that were not selected. Records of a pcap file become enhanced packet blocks if the
new capture is pcapng, with the same bytes, times and link type.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from ikeanalyze._version import installed_version
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.pcapng_blocks import PacketBlockHeader
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.reader import CaptureReader, FileSegment, open_capture
from ikeanalyze.capture.write.pcap_as_pcapng import ORDER, encode_file_header, encode_timestamps
from ikeanalyze.io.atomic_write import open_output

_PCAP_HEADER: Final = 24


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Result of `write_selected_packets`."""

    packets: int  # written
    bytes: int  # of the file
    missing: int  # selected packets that the source lacks, because it changed or is damaged
    uncommented: int = 0  # packets that should have a comment, but are in simple packet blocks, which have none


def write_selected_packets(path: str, out: str | BinaryIO, numbers: Collection[int]) -> FilterResult:
    """Write the packets with these numbers, from 1, to a path or a stream. A file is created when it is complete.

    The new capture has the format of the source.

    Raises:
        CaptureError: the source cannot be read, or is also the output.
        OSError: the output cannot be written.
    """
    return _write(path, out, numbers, None)


def write_selected_pcapng(
    path: str, out: str | BinaryIO, numbers: Collection[int], comments: Mapping[int, str]
) -> FilterResult:
    """Write the packets with these numbers to a pcapng file, "-" for standard output, or a stream.

    `comments` has a packet comment for some of the packets, by number; comments in the source are kept.

    Raises:
        CaptureError: the source cannot be read, is also the output, or has a link type that pcapng does not support.
        OSError: the output cannot be written.
    """
    return _write(path, out, numbers, comments)


def _write(
    path: str, out: str | BinaryIO, numbers: Collection[int], comments: Mapping[int, str] | None
) -> FilterResult:
    """Write packets; `comments` are None if the format of the source is kept.

    Raises:
        CaptureError: the source cannot be read, or is also the output.
        OSError: the output cannot be written.
    """
    wanted = np.unique(np.fromiter(numbers, np.int64, len(numbers)))
    with open_capture(path) as reader:
        reader.source.refuse_as_output(out)
        with open_output(out) as stream:
            size = written = 0
            copy = _make_copier(reader, comments)
            for data, packets in _copy_selected(reader, wanted, copy):
                stream.write(data)
                size += len(data)
                written += packets
    return FilterResult(written, size, len(wanted) - written, copy.uncommented)


def _make_copier(
    reader: CaptureReader, comments: Mapping[int, str] | None
) -> "_SelectedRecords | _SelectedBlocks | _ConvertedRecords":
    if reader.format != "pcap":
        return _SelectedBlocks(reader, comments or {})
    return _SelectedRecords(reader) if comments is None else _ConvertedRecords(reader, comments)


def _copy_selected(
    reader: CaptureReader,
    wanted: npt.NDArray[np.int64],
    copy: "_SelectedRecords | _SelectedBlocks | _ConvertedRecords",
) -> Iterator[tuple[memoryview | bytes, int]]:
    """The data to be written, and the number of packets in it."""
    first = 1  # number of the segment's first packet
    for segment in reader.iterate_segments():
        end = first + len(segment.batch)
        rows = wanted[slice(*np.searchsorted(wanted, [first, end]))] - first
        yield from copy(segment, rows.tolist(), first)
        first = end
        if not len(wanted) or end > wanted[-1]:
            return


class _SelectedRecords:
    """Copies the header and the selected records of a pcap file.

    What makes records a variant that the file header does not name is left out: few packets are not enough to recognise
    it again.
    """

    uncommented = 0

    def __init__(self, reader: CaptureReader) -> None:
        self._left_out = reader.unmarked_header_bytes
        self._start = _PCAP_HEADER  # offset of the first record in the next segment

    def __call__(
        self,
        segment: FileSegment,
        rows: list[int],
        first: int,  # noqa: ARG002
    ) -> Iterator[tuple[memoryview, int]]:
        whole, batch = memoryview(segment.buffer), segment.batch
        start, self._start = self._start, 0
        if start:
            yield whole[:start], 0
        for row in rows:
            # a record begins at the end of the previous one: the size of record headers varies
            begin = start if row == 0 else int(batch.offset[row - 1] + batch.captured[row - 1])
            end = int(batch.offset[row] + batch.captured[row])
            if self._left_out:
                packet = int(batch.offset[row])
                yield whole[begin : packet - self._left_out], 0
                begin = packet
            yield whole[begin:end], 1


class _ConvertedRecords:
    """Converts the selected records of a pcap file to pcapng."""

    uncommented = 0

    def __init__(self, reader: CaptureReader, comments: Mapping[int, str]) -> None:
        self._reader = reader
        self._comments = comments
        self._begun = False

    def __call__(self, segment: FileSegment, rows: list[int], first: int) -> Iterator[tuple[bytes, int]]:
        interface = self._reader.interfaces[0]
        if not self._begun:
            self._begun = True
            try:
                yield encode_file_header(interface, f"ikeanalyze {installed_version()}", None, 0), 0
            except ValueError as error:
                raise CaptureError(f"{self._reader.source.name}: {error}") from None
        if not rows:
            return
        batch = segment.batch
        high, low = encode_timestamps(batch, interface.resolution)
        whole = memoryview(segment.buffer)
        for row in rows:
            head = PacketBlockHeader(0, high[row].tobytes() + low[row].tobytes(), ())
            at = int(batch.offset[row])
            frame = bytes(whole[at : at + int(batch.captured[row])])
            head = _add_comment(head, self._comments.get(first + row))
            yield pcapng_blocks.encode_enhanced_packet(head, frame, ORDER, int(batch.length[row])), 1


class _SelectedBlocks:
    """Copies the sections, interfaces and selected packets of a pcapng file, and adds comments to packets."""

    def __init__(self, reader: CaptureReader, comments: Mapping[int, str]) -> None:
        self.uncommented = 0
        self._reader = reader
        self._comments = comments
        self._interfaces = 0
        self._order = "<"

    def __call__(self, segment: FileSegment, rows: list[int], first: int) -> Iterator[tuple[memoryview | bytes, int]]:
        known, self._interfaces = self._interfaces, len(self._reader.interfaces)
        if not rows and known == self._interfaces and not pcapng_blocks.may_have_section(segment.buffer, segment.stop):
            return
        whole, row, chosen = memoryview(segment.buffer), -1, set(rows)
        for block_type, at, size, order in pcapng_blocks.iterate_blocks(segment.buffer, segment.stop, self._order):
            block = whole[at : at + size]
            if block_type == pcapng_blocks.SECTION:
                self._order = order
                yield pcapng_blocks.reopen_section_header(bytes(block), order, None), 0
            elif block_type == pcapng_blocks.INTERFACE:
                yield block, 0
            elif block_type in pcapng_blocks.PACKET_BLOCKS:
                row += 1
                if row in chosen:
                    yield self._add_comment_to_block(block, block_type, self._comments.get(first + row)), 1

    def _add_comment_to_block(self, block: memoryview, block_type: int, comment: str | None) -> memoryview | bytes:
        """The block with a further comment if one is given."""
        if comment is None:
            return block
        if block_type == pcapng_blocks.SIMPLE_PACKET:
            self.uncommented += 1
            return block
        data = bytes(block)
        head = _add_comment(pcapng_blocks.parse_packet_block_header(data, self._order), comment)
        frame, length = pcapng_blocks.get_packet_block_frame(data, self._order)
        return pcapng_blocks.encode_enhanced_packet(head, frame, self._order, length)


def _add_comment(head: PacketBlockHeader, comment: str | None) -> PacketBlockHeader:
    if comment is None:
        return head
    return replace(head, options=(*head.options, pcapng_blocks.make_comment_option(comment)))
