"""What cannot be read in tunnels is named, and other traffic on the ports of tunnels is left alone."""

import random
import struct

import pytest

from tests.capture.laws import counted, read, read_packets, rows, texts
from tests.craft import Handshake, ip, ipv4, link, transport, udp_packet
from tests.craft.packet import Packet
from tests.craft.pcap_file import pcap
from tests.craft.tunnel import (
    ALL,
    ETHERNET_BRIDGING,
    GRE,
    MPLS,
    TUNNELS,
    geneve,
    gre,
    gtp,
    label_stack,
    macsec,
    nsh,
    over_ip,
    over_udp,
    vxlan,
    wlan,
)

MESSAGE = Handshake(1).init()[0].datagrams[0]
V4 = udp_packet(MESSAGE, 500, 501)
FRAME = link.ethernet(V4)
ARP = link.ethernet(bytes(28), 0x0806)

UNREAD = {
    "encrypted MACsec": (1, macsec(FRAME, control=0x2C)),
    "protected (encrypted) 802.11 frames": (105, wlan(V4, 0x4188)),
    "fragments of 802.11 frames": (105, wlan(V4, 0x0588)),
    "GRE with the unknown protocol type 0x1234": (1, over_ip(gre(V4, 0x1234, key=1), GRE)),
    "Geneve with the unknown protocol type 0x4321": (1, over_udp(geneve(V4, 0x4321), 6081)),
    "GRE with routing": (1, over_ip(struct.pack(">HH", 0x4000, 0x0800) + V4, GRE)),
    "NSH with the unknown next protocol 9": (1, link.ethernet(nsh(V4, 9), 0x894F)),
    "MPLS with unknown contents": (1, link.ethernet(label_stack(5) + b"\xff" * 40, MPLS)),
    "GTP-U with unknown contents": (1, over_udp(gtp(b"\xff" * 40), 2152)),
    "compressed or encrypted PPP (MPPC or MPPE)": (
        1, over_udp(struct.pack(">HHH", 2, 3, 4) + b"\xff\x03\x00\xfd" + bytes(40), 1701),
    ),
    "PPP multilink fragments": (1, over_udp(struct.pack(">HHH", 2, 3, 4) + b"\xff\x03\x00\x3d" + bytes(40), 1701)),
    "ERSPAN of an unknown version": (1, over_ip(gre(b"\x70" + bytes(60), 0x88BE, sequence=1), GRE)),
    "L2TPv3 with unknown contents": (1, over_ip(struct.pack(">I", 9) + b"\xff" * 60, 115)),
}  # fmt: skip


@pytest.mark.parametrize("reason", UNREAD)
def test_what_cannot_be_read_is_named(reason: str) -> None:
    kind, frame = UNREAD[reason]
    capture = read_packets(frame, frame, linktype=kind)
    assert counted(capture) == {"other": 2}
    assert texts(capture) == [f"2 packets are inside {reason}, which cannot be read: counted as other"]
    assert texts(read_packets(frame, linktype=kind)) == [
        f"a packet is inside {reason}, which cannot be read: counted as other"
    ]


CONTROL = {
    "arp in vxlan": over_udp(vxlan(ARP), 4789),
    "lldp in gre": over_ip(gre(link.ethernet(bytes(40), 0x88CC), ETHERNET_BRIDGING), GRE),
    "gre keepalive": over_ip(gre(b"", 0), GRE),
    "gtp echo": over_udp(struct.pack(">BBHI", 0x30, 1, 0, 0), 2152),
    "l2tp control": over_udp(struct.pack(">HHHHHH", 0xC802, 12, 3, 0, 0, 0), 1701),
    "ppp link control": over_udp(struct.pack(">HHH", 2, 3, 4) + b"\xff\x03\xc0\x21" + bytes(10), 1701),
    "l2tpv3 control": over_ip(bytes(12), 115),
    "mpls associated channel": link.ethernet(label_stack(5) + b"\x10\0\0\x07" + bytes(40), MPLS),
}


def test_control_messages_of_tunnels_are_no_reason_to_warn() -> None:
    capture = read_packets(*CONTROL.values())
    assert texts(capture) == []
    assert counted(capture) == {"other": len(CONTROL)}
    assert texts(read_packets(wlan(V4, 0x0148), wlan(V4, 0x0080), linktype=105)) == []


@pytest.mark.parametrize("port", [1701, 2152, 4789, 4790, 6081, 8472, 37008])
def test_other_traffic_on_the_port_of_a_tunnel_is_other(port: int) -> None:
    source = random.Random(port)
    frames = [over_udp(bytes([0xFF]) + source.randbytes(200), port) for _ in range(100)]
    capture = read_packets(*frames, over_udp(b"", port), over_udp(b"\0", port))
    assert counted(capture) == {"other": 102}


