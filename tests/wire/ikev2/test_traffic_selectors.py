import struct
from ipaddress import ip_address, summarize_address_range

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.contrib.ikev2 import IKEv2_TSi, IPv4TrafficSelector, IPv6TrafficSelector

from ikeanalyze.wire.ikev2.traffic_selectors import parse_traffic_selectors
from tests.craft import ike
from tests.wire.dissected import clear, dissected


def selector(kind, start, end, protocol=0, ports=(0, 65535)):
    body = ip_address(start).packed + ip_address(end).packed
    return struct.pack(">BBHHH", kind, protocol, 8 + len(body), *ports) + body


def payload(*selectors):
    return struct.pack(">B3x", len(selectors)) + b"".join(selectors)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (selector(7, "10.0.0.0", "10.0.0.255"), "10.0.0.0/24"),
        (selector(7, "0.0.0.0", "255.255.255.255"), "0.0.0.0/0"),
        (selector(7, "10.0.0.1", "10.0.0.1"), "10.0.0.1/32"),
        (selector(7, "10.0.0.1", "10.0.0.9"), "10.0.0.1-10.0.0.9"),
        (selector(7, "10.0.0.1", "10.0.0.2"), "10.0.0.1-10.0.0.2"),
        (selector(7, "10.0.0.9", "10.0.0.1"), "10.0.0.9-10.0.0.1"),
        (selector(8, "2001:db8::", "2001:db8::ffff"), "2001:db8::/112"),
        (selector(8, "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 6, (80, 80)), "::/0[tcp/80]"),
        (selector(7, "10.0.0.0", "10.0.0.255", 17), "10.0.0.0/24[udp]"),
        (selector(7, "10.0.0.0", "10.0.0.255", 17, (1, 9)), "10.0.0.0/24[udp/1-9]"),
        (selector(7, "10.0.0.0", "10.0.0.255", 47), "10.0.0.0/24[47]"),
        (selector(7, "10.0.0.0", "10.0.0.255", 0, (500, 500)), "10.0.0.0/24[any/500]"),
        (selector(7, "10.0.0.0", "10.0.0.255", 6, (65535, 0)), "10.0.0.0/24[tcp/opaque]"),
        # RFC 4301, section 4.4.1.1: type and code stand in the higher and the lower byte
        (selector(7, "10.0.0.0", "10.0.0.255", 1, (0x0800, 0x08FF)), "10.0.0.0/24[icmp/8(0)-8(255)]"),
        # RFC 4595: start 0x010203, end 0x0102ff, then R_CTL and type
        (b"\x09\x00\x00\x10" + bytes.fromhex("00010203000102ff00ff00ff"), "FC 010203-0102ff"),
        # RFC 9478, section 3
        (b"\x0a\x00\x00\x09s0:c\x00", "label s0:c"),
        (b"\xf1\x00\x00\x06\xab\xcd", "241 abcd"),
    ],
)
def test_selectors_are_described(data, text):
    read = parse_traffic_selectors(payload(data))
    assert (read.error, read.announced) == (None, 1)
    assert [item.describe() for item in read.selectors] == [text]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_prefixes_against_the_standard_library(one, other):
    first, last = sorted((one, other))
    networks = list(summarize_address_range(ip_address(first), ip_address(last)))
    expected = str(networks[0]) if len(networks) == 1 else f"{ip_address(first)}-{ip_address(last)}"
    data = selector(7, str(ip_address(first)), str(ip_address(last)))
    assert parse_traffic_selectors(payload(data)).selectors[0].describe() == expected


def test_payloads_built_by_scapy_are_decoded():
    selectors = [
        IPv4TrafficSelector(
            IP_protocol_ID=6, start_port=1, end_port=9,
            starting_address_v4="192.0.2.0", ending_address_v4="192.0.2.127",
        ),
        # its default length is that of IPv4
            IPv6TrafficSelector(
                length=40, starting_address_v6="2001:db8::1", ending_address_v6="2001:db8::1"
            ),
    ]  # fmt: skip
    body = bytes(IKEv2_TSi(number_of_TSs=2, traffic_selector=selectors))[4:]
    read = parse_traffic_selectors(body)
    texts = [item.describe() for item in read.selectors]
    assert texts == ["192.0.2.0/25[tcp/1-9]", "2001:db8::1/128"]


@pytest.mark.tshark
def test_selectors_are_decoded_as_by_tshark():
    body = payload(
        selector(7, "192.0.2.1", "192.0.2.77", 17, (500, 4500)),
        selector(8, "2001:db8::5", "2001:db8::9"),
        b"\x09\x00\x00\x10" + bytes.fromhex("00010203000102ff11223344"),
    )
    names = (
        "type",
        "protoid",
        "start_port",
        "end_port",
        "start_ipv4",
        "end_ipv4",
        "start_ipv6",
        "end_ipv6",
        "end_fc",
    )
    (row,) = dissected([clear([(ike.TS_I, body)])], *(f"isakmp.ts.{name}" for name in names))
    reported = dict(zip(names, row.values(), strict=True))
    udp, other, fibre = parse_traffic_selectors(body).selectors
    assert [str(item.type) for item in (udp, other, fibre)] == reported["type"]
    assert [str(udp.protocol), str(other.protocol)] == reported["protoid"][:2]
    assert list(zip(reported["start_port"], reported["end_port"], strict=True)) == [("500", "4500"), ("0", "65535")]
    assert (udp.ports, other.ports) == ((500, 4500), (0, 65535))
    assert [*reported["start_ipv4"], *reported["end_ipv4"]] == [str(ip_address(end)) for end in (udp.start, udp.end)]
    assert [*reported["start_ipv6"], *reported["end_ipv6"]] == [
        str(ip_address(end)) for end in (other.start, other.end)
    ]
    assert reported["end_fc"] == [fibre.end.hex(":")] or reported["end_fc"] == [str(int(fibre.end.hex(), 16))]


def test_truncated_payloads_keep_complete_selectors():
    body = payload(selector(7, "10.0.0.0", "10.0.0.255"), selector(8, "::", "::1"))
    for size in range(len(body)):
        read = parse_traffic_selectors(body[:size])
        whole = sum(size >= end for end in (20, 60))
        assert len(read.selectors) == whole
        assert (read.error is None) == (size in (4, 20))


@pytest.mark.parametrize("length", [0, 3, 4, 15, 400])
def test_a_length_that_cannot_be(length):
    data = bytearray(selector(7, "10.0.0.0", "10.0.0.255"))
    data[2:4] = length.to_bytes(2, "big")
    assert parse_traffic_selectors(payload(bytes(data))).error is not None


@given(st.binary(max_size=80))
def test_random_bytes_give_printable_text(data):
    for result in parse_traffic_selectors(data).selectors:
        assert result.describe().isprintable()
