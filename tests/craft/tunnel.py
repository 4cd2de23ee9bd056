"""Tunnels and link layers around a packet, byte by byte: an Ethernet frame in, a frame with the tunnel out.

The numbers (VNI, key, ...) are the same in all, so that a test can name the tunnel.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

from . import ip, link
from .ip import ipv4, ipv6
from .transport import udp

#: Outer addresses, which differ from those of the tests' hosts.
HERE, THERE = "198.51.100.1", "198.51.100.2"
HERE6, THERE6 = "2001:db8:ffff::1", "2001:db8:ffff::2"
ERSPAN, ERSPAN_III, ETHERNET_BRIDGING, PPP_TYPE, MPLS, NSH, BACKBONE, MACSEC = (
    0x88BE, 0x22EB, 0x6558, 0x880B, 0x8847, 0x894F, 0x88E7, 0x88E5,
)  # fmt: skip
IPIP, IPV6_IN_IP, GRE, ETHERIP, L2TP, MPLS_IN_IP = 4, 41, 47, 97, 115, 137

Wrap = Callable[[bytes], bytes]


def packet_of(frame: bytes) -> bytes:
    """The packet in an Ethernet frame without tags."""
    return frame[14:]


def over_ip(payload: bytes, protocol: int, *, six: bool = False) -> bytes:
    """An Ethernet frame with an outer IP packet."""
    if six:
        return link.ethernet(ipv6(payload, HERE6, THERE6, protocol))
    return link.ethernet(ipv4(payload, HERE, THERE, protocol, ttl=63, ident=7))


def over_udp(payload: bytes, port: int, *, source_port: int = 54321, six: bool = False) -> bytes:
    ends = (HERE6, THERE6) if six else (HERE, THERE)
    return over_ip(udp(payload, source_port, port, *ends), ip.UDP, six=six)


def label_stack(*labels: int) -> bytes:
    last = len(labels) - 1
    return b"".join(struct.pack(">I", label << 12 | (index == last) << 8 | 64) for index, label in enumerate(labels))


def gre(
    payload: bytes,
    kind: int,
    *,
    key: int | None = None,
    checksum: bool = False,
    sequence: int | None = None,
) -> bytes:
    flags = checksum << 15 | (key is not None) << 13 | (sequence is not None) << 12
    header = struct.pack(">HH", flags, kind)
    header += bytes(4) if checksum else b""
    header += struct.pack(">I", key) if key is not None else b""
    header += struct.pack(">I", sequence) if sequence is not None else b""
    return header + payload


def vxlan(frame: bytes, vni: int = 42, flags: int = 0x08000000, reserved: int = 0) -> bytes:
    return struct.pack(">II", flags, vni << 8 | reserved) + frame


def geneve(payload: bytes, kind: int = ETHERNET_BRIDGING, vni: int = 42, options: bytes = b"") -> bytes:
    return struct.pack(">BBHI", len(options) // 4, 0, kind, vni << 8) + options + payload


def gtp(packet: bytes, endpoint: int = 42, extensions: bytes = b"") -> bytes:
    """`extensions`: the first type, then extension headers, the last of which has 0 as its last byte."""
    optional = b"\0\0\0" + extensions if extensions else b""
    return (
        struct.pack(">BBHI", 0x34 if extensions else 0x30, 255, len(optional) + len(packet), endpoint)
        + optional
        + packet
    )


def ppp(packet: bytes) -> bytes:
    return link.ppp(packet)


def l2tp(packet: bytes, tunnel: int = 3, session: int = 4, *, full: bool = False) -> bytes:
    """L2TPv2 data; `full`: with length, sequence numbers and offset."""
    body = ppp(packet)
    if not full:
        return struct.pack(">HHH", 2, tunnel, session) + body
    rest = struct.pack(">HHHHH", tunnel, session, 1, 2, 3) + bytes(3) + body
    return struct.pack(">HH", 0x4A02, 4 + len(rest)) + rest


def tzsp(frame: bytes, protocol: int = 1) -> bytes:
    """With a tag of two bytes, padding and the last tag."""
    return struct.pack(">BBH", 1, 0, protocol) + b"\x0a\x02\x01\x02\x00\x01" + frame


def nsh(payload: bytes, following: int, path: int = 42) -> bytes:
    """With metadata of type 1, 16 bytes."""
    return struct.pack(">HBBI", 6, 1, following, path << 8 | 255) + bytes(16) + payload


def macsec(frame: bytes, *, control: int = 0x20) -> bytes:
    """Integrity only, with a secure channel identifier; the ICV is not computed."""
    tag = struct.pack(">BBI8s", control, 0, 1, frame[6:12] + b"\0\1")
    return frame[:12] + struct.pack(">H", MACSEC) + tag + frame[12:] + bytes(16)


def snap(packet: bytes) -> bytes:
    return b"\xaa\xaa\x03\0\0\0" + struct.pack(">H", link.ethertype_of(packet)) + packet


def wlan(packet: bytes, control: int = 0x0188, *, padding: int = 0) -> bytes:
    """An 802.11 data frame. `control`: as in the frame, little-endian; default: QoS data to the access point."""
    header = struct.pack("<HH", control, 0) + bytes(18) + struct.pack("<H", 16)
    header += bytes(6) if control & 0x0300 == 0x0300 else b""
    header += bytes(2) if control & 0x80 else b""
    return header + bytes(padding) + snap(packet)


def radiotap(frame: bytes) -> bytes:
    """With time stamp and flags."""
    return struct.pack("<BBHIQB", 0, 0, 17, 3, 123, 0) + frame


def prism(frame: bytes) -> bytes:
    return struct.pack("<II16s", 0x44, 144, b"wlan0") + bytes(120) + frame


def avs(frame: bytes) -> bytes:
    return struct.pack(">II", 0x80211001, 64) + bytes(56) + frame


def pktap(frame: bytes, kind: int = 1) -> bytes:
    return struct.pack("<III24s", 108, 1, kind, b"en0") + bytes(72) + frame


def nflog(packet: bytes, order: str = "<") -> bytes:
    def attribute(kind: int, value: bytes) -> bytes:
        return struct.pack(order + "HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)

    family = 10 if link.ethertype_of(packet) == link.IPV6 else 2
    attributes = attribute(1, bytes(4)) + attribute(10, b"test\0") + attribute(9, packet)
    return struct.pack(">BBH", family, 0, 1) + attributes


def family_of(packet: bytes) -> int:
    """AF_INET and AF_INET6 of OpenBSD."""
    return 24 if link.ethertype_of(packet) == link.IPV6 else 2


def enc(packet: bytes) -> bytes:
    return struct.pack("<II", family_of(packet), 0x12345678) + bytes(4) + packet


def pflog(packet: bytes) -> bytes:
    return struct.pack("BB", 61, family_of(packet)) + bytes(62) + packet


def hdlc(packet: bytes) -> bytes:
    return b"\x0f\0" + struct.pack(">H", link.ethertype_of(packet)) + packet


def frame_relay(packet: bytes) -> bytes:
    identifier = b"\x8e" if link.ethertype_of(packet) == link.IPV6 else b"\xcc"
    return b"\x18\x41\x03" + identifier + packet


def frame_relay_snap(packet: bytes) -> bytes:
    return b"\x18\x41\x03\0\x80\0\0\0" + struct.pack(">H", link.ethertype_of(packet)) + packet


def dsa(frame: bytes) -> bytes:
    """Marvell's tag after the addresses of Ethernet: forwarded, switch 1, port 2, VLAN 7."""
    return frame[:12] + b"\xc1\x10\0\x07" + frame[12:]


