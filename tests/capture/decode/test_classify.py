import struct
from random import Random

import pytest

from ikeanalyze.capture.decode.classify import Encapsulation, Protocol
from tests.capture.laws import counted, read, read_packets, read_trace, rows, texts
from tests.craft import Handshake, Trace, eap, ike, ikev1, ip, ipv4, ipv6, link, radius, transport, udp_packet

SHAKE = Handshake(1)
INIT = SHAKE.init()[0].datagrams[0]
AUTH = SHAKE.auth()[0].ike[0]
FRAGMENTS = SHAKE.auth(fragments=(3, 1))[0].ike
MARKER = transport.NON_ESP_MARKER
ESP = transport.esp(0xC0FFEE, 1, bytes(range(64)))
A, B = "2001:db8::1", "2001:db8::2"


def sent(payload: bytes, sport: int = 500, dport: int = 500, **more: object) -> bytes:
    return link.ethernet(udp_packet(payload, sport, dport, **more))


def one(payload: bytes, sport: int = 500, dport: int = 500, ports: tuple[int, ...] = ()) -> dict[str, int]:
    return counted(read_packets(sent(payload, sport, dport), ports=ports))


def changed(message: bytes, at: int, value: bytes) -> bytes:
    return message[:at] + value + message[at + len(value) :]


