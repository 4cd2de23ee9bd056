"""Losses by hand, and beside what daemons logged as received."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from time import process_time

import polars as pl
import pytest

from ikeanalyze.analysis.exchanges.losses import LossEvidence, infer_losses
from ikeanalyze.analysis.read import read_captures
from tests.paths import LAB_CAPTURES

LAB = LAB_CAPTURES
MS = 1_000_000
LONG_AFTER = 60_000 * MS


def lost(messages, *, one_sided=False, until_ns=LONG_AFTER):
    return infer_losses(messages, one_sided=one_sided, until_ns=until_ns)


def sent(*signs, protocol="IKEv2"):
    """Messages with ids from 1: `(ms, "request" or "response")`, with the exchange behind it if it is not the first."""
    rows = []
    for number, (at, kind, *exchange) in enumerate(signs, 1):
        where = exchange[0] if exchange else 1
        rows.append(
            {
                "message": number,
                "exchange": where,
                "protocol": protocol,
                "message_id": where,
                "sender": "initiator" if kind == "request" else "responder",
                "kind": kind,
                "first_ns": at * MS,
                "last_ns": at * MS,
            }
        )
    return rows


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        (sent((0, "request"), (1, "response")), {}),
        (sent((0, "request"), (500, "request"), (501, "response")), {1: LossEvidence.UNANSWERED}),
        (sent((0, "request"), (1, "response"), (500, "request"), (501, "response")), {2: LossEvidence.IN_VAIN}),
        # both transmissions of a request that was slow on its way are answered
        (sent((0, "request"), (500, "request"), (600, "response"), (1100, "response")), {}),
        (sent((0, "request"), (500, "request")), {1: LossEvidence.UNANSWERED, 2: LossEvidence.UNANSWERED}),
        (
            # at the responder's end of 600 ms: the repetition was under way when the response was
            sent((0, "request"), (1, "response"), (500, "request"), (501, "response"), (1101, "request", 2),
                 (1102, "response", 2)),
            {},
        ),
        (
            # the quickest reaction takes 600 ms, the repetition came after 700
            sent((0, "request"), (1, "response"), (701, "request"), (702, "response"), (1302, "request", 2),
                 (1303, "response", 2)),
            {2: LossEvidence.IN_VAIN},
        ),
    ],
)  # fmt: skip
def test_losses_counted_by_hand(messages, expected):
    assert lost(messages) == expected


def test_the_end_of_an_aggressive_mode_needs_no_response():
    assert lost(sent((0, "request"), protocol="IKEv1")) == {}
    assert len(lost(sent((0, "request"), (500, "request"), protocol="IKEv1"))) == 2
    assert lost(sent((0, "request"), protocol="RADIUS")) == {1: LossEvidence.UNANSWERED}


@pytest.mark.parametrize("protocol", ["IKEv2", "RADIUS"])
def test_where_the_capture_ends_nothing_can_be_said(protocol):
    """strongSwan repeats a request after 4 s: RFC 7296 has no number."""
    once, twice = (
        sent((0, "request"), protocol=protocol),
        sent((0, "request"), (1000, "request"), protocol=protocol),
    )
    assert lost(once, until_ns=0) == lost(once, until_ns=4000 * MS) == lost(once, until_ns=None) == {}
    assert lost(once, until_ns=4001 * MS) == {1: LossEvidence.UNANSWERED}
    assert lost(twice, until_ns=1000 * MS) == {1: LossEvidence.UNANSWERED}
    assert set(lost(twice, until_ns=5001 * MS)) == {1, 2}


def test_a_hole_in_the_capture_is_no_loss():
    """Whoever sends the next request has the response, also to one that was repeated."""
    two = sent((0, "request"), (500, "request"), (900, "request", 2), (901, "response", 2))
    assert lost(two) == {}
    of_the_other_side = [*two[:2], {**two[2], "sender": "responder"}]
    assert set(lost(of_the_other_side)) == {1, 2, 3}


def test_quick_modes_do_not_wait_for_each_other():
    """RFC 2409, section 5.5: several may be under way at once, each with a message ID of its own."""
    messages = sent((0, "request"), (500, "request"), (600, "request", 2), (601, "response", 2), protocol="IKEv1")
    assert set(lost(messages)) == {1, 2}
    assert lost([{**message, "message_id": 0} for message in messages]) == {}


def test_of_one_side_alone_nothing_can_be_said():
    assert lost(sent((0, "request"), (500, "request")), one_sided=True) == {}


def test_what_an_aaa_server_was_asked_for_has_arrived():
    """The first of three transmissions may be lost; the second caused the RADIUS request, the third came later."""
    ike = sent((0, "request"), (300, "request"), (700, "request"), (900, "response"))
    radius = sent((302, "request"), (890, "response"), protocol="RADIUS")
    together = ike + [item | {"message": item["message"] + 10, "sender": "responder"} for item in radius]
    assert lost(together) == {1: LossEvidence.UNANSWERED}


def test_messages_without_exchange_are_left_alone():
    assert lost([{**sent((0, "request"))[0], "exchange": None}]) == {}


def received(log: Path) -> list[float]:
    """When a daemon received a packet, s."""
    with gzip.open(log, "rt", errors="replace") as lines:
        return [
            float(item[1]) for item in (re.match(r"(\d+\.\d{3}) .* received packet: ", line) for line in lines) if item
        ]


def test_what_looks_lost_was_not_received():
    """The lab's logs have a line for each packet that got through; its captures have those that did not as well."""
    names = [path.name.removesuffix(".pcapng") for path in LAB.glob("loss*.pcapng")]
    counter = Counter(arrived for name in names for arrived in looked_lost(name))
    assert counter[True] == 0
    assert counter[False] >= 20


