"""Scapy's way to the wire gives what UDP sockets give, in a network whose packets have 1,500 bytes. Needs root."""

import random
import subprocess
import time

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6

from ikeanalyze.lab.network.namespaces import NetnsSandbox
from ikeanalyze.replay.transport.interface import TransportError
from ikeanalyze.replay.transport.open import open_transport
from ikeanalyze.replay.transport.raw_ip import RawIpTransport
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.udp import UdpTransport
from tests.lab.live_responder import LiveResponder
from tests.replay.peers import free_port, peer
from tests.replay.reassembled import Reassembled
from tests.replay.transport.test_udp import exchange

pytestmark = pytest.mark.lab
MTU = 1500


@pytest.fixture
def small_network(lab):
    """This thread in a network namespace whose loopback interface takes packets of 1,500 bytes."""
    with NetnsSandbox() as space:
        host = space.create_netns("loopback")
        subprocess.run(host.command("ip", "link", "set", "lo", "mtu", str(MTU)), check=True)
        with LiveResponder(None, host, "", "", None).enter_initiator_netns():
            yield


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("size", [900, 5000])
def test_raw_packets_equal_those_of_udp_sockets(small_network, address, size):
    data = random.Random(size).randbytes(size)
    result = {}
    for kind in (RawIpTransport, UdpTransport):
        frames = []
        with peer(lambda got, _: [got[::-1], got[:30]], address) as one:
            transport = kind(one.target, lambda at, frame, frames=frames: frames.append((at, frame)))
            try:
                sizes = [transport.prepare(data, role)[0].size for role in (500, 4500)]
                frames.clear()
                answers = [exchange(transport, data, role, 2)[0] for role in (500, 4500)]
            finally:
                transport.close()
            assert [(role, got) for role, got, _ in one.got] == [(500, data), (4500, data)]
        counts = transport.counts
        assert (counts.sent, counts.received, counts.total_received, counts.refused) == (2, 4, 4, 0)
        # what each took on the wire, with its IP fragments
        sizes += [got.size for some in answers for got in some]
        assert sum(sizes) == sum(len(frame) for _, frame in frames)
        times = [at for at, _ in frames]
        assert times == sorted(times)
        result[transport.way] = [[(got.data, got.role) for got in some] for some in answers], frames
    assert result["layer 3"][0] == result["UDP"][0]
    packets = [frame for _, frame in result["layer 3"][1]]
    assert max(map(len, packets)) <= MTU
    assert len(packets) == (6 if size == 900 else 4 * 4 + 2)  # 5,008 bytes take four
    layer = IPv6 if ":" in address else IP
    whole = Reassembled()
    carried = [item for item in (whole.add_fragment(layer(frame)) for frame in packets) if item is not None]
    marker = bytes(4)
    assert carried == [
        data, data[::-1], data[:30], marker + data, marker + data[::-1], marker + data[:30]
    ]  # fmt: skip


def test_a_port_that_answers_with_an_error(small_network):
    transport = RawIpTransport(Target("127.0.0.1", free_port()), lambda *_: None)
    try:
        assert exchange(transport, b"x" * 30, 500, 1, seconds=0.3)[0] == []
    finally:
        transport.close()
    assert (transport.counts.refused, transport.counts.refusal) == (1, "Connection refused")


def test_our_ports_send_no_errors(small_network):
    """A bound socket stands beside: what the target sends meets no ICMP error."""
    with peer(lambda *_: [bytes(100)] * 5) as one:
        transport = RawIpTransport(one.target, lambda *_: None)
        try:
            exchange(transport, b"x" * 30, 500, 5)
            exchange(transport, b"x" * 30, 500, 5)
        finally:
            transport.close()
    assert transport.counts.received == 10  # the peer would have got an error, and ended


def test_strangers_are_counted(small_network):
    with peer(lambda *_: [(bytes(100), "127.0.0.2"), (bytes(100), "127.0.0.1")]) as one:
        frames = []
        transport = RawIpTransport(one.target, lambda *frame: frames.append(frame))
        try:
            exchange(transport, b"x" * 30, 500, 0)
            deadline = time.monotonic() + 5
            while transport.counts.stray < 2 and time.monotonic() < deadline:
                assert transport.receive(0.1) is None
        finally:
            transport.close()
    assert (transport.counts.received, transport.counts.stray) == (0, 2)


def test_raw_packets_are_used_if_possible(small_network):
    target = Target("127.0.0.1", free_port())
    for sockets_only, way, why in ((False, "layer 3", None), (True, "UDP", "requested")):
        transport, reported = open_transport(target, lambda *_: None, sockets_only=sockets_only)
        transport.close()
        assert (transport.way, reported) == (way, why)


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1"])
def test_no_way_there(small_network, address):
    with pytest.raises(TransportError, match="not reachable: Network is unreachable"):
        open_transport(Target(address), lambda *_: None)


def test_a_link_local_target(small_network):
    """IPv6 with a zone, from the link-local address of the interface."""
    for command in (
        "ip link add va type veth peer name vb",
        "ip link set va addrgenmode eui64 up",
        "ip link set vb up",
        "ip -6 address add fe80::1/64 dev va nodad",
        "ip -6 address add fe80::2/64 dev vb nodad",
    ):
        subprocess.run(command.split(), check=True)
    frames = []
    transport = RawIpTransport(Target("fe80::99%va"), lambda _, frame: frames.append(frame))
    try:
        assert transport.local.address.endswith("%va")
        transport.send(transport.prepare(b"x" * 30, 500)[0])
    finally:
        transport.close()
    assert (transport.counts.sent, transport.counts.refused) == (1, 0)
    packet = IPv6(frames[0])
    assert (packet.dst, packet["UDP"].dport) == ("fe80::99", 500)
