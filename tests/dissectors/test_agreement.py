"""The plugin and `ikeanalyze report` say the same: two implementations, of which neither knows the other's code."""

import re
from functools import cache

import polars as pl
import pytest

import ikeanalyze
from tests.dissectors.asked import COLUMNS, RECORDED, fields, recorded_frames, recorded_statistics
from tests.dissectors.keysets import WITH_KEYS, keys_of
from tests.paths import CAPTURES

IKE = pl.col("protocol").cast(pl.String).is_in(["IKEv2", "IKEv1"])


@cache
def analysed(name, keys=False):
    log = CAPTURES / f"{name.split('.')[0]}.charon.log.gz"
    return ikeanalyze.read(CAPTURES / name, keys=[log] if keys else [])


@pytest.mark.parametrize("name", RECORDED)
def test_handshakes(tshark, name):
    got = [line.split()[:14] for line in recorded_statistics(tshark, name)[0][2:]]
    want = []
    for number, row in enumerate(analysed(name).handshakes.filter(IKE).iter_rows(named=True), 1):
        counts = [
            row[f"{side}_{what}"] for side in ("initiator", "responder") for what in ("messages", "frames", "bytes")
        ]
        setup = "-" if row["setup_ns"] is None else f"{row['setup_ns'] / 1e6:.3f}"
        ends = [row[key] for key in ("spi_i", "spi_r", "initiator_address", "responder_address")]
        want.append(
            [str(one) for one in (number, *ends, *counts, row["retransmitted_messages"], setup, row["outcome"])]
        )
    assert got == want


@pytest.mark.parametrize("name", RECORDED)
def test_messages(tshark, name):
    """Handshake and transmission of every frame; which frames are there twice."""
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in recorded_frames(tshark, name)]
    whole = {
        int(row["frame.number"]): (int(row["ikex.handshake"]), int(row["ikex.transmission"]))
        for row in rows
        if row["ikex.transmission"]
    }
    parts = {int(row["frame.number"]) for row in rows if row["ikex.part_of"]}
    twice = {int(row["frame.number"]) for row in rows if row["ikex.duplicate_of"]}
    analysis = analysed(name)
    frames = analysis.frames.filter(IKE)
    assert twice == set(frames.filter(pl.col("capture_duplicate"))["number"])
    seen = frames.filter(~pl.col("capture_duplicate")).join(
        analysis.messages.select("message", "transmission"), on="message"
    )
    want = {row["number"]: (row["handshake"], row["transmission"]) for row in seen.iter_rows(named=True)}
    assert whole.keys() | parts == want.keys()
    assert whole == {number: one for number, one in want.items() if number in whole}
    assert parts <= set(frames.filter(pl.col("ip_fragment"))["number"])


@pytest.mark.parametrize("name", RECORDED)
def test_round_trips(tshark, name):
    got = {}
    for line in recorded_statistics(tshark, name)[1][2:]:
        kind, *numbers = re.split(r"\s{2,}", line)
        got[kind] = numbers
    exchanges = analysed(name).exchanges.filter(~pl.col("type").cast(pl.String).str.starts_with("Access"))
    assert got.keys() == set(exchanges["type"].cast(pl.String))
    for kind, (count, unanswered, timed, least, mean, most) in got.items():
        some = exchanges.filter(pl.col("type").cast(pl.String) == kind)
        times = some["rtt_ns"].drop_nulls() / 1e6
        open_ones = some["response_messages"].is_null().sum()
        assert [int(count), int(unanswered), int(timed)] == [len(some), open_ones, len(times)]
        if len(times):
            assert [float(least), float(mean), float(most)] == pytest.approx(
                [times.min(), times.mean(), times.max()], abs=0.001
            )


@pytest.mark.parametrize("tshark", ["forky"], indirect=True)
@pytest.mark.parametrize("stem", WITH_KEYS)
def test_contents(tshark, stem):
    """The payloads of every message that was decrypted, its epoch, and the outcome that they prove."""
    name = next(one for one in RECORDED if one.split(".")[0] == stem)
    names = ("frame.number", "ikex.epoch", "ikex.payload", "ikex.outcome")
    lines = fields(tshark, CAPTURES / name, *names, only="ikex.epoch", keys=keys_of(name))
    analysis = analysed(name, keys=True)
    opened = analysis.messages.filter(pl.col("decrypted")).select("message", "epoch", "payloads")
    frames = analysis.frames.filter(~pl.col("capture_duplicate")).join(opened, on="message")
    want = {}
    for row in frames.iter_rows(named=True):
        payloads = [re.split(r"[^A-Za-z]", text)[0] for text in row["payloads"]]
        want[row["number"]] = (str(row["epoch"]), ",".join(payloads))
    got = {int(line[0]): (line[1], line[2]) for line in lines}
    assert got.keys() == want.keys()
    assert {number: epoch for number, (epoch, _) in got.items()} == {
        number: epoch for number, (epoch, _) in want.items()
    }
    # of a message in fragments, only the frame that completes it has the payloads
    whole = {number: one for number, one in got.items() if one[1] or not want[number][1]}
    assert whole == {number: want[number] for number in whole}
    fragmented = set(frames.filter(pl.col("fragment").is_not_null())["number"])
    assert got.keys() - whole.keys() <= fragmented
    outcomes = dict.fromkeys(analysis.handshakes.filter(IKE)["outcome"].cast(pl.String))
    assert {line[3] for line in lines} == outcomes.keys()
