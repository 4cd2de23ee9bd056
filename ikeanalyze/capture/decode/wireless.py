"""IEEE 802.11 frames, and the headers that captures put in front of them.

IEEE 802.11-2020, 9.2 (MAC header); https://www.radiotap.org; https://www.tcpdump.org/linktypes.html (PRISM, AVS).
"""

from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import (
    Int64Array,
    UInt8Array,
    UInt16Array,
    read_uint16_be,
    read_uint16_le,
    read_uint32_be,
    read_uint32_le,
)
from ikeanalyze.capture.protocol_numbers import HEADER_LLC, HEADER_UNKNOWN

_PROTECTED: Final = 3
_FRAGMENT: Final = 4
_AGGREGATE: Final = 5
#: What is in the frames with these header numbers, which cannot be read.
WLAN_UNREAD: Final = {
    _PROTECTED: "protected (encrypted) 802.11 frames",
    _FRAGMENT: "fragments of 802.11 frames",
    _AGGREGATE: "aggregated 802.11 frames (A-MSDU)",
}

_DATA: Final = 2
_TO_AND_FROM_DS: Final = 0x0300
_MORE_FRAGMENTS: Final = 0x0400
_PROTECTED_FRAME: Final = 0x4000
_ORDER: Final = 0x8000
_QOS: Final = 0x0080
_NO_DATA: Final = 0x0040
_SNAP: Final = 0xAAAA
_PRISM_HEADER: Final = 144


def skip_wlan(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> tuple[Int64Array, UInt16Array]:
    """The size of each MAC header, and the header number of what follows: LLC, a number of WLAN_UNREAD, or unknown.

    `end` is the end of each frame; only the first two bytes of the header must be captured.
    """
    control = read_uint16_le(buffer, at)
    data = (control >> 2 & 3 == _DATA) & (control & _NO_DATA == 0)
    qos = control & _QOS != 0
    size = np.full(len(at), 24, np.int64)
    size[control & _TO_AND_FROM_DS == _TO_AND_FROM_DS] += 6
    qos_control, qos_end = read_uint16_le(buffer, at + size), at + size + 2
    size[qos] += 2
    size[qos & (control & _ORDER != 0)] += 4
    # some drivers align the contents to four bytes
    aligned = -size % 4
    padded = (read_uint16_be(buffer, at + size) != _SNAP) & (read_uint16_be(buffer, at + size + aligned) == _SNAP)
    size[padded] += aligned[padded]
    kind = np.where(data, HEADER_LLC, HEADER_UNKNOWN).astype(np.uint16)
    kind[data & qos & (qos_control & 0x80 != 0) & (qos_end <= end)] = _AGGREGATE
    is_later_fragment = (read_uint16_le(buffer, at + 22) & 15 != 0) & (at + 24 <= end)
    fragment = (control & _MORE_FRAGMENTS != 0) | is_later_fragment
    kind[data & fragment] = _FRAGMENT
    kind[data & (control & _PROTECTED_FRAME != 0)] = _PROTECTED
    return size, kind


def get_radiotap_size(buffer: UInt8Array, at: Int64Array) -> Int64Array:
    """The size of each radiotap header."""
    return read_uint16_le(buffer, at + 2).astype(np.int64)


def get_avs_size(buffer: UInt8Array, at: Int64Array) -> Int64Array:
    """The size of each AVS header."""
    return read_uint32_be(buffer, at + 4).astype(np.int64)


def get_prism_size(buffer: UInt8Array, at: Int64Array) -> Int64Array:
    """The size of each PRISM header; some drivers write AVS headers with the link type of PRISM."""
    is_avs = read_uint32_be(buffer, at) & 0xFFFFF000 == 0x80211000
    length = read_uint32_le(buffer, at + 4).astype(np.int64)
    prism = np.where((length >= 8) & (length < 4096), length, _PRISM_HEADER)
    return np.where(is_avs, get_avs_size(buffer, at), prism)
