"""Captures that are analysed together say what each says alone: nothing of one is taken for a part of another."""

import re
from pathlib import Path
from random import Random
from struct import unpack_from

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from ikeanalyze.analysis import read as reading
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from tests.analysis.analyse_captures import obey
from tests.analysis.encrypted_handshakes import Sa, table
from tests.analysis.exchanges.test_radius import Login
from tests.analysis.recorded_captures import followup_keys, xauth_keys
from tests.analysis.test_read import FEW, random_trace
from tests.craft import MS, SECOND, Handshake, Trace, pcap, redirected
from tests.paths import CAPTURES

TABLES = ("frames", "messages", "exchanges", "handshakes")
#: Of the many that the lab has recorded, some.
RECORDED = [*sorted(CAPTURES.glob("*.pcap*")), *sorted(CAPTURES.glob("lab/*.pcap*"))[::4]]


def same_as_alone(paths, *, keys=(), own_keys=None, **options) -> Analysis:
    """All captures in one call, which must say what one call for each says."""
    paths = [str(path) for path in paths]
    own = own_keys or {}
    alone = [read_captures(path, ReadOptions(keys=[*keys, *own.get(path, ())], **options)) for path in paths]
    together = read_captures(paths, ReadOptions(keys=keys, own_keys=own_keys, ids_per_capture=True, **options))
    for name in TABLES:
        assert_frame_equal(getattr(together, name), pl.concat([getattr(item, name) for item in alone]))
    for name in ("captures", "skipped"):
        assert getattr(together, name) == [each for item in alone for each in getattr(item, name)]
    reported = [warning for item in alone for warning in item.warnings]
    assert sorted(together.warnings, key=str) == sorted(reported, key=str)
    for path in paths:  # in the same order
        assert [w for w in together.warnings if w.capture == path] == [w for w in reported if w.capture == path]
    return together


def looked_into(analysis: Analysis) -> set[str]:
    """Captures whose encrypted messages are said to be decrypted or not."""
    return set(analysis.messages.filter(pl.col("decrypted").is_not_null())["capture"].cast(pl.String))


def written(directory: Path, *captures: Trace | bytes) -> list[Path]:
    paths = []
    for number, capture in enumerate(captures):
        paths.append(directory / f"{number}.pcap")
        paths[-1].write_bytes(capture if isinstance(capture, bytes) else capture.pcap())
    return paths


def dealt(data: bytes, count: int, rng: Random) -> list[bytes]:
    """The packets of a capture dealt out to several: what was one conversation is in all of them."""
    new = data[:4] == b"\x0a\x0d\x0d\x0a"
    at = 0 if new else 24
    piles = [bytearray(data[:at]) for _ in range(count)]
    while at < len(data):
        kind, size = unpack_from("<II", data, at) if new else (6, 16 + unpack_from("<8xI", data, at)[0])
        for pile in [rng.choice(piles)] if kind == 6 else piles:
            pile += data[at : at + size]
        at += size
    return [bytes(pile) for pile in piles]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """All recordings, packets of some dealt out to several captures, broken files, in no order; keys by path."""
    directory = tmp_path_factory.mktemp("recorded")
    rng = Random(1)
    paths, keys = list(map(str, RECORDED)), {}
    for path in RECORDED:
        own = [path.with_name(f"{path.stem}.keys.json")]
        copies = [str(path)]
        if path.parent == CAPTURES:
            for number, part in enumerate(dealt(path.read_bytes(), 2, rng)):
                copies.append(str(directory / f"{number}-{path.name}"))
                Path(copies[-1]).write_bytes(part)
            paths.extend(copies[1:])
        if own[0].exists():
            keys.update(dict.fromkeys(copies, own))
    for number, part in enumerate((b"", b"no capture", RECORDED[0].read_bytes()[:-7])):
        paths.append(str(directory / f"broken{number}"))
        Path(paths[-1]).write_bytes(part)
    paths.append(str(directory / "missing"))
    rng.shuffle(paths)
    return paths, keys


@pytest.mark.exhaustive
def test_recorded_captures_have_the_same_rows_together(recorded):
    paths, _ = recorded
    result = same_as_alone(paths)
    assert len(result.captures) == len(paths) - 3
    assert len(result.skipped) == 3


