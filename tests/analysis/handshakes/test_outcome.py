"""How handshakes end: each rule, on captures and alone."""

import numpy as np
import pytest

from ikeanalyze.analysis.handshakes.outcome import Evidence, Outcome, decide_outcome
from tests.analysis.analyse_captures import Handshake, analyse, only, timed
from tests.craft import MS, SECOND, Trace, ike, udp_packet


def evidence(**given):
    """Of one handshake that completed, except for what is given."""
    plain = {
        "refused": False, "begun": True, "hole": False, "aaa_open": False, "last_unanswered": False,
        "last_repeated": False, "waited_ns": 0, "finished": True, "proved_failed": False,
        "proved_established": False, "undone": False,
    }  # fmt: skip
    return Evidence(**{name: np.array([value]) for name, value in {**plain, **given}.items()})


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({}, Outcome.COMPLETED),
        ({"refused": True}, Outcome.FAILED),
        ({"refused": True, "begun": False}, Outcome.FAILED),
        ({"begun": False}, Outcome.CUT),
        ({"hole": True}, Outcome.CUT),
        ({"aaa_open": True}, Outcome.CUT),
        ({"finished": False}, Outcome.CUT),
        ({"last_unanswered": True}, Outcome.CUT),
        ({"last_unanswered": True, "waited_ns": 4 * SECOND}, Outcome.CUT),
        ({"last_unanswered": True, "waited_ns": 4 * SECOND + 1}, Outcome.UNANSWERED),
        ({"last_unanswered": True, "last_repeated": True}, Outcome.UNANSWERED),
        ({"last_unanswered": True, "last_repeated": True, "begun": False}, Outcome.CUT),
        ({"last_unanswered": True, "finished": False, "last_repeated": True}, Outcome.UNANSWERED),
        ({"proved_established": True}, Outcome.ESTABLISHED),
        ({"proved_established": True, "refused": True, "hole": True}, Outcome.ESTABLISHED),
        ({"proved_failed": True, "last_unanswered": True}, Outcome.FAILED),
        ({"undone": True}, Outcome.CUT),
        ({"undone": True, "last_unanswered": True, "last_repeated": True}, Outcome.UNANSWERED),
    ],
)
def test_outcomes_follow_the_rules(given, outcome):
    assert decide_outcome(evidence(**given)).tolist() == [outcome]


def ended(trace):
    row = only(analyse(trace))
    return row["outcome"], row["reason"]


@pytest.mark.parametrize(
    ("notify", "reason"),
    [(ike.NO_PROPOSAL_CHOSEN, "NO_PROPOSAL_CHOSEN"), (ike.INVALID_SYNTAX, "INVALID_SYNTAX")],
)
def test_a_clear_error_notify_fails_the_handshake(notify, reason):
    trace = Trace()
    trace.play(Handshake(1).refused(notify))
    assert ended(trace) == ("failed", reason)


def test_an_error_whose_request_came_again():
    request, error = Handshake(1).refused()
    trace = timed((0, request), (20, error), (500, request), (520, error))
    assert ended(trace) == ("failed", "NO_PROPOSAL_CHOSEN")
    # the repeated request itself does not make it undone
    assert ended(timed((0, request), (20, error), (500, request))) == ("failed", "NO_PROPOSAL_CHOSEN")


def test_invalid_ke_payload_that_nobody_followed():
    first, refusal, *_ = Handshake(1).setup(before="INVALID_KE_PAYLOAD")
    assert ended(timed((0, first), (20, refusal))) == ("failed", "INVALID_KE_PAYLOAD")


def test_invalid_ke_payload_whose_second_request_got_no_answer():
    first, refusal, second, *_ = Handshake(1).setup(before="INVALID_KE_PAYLOAD")
    assert ended(timed((0, first), (20, refusal), (21, second))) == ("cut", None)
    assert ended(timed((0, first), (20, refusal), (21, second), (600, second))) == ("unanswered", None)


def test_a_cookie_that_nobody_followed_is_no_error():
    first, cookie, *_ = Handshake(1).setup(before="COOKIE")
    assert ended(timed((0, first), (20, cookie))) == ("cut", None)


