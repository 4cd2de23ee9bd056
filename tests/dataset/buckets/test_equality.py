"""An analysis in buckets has every row, id and warning of an analysis in memory, in the same order."""

import shutil
import tempfile
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.dataset.buckets import numbering, shared_facts
from ikeanalyze.dataset.buckets.analysis import BucketSettings, analyse_in_buckets
from tests.analysis.exchanges.test_radius import Login
from tests.analysis.handshakes.diagnosis.test_rules import redirect_in_auth
from tests.analysis.messages.test_duplicates import mirrored
from tests.analysis.test_read import FEW, random_trace
from tests.craft import MS, SECOND, Handshake, Trace, redirected, transport
from tests.dataset.buckets.bucketed import compare, read_records, write_records
from tests.paths import CAPTURES, DATA, LAB_CAPTURES

RECORDED = sorted([*CAPTURES.rglob("*.pcap*"), *DATA.glob("icmp-*.pcap")])
ETHERNET = [path for path in sorted(CAPTURES.glob("*.pcap")) if read_records(path)]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_captures(path):
    compare(path, (7,))


@pytest.mark.parametrize("count", [1, 2, 64])
def test_recorded_captures_in_other_numbers_of_buckets(count):
    for path in RECORDED[::5]:
        compare(path, (count,))


def mix(rng: Random) -> list[tuple[int, bytes]]:
    """Several recordings at the same time, each several times, with new or repeated SPIs and packets out of order."""
    records: list[tuple[int, bytes]] = []
    jitter = rng.choice((0, 0, MS, 100 * MS))
    span = rng.choice((1, SECOND, 100 * SECOND))
    for path in rng.sample(ETHERNET, rng.randint(2, 6)):
        packets = read_records(path)
        spis = [bytes.fromhex(spi) for spi in read_captures(path).handshakes["spi_i"].drop_nulls()]
        for copy in range(rng.randint(1, 3)):
            names = {spi: rng.randbytes(8) for spi in spis if copy and rng.random() < 0.8}
            shift = 10**18 + rng.randrange(span) - packets[0][0]
            for time, data in packets:
                for spi, name in names.items():
                    data = data.replace(spi, name)
                records.append((time + shift + (rng.randrange(jitter) if jitter else 0), data))
    if not jitter or rng.random() < 0.5:
        records.sort(key=lambda record: record[0])
    return records


@pytest.mark.parametrize("seed", range(6))
def test_mixes_of_recordings(tmp_path, seed):
    """RADIUS, NAT, fragments, IKEv1, TCP, MOBIKE, duplicates and lost frames of several pairs of hosts at once."""
    compare(write_records(tmp_path / "mix.pcap", mix(Random(seed))), (2, 7))


@settings(FEW, max_examples=10)
@given(st.integers(0, 2**32))
def test_random_traces(tmp_path_factory, seed):
    rng = Random(seed)
    trace = random_trace(seed)
    if rng.random() < 0.5:
        Login(seed).play(trace, at=rng.randrange(SECOND))
    path = tmp_path_factory.mktemp("random") / "trace.pcap"
    path.write_bytes(trace.pcap(snaplen=rng.choice((262144, 110, 500))))
    compare(path, (3,), vantage=rng.choice((None, "initiator", "responder")), rtt_ms=rng.choice((None, 20.0)))


def write(tmp_path, trace: Trace):
    return trace.write(tmp_path / "trace.pcap")


def test_a_redirect_connects_two_spis(tmp_path):
    trace = Trace()
    for message in redirected()[2:]:
        trace.play(message)
    assert compare(write(tmp_path, trace), (7,)).handshakes.height == 1


def test_the_shortest_round_trip_is_that_of_all_handshakes(tmp_path):
    trace = Trace()
    for seed in range(10):
        trace.play(Handshake(seed).setup(), at=seed * SECOND, rtt=(40 + seed) * MS)
    whole = compare(write(tmp_path, trace), (7,), vantage="initiator")
    assert whole.handshakes["path_rtt_ns"].unique().to_list() == [41 * MS]


@pytest.mark.parametrize("rows_in_memory", [0, 1 << 20])
def test_a_late_response_is_recognised_by_the_round_trips_of_other_handshakes(tmp_path, monkeypatch, rows_in_memory):
    """Every request is repeated before its response arrives; exchanges of other handshakes tell the round trip."""
    monkeypatch.setattr(shared_facts, "_ROWS_IN_MEMORY", rows_in_memory)
    trace = Trace()
    for seed in range(12):
        messages = Handshake(seed).setup()
        time = seed * 20 * SECOND
        for request, response in zip(messages[::2], messages[1::2], strict=True):
            trace.message(time, request)
            if seed % 3:
                trace.message(time + 500 * MS, request)
            trace.message(time + 5 * MS, response)
            if seed % 3 == 1:
                trace.message(time + 505 * MS, response)
            time += 805 * MS
    compare(write(tmp_path, trace), (1, 7))


@pytest.mark.parametrize("other", [False, True])
def test_radius_is_assigned_where_all_candidates_are(tmp_path, other):
    trace = Trace()
    for number in range(5):
        Login(number + 1, identifier=number * 2 + 1).play(trace, at=number * SECOND)
    if other:
        for number in range(20):  # handshakes that wait at the same time, and for which RADIUS was not
            trace.play(Handshake(100 + number).setup(), at=number * 300 * MS, rtt=50 * MS)
    whole = compare(write(tmp_path, trace), (2, 7))
    assert whole.handshakes["aaa_address"].drop_nulls().len() > 0