@pytest.mark.exhaustive
def test_recorded_captures_with_their_keys(recorded):
    paths, keys = recorded
    assert len(keys) > 15
    result = same_as_alone(paths, own_keys=keys, rtt_ms=3.0)
    whole = {path for path in keys if path.startswith(str(CAPTURES))}
    assert whole <= looked_into(result) <= set(keys)  # of the dealt ones, some have nothing encrypted


def test_keys_for_all_captures(recorded):
    paths, keys = recorded
    some = [path for path in paths if str(CAPTURES) in path][::4]
    files = sorted({file for own in keys.values() for file in own})
    same_as_alone(some, keys=files, payloads=True)


def test_ids_through_all_captures(recorded):
    paths, _ = recorded
    own, through = read_captures(paths, ReadOptions(ids_per_capture=True)), obey(read_captures(paths))
    for name in TABLES:
        ids = [item for item in ("message", "exchange", "handshake") if item in getattr(own, name).columns]
        assert_frame_equal(getattr(own, name).drop(ids), getattr(through, name).drop(ids))
    for name, first in (("handshakes", 1), ("messages", 0), ("exchanges", 0)):
        table = getattr(through, name)
        assert table[name[:-1]].to_list() == list(range(first, first + len(table)))
    within = through.messages.join(through.exchanges, on="exchange", suffix="_of_exchange")
    assert (within["handshake"] == within["handshake_of_exchange"]).all()
    assert (within["capture"] == within["capture_of_exchange"]).all()


@pytest.mark.exhaustive
@settings(FEW, max_examples=8)
@given(st.integers(0, 2**32))
def test_packets_of_one_conversation_in_several_captures(tmp_path_factory, seed):
    directory, rng = tmp_path_factory.mktemp("dealt"), Random(seed)
    trace = random_trace(seed)
    if rng.random() < 0.5:
        Login(seed).play(trace, at=rng.randrange(SECOND))
    parts = dealt(trace.pcap(), 3, rng)
    same_as_alone(written(directory, *parts, trace, parts[0]))


def test_a_request_here_and_its_response_there(tmp_path):
    messages = Handshake(1).setup()
    captures = []
    for side in (True, False):
        trace = Trace()
        trace.play(messages)
        trace.drop(packet for packet, message in zip(trace.packets, messages, strict=True) if message.response is side)
        captures.append(trace)
    result = same_as_alone(written(tmp_path, *captures))
    assert result.handshakes["one_sided"].to_list() == ["initiator", "responder"]
    assert result.exchanges["rtt_ns"].to_list() == [None] * 4