@pytest.mark.parametrize("port", [1701, 2152, 4789, 6081, 37008])
def test_ike_on_its_own_port_wins(port: int) -> None:
    capture = read_packets(link.ethernet(udp_packet(MESSAGE, port, 500)), link.ethernet(udp_packet(MESSAGE, 500, port)))
    assert counted(capture) == {"ike": 2}
    assert rows(capture, "tunnel") == [(0,), (0,)]
    marked = udp_packet(bytes(4) + MESSAGE, port, 4500)
    assert counted(read_packets(link.ethernet(marked))) == {"ike": 1}
    assert counted(read_packets(over_udp(MESSAGE, port), ports=(port,))) == {"ike": 1}


@pytest.mark.parametrize("name", ALL)
def test_a_frame_may_end_anywhere(name: str) -> None:
    encapsulation = ALL[name]
    frame = encapsulation.wrap(FRAME)
    packets = [Packet(10**18 + n, frame[:n], length=len(frame)) for n in range(len(frame))]
    capture = read(pcap(packets, linktype=encapsulation.linktype))  # obeys the laws of accounting
    assert capture.accounting["ike"] == len(frame) - (frame.index(MESSAGE) + 28)


@pytest.mark.parametrize("name", ALL)
def test_bytes_of_a_tunnel_may_be_wrong(name: str) -> None:
    encapsulation = ALL[name]
    frame = encapsulation.wrap(FRAME)
    overhead = len(frame) - len(MESSAGE)
    source = random.Random(name)
    broken = []
    for _ in range(300):
        changed = bytearray(frame)
        for _ in range(source.randint(1, 4)):
            changed[source.randrange(overhead)] = source.randrange(256)
        broken.append(bytes(changed))
    read_packets(*broken, linktype=encapsulation.linktype)  # obeys the laws of accounting


def test_random_bytes_in_every_tunnel() -> None:
    source = random.Random(1)
    frames = [
        encapsulation.wrap(
            link.ethernet(source.randbytes(source.randrange(120)), source.choice([0x0800, 0x86DD, 0x8847]))
        )
        for encapsulation in TUNNELS.values()
        for _ in range(20)
    ]
    read_packets(*frames)


@pytest.mark.parametrize("name", TUNNELS)
def test_other_protocols_in_a_tunnel_keep_their_categories(name: str) -> None:
    esp = ipv4(transport.esp(0x1234, 1, bytes(40)), protocol=ip.ESP)
    packets = {
        "esp": [esp, udp_packet(transport.esp(0x1234, 1, bytes(40)), 4500, 4500)],
        "nat_keepalive": [udp_packet(b"\xff", 4500, 4500)],
        "icmp": [transport.icmp_error(V4, "192.0.2.2", "192.0.2.1")],
        "other": [udp_packet(b"hello, world", 53, 5353)],
        "malformed": [udp_packet(MESSAGE[:-1], 500, 500)],
    }
    frames = [TUNNELS[name].wrap(link.ethernet(packet)) for several in packets.values() for packet in several]
    assert counted(read_packets(*frames)) == {kind: len(several) for kind, several in packets.items()}


def test_ike_in_tcp_inside_of_tunnels() -> None:
    """Two tenants with the same addresses, ports and sequence numbers."""
    stream = transport.TCP_PREFIX + transport.tcp_framed(MESSAGE)
    half = len(stream) // 2
    segments = [transport.tcp_packet(b"", 40000, 4500, 0, flags=transport.SYN)]
    segments += [transport.tcp_packet(stream[:half], 40000, 4500, 1)]
    segments += [transport.tcp_packet(stream[half:], 40000, 4500, 1 + half)]
    frames = [over_udp(vxlan(link.ethernet(segment), vni), 4789) for segment in segments for vni in (1, 2)]
    capture = read_packets(*frames)
    assert counted(capture) == {"ike": 4, "tcp_encapsulation": 2}
    assert (
        sorted(capture.tunnels[number - 1] for (number,) in rows(capture, "tunnel"))
        == ["vxlan:1"] * 2 + ["vxlan:2"] * 2
    )
    assert [capture.clear[datagram] for datagram in sorted(capture.clear)] == [MESSAGE] * 2


def test_more_tunnels_than_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikeanalyze.capture.decode.tunnel_book.MAX_TUNNELS", 3)
    capture = read_packets(*[over_udp(vxlan(FRAME, vni), 4789) for vni in range(1, 7)])
    assert capture.tunnels == ["vxlan:1", "vxlan:2", "vxlan:3", "vxlan"]
    assert rows(capture, "tunnel") == [(1,), (2,), (3,), (4,), (4,), (4,)]