def test_responses_are_copies_if_a_mirror_port_copies_the_requests_of_other_handshakes(tmp_path):
    messages = [message for seed in range(9) for message in Handshake(seed).setup()]
    trace = mirrored(messages)
    whole = compare(write(tmp_path, trace), (7,))
    assert whole.messages["transmission"].max() == 1


def test_an_ike_sa_is_a_replacement_if_another_one_was_rekeyed(tmp_path):
    trace = Trace()
    first, second = Handshake(1), Handshake(2)
    trace.play([*first.setup(), *first.create_child_sa()])
    # the responder's first request alone: a replacement, because another IKE SA of these hosts was rekeyed before
    trace.play(second.informational(by_initiator=False), at=10 * SECOND)
    whole = compare(write(tmp_path, trace), (7,))
    assert whole.handshakes["rekeyed"].to_list() == [False, True]


def test_frames_of_several_buckets_stay_in_order(tmp_path):
    trace = Trace()
    for seed in range(40):
        trace.play(Handshake(seed).setup(), at=seed % 3 * MS)
    whole = compare(write(tmp_path, trace), (64,))
    assert whole.frames["number"].to_list() == list(range(1, len(trace.packets) + 1))


@pytest.mark.parametrize("size", [1, 3, 50])
def test_messages_are_numbered_in_slices(tmp_path, monkeypatch, size):
    monkeypatch.setattr(numbering, "_MESSAGES_AT_ONCE", size)
    monkeypatch.setattr(numbering, "_SAMPLED", 1)
    trace = Trace()
    for seed in range(40):
        trace.play(Handshake(seed).setup(), at=seed % 3 * MS)  # 13 handshakes at the same time
    whole = compare(write(tmp_path, trace), (7,))
    assert whole.messages.height == 160


def test_a_port_is_in_the_capture_if_it_is_in_another_bucket(tmp_path):
    """Initiators behind a NAT stop at port 500, and one handshake of another initiator continues on port 4500."""
    trace = Trace()
    for number in range(10):
        trace.play(Handshake(number, nat=True).init(), at=number * SECOND)
    trace.send(60 * SECOND, b"something else", sport=53, dport=53)
    without = compare(write(tmp_path, trace), (7,)).handshakes
    assert {entry["code"] for (entry,) in without["diagnosis"]} == {"port-4500-missing"}
    trace.play(Handshake(10, initiator="192.0.2.9").setup(), at=20 * SECOND)
    handshakes = compare(write(tmp_path, trace), (7,)).handshakes
    assert {entry["code"] for (entry,) in handshakes["diagnosis"].drop_nulls()} == {"initiator-silent"}


def test_the_set_up_that_follows_a_redirect_is_in_another_bucket(tmp_path):
    handshakes = compare(write(tmp_path, redirect_in_auth()), (2, 7, 64)).handshakes
    assert [entry["code"] for entry in handshakes["diagnosis"][0]] == ["redirected"]


def test_a_bucket_with_one_frame(tmp_path):
    trace = Trace()
    trace.send(0, Handshake().init()[0].ike[0])
    assert len(compare(trace.write(tmp_path / "one.pcap"), (1, 3)).frames) == 1


def test_a_capture_without_ike(tmp_path):
    trace = Trace()
    trace.send(0, b"x" * 100, sport=1000, dport=2000)
    assert compare(write(tmp_path, trace), (7,)).frames.equals(
        pl.DataFrame(schema=read_captures(tmp_path / "trace.pcap").frames.schema)
    )


def test_an_icmp_error_without_spi_is_about_the_latest_datagram_of_all_buckets(tmp_path):
    """Requests with different SPIs, of the same hosts and ports, are in different buckets."""
    trace = Trace()
    for number in range(40):
        [sent] = trace.send(number * 100 * MS, Handshake(number).init()[0].ike[0])
        if number % 4 == 3:
            quoted = sent.data[14 : 14 + 28]
            trace.ip(number * 100 * MS + MS, transport.icmp_error(quoted, "192.0.2.2", "192.0.2.1"))
    trace.send(60 * SECOND, b"something else", sport=53, dport=53)
    handshakes = compare(write(tmp_path, trace), (2, 7)).handshakes
    codes = [entries[0]["code"] for entries in handshakes["diagnosis"]]
    assert codes == (["responder-silent"] * 3 + ["port-unreachable"]) * 10


def test_a_renamed_recording_has_the_same_warning(tmp_path):
    recorded = LAB_CAPTURES / "psk"
    for suffix in (".pcapng", ".manifest.json"):
        shutil.copy(f"{recorded}{suffix}", tmp_path / f"run{suffix}")
    whole = compare(tmp_path / "run.pcapng", (2,))
    said = "run.manifest.json is not used: it is of a capture with the name psk.pcapng"
    assert [str(warning) for warning in whole.warnings] == [said]


def test_joined_files_do_not_warn_of_the_manifest_of_one_of_them():
    paths = [str(LAB_CAPTURES / f"{name}.pcapng") for name in ("psk", "cookie")]
    options = ReadOptions(join=True)
    assert read_captures(paths, options).warnings == []
    with (
        tempfile.TemporaryDirectory() as directory,
        analyse_in_buckets(paths, options, BucketSettings(2, directory)) as (result, _),
    ):
        assert result.warnings == []
