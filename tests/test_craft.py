"""tshark reads what the tests craft, and finds nothing wrong with it."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.craft import (
    MS,
    SECOND,
    Handshake,
    Interface,
    Trace,
    eap,
    ike,
    ikev1,
    ip,
    ip_fragments,
    ipv4,
    ipv6,
    link,
    pcapng,
    radius,
    transport,
    udp,
    udp_packet,
)

pytestmark = pytest.mark.tshark

CHECKS = [f"-o{name}.check_checksum:TRUE" for name in ("ip", "udp", "tcp")]


@pytest.fixture
def rows(tmp_path: Path) -> Callable[..., list[list[str]]]:
    """A row per frame of the capture with these fields."""

    def read(data: bytes, *fields: str, only: str = "", options: tuple[str, ...] = ()) -> list[list[str]]:
        path = tmp_path / "crafted"
        path.write_bytes(data)
        command = ["tshark", "-n", "-r", str(path), *CHECKS, *options, "-Tfields", "-Eseparator=|"]
        command += [f"-e{field}" for field in fields] + ([f"-Y{only}"] if only else [])
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [line.split("|") for line in done.stdout.splitlines()]

    return read


Rows = Callable[..., list[list[str]]]

V6 = {"source": "2001:db8::1", "destination": "2001:db8::2"}


def init_request() -> bytes:
    return Handshake(1).init()[0].datagrams[0]


LINKS = {
    "ethernet": (link.ETHERNET, link.ethernet),
    "ethernet, padded": (link.ETHERNET, link.padded),
    "vlan": (link.ETHERNET, partial(link.ethernet, vlans=[(link.VLAN, 0x2064)])),
    "qinq": (link.ETHERNET, partial(link.ethernet, vlans=[(link.QINQ, 7), (link.VLAN, 100)])),
    "sll": (link.SLL, link.sll),
    "sll2": (link.SLL2, link.sll2),
    "raw": (link.RAW, link.raw),
    "null, little-endian": (link.NULL, partial(link.null, byteorder="<")),
    "null, big-endian": (link.NULL, partial(link.null, byteorder=">")),
    "loop": (link.LOOP, link.loop),
    "ppp": (link.PPP, link.ppp),
    "ppp, no address": (link.PPP, partial(link.ppp, address_control=False)),
    "ppp, compressed": (link.PPP, partial(link.ppp, address_control=False, compressed=True)),
    "ppp hdlc": (link.PPP_HDLC, link.ppp),
    "pppoe": (link.ETHERNET, link.pppoe),
}


def test_tshark_decodes_all_link_layers(rows: Rows) -> None:
    """Each on an interface, with IPv4 and IPv6."""
    packets = []
    for number, (_, frame) in enumerate(LINKS.values()):
        trace = Trace(frame=frame)
        trace.send(0, init_request())
        trace.send(1, init_request(), **V6)
        packets += [replace(packet, interface=number) for packet in trace.packets]
    capture = pcapng(packets, interfaces=[Interface(linktype) for linktype, _ in LINKS.values()])
    fields = ("ip.version", "isakmp.exchangetype", "udp.checksum.status", "_ws.malformed")
    read = rows(capture, "frame.interface_id", *fields)
    decoded = {name: [line for number, *line in read if int(number) == index] for index, name in enumerate(LINKS)}
    assert decoded == {name: [["4", "34", "1", ""], ["6", "34", "1", ""]] for name in LINKS}


def test_tshark_decodes_ipv4_fields(rows: Rows) -> None:
    segment = udp(init_request(), 500, 4321)
    packet = ipv4(segment, ttl=3, ident=0xBEEF, options=b"\x94\x04\0\0", dont=True, tos=0xB8)
    trace = Trace()
    trace.ip(0, packet)
    fields = ["ttl", "id", "hdr_len", "flags.df", "dsfield", "checksum.status"]
    [read] = rows(trace.pcap(), *(f"ip.{field}" for field in fields), "udp.dstport")
    assert read == ["3", "0xbeef", "24", "1", "0xb8", "1", "4321"]


def test_ipv6_extension_headers(rows: Rows) -> None:
    segment = udp(init_request(), 500, 500, **V6)
    extensions = [ip.hop_by_hop(), ip.routing(), ip.destination_options(b"\x1e\x01\x07")]
    trace = Trace()
    trace.ip(0, ipv6(segment, hop_limit=9, extensions=extensions))
    read = rows(trace.pcap(), "ipv6.hlim", "frame.protocols", "udp.checksum.status", "_ws.malformed")
    assert read == [["9", "eth:ethertype:ipv6:ipv6.hopopts:ipv6.routing:ipv6.dstopts:udp:isakmp", "1", ""]]


@pytest.mark.parametrize("family", ["ipv4", "ipv4 options", "ipv6", "ipv6 extensions"])
def test_tshark_reassembles_ip_fragments(rows: Rows, family: str) -> None:
    encrypted = Handshake(2, switch=False).setup(auth=(1, 1))[2]
    payload = Handshake(2, switch=False).encrypted(ike.IKE_AUTH, 4000).datagrams[0]
    assert len(encrypted.datagrams) == 1
    addresses = V6 if "6" in family else {}
    segment = udp(payload, 500, 500, **addresses)
    packet = {
        "ipv4": lambda: ipv4(segment),
        "ipv4 options": lambda: ipv4(segment, options=b"\x94\x04\0\0"),
        "ipv6": lambda: ipv6(segment),
        "ipv6 extensions": lambda: ipv6(segment, extensions=[ip.hop_by_hop(), ip.routing()]),
    }[family]()
    parts = ip_fragments(packet, 1280, 77)
    assert len(parts) == 4
    assert all(len(part) <= 1280 for part in parts)
    trace = Trace()
    for index, part in enumerate(parts):
        trace.ip(index * MS, part)
    read = rows(trace.pcap(), "isakmp.length", "udp.length", "udp.checksum.status")
    assert read == [["", "", ""]] * 3 + [[str(len(payload)), str(len(segment)), "1"]]


def test_small_packets_are_left_alone() -> None:
    packet = udp_packet(init_request())
    assert ip_fragments(packet, 1500) == [packet]


@pytest.mark.parametrize("addresses", [{}, V6], ids=["ipv4", "ipv6"])
def test_tshark_decodes_tcp_and_icmp(rows: Rows, addresses: dict[str, str]) -> None:
    ends = addresses or {"source": "192.0.2.1", "destination": "192.0.2.2"}
    back = {"source": ends["destination"], "destination": ends["source"]}
    message = Handshake(3).init()[0].datagrams[0]
    trace = Trace()
    trace.ip(0, transport.tcp_packet(b"", 40000, 4500, 999, flags=transport.SYN, **ends))
    stream = transport.TCP_PREFIX + transport.tcp_framed(message)
    trace.ip(1, transport.tcp_packet(stream[:100], 40000, 4500, 1000, 1, **ends))
    trace.ip(2, transport.tcp_packet(stream[100:], 40000, 4500, 1100, 1, **ends))
    trace.ip(3, transport.icmp_error(udp_packet(message, **ends), **back))
    trace.ip(4, transport.icmp_error(udp_packet(message, **ends), **back, mtu=1280))
    read = rows(trace.pcap(), "tcp.checksum.status", "icmp.type", "icmpv6.type", "_ws.malformed")
    kinds = [["", "1"], ["", "2"]] if addresses else [["3", ""], ["3", ""]]
    assert [row[0] for row in read[:3]] == ["1", "1", "1"]
    assert [row[1:3] for row in read[3:]] == kinds
    assert all(row[3] == "" for row in read)
    status = "icmpv6.checksum.status" if addresses else "icmp.checksum.status"
    assert [row[0].split(",")[0] for row in rows(trace.pcap(), status)][3:] == ["1", "1"]


def test_tshark_decodes_esp_and_ah(rows: Rows) -> None:
    trace = Trace()
    encrypted = transport.esp(0xC0FFEE, 7, bytes(64))
    trace.send(0, encrypted, sport=4500, dport=4500)
    trace.send(1, transport.NAT_KEEPALIVE, sport=4500, dport=4500)
    trace.ip(2, ipv4(encrypted, protocol=ip.ESP))
    trace.ip(3, ipv4(transport.ah(udp(b"", 1, 2), ip.UDP, 0xABC, 8), protocol=ip.AH))
    read = rows(trace.pcap(), "esp.spi", "esp.sequence", "ah.spi", "frame.protocols")
    assert read[0][:2] == read[2][:2] == ["0x00c0ffee", "7"]
    assert read[1][3].endswith("udpencap")
    assert read[3][2] == "0x00000abc"


def test_tshark_decodes_clear_payloads(rows: Rows) -> None:
    kinds = [ike.Transform(kind, ike.ML_KEM_768) for kind in range(ike.ADDKE1, ike.ADDKE7 + 1)]
    several = ike.Proposal([*ike.CLASSIC.transforms, *kinds])
    shake = Handshake(4, proposals=[ike.HYBRID, several])
    trace = Trace()
    trace.play(shake.init(before="both", tried=ike.MODP_2048))
    fields = ["ispi", "messageid", "notify.msgtype", "tf.type", "key_exchange.dh_group", "nonce"]
    read = rows(trace.pcap(), *(f"isakmp.{field}" for field in fields), "_ws.malformed")
    assert [row[0] for row in read] == [shake.spi_i.hex()] * 6
    assert [row[2].split(",")[0] for row in read] == ["16388", "16390", "16390", "17", "16390", "16388"]
    assert read[0][3] == "1,2,4,6,1,3,2,4,6,7,8,9,10,11,12"
    assert read[5][3] == "1,2,4,6"
    assert [row[4] for row in read] == ["14", "", "14", "", "31", "31"]
    assert read[0][5] == read[2][5] == read[4][5] != read[5][5]
    assert all(row[6] == "" for row in read)


def test_tshark_decodes_all_messages_of_a_handshake(rows: Rows) -> None:
    trace = Trace()
    shake = Handshake(5, nat=True, proposals=[ike.HYBRID])
    messages = shake.setup(intermediate=[(2, 1)], auth=(3, 2))
    messages += shake.informational() + shake.create_child_sa(by_initiator=False) + shake.followup_ke()
    trace.play(messages)
    fields = ["udp.srcport", "udp.dstport", "isakmp.exchangetype", "isakmp.messageid", "isakmp.flags"]
    fields += ["isakmp.frag.number", "isakmp.frag.total"]
    read = rows(trace.pcap(), *fields)
    request, response, reversed_request, reversed_response = "0x08", "0x20", "0x00", "0x28"
    out, back = ["61501", "4500"], ["4500", "61501"]
    assert read == [
        ["61500", "500", "34", "0x00000000", request, "", ""],
        ["500", "61500", "34", "0x00000000", response, "", ""],
        [*out, "43", "0x00000001", request, "1", "2"],
        [*out, "43", "0x00000001", request, "2", "2"],
        [*back, "43", "0x00000001", response, "", ""],
        [*out, "35", "0x00000002", request, "1", "3"],
        [*out, "35", "0x00000002", request, "2", "3"],
        [*out, "35", "0x00000002", request, "3", "3"],
        [*back, "35", "0x00000002", response, "1", "2"],
        [*back, "35", "0x00000002", response, "2", "2"],
        [*out, "37", "0x00000003", request, "", ""],
        [*back, "37", "0x00000003", response, "", ""],
        [*back, "36", "0x00000000", reversed_request, "", ""],
        [*out, "36", "0x00000000", reversed_response, "", ""],
        [*out, "44", "0x00000004", request, "", ""],
        [*back, "44", "0x00000004", response, "", ""],
    ]


def test_tshark_decodes_an_eap_handshake() -> None:
    messages = Handshake(6).setup(eap=3)
    assert len(messages) == 2 + 2 * 5
    assert [m.message_id for m in messages] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert all(m.dport == 4500 and m.datagrams[0][:4] == bytes(4) for m in messages[2:])


def test_same_seed_same_messages() -> None:
    assert Handshake(7).setup(auth=(2, 2)) == Handshake(7).setup(auth=(2, 2))
    assert Handshake(7).setup() != Handshake(8).setup()


def test_tshark_decodes_ikev1(rows: Rows) -> None:
    rng = Random(9)
    trace = Trace()
    phase1 = ikev1.main_mode(rng)
    for index, data in enumerate(phase1 + ikev1.quick_mode(rng, phase1[1][:16])):
        trace.send(index * MS, data, from_initiator=index % 2 == 0)
    for index, data in enumerate(ikev1.aggressive_mode(rng)):
        trace.send(SECOND + index * MS, data, from_initiator=index % 2 == 0)
    read = rows(trace.pcap(), "isakmp.version", "isakmp.exchangetype", "isakmp.messageid", "_ws.malformed")
    assert [row[1] for row in read] == ["2"] * 6 + ["32"] * 3 + ["4"] * 3
    assert all(row[0] == "0x10" and row[3] == "" for row in read)
    assert len({row[2] for row in read[6:9]}) == 1


def test_tshark_reassembles_ikev1_fragments(rows: Rows) -> None:
    trace = Trace()
    message = ikev1.main_mode(Random(10))[2]
    for index, data in enumerate(ikev1.fragments(message, 150, ident=5)):
        trace.send(index * MS, data)
    fields = ["isakmp.frag.packetid", "isakmp.frag.seq", "isakmp.frag.last", "isakmp.exchangetype"]
    count = -(-len(message) // 150)
    read = rows(trace.pcap(), *fields)
    for index, row in enumerate(read[:-1], 1):
        assert row == ["0x0005", str(index), "0", "2"]
    assert read[-1][:3] == ["0x0005", str(count), "1"]


def test_tshark_decodes_radius(rows: Rows) -> None:
    rng = Random(11)
    trace = Trace(initiator="198.51.100.1", responder="198.51.100.2")
    first = radius.access_request(1, eap.eap(eap.RESPONSE, 0, eap.IDENTITY, b"user"), rng)
    requested = radius.challenge(first, eap.eap(eap.REQUEST, 1, eap.TLS, rng.randbytes(900)), b"state")
    second = radius.access_request(2, eap.eap(eap.RESPONSE, 1, eap.TLS, b"\0"), rng, state=b"state")
    end = radius.accept(second, eap.eap(eap.SUCCESS, 1))
    for index, data in enumerate([first, requested, second, end]):
        ports = {"sport": 40001, "dport": 1812} if index % 2 == 0 else {"sport": 1812, "dport": 40001}
        trace.send(index * MS, data, from_initiator=index % 2 == 0, **ports)
    options = (f"-oradius.shared_secret:{radius.SECRET.decode()}", "-oradius.validate_authenticator:TRUE")
    fields = ["radius.code", "radius.id", "eap.code", "radius.State", "radius.authenticator.invalid"]
    read = rows(trace.pcap(), *fields, options=options)
    state = b"state".hex()
    assert [row[:4] for row in read] == [
        ["1", "1", "2", ""],
        ["11", "1", "1", state],
        ["1", "2", "2", state],
        ["2", "2", "3", ""],
    ]
    assert not rows(trace.pcap(), "frame.number", only="_ws.expert", options=options)


def three_packets() -> Trace:
    trace = Trace(start_ns=1_764_000_000_123_456_789)
    trace.play(Handshake(12).setup()[:3], rtt=7 * MS)
    return trace


TIMES = ["1764000000.123456789", "1764000000.131456789", "1764000000.132456789"]


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [True, False])
def test_tshark_reads_pcap(rows: Rows, byteorder: link.ByteOrder, nanoseconds: bool) -> None:
    data = three_packets().pcap(byteorder=byteorder, nanoseconds=nanoseconds, snaplen=96)
    read = rows(data, "frame.time_epoch", "frame.cap_len", "frame.len", "isakmp.exchangetype")
    assert [row[0] for row in read] == (TIMES if nanoseconds else [time[:-3] + "000" for time in TIMES])
    assert [row[1] for row in read] == ["96"] * 3
    assert [int(row[2]) for row in read] == [len(p.data) for p in three_packets().packets]
    assert [row[3] for row in read] == ["34", "34", "35"]


@pytest.mark.parametrize("byteorder", ["<", ">"])
@pytest.mark.parametrize("tsresol", [None, 6, 9, 0x80 | 20])
@pytest.mark.parametrize("kind", ["EPB", "PB"])
def test_tshark_reads_pcapng(rows: Rows, byteorder: link.ByteOrder, tsresol: int | None, kind: str) -> None:
    interface = Interface(tsresol=tsresol, tsoffset=3600, name="eth7")
    data = three_packets().pcapng(
        byteorder=byteorder, interfaces=[interface], block=kind, comment="made", unknown=True, sections=2
    )
    # tshark shows a custom block as a frame of its own
    fields = ["frame.time_epoch", "frame.interface_name", "isakmp.exchangetype"]
    read = rows(data, *fields, only="isakmp")
    digits = {None: 6, 6: 6, 9: 9}.get(tsresol, 5)
    assert [row[0][: 11 + digits] for row in read] == [time[: 11 + digits] for time in TIMES]
    assert [row[1:] for row in read] == [["eth7", "34"], ["eth7", "34"], ["eth7", "35"]]


def test_tshark_reads_simple_packet_blocks(rows: Rows) -> None:
    read = rows(three_packets().pcapng(block="SPB"), "isakmp.exchangetype", "frame.len")
    lengths = [str(len(packet.data)) for packet in three_packets().packets]
    assert read == [["34", lengths[0]], ["34", lengths[1]], ["35", lengths[2]]]


def test_pcapng_interfaces_and_comments(rows: Rows) -> None:
    trace = Trace()
    packet = udp_packet(init_request())
    trace.add(0, link.ethernet(packet), comment="on the wire")
    trace.add(1, link.sll(packet), interface=1, length=9000)
    data = trace.pcapng(interfaces=[Interface(), Interface(link.SLL, tsresol=6)], byteorder=["<", ">"])
    fields = ["frame.interface_id", "frame.comment", "isakmp.exchangetype", "frame.len"]
    read = rows(data, *fields)
    assert [row[1:] for row in read] == [
        ["on the wire", "34", str(14 + len(packet))],
        ["", "34", "9000"],
    ]


def test_trace_repeats_and_drops() -> None:
    trace = Trace()
    messages = Handshake(13).setup(auth=(2, 1))
    first = trace.message(0, messages[2])
    again = trace.repeat(first, 2 * SECOND)
    assert [p.data for p in again] == [p.data for p in first]
    assert len(trace.message(5 * SECOND, messages[2], only=[2])) == 1
    trace.drop(first[:1])
    assert [p.time_ns - trace.start_ns for p in trace.packets] == [
        20_000,
        2 * SECOND,
        2 * SECOND + 20_000,
        5 * SECOND + 20_000,
    ]
