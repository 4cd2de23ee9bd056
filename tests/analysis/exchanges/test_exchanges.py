"""Requests and their responses: pairs, extra round trips, round-trip times."""

import polars as pl
import pytest

from tests.analysis.analyse_captures import Handshake, analyse, at, only, rows, size, sizes, timed
from tests.craft import MS, SECOND, Trace, ike

COLUMNS = ("type", "message_id", "attempt", "extra_round_trip", "request_messages", "response_messages")


@pytest.mark.parametrize(
    ("before", "reasons"),
    [
        (None, []),
        ("COOKIE", ["COOKIE"]),
        ("INVALID_KE_PAYLOAD", ["INVALID_KE_PAYLOAD"]),
        ("both", ["COOKIE", "INVALID_KE_PAYLOAD"]),
    ],
)
def test_a_request_with_another_body_is_an_extra_round_trip(before, reasons):
    messages = Handshake(1).setup(before=before)
    trace = Trace()
    trace.play(messages)
    analysis = analyse(trace)
    row = only(analysis)
    count = len(reasons)
    assert row["extra_round_trips"] == reasons
    assert (row["retransmitted_messages"], row["blowup"], row["outcome"]) == (0, 1.0, "completed")
    assert row["initiator_messages"] == row["responder_messages"] == 2 + count
    assert rows(analysis.exchanges, *COLUMNS) == [
        *(("IKE_SA_INIT", 0, attempt + 1, reason, 1, 1) for attempt, reason in enumerate(reasons)),
        ("IKE_SA_INIT", 0, count + 1, None, 1, 1),
        ("IKE_AUTH", 1, 1, None, 1, 1),
    ]
    assert analysis.exchanges["rtt_ns"].to_list() == [21 * MS] * (2 + count)
    # a request, 1 ms and 20 ms later the response, 1 ms later the next request
    assert row["setup_ns"] == (2 + count) * 21 * MS + (1 + count) * MS
    assert row["phases"][0]["messages"] == 2 + 2 * count


