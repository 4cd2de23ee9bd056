"""Figures of time: where that of the set-up went, and the round trips of its exchanges."""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from ikeanalyze.render.columns import cast_text_columns
from ikeanalyze.render.figures import charts
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.section import TableSection
from ikeanalyze.render.table import TableColumn, number_columns
from ikeanalyze.render.values import escape_text, format_count, format_integer, format_ms

#: Handshakes that have a bar of their own; of more, those at these ranks.
_BARS: Final = 25
_RANKS: Final = (
    ("fastest", 0.0),
    ("quarter", 0.25),
    ("median", 0.5),
    ("three quarters", 0.75),
    ("95 %", 0.95),
    ("slowest", 1.0),
)
_MAX_ROUND_TRIP_POINTS: Final = 1_000  # round trips that are drawn one by one
_EXCHANGES: Final = 14  # that are told apart by their message IDs

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
    ("responder", "responder_ns", "responder"),
    ("AAA server", "aaa_ns", "aaa"),
    ("network", "network_ns", "network"),
    ("waiting to retransmit", "retransmission_wait_ns", "waiting"),
)


def make_setup_time_figure(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """Bars of the parts of the set-up time: of each handshake, of many their mean and some of them."""
    known = handshakes.filter(pl.col("setup_ns").is_not_null()).sort("handshake")
    if known.is_empty():
        return
    columns = [column for _, column, _ in PARTS]
    shown: list[tuple[str, dict[str, Any]]]
    if known.height <= _BARS:
        shown = [(f"handshake {row['handshake']:,}", row) for row in known.iter_rows(named=True)]
        caption = f"{format_count(known.height, 'handshake')} with a set-up time, each divided as in its breakdown."
    else:
        # a part that is null is contained in the others
        parts = (pl.col(column).fill_null(0).mean() for column in [*columns, "setup_ns"])
        mean = known.select(parts).row(0, named=True)
        by_time = known.sort("setup_ns", "handshake")
        shown = [("mean of all", mean)]
        for name, rank in _RANKS:
            row = by_time.row(round(rank * (known.height - 1)), named=True)
            shown.append((f"{name} (no. {row['handshake']:,})", row))
        caption = f"The mean of {known.height:,} handshakes with a set-up time, and single ones by their rank."
    if known["network_ns"].null_count():
        caption += " Where the side of the capture is not known, the network's part is contained in the peers'."
    used = [part for part in PARTS if any(row[part[1]] for _, row in shown)]
    rows = [
        {
            "label": label,
            "part": name,
            "value": row[column] / 1e6,
            "said": f"{label}, {name}: {format_ms(row[column])} ms",
        }
        for label, row in shown
        for name, column, _ in used
        if row[column]
    ]
    if not rows:
        return
    totals = {label: format_ms(row["setup_ns"]) for label, row in shown}
    numbers = TableSection(
        "Where the set-up time went, ms",
        (
            TableColumn("handshake"),
            *(TableColumn(f"{name}, ms", right=True) for name, _, _ in used),
            TableColumn("total, ms", right=True),
        ),
        [
            (label, *(format_ms(row[column]) for _, column, _ in used), format_ms(row["setup_ns"]))
            for label, row in shown
        ],
    )
    colours = {name: colour for name, _, colour in used}
    yield Figure(
        "setup-parts",
        "Where the set-up time went",
        caption,
        lambda style: charts.draw_stacked_bars(rows, style, totals=totals, parts=colours, x_title="set-up time, ms"),
        numbers,
    )


def make_round_trip_figure(exchanges: pl.DataFrame) -> Iterator[Figure]:
    """Round-trip times by exchange: one value each, or how they are distributed."""
    known = exchanges.filter("set_up", pl.col("rtt_ns").is_not_null())
    known = known.with_columns(*cast_text_columns(known)).sort("handshake", "exchange")
    if known.is_empty():
        return
    labels = known.select(pl.concat_str("type", pl.lit(" "), "message_id").alias("label"))["label"]
    if labels.n_unique() > _EXCHANGES:
        labels = known["type"]
    known = known.with_columns(labels.alias("label"))
    first_ids = known.group_by("label", maintain_order=True).agg(pl.col("message_id").min())
    order = first_ids.sort("message_id", maintain_order=True)["label"].to_list()
    rtt = pl.col("rtt_ns")
    quartiles = rtt.quantile(0.25, "linear").alias("first"), rtt.quantile(0.75, "linear").alias("third")
    bounds = rtt.min().alias("low"), rtt.median().alias("median"), rtt.max().alias("high")
    table = known.group_by("label").agg(*bounds, *quartiles, pl.len())
    stats = {row["label"]: row for row in table.iter_rows(named=True)}
    yield _single_trips(order, stats) if table["len"].max() == 1 else _many_trips(known, order, stats)


def _single_trips(order: list[str], stats: dict[str, dict[str, Any]]) -> Figure:
    """A bar for the only round trip of each exchange."""
    rows = []
    for label in order:
        value = stats[label]["median"]
        said = f"{escape_text(label)}: {format_ms(value)} ms"
        rows.append({"label": escape_text(label), "value": value / 1e6, "text": format_ms(value), "said": said})
    return Figure(
        "round-trips",
        "Round trips by exchange",
        f"{_TRIP}.",
        lambda style: charts.draw_bars(rows, style, x_title="round trip, ms"),
    )


def _many_trips(known: pl.DataFrame, order: list[str], stats: dict[str, dict[str, Any]]) -> Figure:
    """A box for the round trips of each exchange, with a table."""
    rows = [
        {
            "label": escape_text(label),
            **{name: stats[label][name] / 1e6 for name in _QUARTILES},
            "said": f"{escape_text(label)}: median {format_ms(stats[label]['median'])} ms of {stats[label]['len']:,}",
        }
        for label in order
    ]
    few = known if known.height <= _MAX_ROUND_TRIP_POINTS else known.head(0)
    dots = [
        {
            "label": escape_text(label),
            "x": ns / 1e6,
            "said": f"handshake {handshake:,}, {escape_text(label)}: {format_ms(ns)} ms",
        }
        for handshake, label, ns in few.select("handshake", "label", "rtt_ns").iter_rows()
    ]
    log = charts.needs_log_scale([ns / 1e6 for ns in known["rtt_ns"].to_list()])
    labels = [escape_text(label) for label in order]
    return Figure(
        "round-trips",
        "Round trips by exchange",
        f"{_TRIP}: least, quartiles, median and most{', and each' if dots else ''}.",
        lambda style: charts.draw_boxes(rows, dots, style, labels=labels, x_title="round trip, ms", log=log),
        TableSection(
            "Round trips, ms",
            (TableColumn("exchange"), *number_columns("round trips", *(f"{name}, ms" for name in _QUARTILES.values()))),
            [
                (
                    escape_text(label),
                    format_integer(stats[label]["len"]),
                    *(format_ms(stats[label][name]) for name in _QUARTILES),
                )
                for label in order
            ],
        ),
    )
