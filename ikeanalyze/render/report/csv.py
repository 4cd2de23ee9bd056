"""The handshakes of a report as CSV, one row each, without rekeyed IKE SAs.

The columns are those of the handshakes table, with points in time as ISO 8601 (`*_time`), durations in
milliseconds (`*_ms`), lists as text separated by "; ", and three columns for each phase that occurs
(`phase_IKE_AUTH_bytes`).

The columns from decrypted payloads follow: `key_exchange_bytes` (public values, encapsulation keys and ciphertexts of
the set-up), `key_exchange_findings`, `certificate_bytes` with its three parts, and a column for each payload that
occurs (`payload_KE_bytes`). They are empty if nothing was decrypted or the value is unknown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.schema import HANDSHAKES
from ikeanalyze.render.core.columns import cast_text_columns, format_duration_columns, format_time_columns
from ikeanalyze.render.core.values import escape_cell
from ikeanalyze.render.report.selection import select_set_ups

#: Returns the expression of a field of a struct.
Field = Callable[[str], pl.Expr]

_ROWS_AT_ONCE: Final = 50_000
#: A text that `escape_cell` may change.
_UNSAFE: Final = r"^[=+\-@]|[^\x20-\x7e]"


def write_csv(analysis: Analysis, out: TextIO) -> None:
    """Write a heading and a row per handshake."""
    handshakes = select_set_ups(analysis).handshakes
    if not handshakes["handshake"].is_sorted():
        handshakes = handshakes.sort("handshake")
    names = find_list_names(handshakes)
    out.write(flatten_handshakes(handshakes.clear(), names).write_csv())
    # in slices, because the flat table takes as much memory as the handshakes
    for rows in handshakes.iter_slices(_ROWS_AT_ONCE):
        out.write(_escape_cells(flatten_handshakes(rows, names)).write_csv(include_header=False))


def _escape_cells(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with `escape_cell` applied to the columns that need it: file names, mostly."""
    texts = pl.col(pl.String)
    unsafe = rows.select(texts.str.contains(_UNSAFE).any()).row(0, named=True)
    return rows.with_columns(
        pl.col(name).map_elements(escape_cell, return_dtype=pl.String)
        for name, is_unsafe in unsafe.items()
        if is_unsafe
    )


@dataclass(frozen=True, slots=True)
class ListNames:
    """What occurs in the lists of handshakes, and has columns of its own in a flat table."""

    phases: list[str]
    payloads: list[str]


def find_list_names(handshakes: pl.DataFrame) -> ListNames:
    """The phases in the order in which they occur, and the payloads by name."""
    types = handshakes["phases"].explode().struct.field("type").unique(maintain_order=True)
    payloads = handshakes["payload_bytes"].explode().struct.field("payload").unique()
    return ListNames(types.drop_nulls().to_list(), payloads.drop_nulls().sort().to_list())


def flatten_handshakes(handshakes: pl.DataFrame, names: ListNames) -> pl.DataFrame:
    """Return rows of the handshakes table with only numbers and text; `names` are those of the whole table."""
    points = ["start_ns", "end_ns"]
    spans = [name for name in HANDSHAKES if name.endswith("_ns") and name not in points]
    lists = [name for name, kind in HANDSHAKES.items() if kind == pl.List(pl.String)]
    slot = pl.element().struct
    table = (
        cast_text_columns(handshakes)
        .with_columns(
            *format_time_columns(points),
            *format_duration_columns(spans),
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
            _join_texts("key_exchanges", _key_exchange),
            _join_texts("certificates", _format_certificate),
            *_format_diagnoses(),
        )
        .rename({**{n: f"{n[:-3]}_time" for n in points}, **{n: f"{n[:-3]}_ms" for n in spans}})
        .drop("rekeyed", "phases", "payload_bytes")
    )
    for more in (
        _flatten_phases(handshakes, names.phases),
        _flatten_structs(handshakes),
        _flatten_parts(handshakes, names.payloads),
    ):
        table = table.join(more, on="handshake", how="left", maintain_order="left")
    return table


