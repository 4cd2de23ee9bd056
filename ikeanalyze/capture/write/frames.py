"""A frame with another IKE message in it: the headers of a captured frame, made right for the new one.

RFC 791 and 8200 (IPv4 and IPv6, and what becomes of their fragment headers), RFC 768 (UDP), RFC 3948, 2.2 (the
non-ESP marker). Where the captured frame is an IP fragment, the new one holds a whole datagram; where it is a TCP
segment (RFC 9329), the new one is UDP between the same hosts, because the message begins and ends in the stream and
not in the segment.

Checksums of frames that are written: the Internet checksum (RFC 1071) and Ethernet's frame check sequence (IEEE 802.3, 3.2.9).

A UDP datagram as the IP packet that it crosses a network in, where nobody saw the packet itself (RFC 791, 8200, 768).
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final

import dpkt

from ikeanalyze.capture.decode.link import LinkType
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_PPPOE_SESSION,
    ETHERTYPES_VLAN,
    EXTENSION_HEADERS,
    FRAGMENT_HEADER,
    NON_ESP_MARKER,
    PORT_IKE_NAT,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    ROUTING_HEADER,
)


def internet_checksum(data: bytes | bytearray) -> int:
    """The ones' complement of the ones' complement sum of 16-bit words; an odd byte counts as followed by a zero byte.

    Never 0xFFFF: of the two zeros of this arithmetic it gives 0. UDP sends the other one, since 0 means "none" there (RFC 768).
    """
    # Read as one number, the words are its digits to the base 65536, which is 1 modulo 65535.
    total = int.from_bytes(data, "big") << 8 * (len(data) % 2)
    return -total % 0xFFFF


def frame_check_sequence(frame: bytes) -> bytes:
    """The four bytes behind an Ethernet frame, in the order in which captures hold them."""
    return zlib.crc32(frame).to_bytes(4, "little")


#: Bytes of the longest IKE message that any datagram takes: what the longest IPv4 header, the UDP header, the non-ESP
#: marker and a PPP protocol number leave of 65,535.
LONGEST_MESSAGE: Final = 65535 - 60 - 8 - 4 - 2

_LONGEST: Final = 65535
_DONT_FRAGMENT: Final = 0x4000

#: Where the Ethernet type stands and where what it tells of begins, by link type.
_TYPE_AND_INSIDE: Final[dict[int, tuple[int, int]]] = {
    LinkType.ETHERNET: (12, 14),
    LinkType.LINUX_SLL: (14, 16),
    LinkType.LINUX_SLL2: (0, 20),
}
#: An Ethernet type up to this is the length of what follows, which begins with an LLC header (IEEE 802.3, 3.2.6).
_LONGEST_LLC: Final = 1500


class FrameRewriteError(Exception):
    """The message cannot be put into the frame; the text is a clause for the user."""


@dataclass(frozen=True, slots=True)
class CleartextMessage:
    """An IKE message in clear, and how it is to stand in a capture."""

    message: bytes = field(repr=False)  # from its IKE header on, as it is to be dissected; at most LONGEST_MESSAGE
    comment: str | None = None  # for whoever looks at the packet
    #: UDP ports of source and destination; None: those that the packet has, which a later IP fragment has not
    ports: tuple[int, int] | None = None
    #: a non-ESP marker stands before it; None: as in the packet, or where that does not tell, with port 4500
    marker: bool | None = None


@dataclass(frozen=True, slots=True)
class CleartextFrame:
    """What became of a message in clear."""

    frame: bytes = field(repr=False)
    tcp: bool  # the captured frame is a TCP segment


@dataclass(frozen=True, slots=True)
class _IpPacket:
    """An IP packet taken apart."""

    version: int
    headers: bytearray  # without fragment header, with options and extension headers
    next_at: int  # where in the headers the protocol stands of what follows them
    protocol: int  # of what followed them
    later: bool  # what followed them is not the beginning of a datagram
    ends: bytes  # source and final destination, as the pseudo-header has them
    payload: bytes  # what followed them, as captured


def build_cleartext_frame(frame: bytes, link_type: int, ip_at: int, clear: CleartextMessage) -> CleartextFrame:
    """The frame with the message in it, without what stood behind the IP packet (padding, frame check sequence).

    `frame` is as captured, `link_type` its LINKTYPE number, and the IP packet begins at `ip_at`. Lengths and checksums
    of the result are right; a UDP checksum is there even where there was none.

    Raises:
        UnwritableError: the frame has no such headers, they are cut, or the message is too long for them.

    """
    ip = _read(frame[ip_at:])
    # a later fragment of IPv6 has the number of the first header behind the fragment header, options perhaps
    if ip.protocol not in (PROTOCOL_UDP, PROTOCOL_TCP) and not (ip.later and ip.version == 6):
        raise FrameRewriteError(f"the packet has IP protocol {ip.protocol}, which is neither UDP nor TCP")
    ports = clear.ports or _ports(ip)
    payload = (NON_ESP_MARKER if _marked(ip, ports, clear) else b"") + clear.message
    packet = _written(ip, ports, payload)
    return CleartextFrame(_link_header(frame[:ip_at], link_type, len(packet)) + packet, ip.protocol == PROTOCOL_TCP)


def _read(packet: bytes) -> _IpPacket:
    version = packet[0] >> 4 if packet else 0
    if version == 4:
        return _read_ipv4(packet)
    if version == 6:
        return _read_ipv6(packet)
    raise FrameRewriteError("there is no IP header in it")


def _read_ipv4(packet: bytes) -> _IpPacket:
    size = (packet[0] & 15) * 4
    if size < 20 or size > len(packet):
        raise FrameRewriteError("its IPv4 header is cut or impossible")
    (total,), (fragment,) = struct.unpack_from(">H", packet, 2), struct.unpack_from(">H", packet, 6)
    headers = bytearray(packet[:size])
    struct.pack_into(">H", headers, 6, fragment & _DONT_FRAGMENT)
    payload = packet[size : total or None]
    return _IpPacket(4, headers, 9, packet[9], fragment & 0x1FFF != 0, packet[12:20], payload)


def _read_ipv6(packet: bytes) -> _IpPacket:
    cut = FrameRewriteError("its IPv6 headers are cut")
    if len(packet) < 40:
        raise cut
    length = struct.unpack_from(">H", packet, 4)[0]
    end = min(len(packet), 40 + length) if length else len(packet)
    headers, next_at = bytearray(packet[:40]), 6
    source, destination = packet[8:24], packet[24:40]
    at, kind, offset = 40, packet[6], 0
    while kind in EXTENSION_HEADERS or kind == FRAGMENT_HEADER:
        if at + 8 > end:
            raise cut
        if kind == FRAGMENT_HEADER:
            kind, offset = packet[at], struct.unpack_from(">H", packet, at + 2)[0] & 0xFFF8
            at += 8
            if offset:
                break
            continue
        header = packet[at : at + 8 + packet[at + 1] * 8]
        if at + len(header) > end or len(header) < 8 + packet[at + 1] * 8:
            raise cut
        headers[next_at], next_at = kind, len(headers)
        headers += header
        if kind == ROUTING_HEADER:
            destination = _final_destination(header) or destination
        kind = header[0]
        at += len(header)
    return _IpPacket(6, headers, next_at, kind, offset != 0, source + destination, packet[at:end])


def _final_destination(routing: bytes) -> bytes | None:
    """Where a routing header still leads to (RFC 8200, 8.1): the checksum is made with that address."""
    kind, left = routing[2], routing[3]
    if not left or len(routing) < 24:
        return None
    if kind == 4:  # segment routing (RFC 8754, 2) lists the last one first
        return routing[8:24]
    return routing[-16:] if kind in (0, 2) else None


def _ports(ip: _IpPacket) -> tuple[int, int]:
    if ip.later:
        raise FrameRewriteError("it is a later fragment of an IP packet, which does not tell the ports")
    if len(ip.payload) < 8:
        raise FrameRewriteError("its UDP or TCP header is cut")
    source, destination = struct.unpack_from(">2H", ip.payload)
    if ip.protocol == PROTOCOL_TCP and PORT_IKE_NAT not in (source, destination):
        # UDP is dissected by its ports, and a server's port is the lower one
        return (source, PORT_IKE_NAT) if destination <= source else (PORT_IKE_NAT, destination)
    return source, destination


def _marked(ip: _IpPacket, ports: tuple[int, int], clear: CleartextMessage) -> bool:
    if clear.marker is not None:
        return clear.marker
    if ip.protocol == PROTOCOL_UDP and not ip.later:
        spi = clear.message[:8]
        if ip.payload[8:12] == NON_ESP_MARKER and ip.payload[12:20] == spi:
            return True
        if ip.payload[8:16] == spi:
            return False
    return PORT_IKE_NAT in ports


def _written(ip: _IpPacket, ports: tuple[int, int], payload: bytes) -> bytes:
    size = 8 + len(payload)
    headers = ip.headers
    total = len(headers) + size if ip.version == 4 else len(headers) - 40 + size
    if total > _LONGEST:
        raise FrameRewriteError(f"a message of {len(payload)} bytes does not fit into an IP packet")
    headers[ip.next_at] = PROTOCOL_UDP
    if ip.version == 4:
        struct.pack_into(">H", headers, 2, total)
        struct.pack_into(">H", headers, 10, 0)
        struct.pack_into(">H", headers, 10, internet_checksum(headers))
    else:
        struct.pack_into(">H", headers, 4, total)
    udp = struct.pack(">3H", *ports, size)
    # with an even number of bytes before each part, the pseudo-header's order of fields does not matter
    checksum = internet_checksum(ip.ends + struct.pack(">2H", PROTOCOL_UDP, size) + udp + b"\0\0" + payload) or 0xFFFF
    return b"".join((headers, udp, struct.pack(">H", checksum), payload))


def _link_header(header: bytes, link_type: int, size: int) -> bytes:
    """A link header before an IP packet of so many bytes: lengths in it are made right, all else is as it was."""
    if link_type == LinkType.PPP_ETHER:
        return _with_number(header, 4, len(header) - 6 + size)
    if link_type not in _TYPE_AND_INSIDE:
        return header
    type_at, inside = _TYPE_AND_INSIDE[link_type]
    kind = struct.unpack_from(">H", header, type_at)[0]
    while kind in ETHERTYPES_VLAN and inside + 4 <= len(header):
        inside += 4
        type_at = inside - 2
        kind = struct.unpack_from(">H", header, type_at)[0]
    if kind == ETHERTYPE_PPPOE_SESSION and inside + 6 <= len(header):
        return _with_number(header, inside + 4, len(header) - inside - 6 + size)
    if kind <= _LONGEST_LLC and link_type == LinkType.ETHERNET:
        length = len(header) - inside + size
        if length <= _LONGEST_LLC:
            return _with_number(header, type_at, length)
        # no length can tell that: the Ethernet type that ends the LLC and SNAP header takes its place
        return header[:type_at] + header[inside + 6 :]
    return header


def _with_number(header: bytes, at: int, number: int) -> bytes:
    if number > _LONGEST:
        raise FrameRewriteError("a message of that length does not fit into a PPPoE frame")
    return header[:at] + struct.pack(">H", number) + header[at + 2 :]


#: Hops that hosts give their packets by default.
DEFAULT_TTL = 64


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """Where a datagram comes from or goes to."""

    address: bytes  # 4 or 16 bytes
    port: int


def build_datagram_frame(
    source: UdpEndpoint, destination: UdpEndpoint, payload: bytes, *, ttl: int | None = None, identification: int = 0
) -> bytes:
    """An IP packet without link header, with right lengths and checksums; in one piece whatever its size.

    `ttl`: TTL or hop limit; None: not known, so the usual one. `identification` is IPv4's.
    """
    udp = dpkt.udp.UDP(sport=source.port, dport=destination.port, ulen=8 + len(payload), data=payload)
    hops = DEFAULT_TTL if ttl is None else ttl
    if len(source.address) == 4:
        packet = dpkt.ip.IP(
            src=source.address, dst=destination.address, p=dpkt.ip.IP_PROTO_UDP, ttl=hops, id=identification
        )
        packet.data = udp
        packet.len = 28 + len(payload)
    else:
        packet = dpkt.ip6.IP6(
            src=source.address, dst=destination.address, nxt=dpkt.ip.IP_PROTO_UDP, hlim=hops, plen=8 + len(payload)
        )
        packet.data = udp
        packet.extension_hdrs = {}
    return bytes(packet)
