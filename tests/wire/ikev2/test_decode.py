import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.decode import MalformedPayload, Nonce, SkPayload, UnparsedPayload, VendorId, decode_payload
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    Notify,
)
from ikeanalyze.wire.payload_chain import Payload
from tests.craft import eap, ike


def body_of(payload):
    kind, data = payload
    return decode_payload(Payload(kind, False, data, 28))


@pytest.mark.parametrize(
    ("payload", "body"),
    [
        (ike.ke(31, b"key"), KeyExchange(31, b"key")),
        (ike.identification(ike.ID_I, b"gw"), Identification(2, b"gw")),
        (ike.identification(50, b"group"), Identification(2, b"group")),
        (ike.auth(2, b"mac"), Authentication(2, b"mac")),
        (ike.nonce(b"n"), Nonce(b"n")),
        (ike.notify(16384), Notify(16384, b"", 0, b"")),
        (ike.delete(3, [b"1234", b"5678"]), Delete(3, (b"1234", b"5678"), 2)),
        (ike.delete(), Delete(1, (), 0)),
        ((ike.CERTREQ, b"\x04" + bytes(40)), CertificateRequest(4, 2)),
        ((ike.VENDOR_ID, bytes.fromhex("882fe56d6fd20dbc2251613b2ebe5beb")),
         VendorId(bytes.fromhex("882fe56d6fd20dbc2251613b2ebe5beb"), "strongSwan")),
        ((ike.SK, bytes(40)), SkPayload(40, None, None)),
        ((ike.SKF, b"\0\x02\0\x03" + bytes(40)), SkPayload(40, 2, 3)),
        ((51, bytes(12)), UnparsedPayload(12)),
        ((201, bytes(12)), UnparsedPayload(12)),
    ],
)  # fmt: skip
def test_payload_bodies_are_decoded(payload, body):
    assert body_of(payload) == body


def test_those_with_values_inside():
    assert body_of(ike.sa([ike.HYBRID])).proposals[0].describe().endswith("ADDKE1:ML-KEM-768")
    assert body_of((ike.CERT, b"\x07crl")).encoding == 7
    assert body_of((ike.EAP, eap.eap(1, 0, 13, b"\x20"))).content.start
    assert body_of((ike.TS_I, b"\x01\0\0\0\x07\0\0\x10\0\0\xff\xff\x0a\0\0\0\x0a\0\0\xff")).announced == 1
    assert body_of((ike.CONFIGURATION, b"\x01\0\0\0\0\x01\0\0")).entries[0].type == 1


@pytest.mark.parametrize("kind", [34, 35, 36, 37, 38, 39, 41, 42, 48, 50, 53])
def test_empty_bodies_are_malformed(kind):
    assert isinstance(decode_payload(Payload(kind, False, b"", 28)), MalformedPayload)


def test_a_delete_whose_spis_do_not_come_out():
    # 2 SPIs of 4 bytes, then one byte more
    assert isinstance(body_of((ike.DELETE, b"\x03\x04\0\x02" + bytes(9))), MalformedPayload)
    # 65,535 SPIs of no byte
    assert body_of((ike.DELETE, b"\x03\x00\xff\xff")) == Delete(3, (), 65535)


def test_all_of_a_message():
    message = ike.message(
        bytes(8), bytes(8), 34, 8, 0, [ike.sa([ike.CLASSIC]), ike.nonce(bytes(32)), ike.notify(16430)]
    )
    kinds = [type(decode_payload(payload)).__name__ for payload in parse_payloads(message).payloads]
    assert kinds == ["SecurityAssociation", "Nonce", "Notify"]


@given(st.integers(0, 255), st.binary(max_size=80))
def test_random_bytes_are_decoded_or_malformed(kind, data):
    assert decode_payload(Payload(kind, False, data, 0)) is not None
