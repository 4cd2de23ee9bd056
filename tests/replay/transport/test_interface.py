import pytest

from ikeanalyze.replay.transport.interface import (
    MAX_MESSAGE_BYTES,
    ReceivedDatagram,
    ReceivedPayload,
    TransportCounts,
    TransportError,
    build_udp_payload,
    classify_datagram,
)
from ikeanalyze.replay.transport.target import Target

TARGET = Target("192.0.2.2")
NON_ESP_MARKER = bytes(4)


def sifted(payload, *, address="192.0.2.2", port=500, role=500, target=TARGET):
    counts = TransportCounts()
    return classify_datagram(target, counts, ReceivedPayload(7, payload, address, port), role, 35), counts


def test_messages_of_the_target_are_received_without_the_marker():
    assert sifted(b"message") == (ReceivedDatagram(7, b"message", 500, 35), TransportCounts(received=1))
    result, _ = sifted(NON_ESP_MARKER + b"message", port=4500, role=4500)
    assert (result.data, result.role) == (b"message", 4500)
    # IPv6 may be written in many ways
    result, _ = sifted(b"message", address="2001:db8:0:0::2", target=Target("2001:db8::2"))
    assert result.data == b"message"


@pytest.mark.parametrize(
    ("payload", "role", "port"),
    [
        (b"", 500, 500),
        (b"\xff", 4500, 4500),  # a keepalive (RFC 3948, 2.3)
        (b"\1\2\3\4esp", 4500, 4500),
        (NON_ESP_MARKER, 4500, 4500),
    ],
)
def test_what_is_not_ike(payload, role, port):
    assert sifted(payload, role=role, port=port) == (None, TransportCounts(not_ike=1))


@pytest.mark.parametrize(
    ("address", "port", "shown"),
    [
        ("192.0.2.3", 500, "192.0.2.3:500"),
        ("192.0.2.2", 501, "192.0.2.2:501"),
        ("2001:db8::2", 500, "[2001:db8::2]:500"),
    ],
)
def test_datagrams_of_other_endpoints_are_counted_as_stray(address, port, shown):
    assert sifted(b"message", address=address, port=port) == (None, TransportCounts(stray=1, stray_from=shown))


def test_a_target_at_port_4500_alone():
    target = Target("192.0.2.2", 4500)
    assert build_udp_payload(b"message", target, 500) == NON_ESP_MARKER + b"message"
    assert sifted(NON_ESP_MARKER + b"message", port=4500, target=target)[0] == ReceivedDatagram(7, b"message", 500, 35)


def test_the_longest_message():
    assert len(build_udp_payload(bytes(MAX_MESSAGE_BYTES), TARGET, 4500)) == 65_507
    with pytest.raises(TransportError):
        build_udp_payload(bytes(MAX_MESSAGE_BYTES + 1), TARGET, 500)


def test_the_repr_has_no_message_bytes():
    assert "message" not in repr(sifted(b"message")[0])