def edsa(frame: bytes) -> bytes:
    return frame[:12] + b"\xda\xda\0\0" + b"\xc1\x10\0\x07" + frame[12:]


def brcm(frame: bytes) -> bytes:
    return frame[:12] + b"\x2c\0\0\x80" + frame[12:]


def juniper(inner: bytes, *, extension: bytes = b"", family: int | None = None) -> bytes:
    """Juniper's header; with an address family, `inner` is an IP packet without link header."""
    flags = (0x80 if extension else 0) | (0 if family is None else 2) | 1
    size = struct.pack(">H", len(extension)) + extension if extension else b""
    return b"MGC" + bytes([flags]) + size + (b"" if family is None else struct.pack("<I", family)) + inner


#: Type, length, value: index and kind of the interface.
JUNIPER_EXTENSION = b"\x03\x01\x01\x06\x01\x0e\x01\x02\x8c\0\x04\x04\x4c\x01\0\0"


def ipnet(packet: bytes) -> bytes:
    """AF_INET and AF_INET6 of Solaris."""
    family = 26 if link.ethertype_of(packet) == link.IPV6 else 2
    return struct.pack(">BBHIIIII", 1, family, 0, len(packet), 0, 2, 0, 0xFFFFFFFF) + packet


@dataclass(frozen=True, slots=True)
class Encapsulation:
    """How a frame is wrapped."""

    wrap: Wrap  # an Ethernet frame without tags
    tunnel: str | None = None  # the name that the tunnel should have; None: it is a link layer
    linktype: int = link.ETHERNET


