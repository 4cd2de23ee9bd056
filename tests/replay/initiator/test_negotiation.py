"""Answers to IKE_SA_INIT, built by craft or recorded."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.replay.initiator.negotiation import (
    CookieRequest,
    InitAcceptance,
    InitRefusal,
    KeyExchangeMethodRequest,
    compute_nat_hashes,
    get_first_error,
    parse_init_response,
)
from ikeanalyze.wire.ikev2.message import parse_init, parse_payloads
from tests.craft import ike
from tests.craft.ike import Proposal, Transform
from tests.replay.driving import LOCAL, REMOTE, proposal
from tests.wire.recorded import ike_messages

SPI_I, SPI_R = b"INITIATO", b"RESPONDE"
OFFERED = [proposal(31, 36)]
CHOSEN = Proposal([Transform(1, 20, 256), Transform(2, 5), Transform(4, 31), Transform(6, 36)])
NOTIFIES = [
    ike.notify(ike.NAT_DETECTION_SOURCE_IP, ike.nat_hash(SPI_I, SPI_R, *REMOTE)),
    ike.notify(ike.NAT_DETECTION_DESTINATION_IP, ike.nat_hash(SPI_I, SPI_R, *LOCAL)),
    ike.notify(ike.FRAGMENTATION_SUPPORTED),
    ike.notify(ike.SIGNATURE_HASH_ALGORITHMS, b"\0\2\0\4"),
    ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED),
]


def message(*more, chosen=CHOSEN, method=31, nonce=b"n" * 32, spi_r=SPI_R, notifies=NOTIFIES):
    listed = [ike.sa([chosen]), ike.ke(method, b"k" * 32), ike.nonce(nonce), *notifies, *more]
    return ike.message(SPI_I, spi_r, 34, ike.RESPONSE, 0, listed)


def read(data, offered=OFFERED):
    return parse_init_response(data, offered, 31, LOCAL, REMOTE)


def refusal(*notifies):
    return read(ike.message(SPI_I, bytes(8), 34, ike.RESPONSE, 0, notifies))


def test_an_accepting_response_has_the_choices_of_the_responder():
    answer = read(message())
    assert isinstance(answer, InitAcceptance)
    assert (answer.spi_r, answer.nonce, answer.additional) == (SPI_R, b"n" * 32, (36,))
    assert (answer.key_exchange.method, answer.key_exchange.data) == (31, b"k" * 32)
    assert (answer.suite.encryption, answer.suite.key_bits, answer.prf.transform) == (20, 256, 5)
    assert (answer.nat, answer.fragmentation, answer.childless) == (False, True, False)
    assert answer.hash_algorithms == (2, 4)


def test_a_recorded_response_is_accepted():
    """pq-mlkem768-psk, which the responder's log says was accepted."""
    request, response = ike_messages("pq-mlkem768-psk")[:2]
    here, there = ("192.0.2.1", 500), ("192.0.2.2", 500)
    answer = parse_init_response(response, parse_init(request).proposals, 20, here, there)
    assert isinstance(answer, InitAcceptance)
    assert (answer.additional, answer.childless, answer.hash_algorithms) == ((36,), True, (2, 3, 4, 5))
    assert answer.nat is True  # kernel-libipsec wants UDP encapsulation, and so pretends


def test_a_cookie_or_another_group_needs_another_request():
    assert refusal(ike.notify(ike.COOKIE, b"abc")) == CookieRequest(b"abc")
    assert refusal(ike.notify(ike.INVALID_KE_PAYLOAD, b"\0\x13")) == KeyExchangeMethodRequest(19)
    assert refusal(ike.notify(ike.INVALID_KE_PAYLOAD, b"\x13")) == InitRefusal("INVALID_KE_PAYLOAD")


@pytest.mark.parametrize(
    ("notify", "name"), [(14, "NO_PROPOSAL_CHOSEN"), (9999, "error notify 9999"), (ike.REDIRECT, "REDIRECT")]
)
def test_an_error_notify_is_a_refusal_with_its_name(notify, name):
    assert refusal(ike.notify(notify)) == InitRefusal(name)


def test_additional_exchanges_in_order_of_their_slots():
    transforms = [Transform(8, 37), *CHOSEN.transforms, Transform(7, 0)]
    offered = [proposal(31, 36, 0, 37)]
    answer = read(message(chosen=Proposal(transforms)), offered)
    assert answer.additional == (36, 37)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (message(chosen=Proposal([*CHOSEN.transforms, Transform(7, 37)])), "was not offered"),
        (message(method=19), "the responder's key exchange is ECP-256, ours X25519"),
        (message(nonce=b"short"), "a nonce of invalid length"),
        (message(nonce=b"n" * 257), "a nonce of invalid length"),
        (message(spi_r=bytes(8)), "has no SPI"),
        (message(notifies=[]), "does not support IKE_INTERMEDIATE"),
        (ike.message(SPI_I, SPI_R, 34, ike.RESPONSE, 0, []), "lacks SA, KE or nonce"),
        (message()[:-3], "invalid response"),
        (ike.message(SPI_I, SPI_R, 34, ike.RESPONSE, 0, [ike.sa([CHOSEN, CHOSEN])]), "lacks SA"),
    ],
)
def test_a_response_that_does_not_fit_the_request_is_refused(data, said):
    answer = read(data)
    assert isinstance(answer, InitRefusal)
    assert said in answer.reason


@pytest.mark.parametrize(
    ("source", "destination", "nat"),
    [
        ([REMOTE], [LOCAL], False),
        ([("192.0.2.9", 500), REMOTE], [LOCAL], False),
        ([("192.0.2.9", 500)], [LOCAL], True),
        ([REMOTE], [("192.0.2.1", 4711)], True),
        ([], [LOCAL], None),
        ([], [], None),
    ],
)
def test_nat_is_detected_from_the_response(source, destination, nat):
    notifies = [
        *(ike.notify(16388, ike.nat_hash(SPI_I, SPI_R, *item)) for item in source),
        *(ike.notify(16389, ike.nat_hash(SPI_I, SPI_R, *item)) for item in destination),
        ike.notify(ike.INTERMEDIATE_EXCHANGE_SUPPORTED),
    ]
    assert read(message(notifies=notifies)).nat is nat
    assert compute_nat_hashes(SPI_I, SPI_R, ("2001:db8::1", 500), REMOTE) == (
        ike.nat_hash(SPI_I, SPI_R, "2001:db8::1", 500),
        ike.nat_hash(SPI_I, SPI_R, *REMOTE),
    )


def test_the_first_error():
    data = ike.message(SPI_I, SPI_R, 34, 0, 0, [ike.notify(16384), (41, b"\0"), ike.notify(24), ike.notify(14)])
    assert get_first_error(parse_payloads(data).payloads) == "AUTHENTICATION_FAILED"
    assert get_first_error([]) is None


@settings(max_examples=300)
@given(st.integers(0, len(message()) - 1), st.integers(0, 255), st.integers(0, len(message())))
def test_whatever_comes_has_a_meaning(place, value, end):
    data = message()
    changed = data[:place] + bytes([value]) + data[place + 1 :]
    for one in (changed, data[:end].ljust(28, b"\0")):
        assert isinstance(read(one), InitAcceptance | CookieRequest | KeyExchangeMethodRequest | InitRefusal)
