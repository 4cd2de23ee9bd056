"""L2TPv3 data messages, whose cookie (0, 4 or 8 bytes) and sublayer (0 or 4 bytes) their header does not show.

RFC 3931, 4.1 (cookie), 4.6 (sublayer) and RFC 4719 (Ethernet).
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.laws import counted, read_packets, rows
from tests.craft import Handshake, link, udp_packet
from tests.craft.tunnel import HERE6, L2TP, THERE6, over_ip

MESSAGE = Handshake(1).init()[0].datagrams[0]
V4 = udp_packet(MESSAGE, 500, 501)
V6 = udp_packet(MESSAGE, 500, 501, HERE6, THERE6)
PACKETS = pytest.mark.parametrize("packet", [V4, V6], ids=["ipv4", "ipv6"])


def data_message(between: bytes, frame: bytes) -> bytes:
    """`between`: cookie and sublayer."""
    return over_ip(struct.pack(">I", 42) + between + frame, L2TP)


def is_read(frame: bytes) -> bool:
    capture = read_packets(frame)
    assert capture.warnings == []
    return counted(capture) == {"ike": 1} and rows(capture, "source_port", "destination_port") == [(500, 501)]


@PACKETS
@pytest.mark.parametrize("size", [4, 8, 12])
@pytest.mark.parametrize(
    "resembled",
    [
        pytest.param("0800 45", id="IPv4 in Ethernet"),
        pytest.param("86dd 60", id="IPv6 in Ethernet"),
        pytest.param("8847 00", id="MPLS in Ethernet"),
        pytest.param("0026 00", id="a length of IEEE 802.3"),
    ],
)
def test_addresses_that_resemble_the_start_of_a_packet(packet, size, resembled):
    """Without cookie and sublayer, an Ethernet type would be at bytes 12 and 13."""
    frame = bytearray(b"\xff" * size + link.ethernet(packet))
    frame[12:15] = bytes.fromhex(resembled)
    assert is_read(data_message(b"", bytes(frame)))


@PACKETS
def test_a_cookie_that_resembles_ppp(packet):
    assert is_read(data_message(bytes.fromhex("ff030021 45000000"), link.ethernet(packet)))


@PACKETS
def test_a_tagged_frame(packet):
    """Four bytes later, it resembles a frame without a tag."""
    assert is_read(data_message(b"", link.ethernet(packet, vlans=[(link.VLAN, 7)])))


@PACKETS
@given(
    between=st.sampled_from([0, 4, 8, 12]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
    macs=st.binary(min_size=12, max_size=12),
)
def test_any_cookie_and_addresses(packet, between, macs):
    assert is_read(data_message(between, macs + link.ethernet(packet)[12:]))


@PACKETS
@pytest.mark.parametrize("size", [0, 4, 8, 12])
def test_sessions_of_ppp_are_found_at_each_cookie_size(packet, size):
    assert is_read(data_message(bytes(size), link.ppp(packet)))
