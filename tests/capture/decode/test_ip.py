import struct

import numpy as np
import pytest

from ikeanalyze.capture.decode.ip import FIRST_IPV6, NO_IDENT, AddressBook
from tests.capture.laws import counted, read_packets, read_trace, rows, texts
from tests.craft import Handshake, Trace, ip, ipv4, ipv6, link, transport, udp, udp_packet

MESSAGE = Handshake(1).init()[0].datagrams[0]
A, B = "2001:db8::1", "2001:db8::2"
V4 = udp(MESSAGE, 500, 500)
V6 = udp(MESSAGE, 500, 500, A, B)


def frame(packet: bytes) -> bytes:
    return link.padded(packet)


def one(packet: bytes, **more: int) -> dict[str, int]:
    return counted(read_packets(frame(packet), **more))


def test_ipv4_header_fields_are_columns() -> None:
    packet = ipv4(V4, "10.1.2.3", "255.255.255.255", ttl=3, ident=0xBEEF, options=b"\x94\x04\0\0", dont=True)
    capture = read_packets(frame(packet))
    assert rows(capture, "source", "destination", "ttl", "ip_id", "ip_fragment") == [
        (0x0A010203, 0xFFFFFFFF, 3, 0xBEEF, False)
    ]
    assert capture.address(0x0A010203) == "10.1.2.3"


@pytest.mark.parametrize("size", range(0, 41, 4))
def test_ipv4_options_are_skipped(size: int) -> None:
    assert one(ipv4(V4, options=b"\1" * size)) == {"ike": 1}


def test_total_length_of_0_is_left_by_offload() -> None:
    assert one(ipv4(V4, total_length=0)) == {"ike": 1}
    assert one(ipv6(V6, payload_length=0)) == {"ike": 1}


@pytest.mark.parametrize("total", [1, 19, 20, 27, 28, 55, 20 + len(V4) - 1])
def test_total_length_too_small(total: int) -> None:
    assert one(ipv4(V4, total_length=total)) == {"malformed": 1}


def test_total_length_beyond_the_frame_is_not_believed() -> None:
    capture = read_packets(frame(ipv4(V4, total_length=20 + len(V4) + 9)), frame(ipv6(V6, payload_length=9000)))
    assert counted(capture) == {"ike": 2}


@pytest.mark.parametrize("first", [0x40, 0x44, 0x65, 0x05, 0xFF])
def test_impossible_first_byte_of_ipv4(first: int) -> None:
    capture = read_packets(link.ethernet(bytes([first]) + ipv4(V4)[1:], link.IPV4))
    assert counted(capture) == {"malformed": 1}
    assert capture.warnings == [(1, "IPv4 header is truncated or invalid")]


def test_header_longer_than_what_is_there() -> None:
    assert one(b"\x4f" + ipv4(b"")[1:]) == {"malformed": 1}
    assert counted(read_packets(link.ethernet(b"\x45" * 10, link.IPV4))) == {"malformed": 1}
    capture = read_packets(link.ethernet(b"\x45" * 50, link.IPV6))
    assert counted(capture) == {"malformed": 1}
    assert texts(capture) == ["IPv6 header is truncated or invalid"]


def test_ethernet_padding_is_no_payload() -> None:
    small = udp_packet(transport.NAT_KEEPALIVE, 4500, 4500)
    assert len(frame(small)) == 60
    assert one(small) == {"nat_keepalive": 1}
    assert one(udp_packet(b"", 4500, 4500)) == {"malformed": 1}
    assert one(ipv4(b"", protocol=ip.ESP)) == {"esp": 1}


CHAINS = {
    "hop-by-hop": [ip.hop_by_hop()],
    "routing": [ip.routing(), ip.routing(2, 1, bytes(20))],
    "destination options": [ip.destination_options(), ip.destination_options(bytes(2000))],
    "all": [ip.hop_by_hop(), ip.destination_options(), ip.routing(), ip.destination_options()],
    "atomic fragment": [ip.fragment_header(0, False, 0x1234567)],
    "atomic fragment in between": [
        ip.hop_by_hop(),
        ip.fragment_header(0, False, 0x1234567),
        ip.destination_options(),
    ],
    "mobility and shim6": [ip.Extension(135, b"\0" + bytes(6)), ip.Extension(140, b"\1" + bytes(14))],
}


@pytest.mark.parametrize("name", CHAINS)
def test_ipv6_extension_headers(name: str) -> None:
    capture = read_packets(frame(ipv6(V6, A, B, hop_limit=9, extensions=CHAINS[name])))
    assert counted(capture) == {"ike": 1}
    ident = 0x1234567 if "atomic" in name else NO_IDENT
    assert rows(capture, "ttl", "ip_id", "ip_fragment", "source_port") == [(9, ident, False, 500)]


@pytest.mark.parametrize("name", CHAINS)
def test_extension_headers_cut_everywhere(name: str) -> None:
    packet = ipv6(V6, A, B, extensions=CHAINS[name])
    headers = len(packet) - len(V6)
    cut = [packet[:4] + struct.pack(">H", size - 40) + packet[6:size] for size in range(40, headers)]
    assert counted(read_packets(*map(link.ethernet, cut))) == {"malformed": len(cut)}


@pytest.mark.parametrize(
    ("protocol", "category"),
    [
        (50, "esp"),
        (51, "ah"),
        (1, "icmp"),
        (58, "icmp"),
        (6, "other"),
        (132, "other"),
        (59, "other"),
        (89, "other"),
    ],
)
@pytest.mark.parametrize("family", [4, 6])
def test_other_protocols_are_counted_by_category(protocol: int, category: str, family: int) -> None:
    body = bytes(range(64))
    packet = ipv4(body, protocol=protocol) if family == 4 else ipv6(body, next_header=protocol)
    assert one(packet) == {category: 1}
    if family == 6:
        extended = ipv6(body, next_header=protocol, extensions=CHAINS["all"])
        assert one(extended) == {category: 1}


def test_icmp_that_quotes_ike_is_icmp() -> None:
    quoted = udp_packet(MESSAGE)
    six = udp_packet(MESSAGE, 500, 500, A, B)
    trace = Trace()
    trace.ip(0, transport.icmp_error(quoted, "192.0.2.2", "192.0.2.1"))
    trace.ip(1, transport.icmp_error(quoted, "192.0.2.9", "192.0.2.1", mtu=1280))
    trace.ip(2, transport.icmp_error(six, B, A))
    trace.ip(3, transport.icmp_error(six, B, A, mtu=1280))
    assert counted(read_trace(trace)) == {"icmp": 4}


def test_ike_inside_ah_is_ike_and_all_else_is_ah() -> None:
    assert one(ipv4(transport.ah(V4, ip.UDP, 1, 1), protocol=ip.AH)) == {"ike": 1}
    assert one(ipv4(transport.ah(bytes(20), 99, 1, 1), protocol=ip.AH)) == {"ah": 1}
    assert one(ipv4(transport.ah(V4, ip.UDP, 1, 1)[:20], protocol=ip.AH)) == {"ah": 1}


def test_ipv6_addresses_are_numbered_in_order() -> None:
    book = AddressBook()
    first, second = bytes(range(16)), bytes(16)
    addresses = np.frombuffer(first + second + first, "V16")
    assert book.encode(addresses).tolist() == [FIRST_IPV6, FIRST_IPV6 + 1, FIRST_IPV6]
    assert book.ipv6 == [first, second]
