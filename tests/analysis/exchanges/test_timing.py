"""Where the time of a set-up went. That the parts add up, `analysed.obey` holds against every handshake."""

import shutil
import subprocess
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.analysis.read import read_captures
from tests.analysis.analyse_captures import SEPARATE_PARTS, Handshake, analyse, only, timed
from tests.craft import MS, Trace, ikev1
from tests.paths import CAPTURES

TRANSACTION = 6


def parts(row):
    """In milliseconds: network, initiator, responder, AAA server, waiting for timers."""
    return [None if row[part] is None else row[part] / MS for part in SEPARATE_PARTS]


def spaced(messages, turns, *, ttl=(64, 64)):
    """Messages with these pauses between them, in ms; TTLs of the initiator's and the responder's packets."""
    trace, time = Trace(), 0
    for message, pause in zip(messages, (0, *turns), strict=True):
        time += pause
        for data in message.datagrams:
            trace.send(
                time * MS,
                data,
                sport=message.sport,
                dport=message.dport,
                source=message.source,
                destination=message.destination,
                ttl=ttl[not message.from_initiator],
            )
    return trace


@pytest.mark.parametrize(
    ("ttl", "vantage"),
    [
        ((64, 57), "initiator"),
        ((128, 250), "initiator"),
        ((63, 64), "responder"),
        ((120, 255), "responder"),
        ((64, 64), "unknown"),
        ((64, 128), "unknown"),
        ((63, 63), "unknown"),
    ],
)
def test_the_vantage_is_told_by_the_ttl_in_one_direction(ttl, vantage):
    row = only(analyse(spaced(Handshake(1).setup(), (20, 3, 30), ttl=ttl)))
    assert row["vantage"] == vantage


def test_hop_limits_of_ipv6_show_the_capture_point():
    messages = Handshake(1, initiator="2001:db8::1", responder="2001:db8::2").setup()
    assert only(analyse(spaced(messages, (20, 3, 30), ttl=(64, 60))))["vantage"] == "initiator"


def test_one_packet_that_took_another_way_makes_it_unknown():
    trace = spaced(Handshake(1).setup(), (20, 3, 30), ttl=(64, 60))
    handshake = Handshake(1)
    handshake.setup()
    later = handshake.informational(by_initiator=False)[0]
    trace.send(200 * MS, later.datagrams[0], sport=4500, dport=4500, from_initiator=False, ttl=64)
    assert only(analyse(trace))["vantage"] == "unknown"


def test_from_the_initiators_side():
    # responder's turns of 20 and 30 ms, with the path in them: 20 is the most that the path can be
    row = only(analyse(spaced(Handshake(1).setup(), (20, 3, 30), ttl=(64, 60))))
    assert row["setup_ns"] == 53 * MS
    assert parts(row) == [40, 3, 10, None, 0]
    assert (row["path_rtt_ns"], row["path_rtt_source"]) == (20 * MS, "smallest seen")


def test_from_the_responders_side():
    # the initiator's turn of 25 ms has the path in it, and nothing else as far as is known
    row = only(analyse(spaced(Handshake(1).setup(), (4, 25, 6), ttl=(60, 64))))
    assert row["setup_ns"] == 35 * MS
    assert parts(row) == [25, 0, 10, None, 0]
    assert row["path_rtt_ns"] == 25 * MS


def test_at_an_unknown_capture_point_initiator_and_network_are_one_part():
    row = only(analyse(spaced(Handshake(1).setup(), (20, 3, 30))))
    assert parts(row) == [None, None, 50, None, 0]
    assert row["initiator_and_network_ns"] == 3 * MS
    assert (row["path_rtt_ns"], row["path_rtt_source"], row["vantage"]) == (None, None, "unknown")


def test_a_given_vantage_and_round_trip_time():
    trace = spaced(Handshake(1).setup(), (20, 13, 30))
    row = only(analyse(trace, vantage="initiator", rtt_ms=12.5))
    assert parts(row) == [25, 13, 25, None, 0]
    assert (row["path_rtt_ns"], row["path_rtt_source"]) == (12.5 * MS, "given")
    # one gap between two exchanges holds the path, seen from the responder
    row = only(analyse(trace, vantage="responder", rtt_ms=12.5))
    assert parts(row) == [12.5, 0.5, 50, None, 0]
    # given, but nobody knows where to take it off
    row = only(analyse(trace, rtt_ms=12.5))
    assert parts(row) == [None, None, 50, None, 0]
    assert (row["initiator_and_network_ns"], row["path_rtt_ns"]) == (13 * MS, None)


