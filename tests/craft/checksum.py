"""The Internet checksum (RFC 1071) and the pseudo-headers that UDP and TCP add to it."""

import struct
from ipaddress import ip_address


def internet(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def with_pseudo_header(segment: bytes, source: str, destination: str, protocol: int) -> int:
    """RFC 9293 (IPv4) and RFC 8200, section 8.1 (IPv6)."""
    a, b = ip_address(source), ip_address(destination)
    if a.version == 4:
        tail = struct.pack(">xBH", protocol, len(segment))
    else:
        tail = struct.pack(">I3xB", len(segment), protocol)
    return internet(a.packed + b.packed + tail + segment)
