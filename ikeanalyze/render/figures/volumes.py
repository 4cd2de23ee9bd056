"""Figures of bytes: by link and direction, by payload, against retransmissions."""

from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document
from ikeanalyze.render.figures import charts
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.figures.groups import by_capture
from ikeanalyze.render.section import Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import clean, count, number, share

_POINTS: Final = 1_000  # handshakes that are drawn one by one; more become means


def link_bytes(analysis: Analysis) -> Iterator[Figure]:
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
                said = f"{label}, {part}: {count(value, 'byte')}"
                rows.append({"label": label, "part": part, "value": value, "said": said})
        table.append((label, *(number(one[w]) for w in ("messages", "frames", "bytes", "needed_bytes")), number(again)))
    columns = ("messages", "frames", "bytes", "needed once, bytes", "sent again, bytes")
    parts = {"needed once": "initiator", "sent again": "lost"}
    yield Figure(
        "link-bytes",
        "Bytes by link and direction",
        f"Frame lengths of the set-up, link headers included, of {count(analysis.handshakes.height, 'handshake')} "
        "together. What was sent again is beyond one transmission of each message.",
        lambda style: charts.stacked_bars(
            rows,
            style,
            totals={row[0]: row[3] for row in table},
            parts={part: colour for part, colour in parts.items() if any(row["part"] == part for row in rows)},
            x_title="bytes",
        ),
        Table("Bytes by link", (Column("direction"), *number_columns(*columns)), table),
    )


def payload_bytes(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """What the bytes of decrypted handshakes are made of."""
    parts = document.payload_bytes(handshakes)
    if not parts:
        return
    whole = sum(part["bytes"] for part in parts)
    rows = [
        {
            "label": clean(part["payload"]),
            "value": part["bytes"],
            "text": f"{part['bytes']:,}",
            "said": f"{clean(part['payload'])}: {count(part['bytes'], 'byte')}, {share(part['bytes'], whole)}",
        }
        for part in parts
    ]
    known = int(handshakes["payload_bytes"].is_not_null().sum())
    yield Figure(
        "payload-bytes",
        "Bytes by payload",
        f"What the {whole:,} bytes of the set-up are made of, in {count(known, 'decrypted handshake')}. "
        "A payload counts with its generic header.",
        lambda style: charts.bars(rows, style, x_title="bytes"),
    )


def bytes_by_retransmissions(handshakes: pl.DataFrame) -> Iterator[Figure]:
    """What retransmissions cost."""
    if handshakes.height < 3 or not handshakes["retransmitted_messages"].sum():
        return
    groups = by_capture(handshakes)
    rows: list[dict[str, Any]] = []
    means = handshakes.height > _POINTS
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
        lambda style: charts.points(
            rows, style, groups=list(groups), x_title="retransmitted messages", y_title="bytes"
        ),
    )
