"""Builds frames with IKE messages: a captured frame with another message, or a new IP packet.

RFC 791 and 8200 (IPv4 and IPv6), RFC 768 (UDP), RFC 3948, 2.2 (non-ESP marker), RFC 1071 (checksum). If the captured
frame is an IP fragment, the new frame has a complete datagram. If it is a TCP segment (RFC 9329), the new frame has a
UDP datagram between the same hosts, because messages do not begin and end at segment boundaries.
"""

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple

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
    """The Internet checksum (RFC 1071) of data, which is padded to 16-bit words.

    Never 0xFFFF, the second zero of ones' complement arithmetic, which UDP uses because 0 means "no checksum" (RFC
    768).
    """
    # The words are the digits to the base 65536, which is 1 modulo 65535, of one number.
    total = int.from_bytes(data, "big")
    return -(total << 8 if len(data) % 2 else total) % 0xFFFF


def frame_check_sequence(frame: bytes) -> bytes:
    """The frame check sequence (IEEE 802.3, 3.2.9) of an Ethernet frame, four bytes in the order of captures."""
    return zlib.crc32(frame).to_bytes(4, "little")


#: Bytes of the longest IKE message that fits into any datagram: 65,535 without the longest IPv4 header, the UDP header,
#: the non-ESP marker and a PPP protocol number.
MAX_MESSAGE_BYTES: Final = 65535 - 60 - 8 - 4 - 2

_MAX_UINT16: Final = 65535
_DONT_FRAGMENT: Final = 0x4000

#: Offsets of the Ethernet type and of the payload, by link type.
_ETHERTYPE_AND_PAYLOAD_AT: Final[dict[int, tuple[int, int]]] = {
    LinkType.ETHERNET: (12, 14),
    LinkType.LINUX_SLL: (14, 16),
    LinkType.LINUX_SLL2: (0, 20),
}
#: An Ethernet type up to this is the length of an LLC frame (IEEE 802.3, 3.2.6).
_MAX_LLC_LENGTH: Final = 1500


class FrameRewriteError(Exception):
    """The message does not fit into the frame; the text is a clause for the user."""


@dataclass(frozen=True, slots=True)
class CleartextMessage:
    """An IKE message in clear to be written to a capture."""

    message: bytes = field(repr=False)  # from the IKE header on; at most MAX_MESSAGE_BYTES
    comment: str | None = None  # packet comment
    ports: tuple[int, int] | None = None  # UDP ports of source and destination; None: those of the packet
    #: whether a non-ESP marker precedes the message; None: as in the packet, or if unknown, on port 4500
    marker: bool | None = None


@dataclass(frozen=True, slots=True)
class CleartextFrame:
    """A frame with a message in clear."""

    frame: bytes = field(repr=False)
    tcp: bool  # the captured frame is a TCP segment


class _IpPacket(NamedTuple):
    """The parts of an IP packet; a named tuple, because one is made for each message."""

    version: int
    headers: bytearray  # with options and extension headers, without fragment header
    protocol_at: int  # offset in `headers` of the protocol number of the payload
    protocol: int  # of the payload
    later: bool  # a fragment other than the first
    addresses: bytes  # source and final destination, as in the pseudo-header
    payload: bytes  # as captured


def build_cleartext_frame(frame: bytes, link_type: int, ip_at: int, clear: CleartextMessage) -> CleartextFrame:
    """Replace the IP payload of a captured frame by a message; padding and frame check sequence are dropped.

    `link_type` is the LINKTYPE number of the frame, `ip_at` the offset of the IP packet. Lengths and checksums are set,
    and a UDP checksum is added if it was missing.

    Raises:
        FrameRewriteError: the headers are missing or truncated, or the message is too long.
    """
    ip = _parse_ip(frame[ip_at:])
    # the protocol of a later IPv6 fragment is that of the first header after the fragment header, such as options
    if ip.protocol not in (PROTOCOL_UDP, PROTOCOL_TCP) and not (ip.later and ip.version == 6):
        raise FrameRewriteError(f"the packet has IP protocol {ip.protocol}, which is neither UDP nor TCP")
    ports = clear.ports or _get_ports(ip)
    payload = (NON_ESP_MARKER if _has_marker(ip, ports, clear) else b"") + clear.message
    packet = _build_ip(ip, ports, payload)
    return CleartextFrame(
        _update_link_header(frame[:ip_at], link_type, len(packet)) + packet, ip.protocol == PROTOCOL_TCP
    )


