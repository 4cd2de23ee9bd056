"""A recording with losses on the link to the AAA server, against the times in the responder's log."""

import gzip
import re
from collections import defaultdict

import pytest

from ikeanalyze.analysis.read import read_captures
from tests.paths import CAPTURES

NAME = "lab/eap-aaa-loss"
SENT = re.compile(
    r"^(\d+\.\d+) .*<lab\|(\d+)> (sending RADIUS Access-Request|retransmit \d+ of RADIUS|received RADIUS Access-)"
)


def logged() -> dict[int, tuple[float, float, int]]:
    """By charon's handshake number: response times in ms, waits before repetitions in ms, number of repetitions."""
    began: dict[int, float] = {}
    latest: dict[int, float] = {}
    sums: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0])
    with gzip.open(CAPTURES / f"{NAME}.responder.log.gz", "rt") as log:
        for line in log:
            if not (result := SENT.match(line)):
                continue
            when, number, what = float(result[1]) * 1e3, int(result[2]), result[3]
            if what.startswith("received"):
                sums[number][0] += when - latest[number]
                sums[number][1] += latest[number] - began[number]
            else:
                began[number] = when if what.startswith("sending") else began[number]
                sums[number][2] += not what.startswith("sending")
                latest[number] = when
    return {number: (value[0], value[1], int(value[2])) for number, value in sums.items()}


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_waits_are_not_the_servers_work(number):
    captures = read_captures(CAPTURES / f"{NAME}.pcapng")
    row = captures.handshakes.row(number - 1, named=True)
    answers, waits, again = logged()[number]
    # the log has whole milliseconds, and three requests
    assert row["aaa_ns"] / 1e6 == pytest.approx(answers, abs=6)
    assert row["retransmission_wait_ns"] / 1e6 == pytest.approx(waits, abs=6)
    assert row["responder_ns"] / 1e6 < 50
    requests = captures.messages.filter(handshake=number, kind="request", protocol="RADIUS")
    assert requests.filter(requests["transmission"] > 1).height == again
    assert row["aaa_retransmitted_messages"] >= again  # with the server's answers to them