def looked_lost(name: str) -> Iterator[bool]:
    """For each transmission that looks lost, whether all of its packets were received."""
    logs = {
        "initiator": received(LAB / f"{name}.responder.log.gz"),
        "responder": received(LAB / f"{name}.initiator.log.gz"),
    }
    capture = read_captures(LAB / f"{name}.pcapng")
    messages = capture.messages.to_dicts()
    for handshake in {message["handshake"] for message in messages}:
        some = [message for message in messages if message["handshake"] == handshake]
        result = infer_losses(some, one_sided=False, until_ns=capture.captures[0].last_ns)
        for message in some:
            if message["message"] in result:
                sent_at = message["first_ns"] / 1e9
                packets = sum(-0.001 <= at - sent_at < 0.02 for at in logs[message["sender"]])
                yield packets >= message["frames"]


def test_a_handshake_of_which_the_logs_tell_all():
    """charon sent this IKE_SA_INIT request five times and answered three of them: two were lost, and two responses."""
    messages = read_captures(LAB.parent / "loss20-classic.pcap").messages.filter(pl.col("handshake") == 2, "set_up")
    result = lost(messages.to_dicts())
    assert sorted(result.values()) == [LossEvidence.IN_VAIN] * 2 + [LossEvidence.UNANSWERED] * 2


def seconds_for_repeated_requests(count: int) -> float:
    """Processor time for a request that was sent so many times before the responder asked its AAA server."""
    requests = sent(*((10_000 * number, "request") for number in range(count)))
    aaa = {**requests[-1], "message": count + 1, "protocol": "RADIUS", "first_ns": requests[-1]["first_ns"] + MS}
    begin = process_time()
    assert len(lost([*requests, aaa], until_ns=aaa["first_ns"])) == count - 1  # all but the one that was received
    return process_time() - begin


def test_the_time_for_repeated_requests_is_proportional_to_their_number():
    few, many = seconds_for_repeated_requests(500), seconds_for_repeated_requests(4000)
    assert many < 24 * few  # 8 times as many; quadratic: 64 times the time
