"""A capture to its frames table: all packets counted, those with IKE, RADIUS or HIP kept as rows."""

import builtins
import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes, MessageStore, tune_malloc
from ikeanalyze.capture.collector import MOST_PACKET_WARNINGS, FrameCollector
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import ADDRESS_BITS, FIRST_IPV6
from ikeanalyze.capture.formats.records import Interface
from ikeanalyze.capture.parallel import ParallelReader, start_parallel_reader
from ikeanalyze.capture.reader import CaptureReader, open_capture

Progress = Callable[[int, int | None], None]
"""Called with the bytes of the file that were read, and its size where that is known."""


@dataclass(slots=True)
class CaptureFrames:
    """What a capture holds, before anything is made of it."""

    format: str
    packets: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    snaplen_truncated: int
    damaged: bool
    accounting: dict[str, int]
    accounting_bytes: dict[str, int]
    #: A row for each frame that carries a message or a part of one. The columns are those of schema.FRAMES with numbers
    #: in place of names: `source` and `destination` are AddressBook codes, `unit` numbers the messages as they crossed
    #: the wire (the frames of one IP-fragmented datagram, or of one message in TCP, share it).
    columns: Columns
    #: Bytes of the messages that can be read without keys, by unit.
    clear: MessageBytes
    #: Bytes of the encrypted messages that were asked for, by unit.
    sealed: MessageBytes
    addresses: list[builtins.bytes]  # IPv6 addresses of the AddressBook codes
    interfaces: list[Interface]
    warnings: list[tuple[int | None, str]] = field(default_factory=list)

    def address(self, code: int) -> str:
        """An address as text (RFC 5952 for IPv6)."""
        return format_address_code(code, self.addresses)


def format_address_code(code: int, ipv6: Sequence[bytes]) -> str:
    """Text of an AddressBook code, of whatever capture."""
    code &= ADDRESS_BITS
    if code >= FIRST_IPV6:
        text = socket.inet_ntop(socket.AF_INET6, ipv6[code - FIRST_IPV6])
        # thousands of them take a while in ipaddress, which writes all numbers in hex
        return text if "." not in text else str(ipaddress.IPv6Address(ipv6[code - FIRST_IPV6]))
    return f"{code >> 24}.{code >> 16 & 255}.{code >> 8 & 255}.{code & 255}"


def read_frames(
    path: str,
    ports: Collection[int] = (),
    progress: Progress | None = None,
    meanwhile: Callable[[], object] | None = None,
    spis: Collection[int] | None = (),
) -> CaptureFrames:
    """Read a capture file, or standard input for "-".

    `meanwhile` is called once when this process has read its half of a large capture and another is still
    reading. `spis` are the initiators' SPIs of the IKE SAs whose encrypted messages are kept; None: of all.

    Raises:
        CaptureError: nothing of it can be read. Damage further on is a warning, and what stands before it is
        returned.
    """
    tune_malloc()
    with open_capture(path) as reader:
        halves = start_parallel_reader(reader, ports, spis)
        second, kept = halves or (None, MessageStore(spis))
        collector = FrameCollector(ports, reader.interfaces, FrameRows(LAYOUT), kept)
        try:
            _collect(reader, collector, second, progress, meanwhile)
        finally:
            if second is not None:
                second.stop()
        collector.finish()
        warnings = collector.warnings()
        if reader.damage is not None:
            warnings.append((None, f"damaged at byte {reader.damage.offset}: {reader.damage.what}; read up to there"))
        warnings.extend((note.first, note.what) for note in reader.notes)
        return CaptureFrames(
            format=reader.format,
            packets=collector.packets,
            bytes=collector.bytes,
            first_ns=collector.first_ns,
            last_ns=collector.last_ns,
            snaplen_truncated=collector.truncated,
            damaged=reader.damage is not None,
            accounting=collector.accounting.packets(),
            accounting_bytes=collector.accounting.bytes(),
            columns=collector.columns(),
            clear=kept.clear,
            sealed=kept.sealed,
            addresses=collector.book.ipv6,
            interfaces=reader.interfaces,
            warnings=warnings,
        )


def _collect(
    reader: CaptureReader,
    collector: FrameCollector,
    second: ParallelReader | None,
    progress: Progress | None,
    meanwhile: Callable[[], object] | None,
) -> None:
    """Collect all batches, those of the second half from its helper unless its result cannot be used."""
    size = reader.source.size
    for batch in reader.iterate_batches():
        rest = batch
        place = None if second is None else reader.place(batch, second.begin)
        if second is not None and (place is None or collector.crosses):
            second.stop()
            second = None
        elif second is not None and place is not None and place < len(batch):
            collector.add(batch.select(slice(place)), None)
            rest = batch.select(slice(place, None))
            if meanwhile is not None:
                meanwhile()
            result = None if collector.crosses else second.result()
            if result is not None:
                collector.merge_partial_result(*result)
                reader.damage = result[0].damage
                if progress is not None:
                    progress(size or 0, size)
                return
            second.stop()
            second = None
        consumed = reader.source.consumed
        collector.add(rest, consumed / size if size else None)
        if progress is not None:
            progress(consumed + (second.consumed if second else 0), size)


__all__ = [
    "MOST_PACKET_WARNINGS",
    "CaptureFrames",
    "Columns",
    "Progress",
    "Protocol",
    "format_address_code",
    "read_frames",
]
