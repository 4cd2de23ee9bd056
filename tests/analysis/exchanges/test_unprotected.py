"""Responses in the clear after IKE_SA_INIT (RFC 7296, sections 1.5 and 2.4)."""

import pytest

from tests.analysis.analyse_captures import Handshake, analyse, only
from tests.craft import MS, SECOND, Trace, ike, udp_packet

INVALID_IKE_SPI = 4  # RFC 7296, section 3.10.1


def refuse(handshake, payloads):
    """The response in the clear to the request of IKE_AUTH."""
    return handshake.clear(ike.IKE_AUTH, payloads, from_initiator=False, response=True, message_id=1)


@pytest.mark.parametrize("real", [None, 60])
def test_it_does_not_answer_a_request(real):
    """The response that counts comes at `real` ms, 50 ms after its request; without one, the request is unanswered."""
    handshake = Handshake(1)
    init, (request, response) = handshake.init(), handshake.auth()
    trace = Trace()
    trace.play(init, rtt=8 * MS, think=1 * MS)  # IKE_AUTH follows after 10 ms
    trace.message(10 * MS, request)
    trace.message(15 * MS, refuse(handshake, [ike.notify(INVALID_IKE_SPI)]))
    if real is not None:
        trace.message(real * MS, response)
    trace.ip(60 * SECOND, udp_packet(b"the capture goes on", 53, 53))
    analysis = analyse(trace)
    row, auth = only(analysis), analysis.exchanges.row(1, named=True)
    # frames: Ethernet 14, IPv4 20, UDP 8, non-ESP marker 4, then 28 bytes of IKE header and 8 of the notify
    in_clear = 14 + 20 + 8 + 4 + 28 + 8
    if real is None:
        assert (row["outcome"], row["setup_ns"]) == ("unanswered", None)
        assert (auth["response_bytes"], auth["rtt_ns"]) == (in_clear, None)
    else:
        assert (row["outcome"], row["setup_ns"]) == ("completed", 60 * MS)
        assert (auth["response_messages"], auth["rtt_ns"]) == (2, 50 * MS)


def test_a_notify_before_an_encrypted_payload_is_none():
    """A message may have clear payloads in front of its encrypted one (RFC 7296, section 3.14)."""
    handshake = Handshake(1)
    init, (request, _) = handshake.init(), handshake.auth()
    trace = Trace()
    end = trace.play([*init, request])
    encrypted = handshake.encryptor.body(60)
    trace.message(end + 10 * MS, refuse(handshake, [ike.notify(ike.COOKIE), (46, encrypted)]))
    trace.ip(60 * SECOND, udp_packet(b"the capture goes on", 53, 53))
    assert only(analyse(trace))["outcome"] == "completed"


def test_a_handshake_that_was_decrypted_before_has_a_warning_and_no_guess():
    """An IKE_AUTH request in the clear is of no daemon; a notify in the clear is, or of anyone."""
    handshake, other = Handshake(1), Handshake(2, initiator="192.0.2.3")
    trace = Trace()
    end = trace.play(handshake.init())
    identity = [ike.identification(ike.ID_I, b"i"), ike.auth(2, bytes(200))]
    end = trace.play([handshake.clear(ike.IKE_AUTH, identity, message_id=1)], at=end)
    trace.message(end + 10 * MS, refuse(handshake, [ike.identification(ike.ID_R, b"r"), ike.auth(2, bytes(200))]))
    end = trace.play(other.init(), at=SECOND)
    request, response = other.auth()
    trace.message(end, request)
    trace.message(end + 5 * MS, refuse(other, [ike.notify(INVALID_IKE_SPI)]))
    trace.message(end + 20 * MS, response)
    analysis = analyse(trace)
    (warning,) = analysis.warnings
    assert (warning.frame, warning.message[:37]) == (3, "an IKE_AUTH request is not encrypted,")
    outcomes = ("outcome", "auth_initiator", "auth_responder", "auth_guessed")
    assert analysis.handshakes.select(outcomes).rows() == [
        ("completed", None, None, False),
        ("completed", "psk", "psk", True),
    ]
