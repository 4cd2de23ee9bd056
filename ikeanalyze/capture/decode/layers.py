"""Skips chains of headers below IP: Ethernet, VLAN tags, MPLS labels, PPP, 802.11 and what else tunnels carry.

Each header is skipped for all packets that have it at once, whether it is in the frame itself or in a tunnel.
EtherTypes say which header comes next, because most tunnels use them too.

VLAN tags: IEEE 802.1Q; backbone tags: IEEE 802.1ah; MACsec: IEEE 802.1AE, 9; LLC and SNAP: RFC 1042; MPLS: RFC 3032,
RFC 6790 (entropy labels), RFC 4385 and RFC 4448 (pseudowires); NSH: RFC 8300; PPPoE: RFC 2516; PPP: RFC 1661; ERSPAN:
draft-foschiano-erspan.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from msgspec import Struct, field

from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt16Array,
    UInt32Array,
    read_uint8,
    read_uint16_be,
    read_uint32_be,
    sort_distinct,
)
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.decode.wireless import WLAN_UNREAD, skip_wlan
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_BACKBONE,
    ETHERTYPE_ERSPAN,
    ETHERTYPE_ERSPAN_III,
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_MACSEC,
    ETHERTYPE_NSH,
    ETHERTYPE_PPP,
    ETHERTYPE_PPPOE_SESSION,
    ETHERTYPES_MPLS,
    ETHERTYPES_VLAN,
    HEADER_LLC,
    HEADER_UNKNOWN,
    HEADER_WLAN,
    MAX_LLC_LENGTH,
)

#: Headers between the start of a frame or tunnel and the IP packet in it.
_MAX_HEADERS: Final = 16
_MAX_LABELS: Final = 16
#: MPLS labels up to this one have a special purpose (RFC 7274).
_LAST_SPECIAL_LABEL: Final = 15
_ENTROPY_INDICATOR: Final = 7
_MACSEC_ICV: Final = 16
_ETHERNET_HEADER: Final = 14

#: PPP protocols (RFC 1661, 6.1; RFC 3032, 4.1).
_PPP_KINDS: Final = {0x0021: ETHERTYPE_IPV4, 0x0057: ETHERTYPE_IPV6, 0x0281: 0x8847, 0x0283: 0x8848}
_PPP_UNREAD: Final = {
    0x003D: "PPP multilink fragments",
    0x0053: "encrypted PPP",
    0x0055: "encrypted PPP",
    0x00FB: "compressed or encrypted PPP (MPPC or MPPE)",
    0x00FD: "compressed or encrypted PPP (MPPC or MPPE)",
}
#: PPP protocols from this one on control the link, the network protocols and authentication.
_FIRST_PPP_CONTROL: Final = 0x4000

#: Next protocols of NSH (RFC 8300, 2.2) and VXLAN-GPE.
NEXT_PROTOCOLS: Final = {
    1: ETHERTYPE_IPV4,
    2: ETHERTYPE_IPV6,
    3: ETHERTYPE_ETHERNET,
    4: ETHERTYPE_NSH,
    5: ETHERTYPES_MPLS[0],
}

#: EtherTypes of protocols that do not carry IP packets: ARP and other control protocols.
_CONTROL_ETHERTYPES: Final = (
    0x0806, 0x0842, 0x8035, 0x8809, 0x8863, 0x888E, 0x88CA, 0x88CC, 0x88F5, 0x88F7, 0x8902, 0x892F, 0x9000, 0x00FE,
)  # fmt: skip

#: How to write the kind of a tunnel in a sentence.
_TITLES: Final = {
    "erspan": "ERSPAN", "etherip": "EtherIP", "geneve": "Geneve", "gre": "GRE", "gtp": "GTP-U", "l2tp": "L2TP",
    "macsec": "MACsec", "mpls": "MPLS", "nsh": "NSH", "nvgre": "NVGRE", "pbb": "802.1ah", "pptp": "PPTP", "tzsp": "TZSP",
    "vxlan": "VXLAN",
}  # fmt: skip


class Layers(Struct):
    """Headers in the packets of a batch, as columns of one length."""

    row: Int64Array  # index into the batch
    at: Int64Array  # first byte of the header
    end: Int64Array  # after the last captured byte of what it belongs to
    wire_end: Int64Array  # after its last byte on the wire
    tunnel: UInt32Array  # number in the TunnelBook
    kind: UInt16Array  # EtherType of the header, or a HEADER_ number

    def __len__(self) -> int:
        return len(self.row)

    def select(self, rows: Int64Array | BoolArray) -> "Layers":
        """Some of the headers."""
        return Layers(*(getattr(self, name)[rows] for name in self.__struct_fields__))

    def skip(self, size: int | Int64Array, kind: int | UInt16Array, tunnel: UInt32Array | None = None) -> "Layers":
        """The headers of this kind that follow after `size` bytes."""
        kinds = np.full(len(self), kind, np.uint16) if isinstance(kind, int) else kind
        around = self.tunnel if tunnel is None else tunnel
        return Layers(self.row, self.at + size, self.end, self.wire_end, around, kinds)

    def set_size(self, size: Int64Array) -> "Layers":
        """The same headers; those that they belong to end `size` bytes after their start."""
        stop = np.minimum(self.at + size, self.wire_end)
        return Layers(self.row, self.at, np.minimum(self.end, stop), stop, self.tunnel, self.kind)


def merge_layers(parts: Iterable[Layers]) -> Layers:
    """All headers of the parts."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    return Layers(*(np.concatenate([getattr(part, name) for part in parts]) for name in Layers.__struct_fields__))


