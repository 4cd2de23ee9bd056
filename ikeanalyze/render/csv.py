"""CSV: a row per handshake, for spreadsheets and R.

The columns are those of the handshakes table, with points in time as ISO 8601 (`*_time`), durations in
milliseconds (`*_ms`), lists as text separated by "; ", and three columns for each phase that occurs
(`phase_IKE_AUTH_bytes`).
"""

from typing import Final, TextIO

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.schema import HANDSHAKES
from ikeanalyze.render import View
from ikeanalyze.render.document import durations, text_columns, times

_ROWS_AT_ONCE: Final = 10_000


def write(analysis: Analysis, out: TextIO, view: View) -> None:  # noqa: ARG001 - CSV always has everything
    """Write a heading and a row per handshake."""
    table = flat(analysis.handshakes)
    out.write(table.clear().write_csv())
    for rows in table.iter_slices(_ROWS_AT_ONCE):
        out.write(rows.write_csv(include_header=False))


def flat(handshakes: pl.DataFrame) -> pl.DataFrame:
    """The handshakes table with nothing in it but numbers and text."""
    points = ["start_ns", "end_ns"]
    spans = [name for name in HANDSHAKES if name.endswith("_ns") and name not in points]
    lists = [name for name, kind in HANDSHAKES.items() if kind == pl.List(pl.String)]
    slot = pl.element().struct
    phases = _phases(handshakes)
    return (
        handshakes.sort("handshake")
        .with_columns(
            *times(points),
            *durations(spans),
            *text_columns(handshakes),
            *(pl.col(name).list.join("; ") for name in lists),
            pl.col("additional_key_exchanges")
            .list.eval(
                pl.format(
                    "{} {}",
                    slot.field("slot"),
                    slot.field("method").fill_null(pl.format("method {}", slot.field("id"))),
                )
            )
            .list.join("; "),
        )
        .rename({**{n: f"{n[:-3]}_time" for n in points}, **{n: f"{n[:-3]}_ms" for n in spans}})
        .join(phases, on="handshake", how="left", maintain_order="left")
        .drop("phases")
    )


def _phases(handshakes: pl.DataFrame) -> pl.DataFrame:
    """`phase_TYPE_messages`, `..._frames` and `..._bytes` for every phase that occurs."""
    rows = (
        handshakes.select("handshake", "phases")
        .explode("phases")
        .drop_nulls("phases")
        .unnest("phases")
        .select("handshake", "type", "messages", "frames", "bytes")
    )
    types = rows["type"].unique(maintain_order=True).to_list()
    return rows.group_by("handshake").agg(
        pl.col(what).filter(pl.col("type") == kind).first().alias(f"phase_{kind}_{what}")
        for kind in types
        for what in ("messages", "frames", "bytes")
    )
