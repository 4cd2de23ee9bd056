"""Writes an anonymised copy of a capture.

The copy is a new pcapng file: nothing of the original file is in it but times, lengths and link types of packets.
Comments, names of interfaces and hosts, the description of the machine, embedded secrets and all other blocks of a
pcapng file are left out.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from ikeanalyze._version import installed_version
from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.pcapng_blocks import PacketBlockHeader
from ikeanalyze.capture.formats.records import Interface, RecordBatch
from ikeanalyze.capture.frames import Progress, describe_damage
from ikeanalyze.capture.reader import CaptureReader, open_capture
from ikeanalyze.io.atomic_write import open_output
from ikeanalyze.sharing.anonymize.messages import MessageAnonymizer
from ikeanalyze.sharing.anonymize.packets import PacketAnonymizer
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.sharing.anonymize.split import rewrite_split_payloads

_ORDER: Final = "<"
_NANOSECONDS: Final = b"\x09"
_MAX_LINK_TYPE: Final = 0xFFFF


@dataclass(slots=True)
class AnonymizationResult:
    """What was written, and what was not."""

    packets: int = 0  # of the capture
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)  # packets by what is not understood in them
    encrypted: Counter[str] = field(default_factory=Counter)  # messages, see `MessageAnonymizer.counts`
    damage: str | None = None  # where reading stopped early; the packets before are written


@dataclass(frozen=True, slots=True)
class KeyedContents:
    """What keys tell about the encrypted messages of a capture."""

    replaced: Mapping[bytes, bytes] = field(repr=False, default_factory=dict)  # message, and what takes its place
    opened: frozenset[bytes] = frozenset()  # initiator's SPIs of the IKE SAs that the keys are for


def anonymize_capture(
    path: str,
    out: str | BinaryIO,
    pseudonyms: Pseudonyms,
    *,
    ports: Collection[int] = (),
    contents: KeyedContents | None = None,
    progress: Progress | None = None,
) -> AnonymizationResult:
    """Write an anonymised copy of a capture to a path, "-" for standard output, or a stream.

    `ports` are UDP and TCP ports that carry IKE in addition to 500 and 4500.

    Raises:
        CaptureError: the source cannot be read, or is also the output.
        OSError: the output cannot be written.
    """
    contents = contents or KeyedContents()
    messages = MessageAnonymizer(pseudonyms, contents.replaced, contents.opened)
    with open_capture(path) as reader:
        reader.source.refuse_as_output(out)
    split = rewrite_split_payloads(path, pseudonyms, messages, ports, progress)
    packets = PacketAnonymizer(pseudonyms, messages, ports, split)
    result = AnonymizationResult(dropped=packets.dropped, encrypted=messages.counts)
    with open_capture(path) as reader, open_output(out) as stream:
        stream.write(pcapng_blocks.encode_section_header(_describe_application(), _ORDER))
        writer = _CopyWriter(reader, packets, result)
        for batch in reader.iterate_batches():
            for block in writer.copy(batch):
                stream.write(block)
            if progress is not None:
                progress(reader.source.consumed, reader.source.size)
        if reader.damage is not None:
            result.damage = describe_damage(reader.damage)
    return result


def _describe_application() -> list[pcapng_blocks.Option]:
    return [(pcapng_blocks.SHB_USERAPPL, f"ikeanalyze {installed_version()}".encode())]


class _CopyWriter:
    """Encodes the interfaces and packets of a copy."""

    def __init__(self, reader: CaptureReader, packets: PacketAnonymizer, result: AnonymizationResult) -> None:
        self._reader = reader
        self._packets = packets
        self._result = result
        self._described = 0

    def copy(self, batch: RecordBatch) -> Iterator[bytes]:
        """The blocks of a batch."""
        result, interfaces = self._result, self._reader.interfaces
        for interface in interfaces[self._described :]:
            yield _describe_interface(interface)
        self._described = len(interfaces)
        view = batch.buffer.data
        columns = (batch.offset, batch.captured, batch.length, batch.time_ns, batch.interface)
        for offset, captured, length, time_ns, number in zip(*(column.tolist() for column in columns), strict=True):
            result.packets += 1
            frame = bytes(view[offset : offset + captured])
            copy = self._packets.anonymize(result.packets, frame, length, interfaces[number])
            if copy is not None:
                result.written += 1
                yield _encode_packet(copy, length, time_ns, number)


def _describe_interface(interface: Interface) -> bytes:
    options = [(pcapng_blocks.IF_TSRESOL, _NANOSECONDS)]
    if interface.fcs_bytes is not None:
        options.append((pcapng_blocks.IF_FCSLEN, bytes([interface.fcs_bytes * 8])))
    # packets of a link type that pcapng lacks are dropped, as are those of other unknown ones
    link_type = min(interface.link_type, _MAX_LINK_TYPE)
    return pcapng_blocks.encode_interface_description(link_type, interface.snaplen, options, _ORDER)


def _encode_packet(frame: bytes, length: int, time_ns: int, interface: int) -> bytes:
    ticks = max(time_ns, 0)
    time = (ticks >> 32).to_bytes(4, "little") + (ticks & 0xFFFFFFFF).to_bytes(4, "little")
    return pcapng_blocks.encode_enhanced_packet(PacketBlockHeader(interface, time, ()), frame, _ORDER, length)