def hip_packet(kind: int = 1, size: int = 40, version: int = 0x21) -> bytes:
    return struct.pack(">BBBBHH", 59, size // 8 - 1, kind, version, 0, 0) + bytes(32) + bytes(size - 40)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("other", [500, 53, 1812, 1813, 10500, 40000, 65535, 1])
def test_one_port_500_is_enough_for_ike(other: int, swap: bool) -> None:
    ends = (other, 500) if swap else (500, other)
    capture = read_packets(sent(INIT, *ends))
    assert counted(capture) == {"ike": 1}
    names = ("source_port", "destination_port", "encapsulation", "protocol")
    assert rows(capture, *names) == [(*ends, Encapsulation.UDP_500, Protocol.IKEV2)]


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("other", [4500, 500, 53, 1812, 10500, 40000])
def test_one_port_4500_is_enough_for_ike_esp_and_keepalives(other: int, swap: bool) -> None:
    ends = (other, 4500) if swap else (4500, other)
    capture = read_packets(
        sent(MARKER + AUTH, *ends), sent(ESP, *ends), sent(b"\xff", *ends), sent(MARKER + INIT, *ends)
    )
    assert counted(capture) == {"ike": 2, "esp": 1, "nat_keepalive": 1}
    assert rows(capture, "number", "encapsulation", "exchange_type") == [
        (1, Encapsulation.UDP_4500, ike.IKE_AUTH),
        (4, Encapsulation.UDP_4500, ike.IKE_SA_INIT),
    ]


@pytest.mark.parametrize("ends", [(500, 4500), (4500, 500)])
def test_nat_that_mixed_500_and_4500(ends: tuple[int, int]) -> None:
    capture = read_packets(sent(MARKER + AUTH, *ends), sent(AUTH, *ends), sent(ESP, *ends), sent(b"\xff", *ends))
    assert counted(capture) == {"ike": 2, "esp": 1, "nat_keepalive": 1}
    assert rows(capture, "encapsulation") == [(Encapsulation.UDP_4500,), (Encapsulation.UDP_500,)]


@pytest.mark.parametrize("end", [(A, B), ("192.0.2.1", "192.0.2.2")], ids=["ipv6", "ipv4"])
def test_header_fields_are_columns(end: tuple[str, str]) -> None:
    packets = [sent(MARKER + data, 40000, 4500, source=end[0], destination=end[1]) for data in FRAGMENTS]
    capture = read_packets(*packets)
    assert counted(capture) == {"ike": 3}
    spis = int.from_bytes(SHAKE.spi_i, "big"), int.from_bytes(SHAKE.spi_r, "big")
    names = (
        "spi_i",
        "spi_r",
        "next_payload",
        "exchange_type",
        "flags",
        "message_id",
        "fragment",
        "fragments",
    )
    assert rows(capture, *names, "ike_bytes", "bytes") == [
        (*spis, ike.SKF, ike.IKE_AUTH, ike.INITIATOR, 2, number, 3, len(data), len(packet))
        for number, (data, packet) in enumerate(zip(FRAGMENTS, packets, strict=True), 1)
    ]
    assert capture.clear == {}


def test_clear_messages_are_put_aside() -> None:
    capture = read_packets(sent(MARKER + AUTH, 4500, 4500), sent(INIT), sent(INIT + b"trailer"))
    assert capture.clear == {1: INIT, 2: INIT}
    digests = rows(capture, "digest")
    assert digests[0] != digests[1] == digests[2]


def test_given_ports_are_decoded_like_4500() -> None:
    payloads = (INIT, MARKER + AUTH, ESP, b"\xff")
    packets = [sent(data, 40000, 4501) for data in payloads]
    assert counted(read_packets(*packets)) == {"other": 4}
    capture = read_packets(*packets, ports=(4501, 9))
    assert counted(capture) == {"ike": 2, "esp": 1, "nat_keepalive": 1}
    assert rows(capture, "number", "encapsulation") == [(1, Encapsulation.UDP), (2, Encapsulation.UDP)]
    assert counted(read_packets(*packets, ports=(40000,))) == counted(capture)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"", "0 bytes are less than an IKE header"),
        (b"\0" * 27, "27 bytes are less than an IKE header"),
        (b"garbage" * 10, "unknown IKE version 6.2"),
        (bytes(64), "unknown IKE version 0.0"),
        (changed(INIT, 17, b"\x30"), "unknown IKE version 3.0"),
        (
            changed(INIT, 24, struct.pack(">I", len(INIT) + 1)),
            f"field is {len(INIT) + 1}, but the datagram has {len(INIT)} bytes",
        ),
        (changed(INIT, 24, b"\xff" * 4), f"field is 4294967295, but the datagram has {len(INIT)} bytes"),
        (changed(INIT, 24, bytes(4)), f"field is 0, but the datagram has {len(INIT)} bytes"),
        (changed(INIT, 24, b"\0\0\0\x1b"), f"field is 27, but the datagram has {len(INIT)} bytes"),
        (changed(FRAGMENTS[0], 32, b"\0\4\0\3"), "invalid IKE fragment number 4 of 3"),
        (changed(FRAGMENTS[0], 32, b"\0\0\0\3"), "invalid IKE fragment number 0 of 3"),
        (changed(FRAGMENTS[0], 32, b"\0\1\0\0"), "invalid IKE fragment number 1 of 0"),
        (changed(FRAGMENTS[0], 24, b"\0\0\0\x23")[:35], "IKE length field is 35, too small for a fragment"),
    ],
)
@pytest.mark.parametrize("port", [500, 4500])
def test_garbage_is_malformed_and_said(payload: bytes, text: str, port: int) -> None:
    capture = read_packets(sent((MARKER if port == 4500 else b"") + payload, 40000, port))
    assert counted(capture) == {"malformed": 1}
    [(number, warning)] = capture.warnings
    assert number == 1
    assert text in warning


def test_any_minor_version_and_shorter_lengths_are_ike() -> None:
    payloads = [changed(INIT, 17, b"\x2f"), changed(INIT, 24, struct.pack(">I", 28)), INIT + bytes(9)]
    # wrong lengths of payloads are for whoever looks into the message
    payloads += [changed(INIT, 30, b"\xff\xff"), changed(INIT, 30, b"\0\0"), changed(AUTH, 30, b"\0\1")]
    capture = read_packets(*map(sent, payloads))
    assert counted(capture) == {"ike": 6}
    assert [size for (size,) in rows(capture, "ike_bytes")][:3] == [len(INIT), 28, len(INIT)]


