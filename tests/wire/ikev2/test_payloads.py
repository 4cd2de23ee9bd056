import pytest

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2 import payloads as ours
from ikeanalyze.wire.ikev2.message import parse_payloads
from tests.craft import ike
from tests.wire.recorded import ike_messages

CASES = [
    (ours.parse_key_exchange, ike.ke(36, b"data")[1], ours.KeyExchange(36, b"data"), 4),
    (ours.parse_identification, ike.identification(35, b"moon")[1], ours.Identification(2, b"moon"), 4),
    (ours.parse_authentication, ike.auth(14, b"data")[1], ours.Authentication(14, b"data"), 4),
    (ours.parse_certificate, b"\x04der", ours.Certificate(4, b"der"), 1),
    (ours.parse_certificate_request, b"\x04" + bytes(40), ours.CertificateRequest(4, 2), 1),
    (ours.parse_certificate_request, b"\x0f", ours.CertificateRequest(15, None), 1),
]


@pytest.mark.parametrize(("parse", "body", "value", "fixed"), CASES)
def test_payload_fields_are_decoded(parse, body, value, fixed):
    assert parse(body) == value


@pytest.mark.parametrize(("parse", "body", "value", "fixed"), CASES)
def test_truncated_bodies_raise(parse, body, value, fixed):
    for size in range(fixed):
        with pytest.raises(WireError):
            parse(body[:size])


def test_recorded_public_value():
    (body,) = [
        payload.body for payload in parse_payloads(ike_messages("psk-classic")[0]).payloads if payload.type == 34
    ]
    key_exchange = ours.parse_key_exchange(body)
    assert (key_exchange.method, len(key_exchange.data)) == (19, 64)