class LayerFindings(Struct):
    """What is known about packets whose contents cannot be read."""

    unread: Counter[str] = field(default_factory=Counter)  # packets by what they are inside
    malformed: list[tuple[int, str]] = field(default_factory=list)  # row of the batch, and why

    def warnings(self, consequence: str) -> list[str]:
        """A sentence for each reason; `consequence`: "counted as other"."""
        return [
            f"{count} packets are inside {reason}, which cannot be read: {consequence}"
            if count > 1
            else f"a packet is inside {reason}, which cannot be read: {consequence}"
            for reason, count in sorted(self.unread.items())
        ]


class HeaderChain:
    """Skips the headers between the start of a frame, or of the contents of a tunnel, and the IP packet."""

    def __init__(self, tunnels: TunnelBook, findings: LayerFindings) -> None:
        self._tunnels = tunnels
        self._findings = findings

    def find_ip(self, buffer: UInt8Array, layers: Layers) -> list[tuple[int, Layers]]:
        """The IP packets after these headers, in parts, each with the IP version."""
        found: list[tuple[int, Layers]] = []
        for _ in range(_MAX_HEADERS):
            following: list[Layers] = []
            for kind in sort_distinct(layers.kind).tolist():
                part = layers.select(layers.kind == kind)
                if kind in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
                    found.append((4 if kind == ETHERTYPE_IPV4 else 6, part))
                elif kind in _STEPS:
                    following.append(_STEPS[kind](self, buffer, part))
                elif kind in WLAN_UNREAD:
                    self._findings.unread[WLAN_UNREAD[kind]] += len(part)
                elif kind > MAX_LLC_LENGTH:
                    self._note_unknown(kind, part)
            if not following:
                return found
            layers = merge_layers(following)
        if len(layers):
            self._findings.unread[f"more than {_MAX_HEADERS} headers of link layers and tunnels"] += len(layers)
        return found

    def require(self, layers: Layers, size: int, name: str) -> Layers:
        """Those whose header has `size` captured bytes; the others become malformed."""
        return self.reject(layers, layers.at + size > layers.end, f"truncated inside its {name} header")

    def reject(self, layers: Layers, bad: BoolArray, reason: str) -> Layers:
        """Those that are not `bad`; the others become malformed."""
        if not bad.any():
            return layers
        self._findings.malformed += [(row, reason) for row in layers.row[bad].tolist()]
        return layers.select(~bad)

    def note_unread(self, layers: Layers, rows: BoolArray, reason: str) -> Layers:
        """Those that are not in `rows`; the others are noted as unread."""
        if not rows.any():
            return layers
        self._findings.unread[reason] += int(rows.sum())
        return layers.select(~rows)

    def _note_unknown(self, kind: int, part: Layers) -> None:
        """Note tunnels with contents of an unknown EtherType. Outside tunnels, frames of other protocols are normal."""
        if kind in _CONTROL_ETHERTYPES:
            return
        numbers, counts = np.unique(part.tunnel[part.tunnel > 0], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            title = self.get_title(number)
            self._findings.unread[f"{title} with the unknown protocol type 0x{kind:04x}"] += count

    def get_title(self, tunnel: int) -> str:
        """How to write the kind of a tunnel in a sentence."""
        kind = self._tunnels.get_kind(tunnel)
        return _TITLES.get(kind, kind)

    def _skip_ethernet(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, _ETHERNET_HEADER, "inner Ethernet")
        return layers.skip(_ETHERNET_HEADER, _read_ethertype(buffer, layers.at + 12))

    def _skip_vlan(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 4, "VLAN")
        return layers.skip(4, _read_ethertype(buffer, layers.at + 2))

    def _skip_llc(self, buffer: UInt8Array, layers: Layers) -> Layers:
        # both service access points 0xAA: SNAP with an Ethernet type (RFC 1042)
        layers = layers.select((layers.at + 8 <= layers.end) & (read_uint16_be(buffer, layers.at) == 0xAAAA))
        kind = read_uint16_be(buffer, layers.at + 6)
        kind[kind <= MAX_LLC_LENGTH] = HEADER_UNKNOWN  # a length does not start a second LLC header
        return layers.skip(8, kind)

    def _skip_wlan(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 2, "802.11")
        size, kind = skip_wlan(buffer, layers.at, layers.end)
        return layers.skip(size, kind)

    def _skip_pppoe(self, buffer: UInt8Array, layers: Layers) -> Layers:  # noqa: ARG002
        layers = self.require(layers, 6, "PPPoE")
        return layers.skip(6, ETHERTYPE_PPP)

    def _skip_ppp(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 2, "PPP")
        # address 0xFF and control 0x03 and the first byte of the protocol may be compressed away (RFC 1661, 6.5, 6.6)
        at = layers.at + np.where(read_uint16_be(buffer, layers.at) == 0xFF03, 2, 0)
        first = read_uint8(buffer, at).astype(np.uint16)
        compressed = (first & 1) == 1
        protocol = np.where(compressed, first, read_uint16_be(buffer, at))
        captured = at + np.where(compressed, 1, 2) <= layers.end
        at, compressed, protocol = at[captured], compressed[captured], protocol[captured]
        layers = self.reject(layers, ~captured, "truncated inside its PPP header")
        kind = np.zeros(len(layers), np.uint16)
        for number in sort_distinct(protocol).tolist():
            rows = protocol == number
            if number in _PPP_KINDS:
                kind[rows] = _PPP_KINDS[number]
            elif number in _PPP_UNREAD:
                self._findings.unread[_PPP_UNREAD[number]] += int(rows.sum())
            elif number < _FIRST_PPP_CONTROL and number & 1:
                self._findings.unread[f"PPP with the unknown protocol 0x{number:04x}"] += int(rows.sum())
        return layers.skip(at - layers.at + np.where(compressed, 1, 2), kind)

    def _skip_backbone_tag(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 4, "802.1ah")
        service = read_uint32_be(buffer, layers.at) & 0xFFFFFF
        return layers.skip(4, ETHERTYPE_ETHERNET, self._tunnels.enter("pbb", layers.tunnel, service))

    def _skip_macsec(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 8, "MACsec")
        control = read_uint8(buffer, layers.at)
        layers = self.note_unread(layers, (control & 0x0C) != 0, "encrypted MACsec")
        control = read_uint8(buffer, layers.at)
        size = np.where(control & 0x20, 14, 6).astype(np.int64)  # with or without secure channel identifier
        stop = layers.wire_end - _MACSEC_ICV
        layers = Layers(layers.row, layers.at, np.minimum(layers.end, stop), stop, layers.tunnel, layers.kind)
        layers = layers.skip(size, HEADER_UNKNOWN, self._tunnels.enter("macsec", layers.tunnel))
        layers = self.require(layers, 2, "MACsec")
        return layers.skip(2, _read_ethertype(buffer, layers.at))

    def _skip_nsh(self, buffer: UInt8Array, layers: Layers) -> Layers:
        layers = self.require(layers, 8, "NSH")
        first = read_uint16_be(buffer, layers.at)
        size = (first & 0x3F).astype(np.int64) * 4
        layers = self.reject(layers, (first >> 14 != 0) | (size < 8), "invalid NSH header")
        size = (read_uint16_be(buffer, layers.at) & 0x3F).astype(np.int64) * 4
        path = read_uint32_be(buffer, layers.at + 4) >> 8
        tunnel = self._tunnels.enter("nsh", layers.tunnel, path)
        return layers.skip(size, self.map_next_protocols(layers, read_uint8(buffer, layers.at + 3), "NSH"), tunnel)

    def map_next_protocols(self, layers: Layers, protocol: UInt8Array, name: str) -> UInt16Array:
        """The EtherTypes of NEXT_PROTOCOLS; others are noted as unread."""
        kind = np.zeros(len(layers), np.uint16)
        for number in sort_distinct(protocol).tolist():
            rows = protocol == number
            if number in NEXT_PROTOCOLS:
                kind[rows] = NEXT_PROTOCOLS[number]
            else:
                self._findings.unread[f"{name} with the unknown next protocol {number}"] += int(rows.sum())
        return kind

    def _skip_erspan(self, buffer: UInt8Array, layers: Layers) -> Layers:
        """Types II (version 1) and III (version 2); type I has no header."""
        layers = self.require(layers, 8, "ERSPAN")
        version = read_uint8(buffer, layers.at) >> 4
        layers = self.note_unread(layers, (version != 1) & (version != 2), "ERSPAN of an unknown version")
        third = read_uint8(buffer, layers.at) >> 4 == 2
        layers = self.reject(layers, third & (layers.at + 12 > layers.end), "truncated inside its ERSPAN header")
        third = read_uint8(buffer, layers.at) >> 4 == 2
        flags = np.where(third, read_uint16_be(buffer, layers.at + 10), 0)
        kind = np.full(len(layers), ETHERTYPE_ETHERNET, np.uint16)
        kind[(flags >> 10 & 0x1F) == 2] = self._guess_ip_kinds(buffer, layers.at + 12)[(flags >> 10 & 0x1F) == 2]
        session = read_uint16_be(buffer, layers.at + 2) & 0x3FF
        size = np.where(third, 12, 8) + np.where(flags & 1, 8, 0)  # with platform-specific subheader
        return layers.skip(size, kind, self._tunnels.enter("erspan", layers.tunnel, session))

    @staticmethod
    def _guess_ip_kinds(buffer: UInt8Array, at: Int64Array) -> UInt16Array:
        version = read_uint8(buffer, at) >> 4
        return np.where(version == 4, ETHERTYPE_IPV4, np.where(version == 6, ETHERTYPE_IPV6, 0)).astype(np.uint16)

    def _skip_mpls(self, buffer: UInt8Array, layers: Layers) -> Layers:
        """Skip a label stack. The tunnel is the last label without a special purpose: that of the service."""
        at, label = layers.at.copy(), np.zeros(len(layers), np.int64)
        entropy, bad = np.zeros(len(layers), np.bool_), np.zeros(len(layers), np.bool_)
        rest = np.arange(len(layers))
        for _ in range(_MAX_LABELS):
            short = at[rest] + 4 > layers.end[rest]
            bad[rest[short]] = True
            rest = rest[~short]
            entry = read_uint32_be(buffer, at[rest])
            value = (entry >> 12).astype(np.int64)
            at[rest] += 4
            service = (value > _LAST_SPECIAL_LABEL) & ~entropy[rest]
            label[rest[service]] = value[service]
            entropy[rest] = value == _ENTROPY_INDICATOR
            rest = rest[entry >> 8 & 1 == 0]
            if not len(rest):
                break
        bad[rest] = True
        size = at - layers.at
        inside = self.reject(layers, bad, "invalid or truncated MPLS label stack")
        tunnel = self._tunnels.enter("mpls", inside.tunnel, label[~bad]) if len(inside) else inside.tunnel
        inside = inside.skip(size[~bad], HEADER_UNKNOWN, tunnel)
        offset, kind = self._guess_mpls_contents(buffer, inside)
        return inside.skip(offset, kind)

    def _guess_mpls_contents(self, buffer: UInt8Array, layers: Layers) -> tuple[Int64Array, UInt16Array]:
        """Offset and kind of what follows a label stack, which has no protocol number (RFC 4385, 3; RFC 4928)."""
        offset = np.zeros(len(layers), np.int64)
        kind = self.guess_ip(buffer, layers)
        nibble = read_uint8(buffer, layers.at) >> 4
        word = (kind == 0) & (read_uint16_be(buffer, layers.at) == 0) & self.is_ethernet(buffer, layers.skip(4, 0))
        plain = (kind == 0) & ~word & self.is_ethernet(buffer, layers)
        offset[word] = 4
        kind[word | plain] = ETHERTYPE_ETHERNET
        # an associated channel (RFC 4385, 5) carries control messages
        unknown = (kind == 0) & (nibble != 1) & (layers.at < layers.end)
        if unknown.any():
            self._findings.unread["MPLS with unknown contents"] += int(unknown.sum())
        return offset, kind

    def guess_ip(self, buffer: UInt8Array, layers: Layers) -> UInt16Array:
        """The EtherTypes of what looks like an IP packet, by version and lengths; others are 0."""
        first = read_uint8(buffer, layers.at)
        total = read_uint16_be(buffer, layers.at + 2).astype(np.int64)
        payload = read_uint16_be(buffer, layers.at + 4).astype(np.int64)
        captured, size = layers.end - layers.at, layers.wire_end - layers.at
        ipv4 = (first >> 4 == 4) & (first & 15 >= 5) & (captured >= 20) & (total >= 20) & (total <= size)
        ipv6 = (first >> 4 == 6) & (captured >= 40) & (payload + 40 <= size)
        return np.where(ipv4, ETHERTYPE_IPV4, np.where(ipv6, ETHERTYPE_IPV6, 0)).astype(np.uint16)

    def is_ethernet(self, buffer: UInt8Array, layers: Layers) -> BoolArray:
        """Whether an Ethernet frame may begin at each header: by its Ethernet type, and the IP version after it."""
        kind = read_uint16_be(buffer, layers.at + 12)
        size = layers.wire_end - layers.at - _ETHERNET_HEADER
        version = read_uint8(buffer, layers.at + _ETHERNET_HEADER) >> 4
        likely = IS_KNOWN[kind] | np.isin(kind, _CONTROL_ETHERTYPES)
        likely &= (kind != ETHERTYPE_IPV4) | (version == 4)
        likely &= (kind != ETHERTYPE_IPV6) | (version == 6)
        is_length = (kind <= MAX_LLC_LENGTH) & (kind >= 3) & (kind <= size)
        result: BoolArray = (layers.at + _ETHERNET_HEADER <= layers.end) & np.where(
            kind <= MAX_LLC_LENGTH, is_length, likely
        )
        return result


def _read_ethertype(buffer: UInt8Array, at: Int64Array) -> UInt16Array:
    """The EtherTypes at these positions; HEADER_LLC in place of a length."""
    kind = read_uint16_be(buffer, at)
    kind[kind <= MAX_LLC_LENGTH] = HEADER_LLC
    return kind


#: How the headers of each kind are skipped.
_STEPS: Final[dict[int, Callable[[HeaderChain, UInt8Array, Layers], Layers]]] = {
    HEADER_LLC: HeaderChain._skip_llc,
    HEADER_WLAN: HeaderChain._skip_wlan,
    ETHERTYPE_ETHERNET: HeaderChain._skip_ethernet,
    ETHERTYPE_PPPOE_SESSION: HeaderChain._skip_pppoe,
    ETHERTYPE_PPP: HeaderChain._skip_ppp,
    ETHERTYPE_BACKBONE: HeaderChain._skip_backbone_tag,
    ETHERTYPE_MACSEC: HeaderChain._skip_macsec,
    ETHERTYPE_NSH: HeaderChain._skip_nsh,
    ETHERTYPE_ERSPAN: HeaderChain._skip_erspan,
    ETHERTYPE_ERSPAN_III: HeaderChain._skip_erspan,
    **dict.fromkeys(ETHERTYPES_VLAN, HeaderChain._skip_vlan),
    **dict.fromkeys(ETHERTYPES_MPLS, HeaderChain._skip_mpls),
}

#: Whether a header of each kind may lead to an IP packet. (65536,)
IS_KNOWN: Final[BoolArray] = np.zeros(1 << 16, np.bool_)
IS_KNOWN[[*_STEPS, ETHERTYPE_IPV4, ETHERTYPE_IPV6]] = True