def test_a_round_trip_time_that_is_too_long_takes_no_more_than_there_is():
    row = only(analyse(spaced(Handshake(1).setup(), (20, 3, 30)), vantage="initiator", rtt_ms=25))
    assert parts(row) == [20 + 25, 3, 5, None, 0]


def test_a_path_of_no_length_is_known():
    row = only(analyse(spaced(Handshake(1).setup(), (20, 3, 30)), vantage="initiator", rtt_ms=0))
    assert parts(row) == [0, 3, 50, None, 0]


def test_the_path_is_the_same_for_all_handshakes_of_two_hosts():
    trace = Trace()
    for start, seed, turns, addresses in (
        (0, 1, (20, 3, 30), {}),
        (1000, 2, (12, 3, 15), {}),
        (2000, 3, (5, 3, 5), {"initiator": "192.0.2.3"}),
    ):
        time = start
        for message, pause in zip(Handshake(seed, **addresses).setup(), (0, *turns), strict=True):
            time += pause
            trace.message(time * MS, message)
    handshakes = analyse(trace, vantage="initiator").handshakes
    assert handshakes["path_rtt_ns"].to_list() == [12 * MS, 12 * MS, 5 * MS]
    assert handshakes["network_ns"].to_list() == [24 * MS, 24 * MS, 10 * MS]
    assert handshakes["responder_ns"].to_list() == [26 * MS, 3 * MS, 0]


def test_what_is_waited_for_a_timer():
    request, response, auth, done = Handshake(1).setup()
    trace = timed((0, request), (500, request), (1500, request), (1520, response), (1523, auth), (1553, done))
    row = only(analyse(trace, vantage="initiator"))
    assert row["setup_ns"] == 1553 * MS
    assert parts(row) == [40, 3, 10, None, 1500]


def test_the_last_fragment_of_a_response_ends_a_turn():
    handshake = Handshake(2)
    request, response = handshake.init()
    big, answer = handshake.intermediate(fragments=(2, 2))
    auth, done = handshake.auth(fragments=(1, 3))
    trace = timed((0, request), (20, response), (21, big))
    trace.message(46 * MS, answer, gap=5 * MS)
    trace.message(52 * MS, auth)
    trace.message(72 * MS, done, gap=2 * MS)
    row = only(analyse(trace, vantage="initiator"))
    # turns of the responder: 0 to 20, 21 to 51, 52 to 76
    assert row["setup_ns"] == 76 * MS
    assert parts(row) == [60, 2, 14, None, 0]


#: Captured at the responder, 400 ms from an initiator that repeats after 300 and 420 ms: times in ms of the request
#: and response of an exchange and of the next request, which arrives a round trip after the response was sent.
BOTH_ARRIVE = ((0, "request"), (1, "response"), (300, "request"), (301, "response"), (401, "next"))
FIRST_RESPONSE_LOST = ((0, "request"), (1, "response"), (300, "request"), (301, "response"), (701, "next"))
SECOND_REQUEST_LOST = ((0, "request"), (1, "response"), (300, "request"), (401, "next"))


def far_away(*handshakes):
    """Handshakes of IKE_SA_INIT and IKE_AUTH with both exchanges timed as above; the last has no next request."""
    trace = Trace()
    for number, exchanges in enumerate(handshakes):
        messages, time = Handshake(number + 1).setup(), number * 10_000
        for place, times in enumerate(exchanges):
            for when, what in times:
                if what == "next":
                    time += when
                else:
                    trace.message((time + when) * MS, messages[2 * place + (what == "response")])
    return trace


@pytest.mark.parametrize(
    ("exchanges", "setup", "wait"),
    [
        ((BOTH_ARRIVE, BOTH_ARRIVE), 402, 0),
        ((FIRST_RESPONSE_LOST, BOTH_ARRIVE), 702, 300),
        ((BOTH_ARRIVE, SECOND_REQUEST_LOST), 402, 0),
        ((SECOND_REQUEST_LOST, BOTH_ARRIVE), 402, 0),
    ],
)
def test_requests_that_were_under_way_when_the_response_was(exchanges, setup, wait):
    row = only(analyse(far_away(exchanges), vantage="responder", rtt_ms=400))
    assert row["setup_ns"] == setup * MS
    assert parts(row) == [400, 0, 2, None, wait]


