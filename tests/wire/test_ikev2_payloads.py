import pytest
from craft import ike

from ikeanalyze.wire import ikev2_payloads as wire
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2 import payloads
from wire.recorded import ike_messages

CASES = [
    (wire.parse_key_exchange, ike.ke(36, b"data")[1], wire.KeyExchange(36, b"data"), 4),
    (wire.parse_identification, ike.identification(35, b"moon")[1], wire.Identification(2, b"moon"), 4),
    (wire.parse_authentication, ike.auth(14, b"data")[1], wire.Authentication(14, b"data"), 4),
    (wire.parse_certificate, b"\x04der", wire.Certificate(4, b"der"), 1),
    (wire.parse_certificate_request, b"\x04" + bytes(40), wire.CertificateRequest(4, 2), 1),
    (wire.parse_certificate_request, b"\x0f", wire.CertificateRequest(15, None), 1),
]


@pytest.mark.parametrize(("parse", "body", "value", "fixed"), CASES)
def test_fields(parse, body, value, fixed):
    assert parse(body) == value


@pytest.mark.parametrize(("parse", "body", "value", "fixed"), CASES)
def test_too_short(parse, body, value, fixed):
    for size in range(fixed):
        with pytest.raises(WireError):
            parse(body[:size])


def test_recorded_public_value():
    (body,) = [one.body for one in payloads(ike_messages("psk-classic")[0]).payloads if one.type == 34]
    found = wire.parse_key_exchange(body)
    assert (found.method, len(found.data)) == (19, 64)
