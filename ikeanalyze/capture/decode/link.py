"""Link layers: find the IP packet in each frame of a batch, and name the link-layer header types.

Header types and their layouts: https://www.tcpdump.org/linktypes.html; PPPoE: RFC 2516; PPP protocol field compression:
RFC 1661, 6.5; VLAN tags: IEEE 802.1Q (and the tag protocol IDs that vendors used before 802.1ad); Frame Relay:
RFC 2427.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import (
    Int64Array,
    UInt8Array,
    UInt16Array,
    find_rows,
    read_uint8,
    read_uint16_be,
    read_uint16_le,
    read_uint32_be,
    read_uint32_le,
    sort_distinct,
)
from ikeanalyze.capture.decode.wireless import get_avs_size, get_prism_size, get_radiotap_size
from ikeanalyze.capture.protocol_numbers import (
    ETHERTYPE_ETHERNET,
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_PPPOE_SESSION,
    ETHERTYPES_MPLS,
    ETHERTYPES_VLAN,
    HEADER_UNKNOWN,
    HEADER_WLAN,
    LOOPBACK_IPV4,
    LOOPBACK_IPV6,
    MAX_LLC_LENGTH,
)

_VLAN_TAGS: Final = np.array(ETHERTYPES_VLAN, np.uint16)
_PPP_IPV4: Final = 0x0021
_PPP_IPV6: Final = 0x0057
_NFLOG_PAYLOAD: Final = 9
_MAX_ATTRIBUTES: Final = 64
_JUNIPER_MAGIC: Final = 0x4D4743
_JUNIPER_NO_LINK_HEADER: Final = 0x02
_JUNIPER_EXTENSION: Final = 0x80
_SOLARIS_IPV4: Final = 2
_SOLARIS_IPV6: Final = 26


class LinkType(IntEnum):
    """LINKTYPE_* numbers that are decoded, as in pcap file headers and pcapng interface descriptions.

    RAW_BSD and RAW_OPENBSD are the unregistered DLT_RAW numbers of most systems and of OpenBSD, which also occur in
    files.
    """

    NULL = 0
    ETHERNET = 1
    PPP = 9
    RAW_BSD = 12
    RAW_OPENBSD = 14
    PPP_HDLC = 50
    PPP_ETHER = 51
    RAW = 101
    C_HDLC = 104
    IEEE802_11 = 105
    FRELAY = 107
    LOOP = 108
    ENC = 109
    LINUX_SLL = 113
    PFLOG = 117
    IEEE802_11_PRISM = 119
    IEEE802_11_RADIOTAP = 127
    APPLE_IP_OVER_IEEE1394 = 138
    IEEE802_11_AVS = 163
    PPP_PPPD = 166
    JUNIPER_ETHER = 178
    JUNIPER_PPP = 179
    JUNIPER_FRELAY = 180
    JUNIPER_CHDLC = 181
    PPI = 192
    PPP_WITH_DIR = 204
    C_HDLC_WITH_DIR = 205
    FRELAY_WITH_DIR = 206
    MPLS = 219
    IPNET = 226
    IPV4 = 228
    IPV6 = 229
    NFLOG = 239
    IPOIB = 242
    PKTAP = 258
    LINUX_SLL2 = 276
    DSA_TAG_BRCM = 281
    DSA_TAG_BRCM_PREPEND = 282
    DSA_TAG_DSA = 284
    DSA_TAG_EDSA = 285


#: Numbers of all other link types, for their names. Not an enumeration, which takes 50 times as long to make.
OTHER_LINK_TYPES: Final[Mapping[str, int]] = {
    "EXP_ETHERNET": 2, "AX25": 3, "PRONET": 4, "CHAOS": 5, "IEEE802_5": 6, "ARCNET_BSD": 7, "SLIP": 8, "FDDI": 10,
    "SYMANTEC_FIREWALL": 99, "ATM_RFC1483": 100, "SLIP_BSDOS": 102, "PPP_BSDOS": 103, "ATM_CLIP": 106, "LANE8023": 110,
    "HIPPI": 111, "HDLC": 112, "LTALK": 114, "ECONET": 115, "IPFILTER": 116, "CISCO_IOS": 118,
    "IEEE802_11_AIRONET": 120, "HHDLC": 121, "IP_OVER_FC": 122, "SUNATM": 123, "RIO": 124, "PCI_EXP": 125,
    "AURORA": 126, "TZSP": 128, "ARCNET_LINUX": 129, "JUNIPER_MLPPP": 130, "JUNIPER_MLFR": 131, "JUNIPER_ES": 132,
    "JUNIPER_GGSN": 133, "JUNIPER_MFR": 134, "JUNIPER_ATM2": 135, "JUNIPER_SERVICES": 136, "JUNIPER_ATM1": 137,
    "MTP2_WITH_PHDR": 139, "MTP2": 140, "MTP3": 141, "SCCP": 142, "DOCSIS": 143, "LINUX_IRDA": 144, "IBM_SP": 145,
    "IBM_SN": 146, "USER0": 147, "USER1": 148, "USER2": 149, "USER3": 150, "USER4": 151, "USER5": 152, "USER6": 153,
    "USER7": 154, "USER8": 155, "USER9": 156, "USER10": 157, "USER11": 158, "USER12": 159, "USER13": 160, "USER14": 161,
    "USER15": 162, "JUNIPER_MONITOR": 164, "BACNET_MS_TP": 165, "JUNIPER_PPPOE": 167, "JUNIPER_PPPOE_ATM": 168,
    "GPRS_LLC": 169, "GPF_T": 170, "GPF_F": 171, "GCOM_T1E1": 172, "GCOM_SERIAL": 173, "JUNIPER_PIC_PEER": 174,
    "ERF_ETH": 175, "ERF_POS": 176, "LINUX_LAPD": 177, "MFR": 182, "JUNIPER_VP": 183, "A429": 184, "A653_ICM": 185,
    "USB_FREEBSD": 186, "BLUETOOTH_HCI_H4": 187, "IEEE802_16_MAC_CPS": 188, "USB_LINUX": 189, "CAN20B": 190,
    "IEEE802_15_4_LINUX": 191, "IEEE802_16_MAC_CPS_RADIO": 193, "JUNIPER_ISM": 194, "IEEE802_15_4_WITHFCS": 195,
    "SITA": 196, "ERF": 197, "RAIF1": 198, "IPMB_KONTRON": 199, "JUNIPER_ST": 200, "BLUETOOTH_HCI_H4_WITH_PHDR": 201,
    "AX25_KISS": 202, "LAPD": 203, "LAPB_WITH_DIR": 207, "IPMB_LINUX": 209, "FLEXRAY": 210, "MOST": 211, "LIN": 212,
    "X2E_SERIAL": 213, "X2E_XORAYA": 214, "IEEE802_15_4_NONASK_PHY": 215, "LINUX_EVDEV": 216, "GSMTAP_UM": 217,
    "GSMTAP_ABIS": 218, "USB_LINUX_MMAPPED": 220, "DECT": 221, "AOS": 222, "WIHART": 223, "FC_2": 224,
    "FC_2_WITH_FRAME_DELIMS": 225, "CAN_SOCKETCAN": 227, "IEEE802_15_4_NOFCS": 230, "DBUS": 231, "JUNIPER_VS": 232,
    "JUNIPER_SRX_E2E": 233, "JUNIPER_FIBRECHANNEL": 234, "DVB_CI": 235, "MUX27010": 236, "STANAG_5066_D_PDU": 237,
    "JUNIPER_ATM_CEMIC": 238, "NETANALYZER": 240, "NETANALYZER_TRANSPARENT": 241, "MPEG_2_TS": 243, "NG40": 244,
    "NFC_LLCP": 245, "PFSYNC": 246, "INFINIBAND": 247, "SCTP": 248, "USBPCAP": 249, "RTAC_SERIAL": 250,
    "BLUETOOTH_LE_LL": 251, "WIRESHARK_UPPER_PDU": 252, "NETLINK": 253, "BLUETOOTH_LINUX_MONITOR": 254,
    "BLUETOOTH_BREDR_BB": 255, "BLUETOOTH_LE_LL_WITH_PHDR": 256, "PROFIBUS_DL": 257, "EPON": 259, "IPMI_HPM_2": 260,
    "ZWAVE_R1_R2": 261, "ZWAVE_R3": 262, "WATTSTOPPER_DLM": 263, "ISO_14443": 264, "RDS": 265, "USB_DARWIN": 266,
    "OPENFLOW": 267, "SDLC": 268, "TI_LLN_SNIFFER": 269, "LORATAP": 270, "VSOCK": 271, "NORDIC_BLE": 272,
    "DOCSIS31_XRA31": 273, "ETHERNET_MPACKET": 274, "DISPLAYPORT_AUX": 275, "SERCOS_MONITOR": 277, "OPENVIZSLA": 278,
    "EBHSCR": 279, "VPP_DISPATCH": 280, "IEEE802_15_4_TAP": 283, "ELEE": 286, "Z_WAVE_SERIAL": 287, "USB_2_0": 288,
    "ATSC_ALP": 289, "ETW": 290, "NETANALYZER_NG": 291, "ZBOSS_NCP": 292, "USB_2_0_LOW_SPEED": 293,
    "USB_2_0_FULL_SPEED": 294, "USB_2_0_HIGH_SPEED": 295, "AUERSWALD_LOG": 296, "ZWAVE_TAP": 297,
    "SILABS_DEBUG_CHANNEL": 298, "FIRA_UCI": 299, "MDB": 300, "DECT_NR": 301, "EDK2_MM": 302, "DEBUG_ONLY": 303,
}  # fmt: skip


class Located(NamedTuple):
    """What the link headers of frames are followed by, as columns of one length."""

    at: Int64Array  # position of the packet or further header inside the frame
    family: UInt8Array  # 4 (IPv4), 6 (IPv6) or 0 (neither)
    kind: UInt16Array  # of neither: EtherType of the header there, or a HEADER_ number


Decoder = Callable[[UInt8Array, Int64Array, Int64Array], Located]


def locate_ip_packets(link_type: int, buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located | None:
    """Find the IP packets in frames of one link type; None if the link type is not decoded.

    `at` is the position of the first byte of each frame, `end` the position after its last captured byte. The family of
    a frame too short for its header is 0.
    """
    decoder = _DECODERS.get(link_type)
    if decoder is None:
        return None
    located = decoder(buffer, at, end)
    located.family[located.at >= end] = 0
    return located


def _locate(at: Int64Array, family: UInt8Array) -> Located:
    """Packets of these families; nothing is known about others."""
    return Located(at, family, np.broadcast_to(np.uint16(HEADER_UNKNOWN), len(at)))


def _locate_headers(at: Int64Array, kind: UInt16Array) -> Located:
    """Packets or headers of these kinds."""
    return Located(at, _get_families(kind, ETHERTYPE_IPV4, ETHERTYPE_IPV6), kind)


def _get_families(protocol: npt.NDArray[np.integer[Any]], ipv4: int, *ipv6: int) -> UInt8Array:
    """4, 6 or 0 for each protocol number, given the numbers of IPv4 and IPv6."""
    family = np.zeros(len(protocol), np.uint8)
    family[protocol == ipv4] = 4
    for number in ipv6:
        family[protocol == number] = 6
    return family


def _skip_to_ip(buffer: UInt8Array, inside: Int64Array, end: Int64Array, ethertype: UInt16Array) -> Located:
    """Skip VLAN tags, PPPoE and LLC/SNAP headers."""
    family = _get_families(ethertype, ETHERTYPE_IPV4, ETHERTYPE_IPV6)
    rest = find_rows(family == 0)
    while len(rest):
        kind = ethertype[rest]
        tagged = rest[np.isin(kind, _VLAN_TAGS) & (inside[rest] + 4 <= end[rest])]
        snap = rest[(kind <= MAX_LLC_LENGTH) & (inside[rest] + 8 <= end[rest])]
        # LLC with both service access points 0xAA and an encapsulated Ethernet type (RFC 1042)
        snap = snap[(read_uint16_be(buffer, inside[snap]) == 0xAAAA) & (ethertype[snap] != 0)]
        session = rest[(kind == ETHERTYPE_PPPOE_SESSION) & (inside[rest] + 7 <= end[rest])]
        inside[tagged] += 4
        inside[snap] += 8
        rest = np.concatenate([tagged, snap])
        ethertype[rest] = read_uint16_be(buffer, inside[rest] - 2)
        # a length after LLC/SNAP does not start a second LLC header
        ethertype[snap[ethertype[snap] <= MAX_LLC_LENGTH]] = 0
        family[rest] = _get_families(ethertype[rest], ETHERTYPE_IPV4, ETHERTYPE_IPV6)
        rest = rest[family[rest] == 0]
        if len(session):
            inside[session], family[session], ethertype[session] = _decode_ppp_protocol(buffer, inside[session] + 6)
    others = find_rows(family == 0)
    if len(others):
        kind = ethertype[others]
        # what is left of these is truncated, or not followed by an IP packet
        kind[(kind <= MAX_LLC_LENGTH) | np.isin(kind, _VLAN_TAGS) | (kind == ETHERTYPE_PPPOE_SESSION)] = HEADER_UNKNOWN
        ethertype[others] = kind
    return Located(inside, family, ethertype)


def _make_ethertype_decoder(header_size: int, ethertype_at: int) -> Decoder:
    """A decoder of frames with a header of fixed size, in bytes, that has an EtherType at this offset."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
        inside = at + header_size
        ethertype = read_uint16_be(buffer, at + ethertype_at)
        ethertype[inside > end] = 0
        return _skip_to_ip(buffer, inside, end, ethertype)

    return decode