def test_the_same_packets_in_two_captures_are_no_duplicates(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    result = same_as_alone(written(tmp_path, trace, trace))
    assert not result.frames["capture_duplicate"].any()
    assert result.messages["transmission"].to_list() == [1] * 8
    assert result.handshakes["outcome"].to_list() == ["completed"] * 2


def test_radius_of_one_capture_is_not_for_a_handshake_of_another(tmp_path):
    login = Login()
    there, here = login.play(Trace()), login.play(Trace())
    radius = [packet for packet in here.packets if b"\x07\x14" in packet.data[34:38]]
    assert len(radius) == 4
    here.drop(radius)
    there.drop(packet for packet in there.packets if packet.data not in {item.data for item in radius})
    result = same_as_alone(written(tmp_path, here, there))
    assert result.handshakes["aaa_address"].to_list() == [None]


def test_a_redirect_is_followed_in_its_own_capture(tmp_path):
    _, _, messages = redirected()
    captures = []
    for some in (messages[:2], messages[2:]):
        captures.append(Trace())
        captures[-1].play(some)
    result = same_as_alone(written(tmp_path, *captures))
    assert result.handshakes["reason"].to_list() == ["REDIRECT", None]


def test_the_shortest_round_trip_is_that_of_its_own_capture(tmp_path):
    captures = []
    for seed, rtt in ((1, 20 * MS), (2, 5 * MS)):
        captures.append(Trace())
        captures[-1].play(Handshake(seed).setup(), rtt=rtt)
    result = same_as_alone(written(tmp_path, *captures), vantage="initiator")
    # a response comes so much later than its sender has thought for a millisecond
    assert result.handshakes["path_rtt_ns"].to_list() == [21 * MS, 6 * MS]


def test_ipv6_addresses_of_several_captures_do_not_collide(tmp_path):
    """Their codes are places in a book, and each capture has a book of its own."""
    captures = []
    for last in ("1", "2", "1"):
        ends = {"initiator": f"2001:db8::{last}", "responder": "2001:db8::3"}
        captures.append(Trace(**ends))
        captures[-1].play(Handshake(1, **ends).setup())
    result = same_as_alone(written(tmp_path, captures[1], Trace(), *captures))
    last = [text.rpartition(":")[2] for text in result.handshakes["initiator_address"]]
    assert last == ["2", "1", "2", "1"]


def test_keys_of_one_capture_open_nothing_of_another(tmp_path):
    sa = Sa(1)
    trace = Trace()
    trace.play(sa.whole())
    paths = written(tmp_path, trace, trace, trace)
    keys = tmp_path / "keys"
    keys.write_text(table(*sa.key_sets))
    other = tmp_path / "other"
    other.write_text(table(*Sa(2, spis=(sa.spi_i, sa.spi_r)).key_sets))
    result = same_as_alone(paths, own_keys={str(paths[0]): [keys], str(paths[2]): [other]})
    assert result.handshakes["outcome"].to_list() == ["established", "completed", "completed"]
    assert [warning.capture for warning in result.warnings] == [str(paths[2])]


@pytest.mark.parametrize(
    ("name", "text"), [("ikev1-xauth.pcap", xauth_keys()), ("pq-followup-ke.pcap", followup_keys())]
)
def test_recorded_keys_of_one_capture_open_nothing_of_another(tmp_path, name, text):
    data = (CAPTURES / name).read_bytes()
    paths = [str(path) for path in written(tmp_path, data, *dealt(data, 2, Random(1)), data, data)]
    keys, wrong = tmp_path / "keys", tmp_path / "wrong"
    keys.write_text(text)
    wrong.write_text(re.sub(r"[0-9a-f]{24}\b", "0" * 24, text))  # the ends of all keys
    own = {path: [wrong if path == paths[4] else keys] for path in paths[1:]}
    result = same_as_alone(paths, own_keys=own)
    assert looked_into(result) == set(paths[1:])
    opened = result.messages.filter(pl.col("decrypted"))["capture"].cast(pl.String)
    assert paths[3] in opened
    assert paths[4] not in opened


def test_a_key_file_that_cannot_be_read_costs_no_capture(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    paths = written(tmp_path, trace, trace)
    result = same_as_alone(paths, own_keys={str(paths[1]): [tmp_path / "missing"]})
    assert [item.path for item in result.skipped] == [str(tmp_path / "missing")]
    assert len(result.captures) == 2


@pytest.fixture(scope="module")
def whole(recorded):
    """Some of the recordings, read without limits to the groups."""
    paths, keys = recorded
    return read_captures(paths[:30], ReadOptions(own_keys=keys, payloads=True, cleartext=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "limit"), [("_MOST", 3), ("_FULL", 20_000), ("SMALL_BYTES", 4_000), ("SMALL_BYTES", 0)]
)
def test_where_groups_end_makes_no_difference(recorded, whole, monkeypatch, name, limit):
    paths, keys = recorded
    monkeypatch.setattr(reading, name, limit)
    parts = read_captures(paths[:30], ReadOptions(own_keys=keys, payloads=True, cleartext=True))
    for each in TABLES:
        assert_frame_equal(getattr(whole, each), getattr(parts, each))
    assert whole.cleartexts == parts.cleartexts
    assert len(whole.cleartexts) > 20
    assert (whole.captures, whole.skipped, whole.warnings) == (parts.captures, parts.skipped, parts.warnings)


def test_what_was_decrypted_is_told_by_ids_of_one_message_each():
    with pytest.raises(ValueError, match="ids_per_capture"):
        read_captures(RECORDED[:2], ReadOptions(cleartext=True, ids_per_capture=True))


def test_captures_without_packets(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    result = same_as_alone(written(tmp_path, pcap([]), trace, pcap([]), pcap([])))
    assert result.handshakes["capture"].to_list() == [str(tmp_path / "1.pcap")]
    assert len(same_as_alone(written(tmp_path, pcap([]), pcap([]))).handshakes) == 0
