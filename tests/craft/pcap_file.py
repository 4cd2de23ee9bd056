"""pcap files (draft-ietf-opsawg-pcap)."""

import struct
from collections.abc import Iterable

from . import link
from .link import ByteOrder
from .packet import SECOND, Packet

MICROSECONDS, NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D


def pcap(
    packets: Iterable[Packet],
    *,
    byteorder: ByteOrder = "<",
    nanoseconds: bool = True,
    linktype: int = link.ETHERNET,
    snaplen: int = 262144,
) -> bytes:
    """The file; every packet is cut to `snaplen`."""
    magic, unit = (NANOSECONDS, 1) if nanoseconds else (MICROSECONDS, 1000)
    parts = [struct.pack(byteorder + "IHHiIII", magic, 2, 4, 0, 0, snaplen, linktype)]
    for packet in packets:
        seconds, rest = divmod(packet.time_ns, SECOND)
        data = packet.data[:snaplen]
        parts.append(struct.pack(byteorder + "IIII", seconds, rest // unit, len(data), packet.wire_length))
        parts.append(data)
    return b"".join(parts)
