"""The two laws, on whatever a capture may hold: packets are accounted for, bytes neither lost nor doubled."""

import struct
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.capture.accounting import Accounting, PacketCategory
from tests.capture.laws import KEPT, counted, read, read_packets, read_trace, total
from tests.craft import (
    MS,
    SECOND,
    Handshake,
    Packet,
    Trace,
    eap,
    ike,
    ikev1,
    ip,
    ipv4,
    ipv6,
    link,
    pcap,
    radius,
    transport,
)
from tests.craft.transport import ACK, SYN, TCP_PREFIX, tcp_framed, tcp_framed_esp, tcp_packet, udp_packet

A, B = "2001:db8::1", "2001:db8::2"
FRAMERS = {
    link.ETHERNET: [link.ethernet, link.padded, partial(link.ethernet, vlans=[(link.VLAN, 3)]), link.pppoe],
    link.SLL: [link.sll],
    link.SLL2: [link.sll2],
    link.RAW: [link.raw],
    link.NULL: [link.null],
    link.PPP: [link.ppp],
}


def handshake(rng: Random) -> Trace:
    """Everything that the laws speak of, in one trace."""
    linktype = rng.choice(sorted(FRAMERS))
    ends = {} if rng.random() < 0.6 else {"initiator": A, "responder": B}
    trace = Trace(frame=rng.choice(FRAMERS[linktype]), mtu=rng.choice([1500, 1500, 1280, 9000]), **ends)
    trace.linktype = linktype  # type: ignore[attr-defined]
    shake = Handshake(rng, nat=rng.random() < 0.3, switch=rng.random() < 0.8, proposals=[ike.HYBRID], **ends)
    before = rng.choice([None, "COOKIE", "INVALID_KE_PAYLOAD", "both"])
    messages = shake.setup(before=before, intermediate=[(rng.randint(1, 3), 1)], auth=(rng.randint(1, 3), 2))
    messages += shake.exchange(ike.INFORMATIONAL, (rng.randint(0, 5000), 0))
    end = trace.play(messages)
    for _ in range(rng.randrange(4)):
        trace.repeat(rng.sample(trace.packets, 2), rng.choice([20_000, SECOND // 2, 31 * SECOND]))
    for index in range(rng.randrange(20)):
        encrypted = transport.esp(7, index, rng.randbytes(rng.randrange(3000)))
        trace.send(end + index, encrypted, sport=4500, dport=rng.choice([4500, 500, 40000]))
    trace.send(end, transport.NAT_KEEPALIVE, sport=4500, dport=4500)
    for data in ikev1.main_mode(rng):
        trace.send(end + MS, data)
    request = radius.access_request(1, eap.eap(eap.RESPONSE, 0, eap.IDENTITY, b"user"), rng)
    trace.send(end, request, sport=1812, dport=1812)
    trace.send(end, radius.accept(request, eap.eap(eap.SUCCESS, 1)), sport=1812, dport=1812, from_initiator=False)
    source, destination = trace.initiator, trace.responder
    trace.ip(end, ip.packet(rng.randbytes(64), source, destination, rng.choice([0, 1, 6, 44, 50, 51, 58, 60, 139])))
    stream = TCP_PREFIX + tcp_framed(messages[0].ike[0]) + tcp_framed_esp(rng.randbytes(50))
    stream += tcp_framed(rng.randbytes(100)) + tcp_framed(messages[-1].ike[0])
    isn = rng.choice([1, 2**32 - 200])
    trace.ip(end, tcp_packet(b"", 40000, 4500, isn - 1, flags=SYN, source=source, destination=destination))
    at = 0
    while at < len(stream):
        size = rng.choice([40, 400, 1400])
        part = tcp_packet(stream[at : at + size], 40000, 4500, isn + at, 1, ACK, source, destination)
        trace.ip(end + at * rng.choice([1, -1]), part)
        at += rng.choice([size, size, size, size // 2, size + 1])
    trace.drop(rng.sample(trace.packets, rng.randrange(4)))
    return trace


def check(trace: Trace, ports: tuple[int, ...] = (), snaplen: int = 262144) -> None:
    data = trace.pcap(linktype=trace.linktype, snaplen=snaplen)  # type: ignore[attr-defined]
    capture = read(data, ports)
    assert capture.packets == len(trace.packets)
    assert capture.bytes == total(trace.packets)
    assert capture.snaplen_truncated == sum(len(p.data) > snaplen for p in trace.packets)
    times = [packet.time_ns for packet in trace.packets]
    assert (capture.first_ns, capture.last_ns) == (min(times), max(times))


@settings(max_examples=60)
@given(seed=st.integers(0, 2**40), ports=st.sampled_from([(), (500, 4500), (40000,), (1812, 9)]))
def test_generated_traces_obey_the_laws(seed: int, ports: tuple[int, ...]) -> None:
    check(handshake(Random(seed)), ports)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**40), snaplen=st.integers(0, 200))
def test_generated_traces_that_are_cut(seed: int, snaplen: int) -> None:
    check(handshake(Random(seed)), snaplen=snaplen)


#: Values that header fields take when something goes wrong.
VALUES = [0, 1, 2, 4, 6, 17, 20, 44, 50, 60, 0x11, 0x21, 0x45, 0x60, 0x7F, 0x80, 0xC4, 0xFF]


@settings(max_examples=150)
@given(seed=st.integers(0, 2**40), ports=st.sampled_from([(), (500,), (1812,)]))
def test_mutated_packets_obey_the_laws(seed: int, ports: tuple[int, ...]) -> None:
    rng = Random(seed)
    trace = handshake(rng)
    packets = []
    for packet in trace.packets:
        data = bytearray(packet.data)
        for _ in range(rng.choice([0, 1, 1, 2, 5, 40])):
            where = rng.randrange(min(len(data), rng.choice([20, 60, 120, 9999])))
            data[where] = rng.choice([*VALUES, data[where] ^ 1 << rng.randrange(8)])
        size = rng.choice([len(data)] * 5 + [rng.randrange(len(data) + 1)])
        packets.append(Packet(packet.time_ns, bytes(data[:size]), length=len(data) + rng.choice([0, 0, 0, 9])))
    linktype = rng.choice([trace.linktype, trace.linktype, *sorted(FRAMERS), 51, 204, 228, 229])  # type: ignore[attr-defined]
    capture = read(pcap(packets, linktype=linktype), ports)
    assert capture.packets == len(packets)
    assert capture.bytes == total(packets)


KINDS = {
    "ike": udp_packet(Handshake(1).init()[0].datagrams[0]),
    "ike, ipv6": udp_packet(Handshake(1).init()[0].datagrams[0], 500, 500, A, B),
    "marker": udp_packet(bytes(4) + Handshake(1).init()[0].datagrams[0], 4500, 4500),
    "esp in udp": udp_packet(transport.esp(1, 2, bytes(100)), 4500, 4500),
    "esp": ipv4(transport.esp(1, 2, bytes(100)), protocol=ip.ESP),
    "ah": ipv6(transport.ah(bytes(100), 17, 1, 2), next_header=ip.AH),
    "radius": udp_packet(radius.access_request(1, bytes(60), Random(1)), 1813, 1813),
    "hip": ipv4(b"\x3b\x04\x01\x21" + bytes(36) + bytes(60), protocol=ip.HIP),
    "tcp": tcp_packet(tcp_framed(Handshake(1).init()[0].datagrams[0]), 4500, 40000, 1),
    "icmp": transport.icmp_error(udp_packet(bytes(100)), "192.0.2.1", "192.0.2.2"),
    "fragment": ip.ip_fragments(udp_packet(Handshake(1).encrypted(35, 3000).ike[0]), 576, 1)[0],
    "later fragment": ip.ip_fragments(udp_packet(bytes(3000), 1, 1, A, B), 1280, 1)[1],
    "extensions": ipv6(bytes(90), extensions=[ip.hop_by_hop(), ip.routing(), ip.destination_options(bytes(30))]),
    "dns": udp_packet(bytes(100), 53, 53),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_packet_cut_at_each_length(name: str) -> None:
    data = link.ethernet(KINDS[name])
    packets = [Packet(n, data[:size], length=len(data)) for n, size in enumerate(range(121))]
    capture = read(pcap(packets))
    assert (capture.packets, capture.bytes) == (121, 121 * len(data))
    assert capture.accounting["other"] >= 14  # not even the link header
    for size, packet in enumerate(packets):
        alone = read(pcap([packet]))
        assert sum(counted(alone).values()) == 1, size


def test_every_category_by_name() -> None:
    trace = Trace()
    trace.ip(0, KINDS["ike"])
    trace.ip(1, KINDS["esp"])
    trace.ip(2, KINDS["esp in udp"])
    trace.ip(3, KINDS["ah"])
    trace.send(4, b"\xff", sport=4500, dport=4500)
    trace.ip(5, KINDS["radius"])
    trace.ip(6, KINDS["hip"])
    trace.ip(7, tcp_packet(b"", 4500, 1, 1, flags=SYN))
    trace.ip(8, KINDS["icmp"])
    trace.ip(9, KINDS["dns"])
    trace.send(10, b"nonsense")
    capture = read_trace(trace)
    assert capture.accounting == {
        "ike": 1, "esp": 2, "ah": 1, "nat_keepalive": 1, "radius": 1, "hip": 1, "tcp_encapsulation": 1,
        "icmp": 1, "other": 1, "malformed": 1,
    }  # fmt: skip
    sizes = [packet.wire_length for packet in trace.packets]
    assert capture.accounting_bytes == dict(
        zip(capture.accounting, [sizes[0], sizes[1] + sizes[2], *sizes[3:]], strict=True)
    )
    assert set(KEPT) < set(capture.accounting)


def test_lengths_of_gigabytes_are_summed_exactly() -> None:
    accounting = Accounting()
    lengths = np.array([2**32 - 1, 2**32 - 1, 5, 7], np.int64)
    kinds = np.array([PacketCategory.ESP, PacketCategory.ESP, PacketCategory.PENDING, PacketCategory.IKE], np.uint8)
    for _ in range(3):
        accounting.add_batch(kinds, lengths)
    accounting.add(PacketCategory.IKE, 2, 11)
    assert accounting.bytes()["esp"] == 6 * (2**32 - 1)
    assert accounting.bytes()["ike"] == 3 * 7 + 11
    assert accounting.packets()["ike"] == 5
    assert sum(accounting.packets().values()) == 11


def test_a_capture_without_packets_has_no_rows() -> None:
    capture = read_packets()
    assert counted(capture) == {}
    assert (capture.first_ns, capture.last_ns, capture.bytes) == (None, None, 0)
    record = struct.pack("<IIII", 0, 0, 0, 0xFFFFFFFF)
    capture = read(pcap([]) + record * 3)
    assert (capture.bytes, counted(capture)) == (3 * (2**32 - 1), {"other": 3})
