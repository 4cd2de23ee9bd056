import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev1.message import Ikev1Fragment
from ikeanalyze.wire.ikev1.payloads import (
    Ikev1Delete,
    Ikev1Identification,
    Ikev1Notify,
    NatOriginalAddress,
    Transaction,
    decode_ikev1_payload,
)
from ikeanalyze.wire.ikev2.decode import MalformedPayload, UnparsedPayload, VendorId
from ikeanalyze.wire.payload_chain import Payload
from tests.craft import ikev1

PASSWORD = b"correct horse"


def body_of(kind, data):
    return decode_ikev1_payload(Payload(kind, False, data, 28))


def text_attribute(kind, value):
    return struct.pack(">HH", kind, len(value)) + value


@pytest.mark.parametrize(
    ("kind", "data", "body"),
    [
        (ikev1.ID, b"\x02\x11\x01\xf4gw", Ikev1Identification(2, 17, 500, b"gw")),
        (ikev1.NOTIFY, b"\0\0\0\1\1\4\x60\x021234data", Ikev1Notify(1, 1, 24578, b"1234", b"data")),
        (ikev1.DELETE, b"\0\0\0\1\3\4\0\x0212345678", Ikev1Delete(3, (b"1234", b"5678"), 2)),
        (ikev1.DELETE, b"\0\0\0\1\3\0\xff\xff", Ikev1Delete(3, (), 65535)),
        (ikev1.VENDOR_ID, bytes.fromhex("09002689dfd6b712"), VendorId(bytes.fromhex("09002689dfd6b712"), "XAuth")),
        (21, b"\1\0\0\0\x0a\0\0\1", NatOriginalAddress("10.0.0.1")),
        (131, b"\5\0\0\0" + bytes(15) + b"\1", NatOriginalAddress("::1")),
        (ikev1.FRAGMENT, b"\0\7\2\1rest", Ikev1Fragment(7, 2, True)),
        (ikev1.HASH, bytes(20), UnparsedPayload(20)),
        (200, bytes(20), UnparsedPayload(20)),
        (14, b"\1\0\0\x07" + text_attribute(16521, b"") + b"\xc0\x88\0\0",
         Transaction(1, 7, ("XAUTH_USER_NAME", "XAUTH_TYPE"), (None, None))),
        (14, b"\2\0\0\x07" + text_attribute(16521, b"bob"), Transaction(2, 7, ("XAUTH_USER_NAME",), ("bob",))),
    ],
)  # fmt: skip
def test_payload_bodies_are_decoded(kind, data, body):
    assert body_of(kind, data) == body


@pytest.mark.parametrize("kind", [16522, 16523, 16525, 16528, 16529, 28000])
def test_passwords_are_not_kept(kind):
    body = body_of(14, b"\2\0\0\7" + text_attribute(kind, PASSWORD))
    assert isinstance(body, Transaction)
    assert "horse" not in repr(body)
    assert body.texts == (None,)


@pytest.mark.parametrize("kind", [ikev1.ID, ikev1.CERT, ikev1.NOTIFY, ikev1.DELETE, 14, 21, ikev1.FRAGMENT])
def test_an_empty_payload_is_malformed(kind):
    assert isinstance(body_of(kind, b""), MalformedPayload)


def test_identities_have_text():
    assert Ikev1Identification(4, 0, 0, b"\x0a\0\0\0\xff\0\0\0").text == "10.0.0.0/8"
    assert Ikev1Identification(1, 0, 0, b"\x0a").text is None


@given(st.integers(0, 255), st.binary(max_size=60))
def test_random_bytes_are_decoded_or_malformed(kind, data):
    assert body_of(kind, data) is not None