def _join_texts(column: str, text: Callable[[Field], pl.Expr]) -> pl.Expr:
    """A list of structs as text."""
    return pl.col(column).list.eval(text(lambda name: pl.element().struct.field(name))).list.join("; ")


def _key_exchange(field: Field) -> pl.Expr:
    """IKE SA 1 ML-KEM-768 1184/1088: purpose, slot, method, bytes of request and response; ? if unknown."""
    cells = [field(name).cast(pl.String).fill_null("?") for name in ("slot", "request_bytes", "response_bytes")]
    return pl.format("{} {} {} {}/{}", field("purpose"), cells[0], field("method"), *cells[1:])


def _format_certificate(field: Field) -> pl.Expr:
    """Sender, name and signature algorithm."""
    signed = pl.format(", signed with {}", field("signature")).fill_null("")
    return pl.format("{} {}{}", field("side"), field("name"), signed)


def _format_diagnoses() -> list[pl.Expr]:
    """The codes of the diagnoses in `diagnosis`, and a column for each of their other facts that people need."""

    def text(name: str) -> pl.Expr:
        return _join_texts("diagnosis", lambda field: field(name)).alias(
            "diagnosis" if name == "code" else f"diagnosis_{name}"
        )

    frames = _join_texts("diagnosis", lambda field: field("frames").cast(pl.List(pl.String)).list.join(" "))
    return [*map(text, ("code", "confidence", "message", "remedy", "rfc")), frames.alias("diagnosis_frames")]


def _flatten_structs(handshakes: pl.DataFrame) -> pl.DataFrame:
    """Sums over the key exchanges of the set-up, and over the certificates."""
    sizes = {"bytes": "", "key_bytes": "key_", "signature_bytes": "signature_", "other_bytes": "other_"}
    field = pl.element().struct.field
    exchanged = pl.when(field("purpose") == "IKE SA").then(
        pl.sum_horizontal(field("request_bytes"), field("response_bytes")).cast(pl.UInt64)
    )
    # certificates of IKEv1 are not decoded
    certificates = pl.when(pl.col("protocol") != "IKEv1").then(pl.col("certificates"))
    return handshakes.select(
        "handshake",
        pl.col("key_exchanges").list.eval(exchanged).list.sum().replace(0, None).alias("key_exchange_bytes"),
        pl.col("key_exchanges")
        .list.eval(field("findings").list.join("; ").replace("", None))
        .list.join("; ", ignore_nulls=True)
        .alias("key_exchange_findings"),
        *(
            certificates.list.eval(field(name).cast(pl.UInt64)).list.sum().alias(f"certificate_{part}bytes")
            for name, part in sizes.items()
        ),
    )


def _explode(handshakes: pl.DataFrame, column: str) -> pl.DataFrame:
    """A row for each struct in the lists of a column, with the handshake and the struct's fields."""
    return handshakes.select("handshake", column).explode(column).drop_nulls(column).unnest(column)


def _flatten_parts(handshakes: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """`payload_NAME_bytes` for every payload that occurs, 0 if a decrypted handshake lacks it."""
    rows = _explode(handshakes, "payload_bytes")
    return rows.group_by("handshake").agg(
        pl.col("bytes").filter(pl.col("payload") == name).sum().alias(f"payload_{name.replace(' ', '_')}_bytes")
        for name in names
    )


def _flatten_phases(handshakes: pl.DataFrame, types: list[str]) -> pl.DataFrame:
    """`phase_TYPE_messages`, `..._frames` and `..._bytes` for every phase that occurs."""
    rows = _explode(handshakes, "phases")
    return rows.group_by("handshake").agg(
        pl.col(count).filter(pl.col("type") == kind).first().alias(f"phase_{kind}_{count}")
        for kind in types
        for count in ("messages", "frames", "bytes")
    )