def _decode_raw(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001 - all decoders have one signature
    """IP packets without a header before them."""
    family = (buffer[at] >> 4).astype(np.uint8)
    family[(family != 4) & (family != 6)] = 0
    return _locate(at.copy(), family)


def _make_raw_decoder(version: int) -> Decoder:
    """A decoder of IP packets of this version without a header before them."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
        return _locate(at.copy(), np.full(len(at), version, np.uint8))

    return decode


def _decode_loopback(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """Address family: NULL has it in the byte order of the capturing machine, LOOP in network order."""
    # the value is below 256, so it is in the half that is not zero
    high, low = read_uint16_be(buffer, at), read_uint16_be(buffer, at + 2)
    value = np.where(low != 0, low, high)
    value = np.where(value > 255, value >> 8, value)
    return _locate(at + 4, _get_families(value, LOOPBACK_IPV4, *LOOPBACK_IPV6))


def _decode_ppp_protocol(buffer: UInt8Array, at: Int64Array) -> Located:
    """Protocol of PPP, one byte if it is compressed (RFC 1661, 6.5)."""
    first = buffer[at].astype(np.uint16)
    compressed = (first & 1) == 1
    protocol = np.where(compressed, first, read_uint16_be(buffer, at))
    return _locate(at + np.where(compressed, 1, 2), _get_families(protocol, _PPP_IPV4, _PPP_IPV6))


def _decode_ppp(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """Address 0xFF and control 0x03, which may be compressed away (RFC 1661, 6.6), then the protocol of PPP."""
    framed = read_uint16_be(buffer, at) == 0xFF03
    return _decode_ppp_protocol(buffer, at + np.where(framed, 2, 0))


def _decode_pppd(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """The direction in place of the address, control 0x03, then the protocol of PPP."""
    return _decode_ppp_protocol(buffer, at + 2)


def _decode_pppoe(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """PPPoE session header (RFC 2516, section 4), then the protocol of PPP."""
    return _decode_ppp_protocol(buffer, at + 6)


def _make_header_decoder(kind: int) -> Decoder:
    """A decoder of frames that begin with a header of this kind."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
        return _locate_headers(at.copy(), np.full(len(at), kind, np.uint16))

    return decode


def _make_wlan_decoder(get_size: Callable[[UInt8Array, Int64Array], Int64Array]) -> Decoder:
    """A decoder of 802.11 frames after a header of the capturing system."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
        inside = np.where(at + 8 <= end, at + get_size(buffer, at), end)
        return _locate_headers(inside, np.full(len(at), HEADER_WLAN, np.uint16))

    return decode


def _decode_frame_relay(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    """RFC 2427, and Cisco's format, which has an EtherType after the address."""
    inside = at + 2
    for _ in range(2):  # an address has 2 to 4 bytes; the last one has the lowest bit set (Q.922)
        inside = np.where(read_uint8(buffer, inside - 1) & 1 == 0, inside + 1, inside)
    kind = read_uint16_be(buffer, inside)
    inside = inside + 2
    padded = kind == 0x0300  # a byte of padding before the network layer protocol identifier
    identifier = np.where(padded, read_uint8(buffer, inside), kind & 0xFF)
    inside = inside + padded
    unnumbered = kind >> 8 == 3
    snap = unnumbered & (identifier == 0x80)
    oui = read_uint32_be(buffer, inside) >> 8
    protocol = read_uint16_be(buffer, inside + 3)
    bridged = snap & (oui == 0x0080C2) & np.isin(protocol, (1, 7))  # Ethernet, with or without frame check sequence
    known = kind > MAX_LLC_LENGTH
    kind = np.where(known, kind, HEADER_UNKNOWN)
    kind[unnumbered] = HEADER_UNKNOWN
    kind[unnumbered & (identifier == 0xCC)] = ETHERTYPE_IPV4
    kind[unnumbered & (identifier == 0x8E)] = ETHERTYPE_IPV6
    routed = snap & (oui == 0) & (protocol > MAX_LLC_LENGTH)
    kind[routed] = protocol[routed]
    kind[bridged] = ETHERTYPE_ETHERNET
    inside = inside + np.where(snap, 5, 0)
    return _locate_headers(np.minimum(inside, end), kind)


def _make_directed_decoder(decoder: Decoder) -> Decoder:
    """A decoder of frames with a byte before them that tells their direction."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
        return decoder(buffer, at + 1, end)

    return decode


def _make_juniper_decoder(decoder: Decoder) -> Decoder:
    """A decoder of frames after Juniper's header, if its flags do not say that the link header is left out."""

    def decode(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
        flags = read_uint32_be(buffer, at)  # the last byte, after "MGC"
        extension = np.where(flags & _JUNIPER_EXTENSION != 0, 2 + read_uint16_be(buffer, at + 4).astype(np.int64), 0)
        inside = np.minimum(at + 4 + extension, end)
        family, kind = np.zeros(len(at), np.uint8), np.full(len(at), HEADER_UNKNOWN, np.uint16)
        known = flags >> 8 == _JUNIPER_MAGIC
        without_link = flags & _JUNIPER_NO_LINK_HEADER != 0
        for chosen, decode_rest, skipped in (
            (known & ~without_link, decoder, 0),
            (known & without_link, _decode_raw, 4),
        ):
            rows = find_rows(chosen & (inside + skipped < end))
            inside[rows], family[rows], kind[rows] = decode_rest(buffer, inside[rows] + skipped, end[rows])
        return Located(inside, family, kind)

    return decode


def _decode_ipnet(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """Version, address family of Solaris, and facts about interface and zones."""
    return _locate(at + 24, _get_families(read_uint8(buffer, at + 1), _SOLARIS_IPV4, _SOLARIS_IPV6))


def _decode_enc(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    """Address family in the byte order of the capturing machine, SPI, flags."""
    located = _decode_loopback(buffer, at, end)
    return Located(located.at + 8, located.family, located.kind)


def _decode_pflog(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:  # noqa: ARG001
    """Length without the padding to 4 bytes, address family, and facts about the rule of the packet filter."""
    size = (read_uint8(buffer, at).astype(np.int64) + 3) // 4 * 4
    return _locate(at + size, _get_families(read_uint8(buffer, at + 1), LOOPBACK_IPV4, *LOOPBACK_IPV6))


def _decode_nflog(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    """Address family, version, resource ID, then attributes in the byte order of the capturing machine."""
    inside = at + 4
    # the first attribute has few bytes, so its length shows the byte order
    big_endian = read_uint16_le(buffer, inside) > read_uint16_be(buffer, inside)
    rest = find_rows(inside + 4 <= end)
    payload = np.zeros(len(at), np.bool_)
    for _ in range(_MAX_ATTRIBUTES):
        place = inside[rest]
        big, little = read_uint32_be(buffer, place), read_uint32_le(buffer, place)
        size = np.where(big_endian[rest], big >> 16, little & 0xFFFF).astype(np.int64)
        kind = np.where(big_endian[rest], big & 0xFFFF, little >> 16) & 0x7FFF
        payload[rest] = kind == _NFLOG_PAYLOAD
        inside[rest] += np.where(payload[rest], 4, (size + 3) // 4 * 4)
        rest = rest[~payload[rest] & (size >= 4) & (inside[rest] + 4 <= end[rest])]
        if not len(rest):
            break
    family = _get_families(read_uint8(buffer, at), LOOPBACK_IPV4, *LOOPBACK_IPV6)
    family[~payload] = 0
    return _locate(inside, family)


def _decode_by_link_type(
    buffer: UInt8Array, at: Int64Array, end: Int64Array, size: Int64Array, kind: Int64Array
) -> Located:
    """Decode frames after a header of `size` bytes that tells their link type."""
    inside, family = end.copy(), np.zeros(len(at), np.uint8)
    following = np.full(len(at), HEADER_UNKNOWN, np.uint16)
    kind = np.where(at + size < end, kind, -1)
    for link_type in sort_distinct(kind).tolist():
        decoder = _DECODERS.get(link_type)
        if decoder is not None and decoder not in (_decode_pktap, _decode_ppi):
            rows = find_rows(kind == link_type)
            inside[rows], family[rows], following[rows] = decoder(buffer, at[rows] + size[rows], end[rows])
    return Located(inside, family, following)


def _decode_pktap(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    """Length, record type and link type of what follows, in the byte order of the capturing machine: little-endian."""
    size, link_type = read_uint32_le(buffer, at).astype(np.int64), read_uint32_le(buffer, at + 8).astype(np.int64)
    return _decode_by_link_type(buffer, at, end, np.maximum(size, 12), link_type)


def _decode_ppi(buffer: UInt8Array, at: Int64Array, end: Int64Array) -> Located:
    """Version, flags, length and link type, which are always little-endian."""
    size, link_type = read_uint16_le(buffer, at + 2).astype(np.int64), read_uint32_le(buffer, at + 4).astype(np.int64)
    return _decode_by_link_type(buffer, at, end, np.maximum(size, 8), link_type)


#: Link layers with an EtherType: size of the header, and offset of the EtherType in it.
ETHERTYPE_LINKS: Final[dict[int, tuple[int, int]]] = {
    LinkType.ETHERNET: (14, 12),
    LinkType.LINUX_SLL: (16, 14),
    LinkType.LINUX_SLL2: (20, 0),
    LinkType.C_HDLC: (4, 2),
    LinkType.APPLE_IP_OVER_IEEE1394: (18, 16),
    LinkType.IPOIB: (44, 40),
    LinkType.DSA_TAG_BRCM: (18, 16),
    LinkType.DSA_TAG_BRCM_PREPEND: (18, 16),
    LinkType.DSA_TAG_DSA: (18, 16),
    LinkType.DSA_TAG_EDSA: (22, 20),
}
#: Link types of IP packets without a link header.
RAW_LINKS: Final = (LinkType.RAW_BSD, LinkType.RAW_OPENBSD, LinkType.RAW)

_DECODERS: Final[dict[int, Decoder]] = {
    **{link_type: _make_ethertype_decoder(*layout) for link_type, layout in ETHERTYPE_LINKS.items()},
    **dict.fromkeys(RAW_LINKS, _decode_raw),
    LinkType.NULL: _decode_loopback,
    LinkType.PPP: _decode_ppp,
    LinkType.PPP_HDLC: _decode_ppp,
    LinkType.PPP_ETHER: _decode_pppoe,
    LinkType.LOOP: _decode_loopback,
    LinkType.PPP_PPPD: _decode_pppd,
    LinkType.PPP_WITH_DIR: _make_directed_decoder(_decode_ppp),
    LinkType.IPV4: _make_raw_decoder(4),
    LinkType.IPV6: _make_raw_decoder(6),
    LinkType.C_HDLC_WITH_DIR: _make_directed_decoder(_make_ethertype_decoder(4, 2)),
    LinkType.FRELAY: _decode_frame_relay,
    LinkType.FRELAY_WITH_DIR: _make_directed_decoder(_decode_frame_relay),
    LinkType.JUNIPER_ETHER: _make_juniper_decoder(_make_ethertype_decoder(14, 12)),
    LinkType.JUNIPER_PPP: _make_juniper_decoder(_decode_ppp),
    LinkType.JUNIPER_FRELAY: _make_juniper_decoder(_decode_frame_relay),
    LinkType.JUNIPER_CHDLC: _make_juniper_decoder(_make_ethertype_decoder(4, 2)),
    LinkType.IPNET: _decode_ipnet,
    LinkType.MPLS: _make_header_decoder(ETHERTYPES_MPLS[0]),
    LinkType.ENC: _decode_enc,
    LinkType.PFLOG: _decode_pflog,
    LinkType.NFLOG: _decode_nflog,
    LinkType.PKTAP: _decode_pktap,
    LinkType.PPI: _decode_ppi,
    LinkType.IEEE802_11: _make_header_decoder(HEADER_WLAN),
    LinkType.IEEE802_11_RADIOTAP: _make_wlan_decoder(get_radiotap_size),
    LinkType.IEEE802_11_PRISM: _make_wlan_decoder(get_prism_size),
    LinkType.IEEE802_11_AVS: _make_wlan_decoder(get_avs_size),
}


def get_link_type_name(number: int) -> str:
    """The registered name ("LINKTYPE_ETHERNET"), or the number as text for one that is not registered."""
    if number in (LinkType.RAW_BSD, LinkType.RAW_OPENBSD):
        return "LINKTYPE_RAW"
    members = (*LinkType.__members__.items(), *OTHER_LINK_TYPES.items())
    return next((f"LINKTYPE_{name}" for name, value in members if value == number), str(number))
