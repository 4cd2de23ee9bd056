import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import parse_header
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.notify_data import Redirect, decode_notify_data
from ikeanalyze.wire.ikev2.payloads import Notify, compute_nat_detection_hash, parse_notify
from tests.craft import ike
from tests.wire.recorded import ike_messages

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def test_header_fields_are_decoded():
    assert parse_notify(ike.notify(16393, b"data", 3, b"1234")[1]) == Notify(16393, b"data", 3, b"1234")
    assert parse_notify(ike.notify(16390, b"cookie")[1]) == Notify(16390, b"cookie", 0, b"")


def test_truncated_notifies_raise():
    _, body = ike.notify(16393, b"", 3, b"1234")
    for size in range(len(body)):
        with pytest.raises(WireError):
            parse_notify(body[:size])


def test_wanted_key_exchange_method():
    assert decode_notify_data(17, b"\x00\x24") == 36
    assert decode_notify_data(17, b"\x24") is None


def test_signature_hash_algorithms():
    assert decode_notify_data(16431, b"\x00\x02\x00\x03\x00\x05") == (2, 3, 5)
    assert decode_notify_data(16431, b"\x00\x02\x00") == (2,)


def test_bytes_stay_bytes():
    assert decode_notify_data(16390, b"cookie") == b"cookie"
    assert decode_notify_data(16388, bytes(20)) == bytes(20)


@pytest.mark.parametrize(
    ("data", "redirect"),
    [
        (b"\x01\x04\xc0\x00\x02\x09nonce", Redirect(1, "192.0.2.9", b"nonce")),
        (b"\x02\x10" + bytes(15) + b"\x01", Redirect(2, "::1", b"")),
        (b"\x03\x0fgw.example.test" + bytes(16), Redirect(3, "gw.example.test", bytes(16))),
        (b"\x63\x02\xab\xcd", Redirect(0x63, "abcd", b"")),
        (b"\x01\x02\xab\xcd", Redirect(1, "abcd", b"")),
    ],
)
@pytest.mark.parametrize("kind", [16407, 16408])
def test_a_redirect_has_the_identity_of_the_gateway(kind, data, redirect):
    assert decode_notify_data(kind, data) == redirect


def test_a_cut_redirect():
    for size in range(6):
        assert decode_notify_data(16407, b"\x01\x04\xc0\x00\x02\x09"[:size]) is None


def test_types_without_a_rule():
    assert decode_notify_data(16430, b"x") is None
    assert decode_notify_data(65535, b"x") is None


def test_hash_is_of_spis_address_and_port():
    address = bytes([192, 0, 2, 1])
    assert (
        compute_nat_detection_hash(SPI_I, SPI_R, address, 500)
        == hashlib.sha1(SPI_I + SPI_R + address + b"\x01\xf4").digest()
    )


def test_recorded_hash_fits_the_destination():
    # that of the source does not: the recording daemons forced UDP encapsulation by a false hash
    message = ike_messages("psk-classic")[0]
    header = parse_header(message)
    result = [parse_notify(payload.body) for payload in parse_payloads(message).payloads if payload.type == 41]
    notifies = {notify.type: notify.data for notify in result}
    hashed = compute_nat_detection_hash(header.spi_i, header.spi_r, bytes([192, 0, 2, 2]), 500)
    assert hashed == notifies[16389]
    assert hashed != notifies[16388]


@given(st.integers(0, 65535) | st.sampled_from([17, 16390, 16407, 16408, 16431]), st.binary(max_size=40))
def test_random_bytes_raise_nothing(kind, data):
    decode_notify_data(kind, data)
