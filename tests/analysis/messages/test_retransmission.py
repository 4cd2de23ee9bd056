"""What is a transmission, a retransmission and another message, by rules and by columns."""

from random import Random
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.analysis.messages.retransmission import (
    DatagramTransmission,
    SlotDatagram,
    classify_slot,
    classify_transmissions,
)
from tests.analysis.analyse_captures import Handshake, analyse, only, rows, size, sizes
from tests.craft import MS, SECOND, Trace, ike


def sent(text: str) -> list[SlotDatagram]:
    """Datagrams of one slot, 20 us apart: "1/3" fragment 1 of 3, "a" a whole message; "|" is a second's pause.

    The bytes of a fragment are told by number and total; a letter behind them makes them others.
    """
    datagrams, time = [], 0
    for word in text.split():
        if word == "|":
            time += SECOND
            continue
        number, _, rest = word.partition("/")
        fragmented = bool(rest)
        total = int("".join(c for c in rest if c.isdigit())) if fragmented else 0
        datagrams.append(SlotDatagram(time, int(number) if fragmented else 0, total, hash(word) & 0xFFFF_FFFF))
        time += 20_000
    return datagrams


def transmissions(text: str) -> list[tuple[int, int]]:
    return [(turn.body, turn.transmission) for turn in classify_slot(sent(text))]


def needed(text: str) -> list[int]:
    """Places of the first copies."""
    return [place for place, turn in enumerate(classify_slot(sent(text))) if turn.first_copy]


@pytest.mark.parametrize(
    ("datagrams", "found", "first"),
    [
        ("a", [1], [0]),
        ("a a", [1, 2], [0]),
        ("a | a | a", [1, 2, 3], [0]),
        ("1/2 2/2 | 1/2 2/2", [1, 1, 2, 2], [0, 1]),
        # the second of three is lost, then all come
        ("1/3 3/3 | 1/3 2/3 3/3", [1, 1, 2, 2, 2], [0, 1, 3]),
        # the first is lost: the pause tells where the second transmission begins
        ("2/3 3/3 | 1/3 2/3 3/3", [1, 1, 2, 2, 2], [0, 1, 2]),
        # the last is lost
        ("1/3 2/3 | 1/3 2/3 3/3", [1, 1, 2, 2, 2], [0, 1, 4]),
        # out of order
        ("2/2 1/2 | 2/2 1/2", [1, 1, 2, 2], [0, 1]),
        ("2/2 1/2 | 1/2 2/2", [1, 1, 2, 2], [0, 1]),
        ("1/3 3/3 2/3 | 2/3 3/3 1/3", [1, 1, 1, 2, 2, 2], [0, 1, 2]),
        # complete and in order: the repeated number begins the second, whatever the pauses are
        ("1/3 2/3 | 3/3 1/3", [1, 1, 1, 2], [0, 1, 2]),
        # complete, but not in order: the pause decides
        ("2/3 1/3 | 3/3 1/3", [1, 1, 2, 2], [0, 1, 2]),
        # only one fragment of each gets here
        ("2/3 | 2/3 | 2/3", [1, 2, 3], [0]),
        # a fragment twice, for which the network is to blame: a number repeats
        ("1/2 1/2 2/2", [1, 2, 2], [0, 2]),
        # cut anew: one transmission in either cut is enough
        ("1/2 2/2 | 1/3 2/3 3/3", [1, 1, 2, 2, 2], [0, 1]),
        ("a | 1/2 2/2", [1, 2, 2], [0]),
        ("a | a | 1/2 2/2 | 1/2 2/2", [1, 2, 3, 3, 4, 4], [0]),
        ("a | 1/2 2/2 | 1/4 2/4 3/4 4/4", [1, 2, 2, 3, 3, 3, 3], [0]),
    ],
)
def test_transmissions_of_one_message(datagrams, found, first):
    assert transmissions(datagrams) == [(0, item) for item in found]
    assert needed(datagrams) == first


def test_another_content_is_another_message():
    assert transmissions("a b") == [(0, 1), (1, 1)]
    assert transmissions("a b | a | b") == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert transmissions("1/2 2/2 | 1/2x 2/2x") == [(0, 1), (0, 1), (1, 1), (1, 1)]


def test_ikev1_has_whole_and_fragmented_messages_in_one_slot():
    # main mode: messages 1 and 3 are whole, 5 comes in two fragments, of which only the last tells how many
    datagrams = [
        SlotDatagram(0, 0, 0, 1),
        SlotDatagram(SECOND, 0, 0, 2),
        SlotDatagram(2 * SECOND, 1, 0, 3),
        SlotDatagram(2 * SECOND, 2, 2, 4),
    ]
    again = [SlotDatagram(3 * SECOND, 1, 0, 3), SlotDatagram(3 * SECOND, 2, 2, 4)]
    result = classify_slot(datagrams + again, ikev1=True)
    assert [(turn.body, turn.transmission) for turn in result] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (2, 1),
        (2, 2),
        (2, 2),
    ]
    assert [turn.first_copy for turn in result] == [True] * 4 + [False] * 2


