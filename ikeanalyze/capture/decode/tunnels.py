"""Finds tunnels in IP packets: the headers of GRE, VXLAN, GTP-U and others, and what they carry.

A tunnel over UDP is recognised by its port, and only if its header is valid: other traffic may use the port too.

IP in IP: RFC 2003, RFC 2473, RFC 4213; GRE: RFC 2784, RFC 2890; PPTP: RFC 2637; NVGRE: RFC 7637; EtherIP: RFC 3378;
L2TP: RFC 2661, RFC 3931; MPLS: RFC 4023; VXLAN: RFC 7348; VXLAN-GPE: draft-ietf-nvo3-vxlan-gpe; Geneve: RFC 8926;
GTP-U: 3GPP TS 29.281; TZSP: the TaZmen Sniffer Protocol.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import (
    Int64Array,
    UInt8Array,
    UInt32Array,
    find_rows,
    read_uint8,
    read_uint16_be,
    read_uint32_be,
    sort_distinct,
)
from ikeanalyze.capture.decode.ip import FIRST_IPV6, AddressBook, IpPackets, format_address_code
from ikeanalyze.capture.decode.l2tpv3 import find_contents
from ikeanalyze.capture.decode.layers import NEXT_PROTOCOLS, HeaderChain, Layers, merge_layers
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.decode.wireless import get_avs_size, get_prism_size
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_ERSPAN,
    ETHERTYPE_ERSPAN_III,
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPP,
    ETHERTYPES_MPLS,
    HEADER_UNKNOWN,
    HEADER_WLAN,
    MAX_LLC_LENGTH,
    PROTOCOL_ETHERIP,
    PROTOCOL_GRE,
    PROTOCOL_IPV4,
    PROTOCOL_IPV6,
    PROTOCOL_L2TP,
    PROTOCOL_MPLS,
    PROTOCOL_UDP,
)

PORT_L2TP: Final = 1701

_UDP_HEADER: Final = 8
_GTP_USER_DATA: Final = 255  # message type G-PDU
#: Longest chain of GTP-U extension headers and of TZSP tags that is followed.
_MAX_OPTIONS: Final = 32
#: Bits of the flags of L2TPv2 that must be 0 in data messages: the type and what is reserved.
_L2TP_ZERO_BITS: Final = 0x8000 | 0x34F0

_TZSP_ETHERNET: Final = 1
_TZSP_WLAN: Final = 18
_TZSP_PRISM: Final = 119
_TZSP_AVS: Final = 127


class TunnelFinder:
    """Finds the tunnels in IP packets, and the headers that the tunnels carry."""

    def __init__(self, tunnels: TunnelBook, chain: HeaderChain, book: AddressBook) -> None:
        self._tunnels = tunnels
        self._chain = chain
        self._book = book

    def find(self, buffer: UInt8Array, packets: IpPackets, category: UInt8Array) -> Layers | None:
        """The headers inside the tunnels among these packets, which have these categories; None: no tunnels."""
        other = find_rows(category == int(PacketCategory.OTHER))
        candidates = other[IS_TUNNEL_PROTOCOL[packets.protocol[other]]]
        if not len(candidates):
            return None
        protocol = packets.protocol[candidates]
        parts = [
            self._enter(buffer, packets, candidates[protocol == number], _PROTOCOLS[number])
            for number in sort_distinct(protocol).tolist()
            if number != PROTOCOL_UDP
        ]
        udp = candidates[protocol == PROTOCOL_UDP]
        if len(udp):
            destination = read_uint16_be(buffer, packets.at[udp] + 2)
            # either port of L2TP: the answering side may choose another one
            port = np.where(read_uint16_be(buffer, packets.at[udp]) == PORT_L2TP, PORT_L2TP, destination)
            its = find_rows(IS_TUNNEL_PORT[port])
            parts += [
                self._enter_udp(buffer, packets, udp[its[port[its] == number]], _PORTS[number])
                for number in sort_distinct(port[its]).tolist()
            ]
        return merge_layers(parts) if parts else None

    def _enter(
        self,
        buffer: UInt8Array,
        packets: IpPackets,
        rows: Int64Array,
        enter: "_Enter",
        skipped: int = 0,
    ) -> Layers:
        """Enter the tunnels whose headers begin `skipped` bytes after the IP headers of these packets."""
        outer = packets.select(rows)
        kind = np.full(len(rows), HEADER_UNKNOWN, np.uint16)
        layers = Layers(outer.row, outer.at + skipped, outer.end, outer.wire_end, outer.tunnel, kind)
        return enter(self, buffer, outer, layers)

    def _enter_udp(
        self,
        buffer: UInt8Array,
        packets: IpPackets,
        rows: Int64Array,
        enter: "_Enter",
    ) -> Layers:
        size = read_uint16_be(buffer, packets.at[rows] + 4).astype(np.int64)

        def enter_sized(self: TunnelFinder, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:
            # segmentation offload leaves a UDP length of 0
            known = np.where(size == 0, layers.wire_end - layers.at, size - _UDP_HEADER)
            sized = layers.set_size(known)
            return enter(self, buffer, outer, sized.select(sized.at < sized.end))

        return self._enter(buffer, packets, rows, enter_sized, _UDP_HEADER)

    def _enter_between(self, kind: str, outer: IpPackets, layers: Layers) -> UInt32Array:
        """The numbers of tunnels that have no identifier but their two ends."""
        index = np.searchsorted(outer.row, layers.row)
        source, destination = outer.source[index], outer.destination[index]
        ends = np.minimum(source, destination), np.maximum(source, destination)
        return self._tunnels.enter(kind, layers.tunnel, *ends, describe=self._describe_ends)

    def _describe_ends(self, first: int, second: int) -> str:
        # sorted as text: the codes of IPv6 addresses depend on the order in which they were seen
        return "-".join(sorted(format_address_code(code, self._book.ipv6) for code in (first, second)))

    def _enter_ip(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        protocol, outer6 = outer.protocol, outer.source >= FIRST_IPV6
        inner6 = protocol == PROTOCOL_IPV6
        tunnel = np.zeros(len(layers), np.uint32)
        for name, rows in (
            ("ipip", ~outer6 & ~inner6),
            ("4in6", outer6 & ~inner6),
            ("6in4", ~outer6 & inner6),
            ("6in6", outer6 & inner6),
        ):
            if rows.any():
                tunnel[rows] = self._enter_between(name, outer, layers.select(rows))
        kind = np.where(inner6, ETHERTYPE_IPV6, ETHERTYPE_IPV4).astype(np.uint16)
        return layers.skip(0, kind, tunnel)

    def _enter_gre(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:
        layers = self._chain.require(layers, 4, "GRE")
        flags = read_uint16_be(buffer, layers.at)
        layers = self._chain.note_unread(layers, (flags & 7 > 1) | (flags & 0x4007 == 0x4000), "GRE with routing")
        flags = read_uint16_be(buffer, layers.at)
        version1 = flags & 7 == 1
        fields = [flags & bits != 0 for bits in (0x8000, 0x2000, 0x1000)]  # checksum, key, sequence number
        fields.append(version1 & (flags & 0x80 != 0))  # acknowledgement
        size: Int64Array = 4 + 4 * np.array(fields, np.int64).sum(axis=0)
        short = layers.at + size > layers.end
        layers = self._chain.reject(layers, short, "truncated inside its GRE header")
        flags, size, version1 = flags[~short], size[~short], version1[~short]
        kind = read_uint16_be(buffer, layers.at + 2)
        key = read_uint32_be(buffer, layers.at + np.where(flags & 0x8000, 8, 4)).astype(np.int64)
        keyed = flags & 0x2000 != 0
        mirrored = (kind == ETHERTYPE_ERSPAN) | (kind == ETHERTYPE_ERSPAN_III)
        # the lower 8 bits of an NVGRE key are a hash of the flow, so that a key of up to 8 bits is not NVGRE
        virtual = (kind == ETHERTYPE_ETHERNET) & (flags & 0xF000 == 0x2000) & (key > 255) & ~version1
        tunnel = layers.tunnel.copy()
        for name, rows, ids in (
            ("nvgre", virtual, key >> 8),
            ("pptp", version1, key & 0xFFFF),
            ("gre", keyed & ~virtual & ~version1 & ~mirrored, key),
        ):
            if rows.any():
                tunnel[rows] = self._tunnels.enter(name, layers.tunnel[rows], ids[rows])
        plain = ~keyed & ~version1 & ~mirrored
        if plain.any():
            tunnel[plain] = self._enter_between("gre", outer, layers.select(plain))
        # ERSPAN of type I has neither a header nor a sequence number
        first = (kind == ETHERTYPE_ERSPAN) & (flags & 0x1000 == 0)
        if first.any():
            tunnel[first] = self._tunnels.enter("erspan", layers.tunnel[first])
            kind[first] = ETHERTYPE_ETHERNET
        kind[kind <= MAX_LLC_LENGTH] = HEADER_UNKNOWN  # keepalives and acknowledgements
        return layers.skip(size, kind, tunnel)

    def _enter_etherip(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:
        layers = self._chain.require(layers, 2, "EtherIP")
        layers = self._chain.reject(layers, read_uint8(buffer, layers.at) != 0x30, "invalid EtherIP header")
        return layers.skip(2, ETHERTYPE_ETHERNET, self._enter_between("etherip", outer, layers))

    def _enter_mpls(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        return layers.skip(0, ETHERTYPES_MPLS[0])

    def _enter_l2tpv3(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        layers = self._chain.require(layers, 4, "L2TPv3")
        session = read_uint32_be(buffer, layers.at)
        layers = layers.select(session != 0)  # 0: a control message
        session = session[session != 0]
        layers = layers.skip(4, HEADER_UNKNOWN, self._tunnels.enter("l2tp", layers.tunnel, session))
        offset, kind = find_contents(buffer, layers, self._chain)
        layers = layers.skip(offset, kind)
        return self._chain.note_unread(layers, kind == HEADER_UNKNOWN, "L2TPv3 with unknown contents")

    def _enter_l2tp(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:
        """L2TPv2 and L2TPv3 over UDP."""
        flags = read_uint16_be(buffer, layers.at)
        third = (flags == 3) & (layers.at + 12 <= layers.end) & (read_uint16_be(buffer, layers.at + 2) == 0)
        parts = []
        if third.any():
            parts.append(self._enter_l2tpv3(buffer, outer, layers.select(third).skip(4, HEADER_UNKNOWN)))
        second = (flags & 15 == 2) & (flags & _L2TP_ZERO_BITS == 0) & (layers.at + 6 <= layers.end)
        layers, flags = layers.select(second), flags[second]
        has_length = flags & 0x4000 != 0
        length = np.where(has_length, read_uint16_be(buffer, layers.at + 2), layers.wire_end - layers.at)
        at = layers.at + np.where(has_length, 4, 2)
        ids = read_uint32_be(buffer, at).astype(np.int64)
        at += np.where(flags & 0x0800, 8, 4)
        at += np.where(flags & 0x0200, read_uint16_be(buffer, at).astype(np.int64) + 2, 0)
        good = (length <= layers.wire_end - layers.at) & (at + 2 <= np.minimum(layers.at + length, layers.end))
        good &= ids & 0xFFFF != 0
        layers = layers.set_size(length).select(good)
        size, ids = at[good] - layers.at, ids[good]
        tunnel = self._tunnels.enter("l2tp", layers.tunnel, ids >> 16, ids & 0xFFFF)
        parts.append(layers.skip(size, ETHERTYPE_PPP, tunnel))
        return merge_layers(parts)

    def _enter_vxlan(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        # the flag of a valid VNI; receivers ignore the reserved bits, which extensions use (RFC 7348, section 5)
        good = (read_uint8(buffer, layers.at) & 0x08 != 0) & (layers.at + 22 <= layers.end)
        good &= self._chain.is_ethernet(buffer, layers.skip(8, HEADER_UNKNOWN))
        layers = layers.select(good)
        network = read_uint32_be(buffer, layers.at + 4) >> 8
        return layers.skip(8, ETHERTYPE_ETHERNET, self._tunnels.enter("vxlan", layers.tunnel, network))

    def _enter_vxlan_gpe(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        protocol = read_uint8(buffer, layers.at + 3)
        good = (read_uint8(buffer, layers.at) & 0xCC == 0x0C) & (layers.at + 8 <= layers.end)
        good &= np.isin(protocol, list(NEXT_PROTOCOLS))
        layers, protocol = layers.select(good), protocol[good]
        network = read_uint32_be(buffer, layers.at + 4) >> 8
        tunnel = self._tunnels.enter("vxlan", layers.tunnel, network)
        return layers.skip(8, self._chain.map_next_protocols(layers, protocol, "VXLAN"), tunnel)

    def _enter_geneve(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        first, last = read_uint16_be(buffer, layers.at), read_uint32_be(buffer, layers.at + 4)
        size = 8 + (first >> 8 & 0x3F).astype(np.int64) * 4
        kind = read_uint16_be(buffer, layers.at + 2)
        good = (first & 0xC03F == 0) & (last & 0xFF == 0) & (layers.at + size <= layers.end) & (kind > MAX_LLC_LENGTH)
        layers = layers.select(good)
        tunnel = self._tunnels.enter("geneve", layers.tunnel, last[good] >> 8)
        return layers.skip(size[good], kind[good], tunnel)

    def _enter_gtp(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:  # noqa: ARG002
        first = read_uint16_be(buffer, layers.at)
        length = read_uint16_be(buffer, layers.at + 2).astype(np.int64)
        # version 1, protocol type GTP, user data
        good = (first & 0xF8FF == 0x3000 | _GTP_USER_DATA) & (layers.at + 8 <= layers.end)
        good &= layers.at + 8 + length <= layers.wire_end
        layers = layers.set_size(8 + length).select(good)
        optional = first[good] >> 8 & 7
        at = layers.at + np.where(optional, 12, 8)
        following = np.where(optional & 4, read_uint8(buffer, at - 1), 0)
        rest = find_rows(following)
        for _ in range(_MAX_OPTIONS):
            size = read_uint8(buffer, at[rest]).astype(np.int64) * 4
            at[rest] += size
            following[rest] = np.where(size > 0, read_uint8(buffer, at[rest] - 1), 0)
            at[rest[size == 0]] = layers.wire_end[rest[size == 0]]  # invalid
            rest = rest[(following[rest] != 0) & (at[rest] < layers.end[rest])]
            if not len(rest):
                break
        endpoint = read_uint32_be(buffer, layers.at + 4)
        skipped = layers.skip(at - layers.at, HEADER_UNKNOWN)
        kind = self._chain.guess_ip(buffer, skipped)
        kind[(kind == 0) & self._chain.is_ethernet(buffer, skipped)] = ETHERTYPE_ETHERNET
        inside = skipped.skip(0, kind, self._tunnels.enter("gtp", layers.tunnel, endpoint))
        return self._chain.note_unread(inside, kind == HEADER_UNKNOWN, "GTP-U with unknown contents")

    def _enter_tzsp(self, buffer: UInt8Array, outer: IpPackets, layers: Layers) -> Layers:
        protocol = read_uint16_be(buffer, layers.at + 2)
        # version 1, a received packet or one to be sent
        good = (read_uint8(buffer, layers.at) == 1) & (read_uint8(buffer, layers.at + 1) <= 1)
        good &= np.isin(protocol, (_TZSP_ETHERNET, _TZSP_WLAN, _TZSP_PRISM, _TZSP_AVS))
        at = layers.at + 4
        rest = find_rows(good)
        for _ in range(_MAX_OPTIONS):
            tag = read_uint8(buffer, at[rest])
            at[rest] += np.where(tag <= 1, 1, 2 + read_uint8(buffer, at[rest] + 1).astype(np.int64))
            rest = rest[(tag != 1) & (at[rest] < layers.end[rest])]  # 1: the last tag
            if not len(rest):
                break
        good[rest] = False
        good &= at < layers.end
        layers, at, protocol = layers.select(good), at[good], protocol[good]
        at += np.where(protocol == _TZSP_PRISM, get_prism_size(buffer, at), 0)
        at += np.where(protocol == _TZSP_AVS, get_avs_size(buffer, at), 0)
        kind = np.where(protocol == _TZSP_ETHERNET, ETHERTYPE_ETHERNET, HEADER_WLAN).astype(np.uint16)
        return layers.skip(at - layers.at, kind, self._enter_between("tzsp", outer, layers))


_Enter = Callable[[TunnelFinder, UInt8Array, IpPackets, Layers], Layers]

#: How the tunnels over IP are entered, by protocol.
_PROTOCOLS: Final[dict[int, _Enter]] = {
    PROTOCOL_IPV4: TunnelFinder._enter_ip,
    PROTOCOL_IPV6: TunnelFinder._enter_ip,
    PROTOCOL_GRE: TunnelFinder._enter_gre,
    PROTOCOL_ETHERIP: TunnelFinder._enter_etherip,
    PROTOCOL_L2TP: TunnelFinder._enter_l2tpv3,
    PROTOCOL_MPLS: TunnelFinder._enter_mpls,
}
#: Whether an IP protocol may be a tunnel. (256,)
IS_TUNNEL_PROTOCOL: Final = np.zeros(256, np.bool_)
IS_TUNNEL_PROTOCOL[[*_PROTOCOLS, PROTOCOL_UDP]] = True

#: How the tunnels over UDP are entered, by port.
_PORTS: Final[dict[int, _Enter]] = {
    PORT_L2TP: TunnelFinder._enter_l2tp,
    2152: TunnelFinder._enter_gtp,
    4789: TunnelFinder._enter_vxlan,
    4790: TunnelFinder._enter_vxlan_gpe,
    6081: TunnelFinder._enter_geneve,
    8472: TunnelFinder._enter_vxlan,  # of Linux before the port was assigned
    37008: TunnelFinder._enter_tzsp,
}
#: Whether datagrams to a UDP port may be a tunnel. (65536,)
IS_TUNNEL_PORT: Final = np.zeros(1 << 16, np.bool_)
IS_TUNNEL_PORT[list(_PORTS)] = True