def test_the_round_trip_time_is_known_from_lone_responses_that_agree():
    """However the vantage is: that it takes as long as that to the next request is seen from there."""
    lone = SECOND_REQUEST_LOST, BOTH_ARRIVE
    handshakes = analyse(far_away(lone, lone, (BOTH_ARRIVE, BOTH_ARRIVE))).handshakes
    assert handshakes["setup_ns"].to_list() == [402 * MS] * 3
    assert handshakes["retransmission_wait_ns"].to_list() == [0, 0, 0]
    handshakes = analyse(far_away(lone, lone, (BOTH_ARRIVE, BOTH_ARRIVE)), vantage="responder").handshakes
    assert handshakes["path_rtt_ns"].to_list() == [400 * MS] * 3
    assert handshakes["network_ns"].to_list() == [400 * MS] * 3


def test_times_that_the_capture_cannot_decide_are_uncertain():
    """Each request was repeated and each repeat answered: 400 ms away, or on a quick path with lost responses."""
    trace = far_away((BOTH_ARRIVE, BOTH_ARRIVE))
    for options in ({}, {"vantage": "responder"}, {"rtt_ms": 400}):
        analysis = analyse(trace, **options)
        row = only(analysis)
        assert "may exceed the retransmission timer" in row["uncertain"]
        assert row["initiator_setup_ns"] is None
        assert "--vantage SIDE --rtt MS" in analysis.warnings[-1].message
    known = analyse(trace, vantage="responder", rtt_ms=400)
    assert only(known)["uncertain"] is None
    assert [warning.message for warning in known.warnings] == [
        "the capture has every message at least twice, as a mirror port or a capture of several interfaces does: these "
        "look like retransmissions and are counted. Read a capture of one point instead"
    ]
    # the initiator stops when it has the first response
    assert only(analyse(trace, vantage="initiator"))["uncertain"] is None


@pytest.mark.parametrize(
    ("vantage", "rtt_ms", "contradicted"),
    [
        ("initiator", 20, False),  # the responder takes 20 and 30 ms, with the path
        ("initiator", 50, False),  # longer than each, but not than both together: some of the time is known
        ("initiator", 20_000, True),  # microseconds instead of milliseconds
        ("responder", 3, False),  # the initiator takes 3 ms, with the path
        ("responder", 3.2, False),  # jitter
        ("responder", 20, True),  # the wrong side
    ],
)
def test_a_round_trip_for_which_a_set_up_had_no_time_is_a_warning(vantage, rtt_ms, contradicted):
    analysis = analyse(spaced(Handshake(1).setup(), (20, 3, 30)), vantage=vantage, rtt_ms=rtt_ms)
    expected = ["the given round-trip time is longer than the time that a set-up had for all of its round trips"]
    assert [warning.message.partition(":")[0] for warning in analysis.warnings] == (expected if contradicted else [])


def test_a_quick_exchange_of_the_same_hosts_excludes_a_long_path():
    once = ((0, "request"), (1, "response"), (20, "next"))
    handshakes = analyse(far_away((BOTH_ARRIVE, BOTH_ARRIVE), (once, BOTH_ARRIVE))).handshakes
    assert handshakes["uncertain"].to_list() == [None, None]


def test_a_path_is_at_least_as_long_as_the_capture_proves():
    """The second response is 100 ms before the next request, which is less than the path: the first one is a bound."""
    row = only(analyse(far_away((BOTH_ARRIVE, BOTH_ARRIVE)), vantage="responder"))
    assert (row["path_rtt_ns"], row["path_rtt_source"]) == (400 * MS, "smallest seen")
    # captured at the initiator, 400 ms away: the response after 401 ms answers the first transmission
    request, response, auth, done = Handshake(1).setup()
    trace = timed((0, request), (300, request), (401, response), (402, auth), (802, done))
    assert only(analyse(trace, vantage="initiator"))["path_rtt_ns"] == 400 * MS