ENDS, ENDS6 = f"{HERE}-{THERE}", f"{HERE6}-{THERE6}"

TUNNELS: dict[str, Encapsulation] = {
    "mpls": Encapsulation(lambda f: link.ethernet(label_stack(42) + packet_of(f), MPLS), "mpls:42"),
    "mpls, two labels": Encapsulation(lambda f: link.ethernet(label_stack(100, 42) + packet_of(f), MPLS), "mpls:42"),
    "mpls, entropy label": Encapsulation(
        lambda f: link.ethernet(label_stack(100, 42, 7, 98765) + packet_of(f), MPLS), "mpls:42"
    ),
    "pseudowire": Encapsulation(lambda f: link.ethernet(label_stack(42) + f, MPLS), "mpls:42"),
    "pseudowire, control word": Encapsulation(lambda f: link.ethernet(label_stack(42) + bytes(4) + f, MPLS), "mpls:42"),
    "mpls over ip": Encapsulation(lambda f: over_ip(label_stack(42) + packet_of(f), MPLS_IN_IP), "mpls:42"),
    "gre": Encapsulation(lambda f: over_ip(gre(packet_of(f), link.ethertype_of(packet_of(f))), GRE), f"gre:{ENDS}"),
    "gre over ipv6": Encapsulation(
        lambda f: over_ip(gre(packet_of(f), link.ethertype_of(packet_of(f))), GRE, six=True), f"gre:{ENDS6}"
    ),
    "gre, key": Encapsulation(
        lambda f: over_ip(gre(packet_of(f), link.ethertype_of(packet_of(f)), key=42), GRE), "gre:42"
    ),
    "gre, everything": Encapsulation(
        lambda f: over_ip(gre(packet_of(f), link.ethertype_of(packet_of(f)), key=42, checksum=True, sequence=1), GRE),
        "gre:42",
    ),
    "gre, ethernet": Encapsulation(lambda f: over_ip(gre(f, ETHERNET_BRIDGING), GRE), f"gre:{ENDS}"),
    "gre, mpls": Encapsulation(
        lambda f: over_ip(gre(label_stack(42) + packet_of(f), MPLS, key=1), GRE), "gre:1/mpls:42"
    ),
    "nvgre": Encapsulation(lambda f: over_ip(gre(f, ETHERNET_BRIDGING, key=42 << 8 | 99), GRE), "nvgre:42"),
    "pptp": Encapsulation(
        lambda f: over_ip(struct.pack(">HHHHI", 0x3001, PPP_TYPE, len(f), 42, 1) + ppp(packet_of(f)), GRE), "pptp:42"
    ),
    "erspan 1": Encapsulation(lambda f: over_ip(gre(f, ERSPAN), GRE), "erspan"),
    "erspan 2": Encapsulation(
        lambda f: over_ip(gre(struct.pack(">II", 0x10010000 | 42, 5) + f, ERSPAN, sequence=1), GRE), "erspan:42"
    ),
    "erspan 3": Encapsulation(
        lambda f: over_ip(gre(struct.pack(">III", 0x20010000 | 42, 5, 0) + f, ERSPAN_III, sequence=1), GRE),
        "erspan:42",
    ),
    "erspan 3, subheader": Encapsulation(
        lambda f: over_ip(gre(struct.pack(">IIIQ", 0x20010000 | 42, 5, 1, 0) + f, ERSPAN_III, sequence=1), GRE),
        "erspan:42",
    ),
    "vxlan": Encapsulation(lambda f: over_udp(vxlan(f), 4789), "vxlan:42"),
    "vxlan over ipv6": Encapsulation(lambda f: over_udp(vxlan(f), 4789, six=True), "vxlan:42"),
    # as scapy makes it: with the bit and the next protocol of VXLAN-GPE
    "vxlan, reserved bits": Encapsulation(lambda f: over_udp(vxlan(f, flags=0x0C000003, reserved=7), 4789), "vxlan:42"),
    "vxlan, group policy": Encapsulation(lambda f: over_udp(vxlan(f, flags=0x88000005), 4789), "vxlan:42"),
    "vxlan, old port": Encapsulation(lambda f: over_udp(vxlan(f), 8472), "vxlan:42"),
    "vxlan gpe": Encapsulation(
        lambda f: over_udp(
            struct.pack(">II", 0x0C000001 if link.ethertype_of(packet_of(f)) == link.IPV4 else 0x0C000002, 42 << 8)
            + packet_of(f),
            4790,
        ),
        "vxlan:42",
    ),
    "geneve": Encapsulation(lambda f: over_udp(geneve(f), 6081), "geneve:42"),
    "geneve, options": Encapsulation(lambda f: over_udp(geneve(f, options=b"\x01\x02\x03\x01abcd"), 6081), "geneve:42"),
    "geneve, ip": Encapsulation(
        lambda f: over_udp(geneve(packet_of(f), link.ethertype_of(packet_of(f))), 6081), "geneve:42"
    ),
    "gtp": Encapsulation(lambda f: over_udp(gtp(packet_of(f)), 2152, source_port=2152), "gtp:42"),
    "gtp, extension headers": Encapsulation(
        lambda f: over_udp(gtp(packet_of(f), extensions=b"\x85\x01\x00\x09\xc0\x01\x01\x02\x00"), 2152), "gtp:42"
    ),
    "l2tp": Encapsulation(lambda f: over_udp(l2tp(packet_of(f)), 1701, source_port=1701), "l2tp:3.4"),
    "l2tp, all fields": Encapsulation(
        lambda f: over_udp(l2tp(packet_of(f), full=True), 1701, source_port=1701), "l2tp:3.4"
    ),
    "l2tpv3": Encapsulation(lambda f: over_ip(struct.pack(">I", 42) + f, L2TP), "l2tp:42"),
    "l2tpv3, cookie": Encapsulation(lambda f: over_ip(struct.pack(">II", 42, 0xDEADBEEF) + f, L2TP), "l2tp:42"),
    "l2tpv3 over udp": Encapsulation(
        lambda f: over_udp(struct.pack(">HHI", 3, 0, 42) + f, 1701, source_port=1701), "l2tp:42"
    ),
    "etherip": Encapsulation(lambda f: over_ip(b"\x30\0" + f, ETHERIP), f"etherip:{ENDS}"),
    "tzsp": Encapsulation(lambda f: over_udp(tzsp(f), 37008), f"tzsp:{ENDS}"),
    "tzsp, 802.11": Encapsulation(lambda f: over_udp(tzsp(wlan(packet_of(f)), 18), 37008), f"tzsp:{ENDS}"),
    "802.1ah": Encapsulation(lambda f: link.ethernet(struct.pack(">I", 42) + f, BACKBONE), "pbb:42"),
    "nsh": Encapsulation(lambda f: link.ethernet(nsh(f, 3), NSH), "nsh:42"),
    "vxlan gpe, nsh": Encapsulation(
        lambda f: over_udp(struct.pack(">II", 0x0C000004, 5 << 8) + nsh(f, 3), 4790), "vxlan:5/nsh:42"
    ),
    "vxlan in gre in mpls": Encapsulation(
        lambda f: link.ethernet(
            label_stack(1000) + packet_of(over_ip(gre(packet_of(over_udp(vxlan(f), 4789)), link.IPV4, key=9), GRE)),
            MPLS,
        ),
        "mpls:1000/gre:9/vxlan:42",
    ),
}


