from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev1.message import (
    Ikev1Fragment,
    parse_ikev1_fragment,
    parse_ikev1_payloads,
    parse_phase1_message,
)
from tests.craft import ikev1 as craft

SPI_I, SPI_R = bytes(range(8)), bytes(range(8, 16))


def test_main_mode_messages_are_parsed():
    offer, answer, keys, _, encrypted, _ = craft.main_mode(Random(1))
    for message in (offer, answer):
        view = parse_phase1_message(message)
        assert [transform.describe() for transform in view.transforms] == ["AES-CBC-128/SHA2-256/MODP-2048/PSK"]
        assert view.vendor_ids == (craft.FRAGMENTATION_VENDOR_ID,)
        assert (view.exchange_type, view.encrypted, view.error) == (2, False, None)
    view = parse_phase1_message(keys)
    assert (view.ke_bytes, len(view.nonce or b""), len(view.nat_hashes)) == (256, 32, 2)
    view = parse_phase1_message(encrypted)
    assert view.encrypted
    assert view.transforms == ()
    assert parse_ikev1_payloads(encrypted).payloads == ()


def test_aggressive_mode_messages_are_parsed():
    view = parse_phase1_message(craft.aggressive_mode(Random(1))[0])
    assert (view.exchange_type, view.ke_bytes) == (4, 256)
    assert len(view.transforms) == 1


def test_notifications_are_parsed_up_to_an_error():
    body = b"\x00\x00\x00\x01\x01\x04\x00\x0eabcd"
    view = parse_phase1_message(craft.message(SPI_I, SPI_R, 5, [(11, body), (11, b"\x00")]))
    assert view.notifies == (14,)
    assert view.error is not None
    assert "notification" in view.error


def test_fragments_are_parsed():
    whole = craft.message(SPI_I, bytes(8), 2, [craft.sa(), (13, bytes(600))])
    parts = craft.fragments(whole, 300, ident=9)
    assert [parse_ikev1_fragment(part) for part in parts] == [
        Ikev1Fragment(9, number, number == len(parts)) for number in range(1, len(parts) + 1)
    ]
    view = parse_phase1_message(parts[0])
    assert view.fragment == Ikev1Fragment(9, 1, False)
    assert view.transforms == ()
    assert parse_ikev1_fragment(whole) is None
    assert parse_ikev1_fragment(parts[0][:36]) == Ikev1Fragment(9, 1, False)
    assert all(parse_ikev1_fragment(parts[0][:size]) is None for size in range(36))


def test_nat_detection_of_the_drafts():
    view = parse_phase1_message(craft.message(SPI_I, SPI_R, 2, [(130, b"to"), (130, b"from")]))
    assert view.nat_hashes == (b"to", b"from")


@pytest.mark.parametrize("make", [craft.main_mode, craft.aggressive_mode])
def test_truncated_messages_raise_nothing(make):
    for message in make(Random(2)):
        for size in range(len(message)):
            parse_phase1_message(message[:size])
            parse_ikev1_payloads(message[:size])


@given(st.binary(max_size=150), st.integers(0, 255))
def test_random_bytes_raise_nothing(data, kind):
    parse_phase1_message(data)
    message = craft.header(SPI_I, SPI_R, kind, 2, 0, 0, 28 + len(data)) + data
    view = parse_phase1_message(message)
    for transform in view.transforms:
        transform.describe()
