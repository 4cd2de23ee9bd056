import os
import shutil
import struct
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.capture.laws import counted, mixed, read, read_mixed, read_packets, rows, texts
from tests.craft import Handshake, Packet, link, tunnel, udp_packet
from tests.craft.pcap_file import pcap

MESSAGE = Handshake(1).init()[0].datagrams[0]
V4 = udp_packet(MESSAGE, 500, 501)
V6 = udp_packet(MESSAGE, 500, 501, "2001:db8::1", "2001:db8::2")
VLAN, QINQ = link.VLAN, link.QINQ


def snap(packet: bytes, oui: bytes = bytes(3)) -> bytes:
    body = b"\xaa\xaa\x03" + oui + link.ethertype_of(packet).to_bytes(2, "big") + packet
    return link.ethernet(body, len(body) if len(body) <= 1500 else 1500)


def tagged(*tpids: int):
    return partial(link.ethernet, vlans=[(tpid, 0x2000 | number) for number, tpid in enumerate(tpids, 1)])


def session(packet: bytes) -> bytes:
    return link.pppoe(packet)[14:]


FRAMES = {
    "ethernet": (1, link.ethernet),
    "ethernet, padded": (1, partial(link.ethernet, trailer=bytes(7))),
    "vlan": (1, tagged(VLAN)),
    "qinq": (1, tagged(QINQ, VLAN)),
    "0x9100": (1, tagged(0x9100, VLAN)),
    "0x9200": (1, tagged(0x9200)),
    "three tags": (1, tagged(QINQ, VLAN, VLAN)),
    "four tags": (1, tagged(0x9100, QINQ, VLAN, VLAN)),
    "snap": (1, snap),
    "pppoe": (1, link.pppoe),
    "pppoe in vlan": (1, partial(link.pppoe, vlans=[(QINQ, 5), (VLAN, 6)])),
    "pppoe without ethernet": (51, session),
    "sll": (113, link.sll),
    "sll, vlan": (113, lambda packet: link.sll(link.ethernet(packet, vlans=[(VLAN, 3)])[14:], VLAN)),
    "sll2": (276, link.sll2),
    "raw": (101, link.raw),
    "raw 12": (12, link.raw),
    "raw 14": (14, link.raw),
    "null": (0, link.null),
    "null, big-endian": (0, partial(link.null, byteorder=">")),
    "loop": (108, link.loop),
    "ppp": (9, link.ppp),
    "ppp, no address": (9, partial(link.ppp, address_control=False)),
    "ppp, compressed": (9, partial(link.ppp, compressed=True)),
    "ppp, both": (9, partial(link.ppp, address_control=False, compressed=True)),
    "ppp hdlc": (50, link.ppp),
    "ppp with direction": (204, lambda packet: b"\1" + link.ppp(packet)),
    "ppp with direction, compressed": (
        204,
        lambda packet: b"\0" + link.ppp(packet, address_control=False, compressed=True),
    ),
    "cisco hdlc": (104, tunnel.hdlc),
    "cisco hdlc with direction": (205, lambda packet: b"\0" + tunnel.hdlc(packet)),
    "frame relay": (107, tunnel.frame_relay),
    "frame relay with direction": (206, lambda packet: b"\1" + tunnel.frame_relay(packet)),
    "frame relay with direction, snap": (206, lambda packet: b"\0" + tunnel.frame_relay_snap(packet)),
    "pppd": (166, lambda packet: b"\1" + link.ppp(packet)[1:]),
    "dsa": (284, lambda packet: tunnel.dsa(link.ethernet(packet))),
    "edsa": (285, lambda packet: tunnel.edsa(link.ethernet(packet))),
    "broadcom tag": (281, lambda packet: tunnel.brcm(link.ethernet(packet))),
    "broadcom tag in front": (282, lambda packet: b"\x20\0\0\x20" + link.ethernet(packet)),
    "juniper ethernet": (178, lambda packet: tunnel.juniper(link.ethernet(packet))),
    "juniper ethernet, extension": (
        178,
        lambda packet: tunnel.juniper(link.ethernet(packet), extension=tunnel.JUNIPER_EXTENSION),
    ),
    "juniper ethernet, vlan": (178, lambda packet: tunnel.juniper(tagged(VLAN)(packet))),
    "juniper without link header": (
        178,
        lambda packet: tunnel.juniper(packet, extension=tunnel.JUNIPER_EXTENSION, family=2),
    ),
    "juniper ppp": (179, lambda packet: tunnel.juniper(link.ppp(packet))),
    "juniper frame relay": (180, lambda packet: tunnel.juniper(tunnel.frame_relay(packet))),
    "juniper cisco hdlc": (181, lambda packet: tunnel.juniper(tunnel.hdlc(packet))),
    "ipnet": (226, tunnel.ipnet),
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("packet", [V4, V6], ids=["ipv4", "ipv6"])
def test_ip_is_found_after_every_link_layer(name: str, packet: bytes) -> None:
    kind, frame = FRAMES[name]
    capture = read_packets(frame(packet), frame(packet), linktype=kind)
    assert capture.warnings == []
    assert counted(capture) == {"ike": 2}
    ends = (500, 501, len(frame(packet)), 34)
    assert rows(capture, "source_port", "destination_port", "bytes", "exchange_type") == [ends, ends]
    addresses = ("192.0.2.1", "192.0.2.2") if packet is V4 else ("2001:db8::1", "2001:db8::2")
    codes = rows(capture, "source", "destination")[1]
    assert tuple(map(capture.address, codes)) == addresses


def test_raw_links_of_one_family_accept_no_other() -> None:
    assert counted(read_mixed((228, V4), (229, V6))) == {"ike": 2}
    assert counted(read_mixed((228, V6), (229, V4))) == {"malformed": 2}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("family", "packet"), [(2, V4), (10, V6), (24, V6), (28, V6), (30, V6)])
