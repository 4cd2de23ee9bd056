"""What IP carries: UDP (RFC 768), TCP (RFC 9293) with IKE in it (RFC 9329), ICMP errors, ESP and AH."""

import struct
from ipaddress import ip_address

from . import checksum, ip

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

NON_ESP_MARKER = bytes(4)  # RFC 3948, section 2.2
NAT_KEEPALIVE = b"\xff"  # RFC 3948, section 2.3
TCP_PREFIX = b"IKETCP"  # RFC 9329, section 4


def udp(
    payload: bytes,
    sport: int,
    dport: int,
    source: str = "192.0.2.1",
    destination: str = "192.0.2.2",
    *,
    with_checksum: bool = True,
) -> bytes:
    """The addresses go into the checksum; without it, it is 0."""
    header = struct.pack(">HHH", sport, dport, 8 + len(payload))
    total = 0
    if with_checksum:
        total = checksum.with_pseudo_header(header + b"\0\0" + payload, source, destination, ip.UDP) or 0xFFFF
    return header + struct.pack(">H", total) + payload


def udp_packet(
    payload: bytes,
    sport: int = 500,
    dport: int = 500,
    source: str = "192.0.2.1",
    destination: str = "192.0.2.2",
    *,
    ttl: int = 64,
) -> bytes:
    """UDP in IPv4 or IPv6, as the addresses are."""
    return ip.packet(udp(payload, sport, dport, source, destination), source, destination, ttl=ttl)


def tcp(
    payload: bytes,
    sport: int,
    dport: int,
    seq: int,
    ack: int = 0,
    flags: int = ACK,
    source: str = "192.0.2.1",
    destination: str = "192.0.2.2",
    *,
    options: bytes = b"",
) -> bytes:
    options += bytes(-len(options) % 4)
    offset = (20 + len(options)) // 4
    header = struct.pack(">HHIIBBH", sport, dport, seq % 2**32, ack % 2**32, offset << 4, flags, 65535)
    total = checksum.with_pseudo_header(header + bytes(4) + options + payload, source, destination, ip.TCP)
    return header + struct.pack(">HH", total, 0) + options + payload


def tcp_packet(
    payload: bytes,
    sport: int,
    dport: int,
    seq: int,
    ack: int = 0,
    flags: int = ACK,
    source: str = "192.0.2.1",
    destination: str = "192.0.2.2",
) -> bytes:
    segment = tcp(payload, sport, dport, seq, ack, flags, source, destination)
    return ip.packet(segment, source, destination, ip.TCP)


def tcp_framed(message: bytes) -> bytes:
    """An IKE message in a TCP stream: length with its own 2 bytes, non-ESP marker, message (RFC 9329)."""
    return struct.pack(">H", 2 + 4 + len(message)) + NON_ESP_MARKER + message


def tcp_framed_esp(packet: bytes) -> bytes:
    return struct.pack(">H", 2 + len(packet)) + packet


def esp(spi: int, sequence: int, body: bytes) -> bytes:
    return struct.pack(">II", spi, sequence) + body


def ah(payload: bytes, next_header: int, spi: int, sequence: int, icv: bytes = bytes(12)) -> bytes:
    return struct.pack(">BBHII", next_header, (12 + len(icv)) // 4 - 2, 0, spi, sequence) + icv + payload


def icmp_error(quoted: bytes, source: str, destination: str, *, mtu: int | None = None) -> bytes:
    """An IP packet that refuses the packet `quoted`: port unreachable, or too big where `mtu` is given."""
    if ip_address(source).version == 4:
        kind, code, rest = (3, 3, 0) if mtu is None else (3, 4, mtu)
        quoted = quoted[:548]
        body = struct.pack(">BBHI", kind, code, 0, rest) + quoted
        total = checksum.internet(body)
    else:
        kind, code, rest = (1, 4, 0) if mtu is None else (2, 0, mtu)
        quoted = quoted[:1232]
        body = struct.pack(">BBHI", kind, code, 0, rest) + quoted
        total = checksum.with_pseudo_header(body, source, destination, ip.ICMPV6)
    body = body[:2] + struct.pack(">H", total) + body[4:]
    return ip.packet(body, source, destination, ip.ICMP if ip_address(source).version == 4 else ip.ICMPV6)
