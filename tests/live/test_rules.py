"""When handshakes are reported: crafted captures in which a keepalive a second shows how time goes on."""

from random import Random

import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.pipeline import build_tables
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live import engine as engine_module
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.rules import EndingRules
from tests.craft import MS, SECOND, Handshake, Trace, pcap, radius, redirected
from tests.live.live_records import RULES, read_live, read_report, without_id
from tests.paths import DATA


@pytest.fixture
def trace():
    """A capture with a NAT keepalive of other hosts at each second for 20 minutes."""
    trace = Trace()
    for second in range(1, 1200):
        trace.send(second * SECOND, b"\xff", sport=4500, dport=4500, source="198.51.100.1", destination="198.51.100.2")
    return trace


@pytest.fixture
def read(trace, tmp_path):
    """A function that gives outcome and second of each record, and the counts."""

    def read(rules=RULES):
        times = [packet.time_ns for packet in trace.packets]
        records, counts = read_live(trace.write(tmp_path / "capture.pcap"), rules)
        # a decision is made at the first packet of a second, which is not counted yet
        seconds = [(times[min(packets, len(times) - 1)] - trace.start_ns) // SECOND for packets, _ in records]
        return [(record["outcome"], second) for (_, record), second in zip(records, seconds, strict=True)], counts

    return read


def test_a_completed_handshake_is_reported_when_it_has_settled(trace, read):
    trace.play(Handshake().setup())  # the last message is sent in the first second
    assert read()[0] == [("completed", 11)]
    assert read(EndingRules(settle_ns=3 * SECOND))[0] == [("completed", 4)]


def test_a_refused_handshake_too(trace, read):
    trace.play(Handshake().refused())
    assert read()[0] == [("failed", 11)]


def test_an_unanswered_request_waits_for_retransmissions(trace, read):
    request = Handshake().init()[0]
    for second in (0, 4, 11, 24, 47, 89):  # strongSwan's default timers
        trace.message(second * SECOND, request)
    assert read()[0] == [("unanswered", 89 + 181)]


def test_a_response_that_comes_late_completes_the_handshake(trace, read):
    init, response, *rest = Handshake().setup()
    trace.message(0, init)
    trace.message(47 * SECOND, init)
    trace.message(47 * SECOND + MS, response)
    trace.play(rest, at=47 * SECOND + 2 * MS)
    assert read()[0] == [("completed", 58)]


def test_a_handshake_under_way_at_the_end_is_cut(trace, read):
    trace.play(Handshake().setup()[:3], at=1195 * SECOND)
    assert read()[0] == [("cut", 1199)]


def test_messages_after_the_report_are_not_a_handshake(trace, read):
    handshake = Handshake()
    trace.play(handshake.setup())
    trace.play(handshake.informational(), at=60 * SECOND)
    outcomes, counts = read()
    assert outcomes == [("completed", 11)]
    assert counts.late_frames == 2


def test_an_spi_that_is_used_again_is_another_handshake(trace, read):
    trace.play(Handshake(1).setup())
    again = Handshake(2)
    again.spi_i = Handshake(1).spi_i
    trace.play(again.setup(), at=60 * SECOND)
    assert read()[0] == [("completed", 11), ("completed", 71)]


def test_an_ike_sa_from_before_the_capture_is_reported_when_it_is_long(trace, read):
    handshake = Handshake()
    handshake.setup()
    for second in range(0, 1190, 30):
        trace.play(handshake.informational(), at=second * SECOND)
    outcomes, counts = read()
    assert outcomes == [("cut", 901)]
    assert counts.late_frames > 0


def test_the_oldest_frames_are_given_up_when_there_are_too_many(trace, read):
    for number in range(50):
        trace.message(number * SECOND, Handshake(number).init()[0])
    outcomes, counts = read(EndingRules(most_frames=20))
    # 30 have ended before the clock reaches 180 s
    assert [second for _, second in outcomes[:31]] == [*range(21, 51), 50 - 20 + 181]
    assert counts.handshakes == 50


def test_fragments_that_may_still_come_are_waited_for(trace, tmp_path):
    """The first response lacks an IP fragment, and is known as a message only when its time is over, after 30 s."""
    trace.mtu = 600
    handshake = Handshake(switch=False)
    trace.play(handshake.init())
    request, response = handshake.auth(sizes=(200, 1500))
    trace.message(SECOND, request)
    trace.drop(trace.message(2 * SECOND, response)[-1:])
    trace.message(5 * SECOND, request)
    trace.message(6 * SECOND, response)
    path = trace.write(tmp_path / "capture.pcap")
    records, counts = read_live(path)
    assert without_id(record for _, record in records) == without_id(read_report(path))
    assert records[0][1]["fragmentation"]["ip_fragments"] == 2 + 3
    assert counts.late_frames == 0


def test_handshakes_end_when_the_clock_is_set_back(trace, tmp_path):
    before = Trace(start_ns=trace.start_ns + 5000 * SECOND)
    before.play(Handshake().setup()[:3])
    path = tmp_path / "capture.pcap"
    path.write_bytes(pcap([*before.packets, *trace.packets]))
    records, _ = read_live(path)
    assert [(packets, record["outcome"]) for packets, record in records] == [(3, "cut")]


@pytest.mark.parametrize("same_spi", [False, True])
def test_a_redirect_connects_two_ike_sas(trace, read, tmp_path, same_spi):
    """Another handshake of the same initiator has nothing to do with it."""
    _, second, messages = redirected(same_spi=same_spi)
    trace.play(messages)
    trace.play(second.informational(), at=40 * SECOND)
    trace.play(Handshake(50).setup(), at=2 * SECOND)
    outcomes, counts = read()
    assert outcomes == [("completed", 11), ("completed", 13)]
    assert counts.late_frames == 2
    path = trace.write(tmp_path / "redirected.pcap")
    extra = [record["extra_round_trips"] for _, record in read_live(path)[0]]
    assert extra == [["REDIRECT"], []]
    assert extra == [record["extra_round_trips"] for record in read_report(path)]


def test_radius_without_ike_is_not_kept(tmp_path):
    """As at a server that also authenticates wireless clients."""
    trace, rng = Trace(), Random(1)
    for number in range(2000):
        request = radius.access_request(number % 256, b"identity", rng)
        trace.send(number * SECOND, request, sport=1645, dport=1812, source="192.0.2.9", destination="192.0.2.10")
    most = 0
    with open_capture(trace.write(tmp_path / "radius.pcap")) as reader:
        engine = LiveEngine("x", reader.interfaces, pytest.fail, ReadOptions(), RULES)
        for batch in reader.iterate_batches():
            for row in range(len(batch)):
                engine.add(batch.select(slice(row, row + 1)))
                most = max(most, engine.counts.frames)
    assert engine.counts.accounting["radius"] == 2000
    assert 0 < most < 20


def test_an_internal_error_costs_one_ike_sa(trace, tmp_path, monkeypatch):
    for number in range(10):
        trace.play(Handshake(number).setup(), at=number * MS)
    wrong = int.from_bytes(Handshake(3).spi_i, "big")

    def build(numbering, traffic, *more):
        if (traffic.columns["spi_i"] == wrong).any():
            raise ZeroDivisionError("a bug")
        return build_tables(numbering, traffic, *more)

    monkeypatch.setattr(engine_module, "build_tables", build)
    ended = []
    with open_capture(trace.write(tmp_path / "capture.pcap")) as reader:
        engine = LiveEngine("x", reader.interfaces, ended.append, ReadOptions(), RULES)
        for batch in reader.iterate_batches():
            engine.add(batch)
        engine.finish()
    reported = {spi for analysis in ended for spi in analysis.handshakes["spi_i"].to_list()}
    assert reported == {Handshake(number).spi_i.hex() for number in range(10) if number != 3}
    (skipped,) = [skipped for analysis in ended for skipped in analysis.skipped]
    assert Handshake(3).spi_i.hex() in skipped.reason
    assert "ZeroDivisionError: a bug" in skipped.reason


def test_icmp_errors_explain_a_handshake_as_in_a_report():
    """The errors are in packets around those of IKE, and are given up with the handshakes."""
    for version in (4, 6):
        path = DATA / f"icmp-ipv{version}.pcap"
        for chunk in (1 << 20, 400):
            records, _ = read_live(path, chunk=chunk)
            live = {record["spi_i"]: record["diagnosis"] for _, record in records}
            assert live == {record["spi_i"]: record["diagnosis"] for record in read_report(path)}
            assert sum(bool(entries) for entries in live.values()) == 5
