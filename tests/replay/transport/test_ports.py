import socket
import time

import pytest

from ikeanalyze.replay.transport.interface import TransportCounts, TransportError
from ikeanalyze.replay.transport.ports import UdpPorts
from ikeanalyze.replay.transport.target import Target
from tests.replay.peers import free_port

pytestmark = pytest.mark.alone


def test_two_ports_of_the_address_that_leads_to_the_target():
    ports = UdpPorts(Target("127.0.0.1", free_port()))
    try:
        local = ports.local
        assert (local.address, local.packed) == ("127.0.0.1", bytes((127, 0, 0, 1)))
        assert local.port != local.nat_port
        assert [local.port_of(500), local.port_of(4500)] == [local.port, local.nat_port]
        assert {item.getsockname()[1] for item in ports.sockets.values()} == {local.port, local.nat_port}
    finally:
        ports.close()


def test_the_targets_own_ports_are_not_taken():
    """Else what we send to a port of our own that nobody owns would come back to us."""
    ports = UdpPorts(Target("127.0.0.1"))
    try:
        assert ports.local.port != 500
        assert ports.local.nat_port != 4500
    finally:
        ports.close()


def test_a_port_with_the_marker_is_not_talked_to_from_500():
    """Else charon takes the marker for an SPI. 127.0.0.2 is another host's address, as far as ports go."""
    ports = UdpPorts(Target("127.0.0.2", 4500))
    try:
        assert 500 not in (ports.local.port, ports.local.nat_port)
    finally:
        ports.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", 500))
        except OSError:
            return  # it may not be had, here or by us
    ports = UdpPorts(Target("127.0.0.2"))
    try:
        assert ports.local.port == 500
    finally:
        ports.close()


def test_ports_in_use_are_left_alone():
    target = Target("127.0.0.1", free_port())
    first, second = UdpPorts(target), UdpPorts(target)
    try:
        assert len({first.local.port, first.local.nat_port, second.local.port, second.local.nat_port}) == 4
    finally:
        first.close()
        second.close()


def test_time_and_ttl_of_what_comes():
    ports = UdpPorts(Target("127.0.0.1", free_port()))
    counts = TransportCounts()
    try:
        assert ports.receive(500, counts) is None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.1", 0))
            other.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 17)
            before = time.time_ns()
            other.sendto(b"hello", ("127.0.0.1", ports.local.port))  # it is there when this is done
            after = time.time_ns()
            port = other.getsockname()[1]
            time.sleep(0.05)
        got = ports.receive(500, counts)
    finally:
        ports.close()
    assert (got.payload, got.address, got.port, got.ttl) == (b"hello", "127.0.0.1", port, 17)
    # the kernel's time, not that of our looking
    assert before <= got.time_ns <= after
    assert counts == TransportCounts()


def test_a_broadcast_address():
    """The loopback network has one as well. Nothing is wrong with the network or with our rights."""
    with pytest.raises(TransportError, match="broadcast address or prohibited route"):
        UdpPorts(Target("127.255.255.255"))
