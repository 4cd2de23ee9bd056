"""The figures of a report: set-up times, round trips, bytes and retransmissions; with the ladders as files.

A figure is made only if the tables have data for it. Its numbers are those of the tables; only densities are estimated,
and their captions say so.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.distribution import make_distribution_figures
from ikeanalyze.render.core.figures.files import TEXT_DPI, Drawing, Figure, write_figures
from ikeanalyze.render.core.figures.style import DOUBLE
from ikeanalyze.render.core.section import TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    escape_text,
    format_count,
    format_integer,
    format_ms,
    format_percentage,
    strip_common_folder,
)
from ikeanalyze.render.ladder.diagram import FILE_WIDTH, LadderLayout, draw_ladder
from ikeanalyze.render.ladder.model import Ladder, build_ladder
from ikeanalyze.render.report import document
from ikeanalyze.render.report.selection import select_detailed, select_handshake, select_noteworthy, select_set_ups

#: Handshakes that are all drawn as bars; if there are more, the handshakes at `_RANKS`.
_MAX_BARS: Final = 25
_RANKS: Final = {"fastest": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "95 %": 0.95, "slowest": 1.0}
_MAX_ROUND_TRIP_POINTS: Final = 1_000  # round trips that are drawn one by one
_MAX_HANDSHAKE_POINTS: Final = 1_000  # handshakes that are drawn one by one; if there are more, the means
_MAX_EXCHANGES: Final = 14  # that are distinguished by their message IDs
_MAX_LADDERS: Final = 5  # handshakes whose ladders are all written; if there are more, the noteworthy ones
_MAX_CAPTURES: Final = 7  # with a colour of their own

_QUARTILES: Final = {
    "low": "least",
    "first": "first quartile",
    "median": "median",
    "third": "third quartile",
    "high": "most",
}
_TRIP: Final = "From the transmission of the request that was answered to the response that ended the exchange"

#: The parts of the set-up time: name, column, colour.
PARTS: Final = (
    ("initiator", "initiator_ns", "initiator"),
    ("initiator and network", "initiator_and_network_ns", "combined"),
    ("responder", "responder_ns", "responder"),
    ("AAA server", "aaa_ns", "aaa"),
    ("network", "network_ns", "network"),
    ("waiting to retransmit", "retransmission_wait_ns", "waiting"),
)


def write_report_figures(analysis: Analysis, directory: str) -> list[Path]:
    """Write the figures of a report and the ladders of a few handshakes; return the paths.

    Creates the directory. Raises `OutputError` if it cannot be written.
    """
    selected = select_noteworthy(select_detailed(analysis).handshakes, _MAX_LADDERS)
    ladders = (build_ladder(select_handshake(analysis, handshake.handshake)) for handshake in selected)
    return write_figures(directory, make_figures(analysis), chain.from_iterable(map(_draw_ladder, ladders)))


def _draw_ladder(ladder: Ladder) -> Iterator[Drawing]:
    for layout, name in ((LadderLayout.EVEN, ""), (LadderLayout.TRUE, "-time")):
        svg = draw_ladder(ladder, layout, width=FILE_WIDTH)
        yield Drawing(f"handshake-{ladder.handshake}-ladder{name}", svg, DOUBLE.width / FILE_WIDTH, TEXT_DPI)


def make_figures(analysis: Analysis) -> Iterator[Figure]:
    """Yield the figures for which `analysis` has data."""
    analysis = select_set_ups(analysis)
    yield from make_setup_time_figure(analysis.handshakes)
    yield from make_round_trip_figure(analysis.exchanges)
    yield from make_link_bytes_figure(analysis)
    yield from make_payload_bytes_figure(analysis.handshakes)
    times = analysis.handshakes.filter(pl.col("setup_ns").is_not_null())
    yield from make_distribution_figures(
        {name: [ns / 1e6 for ns in rows["setup_ns"].to_list()] for name, rows in group_by_capture(times).items()},
        name="setup",
        quantity="set-up time",
        unit="ms",
        population="handshakes with a set-up time",
    )
    yield from make_retransmission_figure(analysis.handshakes)


def group_by_capture(handshakes: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the handshakes by capture if there are a few captures with several handshakes each, else in one group."""
    paths = handshakes["capture"].cast(pl.String)
    order = list(dict.fromkeys(paths.to_list()))
    if 1 < len(order) <= _MAX_CAPTURES and min(Counter(paths.to_list()).values()) > 2:
        names = strip_common_folder(order)
        return {names[path]: handshakes.filter(paths == path) for path in order}
    return {"all handshakes": handshakes}


