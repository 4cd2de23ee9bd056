"""The compiled core; its source is core/. Import it through `ikeanalyze.core`."""

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array

INTERFACE: int

def copy_ranges(target: UInt8Array, at: int, source: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
    """Copy the bytes from `begin` to `end` of `source`, for each pair, to consecutive places of `target` from `at` on.

    Raises:
        ValueError: a range is outside of its buffer.
    """

def walk_pcap(
    buffer: UInt8Array,
    start: int,
    end: int,
    *,
    big_endian: bool,
    lengths_swapped: bool,
    lengths_unordered: bool,
    header_size: int,
    fraction_ns: int,
    usual: int,
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array, int] | None:
    """Offset, captured length, length and time of the complete records in buffer[start:end], and where they end.

    None if a record is empty or longer than `usual`, which Python must check.
    """

def find_packet_blocks(buffer: UInt8Array, start: int, end: int, big_endian: bool) -> tuple[Int64Array, int]:
    """The positions of the packet blocks in buffer[start:end] of a pcapng file before the next block that Python must
    decode, and that block's position.
    """

class HeaderTables:
    """What to do by EtherType (65,536), by IP protocol (256) and by port (65,536)."""

    def __new__(cls, ethertypes: UInt8Array, protocols: UInt8Array, ports: UInt8Array) -> HeaderTables: ...

class PlainScan:
    """Rows of the frames table, and what else the packets were."""

    @property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The columns of the frames with a message, and their `row`, `begin`, `end` and `clear`."""

    @property
    def packets(self) -> Int64Array:
        """Packets by category."""

    @property
    def wire_bytes(self) -> Int64Array:
        """Bytes on the wire by category."""

    @property
    def ipv6(self) -> list[bytes]:
        """IPv6 addresses of the codes in the columns."""

    @property
    def rest(self) -> Int64Array:
        """Indexes of the packets that are handed back."""

def scan_packets(
    tables: HeaderTables,
    links: Sequence[tuple[int, int] | None],
    first: int,
    buffer: UInt8Array,
    offset: Int64Array,
    captured: Int64Array,
    length: Int64Array,
    time_ns: Int64Array,
    interface: UInt32Array,
) -> PlainScan:
    """Find the messages in packets without tunnels, IP fragments and the like.

    `links` has a pair by interface: bytes of the link header and the offset of the EtherType in it, (0, 0) for IP
    packets without a header, None for what is handed back. `first` is the number of the first packet, and the arrays
    after it are those of a RecordBatch.
    """
