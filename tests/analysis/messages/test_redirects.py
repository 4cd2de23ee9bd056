"""A gateway that sends the initiator on to another (RFC 5685)."""

import pytest

from tests.analysis.analyse_captures import Handshake, analyse, only, rows, size, timed
from tests.craft import MS, SECOND, Trace, redirected


@pytest.mark.parametrize("same_spi", [True, False])
def test_a_redirect_is_an_extra_round_trip_of_one_handshake(same_spi):
    _, second, messages = redirected(same_spi=same_spi)
    trace = Trace()
    trace.play(messages)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["extra_round_trips"] == ["REDIRECT"]
    assert (row["outcome"], row["reason"]) == ("completed", None)
    assert (row["retransmitted_messages"], row["blowup"]) == (0, 1.0)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(*messages)
    assert row["responder_address"] == "192.0.2.9"
    assert (row["spi_i"], row["spi_r"]) == (second.spi_i.hex(), second.spi_r.hex())
    # three exchanges of 21 ms, 1 ms between them
    assert row["setup_ns"] == (3 * 21 + 2) * MS
    assert rows(analysis.exchanges, "type", "attempt", "extra_round_trip") == [
        ("IKE_SA_INIT", 1, "REDIRECT"),
        ("IKE_SA_INIT", 2, None),
        ("IKE_AUTH", 1, None),
    ]
    assert analysis.handshakes["handshake"].to_list() == [1]


def test_a_redirect_that_nobody_followed():
    _, _, messages = redirected()
    row = only(analyse(timed((0, messages[0]), (20, messages[1]))))
    assert (row["outcome"], row["reason"]) == ("failed", "REDIRECT")
    assert row["extra_round_trips"] == []


def test_another_handshake_after_a_redirect_is_another_handshake():
    _, _, messages = redirected()
    trace = timed((0, messages[0]), (20, messages[1]))
    # without REDIRECTED_FROM
    trace.play(Handshake(3, responder="192.0.2.9").setup(), at=SECOND)
    analysis = analyse(trace)
    assert analysis.handshakes["outcome"].to_list() == ["failed", "completed"]


def test_a_minute_later_it_is_another_attempt():
    _, _, messages = redirected()
    trace = timed((0, messages[0]), (20, messages[1]))
    trace.play(messages[2:], at=61 * SECOND)
    assert analyse(trace).handshakes["outcome"].to_list() == ["failed", "completed"]


def test_ids_close_up_behind_a_redirect():
    _, _, messages = redirected()
    other = Handshake(4, initiator="192.0.2.7")
    trace = timed((0, messages[0]), (20, messages[1]))
    trace.play(other.setup(), at=22 * MS)
    trace.play(messages[2:], at=30 * MS)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "handshake", "initiator_address", "outcome") == [
        (1, "192.0.2.1", "completed"),
        (2, "192.0.2.7", "completed"),
    ]
