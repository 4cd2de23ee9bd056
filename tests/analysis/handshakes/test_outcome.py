"""How handshakes end: each rule, on captures and alone."""

import numpy as np
import pytest

from ikeanalyze.analysis.handshakes.outcome import Evidence, Outcome, decide_outcome
from tests.analysis.analyse_captures import Handshake, analyse, only, timed
from tests.analysis.handshakes.test_handshakes import Old
from tests.craft import MS, SECOND, Trace, ike, udp_packet


def evidence(**given):
    """Of one handshake that completed, except for what is given."""
    plain = {
        "refused": False, "begun": True, "one_sided": False, "hole": False, "last_unanswered": False,
        "last_repeated": False, "waited_ns": 0, "finished": True, "asked_again": False, "proved_failed": False,
        "proved_established": False,
    }  # fmt: skip
    return Evidence(**{name: np.array([value]) for name, value in {**plain, **given}.items()})


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({}, Outcome.COMPLETED),
        ({"refused": True}, Outcome.FAILED),
        ({"refused": True, "begun": False}, Outcome.FAILED),
        ({"begun": False}, Outcome.CUT),
        ({"one_sided": True}, Outcome.CUT),
        ({"one_sided": True, "last_unanswered": True, "last_repeated": True}, Outcome.CUT),
        ({"hole": True}, Outcome.COMPLETED),
        ({"finished": False}, Outcome.CUT),
        ({"finished": False, "waited_ns": 4 * SECOND}, Outcome.CUT),
        ({"finished": False, "waited_ns": 4 * SECOND + 1}, Outcome.HALF_OPEN),
        ({"finished": False, "waited_ns": 4 * SECOND + 1, "begun": False}, Outcome.CUT),
        ({"finished": False, "waited_ns": 4 * SECOND + 1, "refused": True}, Outcome.FAILED),
        ({"finished": False, "asked_again": True}, Outcome.HALF_OPEN),
        ({"waited_ns": 4 * SECOND + 1}, Outcome.COMPLETED),
        ({"last_unanswered": True}, Outcome.CUT),
        ({"last_unanswered": True, "waited_ns": 4 * SECOND}, Outcome.CUT),
        ({"last_unanswered": True, "waited_ns": 4 * SECOND + 1}, Outcome.UNANSWERED),
        ({"last_unanswered": True, "last_repeated": True}, Outcome.UNANSWERED),
        ({"last_unanswered": True, "last_repeated": True, "begun": False}, Outcome.CUT),
        ({"last_unanswered": True, "finished": False, "last_repeated": True}, Outcome.UNANSWERED),
        ({"proved_established": True}, Outcome.ESTABLISHED),
        ({"proved_established": True, "refused": True, "hole": True}, Outcome.ESTABLISHED),
        ({"proved_failed": True, "last_unanswered": True}, Outcome.FAILED),
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


def later(trace, seconds):
    """The capture goes on with something else until `seconds` after its beginning."""
    trace.ip(round(seconds * SECOND), udp_packet(b"something else", 53, 53))
    return trace


@pytest.mark.parametrize("notify", ["COOKIE", "INVALID_KE_PAYLOAD"])
@pytest.mark.parametrize(("end", "outcome"), [(0.02, "cut"), (4.02, "cut"), (4.021, "half-open")])
def test_an_initiator_that_does_not_ask_again(notify, end, outcome):
    """The responder asked for another request; RFC 7296, sections 1.3 and 2.6."""
    first, refusal, *_ = Handshake(1).setup(before=notify)
    assert ended(later(timed((0, first), (20, refusal)), end)) == (outcome, notify)


@pytest.mark.parametrize("notify", ["COOKIE", "INVALID_KE_PAYLOAD"])
def test_an_initiator_that_asks_again_and_then_stops(notify):
    messages = Handshake(1).setup(before=notify)[:4]
    trace = timed(*((20 * place, message) for place, message in enumerate(messages)))
    assert ended(later(trace, 5)) == ("half-open", None)