def test_address_families_of_loopback(order: link.ByteOrder, family: int, packet: bytes) -> None:
    assert counted(read_packets(link.null(packet, order, family), linktype=0)) == {"ike": 1}
    if order == ">":
        assert counted(read_packets(link.loop(packet, family), linktype=108)) == {"ike": 1}


@pytest.mark.parametrize(
    "frame",
    [
        link.ethernet(V4, 0x0806),
        link.ethernet(b"\x42\x42\x03" + V4, 200),  # spanning tree
        link.ethernet(b"\xaa\xaa\x03\0\0\0\x08\x06" + V4, 200),  # ARP in SNAP
        link.ethernet(b"\xaa\xaa\x03\0\0\0\x00\x40" + V4, 200),
        link.ethernet(V4, 0x8863),  # PPPoE discovery
        link.ethernet(b"\x11\0\0\1\0\4\xc0\x21" + V4, link.PPPOE_SESSION),  # LCP
        link.ethernet(b"", link.VLAN),
        link.ethernet(b"\0\1\x81\0" * 5, link.VLAN),
        link.ethernet(b"", link.IPV4),
        b"",
        bytes(5),
    ],
)
def test_what_is_not_ip_is_other(frame: bytes) -> None:
    capture = read_packets(frame, frame)
    assert counted(capture) == {"other": 2}
    assert capture.warnings == []


def test_not_ip_on_other_links() -> None:
    frames = [
        (0, link.null(V4, "<", 7)),
        (108, link.loop(V4, 7)),
        (9, link.ppp(V4, protocol=0xC021)),
        (50, b"\x0f\x00\x08\x06" + V4),  # Cisco HDLC
        (113, link.sll(V4, 0x0806)),
        (276, link.sll2(V4, 0x0806)),
        (101, b"\x50" + V4[1:]),
    ]
    assert counted(read_mixed(*frames)) == {"other": len(frames)}


def test_unknown_link_type_is_named_and_counted() -> None:
    capture = read_mixed((195, V4), (1, link.ethernet(V4)), (195, V4), (4242, V4), (189, b""))
    assert counted(capture) == {"ike": 1, "other": 4}
    assert rows(capture, "number", "interface") == [(2, 1)]
    first, second, third = sorted(texts(capture))
    assert "4242" in first
    assert "IEEE802_15_4_WITHFCS" in second
    assert "2 packets" in second
    assert "USB_LINUX" in third


def test_link_types_can_be_mixed() -> None:
    frames = [(kind, frame(packet)) for kind, frame in FRAMES.values() for packet in (V4, V6)]
    frames = frames[::2] + frames[1::2]
    capture = read_mixed(*frames)
    assert counted(capture) == {"ike": len(frames)}
    assert rows(capture, "number", "bytes") == [(n, len(data)) for n, (_, data) in enumerate(frames, 1)]


#: Link types with a direction byte that tshark does not read, and those of the frames after it (tcpdump.org/linktypes).
WITHOUT_DIRECTION = {205: 104, 206: 107}
#: Other link types that tshark does not read, but tcpdump does.
READ_BY_TCPDUMP = {166, 281, 282, 284, 285}


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_finds_ike_in_the_same_frames(tmp_path: Path) -> None:
    unknown = {12, 14} | READ_BY_TCPDUMP
    known = {name: made for name, made in FRAMES.items() if made[0] not in unknown and name != "0x9200"}
    frames = [(kind, frame(packet)) for kind, frame in known.values() for packet in (V4, V6)]
    frames.append((1, link.ethernet(V4, 0x0806)))
    path = tmp_path / "mixed.pcapng"
    readable = [
        (WITHOUT_DIRECTION[kind], data[1:]) if kind in WITHOUT_DIRECTION else (kind, data) for kind, data in frames
    ]
    path.write_bytes(mixed(*readable))
    command = ["tshark", "-n", "-r", str(path), "-Y", "isakmp", "-Tfields", "-eframe.number"]
    result = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert list(map(int, result)) == [number for (number,) in rows(read_mixed(*frames), "number")]


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("tcpdump") and "CI" not in os.environ, reason="tcpdump is not installed")
@pytest.mark.parametrize("name", [name for name, (kind, _) in FRAMES.items() if kind in READ_BY_TCPDUMP])
def test_tcpdump_finds_ike_in_the_same_frames(tmp_path: Path, name: str) -> None:
    kind, frame = FRAMES[name]
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap([Packet(10**18, frame(packet)) for packet in (V4, V6)], linktype=kind))
    done = subprocess.run(["tcpdump", "-n", "-r", str(path)], capture_output=True, text=True, check=True)
    assert ["isakmp" in line for line in done.stdout.splitlines()] == [True, True]


@pytest.mark.parametrize("name", FRAMES)
def test_packets_truncated_at_every_length_are_counted(name: str) -> None:
    kind, frame = FRAMES[name]
    for packet in (V4, V6):
        data = frame(packet)
        pieces = [(size, data[:size]) for size in range(min(len(data), 121))]
        body = b"".join(struct.pack("<IIII", 1, 0, size, len(data)) + piece for size, piece in pieces)
        capture = read(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, kind) + body)
        assert capture.packets == len(pieces)
        assert set(counted(capture)) <= {"ike", "other", "malformed"}
        whole = data.index(MESSAGE) + 28  # from here on the IKE header is there
        assert [n - 1 for (n,) in rows(capture, "number")] == list(range(whole, len(pieces)))
