"""Builds pcap and pcapng files byte by byte, in either byte order, right and wrong ones."""

import struct

MICROSECONDS = 0xA1B2C3D4
NANOSECONDS = 0xA1B23C4D
MODIFIED = 0xA1B2CD34


def pcap_header(
    order: str = "<",
    magic: int = MICROSECONDS,
    version: tuple[int, int] = (2, 4),
    snaplen: int = 262144,
    network: int = 1,
    zone: int = 0,
) -> bytes:
    return struct.pack(order + "IHHiIII", magic, *version, zone, 0, snaplen, network)


def pcap_record(
    data: bytes,
    seconds: int = 1,
    fraction: int = 0,
    length: int | None = None,
    order: str = "<",
    extra: bytes = b"",
) -> bytes:
    wire = len(data) if length is None else length
    return struct.pack(order + "4I", seconds, fraction, len(data), wire) + extra + data


def block(kind: int, body: bytes, order: str = "<", size: int | None = None, trailer: int | None = None) -> bytes:
    body += bytes(-len(body) % 4)
    whole = len(body) + 12
    return (
        struct.pack(order + "2I", kind, whole if size is None else size)
        + body
        + struct.pack(order + "I", whole if trailer is None else trailer)
    )


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "2H", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", length: int = -1, version: tuple[int, int] = (1, 0), options: bytes = b"") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "I2Hq", 0x1A2B3C4D, *version, length) + options, order)


def interface(link_type: int = 1, snaplen: int = 0, order: str = "<", options: bytes = b"") -> bytes:
    return block(1, struct.pack(order + "2HI", link_type, 0, snaplen) + options, order)


def enhanced(
    data: bytes,
    ticks: int = 0,
    number: int = 0,
    length: int | None = None,
    order: str = "<",
    options: bytes = b"",
) -> bytes:
    wire = len(data) if length is None else length
    head = struct.pack(order + "5I", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
    return block(6, head + data + bytes(-len(data) % 4) + options, order)


def simple(data: bytes, length: int | None = None, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", len(data) if length is None else length) + data, order)


def obsolete(data: bytes, ticks: int = 0, number: int = 0, drops: int = 0xFFFF, order: str = "<") -> bytes:
    head = struct.pack(order + "2H4I", number, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, head + data, order)