def test_invalid_ke_payload_whose_second_request_got_no_answer():
    first, refusal, second, *_ = Handshake(1).setup(before="INVALID_KE_PAYLOAD")
    assert ended(timed((0, first), (20, refusal), (21, second))) == ("cut", None)
    assert ended(timed((0, first), (20, refusal), (21, second), (600, second))) == ("unanswered", None)


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


@pytest.mark.parametrize("missing", [1, 3, 4])
def test_a_message_that_the_capture_lost_between_others(missing):
    """The next message shows that it was sent and received: nothing is cut, but the times are unknown."""
    messages = Handshake(1).setup(intermediate=[(1, 1)])
    assert len(messages) == 6
    trace = Trace()
    trace.play(messages[:missing] + messages[missing + 1 :])
    row = only(analyse(trace))
    assert (row["outcome"], row["reason"], row["setup_ns"]) == ("completed", None, None)


def test_a_response_that_the_capture_lost_before_a_request_in_vain():
    messages = Handshake(1).setup(intermediate=[(1, 1)])
    init, answer, second, _, last, _ = messages
    trace = timed((0, init), (10, answer), (20, second), (40, last), (540, last))
    assert ended(trace) == ("unanswered", None)


def test_ike_auth_that_the_capture_lost():
    """Only an IKE SA that was set up has later exchanges."""
    handshake = Handshake(1)
    init, _ = handshake.init(), handshake.auth()
    trace = Trace()
    trace.play([*init, *handshake.informational()])
    row = only(analyse(later(trace, 10)))
    assert (row["outcome"], row["setup_ns"]) == ("completed", None)


@pytest.mark.parametrize(("end", "outcome"), [(0.05, "cut"), (3.9, "cut"), (4.1, "half-open"), (60, "half-open")])
def test_an_initiator_that_stops_after_ike_sa_init(end, outcome):
    """`half-open` needs a capture that goes on for more than 4 s after the response."""
    trace = Trace()
    trace.play(Handshake(1).init())
    assert ended(later(trace, end)) == (outcome, None)


def test_three_of_nine_initiators_stop():
    """Every third initiator stops after IKE_SA_INIT; the last of them shortly before the capture ends."""
    trace = Trace()
    for number in range(9):
        handshake = Handshake(number + 1)
        trace.play(handshake.init() if number % 3 == 2 else handshake.setup(), at=2 * number * SECOND)
    names = ["completed", "completed", "half-open"] * 3
    analysis = analyse(trace)
    assert analysis.handshakes["outcome"].to_list() == [*names[:-1], "cut"]
    assert analyse(later(trace, 30)).handshakes["outcome"].to_list() == names


def test_a_capture_that_begins_inside_a_handshake():
    messages = Handshake(1).setup()
    for missing in (1, 2, 3):
        trace = Trace()
        trace.play(messages[missing:])
        assert ended(later(trace, 60)) == ("cut", None)


@pytest.mark.parametrize(
    ("kept", "repeats", "end", "outcome"),
    [
        (2, 0, 3, "cut"),
        (2, 0, 5, "half-open"),  # main mode: one of three exchanges
        (4, 0, 5, "half-open"),
        (5, 0, 3, "cut"),
        (5, 0, 5, "unanswered"),
        (6, 0, 60, "completed"),
        (8, 0, 3, "cut"),  # quick mode without its third message
        (8, 0, 5, "half-open"),
        (8, 1, 3, "half-open"),  # the responder asks for it again
        (9, 0, 60, "completed"),
    ],
)
def test_an_ikev1_initiator_that_stops(kept, repeats, end, outcome):
    phase = Old()
    messages = [*phase.phase1, *phase.quick()][:kept]
    trace = Trace()
    for place, (data, by_initiator) in enumerate([*messages, *messages[-1:] * repeats]):
        trace.send(place * 10 * MS, data, from_initiator=by_initiator)
    assert ended(later(trace, end)) == (outcome, None)


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
