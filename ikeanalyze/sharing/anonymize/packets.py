"""Packets with other addresses and contents, of the same size, from the link layer to the IKE message.

Each header is either understood completely, or the packet is dropped: no byte of the original is copied that this
package does not know. Lengths stay, checksums are computed again. The checksum of a datagram that the capture has only
in part becomes 0.

Link layers: Ethernet, Linux cooked captures, raw IP, loopback, PPP, PPPoE; VLAN tags, MPLS. Tunnels: IP in IP, GRE,
EtherIP, VXLAN, Geneve, GTP-U. Transport: IKE, RADIUS, ESP, NAT keepalives, TCP with IKE, and ICMP errors about these.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.capture.decode.link import RAW_LINKS, LinkType
from ikeanalyze.capture.formats.records import Interface
from ikeanalyze.capture.protocol_numbers import (
    ESP_HEADER_BYTES,
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPPOE_SESSION,
    ETHERTYPES_MPLS,
    ETHERTYPES_VLAN,
    FRAGMENT_HEADER,
    IKE_HEADER_BYTES,
    LOOPBACK_IPV4,
    LOOPBACK_IPV6,
    MAX_LLC_LENGTH,
    NON_ESP_MARKER,
    PORT_IKE,
    PORT_IKE_NAT,
    PORTS_RADIUS,
    PROTOCOL_AH,
    PROTOCOL_ESP,
    PROTOCOL_ETHERIP,
    PROTOCOL_GRE,
    PROTOCOL_ICMP,
    PROTOCOL_ICMPV6,
    PROTOCOL_IPV4,
    PROTOCOL_IPV6,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    ROUTING_HEADER,
)
from ikeanalyze.capture.write.frames import frame_check_sequence, internet_checksum
from ikeanalyze.sharing.anonymize.eap import rewrite_radius
from ikeanalyze.sharing.anonymize.messages import MessageAnonymizer
from ikeanalyze.sharing.anonymize.payloads import SeenEndpoint
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms

_PPP_PROTOCOLS: Final = {0x0021: ETHERTYPE_IPV4, 0x0057: ETHERTYPE_IPV6}
_HOP_BY_HOP: Final = 0
_DESTINATION_OPTIONS: Final = 60
_NOP_OPTION: Final = 1
_MAX_DEPTH: Final = 8
_MORE_FRAGMENTS: Final = 0x2000
_UDP_HEADER: Final = 8
_KEEPALIVE: Final = b"\xff"
_PORT_GTP: Final = 2152
_PORTS_VXLAN: Final = (4789, 8472)
_PORT_GENEVE: Final = 6081
_FCS_BYTES: Final = 4
#: Maximum segment size, window scale, selective acknowledgements (RFC 9293, 3.2; RFC 7323; RFC 2018).
_KEPT_TCP_OPTIONS: Final = (2, 3, 4, 5)
#: Types of ICMP messages that quote a packet, which begins after eight bytes; `_REDIRECT` also has an address.
_ICMP_ERRORS: Final = {PROTOCOL_ICMP: (3, 4, 5, 11, 12), PROTOCOL_ICMPV6: (1, 2, 3, 4)}
_REDIRECT: Final = 5
_ICMP_HEADER: Final = 8
#: Offset of the checksum in each protocol's header.
_CHECKSUM_AT: Final = {PROTOCOL_UDP: 6, PROTOCOL_TCP: 16, PROTOCOL_ICMP: 2, PROTOCOL_ICMPV6: 2}


class DroppedPacketError(Exception):
    """A packet has something that is not understood; the text names it."""


@dataclass(slots=True)
class _Region:
    """A part of a frame that is being rewritten, and where it ends."""

    data: bytearray = field(repr=False)
    end: int  # after its last captured byte
    wire_end: int  # after its last byte on the wire
    depth: int = 0  # IP packets around it
    quoted: bool = False  # in an ICMP error, which may have only its beginning
    content_end: int = 0  # after the last byte that was understood

    @property
    def complete(self) -> bool:
        return self.end == self.wire_end and not self.quoted

    def get_uint16(self, at: int) -> int:
        if at + 2 > self.end:
            raise DroppedPacketError("truncated header")
        return int.from_bytes(self.data[at : at + 2], "big")

    def get_bytes(self, at: int, size: int) -> bytes:
        if at + size > self.end:
            raise DroppedPacketError("truncated header")
        return bytes(self.data[at : at + size])

    def set(self, at: int, data: bytes) -> None:
        self.data[at : at + len(data)] = data


@dataclass(frozen=True, slots=True)
class IpAddresses:
    """Source and destination of an IP packet, as captured; 4 or 16 bytes each."""

    source: bytes
    destination: bytes


class PacketAnonymizer:
    """Rewrites packets one by one.

    IP fragments and TCP segments are parts of something larger, which is rewritten before (see `split`).
    """

    def __init__(
        self,
        pseudonyms: Pseudonyms,
        messages: MessageAnonymizer,
        ports: Collection[int] = (),
        split: Mapping[tuple[int, int], bytes] | None = None,
    ) -> None:
        """`split`: the IP payload of each fragment, and the data of each TCP segment, by packet number and offset."""
        self.dropped: Counter[str] = Counter()
        self._pseudonyms = pseudonyms
        self._messages = messages
        self._ports = frozenset(ports)
        self._split = split or {}
        self._number = 0

    def anonymize(self, number: int, frame: bytes, wire_size: int, interface: Interface) -> bytes | None:
        """The frame with this packet number; None: it is dropped, and counted in `dropped`."""
        self._number = number
        fcs = interface.fcs_bytes or 0
        region = _Region(bytearray(frame), len(frame) - (fcs if wire_size == len(frame) else 0), wire_size - fcs)
        try:
            self._rewrite_link(region, interface.link_type)
        except DroppedPacketError as error:
            self.dropped[str(error)] += 1
            return None
        # the bytes after the IP packet are padding, which may hold anything
        region.set(region.content_end, bytes(len(frame) - region.content_end))
        if fcs == _FCS_BYTES and wire_size == len(frame):
            region.set(len(frame) - fcs, frame_check_sequence(bytes(region.data[:-fcs])))
        return bytes(region.data)

    def _rewrite_link(self, region: _Region, link_type: int) -> None:
        if link_type == LinkType.ETHERNET:
            self._rewrite_ethernet(region, 0)
        elif link_type == LinkType.LINUX_SLL:
            self._rewrite_cooked_address(region, 6, region.get_uint16(4))
            self._rewrite_ethertype(region, 16, region.get_uint16(14))
        elif link_type == LinkType.LINUX_SLL2:
            self._rewrite_cooked_address(region, 12, region.get_bytes(11, 1)[0])
            self._rewrite_ethertype(region, 20, region.get_uint16(0))
        elif link_type in (*RAW_LINKS, LinkType.IPV4, LinkType.IPV6):
            self._rewrite_ip(region, 0)
        elif link_type in (LinkType.NULL, LinkType.LOOP):
            family = max(region.get_bytes(0, 4))
            if family != LOOPBACK_IPV4 and family not in LOOPBACK_IPV6:
                raise DroppedPacketError("not IP")
            self._rewrite_ip(region, 4)
        elif link_type in (LinkType.PPP, LinkType.PPP_HDLC):
            self._rewrite_ppp(region, 0)
        elif link_type == LinkType.PPP_ETHER:
            self._rewrite_ppp(region, 6)
        else:
            raise DroppedPacketError("link layer")

    def _rewrite_cooked_address(self, region: _Region, at: int, size: int) -> None:
        """The link-layer address in a header of a Linux cooked capture, in a field of eight bytes."""
        address = region.get_bytes(at, 8)[:size] if size <= 8 else b""
        mapped = self._pseudonyms.map_mac(address) if len(address) == 6 else self._pseudonyms.map_bytes(address)
        region.set(at, mapped.ljust(8, b"\0"))

    def _rewrite_ethernet(self, region: _Region, at: int) -> None:
        header = region.get_bytes(at, 14)
        region.set(at, self._pseudonyms.map_mac(header[:6]) + self._pseudonyms.map_mac(header[6:12]))
        self._rewrite_ethertype(region, at + 14, region.get_uint16(at + 12))

    def _rewrite_ethertype(self, region: _Region, at: int, kind: int) -> None:
        """What follows an EtherType or the length of an LLC frame."""
        while kind in ETHERTYPES_VLAN:
            at, kind = at + 4, region.get_uint16(at + 2)
        if kind <= MAX_LLC_LENGTH and region.get_bytes(at, 6) == b"\xaa\xaa\x03\0\0\0":
            at, kind = at + 8, region.get_uint16(at + 6)  # SNAP (RFC 1042)
        if kind in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
            self._rewrite_ip(region, at)
        elif kind == ETHERTYPE_PPPOE_SESSION:
            self._rewrite_ppp(region, at + 6)
        elif kind in ETHERTYPES_MPLS:
            self._rewrite_mpls(region, at)
        elif kind == ETHERTYPE_ETHERNET:
            self._rewrite_ethernet(region, at)
        else:
            raise DroppedPacketError("not IP")

    def _rewrite_ppp(self, region: _Region, at: int) -> None:
        if region.get_bytes(at, 2) == b"\xff\x03":
            at += 2
        compressed = region.get_bytes(at, 1)[0] & 1
        protocol = region.get_bytes(at, 1)[0] if compressed else region.get_uint16(at)
        if protocol not in _PPP_PROTOCOLS:
            raise DroppedPacketError("not IP")
        self._rewrite_ip(region, at + (1 if compressed else 2))

    def _rewrite_mpls(self, region: _Region, at: int) -> None:
        while not region.get_bytes(at, 4)[2] & 1:
            at += 4
        at += 4
        version = region.get_bytes(at, 1)[0] >> 4
        if version in (4, 6):
            self._rewrite_ip(region, at)
        elif region.get_bytes(at, 4) == bytes(4):  # a control word (RFC 4448)
            self._rewrite_ethernet(region, at + 4)
        else:
            self._rewrite_ethernet(region, at)

    def _rewrite_ip(self, region: _Region, at: int) -> None:
        if region.depth >= _MAX_DEPTH:
            raise DroppedPacketError("too many tunnels")
        version = region.get_bytes(at, 1)[0] >> 4
        region.depth += 1
        if version == 4:
            self._rewrite_ipv4(region, at)
        elif version == 6:
            self._rewrite_ipv6(region, at)
        else:
            raise DroppedPacketError("not IP")

    def _limit(self, region: _Region, at: int, size: int) -> _Region:
        """The part of a region that belongs to a packet by its length field, which segmentation offload leaves at 0."""
        wire_end = region.wire_end if not size or region.quoted else min(at + size, region.wire_end)
        if region.quoted and size:
            wire_end = at + size
        inner = _Region(region.data, min(region.end, wire_end), wire_end, region.depth, region.quoted)
        inner.content_end = inner.end
        region.content_end = max(region.content_end, inner.end)
        return inner

    def _rewrite_ipv4(self, region: _Region, at: int) -> None:
        header = region.get_bytes(at, 20)
        size = (header[0] & 15) * 4
        if size < 20 or at + size > region.end:
            raise DroppedPacketError("truncated header")
        packet = self._limit(region, at, int.from_bytes(header[2:4], "big"))
        ends = IpAddresses(header[12:16], header[16:20])
        region.set(at + 20, bytes([_NOP_OPTION]) * (size - 20))  # options may have addresses
        region.set(at + 12, self._map(ends.source) + self._map(ends.destination))
        region.set(at + 10, bytes(2))
        region.set(at + 10, internet_checksum(region.data[at : at + size]).to_bytes(2, "big"))
        fragment = int.from_bytes(header[6:8], "big")
        is_fragment = bool(fragment & (_MORE_FRAGMENTS | 0x1FFF))
        self._rewrite_ip_payload(packet, at + size, header[9], ends, is_fragment=is_fragment)

    def _rewrite_ipv6(self, region: _Region, at: int) -> None:
        header = region.get_bytes(at, 40)
        length = int.from_bytes(header[4:6], "big")
        packet = self._limit(region, at, length and 40 + length)
        ends = IpAddresses(header[8:24], header[24:40])
        region.set(at + 8, self._map(ends.source) + self._map(ends.destination))
        kind, at, is_fragment = header[6], at + 40, False
        while kind in (_HOP_BY_HOP, _DESTINATION_OPTIONS, ROUTING_HEADER, FRAGMENT_HEADER) and not is_fragment:
            extension = packet.get_bytes(at, 8)
            if kind == FRAGMENT_HEADER:
                size, is_fragment = 8, bool(int.from_bytes(extension[2:4], "big") & 0xFFF9)
            else:
                size = 8 + extension[1] * 8
                packet.get_bytes(at, size)
                self._rewrite_extension(packet, at, size, kind)
            kind, at = extension[0], at + size
        self._rewrite_ip_payload(packet, at, kind, ends, is_fragment=is_fragment)

    def _rewrite_extension(self, packet: _Region, at: int, size: int, kind: int) -> None:
        """Options may have addresses: all become Pad1 (RFC 8200, 4.2). Routing must have ended."""
        if kind != ROUTING_HEADER:
            packet.set(at + 2, bytes(size - 2))
        elif packet.data[at + 3]:
            raise DroppedPacketError("IPv6 routing header")
        else:
            packet.set(at + 4, bytes(size - 4))

    def _map(self, address: bytes) -> bytes:
        return self._pseudonyms.map_address(address)

    def _rewrite_ip_payload(
        self, packet: _Region, at: int, protocol: int, ends: IpAddresses, *, is_fragment: bool
    ) -> None:
        if not is_fragment:
            self.rewrite_transport(packet, at, protocol, ends)
            return
        part = self._split.get((self._number, at))
        if part is None or len(part) != packet.end - at:
            raise DroppedPacketError("IP fragments")
        packet.set(at, part)

    def rewrite_datagram(self, payload: bytes, wire_size: int, protocol: int, ends: IpAddresses) -> bytes:
        """The payload of a reassembled IP packet, as far as it is known.

        Raises:
            DroppedPacketError: it has something that is not understood.
        """
        region = _Region(bytearray(payload), len(payload), wire_size, depth=1)
        self._number = 0  # nothing inside can be a part of something larger
        self.rewrite_transport(region, 0, protocol, ends)
        return bytes(region.data)

    def rewrite_transport(self, packet: _Region, at: int, protocol: int, ends: IpAddresses) -> None:
        """Rewrite the payload of an IP packet from `at` on."""
        if protocol == PROTOCOL_UDP:
            self._rewrite_udp(packet, at, ends)
        elif protocol == PROTOCOL_TCP:
            self._rewrite_tcp(packet, at, ends)
        elif protocol == PROTOCOL_ESP:
            self._rewrite_esp(packet, at)
        elif protocol in _ICMP_ERRORS:
            self._rewrite_icmp(packet, at, protocol, ends)
        elif protocol in (PROTOCOL_IPV4, PROTOCOL_IPV6):
            self._enter(packet, lambda inner: self._rewrite_ip(inner, at))
        elif protocol == PROTOCOL_GRE:
            self._rewrite_gre(packet, at)
        elif protocol == PROTOCOL_ETHERIP:
            self._enter(packet, lambda inner: self._rewrite_ethernet(inner, at + 2))
        else:
            raise DroppedPacketError("AH" if protocol == PROTOCOL_AH else "another IP protocol")

    def _enter(self, outer: _Region, rewrite: Callable[[_Region], None]) -> None:
        """Rewrite the contents of a tunnel, and overwrite what follows the packet in it."""
        inner = _Region(outer.data, outer.end, outer.wire_end, outer.depth, outer.quoted)
        rewrite(inner)
        outer.set(inner.content_end, bytes(outer.end - inner.content_end))

    def _rewrite_esp(self, packet: _Region, at: int) -> None:
        """SPI and sequence number stay. The rest is overwritten: ESP need not be encrypted (RFC 2410)."""
        packet.get_bytes(at, ESP_HEADER_BYTES)
        at += ESP_HEADER_BYTES
        packet.set(at, self._pseudonyms.map_bytes(bytes(packet.data[at : packet.end])))

    def _rewrite_udp(self, packet: _Region, at: int, ends: IpAddresses) -> None:
        header = packet.get_bytes(at, _UDP_HEADER)
        source, destination = int.from_bytes(header[:2], "big"), int.from_bytes(header[2:4], "big")
        datagram = self._limit(packet, at, int.from_bytes(header[4:6], "big"))
        payload_at = at + _UDP_HEADER
        payload = bytes(packet.data[payload_at : datagram.end])
        if destination in _PORTS_VXLAN or destination in (_PORT_GENEVE, _PORT_GTP):
            self._enter(datagram, lambda inner: self._rewrite_udp_tunnel(inner, payload_at, destination))
        elif payload or not datagram.quoted:
            seen = SeenEndpoint(ends.source, source), SeenEndpoint(ends.destination, destination)
            packet.set(payload_at, self._rewrite_udp_payload(payload, *seen))
        if datagram.end < packet.end:  # between the end of the datagram and that of the packet
            packet.set(datagram.end, bytes(packet.end - datagram.end))
        if header[6:8] != bytes(2):
            self._set_checksum(datagram, at, PROTOCOL_UDP, ends)

    def _rewrite_udp_payload(self, payload: bytes, source: SeenEndpoint, destination: SeenEndpoint) -> bytes:
        ports = {source.port, destination.port}
        extra = bool(ports & self._ports)
        on_4500 = PORT_IKE_NAT in ports
        if (on_4500 or extra) and payload[:4] == NON_ESP_MARKER:
            message = payload[len(NON_ESP_MARKER) :]
            if not _is_ike(message):
                raise DroppedPacketError("another protocol on an IKE port")
            return NON_ESP_MARKER + self._messages.rewrite(message, source, destination)
        if (PORT_IKE in ports or extra) and (
            _is_ike(payload) or (PORT_IKE in ports and len(payload) < IKE_HEADER_BYTES)
        ):
            return self._messages.rewrite(payload, source, destination)
        if on_4500 or extra:
            if payload == _KEEPALIVE:
                return payload
            if len(payload) >= ESP_HEADER_BYTES:
                return payload[:ESP_HEADER_BYTES] + self._pseudonyms.map_bytes(payload[ESP_HEADER_BYTES:])
        if ports & set(PORTS_RADIUS):
            return rewrite_radius(payload, self._pseudonyms)
        raise DroppedPacketError("another protocol on an IKE port" if on_4500 or PORT_IKE in ports else "other UDP")

    def _rewrite_udp_tunnel(self, datagram: _Region, at: int, port: int) -> None:
        if port in _PORTS_VXLAN:
            header = datagram.get_bytes(at, 8)
            datagram.set(at, bytes([header[0] & 0x88]) + bytes(3) + header[4:7] + b"\0")
            self._rewrite_ethernet(datagram, at + 8)
        elif port == _PORT_GENEVE:
            header = datagram.get_bytes(at, 8)
            options = (header[0] & 0x3F) * 4
            datagram.get_bytes(at + 8, options)
            for option in range(at + 8, at + 8 + options, 4):  # a chain of empty options
                datagram.set(option, bytes(4))
            self._rewrite_ethertype(datagram, at + 8 + options, int.from_bytes(header[2:4], "big"))
        else:
            header = datagram.get_bytes(at, 8)
            if header[0] & 0xF7 != 0x30 or header[1] != 255:  # user data without extension headers
                raise DroppedPacketError("GTP-U with extension headers or control messages")
            self._rewrite_ip(datagram, at + 8)

    def _rewrite_gre(self, packet: _Region, at: int) -> None:
        flags, kind = packet.get_uint16(at), packet.get_uint16(at + 2)
        if flags & 0x4FFF:
            raise DroppedPacketError("GRE with routing or of version 1")
        begin, size = at, 4 + 4 * sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
        packet.get_bytes(at, size)
        self._enter(packet, lambda inner: self._rewrite_ethertype(inner, at + size, kind))
        if flags & 0x8000:
            packet.set(begin + 4, bytes(4))
            if packet.complete:
                packet.set(begin + 4, internet_checksum(packet.data[begin : packet.end]).to_bytes(2, "big"))

    def _rewrite_tcp(self, packet: _Region, at: int, ends: IpAddresses) -> None:
        header = packet.get_bytes(at, 20)
        size = (header[12] >> 4) * 4
        data = self._split.get((self._number, at))
        if data is None or size < 20 or at + size + len(data) != packet.end:
            raise DroppedPacketError("other TCP")
        self._rewrite_tcp_options(packet, at + 20, at + size)
        packet.set(at + size, data)
        self._set_checksum(packet, at, PROTOCOL_TCP, ends)

    def _rewrite_tcp_options(self, packet: _Region, at: int, end: int) -> None:
        """Keep the options that describe the connection; remove others, such as timestamps, which show the uptime."""
        while at < end and packet.data[at]:
            if packet.data[at] == _NOP_OPTION:
                at += 1
                continue
            size = packet.data[at + 1] if at + 1 < end else 0
            if size < 2 or at + size > end:
                break
            if packet.data[at] not in _KEPT_TCP_OPTIONS:
                packet.set(at, bytes([_NOP_OPTION]) * size)
            at += size
        packet.set(at, bytes(end - at))

    def _rewrite_icmp(self, packet: _Region, at: int, protocol: int, ends: IpAddresses) -> None:
        header = packet.get_bytes(at, _ICMP_HEADER)
        if header[0] not in _ICMP_ERRORS[protocol]:
            raise DroppedPacketError("ICMP other than errors")
        if protocol == PROTOCOL_ICMP and header[0] == _REDIRECT:
            packet.set(at + 4, self._map(header[4:8]))
        quote = _Region(packet.data, packet.end, packet.wire_end, packet.depth, quoted=True)
        self._enter(quote, lambda inner: self._rewrite_ip(inner, at + _ICMP_HEADER))
        self._set_checksum(packet, at, protocol, ends)

    def _set_checksum(self, packet: _Region, at: int, protocol: int, ends: IpAddresses) -> None:
        """The checksum of UDP, TCP or ICMP, with the pseudo-header where it has one (RFC 768, RFC 8200, 8.1)."""
        place = at + _CHECKSUM_AT[protocol]
        if place + 2 > packet.end:
            return
        packet.set(place, bytes(2))
        if not packet.complete:
            return
        segment = bytes(packet.data[at : packet.end])
        pseudo = b""
        if protocol != PROTOCOL_ICMP:
            size = len(segment).to_bytes(4, "big")
            pseudo = self._map(ends.source) + self._map(ends.destination) + size + protocol.to_bytes(4, "big")
        checksum = internet_checksum(pseudo + segment)
        if protocol == PROTOCOL_UDP:
            checksum = checksum or 0xFFFF
        packet.set(place, checksum.to_bytes(2, "big"))


def _is_ike(message: bytes) -> bool:
    """Whether a datagram is IKE by its header (RFC 7296, 3.1): version and length."""
    if len(message) < IKE_HEADER_BYTES:
        return False
    return message[17] >> 4 in (1, 2) and int.from_bytes(message[24:28], "big") >= IKE_HEADER_BYTES
