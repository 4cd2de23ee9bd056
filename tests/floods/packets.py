"""Packets of floods, made fast: raw IP, from 192.0.2.1 to 192.0.2.2 unless told otherwise. Checksums are 0."""

import struct
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.craft import ike, ip

INITIATOR, RESPONDER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
SPI_I, SPI_R = 0x0123456789ABCDEF, 0xFEDCBA9876543210
IKE_SA_INIT, IKE_AUTH, CREATE_CHILD_SA, INFORMATIONAL = 34, 35, 36, 37
FROM_INITIATOR, RESPONSE = 0x08, 0x20
SK, SKF = 46, 53
START_NS = 1_764_000_000 * 10**9
RAW_IP = 101
MICROSECOND, MILLISECOND, SECOND = 10**3, 10**6, 10**9

#: The payloads of an IKE_SA_INIT request with a key exchange of 64 bytes, and the type of the first one.
FIRST, INIT = ike.chain(
    [ike.sa([ike.CLASSIC]), ike.ke(19, Random(1).randbytes(64)), ike.nonce(Random(2).randbytes(32))]
)

Timed = tuple[int, bytes]


def ipv4(
    payload: bytes,
    protocol: int = ip.UDP,
    *,
    source: bytes = INITIATOR,
    destination: bytes = RESPONDER,
    ident: int = 0,
    fragment: int = 0,
    ttl: int = 64,
) -> bytes:
    """`fragment`: flags and offset, as in the header."""
    lengths = (0x45, 0, 20 + len(payload), ident & 0xFFFF, fragment, ttl, protocol, 0)
    return struct.pack(">BBHHHBBH", *lengths) + source + destination + payload


def udp(payload: bytes, port: int = 500, *, sport: int | None = None) -> bytes:
    return struct.pack(">HHHH", sport or port, port, 8 + len(payload), 0) + payload


def tcp(payload: bytes, seq: int, sport: int = 40_000) -> bytes:
    """A segment to port 4500."""
    return struct.pack(">HHIIBBHHH", sport, 4500, seq % 2**32, 0, 0x50, 0x10, 65535, 0, 0) + payload


def message(
    spi_i: int = SPI_I,
    spi_r: int = 0,
    exchange: int = IKE_SA_INIT,
    flags: int = FROM_INITIATOR,
    message_id: int = 0,
    body: bytes = INIT,
    first: int = FIRST,
    version: int = 0x20,
) -> bytes:
    """An IKE message; without arguments an IKE_SA_INIT request."""
    numbers = (spi_i, spi_r, first, version, exchange, flags, message_id, 28 + len(body))
    return struct.pack(">QQBBBBII", *numbers) + body


def encrypted(body: bytes, **fields: int) -> bytes:
    """An IKE message of one SK payload with these encrypted bytes."""
    content = struct.pack(">BBH", 41, 0, 4 + len(body)) + body
    return message(**{"spi_r": SPI_R, "exchange": IKE_AUTH, "message_id": 1, **fields}, body=content, first=SK)


def fragment(number: int, total: int, body: bytes, **fields: int) -> bytes:
    """An IKE fragment (RFC 7383): a message of one SKF payload."""
    content = struct.pack(">BBHHH", 41 if number == 1 else 0, 0, 8 + len(body), number, total) + body
    return message(**{"spi_r": SPI_R, "exchange": IKE_AUTH, "message_id": 1, **fields}, body=content, first=SKF)


def request(data: bytes, **fields: Any) -> bytes:
    """An IP packet of the initiator."""
    return ipv4(udp(data), **fields)


def response(data: bytes) -> bytes:
    """An IP packet of the responder."""
    return ipv4(udp(data), source=RESPONDER, destination=INITIATOR)


def spaced(packets: Iterable[bytes], gap_ns: int = 10 * MICROSECOND) -> Iterable[Timed]:
    """Packets at regular times."""
    return ((place * gap_ns, packet) for place, packet in enumerate(packets))


def pcap(packets: Iterable[Timed]) -> bytes:
    """A capture of raw IP; times are nanoseconds after START_NS."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, RAW_IP)]
    for time, packet in packets:
        seconds, rest = divmod(START_NS + time, SECOND)
        parts.append(struct.pack("<IIII", seconds, rest, len(packet), len(packet)) + packet)
    return b"".join(parts)


def capture(packets: Iterable[bytes]) -> bytes:
    """A capture of packets 10 µs apart."""
    return pcap(spaced(packets))