@pytest.mark.parametrize("size", range(8))
def test_packets_shorter_than_an_esp_header_are_malformed(size: int) -> None:
    payload = ESP[:size]
    assert one(payload, 4500, 4500) == {"malformed": 1}
    assert one(payload, 4500, 40000) == {"malformed": 1}


def test_keepalive_is_one_byte_of_ones() -> None:
    assert one(b"\xff", 500, 500) == {"nat_keepalive": 1}
    assert one(b"\xff\xff", 4500, 4500) == {"malformed": 1}
    assert one(b"\0", 4500, 4500) == {"malformed": 1}


@pytest.mark.parametrize("length", [1, 7, 8 + len(INIT) - 1, 8])
def test_too_small_udp_lengths_are_malformed(length: int) -> None:
    packet = bytearray(sent(INIT))
    packet[38:40] = struct.pack(">H", length)
    capture = read_packets(bytes(packet))
    assert counted(capture) == {"malformed": 1}
    if length < 8:
        assert texts(capture) == [f"UDP length of {length} is less than the UDP header"]


@pytest.mark.parametrize("length", [0, 8 + len(INIT) + 1, 65535])
def test_udp_length_0_or_too_large(length: int) -> None:
    packet = bytearray(sent(INIT))
    packet[38:40] = struct.pack(">H", length)
    assert counted(read_packets(bytes(packet))) == {"ike": 1}


def test_ikev1_messages_are_classified() -> None:
    rng = Random(2)
    messages = ikev1.main_mode(rng)
    quick = ikev1.quick_mode(rng, messages[1][:16])[0]
    pieces = ikev1.fragments(messages[2], 150)
    capture = read_packets(*map(sent, [*messages, quick, *pieces]))
    count = len(messages) + 1 + len(pieces)
    assert counted(capture) == {"ike": count}
    assert set(rows(capture, "protocol")) == {(Protocol.IKEV1,)}
    last = [(number, len(pieces) if number == len(pieces) else 0) for number in range(1, len(pieces) + 1)]
    assert rows(capture, "fragment", "fragments") == [(0, 0)] * 7 + last
    # main mode in clear, and the fragments of a message that may be
    assert sorted(capture.clear) == [0, 1, 2, 3, *range(7, count)]
    assert rows(capture, "message_id")[6] == (int.from_bytes(quick[20:24], "big"),)


@pytest.mark.parametrize("port", [1645, 1646, 1812, 1813])
def test_radius_is_classified_by_its_ports(port: int) -> None:
    rng = Random(3)
    request = radius.access_request(7, eap.eap(eap.RESPONSE, 0, eap.IDENTITY, b"user"), rng)
    answer = radius.challenge(request, eap.eap(eap.REQUEST, 1, eap.TLS, b"\x20"), b"state")
    capture = read_packets(sent(request, 40000, port), sent(answer, port, 40000), sent(request, 40000, 1811))
    assert counted(capture) == {"radius": 2, "other": 1}
    names = ("protocol", "encapsulation", "exchange_type", "message_id", "ike_bytes")
    common = Protocol.RADIUS, Encapsulation.UDP
    assert rows(capture, *names) == [(*common, 1, 7, len(request)), (*common, 11, 7, len(answer))]
    assert capture.clear == {0: request, 1: answer}


def test_what_only_uses_a_port_of_radius() -> None:
    request = radius.access_request(7, b"", Random(3))
    for payload in (b"", b"\1\2\3", b"\0" * 40, b"\xc8" * 40):
        assert one(payload, 1812, 40000) == {"other": 1}
    for payload in (
        request[:19],
        request[:-1],
        changed(request, 2, b"\0\x13"),
        changed(request, 2, b"\xff\xff"),
    ):
        assert one(payload, 1812, 40000) == {"malformed": 1}
    assert one(request + b"padding", 1812, 40000) == {"radius": 1}


