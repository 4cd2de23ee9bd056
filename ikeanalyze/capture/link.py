"""Link layers: where the IP packet begins in each frame, for a whole batch at once.

Link-layer header types and their layouts: https://www.tcpdump.org/linktypes.html; PPPoE: RFC 2516; PPP
protocol field compression: RFC 1661, 6.5; VLAN tags: IEEE 802.1Q (and the tag protocol IDs that vendors used
before 802.1ad).
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt8Array, UInt16Array, read_uint16_be
from ikeanalyze.capture.protocol_numbers import ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_PPPOE_SESSION, ETHERTYPES_VLAN

_VLAN_TAGS: Final = np.array(ETHERTYPES_VLAN, np.uint16)
_PPP_IPV4: Final = 0x0021
_PPP_IPV6: Final = 0x0057
#: Address families that BSDs, Linux and macOS write into a loopback header for IPv6.
_LOOPBACK_IPV6: Final = (10, 24, 28, 30)

#: Positions of the packets inside the frames, and 4 (IPv4), 6 (IPv6) or 0 (neither) for each.
Located = tuple[Int64Array, UInt8Array]


def locate_ip_packets(link_type: int, buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located | None:
    """Find the IP packets in frames of one link type; None: this link type is not decoded.

    `at` and `end` are the first byte of each frame and the one behind its last captured one. A frame too
    short for its own header has family 0.
    """
    decoder = _DECODERS.get(link_type)
    if decoder is None:
        return None
    inside, family = decoder(buffer, at, end)
    family[inside >= end] = 0
    return inside, family


def _families(ethertype: UInt16Array) -> UInt8Array:
    family = np.zeros(len(ethertype), np.uint8)
    family[ethertype == ETHERTYPE_IPV4] = 4
    family[ethertype == ETHERTYPE_IPV6] = 6
    return family


def _ethertypes(buffer: UInt8Array, inside: Int64Array, end: Int64Array, ethertype: UInt16Array) -> Located:
    """Go through VLAN tags, PPPoE and LLC/SNAP to what they carry."""
    family = _families(ethertype)
    rest = np.flatnonzero(family == 0)
    while len(rest):
        kind = ethertype[rest]
        tagged = rest[np.isin(kind, _VLAN_TAGS) & (inside[rest] + 4 <= end[rest])]
        snap = rest[(kind <= 1500) & (inside[rest] + 8 <= end[rest])]
        # LLC with both service access points 0xAA and an encapsulated Ethernet type (RFC 1042)
        snap = snap[(read_uint16_be(buffer, inside[snap]) == 0xAAAA) & (ethertype[snap] != 0)]
        session = rest[(kind == ETHERTYPE_PPPOE_SESSION) & (inside[rest] + 7 <= end[rest])]
        inside[tagged] += 4
        inside[snap] += 8
        rest = np.concatenate([tagged, snap])
        ethertype[rest] = read_uint16_be(buffer, inside[rest] - 2)
        # a length that follows LLC/SNAP is no second LLC header
        ethertype[snap[ethertype[snap] <= 1500]] = 0
        family[rest] = _families(ethertype[rest])
        rest = rest[family[rest] == 0]
        if len(session):
            inside[session], family[session] = _ppp_protocol(buffer, inside[session] + 6)
    return inside, family


def _ethernet(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    inside = at + 14
    ethertype = read_uint16_be(buffer, at + 12)
    ethertype[inside > end] = 0
    return _ethertypes(buffer, inside, end, ethertype)


def _cooked(header: int, protocol_at: int) -> Callable[[UInt8Array, Int64Array, Int64Array], Located]:
    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
        inside = at + header
        ethertype = read_uint16_be(buffer, at + protocol_at)
        ethertype[inside > end] = 0
        return _ethertypes(buffer, inside, end, ethertype)

    return decode


def _raw(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001 - one signature for all
    family = (buffer[at] >> 4).astype(np.uint8)
    family[(family != 4) & (family != 6)] = 0
    return at.copy(), family


def _raw_of(version: int) -> Callable[[UInt8Array, Int64Array, Int64Array], Located]:
    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
        return at.copy(), np.full(len(at), version, np.uint8)

    return decode


def _loopback(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    # NULL has the family in the byte order of the machine that captured, LOOP in network order: the value is
    # below 256, so whichever half is not zero has it.
    high, low = read_uint16_be(buffer, at), read_uint16_be(buffer, at + 2)
    value = np.where(low != 0, low, high)
    value = np.where(value > 255, value >> 8, value)
    family = np.zeros(len(at), np.uint8)
    family[value == 2] = 4
    family[np.isin(value, _LOOPBACK_IPV6)] = 6
    return at + 4, family


def _ppp_protocol(buffer: UInt8Array, at: Int64Array) -> Located:
    first = buffer[at].astype(np.uint16)
    compressed: BoolArray = (first & 1) == 1
    protocol = np.where(compressed, first, read_uint16_be(buffer, at))
    family = np.zeros(len(at), np.uint8)
    family[protocol == _PPP_IPV4] = 4
    family[protocol == _PPP_IPV6] = 6
    return at + np.where(compressed, 1, 2), family


def _ppp(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    # address 0xFF and control 0x03 may be compressed away (RFC 1661, 6.6)
    framed = read_uint16_be(buffer, at) == 0xFF03
    return _ppp_protocol(buffer, at + np.where(framed, 2, 0))


def _ppp_with_direction(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    return _ppp(buffer, at + 1, end)


def _pppoe(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    return _ppp_protocol(buffer, at + 6)


_DECODERS: Final[dict[int, Callable[[UInt8Array, Int64Array, Int64Array], Located]]] = {
    0: _loopback,  # NULL
    1: _ethernet,
    9: _ppp,
    12: _raw,  # DLT_RAW of most systems, seen in files
    14: _raw,  # DLT_RAW of OpenBSD, seen in files
    50: _ppp,  # PPP_HDLC
    51: _pppoe,
    101: _raw,
    108: _loopback,  # LOOP
    113: _cooked(16, 14),
    204: _ppp_with_direction,
    228: _raw_of(4),
    229: _raw_of(6),
    276: _cooked(20, 0),
}