def make_setup_time_figure(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """Stacked bars of the parts of the set-up time: of each handshake, or of the mean and handshakes at some ranks."""
    timed = handshakes.filter(pl.col("setup_ns").is_not_null()).sort("handshake")
    if timed.is_empty():
        return
    columns = [column for _, column, _ in PARTS]
    bars: list[tuple[str, dict[str, Any]]]
    if timed.height <= _MAX_BARS:
        bars = [(f"handshake {row['handshake']}", row) for row in timed.iter_rows(named=True)]
        caption = f"{format_count(timed.height, 'handshake')} with a set-up time, each divided as in its breakdown."
    else:
        # the parts of a handshake that are not null add up to its set-up time
        parts = (pl.col(column).fill_null(0).mean() for column in [*columns, "setup_ns"])
        mean = timed.select(parts).row(0, named=True)
        by_time = timed.sort("setup_ns", "handshake")
        bars = [("mean of all", mean)]
        for name, rank in _RANKS.items():
            row = by_time.row(round(rank * (timed.height - 1)), named=True)
            bars.append((f"{name} (no. {row['handshake']})", row))
        caption = f"The mean of {timed.height:,} handshakes with a set-up time, and single ones by their rank."
    if timed["network_ns"].null_count():
        caption += " Where the capture point is unknown, the parts of initiator and network are not separated."
    if timed["uncertain"].count():
        caption += f" {format_count(timed['uncertain'].count(), 'handshake')} with uncertain times (see its breakdown)."
    used = [part for part in PARTS if any(row[part[1]] for _, row in bars)]
    rows = [
        {"label": label, "part": name, "value": ns / 1e6, "said": f"{label}, {name}: {format_ms(ns)} ms"}
        for label, row in bars
        for name, column, _ in used
        if (ns := row[column])
    ]
    if not rows:
        return
    totals = {label: format_ms(row["setup_ns"]) for label, row in bars}
    headings = number_columns(*(f"{name}, ms" for name, _, _ in used), "total, ms")
    shown = [*(column for _, column, _ in used), "setup_ns"]
    cells = [(label, *(format_ms(row[column]) for column in shown)) for label, row in bars]
    numbers = TableSection("Where the set-up time went, ms", (TableColumn("handshake"), *headings), cells)
    colours = {name: colour for name, _, colour in used}
    yield Figure(
        "setup-parts",
        "Where the set-up time went",
        caption,
        lambda style: charts.draw_stacked_bars(rows, style, totals=totals, parts=colours, x_title="set-up time, ms"),
        numbers,
    )


def make_round_trip_figure(exchanges: pl.DataFrame) -> Iterator[Figure]:
    """Round-trip times by exchange: a bar for a single value, a box for several."""
    timed = exchanges.filter("set_up", pl.col("rtt_ns").is_not_null())
    timed = cast_text_columns(timed).sort("handshake", "exchange")
    if timed.is_empty():
        return
    labels = timed.select(pl.concat_str("type", pl.lit(" "), "message_id").alias("label"))["label"]
    if labels.n_unique() > _MAX_EXCHANGES:
        labels = timed["type"]
    timed = timed.with_columns(labels.alias("label"))
    first_ids = timed.group_by("label", maintain_order=True).agg(pl.col("message_id").min())
    order = first_ids.sort("message_id", maintain_order=True)["label"].to_list()
    rtt = pl.col("rtt_ns")
    quartiles = rtt.quantile(0.25, "linear").alias("first"), rtt.quantile(0.75, "linear").alias("third")
    bounds = rtt.min().alias("low"), rtt.median().alias("median"), rtt.max().alias("high")
    table = timed.group_by("label").agg(*bounds, *quartiles, pl.len())
    stats = {row["label"]: row for row in table.iter_rows(named=True)}
    yield (
        _make_single_trip_figure(order, stats)
        if table["len"].max() == 1
        else _make_trip_distribution_figure(timed, order, stats)
    )


def _make_single_trip_figure(order: list[str], stats: dict[str, dict[str, Any]]) -> Figure:
    """A bar for the only round trip of each exchange."""
    rows = []
    for label in order:
        value = stats[label]["median"]
        text = f"{escape_text(label)}: {format_ms(value)} ms"
        rows.append({"label": escape_text(label), "value": value / 1e6, "text": format_ms(value), "said": text})
    return Figure(
        "round-trips",
        "Round trips by exchange",
        f"{_TRIP}.",
        lambda style: charts.draw_bars(rows, style, x_title="round trip, ms"),
    )


def _make_trip_distribution_figure(timed: pl.DataFrame, order: list[str], stats: dict[str, dict[str, Any]]) -> Figure:
    """A box for the round trips of each exchange, with a table."""
    rows = [
        {
            "label": escape_text(label),
            **{name: stats[label][name] / 1e6 for name in _QUARTILES},
            "said": f"{escape_text(label)}: median {format_ms(stats[label]['median'])} ms of {stats[label]['len']:,}",
        }
        for label in order
    ]
    single = timed if timed.height <= _MAX_ROUND_TRIP_POINTS else timed.head(0)
    dots = [
        {
            "label": escape_text(label),
            "x": ns / 1e6,
            "said": f"handshake {h}, {escape_text(label)}: {format_ms(ns)} ms",
        }
        for h, label, ns in single.select("handshake", "label", "rtt_ns").iter_rows()
    ]
    log = charts.needs_log_scale([ns / 1e6 for ns in timed["rtt_ns"].to_list()])
    labels = [escape_text(label) for label in order]
    columns = (
        TableColumn("exchange"),
        *number_columns("round trips", *(f"{name}, ms" for name in _QUARTILES.values())),
    )
    cells = [
        (
            escape_text(label),
            format_integer(stats[label]["len"]),
            *(format_ms(stats[label][name]) for name in _QUARTILES),
        )
        for label in order
    ]
    return Figure(
        "round-trips",
        "Round trips by exchange",
        f"{_TRIP}: least, quartiles, median and most{', and each' if dots else ''}.",
        lambda style: charts.draw_boxes(rows, dots, style, labels=labels, x_title="round trip, ms", log=log),
        TableSection("Round trips, ms", columns, cells),
    )


def make_link_bytes_figure(analysis: Analysis) -> Iterator[Figure]:
    """Bytes by link and direction, needed once and sent again."""
    messages = analysis.messages.filter("set_up", pl.col("handshake").is_not_null())
    sums = (
        messages.group_by((pl.col("protocol") == "RADIUS").alias("radius"), "sender")
        .agg(pl.len().alias("messages"), pl.col("frames").sum(), pl.col("bytes").sum(), pl.col("needed_bytes").sum())
        .sort("radius", "sender")
    )
    if sums.is_empty():
        return
    others = {"initiator": "responder", "responder": "initiator"}
    rows, table = [], []
    for link in sums.iter_rows(named=True):
        sender = str(link["sender"])
        if link["radius"]:
            label = "AAA → responder" if sender == "aaa" else "responder → AAA"
        else:
            label = f"{sender} → {others[sender]}"
        repeated = link["bytes"] - link["needed_bytes"]
        for part, value in (("needed once", link["needed_bytes"]), ("sent again", repeated)):
            if value:
                text = f"{label}, {part}: {format_count(value, 'byte')}"
                rows.append({"label": label, "part": part, "value": value, "said": text})
        sums_of_link = (*(link[name] for name in ("messages", "frames", "bytes", "needed_bytes")), repeated)
        table.append((label, *map(format_integer, sums_of_link)))
    columns = ("messages", "frames", "bytes", "needed once, bytes", "sent again, bytes")
    parts = {"needed once": "initiator", "sent again": "lost"}
    yield Figure(
        "link-bytes",
        "Bytes by link and direction",
        f"Frame lengths of the set-up, link headers included, of {format_count(analysis.handshakes.height, 'handshake')} "
        "together. What was sent again is beyond one transmission of each message.",
        lambda style: charts.draw_stacked_bars(
            rows,
            style,
            totals={row[0]: row[3] for row in table},
            parts={part: colour for part, colour in parts.items() if any(row["part"] == part for row in rows)},
            x_title="bytes",
        ),
        TableSection("Bytes by link", (TableColumn("direction"), *number_columns(*columns)), table),
    )


def make_payload_bytes_figure(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """Bytes of decrypted handshakes by payload."""
    parts = document.sum_payload_bytes(handshakes)
    if not parts:
        return
    total = sum(part["bytes"] for part in parts)
    rows = []
    for part in parts:
        name, size = escape_text(part["payload"]), part["bytes"]
        text = f"{name}: {format_count(size, 'byte')}, {format_percentage(size, total)}"
        rows.append({"label": name, "value": size, "text": f"{size:,}", "said": text})
    count = int(handshakes["payload_bytes"].is_not_null().sum())
    yield Figure(
        "payload-bytes",
        "Bytes by payload",
        f"What the {total:,} bytes of the set-up are made of, in {format_count(count, 'decrypted handshake')}. "
        "A payload counts with its generic header.",
        lambda style: charts.draw_bars(rows, style, x_title="bytes"),
    )


def make_retransmission_figure(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """Bytes of the set-up against retransmissions."""
    if handshakes.height < 3 or not handshakes["retransmitted_messages"].sum():
        return
    groups = group_by_capture(handshakes)
    rows: list[dict[str, Any]] = []
    means = handshakes.height > _MAX_HANDSHAKE_POINTS
    for group, handshakes_of_group in groups.items():
        table = handshakes_of_group.select(
            pl.col("handshake"),
            pl.col("retransmitted_messages").alias("x"),
            (pl.col("initiator_bytes") + pl.col("responder_bytes")).alias("y"),
        )
        if means:
            summed = table.group_by("x").agg(
                pl.col("y").mean(), pl.col("y").min().alias("low"), pl.col("y").max().alias("high"), pl.len()
            )
            rows += [
                {**r, "group": group, "said": f"{r['x']} retransmissions: mean {r['y']:,.0f} bytes of {r['len']:,}"}
                for r in summed.sort("x").iter_rows(named=True)
            ]
        else:
            rows += [
                {"group": group, "x": x, "y": y, "said": f"handshake {h}: {x} retransmissions, {y:,} bytes"}
                for h, x, y in table.iter_rows()
            ]
    caption = (
        "Means over all handshakes with as many, with the least and the most." if means else "A point a handshake."
    )
    yield Figure(
        "bytes-retransmissions",
        "Bytes against retransmissions",
        f"Bytes of the set-up on the link initiator-responder. {caption}",
        lambda style: charts.draw_points(
            rows, style, groups=list(groups), x_title="retransmitted messages", y_title="bytes"
        ),
    )
