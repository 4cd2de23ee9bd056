"""Captures of routers, NATs, loss and IKEv1 against what the daemons' logs say that they sent."""

import json
from collections import Counter

import polars as pl
import pytest

import ikeanalyze
from tests.paths import CAPTURES

#: All that both daemons sent is in these captures: nothing was lost before the place where they were taken.
WHOLE = (
    "pq-loss15",
    "ikev1-xauth",
    "ikev1-fragments-loss15",
    "router-any-slow",
    "nat-any",
    "mobike",
)


def logged(name: str) -> dict[str, list[list]]:
    return json.loads((CAPTURES / f"{name}.truth.json").read_text())


def read(name: str) -> "ikeanalyze.Analysis":
    return ikeanalyze.read(CAPTURES / f"{name}.pcap")


def datagrams(analysis: "ikeanalyze.Analysis", sender: str) -> int:
    """Datagrams that the IKE messages of one side were sent in."""
    sent = analysis.messages.filter(pl.col("sender") == sender, pl.col("protocol") != "RADIUS")
    return int(sent["fragments_seen"].fill_null(1).cast(pl.Int64).sum())


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize(("side", "sender"), [("ini", "initiator"), ("res", "responder")])
def test_every_datagram_that_was_sent_is_counted_once(name, side, sender):
    sends = [event for event in logged(name)[side] if event[0] == "send"]
    assert datagrams(read(name), sender) == len(sends)


@pytest.mark.parametrize("name", ["pq-loss15", "router-any-slow"])
def test_retransmitted_requests_are_those_of_the_log(name):
    expected = Counter(event[2] for event in logged(name)["ini"] if event[0] == "rtx")
    again = read(name).messages.filter(pl.col("sender") == "initiator", pl.col("transmission") > 1)
    assert Counter(again["message_id"].to_list()) == expected


def test_a_router_that_holds_frames_back_retransmits_nothing():
    # the log of the daemons: one retransmitted request, one retransmitted response
    row = read("router-any-slow").handshakes.row(0, named=True)
    assert row["retransmitted_messages"] == 2
    assert row["capture_duplicates"] > 0


def test_a_nat_seen_on_both_sides_is_one_handshake():
    analysis = read("nat-any")
    assert len(analysis.handshakes) == 1
    row = analysis.handshakes.row(0, named=True)
    assert (row["initiator_address"], row["initiator_port"], row["nat"]) == ("10.1.0.2", 500, "initiator")
    assert (row["outcome"], row["blowup"]) == ("completed", 1.0)


def test_ip_fragments_that_were_lost_are_needed_all_the_same():
    analysis = read("ip-fragments-loss10")
    # one transmission of each message of this set-up needs as much as the handshake that lost nothing
    whole = analysis.handshakes.row(0, named=True)
    needed = whole["initiator_bytes"] + whole["responder_bytes"]
    assert (whole["retransmitted_messages"], whole["blowup"]) == (0, 1.0)
    second = analysis.handshakes.row(1, named=True)
    sent = second["initiator_bytes"] + second["responder_bytes"]
    assert second["blowup"] == pytest.approx(sent / needed, rel=0.01)


def test_recorded_xauth_is_a_phase_and_an_authentication_method():
    row = read("ikev1-xauth").handshakes.row(0, named=True)
    phases = {phase["type"]: phase["messages"] for phase in row["phases"]}
    assert phases == {"Main Mode": 6, "Transaction": 4, "Quick Mode": 3}
    assert (row["auth_initiator"], row["auth_responder"]) == ("psk+xauth", "psk")
    assert row["outcome"] == "completed"


def test_an_address_that_changes_does_not_split_a_handshake():
    analysis = read("mobike")
    assert len(analysis.handshakes) == 1
    sources = analysis.frames["source"].cast(pl.String).unique().to_list()
    assert {"10.1.0.2", "10.1.0.3"} <= set(sources)


def test_a_round_trip_time_that_cannot_be_used_is_said():
    path = CAPTURES / "psk-classic.pcap"
    assert not ikeanalyze.read(path).warnings
    assert "not used" in ikeanalyze.read(path, rtt_ms=1.0).warnings[0].message
    known = ikeanalyze.read(path, rtt_ms=1.0, vantage="responder")
    assert not known.warnings
    assert known.handshakes["path_rtt_ns"].to_list() == [1_000_000]