units_of_a_slot = st.lists(
    st.tuples(
        st.integers(0, 3),  # pause
        st.sampled_from(((0, 0), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3), (1, 0), (2, 0))),
        st.integers(0, 2),  # content
    ),
    min_size=1,
    max_size=9,
)


@settings(max_examples=200)
@given(st.lists(st.tuples(units_of_a_slot, st.booleans()), max_size=4))
def test_columns_equal_the_rules(slots):
    expected: list[DatagramTransmission] = []
    columns: list[list[int]] = [[], [], [], [], [], []]
    for slot, (datagrams, ikev1) in enumerate(slots):
        time, listed = 0, []
        for pause, (number, total), content in datagrams:
            time += pause * 1000
            listed.append(SlotDatagram(time, number, total, content * 100 + number * 10 + total))
        expected += classify_slot(listed, ikev1=ikev1)
        for datagram in listed:
            values = (slot * 2, datagram.time_ns, datagram.fragment, datagram.total, datagram.digest, ikev1)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
    slot_, time_, number_, total_ = (np.array(column, np.int64) for column in columns[:4])
    body, transmission, first_copy = classify_transmissions(
        slot_, time_, number_, total_, np.array(columns[4], np.uint64), np.array(columns[5], np.bool_)
    )
    result = [
        DatagramTransmission(*item)
        for item in zip(body.tolist(), transmission.tolist(), first_copy.tolist(), strict=True)
    ]
    assert result == expected


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_columns_equal_the_rules_for_regular_repetition(seed):
    """Whole rounds of fragments, as a loss-free path gives them, with here and there an irregularity."""
    rng = Random(seed)
    expected: list[DatagramTransmission] = []
    columns: list[list[int]] = [[], [], [], [], []]
    for slot in range(rng.randrange(1, 30)):
        total, rounds = rng.randrange(1, 6), rng.randrange(1, 4)
        time, listed = 0, []
        for _ in range(rounds):
            time += rng.choice((10, 1000, 500_000))
            for number in range(1, total + 1):
                if rng.random() < 0.05:
                    continue
                time += rng.choice((10, 10, 10, 800))
                listed.append(SlotDatagram(time, number, total, number + 10 * (rng.random() < 0.05)))
        if listed:
            expected += classify_slot(listed)
        for datagram in listed:
            values = (slot, datagram.time_ns, datagram.fragment, datagram.total, datagram.digest)
            for column, value in zip(columns, values, strict=True):
                column.append(value)
    arrays = [np.array(column, np.int64) for column in columns]
    result = classify_transmissions(*arrays[:4], arrays[4].astype(np.uint64), np.zeros(len(arrays[0]), np.bool_))
    assert [
        DatagramTransmission(*item) for item in zip(*(column.tolist() for column in result), strict=True)
    ] == expected


def test_a_request_sent_four_times_is_three_retransmissions():
    messages = Handshake(1).setup()
    trace = Trace()
    packets = trace.message(0, messages[0])
    for seconds in (1, 3, 7):
        trace.repeat(packets, seconds * SECOND)
    trace.play(messages[1:], at=8 * SECOND)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["initiator_messages"] == 5
    assert row["retransmitted_messages"] == row["retransmitted_frames"] == 3
    assert row["retransmitted_bytes"] == 3 * size(messages[0])
    assert row["blowup"] == (size(*messages) + 3 * size(messages[0])) / size(*messages)
    assert analysis.messages["transmission"].to_list() == [1, 2, 3, 4, 1, 1, 1]


