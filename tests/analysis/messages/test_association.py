"""Which IKE SA a message belongs to: SPIs that collide, are used again, move, or are only half seen."""

from dataclasses import replace
from random import Random

import numpy as np
import polars as pl
import pytest

from ikeanalyze.analysis.messages.association import SaAssociation
from tests.analysis.analyse_captures import Handshake, analyse, only, rows, size, timed
from tests.craft import MS, SECOND, Trace, ike, ikev1
from tests.craft.transport import NON_ESP_MARKER


def twins(rng: int = 1, **second):
    """Two handshakes with the same initiator SPI."""
    one, other = Handshake(Random(rng)), Handshake(Random(rng + 1), **second)
    other.spi_i = one.spi_i
    return one, other


def interleave(*conversations, step=5):
    """Messages of several conversations, in turns."""
    longest = max(map(len, conversations))
    ordered = [
        conversation[place] for place in range(longest) for conversation in conversations if place < len(conversation)
    ]
    return timed(*((place * step, message) for place, message in enumerate(ordered)))


@pytest.mark.parametrize(
    "second",
    [
        {"initiator": "192.0.2.3"},
        {"initiator": "192.0.2.3", "responder": "192.0.2.4"},
    ],
)
def test_two_initiators_chose_the_same_spi(second):
    one, other = twins(**second)
    first, last = one.setup(), other.setup(auth=(3, 2))
    analysis = analyse(interleave(first, last))
    assert rows(analysis.handshakes, "spi_i", "outcome", "initiator_address", "responder_address") == [
        (one.spi_i.hex(), "completed", one.initiator, one.responder),
        (one.spi_i.hex(), "completed", other.initiator, other.responder),
    ]
    assert analysis.handshakes["spi_r"].to_list() == [one.spi_r.hex(), other.spi_r.hex()]
    sent = analysis.handshakes["initiator_bytes"] + analysis.handshakes["responder_bytes"]
    assert sent.to_list() == [size(*first), size(*last)]


def test_two_initiators_behind_one_nat_chose_the_same_spi():
    handshake = Handshake(1, nat=True, nat_ports=(30001, 30002))
    other = Handshake(2, nat=True, nat_ports=(40001, 40002))
    other.spi_i = handshake.spi_i
    analysis = analyse(interleave(handshake.setup(), other.setup()))
    assert rows(analysis.handshakes, "initiator_port", "outcome", "initiator_messages", "nat") == [
        (30001, "completed", 2, "initiator"),
        (40001, "completed", 2, "initiator"),
    ]


def test_two_initiators_behind_one_nat_of_which_one_is_told_to_try_again():
    handshake = Handshake(1, nat=True, nat_ports=(30001, 30002))
    other = Handshake(2, nat=True, nat_ports=(40001, 40002))
    other.spi_i = handshake.spi_i
    analysis = analyse(interleave(handshake.setup(before="both"), other.setup(before="COOKIE")))
    assert analysis.handshakes["extra_round_trips"].to_list() == [
        ["COOKIE", "INVALID_KE_PAYLOAD"],
        ["COOKIE"],
    ]
    assert analysis.handshakes["retransmitted_messages"].to_list() == [0, 0]


def test_the_same_spi_from_the_initiators_side_alone():
    """Without the responses, the protected messages go to the requests in order."""
    handshake = Handshake(1, nat=True, nat_ports=(30001, 30002))
    other = Handshake(2, nat=True, nat_ports=(40001, 40002))
    other.spi_i = handshake.spi_i
    first, last = handshake.setup(), other.setup()
    analysis = analyse(interleave(first[::2], last[::2]))
    assert rows(analysis.handshakes, "initiator_messages", "responder_messages", "one_sided") == [
        (2, 0, "initiator"),
        (2, 0, "initiator"),
    ]
    assert analysis.handshakes["spi_r"].to_list() == [handshake.spi_r.hex(), other.spi_r.hex()]
    assert analysis.handshakes["initiator_bytes"].to_list() == [size(*first[::2]), size(*last[::2])]


def test_an_spi_that_is_used_again_is_another_handshake():
    first, second = twins()
    trace = Trace()
    trace.play(first.setup())
    trace.play(second.setup(), at=60 * SECOND)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "spi_r", "outcome", "initiator_messages", "retransmitted_messages") == [
        (first.spi_r.hex(), "completed", 2, 0),
        (second.spi_r.hex(), "completed", 2, 0),
    ]


def test_an_spi_that_is_used_again_after_no_answer():
    first, second = twins()
    trace = Trace()
    packets = trace.message(0, first.setup()[0])
    trace.repeat(packets, SECOND)
    trace.play(second.setup(), at=60 * SECOND)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "outcome", "initiator_messages") == [("unanswered", 2), ("completed", 2)]


