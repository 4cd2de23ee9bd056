import random
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6

from ikeanalyze.capture.write.frames import UdpEndpoint, build_datagram_frame, build_segment_frame


@pytest.mark.parametrize("size", [0, 1, 28, 1200, 60_000])
@pytest.mark.parametrize(("source", "destination"), [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")])
def test_frames_are_those_of_scapy(source, destination, size):
    data = random.Random(size).randbytes(size)
    ends = UdpEndpoint(ip_address(source).packed, 500), UdpEndpoint(ip_address(destination).packed, 4500)
    frame = build_datagram_frame(*ends, data, ttl=7, identification=9)
    if ":" in source:
        head = IPv6(src=source, dst=destination, hlim=7)
    else:
        head = IP(src=source, dst=destination, ttl=7, id=9)
    assert frame == bytes(head / UDP(sport=500, dport=4500) / data)


def test_hops_that_are_not_known():
    end = UdpEndpoint(bytes(4), 1)
    assert build_datagram_frame(end, end, b"")[8] == 64


@pytest.mark.parametrize("size", [4, 16])
def test_a_segment_is_read_by_scapy_with_right_checksums(size):
    source, destination = UdpEndpoint(bytes(size - 1) + b"\1", 4500), UdpEndpoint(bytes(size - 1) + b"\2", 40000)
    frame = build_segment_frame(source, destination, b"IKETCP", 0xFFFFFFFF, 7)
    packet = (IP if size == 4 else IPv6)(frame)
    tcp = packet[TCP]
    assert (tcp.sport, tcp.dport, tcp.seq, tcp.ack, str(tcp.flags)) == (4500, 40000, 0xFFFFFFFF, 7, "PA")
    assert bytes(tcp.payload) == b"IKETCP"
    checksum = tcp.chksum
    del tcp.chksum
    assert (IP if size == 4 else IPv6)(bytes(packet))[TCP].chksum == checksum