def _ip_in_ip(frame: bytes, *, six: bool) -> bytes:
    packet = packet_of(frame)
    return over_ip(packet, IPV6_IN_IP if link.ethertype_of(packet) == link.IPV6 else IPIP, six=six)


IP_IN_IP: dict[str, Encapsulation] = {
    "ip in ipv4": Encapsulation(lambda f: _ip_in_ip(f, six=False), ENDS),
    "ip in ipv6": Encapsulation(lambda f: _ip_in_ip(f, six=True), ENDS6),
}

LINKS: dict[str, Encapsulation] = {
    "macsec": Encapsulation(macsec, "macsec"),
    "802.11": Encapsulation(lambda f: wlan(packet_of(f)), linktype=105),
    "802.11, no qos": Encapsulation(lambda f: wlan(packet_of(f), 0x0208), linktype=105),
    "802.11, four addresses": Encapsulation(lambda f: wlan(packet_of(f), 0x0388), linktype=105),
    "radiotap": Encapsulation(lambda f: radiotap(wlan(packet_of(f))), linktype=127),
    "radiotap, padding": Encapsulation(lambda f: radiotap(wlan(packet_of(f), padding=2)), linktype=127),
    "prism": Encapsulation(lambda f: prism(wlan(packet_of(f))), linktype=119),
    "avs": Encapsulation(lambda f: avs(wlan(packet_of(f))), linktype=163),
    "avs as prism": Encapsulation(lambda f: avs(wlan(packet_of(f))), linktype=119),
    "pktap": Encapsulation(pktap, linktype=258),
    "pktap, raw": Encapsulation(lambda f: pktap(packet_of(f), 12), linktype=258),
    "nflog": Encapsulation(lambda f: nflog(packet_of(f)), linktype=239),
    "nflog, big-endian": Encapsulation(lambda f: nflog(packet_of(f), ">"), linktype=239),
    "enc": Encapsulation(lambda f: enc(packet_of(f)), linktype=109),
    "pflog": Encapsulation(lambda f: pflog(packet_of(f)), linktype=117),
    "cisco hdlc": Encapsulation(lambda f: hdlc(packet_of(f)), linktype=104),
    "frame relay": Encapsulation(lambda f: frame_relay(packet_of(f)), linktype=107),
    "frame relay, snap": Encapsulation(lambda f: frame_relay_snap(packet_of(f)), linktype=107),
    "firewire": Encapsulation(
        lambda f: bytes(16) + struct.pack(">H", link.ethertype_of(packet_of(f))) + packet_of(f), linktype=138
    ),
    "infiniband": Encapsulation(
        lambda f: bytes(40) + struct.pack(">HH", link.ethertype_of(packet_of(f)), 0) + packet_of(f), linktype=242
    ),
    "dsa": Encapsulation(dsa, linktype=284),
    "edsa": Encapsulation(edsa, linktype=285),
    "broadcom tag": Encapsulation(brcm, linktype=281),
    "broadcom tag in front": Encapsulation(lambda f: b"\x20\0\0\x20" + f, linktype=282),
    "juniper": Encapsulation(juniper, linktype=178),
    "juniper, extension": Encapsulation(lambda f: juniper(f, extension=JUNIPER_EXTENSION), linktype=178),
    "juniper, no link header": Encapsulation(lambda f: juniper(packet_of(f), family=2), linktype=178),
    "ipnet": Encapsulation(lambda f: ipnet(packet_of(f)), linktype=226),
    "ppi": Encapsulation(lambda f: struct.pack("<BBHI", 0, 0, 8, 105) + wlan(packet_of(f)), linktype=192),
}

ENCRYPTED_MACSEC = Encapsulation(lambda f: macsec(f, control=0x2C))

ALL = {**TUNNELS, **IP_IN_IP, **LINKS}