def test_two_handshakes_at_once_between_the_same_hosts():
    one, other = Handshake(1), Handshake(2)
    first = one.setup(intermediate=[(3, 2)], auth=(2, 3))
    last = other.setup(intermediate=[(2, 2)], auth=(3, 3))
    trace = Trace()
    # fragments 200 us apart, the other handshake's between them
    for place, (a, b) in enumerate(zip(first, last, strict=True)):
        trace.message(place * 10 * MS, a, gap=200_000)
        trace.message(place * 10 * MS + 100_000, b, gap=200_000)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "outcome", "retransmitted_messages", "blowup") == [("completed", 0, 1.0)] * 2
    sent = analysis.handshakes["initiator_bytes"] + analysis.handshakes["responder_bytes"]
    assert sent.to_list() == [size(*first), size(*last)]
    assert analysis.handshakes["ike_fragments"].to_list() == [3 + 2 + 2 + 3, 2 + 2 + 3 + 3]


MESSAGES = Handshake(3).setup(before="COOKIE", intermediate=[(2, 1)], auth=(2, 2))


@pytest.mark.parametrize("cut", range(1, len(MESSAGES)))
def test_the_beginning_is_missing(cut):
    trace = Trace()
    trace.play(MESSAGES[cut:])
    row = only(analyse(trace))
    rest = MESSAGES[cut:]
    assert row["initiator_messages"] == sum(message.from_initiator for message in rest)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(*rest)
    # with the first request gone, the retry after a COOKIE looks like a first request
    assert row["outcome"] == ("completed" if cut == 2 else "cut")
    assert row["initiator_address"] == "192.0.2.1"
    assert (row["setup_ns"] is None) == (cut != 2)
    if cut > 4:
        assert row["encryption"] is None
        assert row["nat"] is None


@pytest.mark.parametrize("kept", range(1, len(MESSAGES)))
def test_the_end_is_missing(kept):
    trace = Trace()
    trace.play(MESSAGES[:kept])
    row = only(analyse(trace))
    assert row["outcome"] == "cut"
    assert row["setup_ns"] is None
    assert row["initiator_bytes"] + row["responder_bytes"] == size(*MESSAGES[:kept])
    assert row["retransmitted_messages"] == 0


@pytest.mark.parametrize(
    ("snaplen", "asked"),
    [
        (100, ["COOKIE"]),  # 22 of 24 bytes of the cookie
        (78, ["COOKIE"]),  # none: the headers of Ethernet, IPv4 and UDP have 42 bytes, of IKE 28, of the notify 8
        (77, []),  # and half of the type
        (74, []),  # the headers of IKE_AUTH, which follow a non-ESP marker of 4 bytes
    ],
)
def test_a_lost_acceptance_after_a_cookie_in_truncated_packets(snaplen, asked):
    messages = Handshake(3).setup(before="COOKIE")
    missing = 3  # the response that accepts the request with the cookie
    trace = Trace()
    trace.play(message for place, message in enumerate(messages) if place != missing)
    row = only(analyse(trace.pcap(snaplen=snaplen)))
    assert (row["initiator_messages"], row["responder_messages"]) == (3, 2)
    assert row["extra_round_trips"] == asked


@pytest.mark.parametrize("side", ["initiator", "responder"])
def test_one_side_alone(side):
    trace = Trace()
    trace.play(message for message in MESSAGES if message.from_initiator == (side == "initiator"))
    row = only(analyse(trace))
    assert (row["one_sided"], row["outcome"]) == (side, "cut")
    other = "responder" if side == "initiator" else "initiator"
    assert (row[f"{side}_messages"], row[f"{other}_messages"]) == (4, 0)
    assert row["retransmitted_messages"] == 0
    assert (row["initiator_address"], row["responder_address"]) == ("192.0.2.1", "192.0.2.2")


def test_an_unanswered_request_is_not_one_sided():
    row = only(analyse(timed((0, MESSAGES[0]), (1000, MESSAGES[0]))))
    assert row["one_sided"] is None
    assert row["spi_r"] == "0" * 16


def test_a_nat_gives_other_ports_during_the_handshake():
    handshake = Handshake(4, nat=True, nat_ports=(30001, 30002))
    start = handshake.init()
    auth = handshake.auth()
    handshake.nat_ports = (30001, 50000)  # the mapping was lost
    more = handshake.informational()
    handshake.initiator = "203.0.113.9"  # and MOBIKE moved it
    moved = handshake.informational()
    trace = Trace()
    trace.play([*start, *auth, *more, *moved])
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["outcome"], row["initiator_messages"], row["after_setup_initiator_messages"]) == (
        "completed",
        2,
        2,
    )
    assert (row["initiator_address"], row["initiator_port"]) == ("192.0.2.1", 30001)
    assert set(analysis.messages.filter(pl.col("kind") == "request")["sender"]) == {"initiator"}


def test_a_rebinding_between_two_transmissions_of_ike_sa_init():
    first = Handshake(5, nat=True, nat_ports=(30001, 30002))
    moved = Handshake(5, nat=True, nat_ports=(30009, 30002))
    request = first.init()[0]
    _, response = moved.init()
    trace = timed((0, request), (1000, replace(request, sport=30009)), (1010, response))
    trace.play(first.auth(), at=1020 * MS)
    row = only(analyse(trace))
    assert (row["initiator_messages"], row["retransmitted_messages"], row["outcome"]) == (3, 1, "completed")