def _parse_ip(packet: bytes) -> _IpPacket:
    version = packet[0] >> 4 if packet else 0
    if version == 4:
        return _parse_ipv4(packet)
    if version == 6:
        return _parse_ipv6(packet)
    raise FrameRewriteError("it has no IP header")


def _parse_ipv4(packet: bytes) -> _IpPacket:
    size = (packet[0] & 15) * 4
    if size < 20 or size > len(packet):
        raise FrameRewriteError("its IPv4 header is truncated or invalid")
    (total,), (fragment,) = struct.unpack_from(">H", packet, 2), struct.unpack_from(">H", packet, 6)
    headers = bytearray(packet[:size])
    struct.pack_into(">H", headers, 6, fragment & _DONT_FRAGMENT)
    payload = packet[size : total or None]
    return _IpPacket(4, headers, 9, packet[9], fragment & 0x1FFF != 0, packet[12:20], payload)


def _parse_ipv6(packet: bytes) -> _IpPacket:
    truncated = FrameRewriteError("its IPv6 headers are truncated")
    if len(packet) < 40:
        raise truncated
    length = struct.unpack_from(">H", packet, 4)[0]
    end = min(len(packet), 40 + length) if length else len(packet)
    headers, protocol_at = bytearray(packet[:40]), 6
    source, destination = packet[8:24], packet[24:40]
    at, next_header, offset = 40, packet[6], 0
    while next_header in EXTENSION_HEADERS or next_header == FRAGMENT_HEADER:
        if at + 8 > end:
            raise truncated
        if next_header == FRAGMENT_HEADER:
            next_header, offset = packet[at], struct.unpack_from(">H", packet, at + 2)[0] & 0xFFF8
            at += 8
            if offset:
                break
            continue
        header = packet[at : at + 8 + packet[at + 1] * 8]
        if at + len(header) > end or len(header) < 8 + packet[at + 1] * 8:
            raise truncated
        headers[protocol_at], protocol_at = next_header, len(headers)
        headers += header
        if next_header == ROUTING_HEADER:
            destination = _get_final_destination(header) or destination
        next_header = header[0]
        at += len(header)
    return _IpPacket(6, headers, protocol_at, next_header, offset != 0, source + destination, packet[at:end])


def _get_final_destination(routing: bytes) -> bytes | None:
    """The final destination in a routing header, which the checksum covers (RFC 8200, 8.1); None if already reached."""
    routing_type, segments_left = routing[2], routing[3]
    if not segments_left or len(routing) < 24:
        return None
    if routing_type == 4:  # segment routing (RFC 8754, 2) lists the last segment first
        return routing[8:24]
    return routing[-16:] if routing_type in (0, 2) else None


def _get_ports(ip: _IpPacket) -> tuple[int, int]:
    if ip.later:
        raise FrameRewriteError("it is a later fragment of an IP packet, which has no ports")
    if len(ip.payload) < 8:
        raise FrameRewriteError("its UDP or TCP header is truncated")
    source, destination = struct.unpack_from(">2H", ip.payload)
    if ip.protocol == PROTOCOL_TCP and PORT_IKE_NAT not in (source, destination):
        # dissectors of UDP use the ports; the server usually has the lower one
        return (source, PORT_IKE_NAT) if destination <= source else (PORT_IKE_NAT, destination)
    return source, destination


def _has_marker(ip: _IpPacket, ports: tuple[int, int], clear: CleartextMessage) -> bool:
    if clear.marker is not None:
        return clear.marker
    if ip.protocol == PROTOCOL_UDP and not ip.later:
        spi = clear.message[:8]
        if ip.payload[8:12] == NON_ESP_MARKER and ip.payload[12:20] == spi:
            return True
        if ip.payload[8:16] == spi:
            return False
    return PORT_IKE_NAT in ports


def _build_ip(ip: _IpPacket, ports: tuple[int, int], payload: bytes) -> bytes:
    size = 8 + len(payload)
    headers = ip.headers
    total = len(headers) + size if ip.version == 4 else len(headers) - 40 + size
    if total > _MAX_UINT16:
        raise FrameRewriteError(f"a message of {len(payload)} bytes does not fit into an IP packet")
    headers[ip.protocol_at] = PROTOCOL_UDP
    if ip.version == 4:
        struct.pack_into(">H", headers, 2, total)
        struct.pack_into(">H", headers, 10, 0)
        struct.pack_into(">H", headers, 10, internet_checksum(headers))
    else:
        struct.pack_into(">H", headers, 4, total)
    udp = struct.pack(">3H", *ports, size)
    # the order of the pseudo-header's fields does not matter, since each begins at a 16-bit boundary
    checksum = (
        internet_checksum(ip.addresses + struct.pack(">2H", PROTOCOL_UDP, size) + udp + b"\0\0" + payload) or 0xFFFF
    )
    return b"".join((headers, udp, struct.pack(">H", checksum), payload))