def test_the_request_that_got_a_cookie_was_sent_twice():
    first, cookie, second, answer, *auth = Handshake(2).setup(before="COOKIE")
    trace = timed((0, first), (500, first), (520, cookie), (521, second), (541, answer))
    trace.play(auth, at=542 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["extra_round_trips"] == ["COOKIE"]
    assert (row["retransmitted_messages"], row["retransmitted_bytes"]) == (1, size(first))
    assert rows(analysis.exchanges, *COLUMNS[2:]) == [(1, "COOKIE", 2, 1), (2, None, 1, 1), (1, None, 1, 1)]
    assert analysis.exchanges["wait_ns"].to_list() == [500 * MS, 0, 0]


def test_the_cookie_was_sent_twice():
    first, cookie, second, answer, *auth = Handshake(2).setup(before="COOKIE")
    # both requests get there, the second cookie comes when the initiator has gone on
    trace = timed((0, first), (500, first), (520, cookie), (521, second), (530, cookie), (541, answer))
    trace.play(auth, at=542 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["extra_round_trips"] == ["COOKIE"]
    assert row["retransmitted_messages"] == 2
    assert row["retransmitted_bytes"] == size(first, cookie)
    assert rows(analysis.exchanges, *COLUMNS[2:]) == [(1, "COOKIE", 2, 2), (2, None, 1, 1), (1, None, 1, 1)]
    assert analysis.exchanges["rtt_ns"].to_list() == [520 * MS, 20 * MS, 21 * MS]


def test_a_late_refusal_does_not_undo_the_answer():
    """The refusal of a repeated first request comes when the second was taken already."""
    first, refusal, second, answer, *auth = Handshake(2).setup(before="INVALID_KE_PAYLOAD")
    trace = timed((0, first), (500, first), (520, refusal), (521, second), (541, answer), (542, refusal))
    trace.play(auth, at=543 * MS)
    row = only(analyse(trace))
    assert (row["outcome"], row["reason"]) == ("completed", None)
    assert row["extra_round_trips"] == ["INVALID_KE_PAYLOAD"]
    assert row["key_exchange"] == "ECP-256"
    assert row["retransmitted_messages"] == 2


def test_a_second_cookie_that_differs_is_no_answer():
    """A responder makes cookies of the time too: one for each transmission of the request."""
    first, cookie, second, answer, *auth = (handshake := Handshake(2)).setup(before="COOKIE")
    handshake.moved = False
    other = handshake.clear(
        ike.IKE_SA_INIT,
        [ike.notify(ike.COOKIE, b"another")],
        from_initiator=False,
        response=True,
        spi_r=bytes(8),
    )
    trace = timed((0, first), (500, first), (520, cookie), (521, second), (530, other), (541, answer))
    trace.play(auth, at=542 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["extra_round_trips"] == ["COOKIE"]
    assert row["outcome"] == "completed"
    assert analysis.exchanges["rtt_ns"].to_list()[1:] == [20 * MS, 21 * MS]


def test_two_requests_then_two_responses_answer_each_other_in_order():
    request, response, *auth = Handshake(3).setup()
    trace = timed((0, request), (500, request), (600, response), (1100, response))
    trace.play(auth, at=1200 * MS)
    analysis = analyse(trace)
    assert analysis.exchanges["rtt_ns"].to_list()[0] == 600 * MS
    assert analysis.exchanges["wait_ns"].to_list()[0] == 0


def test_the_second_response_may_come_when_the_initiator_has_gone_on():
    request, response, *auth = Handshake(3).setup()
    trace = timed((0, request), (500, request), (600, response), (1100, response))
    trace.play(auth, at=601 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert analysis.exchanges["rtt_ns"].to_list() == [600 * MS, 21 * MS]
    assert row["setup_ns"] == 622 * MS
    assert row["retransmission_wait_ns"] == 0
    assert row["retransmitted_messages"] == 2


def test_a_request_that_was_lost_is_waited_for():
    request, response, *auth = Handshake(3).setup()
    trace = timed((0, request), (500, request), (1500, request), (1520, response))
    trace.play(auth, at=1521 * MS)
    analysis = analyse(trace)
    assert analysis.exchanges["rtt_ns"].to_list() == [20 * MS, 21 * MS]
    assert analysis.exchanges["wait_ns"].to_list() == [1500 * MS, 0]
    assert only(analysis)["retransmission_wait_ns"] == 1500 * MS


def test_on_the_responders_side_a_lost_response_is_no_answer():
    """The response is seen going out; who repeats the request has not got it."""
    request, response, *auth = Handshake(3).setup()
    trace = timed((0, request), (1, response), (500, request), (501, response))
    trace.play(auth, at=521 * MS, vantage="responder")
    analysis = analyse(trace)
    first = analysis.exchanges.row(0, named=True)
    assert (first["rtt_ns"], first["wait_ns"]) == (1 * MS, 500 * MS)
    assert first["end_ns"] == at(501)
    assert first["response_ns"] == at(1)
    assert (first["request_messages"], first["response_messages"]) == (2, 2)


def test_a_response_in_fragments_ends_with_the_last_of_them():
    handshake = Handshake(4)
    trace = Trace()
    end = trace.play(handshake.init())
    request, response = handshake.auth(fragments=(2, 3))
    trace.message(end, request)
    trace.message(end + 20 * MS, response, gap=MS)
    exchange = analyse(trace).exchanges.row(1, named=True)
    assert exchange["rtt_ns"] == 20 * MS
    assert exchange["end_ns"] == at(0) + end + 22 * MS
    assert (exchange["request_frames"], exchange["response_frames"]) == (2, 3)


def test_what_follows_the_set_up_is_not_set_up():
    handshake = Handshake(5)
    messages = handshake.setup()
    later = [
        *handshake.create_child_sa(),
        *handshake.followup_ke(),
        *handshake.informational(),
        *handshake.informational(by_initiator=False),
        *handshake.create_child_sa(by_initiator=False),
    ]
    trace = Trace()
    trace.play([*messages, *later])
    analysis = analyse(trace)
    row = only(analysis)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(*messages)
    both = row["after_setup_initiator_bytes"] + row["after_setup_responder_bytes"]
    assert both == size(*later)
    assert (row["after_setup_initiator_messages"], row["after_setup_responder_messages"]) == (5, 5)
    assert rows(analysis.exchanges, "type", "message_id", "initiated_by", "set_up") == [
        ("IKE_SA_INIT", 0, "initiator", True),
        ("IKE_AUTH", 1, "initiator", True),
        ("CREATE_CHILD_SA", 2, "initiator", False),
        ("IKE_FOLLOWUP_KE", 3, "initiator", False),
        ("INFORMATIONAL", 4, "initiator", False),
        # the responder counts its own requests
        ("INFORMATIONAL", 0, "responder", False),
        ("CREATE_CHILD_SA", 1, "responder", False),
    ]
    assert [phase["type"] for phase in row["phases"]] == ["IKE_SA_INIT", "IKE_AUTH"]


def test_a_retransmission_after_the_set_up_is_not_the_set_ups():
    handshake = Handshake(6)
    messages = handshake.setup()
    (request, response) = handshake.informational()
    trace = Trace()
    trace.play(messages)
    for seconds in (10, 12, 16):
        trace.message(seconds * SECOND, request)
    trace.message(16 * SECOND + 10 * MS, response)
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["retransmitted_messages"], row["retransmitted_bytes"], row["blowup"]) == (0, 0, 1.0)
    assert row["after_setup_initiator_messages"] == 3
    assert row["after_setup_initiator_bytes"] == 3 * size(request)
    assert row["outcome"] == "completed"
    late = analysis.messages.filter(pl.col("type") == "INFORMATIONAL")
    assert rows(late, "kind", "transmission") == [
        ("request", 1),
        ("request", 2),
        ("request", 3),
        ("response", 1),
    ]


def test_an_exchange_without_request_or_response():
    handshake = Handshake(7)
    handshake.init()
    request, _ = handshake.auth()
    _, response = handshake.informational(by_initiator=False)
    analysis = analyse(timed((0, request), (10, response)))
    assert rows(analysis.exchanges, "type", "request_messages", "response_messages", "rtt_ns", "end_ns") == [
        ("IKE_AUTH", 1, None, None, None),
        ("INFORMATIONAL", None, 1, None, at(10)),
    ]


def test_additional_key_exchanges_belong_to_the_set_up():
    handshake = Handshake(8, proposals=[ike.HYBRID])
    messages = handshake.setup(intermediate=[(2, 1)])
    trace = Trace()
    trace.play(messages)
    row = only(analyse(trace))
    assert [(phase["type"], phase["messages"], phase["frames"]) for phase in row["phases"]] == [
        ("IKE_SA_INIT", 2, 2),
        ("IKE_INTERMEDIATE", 2, 3),
        ("IKE_AUTH", 2, 2),
    ]
    assert row["phases"][1]["bytes"] == size(*messages[2:4])
    assert row["additional_key_exchanges"] == [{"slot": 1, "method": "ML-KEM-768", "id": 36}]


def test_an_exchange_for_private_use_before_ike_auth_sets_up_the_ike_sa():
    """Types from 240 on are for private use (IANA): IKE_INTERMEDIATE had one of them before RFC 9242."""
    handshake = Handshake(1)
    trace = Trace()
    before = [*handshake.init(), *handshake.exchange(240, (1200, 1100)), *handshake.auth()]
    end = trace.play(before, rtt=20 * MS, think=1 * MS)
    trace.play(handshake.exchange(240, (50, 50)), at=end + SECOND)
    analysis = analyse(trace)
    row = only(analysis)
    assert analysis.exchanges["set_up"].to_list() == [True, True, True, False]
    assert row["setup_ns"] == 3 * 20 * MS + 5 * MS  # three round trips, and a pause between each two messages
    assert row["initiator_bytes"] + row["responder_bytes"] == sum(sum(sizes(message)) for message in before)
