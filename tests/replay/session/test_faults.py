import math
from dataclasses import replace

import pytest

from ikeanalyze.replay.session.faults import (
    MAX_QUEUED,
    DatagramInfo,
    Fault,
    FaultError,
    FaultInjector,
    FaultKind,
    parse_fault,
)

INIT = DatagramInfo(True, 34, 0, False, None, None)
SECOND = DatagramInfo(True, 43, 1, False, 2, 3)
MS = 1_000_000


def through(faults, items, *, ours=True, until=10**12):
    """Items (name, about, time in ms) to kind came out, in order."""
    out = []
    for name, about, at in items:
        out += faults.pop_due(ours=ours, now_ns=at * MS)
        faults.add_datagram(name, about, at * MS)
    return out + faults.pop_due(ours=ours, now_ns=until)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.2", {"probability": 0.2}),
        (".5", {"probability": 0.5}),
        ("1", {"probability": 1.0}),
        ("any", {}),
        ("IKE_AUTH", {"exchange_type": 35}),
        ("IKE_INTERMEDIATE:2/3", {"exchange_type": 43, "fragment": 2, "fragments": 3}),
        (
            "IKE_INTERMEDIATE:id2:response:x3",
            {"exchange_type": 43, "message_id": 2, "response": True, "times": 3},
        ),
        ("request:0.1", {"response": False, "probability": 0.1}),
        ("any:x*", {"times": 1 << 30}),
    ],
)
def test_a_rule_selects_messages_by_exchange_direction_and_chance(text, expected):
    assert parse_fault(FaultKind.DROP, text) == Fault(FaultKind.DROP, text, **expected)


def test_a_delay_has_a_time():
    assert parse_fault(FaultKind.DELAY, "IKE_AUTH:250ms").delay_ns == 250 * MS
    assert parse_fault(FaultKind.DELAY, "0.5:0.25ms").delay_ns == MS // 4


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("drop", "", "is not allowed"),
        ("drop", "IKE_FOO", "'IKE_FOO' is not allowed"),
        ("drop", "IKE_AUTH:", "'' is not allowed"),
        ("drop", "1.2", "is not allowed"),
        ("drop", "nan", "is not allowed"),
        ("drop", "IKE_AUTH:3/2", "invalid fragment 3/2"),
        ("drop", "IKE_AUTH:0/2", "invalid fragment"),
        ("drop", "0.1:0.2", "the probability is given twice"),
        ("drop", "0.1:x2", "exclude each other"),
        ("drop", "0.1:5ms", "a time is for delays only"),
        ("delay", "0.1", "needs a time"),
        ("delay", "any:70000ms", "is not allowed"),
        ("drop", "IKE_AUTH:IKE_AUTH", "is not allowed"),
    ],
)
def test_malformed_rules_are_rejected(kind, text, said):
    with pytest.raises(FaultError, match=said):
        parse_fault(FaultKind(kind), text)


def test_without_rules_all_passes_at_once():
    items = [(number, INIT, number) for number in range(5)]
    assert through(FaultInjector(), items, until=4 * MS) == [0, 1, 2, 3, 4]


def test_a_named_one_is_dropped_once():
    faults = FaultInjector([parse_fault(FaultKind.DROP, "IKE_INTERMEDIATE:2/3")])
    first = replace(SECOND, fragment=1)
    items = [("a", first, 0), ("b", SECOND, 0), ("a again", first, 5), ("b again", SECOND, 5)]
    assert through(faults, items) == ["a", "a again", "b again"]
    # another message is another one, and so is the response
    assert through(faults, [("c", replace(SECOND, message_id=2), 9)]) == []
    assert through(faults, [("d", replace(SECOND, response=True, ours=False), 9)], ours=False) == []
    assert faults.match_counts == {"drop IKE_INTERMEDIATE:2/3": 3}


def test_a_rule_applies_the_given_number_of_times():
    faults = FaultInjector([parse_fault(FaultKind.DROP, "IKE_SA_INIT:x2")])
    assert through(faults, [(number, INIT, number) for number in range(4)]) == [2, 3]
    always = FaultInjector([parse_fault(FaultKind.DROP, "any:response:x*")])
    answers = [(number, replace(INIT, response=True, ours=False), number) for number in range(9)]
    assert through(always, answers, ours=False) == []
    assert through(always, [("request", INIT, 0)]) == ["request"]


def test_twice_and_late():
    faults = FaultInjector(
        [parse_fault(FaultKind.DUPLICATE, "IKE_SA_INIT"), parse_fault(FaultKind.DELAY, "any:id0:20ms")]
    )
    faults.add_datagram("x", INIT, 0)
    assert faults.next_ns == 20 * MS
    assert faults.pop_due(ours=True, now_ns=20 * MS - 1) == []
    assert faults.pop_due(ours=True, now_ns=20 * MS) == ["x", "x"]
    assert faults.next_ns is None


def test_the_next_datagram_is_unchanged():
    faults = FaultInjector([parse_fault(FaultKind.REORDER, "IKE_SA_INIT")])
    assert through(faults, [("a", INIT, 0), ("b", INIT, 1), ("c", INIT, 2)]) == ["b", "a", "c"]
    faults = FaultInjector([parse_fault(FaultKind.REORDER, "any:x*")])
    assert sorted(through(faults, [(n, INIT, n) for n in range(9)])) == list(range(9))
    # nothing passes: it goes on after a while
    faults = FaultInjector([parse_fault(FaultKind.REORDER, "IKE_SA_INIT")])
    faults.add_datagram("a", INIT, 0)
    assert faults.pop_due(ours=True, now_ns=99 * MS) == []
    assert faults.next_ns == 100 * MS
    assert faults.pop_due(ours=True, now_ns=100 * MS) == ["a"]


def test_rules_apply_to_their_direction():
    faults = FaultInjector([parse_fault(FaultKind.DELAY, "any:5ms")])
    faults.add_datagram("ours", INIT, 0)
    faults.add_datagram("theirs", replace(INIT, ours=False, response=True), 0)
    assert faults.pop_due(ours=False, now_ns=MS * 5) == ["theirs"]
    assert faults.pop_due(ours=True, now_ns=MS * 5) == ["ours"]


def test_chance_is_within_binomial_limits_and_can_be_had_again():
    count, share = 20_000, 0.2

    def passed(seed):
        faults = FaultInjector([parse_fault(FaultKind.DROP, str(share))], seed)
        for number in range(count):
            faults.add_datagram(number, INIT, 0)
        return faults.overflowed, faults.match_counts.total(), faults.pop_due(ours=True, now_ns=0)

    overflowed, dropped, out = passed(1)
    assert abs(dropped - count * share) < 5 * math.sqrt(count * share * (1 - share))
    assert overflowed + dropped + len(out) == count
    assert len(out) == MAX_QUEUED
    assert passed(1) == (overflowed, dropped, out)
    assert passed(2)[1:] != (dropped, out)
