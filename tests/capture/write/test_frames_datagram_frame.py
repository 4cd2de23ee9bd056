import random
from ipaddress import ip_address

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6

from ikeanalyze.capture.write.frames import UdpEndpoint, build_datagram_frame


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
