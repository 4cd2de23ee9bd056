import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.eap.packet import get_eap_method, parse_eap_header
from ikeanalyze.wire.radius import parse_radius
from tests.craft import eap
from tests.wire.recorded import radius_packets

IDENTITY = [eap.eap(1, 0, 1), eap.eap(2, 0, 1, b"someone")]
EXPANDED_NAK = eap.eap(2, 2, 254, b"\x00\x00\x00\x00\x00\x00\x03")


def test_header_fields_are_decoded():
    packet = parse_eap_header(eap.eap(1, 7, 13, b"\x20"))
    assert packet is not None
    assert (packet.code, packet.identifier, packet.length, packet.type) == (1, 7, 6, 13)
    assert packet.method == "EAP-TLS"


@pytest.mark.parametrize(
    ("data", "method"),
    [
        (eap.eap(1, 0, 1), None),
        (eap.eap(1, 0, 2), None),
        (eap.eap(2, 0, 3, b"\x0d"), None),
        (eap.eap(3, 0), None),
        (eap.eap(1, 0, 4), "EAP-MD5"),
        (eap.eap(1, 0, 18), "EAP-SIM"),
        (eap.eap(1, 0, 21), "EAP-TTLS"),
        (eap.eap(1, 0, 23), "EAP-AKA"),
        (eap.eap(1, 0, 25), "PEAP"),
        (eap.eap(1, 0, 26), "EAP-MSCHAPv2"),
        (eap.eap(1, 0, 50), "EAP-AKA'"),
        (eap.eap(1, 0, 55), "EAP-TEAP"),
        (eap.eap(1, 0, 200), "EAP-200"),
        (eap.eap(1, 0, 254, b"\x00\x00\x00\x00\x00\x00\x0d"), "EAP-TLS"),
        (eap.eap(1, 0, 254, b"\x00\x2a\xcf\x00\x00\x00\x07"), "EAP-expanded-10959-7"),
        (eap.eap(1, 0, 254, b"\x00\x00"), None),
    ],
)
def test_the_method_is_decoded(data, method):
    packet = parse_eap_header(data)
    assert packet is not None
    assert packet.method == method


def test_method_that_was_run():
    assert get_eap_method([*IDENTITY, eap.eap(1, 1, 13), eap.eap(2, 1, 13), eap.eap(3, 2)]) == "EAP-TLS"


@pytest.mark.parametrize("nak", [eap.eap(2, 2, 3, b"\x0d"), EXPANDED_NAK])
def test_refused_method_does_not_count(nak):
    refused = [*IDENTITY, eap.eap(1, 2, 4), nak]
    assert get_eap_method(refused) is None
    assert get_eap_method([*refused, eap.eap(1, 3, 13), eap.eap(2, 3, 13)]) == "EAP-TLS"


def test_repeated_packets_change_nothing():
    request, nak = eap.eap(1, 2, 4), eap.eap(2, 2, 3, b"\x0d")
    assert get_eap_method([request, request, nak, request, nak]) is None
    assert get_eap_method([request, nak, request, eap.eap(1, 3, 13), nak]) == "EAP-TLS"


def test_no_method_without_a_request_or_response():
    assert get_eap_method([]) is None
    assert get_eap_method([*IDENTITY, eap.eap(4, 1)]) is None
    assert get_eap_method([b"", b"\x01"]) is None


def test_the_method_of_the_recorded_conversation_is_md5():
    views = [parse_radius(data) for _, data in radius_packets("eap-md5-radius")]
    assert get_eap_method([view.eap_message for view in views if view.eap_message]) == "EAP-MD5"


@given(st.lists(st.binary(max_size=12)))
def test_random_bytes_raise_nothing(messages):
    get_eap_method(messages)