@pytest.mark.parametrize("answered", [0, 2])
def test_a_request_that_was_repeated_in_vain(answered):
    messages = Handshake(1).setup()
    trace = Trace()
    end = trace.play(messages[:answered])
    for later in (0, 500 * MS, 1500 * MS):
        trace.message(end + later, messages[answered])
    assert ended(trace) == ("unanswered", None)


@pytest.mark.parametrize(("rest", "outcome"), [(10, "unanswered"), (4.001, "unanswered"), (3.9, "cut"), (0, "cut")])
def test_a_single_request_and_what_the_capture_has_behind_it(rest, outcome):
    trace = timed((0, Handshake(1).setup()[0]))
    trace.ip(round(rest * SECOND), udp_packet(b"something else", 53, 53))
    assert ended(trace) == (outcome, None)


@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        ((500,), "completed"),  # sent when the response was on its way
        ((500, 4030), "completed"),
        ((500, 4031), "unanswered"),
        ((500, 1500, 3500, 7500), "unanswered"),
    ],
)
def test_a_request_that_came_again_behind_its_response(later, outcome):
    """No path takes four seconds, so the initiator never got it."""
    first, second, request, response = Handshake(1).setup()
    times = [(0, first), (10, second), (20, request), (30, response)]
    row = only(analyse(timed(*times, *((time, request) for time in later))))
    assert (row["outcome"], row["setup_ns"]) == (outcome, 30 * MS if outcome == "completed" else None)
    # an answer that the initiator gives proves that it had got it
    requested, answered = Handshake(1).informational(by_initiator=False)
    trace = timed(*times, *((time, request) for time in later), (9000, requested), (9010, answered))
    assert ended(trace) == ("completed", None)


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        ([(2, 3)], "completed"),  # it may be the capture that lacks one
        ([(2, 3), (1, 2)], "completed"),  # whoever keeps fragments has all
        ([(2, 3), (2, 3)], "unanswered"),
        ([(3,), (2, 3), (3,)], "unanswered"),
    ],
)
def test_a_response_of_which_a_fragment_never_came(seen, outcome):
    """As where a path does not take packets of its size (RFC 7383, 2.5.1)."""
    first, second, request, response = Handshake(1).setup(auth=(1, 3))
    assert len(response.datagrams) == 3
    trace = timed((0, first), (10, second))
    for turn, numbers in enumerate(seen, 1):
        trace.message(turn * SECOND, request)
        trace.message(turn * SECOND + 20 * MS, response, only=numbers)
    assert ended(trace) == (outcome, None)
    trace.message((len(seen) + 1) * SECOND, request)
    assert ended(trace)[0] == ("completed" if seen == [(2, 3), (1, 2)] else "unanswered")


def test_a_response_that_must_have_come():
    messages = Handshake(1).setup()
    trace = Trace()
    trace.play([messages[0], *messages[2:]])
    assert ended(trace) == ("cut", None)


def test_without_ike_auth_the_handshake_is_not_completed():
    trace = Trace()
    trace.play(Handshake(1).init())
    assert ended(trace) == ("cut", None)


def test_what_follows_does_not_change_it():
    handshake = Handshake(1)
    trace = Trace()
    end = trace.play(handshake.setup())
    request, _ = handshake.informational()
    # the peer is gone: dead peer detection asks in vain
    for seconds in (10, 12, 16, 24):
        trace.message(end + seconds * SECOND, request)
    assert ended(trace) == ("completed", None)


def test_a_session_that_was_resumed():
    """IKE_SESSION_RESUME (RFC 5723) stands for IKE_SA_INIT."""
    handshake = Handshake(1)
    init = handshake.init()
    data = [bytearray(message.datagrams[0]) for message in init]
    trace = Trace()
    for place, one in enumerate(data):
        one[18] = ike.IKE_SESSION_RESUME
        trace.send(place * 10 * MS, bytes(one), from_initiator=place == 0)
    trace.play(handshake.auth(), at=30 * MS)
    row = only(analyse(trace))
    assert row["outcome"] == "completed"
    assert [phase["type"] for phase in row["phases"]] == ["IKE_SESSION_RESUME", "IKE_AUTH"]