@pytest.mark.parametrize(
    ("first", "second", "first_frames", "second_frames"),
    [
        ((1, 2), (1, 2), 2, 2),
        ((1, 3), (1, 2, 3), 2, 3),
        ((2, 3), (1, 2, 3), 2, 3),
        ((1, 2), (1, 2, 3), 2, 3),
        ((3,), (3,), 1, 1),
    ],
)
def test_fragments_of_one_message_are_one_transmission(first, second, first_frames, second_frames):
    handshake = Handshake(2)
    start = handshake.init()
    request, response = handshake.auth(fragments=(max(*first, *second), 1))
    parts = sizes(request)
    trace = Trace()
    trace.play(start)
    trace.message(1 * SECOND, request, only=first)
    trace.message(3 * SECOND, request, only=second)
    trace.play([response], at=3 * SECOND + 10 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["initiator_messages"] == 3
    assert (row["retransmitted_messages"], row["retransmitted_frames"]) == (1, second_frames)
    assert row["retransmitted_bytes"] == sum(parts[number - 1] for number in second)
    once = size(*start, response) + sum(parts[number - 1] for number in {*first, *second})
    everything = size(*start, response) + sum(parts[number - 1] for number in (*first, *second))
    assert row["blowup"] == everything / once
    auth = analysis.messages.filter((analysis.messages["message_id"] == 1) & (analysis.messages["kind"] == "request"))
    assert rows(auth, "transmission", "frames", "fragments_seen", "fragments") == [
        (1, first_frames, first_frames, len(request.datagrams)),
        (2, second_frames, second_frames, len(request.datagrams)),
    ]
    assert row["ike_messages_fragmented"] == 2
    assert row["ike_fragments"] == first_frames + second_frames


def test_cut_into_more_fragments_is_a_retransmission():
    handshake = Handshake(3)
    start = handshake.init()
    whole = handshake.encrypted(ike.IKE_AUTH, 2000, message_id=1)
    three = handshake.encrypted(ike.IKE_AUTH, 2000, message_id=1, fragments=3)
    five = handshake.encrypted(ike.IKE_AUTH, 2000, message_id=1, fragments=5)
    answer = handshake.encrypted(ike.IKE_AUTH, 100, message_id=1, from_initiator=False, response=True)
    trace = Trace(mtu=9000)
    trace.play(start)
    for seconds, message in enumerate((whole, three, five), 1):
        trace.message(seconds * SECOND, message)
    trace.play([answer], at=4 * SECOND)
    row = only(analyse(trace))
    assert (row["retransmitted_messages"], row["retransmitted_frames"]) == (2, 8)
    assert row["retransmitted_bytes"] == size(three, five)
    assert row["blowup"] == size(*start, whole, three, five, answer) / size(*start, whole, answer)
    assert row["outcome"] == "completed"
    assert row["extra_round_trips"] == []


def test_a_response_sent_again_is_a_retransmission():
    messages = Handshake(4).setup(auth=(1, 3))
    trace = Trace()
    trace.play(messages)
    trace.message(SECOND, messages[-2])
    trace.message(SECOND + 5 * MS, messages[-1])
    row = only(analyse(trace))
    assert (row["initiator_messages"], row["responder_messages"]) == (3, 3)
    assert (row["retransmitted_messages"], row["retransmitted_frames"]) == (2, 4)
    assert row["retransmitted_bytes"] == size(*messages[-2:])


def ip_fragmented(lost_first: int | None, lost_second: int | None):
    """An IKE_AUTH request of three IP fragments, sent twice, of which single fragments are lost."""
    handshake = Handshake(5)
    start = handshake.init()
    request = handshake.encrypted(ike.IKE_AUTH, 4000, message_id=1)
    answer = handshake.encrypted(ike.IKE_AUTH, 100, message_id=1, from_initiator=False, response=True)
    trace = Trace()
    trace.play(start)
    frames = []
    for seconds, lost in ((1, lost_first), (2, lost_second)):
        packets = trace.message(seconds * SECOND, request)
        assert len(packets) == 3
        if lost is not None:
            trace.drop([packets.pop(lost)])
        frames.append(packets)
    trace.play([answer], at=3 * SECOND)
    return trace, frames


@pytest.mark.parametrize(
    ("lost_first", "lost_second"), [(None, None), (1, None), (2, None), (None, 1), (None, 2), (2, 2), (1, 2)]
)
def test_a_lost_ip_fragment_does_not_make_another_message(lost_first, lost_second):
    trace, (first, second) = ip_fragmented(lost_first, lost_second)
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["initiator_messages"], row["retransmitted_messages"]) == (3, 1)
    assert row["retransmitted_frames"] == len(second)
    assert row["retransmitted_bytes"] == sum(len(packet.data) for packet in second)
    assert row["ip_fragments"] == len(first) + len(second)
    if (lost_first, lost_second) != (1, 2):
        # what one transmission needs is what the more complete one has
        one, other = (sum(len(packet.data) for packet in copy) for copy in (first, second))
        rest = row["initiator_bytes"] + row["responder_bytes"] - one - other
        assert row["blowup"] == (rest + one + other) / (rest + max(one, other))
    assert rows(analysis.exchanges, "message_id", "attempt", "request_messages") == [(0, 1, 1), (1, 1, 2)]
    assert row["outcome"] == "completed"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_ip_fragment_of_ike_sa_init(lost):
    handshake = Handshake(6, notifies=[ike.notify(40960, bytes(3000))])
    messages = handshake.setup()
    trace = Trace()
    first = trace.message(0, messages[0])
    assert len(first) == 3
    trace.drop([first[lost]])
    trace.message(SECOND, messages[0])
    trace.play(messages[1:], at=SECOND)
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["initiator_messages"], row["retransmitted_messages"]) == (3, 1)
    assert len(analysis.exchanges) == 2
    assert row["extra_round_trips"] == []


def seconds_for_repeated_fragments(count: int) -> float:
    """Processor time for so many fragments of a message that is never complete, all sent twice.

    Each fragment of the second half repeats one, and the longest pause since then is the earliest.
    """
    datagrams = [
        SlotDatagram(place * (4 * count - place), place % count + 1, count + 1, place % count)
        for place in range(2 * count)
    ]
    begin = process_time()
    assert classify_slot(datagrams)[-1].transmission == count + 1
    return process_time() - begin


def test_the_time_for_repeated_fragments_is_proportional_to_their_number():
    few, many = seconds_for_repeated_fragments(500), seconds_for_repeated_fragments(4000)
    assert many < 24 * few  # 8 times as many; quadratic: 64 times the time
