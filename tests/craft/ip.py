"""IPv4 (RFC 791) and IPv6 (RFC 8200) packets and their fragments."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address

from . import checksum

HOP_BY_HOP, ICMP, TCP, UDP = 0, 1, 6, 17
ROUTING, FRAGMENT, ESP, AH, ICMPV6, NO_NEXT, DESTINATION_OPTIONS, HIP = 43, 44, 50, 51, 58, 59, 60, 139


@dataclass(frozen=True, slots=True)
class Extension:
    """An IPv6 extension header without its first byte, which the chain fills in."""

    kind: int
    rest: bytes


def hop_by_hop(options: bytes = b"\x05\x02\0\0") -> Extension:
    """Default: router alert (RFC 2711)."""
    return _options(HOP_BY_HOP, options)


def destination_options(options: bytes = b"") -> Extension:
    return _options(DESTINATION_OPTIONS, options)


def _options(kind: int, options: bytes) -> Extension:
    short = -(2 + len(options)) % 8
    if short == 1:
        options += b"\0"
    elif short:
        options += bytes([1, short - 2]) + bytes(short - 2)
    return Extension(kind, bytes([(2 + len(options)) // 8 - 1]) + options)


def routing(kind: int = 0, segments_left: int = 0, data: bytes = bytes(4)) -> Extension:
    """`data`: of 4 + 8 n bytes."""
    return Extension(ROUTING, bytes([(4 + len(data)) // 8 - 1, kind, segments_left]) + data)


def fragment_header(offset: int, more: bool, ident: int) -> Extension:
    """`offset`: in bytes, a multiple of 8."""
    return Extension(FRAGMENT, struct.pack(">xHI", offset | more, ident))


def ipv4(
    payload: bytes,
    source: str = "192.0.2.1",
    destination: str = "192.0.2.2",
    protocol: int = UDP,
    *,
    ttl: int = 64,
    ident: int = 0,
    options: bytes = b"",
    offset: int = 0,
    more: bool = False,
    dont: bool = False,
    tos: int = 0,
    total_length: int | None = None,
) -> bytes:
    """`offset`: of the fragment, in bytes. `total_length`: in place of the true one (offload: 0)."""
    options += bytes(-len(options) % 4)
    size = 20 + len(options)
    header = struct.pack(
        ">BBHHHBBH4s4s",
        0x40 | size // 4,
        tos,
        size + len(payload) if total_length is None else total_length,
        ident,
        dont << 14 | more << 13 | offset // 8,
        ttl,
        protocol,
        0,
        IPv4Address(source).packed,
        IPv4Address(destination).packed,
    )
    header += options
    return header[:10] + struct.pack(">H", checksum.internet(header)) + header[12:] + payload


def ipv6(
    payload: bytes,
    source: str = "2001:db8::1",
    destination: str = "2001:db8::2",
    next_header: int = UDP,
    *,
    hop_limit: int = 64,
    extensions: Sequence[Extension] = (),
    payload_length: int | None = None,
) -> bytes:
    kinds = [*(e.kind for e in extensions), next_header]
    chain = b"".join(bytes([following]) + e.rest for e, following in zip(extensions, kinds[1:], strict=True))
    length = len(chain) + len(payload) if payload_length is None else payload_length
    header = struct.pack(">IHBB", 6 << 28, length, kinds[0], hop_limit)
    return header + IPv6Address(source).packed + IPv6Address(destination).packed + chain + payload


def packet(payload: bytes, source: str, destination: str, protocol: int = UDP, *, ttl: int = 64) -> bytes:
    """IPv4 or IPv6, as the addresses are."""
    if ip_address(source).version == 4:
        return ipv4(payload, source, destination, protocol, ttl=ttl)
    return ipv6(payload, source, destination, protocol, hop_limit=ttl)


def ip_fragments(packet: bytes, mtu: int, ident: int | None = None) -> list[bytes]:
    """The packet as it is, where it fits; else fragments of at most `mtu` bytes, in order."""
    if len(packet) <= mtu:
        return [packet]
    return _fragments4(packet, mtu, ident) if packet[0] >> 4 == 4 else _fragments6(packet, mtu, ident or 1)


def _fragments4(packet: bytes, mtu: int, ident: int | None) -> list[bytes]:
    """Options are copied to every fragment."""
    size = (packet[0] & 15) * 4
    tos, old_ident, ttl, protocol = packet[1], int.from_bytes(packet[4:6], "big"), packet[8], packet[9]
    source, destination = (str(IPv4Address(packet[at : at + 4])) for at in (12, 16))
    payload, step = packet[size:], (mtu - size) // 8 * 8
    return [
        ipv4(
            payload[at : at + step],
            source,
            destination,
            protocol,
            ttl=ttl,
            tos=tos,
            ident=old_ident if ident is None else ident,
            options=packet[20:size],
            offset=at,
            more=at + step < len(payload),
        )
        for at in range(0, len(payload), step)
    ]


def _fragments6(packet: bytes, mtu: int, ident: int) -> list[bytes]:
    """Hop-by-hop options and routing header (and options before it) stay in front of the fragment header."""
    kind_at, end = 6, 40
    at, kind = 40, packet[6]
    while kind in (HOP_BY_HOP, ROUTING, DESTINATION_OPTIONS):
        following = at + (packet[at + 1] + 1) * 8
        if kind in (HOP_BY_HOP, ROUTING):
            kind_at, end = at, following
        at, kind = following, packet[at]
    first = packet[kind_at]
    front = bytearray(packet[:end])
    front[kind_at] = FRAGMENT
    payload, step = packet[end:], (mtu - end - 8) // 8 * 8
    result = []
    for offset in range(0, len(payload), step):
        part = payload[offset : offset + step]
        header = bytes([first]) + fragment_header(offset, offset + step < len(payload), ident).rest
        front[4:6] = struct.pack(">H", end - 40 + len(header) + len(part))
        result.append(bytes(front) + header + part)
    return result
