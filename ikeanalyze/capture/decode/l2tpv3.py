"""Finds what follows the session ID of an L2TPv3 data message, whose header does not state its own size.

Both sides agree out of sight on the sizes of the cookie and of the sublayer (RFC 3931, 4.1), and on what they carry. So
each possible size is rated by what would follow it: an IPv4 header with a valid checksum (RFC 791, 3.1) or an IPv6
header with the right length weighs more than an Ethernet type alone, which random bytes often resemble.

Each packet is rated by itself. The sizes are those of its session, but what other packets of the session show depends
on which of them are read before it, and so on how a capture is divided among buffers and processes.
"""

from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import (
    BoolArray,
    Int64Array,
    UInt8Array,
    UInt16Array,
    read_uint8,
    read_uint16_be,
    read_uint32_be,
)
from ikeanalyze.capture.decode.layers import HeaderChain, Layers
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPP,
    ETHERTYPES_VLAN,
    HEADER_UNKNOWN,
)

#: Sizes of cookie and sublayer together.
_SIZES: Final = (0, 4, 8, 12)
_ETHERNET_HEADER: Final = 14
#: The shortest payload of an Ethernet frame: shorter ones are padded.
_MIN_PAYLOAD: Final = 46
_MAX_VLAN_TAGS: Final = 2
_PPP_HEADER: Final = 4
#: Address, control and protocol of PPP with IPv4 and with IPv6.
_PPP_IPV4: Final = 0xFF030021
_PPP_IPV6: Final = 0xFF030057
#: 16-bit words of the longest IPv4 header.
_MAX_IPV4_WORDS: Final = 30


def find_contents(buffer: UInt8Array, layers: Layers, chain: HeaderChain) -> tuple[Int64Array, UInt16Array]:
    """Offset and kind of what follows the session IDs, which end at `layers.at`. (n,), (n,)

    The kind is ETHERTYPE_ETHERNET, ETHERTYPE_PPP or HEADER_UNKNOWN.
    """
    offset = np.zeros(len(layers), np.int64)
    kind = np.full(len(layers), HEADER_UNKNOWN, np.uint16)
    best = np.zeros(len(layers), np.int64)
    for size in _SIZES:
        later = layers.skip(size, HEADER_UNKNOWN)
        ratings = (
            (ETHERTYPE_ETHERNET, chain.is_ethernet(buffer, later) * (1 + _rate_ethernet(buffer, later))),
            (ETHERTYPE_PPP, _rate_ppp(buffer, later)),
        )
        for contents, rating in ratings:
            better = rating > best
            offset[better], kind[better], best[better] = size, contents, rating[better]
    return offset, kind


def _rate_ethernet(buffer: UInt8Array, layers: Layers) -> Int64Array:
    """0 to 2: how well an IP packet fits in the frames. (n,)"""
    at = layers.at + _ETHERNET_HEADER
    for _ in range(_MAX_VLAN_TAGS):
        at += np.where(np.isin(read_uint16_be(buffer, at - 2), ETHERTYPES_VLAN), 4, 0)
    ethertype = read_uint16_be(buffer, at - 2)
    return _rate_ip(buffer, layers, at, ethertype == ETHERTYPE_IPV4, ethertype == ETHERTYPE_IPV6)


def _rate_ppp(buffer: UInt8Array, layers: Layers) -> Int64Array:
    """0: no PPP frame with an IP packet; 1 to 3: how well the packet fits. (n,)"""
    header = read_uint32_be(buffer, layers.at)
    ipv4, ipv6 = header == _PPP_IPV4, header == _PPP_IPV6
    rating: Int64Array = (ipv4 | ipv6) * (1 + _rate_ip(buffer, layers, layers.at + _PPP_HEADER, ipv4, ipv6))
    return rating


def _rate_ip(buffer: UInt8Array, layers: Layers, at: Int64Array, ipv4: BoolArray, ipv6: BoolArray) -> Int64Array:
    """0 to 2: how well IP packets that begin `at` fit in the frames. (n,)

    2: an IPv4 header with a valid length and checksum, or an IPv6 header with the exact length; 1: an IPv4 header with
    a valid length alone.
    """
    version, size = read_uint8(buffer, at) >> 4, layers.wire_end - at
    total = read_uint16_be(buffer, at + 2).astype(np.int64)
    fits4 = ipv4 & (version == 4) & (at + 20 <= layers.end) & (total >= 20) & (total <= size)
    total = read_uint16_be(buffer, at + 4).astype(np.int64) + 40
    fits6 = ipv6 & (version == 6) & (at + 40 <= layers.end)
    fits6 &= (total <= size) & (size <= np.maximum(total, _MIN_PAYLOAD))
    rating: Int64Array = fits4.astype(np.int64) + 2 * fits6
    rows = np.flatnonzero(fits4)
    rating[rows] += _has_valid_checksum(buffer, at[rows], layers.end[rows])
    return rating


def _has_valid_checksum(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> BoolArray:
    """Whether the checksums of the IPv4 headers are valid. (n,)"""
    words = (read_uint8(buffer, at) & 15).astype(np.int64) * 2
    total = np.zeros(len(at), np.int64)
    for word in range(_MAX_IPV4_WORDS):
        total += np.where(word < words, read_uint16_be(buffer, at + 2 * word), 0)
    total = (total & 0xFFFF) + (total >> 16)
    valid: BoolArray = (words >= 10) & (at + 2 * words <= end) & ((total & 0xFFFF) + (total >> 16) == 0xFFFF)
    return valid