def _update_link_header(header: bytes, link_type: int, size: int) -> bytes:
    """Set the lengths in a link header for an IP packet of `size` bytes."""
    if link_type == LinkType.PPP_ETHER:
        return _set_uint16(header, 4, len(header) - 6 + size)
    if link_type == LinkType.NFLOG:
        # the length and type of the attribute with the packet, in the byte order of the capturing machine
        order = "<" if header[-2] else ">"
        return header[:-4] + struct.pack(order + "H", (4 + size) & _MAX_UINT16) + header[-2:]
    if link_type not in _ETHERTYPE_AND_PAYLOAD_AT:
        return header
    type_at, payload_at = _ETHERTYPE_AND_PAYLOAD_AT[link_type]
    ethertype = struct.unpack_from(">H", header, type_at)[0]
    while ethertype in ETHERTYPES_VLAN and payload_at + 4 <= len(header):
        payload_at += 4
        type_at = payload_at - 2
        ethertype = struct.unpack_from(">H", header, type_at)[0]
    if ethertype == ETHERTYPE_PPPOE_SESSION and payload_at + 6 <= len(header):
        return _set_uint16(header, payload_at + 4, len(header) - payload_at - 6 + size)
    if ethertype <= _MAX_LLC_LENGTH and link_type == LinkType.ETHERNET:
        length = len(header) - payload_at + size
        if length <= _MAX_LLC_LENGTH:
            return _set_uint16(header, type_at, length)
        # too long for a length field: replace length, LLC and SNAP header by the Ethernet type of the SNAP header
        return header[:type_at] + header[payload_at + 6 :]
    return header


def _set_uint16(header: bytes, at: int, number: int) -> bytes:
    if number > _MAX_UINT16:
        raise FrameRewriteError("a message of that length does not fit into a PPPoE frame")
    return header[:at] + struct.pack(">H", number) + header[at + 2 :]


#: Default TTL and hop limit of hosts.
DEFAULT_TTL = 64


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """Source or destination of a datagram or segment."""

    address: bytes  # 4 or 16 bytes
    port: int


def build_datagram_frame(
    source: UdpEndpoint, destination: UdpEndpoint, payload: bytes, *, ttl: int | None = None, identification: int = 0
) -> bytes:
    """A UDP datagram as an IP packet without link header, with lengths and checksums set; never fragmented.

    `ttl` is the TTL or hop limit (None: the default of hosts), `identification` that of IPv4.
    """
    udp = dpkt.udp.UDP(sport=source.port, dport=destination.port, ulen=8 + len(payload), data=payload)
    hops = DEFAULT_TTL if ttl is None else ttl
    return _build_packet(source, destination, udp, dpkt.ip.IP_PROTO_UDP, hops, identification)


def build_segment_frame(
    source: UdpEndpoint, destination: UdpEndpoint, payload: bytes, sequence: int, acknowledgement: int
) -> bytes:
    """A TCP segment with data as an IP packet without link header, with lengths and checksums set.

    `sequence` and `acknowledgement` are the numbers in its header, modulo 2**32.
    """
    tcp = dpkt.tcp.TCP(
        sport=source.port,
        dport=destination.port,
        seq=sequence,
        ack=acknowledgement,
        flags=dpkt.tcp.TH_ACK | dpkt.tcp.TH_PUSH,
        data=payload,
    )
    return _build_packet(source, destination, tcp, dpkt.ip.IP_PROTO_TCP, DEFAULT_TTL, 0)


def _build_packet(
    source: UdpEndpoint, destination: UdpEndpoint, data: dpkt.Packet, protocol: int, hops: int, identification: int
) -> bytes:
    """An IP packet with a UDP datagram or TCP segment, whose checksum dpkt computes."""
    if len(source.address) == 4:
        packet = dpkt.ip.IP(p=protocol, ttl=hops, id=identification, len=20 + len(data))
    else:
        packet = dpkt.ip6.IP6(nxt=protocol, hlim=hops, plen=len(data))
        packet.extension_hdrs = {}
    packet.src, packet.dst, packet.data = source.address, destination.address, data
    return bytes(packet)
