from dataclasses import replace

import polars as pl

from ikeanalyze.analysis.exchanges.losses import LossEvidence
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.render.ladder.model import MOST, build_ladder
from ikeanalyze.render.report import selection
from tests.paths import CAPTURES
from tests.render.analysis_examples import analysis


def one(number):
    return build_ladder(selection.select_handshake(analysis(), number))


def test_hosts_and_directions():
    result = one(2)  # EAP with RADIUS
    assert [host.role for host in result.hosts] == ["initiator", "responder", "aaa"]
    assert [(rung.source, rung.target) for rung in result.rungs] == [
        (0, 1),
        (1, 0),
        (0, 1),
        (1, 0),
        (0, 1),
        (1, 2),
        (2, 1),
        (1, 0),
        (0, 1),
        (1, 2),
        (2, 1),
        (1, 0),
        (0, 1),
        (1, 0),
    ]


def test_turns_of_a_plain_handshake():
    """Requests and responses in turn: the responder's, then the initiator's; nothing after the set-up."""
    result = one(1)
    assert [(turn.host, turn.first, turn.last) for turn in result.turns] == [
        (1, 0, 1),
        (0, 1, 2),
        (1, 2, 3),
        (0, 3, 4),
        (1, 4, 5),
    ]
    assert not any(turn.waiting for turn in result.turns)


def test_turns_of_the_aaa_server():
    """Two RADIUS requests and their responses, as tshark lists them in frames 6, 7, 10 and 11."""
    ladder = build_ladder(selection.select_handshake(read_captures(CAPTURES / "eap-md5-radius.pcapng"), 1))
    assert [(turn.first, turn.last) for turn in ladder.turns if turn.host == 2] == [(5, 6), (9, 10)]


def test_retransmissions_of_a_lossy_handshake_are_shown():
    """charon sent its first request five times, and answered three of them."""
    ladder = build_ladder(selection.select_handshake(read_captures(CAPTURES / "loss20-classic.pcap"), 2))
    set_up = [rung for rung in ladder.rungs if rung.set_up]
    in_vain, unanswered, none = LossEvidence.IN_VAIN, LossEvidence.UNANSWERED, None
    assert [rung.loss for rung in set_up] == [
        none,
        in_vain,
        none,
        in_vain,
        unanswered,
        unanswered,
        none,
        none,
        none,
        none,
    ]
    assert [rung.again for rung in set_up] == [False, False, *[True] * 6, False, False]
    waiting = [turn for turn in ladder.turns if turn.waiting]
    assert [(turn.host, turn.first, turn.last) for turn in waiting] == [(0, 0, 6)]


def test_what_the_capture_does_not_have_was_not_lost(tmp_path):
    """IKE_AUTH was answered in psk-classic.pcap: not in its first three packets, and not in those of one side alone."""
    whole = (CAPTURES / "psk-classic.pcap").read_bytes()
    records, at = [], 24
    while at < len(whole):
        end = at + 16 + int.from_bytes(whole[at + 8 : at + 12], "little")
        records.append(whole[at:end])
        at = end
    addresses = [record[16 + 14 + 12 :][:4] for record in records]  # behind the Ethernet header, RFC 791's source
    one_side = [record for record, address in zip(records, addresses, strict=True) if address == addresses[0]]
    assert len(records) == 4
    for name, some in (("cut", records[:3]), ("one side", one_side)):
        path = tmp_path / f"{name}.pcap"
        path.write_bytes(whole[:24] + b"".join(some))
        ladder = build_ladder(selection.select_handshake(read_captures(path), 1))
        assert [rung.loss for rung in ladder.rungs] == [None] * len(some)


def test_the_bars_are_the_breakdown():
    """Turns cover the set-up without gap, and add up to the parts that the report has."""
    a = read_captures(CAPTURES / "loss20-classic.pcap")
    for row in a.handshakes.iter_rows(named=True):
        ladder = build_ladder(selection.select_handshake(a, row["handshake"]))
        lasted = {"initiator": 0, "responder": 0, "waiting": 0}
        for turn in ladder.turns:
            name = "waiting" if turn.waiting else ladder.hosts[turn.host].role
            lasted[name] += ladder.rungs[turn.last].at_ns - ladder.rungs[turn.first].at_ns
        assert lasted["waiting"] == row["retransmission_wait_ns"]
        assert lasted["initiator"] == row["initiator_and_network_ns"]
        assert lasted["responder"] == row["responder_ns"]


def test_a_never_ending_handshake_is_cut():
    a = selection.select_handshake(analysis(), 4)
    rows = pl.concat([a.messages.head(1)] * (MOST + 5))
    ladder = build_ladder(replace(a, messages=rows))
    assert (len(ladder.rungs), ladder.left_out) == (MOST, 5)


def test_radius_requests_that_were_sent_again():
    """As tshark lists them: Access-Request 190 three times, 191 twice, answered 11 ms after the last one."""
    ladder = build_ladder(selection.select_handshake(read_captures(CAPTURES / "lab" / "eap-aaa-loss.pcapng"), 1))
    at = {rung.frame: index for index, rung in enumerate(ladder.rungs)}
    turns = [(turn.host, turn.waiting, turn.first, turn.last) for turn in ladder.turns]
    assert [turn for turn in turns if turn[0] == 2] == [
        (2, False, at[first], at[last]) for first, last in ((8, 9), (10, 11), (12, 13), (15, 16), (20, 33))
    ]
    assert [turn for turn in turns if turn[:2] == (1, True)] == [(1, True, at[10], at[15]), (1, True, at[17], at[20])]
    waited = sum(ladder.rungs[b].at_ns - ladder.rungs[a].at_ns for _, waiting, a, b in turns if waiting)
    assert waited == round((4827.801939 - 23.001101 + 6842.444217 - 4840.180548) * 1e6)
