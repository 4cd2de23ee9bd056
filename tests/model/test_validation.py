"""Predictions against real daemons on a lossy link. The table is in docs/predict.md; UPDATE_GOLDEN=1 writes it.

A capture has several handshakes. The link loses frames after the capture point, so the capture contains every
transmission. The handshake with the fewest retransmissions is predicted for that loss, and the mean of the prediction
is compared with the mean of all handshakes. The interval of a small capture is wide: of ten handshakes at 5 %, one
frame of 62 was lost, where three were expected. So the measured mean must also be in the interval of the mean of as
many simulated handshakes.
"""

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy import stats

from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.predict import TransmissionConfig, predict_handshake
from ikeanalyze.model.retransmission_policy import parse_policy
from tests.model.flows import capture, flow
from tests.paths import ROOT

DOCUMENT = ROOT / "docs" / "predict.md"
BEGIN, END = "<!-- validation: begin -->\n", "<!-- validation: end -->\n"

#: Capture, daemons, loss, and the timers that they were given (of pq-loss15: that its retransmissions show).
CASES = [
    ("loss20-classic.pcap", "strongSwan 6.1", 0.20, "strongswan:timeout=0.4,base=1.4,tries=8"),
    ("lab/loss_loss-percent-5.pcapng", "strongSwan 5.9.8", 0.05, "strongswan:timeout=0.3,base=1.3,tries=8"),
    ("lab/loss_loss-percent-20.pcapng", "strongSwan 5.9.8", 0.20, "strongswan:timeout=0.3,base=1.3,tries=8"),
    ("lab/loss20.pcapng", "strongSwan 6.1", 0.20, "strongswan:timeout=0.3,base=1.3,tries=8"),
    ("pq-loss15.pcap", "strongSwan 6.1", 0.15, "strongswan:timeout=0.4,base=1.2,tries=10"),
    ("lab/libreswan-loss.pcapng", "libreswan 5.2", 0.20, "libreswan:interval=0.2,timeout=25"),
]


class Compared(NamedTuple):
    predicted: float
    measured: float
    low: float  # 95 % interval of the measured mean (Student's t)
    high: float
    least: float  # 95 % interval of the mean of so many predicted handshakes
    most: float


@cache
def compared(name, loss, policy):
    """By what is counted: bytes and messages, and how many handshakes there are."""
    result = predict_handshake(flow(name), LinkModel(0, loss), TransmissionConfig(parse_policy(policy)), keep=True)
    table = capture(name).handshakes.filter(pl.col("outcome").cast(pl.String) == "completed")
    counted = {}
    for what, values in (("bytes", result.samples["bytes"]), ("messages", result.samples["messages"])):
        measured = (table[f"initiator_{what}"] + table[f"responder_{what}"]).to_numpy().astype(float)
        low, high = stats.t.interval(0.95, len(measured) - 1, measured.mean(), stats.sem(measured))
        means = np.random.default_rng(1).choice(values, (20_000, len(measured))).mean(axis=1)
        least, most = np.quantile(means, [0.025, 0.975])
        counted[what] = Compared(values.mean(), measured.mean(), low, high, least, most)
    return counted, table.height


@pytest.mark.parametrize("what", ["bytes", "messages"])
def test_the_lossy_capture(what):
    # 25 handshakes at 20 %: the prediction of one without loss lies in the interval of the measured mean
    result = compared(*(CASES[0][i] for i in (0, 2, 3)))[0][what]
    assert result.low < result.predicted < result.high
    assert result.least < result.measured < result.most


@pytest.mark.parametrize(("name", "daemons", "loss", "policy"), CASES, ids=[case[0] for case in CASES])
def test_all_of_them(name, daemons, loss, policy):
    for result in compared(name, loss, policy)[0].values():
        assert result.least < result.measured < result.most


def table():
    yield "| capture | daemons | loss | handshakes | | measured mean | its 95 % interval | predicted mean | of so many |\n"
    yield "|---|---|---:|---:|---|---:|---:|---:|---:|\n"
    for name, daemons, loss, policy in CASES:
        counted, handshakes = compared(name, loss, policy)
        for key, one in counted.items():
            form = "{:,.0f}" if key == "bytes" else "{:.1f}"
            texts = [form.format(value) for value in one]
            predicted, measured, low, high, least, most = texts
            yield (
                f"| {Path(name).name} | {daemons} | {100 * loss:g} % | {handshakes} | {key} | {measured} "
                f"| {low} to {high} | **{predicted}** | {least} to {most} |\n"
            )


def test_the_document_is_up_to_date():
    text = DOCUMENT.read_text()
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    new = "".join(table())
    if os.environ.get("UPDATE_GOLDEN"):
        DOCUMENT.write_text(before + BEGIN + new + END + after)
        inside = new
    assert inside == new