def test_hip_is_classified_in_ip_and_udp() -> None:
    packet = hip_packet(2, 80)
    frames = [
        link.padded(ipv4(packet, protocol=ip.HIP)),
        link.padded(ipv6(packet, next_header=ip.HIP)),
        sent(MARKER + packet, 10500, 10500),
        sent(MARKER + packet, 40000, 10500),
        sent(ESP, 10500, 40000),
    ]
    capture = read_packets(*frames)
    assert counted(capture) == {"hip": 4, "esp": 1}
    names = ("protocol", "encapsulation", "exchange_type", "ike_bytes", "source_port")
    assert rows(capture, *names) == [
        (Protocol.HIP, Encapsulation.IP, 2, 80, 0),
        (Protocol.HIP, Encapsulation.IP, 2, 80, 0),
        (Protocol.HIP, Encapsulation.UDP, 2, 80, 10500),
        (Protocol.HIP, Encapsulation.UDP, 2, 80, 40000),
    ]


@pytest.mark.parametrize(
    "packet",
    [hip_packet()[:39], hip_packet(128), hip_packet(version=0x31), hip_packet(size=80)[:72], b"\0" * 40, b""],
)
def test_malformed_hip_is_counted(packet: bytes) -> None:
    assert counted(read_packets(link.padded(ipv4(packet, protocol=ip.HIP)))) == {"malformed": 1}
    assert one(MARKER + packet, 10500, 10500) == {"malformed": 1}


def test_little_on_the_port_of_hip() -> None:
    assert one(b"", 10500, 10500) == one(b"\xff", 10500, 10500) == one(b"\0\0\0", 10500, 40000) == {"other": 1}


KINDS = {
    "ike": (sent(INIT), 42),
    "ike on 4500": (sent(MARKER + AUTH, 4500, 4500), 46),
    "ike on both": (sent(AUTH, 500, 4500), 42),
    "fragment": (sent(MARKER + FRAGMENTS[1], 4500, 4500), 46),
    "ike, ipv6": (sent(MARKER + FRAGMENTS[1], 4500, 4500, source=A, destination=B), 66),
    "esp": (sent(ESP, 4500, 4500), None),
    "keepalive": (sent(b"\xff", 4500, 4500), None),
    "radius": (sent(radius.access_request(1, b"", Random(4)), 1812, 40000), 42),
    "hip": (link.ethernet(ipv4(hip_packet(), protocol=ip.HIP)), 34),
    "hip in udp": (sent(MARKER + hip_packet(), 10500, 10500), 46),
    "icmp": (link.ethernet(transport.icmp_error(udp_packet(INIT), "192.0.2.2", "192.0.2.1")), None),
}
NEEDED = {"radius": 20, "hip": 40, "hip in udp": 40}


@pytest.mark.parametrize("name", KINDS)
def test_cut_at_every_length_by_the_snapshot_length(name: str) -> None:
    """Bytes behind the cut belong to the next packet of the file: what is found must not depend on them."""
    data, message = KINDS[name]
    results = []
    for filler in (b"\0", b"\xff"):
        body = b""
        sizes = range(min(len(data), 121))
        for size in sizes:
            body += struct.pack("<IIII", 1, 0, size, len(data)) + data[:size]
            body += struct.pack("<IIII", 1, 0, 60, 60) + filler * 60
        capture = read(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + body)
        assert capture.snaplen_truncated == len(sizes)
        names = list(capture.columns)
        results.append((capture.accounting, rows(capture, *names), [w for w in capture.warnings if w[0]]))
        result = {number // 2 for (number,) in rows(capture, "number")}
        if message is None:
            assert not result
        else:
            assert result == set(range(message + NEEDED.get(name, 28), len(sizes)))
    assert results[0] == results[1]


def test_fragment_number_that_is_cut_off_is_said() -> None:
    data = sent(MARKER + FRAGMENTS[1], 4500, 4500, source=A, destination=B)
    trace = Trace()
    trace.add(0, data[:96], length=len(data))
    capture = read_trace(trace)
    assert rows(capture, "fragment", "fragments", "next_payload") == [(0, 0, ike.SKF)]
    [(_, warning)] = capture.warnings
    assert "fragment number" in warning
