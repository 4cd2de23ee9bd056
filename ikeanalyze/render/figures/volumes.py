"""Figures of bytes: by link and direction, by payload, against retransmissions."""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document
from ikeanalyze.render.figures import charts
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.figures.groups import group_by_capture
from ikeanalyze.render.section import TableSection
from ikeanalyze.render.table import TableColumn, number_columns
from ikeanalyze.render.values import escape_text, format_count, format_integer, format_percentage

_MAX_HANDSHAKE_POINTS: Final = 1_000  # handshakes that are drawn one by one; more become means


def make_link_bytes_figure(analysis: Analysis) -> Iterator[Figure]:
    """What crossed each link in each direction, and how much of it more than once."""
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
    for one in sums.iter_rows(named=True):
        sender = str(one["sender"])
        if one["radius"]:
            label = "AAA → responder" if sender == "aaa" else "responder → AAA"
        else:
            label = f"{sender} → {others[sender]}"
        again = one["bytes"] - one["needed_bytes"]
        for part, value in (("needed once", one["needed_bytes"]), ("sent again", again)):
            if value:
                said = f"{label}, {part}: {format_count(value, 'byte')}"
                rows.append({"label": label, "part": part, "value": value, "said": said})
        table.append(
            (
                label,
                *(format_integer(one[w]) for w in ("messages", "frames", "bytes", "needed_bytes")),
                format_integer(again),
            )
        )
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
    """What the bytes of decrypted handshakes are made of."""
    parts = document.sum_payload_bytes(handshakes)
    if not parts:
        return
    whole = sum(part["bytes"] for part in parts)
    rows = [
        {
            "label": escape_text(part["payload"]),
            "value": part["bytes"],
            "text": f"{part['bytes']:,}",
            "said": f"{escape_text(part['payload'])}: {format_count(part['bytes'], 'byte')}, {format_percentage(part['bytes'], whole)}",
        }
        for part in parts
    ]
    known = int(handshakes["payload_bytes"].is_not_null().sum())
    yield Figure(
        "payload-bytes",
        "Bytes by payload",
        f"What the {whole:,} bytes of the set-up are made of, in {format_count(known, 'decrypted handshake')}. "
        "A payload counts with its generic header.",
        lambda style: charts.draw_bars(rows, style, x_title="bytes"),
    )


def make_retransmission_figure(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """What retransmissions cost."""
    if handshakes.height < 3 or not handshakes["retransmitted_messages"].sum():
        return
    groups = group_by_capture(handshakes)
    rows: list[dict[str, Any]] = []
    means = handshakes.height > _MAX_HANDSHAKE_POINTS
    for group, some in groups.items():
        table = some.select(
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
                {"group": group, "x": x, "y": y, "said": f"handshake {h:,}: {x} retransmissions, {y:,} bytes"}
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
