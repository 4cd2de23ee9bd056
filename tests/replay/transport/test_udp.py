import random
import socket
import time
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6

from ikeanalyze.replay.transport.interface import MAX_MESSAGE_BYTES, TransportError
from ikeanalyze.replay.transport.target import Target
from ikeanalyze.replay.transport.udp import UdpTransport
from tests.replay.peers import free_port, peer

pytestmark = pytest.mark.alone


def exchange(transport, data, role, answers, seconds=3.0):
    """Send, and take so many answers: (datagrams, time of sending)."""
    packed, sent_ns = transport.prepare(data, role)
    transport.send(packed)
    result = []
    end = time.monotonic() + seconds
    while len(result) < answers and time.monotonic() < end:
        if one := transport.receive(0.1):
            result.append(one)
    return result, sent_ns


def check_frames(frames, peer_, local, said):
    """What was recorded are IP packets with right checksums, between the right ends, with what was said."""
    layer = IPv6 if ":" in local.address else IP
    ports = []
    for (_, frame), (sent, data, role) in zip(frames, said, strict=True):
        packet = layer(frame)
        assert len(frame) == len(bytes(packet))
        ends = (local.address, peer_.address)
        assert (packet.src, packet.dst) == (ends if sent else ends[::-1])
        carried = bytes(packet["UDP"].payload)
        assert carried == (bytes(4) if role == 4500 else b"") + data
        rebuilt = packet.copy()
        for part in (rebuilt, rebuilt["UDP"]):
            part.chksum = None if hasattr(part, "chksum") else 0
        assert layer(bytes(rebuilt))["UDP"].chksum == packet["UDP"].chksum
        ports.append((packet["UDP"].sport, packet["UDP"].dport))
    return ports


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_both_ports_send_receive_and_report_frames(address):
    data = random.Random(1).randbytes(900)
    frames = []
    with peer(lambda got, _: [got[::-1], got[:30]], address) as one:
        transport = UdpTransport(one.target, lambda at, frame: frames.append((at, frame)))
        try:
            reported = []
            for role in (500, 4500):
                result, sent_ns = exchange(transport, data, role, 2)
                assert [(got.data, got.role) for got in result] == [(data[::-1], role), (data[:30], role)]
                assert all(0 <= got.time_ns - sent_ns < 2e9 for got in result)
                reported += [(True, data, role), (False, data[::-1], role), (False, data[:30], role)]
        finally:
            transport.close()
    assert [(role, got) for role, got, _ in one.got] == [(500, data), (4500, data)]
    local = transport.local
    assert local.packed == ip_address(address).packed
    ports = check_frames(frames, one.target, local, reported)
    assert set(ports[0]) == {local.port, one.target.port}
    assert set(ports[3]) == {local.nat_port, one.target.nat_port}
    assert (transport.counts.sent, transport.counts.received) == (2, 4)


def test_retransmissions_are_no_copies_of_a_capture():
    """Two packets with the same number and bytes within a millisecond would be one packet seen twice."""
    frames = []
    transport = UdpTransport(Target("127.0.0.1", free_port()), lambda _, frame: frames.append(IP(frame).id))
    try:
        for _ in range(3):
            transport.prepare(b"x" * 30, 500)
    finally:
        transport.close()
    assert len(set(frames)) == 3


def test_what_is_not_ike_on_port_4500():
    with peer(lambda *_: []) as one:
        transport = UdpTransport(one.target, lambda *_: None)
        try:
            exchange(transport, b"x" * 30, 4500, 0)
            deadline = time.monotonic() + 3
            while not one.got and time.monotonic() < deadline:
                time.sleep(0.01)
            where = one.got[0][2]
            for payload in (b"\xff", b"\1\2\3\4" + b"esp" * 20, bytes(4)):
                one.sockets[4500].sendto(payload, where)
            for _ in range(5):
                assert transport.receive(0.1) is None
        finally:
            transport.close()
    assert transport.counts.not_ike == 3
    assert transport.counts.total_received == 3


def test_a_port_that_answers_with_an_error():
    transport = UdpTransport(Target("127.0.0.1", free_port()), lambda *_: None)
    try:
        result, _ = exchange(transport, b"x" * 30, 500, 1, seconds=0.3)
    finally:
        transport.close()
    assert result == []
    assert (transport.counts.refused, transport.counts.refusal) == (1, "Connection refused")


def test_a_message_that_fits_into_no_datagram():
    transport = UdpTransport(Target("127.0.0.1", free_port()), lambda *_: None)
    try:
        with pytest.raises(TransportError, match="does not fit into a UDP datagram"):
            transport.prepare(bytes(MAX_MESSAGE_BYTES + 1), 500)
    finally:
        transport.close()


def test_ports_are_given_back():
    target = Target("127.0.0.1", free_port())
    first = UdpTransport(target, lambda *_: None)
    assert not taken_again(first.local.port)
    first.close()
    assert taken_again(first.local.port)


def taken_again(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
