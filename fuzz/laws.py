"""The laws that every analysis obeys, and what its text formats have in common, whatever is in the capture."""

import csv
import json
from collections.abc import Iterable
from io import StringIO
from typing import Final, NoReturn

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.report.formats import FORMATS

#: Categories of packets that are rows of the frames table.
_KEPT: Final = ("ike", "radius", "hip")
_PARTS: Final = tuple(
    f"{part}_ns"
    for part in ("network", "initiator", "initiator_and_network", "responder", "aaa", "retransmission_wait")
)
_WIDTH: Final = 100
_LONGEST_NS: Final = 2.0**61  # 73 years: sums of a few such times fit into 64 bits


def check_analysis(analysis: Analysis) -> None:
    """Check that packets and bytes are conserved from captures to handshakes, and that times add up."""
    _check_accounting(analysis)
    _check_schemas(analysis)
    _check_messages(analysis)
    _check_exchanges(analysis)
    _check_times(analysis)


def _check_accounting(analysis: Analysis) -> None:
    for capture in analysis.captures:
        assert sum(capture.accounting.values()) == capture.packets, "packets are lost or invented"
        assert sum(capture.accounting_bytes.values()) == capture.bytes, "bytes are lost or invented"
    counted = sum(capture.accounting[name] for capture in analysis.captures for name in _KEPT)
    assert analysis.frames.select("capture", "number").n_unique() == counted
    size = sum(capture.accounting_bytes[name] for capture in analysis.captures for name in _KEPT)
    assert analysis.frames["bytes"].cast(pl.UInt64).sum() == size


def _check_schemas(analysis: Analysis) -> None:
    tables = (
        (analysis.frames, schema.FRAMES, None),
        (analysis.messages, schema.MESSAGES, "message"),
        (analysis.exchanges, schema.EXCHANGES, "exchange"),
        (analysis.handshakes, schema.HANDSHAKES, "handshake"),
    )
    for table, columns, ident in tables:
        assert table.schema == pl.DataFrame(schema=columns).schema
        assert ident is None or table[ident].n_unique() == len(table)


def _check_messages(analysis: Analysis) -> None:
    """Frames add up to messages."""
    frames, messages = analysis.frames, analysis.messages
    once = frames.filter(~pl.col("capture_duplicate"), pl.col("message").is_not_null())
    sums = once.group_by("message").agg(pl.len().alias("rows"), pl.col("bytes").cast(pl.UInt64).sum())
    joined = messages.join(sums, on="message", how="left", suffix="_of_frames")
    assert (joined["frames"] == joined["rows"]).all()
    assert (joined["bytes"] == joined["bytes_of_frames"]).all()
    assert len(joined) == len(sums)
    assert (messages["needed_bytes"] <= messages["bytes"]).all()


def _check_exchanges(analysis: Analysis) -> None:
    """Messages add up to exchanges and, for the set-up, to handshakes."""
    ours = analysis.messages.filter(pl.col("protocol") != "RADIUS")
    counts = (pl.len().cast(pl.UInt32).alias("messages"), pl.col("frames", "bytes").sum())
    for kind in ("request", "response"):
        sums = ours.filter(pl.col("kind") == kind).group_by("exchange").agg(*counts)
        joined = analysis.exchanges.join(sums, on="exchange", how="left")
        for count in ("messages", "frames", "bytes"):
            assert joined[f"{kind}_{count}"].eq_missing(joined[count]).all()
    for sender in ("initiator", "responder"):
        sums = ours.filter(pl.col("set_up"), pl.col("sender") == sender).group_by("handshake").agg(*counts)
        joined = analysis.handshakes.join(sums, on="handshake", how="left")
        for count in ("messages", "frames", "bytes"):
            assert (joined[f"{sender}_{count}"] == joined[count].fill_null(0)).all()


def _check_times(analysis: Analysis) -> None:
    """Times are not negative and add up, except in captures over centuries, whose time spans exceed 64 bits."""
    spans = analysis.frames.group_by("capture").agg(
        pl.col("time_ns").min().cast(pl.Float64).alias("first"), pl.col("time_ns").max().cast(pl.Float64).alias("last")
    )
    usable = spans.filter(pl.col("last") - pl.col("first") < _LONGEST_NS)["capture"].implode()
    handshakes = analysis.handshakes.filter(pl.col("capture").is_in(usable))
    exchanges = analysis.exchanges.filter(pl.col("handshake").is_in(handshakes["handshake"].implode()))
    for column in ("rtt_ns", "wait_ns"):
        assert (exchanges[column].drop_nulls() >= 0).all(), f"{column} is negative"
    for row in handshakes.select("setup_ns", *_PARTS).iter_rows():
        setup, *parts = row
        if setup is not None:
            assert all(part >= 0 for part in parts if part is not None), "a part of the set-up time is negative"
            assert sum(part or 0 for part in parts) == setup, "the parts of the set-up time do not add up"


def check_formats(analysis: Analysis, formats: Iterable[Format]) -> None:
    """Write an analysis in text formats and check each."""
    for form in formats:
        out = StringIO()
        FORMATS.texts[form](analysis, out, RenderOptions(width=_WIDTH, every=True))
        check_text(form, out.getvalue())


def check_text(form: Format, text: str) -> None:
    """Check the output of a command or a writer: JSON can be parsed, text for people is printable."""
    match form:
        case Format.JSON:
            json.loads(text, parse_constant=_refuse_constant)
        case Format.JSONL:
            for line in text.split("\n")[:-1]:
                json.loads(line, parse_constant=_refuse_constant)
        case Format.CSV:
            assert len({len(row) for row in csv.reader(StringIO(text))}) <= 1, "rows of CSV with different lengths"
        case Format.TERMINAL | Format.MARKDOWN:
            check_printable(text)
        case _:
            text.encode()


def check_printable(text: str) -> None:
    """Check that text has no control characters but line feeds."""
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)


def _refuse_constant(name: str) -> NoReturn:
    raise AssertionError(f"{name} is not JSON")
