"""pcapng files (draft-ietf-opsawg-pcapng). Names and comments may have bytes that are not UTF-8, as surrogates."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from . import link
from .link import ByteOrder
from .packet import SECOND, Packet

SECTION_HEADER, INTERFACE_DESCRIPTION, OLD_PACKET, SIMPLE_PACKET = 0x0A0D0D0A, 1, 2, 3
NAME_RESOLUTION, INTERFACE_STATISTICS, ENHANCED_PACKET, DECRYPTION_SECRETS = 4, 5, 6, 10
CUSTOM, LOCAL_USE = 0xBAD, 0x80000123

COMMENT, IF_NAME, IF_TSRESOL, IF_TSOFFSET, USER_APPLICATION = 1, 2, 9, 14, 4

BlockKind = Literal["EPB", "SPB", "PB"]


@dataclass(frozen=True, slots=True)
class Interface:
    linktype: int = link.ETHERNET
    tsresol: int | None = 9  # as in the option: a power of 10, or with bit 7 set of 2; None: no option, microseconds
    tsoffset: int | None = None  # seconds, added to every time
    snaplen: int = 0  # 0: no limit
    name: str | None = None

    @property
    def units(self) -> int:
        """In a second."""
        if self.tsresol is None:
            return 10**6
        return int(2 ** (self.tsresol & 127) if self.tsresol & 128 else 10**self.tsresol)


def block(kind: int, body: bytes, byteorder: ByteOrder = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(byteorder + "I", len(body) + 12)
    return struct.pack(byteorder + "I", kind) + length + body + length


def option(code: int, value: bytes, byteorder: ByteOrder = "<") -> bytes:
    return struct.pack(byteorder + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section_header(byteorder: ByteOrder = "<", comment: str | None = None) -> bytes:
    body = struct.pack(byteorder + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    if comment is not None:
        body += option(COMMENT, comment.encode(), byteorder) + bytes(4)
    return block(SECTION_HEADER, body, byteorder)


def interface_description(interface: Interface, byteorder: ByteOrder = "<") -> bytes:
    options = b""
    if interface.name is not None:
        options += option(IF_NAME, interface.name.encode("utf-8", "surrogateescape"), byteorder)
    if interface.tsresol is not None:
        options += option(IF_TSRESOL, bytes([interface.tsresol]), byteorder)
    if interface.tsoffset is not None:
        options += option(IF_TSOFFSET, struct.pack(byteorder + "q", interface.tsoffset), byteorder)
    body = struct.pack(byteorder + "HHI", interface.linktype, 0, interface.snaplen)
    return block(INTERFACE_DESCRIPTION, body + options + (bytes(4) if options else b""), byteorder)


def packet_block(packet: Packet, interface: Interface, kind: BlockKind = "EPB", byteorder: ByteOrder = "<") -> bytes:
    data = packet.data[: interface.snaplen] if interface.snaplen else packet.data
    padded = data + bytes(-len(data) % 4)
    if kind == "SPB":
        return block(SIMPLE_PACKET, struct.pack(byteorder + "I", packet.wire_length) + padded, byteorder)
    ticks = (packet.time_ns - (interface.tsoffset or 0) * SECOND) * interface.units // SECOND
    times_and_lengths = (ticks >> 32, ticks & 0xFFFFFFFF, len(data), packet.wire_length)
    if kind == "PB":
        head = struct.pack(byteorder + "HHIIII", packet.interface, 0xFFFF, *times_and_lengths)
    else:
        head = struct.pack(byteorder + "IIIII", packet.interface, *times_and_lengths)
    options = b""
    if packet.comment is not None:
        options = option(COMMENT, packet.comment.encode("utf-8", "surrogateescape"), byteorder) + bytes(4)
    return block(OLD_PACKET if kind == "PB" else ENHANCED_PACKET, head + padded + options, byteorder)


def unknown_blocks(byteorder: ByteOrder = "<") -> bytes:
    """A custom block and one of a type for local use: a reader must step over them."""
    custom = block(CUSTOM, struct.pack(byteorder + "I", 32473) + b"not for you", byteorder)
    return custom + block(LOCAL_USE, b"nor this", byteorder)


def pcapng(
    packets: Sequence[Packet],
    *,
    byteorder: ByteOrder | Sequence[ByteOrder] = "<",
    interfaces: Sequence[Interface] = (Interface(),),
    block: BlockKind = "EPB",
    comment: str | None = None,
    unknown: bool = False,
    sections: int = 1,
) -> bytes:
    """The file.

    `byteorder`: one, or one for each section. `sections`: the packets are shared out evenly, in order; each
    section has all the interfaces. `unknown`: blocks that no reader knows stand before each packet. SPB have
    no time and no interface but the first.
    """
    orders = [byteorder] * sections if isinstance(byteorder, str) else list(byteorder)
    parts = []
    for index, order in enumerate(orders):
        parts.append(section_header(order, comment))
        parts.extend(interface_description(interface, order) for interface in interfaces)
        first, last = (len(packets) * n // len(orders) for n in (index, index + 1))
        for packet in packets[first:last]:
            if unknown:
                parts.append(unknown_blocks(order))
            parts.append(packet_block(packet, interfaces[packet.interface], block, order))
    return b"".join(parts)
