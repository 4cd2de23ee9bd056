"""Link layers: an IP packet (or anything else) in, a frame out."""

import struct
from collections.abc import Callable, Sequence
from typing import Literal

IPV4, IPV6 = 0x0800, 0x86DD
VLAN, QINQ, PPPOE_SESSION = 0x8100, 0x88A8, 0x8864

# LINKTYPE_* of https://www.tcpdump.org/linktypes.html
NULL, ETHERNET, PPP, PPP_HDLC, RAW, LOOP, SLL = 0, 1, 9, 50, 101, 108, 113
ONLY_IPV4, ONLY_IPV6, SLL2 = 228, 229, 276

INITIATOR_MAC = bytes.fromhex("020000000001")
RESPONDER_MAC = bytes.fromhex("020000000002")

ByteOrder = Literal["<", ">"]


def ethertype_of(packet: bytes) -> int:
    """By the version in an IP packet's first byte."""
    return IPV6 if packet[:1] and packet[0] >> 4 == 6 else IPV4


def ethernet(
    payload: bytes,
    ethertype: int | None = None,
    vlans: Sequence[tuple[int, int]] = (),
    source: bytes = INITIATOR_MAC,
    destination: bytes = RESPONDER_MAC,
    trailer: bytes = b"",
) -> bytes:
    """`vlans`: (TPID, TCI) from the outermost in. `trailer`: padding to 60 bytes, say."""
    inner = ethertype_of(payload) if ethertype is None else ethertype
    tags = b"".join(struct.pack(">HH", tpid, tci) for tpid, tci in vlans)
    return destination + source + tags + struct.pack(">H", inner) + payload + trailer


def padded(payload: bytes, ethertype: int | None = None) -> bytes:
    """Ethernet, padded to the 60 bytes that a network card sends at least."""
    return ethernet(payload, ethertype, trailer=bytes(max(0, 46 - len(payload))))


def sll(payload: bytes, protocol: int | None = None, kind: int = 0) -> bytes:
    """Linux cooked capture v1. `kind`: 0 to us, 4 sent by us."""
    inner = ethertype_of(payload) if protocol is None else protocol
    return struct.pack(">HHH8sH", kind, 1, 6, INITIATOR_MAC, inner) + payload


def sll2(payload: bytes, protocol: int | None = None, kind: int = 0, interface: int = 2) -> bytes:
    inner = ethertype_of(payload) if protocol is None else protocol
    return struct.pack(">HHIHBB8s", inner, 0, interface, 1, kind, 6, INITIATOR_MAC) + payload


def raw(payload: bytes) -> bytes:
    return payload


def null(payload: bytes, byteorder: ByteOrder = "<", family: int | None = None) -> bytes:
    """BSD loopback. AF_INET is 2 everywhere; AF_INET6 is 24, 28 or 30 (10 on Linux), by the system."""
    if family is None:
        family = 30 if ethertype_of(payload) == IPV6 else 2
    return struct.pack(byteorder + "I", family) + payload


def loop(payload: bytes, family: int | None = None) -> bytes:
    """OpenBSD loopback: always in network byte order."""
    return null(payload, ">", family)


def ppp(
    payload: bytes, *, address_control: bool = True, compressed: bool = False, protocol: int | None = None
) -> bytes:
    """RFC 1661 and 1662. `compressed`: protocol field of one byte."""
    if protocol is None:
        protocol = 0x57 if ethertype_of(payload) == IPV6 else 0x21
    field = struct.pack(">B", protocol) if compressed else struct.pack(">H", protocol)
    return (b"\xff\x03" if address_control else b"") + field + payload


def pppoe(payload: bytes, session: int = 0x1234, vlans: Sequence[tuple[int, int]] = ()) -> bytes:
    """RFC 2516, in Ethernet."""
    body = ppp(payload, address_control=False)
    return ethernet(struct.pack(">BBHH", 0x11, 0, session, len(body)) + body, PPPOE_SESSION, vlans)


#: How a frame of each link type is made from an IP packet.
FRAMERS: dict[int, Callable[[bytes], bytes]] = {
    NULL: null,
    ETHERNET: ethernet,
    PPP: ppp,
    PPP_HDLC: ppp,
    RAW: raw,
    LOOP: loop,
    SLL: sll,
    ONLY_IPV4: raw,
    ONLY_IPV6: raw,
    SLL2: sll2,
}