@pytest.mark.parametrize("number", [0, 1])
def test_without_that_the_order_of_things_decides(number):
    """A single lone response may be one whose next request was lost before the capture."""
    lone = SECOND_REQUEST_LOST, BOTH_ARRIVE
    handshakes = analyse(far_away(*[lone] * number, (BOTH_ARRIVE, BOTH_ARRIVE))).handshakes
    # the second response to IKE_SA_INIT, and to IKE_AUTH
    assert handshakes["setup_ns"].to_list()[-1] == (401 + 301) * MS
    assert handshakes["retransmission_wait_ns"].to_list()[-1] == 600 * MS


def test_what_was_under_way_when_the_responder_asks_next():
    """Main mode with XAuth, 400 ms away: the third exchange is repeated while the transaction begins."""
    one = ikev1.main_mode(rng := Random(1))
    cookies = one[1][:8], one[1][8:16]
    requested = [ikev1.encrypted(*cookies, TRANSACTION, ikev1.HASH, rng.randbytes(80), 7) for _ in range(2)]
    trace = Trace()
    sent = (
        (0, one[0]), (1, one[1]), (401, one[2]), (402, one[3]), (802, one[4]), (803, one[5]),
        (804, requested[0]), (1102, one[4]), (1103, one[5]), (1204, requested[1]),
    )  # fmt: skip
    for time, data in sent:
        by_initiator = data in (one[0], one[2], one[4], requested[1])
        trace.send(time * MS, data, from_initiator=by_initiator)
    exchanges = analyse(trace, vantage="responder", rtt_ms=400).exchanges
    assert exchanges["wait_ns"].to_list() == [0] * 4
    assert [rtt / MS for rtt in exchanges["rtt_ns"].to_list()] == [1, 1, 1, 400]


def test_on_the_initiators_side_a_response_cannot_be_quicker_than_the_path():
    """400 ms away; the second request, or what it brought, was lost."""
    request, response, auth, done = Handshake(1).setup()
    trace = timed((0, request), (300, request), (401, response), (402, auth), (702, auth), (805, done))
    row = only(analyse(trace, vantage="initiator", rtt_ms=400))
    assert parts(row) == [800, 1, 4, None, 0]
    # the first request was lost as well
    trace = timed((0, request), (300, request), (702, response), (703, auth), (1104, done))
    row = only(analyse(trace, vantage="initiator", rtt_ms=400))
    assert parts(row) == [800, 1, 3, None, 300]


def test_what_is_lost_on_a_quick_path_is_not_under_way():
    """Requests whose first transmission was lost, 520 ms after single responses, do not show the round trip."""
    lost_before = ((0, "request"), (1, "response"), (521, "next"))
    lost_behind = ((0, "request"), (1, "response"), (500, "request"), (501, "response"), (521, "next"))
    once = ((0, "request"), (1, "response"))
    handshakes = analyse(far_away((lost_before, once), (lost_before, once), (lost_behind, once))).handshakes
    assert handshakes["retransmission_wait_ns"].to_list() == [0, 0, 500 * MS]


def ikev1_trace(phase1, phase2, turns, ttl=(64, 64)):
    """Messages by turns, the initiator's first; phase 2 begins anew with the initiator."""
    rng = Random(1)
    first = phase1(rng)
    later = phase2(rng, first[1][:16])
    sent = [(data, place % 2 == 0) for item in (first, later) for place, data in enumerate(item)]
    trace, time = Trace(), 0
    for (data, by_initiator), pause in zip(sent, (0, *turns), strict=True):
        time += pause
        trace.send(time * MS, data, from_initiator=by_initiator, ttl=ttl[not by_initiator])
    return trace


def test_ikev1_has_messages_that_nobody_answers():
    """1 to 2 and Q1 to Q2 are the responder's turns, 2 to 3 to Q1 and Q2 to Q3 the initiator's."""
    turns = (20, 2, 1, 30, 3)
    row = only(analyse(ikev1_trace(ikev1.aggressive_mode, ikev1.quick_mode, turns, ttl=(64, 60))))
    assert row["setup_ns"] == 56 * MS
    assert (row["vantage"], row["path_rtt_ns"]) == ("initiator", 20 * MS)
    assert parts(row) == [40, 6, 10, None, 0]


