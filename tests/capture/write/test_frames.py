"""What is expected is what tests/craft makes of the same headers and the message in clear, byte for byte."""

from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ikeanalyze.capture.decode.link import LinkType
from ikeanalyze.capture.write.frames import (
    MAX_MESSAGE_BYTES,
    CleartextMessage,
    FrameRewriteError,
    build_cleartext_frame,
)
from tests.craft import ike, ip, ip_fragments, ipv4, ipv6, link, tcp, udp, udp_packet
from tests.craft.ip import destination_options, hop_by_hop, routing
from tests.craft.transport import tcp_framed

MARKER = bytes(4)
SPI_I, SPI_R = bytes(range(1, 9)), bytes(range(11, 19))
V4, V6 = ("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")


def encrypted(size: int = 100) -> bytes:
    return ike.encrypted(SPI_I, SPI_R, ike.IKE_AUTH, ike.INITIATOR, 1, ike.ID_I, b"\xa5" * size)


def opened(size: int = 70) -> bytes:
    return ike.message(
        SPI_I,
        SPI_R,
        ike.IKE_AUTH,
        ike.INITIATOR,
        1,
        [ike.notify(16384, bytes(range(256)) * (size // 256 + 1))],
    )


def raw(packet: bytes, clear: CleartextMessage) -> bytes:
    return build_cleartext_frame(packet, LinkType.RAW, 0, clear).frame


def why(packet: bytes, clear: CleartextMessage) -> str:
    with pytest.raises(FrameRewriteError) as error:
        raw(packet, clear)
    return str(error.value)


# ---- IP and UDP


@given(
    ends=st.sampled_from([V4, V6]),
    sport=st.integers(0, 65535),
    dport=st.sampled_from([500, 4500, 12345]),
    marked=st.booleans(),
    checksum=st.booleans(),
    before=st.integers(1, 3000),
    message=st.binary(min_size=8, max_size=3000),
)
def test_the_message_of_a_udp_datagram_is_replaced(ends, sport, dport, marked, checksum, before, message) -> None:
    message = SPI_I + message
    marker = MARKER if marked else b""
    with_checksum = checksum or ends == V6
    old = ip.packet(udp(marker + encrypted(before), sport, dport, *ends, with_checksum=with_checksum), *ends, ttl=3)
    assert raw(old, CleartextMessage(message)) == udp_packet(marker + message, sport, dport, *ends, ttl=3)


def test_all_of_an_ipv4_header_stays() -> None:
    rest = {"ttl": 7, "ident": 77, "options": b"\x94\x04\0\0", "dont": True, "tos": 0xB8}
    old = ipv4(udp(encrypted(), 500, 500, *V4), *V4, **rest)
    assert raw(old, CleartextMessage(opened())) == ipv4(udp(opened(), 500, 500, *V4), *V4, **rest)


@pytest.mark.parametrize("length", [0, 65535])
def test_a_total_length_that_offload_left(length: int) -> None:
    old = ipv4(udp(encrypted(), 500, 500, *V4), *V4, total_length=length)
    assert raw(old, CleartextMessage(opened())) == ipv4(udp(opened(), 500, 500, *V4), *V4)


@pytest.mark.parametrize(
    "extensions",
    [
        [hop_by_hop()],
        [routing(), destination_options(b"\x1e\x04abcd")],
        [hop_by_hop(), destination_options(), routing(), destination_options()],
    ],
    ids=len,
)
@pytest.mark.parametrize("mtu", [1280, 400])
def test_ipv6_extension_headers_stay_and_fragment_headers_go(extensions, mtu: int) -> None:
    old = ipv6(udp(encrypted(900), 500, 500, *V6), *V6, extensions=extensions)
    new = ipv6(udp(opened(), 500, 500, *V6), *V6, extensions=extensions)
    first, *_ = ip_fragments(old, mtu, 9)
    assert raw(first, CleartextMessage(opened())) == new


@pytest.mark.parametrize(("kind", "first"), [(0, False), (2, False), (4, True)])
def test_the_checksum_is_made_with_the_final_destination(kind: int, first: bool) -> None:
    # RFC 8200, 8.1; of several addresses, segment routing has the final one first, the others last
    end = "2001:db8::65"
    final, way = ip_address(end).packed, bytes(range(16))
    addresses = (final + way) if first else (way + final)
    header = routing(kind, 2, bytes(4) + addresses)
    old = ipv6(udp(encrypted(), 500, 500, V6[0], end), *V6, extensions=[header])
    assert raw(old, CleartextMessage(opened())) == ipv6(udp(opened(), 500, 500, V6[0], end), *V6, extensions=[header])


def test_a_checksum_of_zero_is_sent_as_ones() -> None:
    without = raw(udp_packet(encrypted()), CleartextMessage(opened(100) + bytes(2)))
    message = opened(100) + without[26:28]  # its own checksum makes the sum of all come out as 0
    new = raw(udp_packet(encrypted()), CleartextMessage(message))
    assert new[26:28] == b"\xff\xff"
    assert new == udp_packet(message)


# ---- fragments


@pytest.mark.parametrize("ends", [V4, V6])
@pytest.mark.parametrize("port", [500, 4500])
def test_any_fragment_becomes_a_whole_datagram(ends, port: int) -> None:
    marker = MARKER if port == 4500 else b""
    rest = {"ident": 9} if ends == V4 else {}
    make = ipv4 if ends == V4 else ipv6
    old = make(udp(marker + encrypted(4000), 500, port, *ends), *ends, **rest)
    new = make(udp(marker + opened(2000), 500, port, *ends), *ends, **rest)
    fragments = ip_fragments(old, 1280, 9)
    assert len(fragments) == 4
    assert raw(fragments[0], CleartextMessage(opened(2000))) == new
    for fragment in fragments:
        assert raw(fragment, CleartextMessage(opened(2000), ports=(500, port))) == new
    assert "fragment" in why(fragments[-1], CleartextMessage(opened()))


def test_a_later_ipv6_fragment_with_options_behind_its_fragment_header() -> None:
    old = ipv6(udp(encrypted(4000), 500, 500, *V6), *V6, extensions=[hop_by_hop(), destination_options()])
    last = ip_fragments(old, 1280, 9)[-1]
    new = ipv6(udp(opened(), 500, 500, *V6), *V6, extensions=[hop_by_hop()])
    assert raw(last, CleartextMessage(opened(), ports=(500, 500))) == new


# ---- ports and the non-ESP marker


def test_an_spi_that_looks_like_a_marker() -> None:
    spi = MARKER + b"abcd"
    for marker in (b"", MARKER):
        old = udp_packet(marker + spi + bytes(30), 500, 4500)
        assert raw(old, CleartextMessage(spi + bytes(40))) == udp_packet(marker + spi + bytes(40), 500, 4500)


@pytest.mark.parametrize("port", [500, 4500])
@pytest.mark.parametrize("marker", [True, False])
def test_ports_and_marker_as_told(port: int, marker: bool) -> None:
    old = udp_packet(encrypted(), 500, port)
    cleartext_message = CleartextMessage(opened(), ports=(1, 2), marker=marker)
    assert raw(old, cleartext_message) == udp_packet((MARKER if marker else b"") + opened(), 1, 2)


@pytest.mark.parametrize("port", [500, 4500])
def test_a_message_of_other_spis_goes_by_the_port(port: int) -> None:
    marker = MARKER if port == 4500 else b""
    old = udp_packet(marker + encrypted(), 500, port)
    assert raw(old, CleartextMessage(bytes(8) + opened())) == udp_packet(marker + bytes(8) + opened(), 500, port)


# ---- TCP


@pytest.mark.parametrize("ends", [V4, V6])
@pytest.mark.parametrize(
    ("ports", "shown"),
    [
        ((40000, 4500), (40000, 4500)),
        ((4500, 300), (4500, 300)),
        ((40000, 443), (40000, 4500)),
        ((443, 40000), (4500, 40000)),
        ((7, 7), (7, 4500)),
    ],
)
def test_a_tcp_segment_becomes_udp_with_a_port_that_tells_what_it_is(ends, ports, shown) -> None:
    segment = tcp(tcp_framed(encrypted()) + b"and more", *ports, 1, 1, source=ends[0], destination=ends[1])
    made = build_cleartext_frame(ip.packet(segment, *ends, ip.TCP), LinkType.RAW, 0, CleartextMessage(opened()))
    assert made.tcp
    assert made.frame == udp_packet(MARKER + opened(), *shown, *ends)


def test_a_udp_frame_takes_no_tcp_message() -> None:
    assert not build_cleartext_frame(udp_packet(encrypted()), LinkType.RAW, 0, CleartextMessage(opened())).tcp


# ---- link layers


def snap(payload: bytes, tags: bytes = b"", rest: bytes = b"") -> bytes:
    """Ethernet with a length, LLC and SNAP (RFC 1042)."""
    kind = link.ethertype_of(payload).to_bytes(2, "big")
    body = bytes.fromhex("aaaa03000000") + rest + kind + payload
    return link.ethernet(b"", 0)[:12] + tags + len(body).to_bytes(2, "big") + body


TAGS = [(0x88A8, 100), (0x8100, 7)]
LINKS = {
    **{LinkType(kind).name: (kind, framer) for kind, framer in link.FRAMERS.items()},
    "padded": (1, link.padded),
    "tagged": (1, lambda packet: link.ethernet(packet, vlans=TAGS)),
    "pppoe": (1, link.pppoe),
    "pppoe tagged": (1, lambda packet: link.pppoe(packet, vlans=TAGS)),
    "pppoe in sll": (113, lambda packet: link.sll(link.pppoe(packet)[14:], 0x8864)),
    "pppoe in sll2": (276, lambda packet: link.sll2(link.pppoe(packet)[14:], 0x8864)),
    "PPP_ETHER": (51, lambda packet: link.pppoe(packet)[14:]),
    "tagged in sll": (113, lambda packet: link.sll(link.ethernet(packet, vlans=TAGS[1:])[14:], 0x8100)),
    "compressed ppp": (9, lambda packet: link.ppp(packet, address_control=False, compressed=True)),
    "snap": (1, snap),
    "snap tagged": (1, lambda packet: snap(packet, bytes.fromhex("81000007"))),
    "sll with snap": (113, lambda packet: link.sll(snap(packet)[14:], 4)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LINKS)
@given(
    ends=st.sampled_from([V4, V6]),
    before=st.integers(8, 600),
    after=st.integers(8, 1000),
    trailer=st.binary(max_size=8),
)
@example(ends=V4, before=8, after=8, trailer=bytes(14))
def test_link_headers_stay_and_lengths_in_them_are_right(name, ends, before, after, trailer) -> None:
    kind, framer = LINKS[name]
    if kind in (228, 229):
        ends = V4 if kind == 228 else V6
    old, new = (udp_packet(SPI_I + bytes([n % 256]) * n, 500, 500, *ends) for n in (before, after))
    frame = framer(old)
    at = frame.index(old)
    made = build_cleartext_frame(frame + trailer, kind, at, CleartextMessage(SPI_I + bytes([after % 256]) * after))
    assert made.frame == (link.ethernet if name == "padded" else framer)(new)


def test_what_is_too_long_for_a_length_gets_an_ethernet_type() -> None:
    at = snap(b"").index(bytes.fromhex("0800")) + 2
    assert build_cleartext_frame(
        snap(udp_packet(encrypted())), 1, at, CleartextMessage(opened(2000))
    ).frame == link.ethernet(udp_packet(opened(2000)))
    tag = bytes.fromhex("81000007")
    assert build_cleartext_frame(
        snap(udp_packet(encrypted()), tag), 1, at + 4, CleartextMessage(opened(2000))
    ).frame == link.ethernet(udp_packet(opened(2000)), vlans=[(0x8100, 7)])


# ---- what cannot be done


def test_the_longest_message_fits() -> None:
    message = SPI_I + bytes(MAX_MESSAGE_BYTES - 8)
    marked = {"sport": 4500, "dport": 4500}
    for ends in (V4, V6):
        old = udp_packet(MARKER + encrypted(), **marked, source=ends[0], destination=ends[1])
        new = udp_packet(MARKER + message, **marked, source=ends[0], destination=ends[1])
        assert raw(old, CleartextMessage(message)) == new
    options = {"options": b"\x01" * 40}
    old = link.pppoe(ipv4(udp(MARKER + encrypted(), 4500, 4500, *V4), *V4, **options))
    new = link.pppoe(ipv4(udp(MARKER + message, 4500, 4500, *V4), *V4, **options))
    assert build_cleartext_frame(old, 1, 22, CleartextMessage(message)).frame == new
    assert "does not fit" in why(udp_packet(encrypted()), CleartextMessage(message + bytes(100)))
    deep = ipv6(udp(encrypted(), 500, 500, *V6), *V6, extensions=[destination_options(bytes(250))] * 4)
    assert "does not fit" in why(deep, CleartextMessage(message))


def test_a_message_too_long_for_pppoe_raises() -> None:
    old = link.pppoe(udp_packet(encrypted()))
    with pytest.raises(FrameRewriteError, match="PPPoE"):
        build_cleartext_frame(old, 1, 22, CleartextMessage(SPI_I + bytes(65535 - 28 - 8)))


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (b"", "no IP header"),
        (b"\x50" + bytes(60), "no IP header"),
        (ipv4(b"", *V4)[:19], "IPv4 header"),
        (b"\x44" + bytes(60), "IPv4 header"),
        (ipv4(b"", *V4, options=bytes(8))[:24], "IPv4 header"),
        (ipv6(b"", *V6)[:39], "IPv6 headers"),
        (ipv6(b"", *V6, extensions=[hop_by_hop(bytes(20))])[:50], "IPv6 headers"),
        (ipv6(b"", *V6, extensions=[hop_by_hop(bytes(20))])[:44], "IPv6 headers"),
        (ipv4(udp(encrypted(), 500, 500), *V4)[:27], "UDP or TCP header is truncated"),
        (ipv4(udp(encrypted(), 500, 500), *V4, total_length=20), "UDP or TCP header is truncated"),
        (ipv6(udp(encrypted(), 500, 500), *V6, payload_length=4), "UDP or TCP header is truncated"),
        (ipv4(b"esp-esp-esp", *V4, ip.ESP), "protocol 50"),
        (ipv4(b"esp-esp-esp", *V4, ip.ESP, offset=80), "protocol 50"),
        (ipv6(b"esp-esp-esp", *V6, ip.ESP), "protocol 50"),
    ],
)
def test_frames_that_cannot_take_a_message(packet: bytes, reason: str) -> None:
    assert reason in why(packet, CleartextMessage(opened()))


@given(
    frame=st.one_of(
        st.binary(max_size=120),
        st.builds(
            lambda packet, at, byte: packet[:at] + bytes([byte]) + packet[at + 1 :],
            st.sampled_from([udp_packet(encrypted(), 500, 500, *ends) for ends in (V4, V6)]),
            st.integers(0, 60),
            st.integers(0, 255),
        ),
    ),
    kind=st.sampled_from([0, 1, 9, 51, 101, 113, 276]),
    at=st.integers(0, 60),
)
def test_anything_is_written_or_refused(frame: bytes, kind: int, at: int) -> None:
    # an IP packet stands behind the whole link header, or nobody says that it stands there
    at = max(at, {1: 14, 51: 7, 113: 16, 276: 20}.get(kind, 0))
    try:
        made = build_cleartext_frame(frame, kind, at, CleartextMessage(opened()))
    except FrameRewriteError:
        return
    assert made.frame.endswith(opened())


def test_what_was_encrypted_is_not_shown() -> None:
    clear = CleartextMessage(b"a secret")
    made = build_cleartext_frame(udp_packet(encrypted()), LinkType.RAW, 0, clear)
    assert "secret" not in repr(clear) + repr(made)