def test_a_rekeyed_ike_sa_is_not_a_handshake():
    """Its first exchange has message ID 0, and there was no IKE_SA_INIT."""
    old = Handshake(6)
    new = Handshake(7)
    new.moved = True
    trace = Trace()
    end = trace.play([*old.setup(), *old.create_child_sa()])
    end = trace.play([*new.informational(), *new.informational()], at=end)
    trace.play(old.informational(), at=end)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "outcome", "reason", "initiator_messages", "after_setup_initiator_messages") == [
        ("completed", None, 2, 2),
        (None, "REKEYED", 0, 2),
    ]
    assert analysis.handshakes["rekeyed"].to_list() == [False, True]
    rekeyed = analysis.handshakes.row(1, named=True)
    assert rekeyed["phases"] == []
    assert rekeyed["blowup"] is None
    assert rekeyed["setup_ns"] is None


def test_a_beginning_that_is_missing_is_not_a_rekeyed_ike_sa():
    handshake = Handshake(6)
    handshake.setup()
    trace = Trace()
    # the responder counts from 0 in every IKE SA
    trace.play([*handshake.informational(by_initiator=False), *handshake.informational()])
    row = only(analyse(trace))
    assert (row["rekeyed"], row["outcome"], row["reason"]) == (False, "cut", None)


def test_the_responders_first_request_has_message_id_0():
    handshake = Handshake(8)
    trace = Trace()
    trace.play([*handshake.setup(), *handshake.informational(by_initiator=False)])
    analysis = analyse(trace)
    row = only(analysis)
    assert row["retransmitted_messages"] == 0
    assert rows(analysis.exchanges, "type", "message_id", "attempt", "initiated_by", "set_up") == [
        ("IKE_SA_INIT", 0, 1, "initiator", True),
        ("IKE_AUTH", 1, 1, "initiator", True),
        ("INFORMATIONAL", 0, 1, "responder", False),
    ]
    last = analysis.messages.tail(2)
    assert rows(last, "sender", "kind") == [("responder", "request"), ("initiator", "response")]


def test_ikev1_and_ikev2_with_the_same_spi():
    handshake = Handshake(9)
    old = ikev1.main_mode(Random(1))
    messages = handshake.setup()
    trace = Trace()
    trace.play(messages)
    for place, data in enumerate(old):
        data = handshake.spi_i + data[8:]
        trace.send(SECOND + place * 10 * MS, data, from_initiator=place % 2 == 0)
    analysis = analyse(trace)
    assert rows(analysis.handshakes, "protocol", "outcome", "initiator_messages") == [
        ("IKEv2", "completed", 2),
        ("IKEv1", "completed", 3),
    ]


def test_handshakes_are_numbered_in_order_of_time():
    trace = Trace()
    for number in range(5):
        handshake = Handshake(20 + number, initiator=f"192.0.2.{10 + number}")
        trace.play(handshake.setup(), at=(5 - number) * SECOND)
    analysis = analyse(trace)
    assert analysis.handshakes["initiator_address"].to_list() == [
        f"192.0.2.{number}" for number in (14, 13, 12, 11, 10)
    ]
    assert analysis.handshakes["start_ns"].is_sorted()


def test_an_unknown_exchange_type_and_a_large_message_id():
    handshake = Handshake(10)
    trace = Trace()
    end = trace.play(handshake.setup())
    strange = handshake.encrypted(250, 40, message_id=0xFFFF_FFFF)
    trace.message(end, strange)
    analysis = analyse(trace)
    row = only(analysis)
    assert row["after_setup_initiator_messages"] == 1
    assert analysis.messages["message_id"].to_list()[-1] == 0xFFFF_FFFF
    assert analysis.messages["type"].to_list()[-1] == "250"


def test_a_marker_is_no_part_of_the_message():
    data = Handshake(1).setup()[2].datagrams[0]
    assert data.startswith(NON_ESP_MARKER)
    trace = Trace()
    trace.play(Handshake(1).setup())
    frame = analyse(trace).frames.row(2, named=True)
    assert frame["ike_bytes"] == len(data) - 4
    assert frame["encapsulation"] == "UDP 4500"
    assert frame["exchange_type"] == ike.IKE_AUTH


def test_first_rows_of_handshakes():
    sides = np.zeros(6, np.bool_)
    assert SaAssociation(np.array([0, 0, 1, 0, 2, 1], np.int32), sides, 3).find_first_rows().tolist() == [0, 2, 4]
    # numbered in another order
    assert SaAssociation(np.array([1, 0, 2, 0, 1, 2], np.int32), sides, 3).find_first_rows().tolist() == [1, 0, 2]
    assert SaAssociation(np.zeros(0, np.int32), sides[:0], 0).find_first_rows().tolist() == []