def test_ikev1_from_the_responders_side():
    # gaps with the path in them: 2 to 3 and Q2 to Q3, not 3 to Q1
    turns = (5, 20, 1, 6, 30)
    row = only(analyse(ikev1_trace(ikev1.aggressive_mode, ikev1.quick_mode, turns, ttl=(60, 64))))
    assert row["path_rtt_ns"] == 20 * MS
    assert parts(row) == [40, 10 + 1, 11, None, 0]


def test_ikev1_responders_have_a_retransmission_timer():
    """Aggressive mode with XAuth: message 3 is lost, and the responder repeats message 2 after 468.8 ms."""
    rng = Random(1)
    first, second, third = ikev1.aggressive_mode(rng)
    cookies = second[:8], second[8:16]
    xauth = [ikev1.encrypted(*cookies, TRANSACTION, ikev1.HASH, rng.randbytes(80), 7) for _ in range(2)]
    quick = ikev1.quick_mode(rng, second[:16])
    rest = ((505, xauth[0]), (525, xauth[1]), (527, quick[0]), (530, quick[1]), (550, quick[2]))
    # lost behind the capture point, and before it
    for sent in (
        ((0, first), (13, second), (33, third), (481.8, second), (501.8, third), *rest),
        ((0, first), (13, second), (481.8, second), (501.8, third), *rest),
    ):
        trace = Trace()
        for time, data in sent:
            by_initiator = data in (first, third, xauth[1], quick[0], quick[2])
            trace.send(round(time * MS), data, from_initiator=by_initiator)
        row = only(analyse(trace))
        assert row["setup_ns"] == 550 * MS
        # 0 to 13, third to XAuth, and the quick mode's response
        assert row["responder_ns"] / MS == pytest.approx(13 + 3.2 + 3)
        assert row["retransmission_wait_ns"] / MS == pytest.approx(468.8)


def test_a_response_without_all_fragments_has_no_round_trip_time():
    handshake = Handshake(1)
    request, response = handshake.init()
    auth, done = handshake.auth(fragments=(1, 2))
    trace = timed((0, request), (20, response), (23, auth), (723, auth))
    for time in (28, 728):
        trace.send(time * MS, done.datagrams[0], sport=4500, dport=4500, from_initiator=False)
    assert analyse(trace).exchanges["rtt_ns"].to_list() == [20 * MS, None]


@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap is not installed")
def test_a_response_without_all_ip_fragments_has_no_round_trip_time(tmp_path):
    """Of a recorded response in three IP fragments, packets 7 to 9 (tshark), the last two are left out."""
    cut = tmp_path / "cut.pcapng"
    subprocess.run(["editcap", str(CAPTURES / "lab" / "ip-fragments.pcapng"), str(cut), "8", "9"], check=True)
    rtts = read_captures([cut, CAPTURES / "psk-classic.pcap", cut]).exchanges.filter(pl.col("type") == "IKE_AUTH")
    assert rtts["rtt_ns"].is_null().to_list() == [True, False, True]


def test_a_response_before_its_request():
    """Clocks of two interfaces that disagree: nothing becomes negative."""
    request, response, auth, done = Handshake(1).setup()
    row = only(analyse(timed((1, request), (0, response), (22, auth), (42, done)), vantage="initiator"))
    assert row["setup_ns"] == 41 * MS
    assert parts(row) == [20, 21, 0, None, 0]


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 5000), min_size=4, max_size=12),
    st.sampled_from((None, "initiator", "responder")),
    st.one_of(st.none(), st.floats(0, 9)),
    st.integers(0, 3),
)
def test_parts_add_up_whatever_the_order(times, vantage, rtt_ms, seed):
    messages = Handshake(seed).setup(auth=(1, 2))
    trace = Trace()
    for place, time in enumerate(times):
        trace.message(time * 1000, messages[place % len(messages)])
    analyse(trace, vantage=vantage, rtt_ms=rtt_ms)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3000), min_size=9, max_size=20), st.sampled_from((None, "initiator", "responder")))
def test_parts_of_ikev1_add_up_whatever_the_order(times, vantage):
    rng = Random(1)
    first = ikev1.main_mode(rng)
    sent = [*enumerate(first), *enumerate(ikev1.quick_mode(rng, first[1][:16]))]
    trace = Trace()
    for place, time in enumerate(times):
        number, data = sent[place % len(sent)]
        trace.send(time * 1000, data, from_initiator=number % 2 == 0)
    analyse(trace, vantage=vantage)
