"""Packets and bytes by category: every packet of a capture is counted in exactly one category."""

from enum import IntEnum

import numpy as np

from ikeanalyze.capture.arrays import Int64Array, UInt8Array


class PacketCategory(IntEnum):
    """The category of a packet. The lower-case names are the keys of the report's `accounting`."""

    IKE = 0
    ESP = 1
    AH = 2
    NAT_KEEPALIVE = 3
    RADIUS = 4
    HIP = 5
    TCP_ENCAPSULATION = 6  # RFC 9329 segments that carry neither IKE nor ESP: handshake, stream prefix, ACKs
    ICMP = 7
    OTHER = 8
    MALFORMED = 9

    #: Not a category: an IP fragment or TCP segment, which is counted when its datagram or stream is classified.
    PENDING = 255


_COUNT = len(PacketCategory) - 1
_NAMES = [category.name.lower() for category in list(PacketCategory)[:_COUNT]]


class Accounting:
    """Packets and bytes by category."""

    def __init__(self) -> None:
        self._packets = np.zeros(_COUNT, np.int64)
        self._bytes = np.zeros(_COUNT, np.int64)

    def add_batch(self, category: UInt8Array, length: Int64Array) -> None:
        """Count a batch, except its pending packets."""
        self._packets += np.bincount(category, minlength=256)[:_COUNT]
        # float64 weights are exact: a batch is far below 2**53 bytes
        self._bytes += np.bincount(category, weights=length, minlength=256)[:_COUNT].astype(np.int64)

    def add(self, category: PacketCategory, packets: int, length: int) -> None:
        """Count packets that were pending."""
        self._packets[category] += packets
        self._bytes[category] += length

    def add_counts(self, packets: Int64Array, length: Int64Array) -> None:
        """Add packets and bytes, each by category."""
        self._packets += packets
        self._bytes += length

    def merge(self, other: "Accounting") -> None:
        """Add the counts of another part of the capture."""
        self._packets += other._packets
        self._bytes += other._bytes

    def packets(self) -> dict[str, int]:
        """Packets by category name."""
        return dict(zip(_NAMES, self._packets.tolist(), strict=True))

    def bytes(self) -> dict[str, int]:
        """Bytes on the wire by category name."""
        return dict(zip(_NAMES, self._bytes.tolist(), strict=True))
