"""The columns of the list of handshakes: their text, order and search table."""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.values import escape_text, format_integer, format_iso_time, format_key_exchanges, format_ms
from ikeanalyze.view.text_lines import SPECIAL, WRONG

_OUTCOMES: Final = {"failed": WRONG, "unanswered": WRONG, "half-open": WRONG, "cut": SPECIAL}
_MAX_WIDTH: Final = 45  # cells of a column: an IPv6 address with a dotted end
_DAY: Final = 86_400_000_000_000  # ns
#: Columns of the list table that are searched.
_TEXTS: Final = (
    *("initiator", "responder", "aaa", "outcome", "reason", "child_error", "kex", "spii", "spir", "auth"),
    *("protocol", "algorithms", "diagnosis"),
)


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One column of the list."""

    name: str  # in the heading and in filters
    source: str  # column of the list table to sort and filter by
    text: Callable[[dict[str, Any]], str]  # of a row of the list table
    right: bool = False  # right-aligned, as numbers are
    style: Callable[[dict[str, Any]], str] | None = None


def build_list_table(handshakes: pl.DataFrame) -> pl.DataFrame:
    """Return the list table: for each handshake the values to show, sort by and search, in order of ids.

    The column `search` has all texts of a row in lower case.
    """
    table = cast_text_columns(handshakes).sort("handshake")
    additional = (
        pl.col("additional_key_exchanges")
        .list.eval(pl.coalesce(pl.element().struct.field("method"), pl.lit("?")))
        .list.join(" + ")
    )
    codes = pl.col("diagnosis").list.eval(pl.element().struct.field("code"))
    table = table.select(
        "handshake",
        "protocol",
        pl.col("start_ns").alias("time"),
        pl.col("initiator_address").alias("initiator"),
        "initiator_port",
        pl.col("responder_address").alias("responder"),
        "responder_port",
        pl.col("aaa_address").alias("aaa"),
        "rekeyed",
        "outcome",
        "reason",
        "child_error",
        codes.list.join(" ").alias("diagnosis"),
        pl.col("diagnosis").list.first().struct.field("message").alias("problem"),
        (pl.col("initiator_messages") + pl.col("responder_messages")).alias("messages"),
        (pl.col("initiator_bytes") + pl.col("responder_bytes")).alias("bytes"),
        pl.col("setup_ns").alias("setup"),
        pl.col("uncertain").is_not_null().alias("uncertain"),
        pl.col("retransmitted_messages").alias("retransmissions"),
        pl.col("aaa_retransmitted_messages").alias("aaa_retransmissions"),
        "key_exchange",
        "additional_key_exchanges",
        pl.concat_str("key_exchange", additional, separator=" + ", ignore_nulls=True).alias("kex"),
        # HIP has HITs instead of SPIs
        pl.coalesce("spi_i", "initiator_hit").alias("spii"),
        pl.coalesce("spi_r", "responder_hit").alias("spir"),
        pl.concat_str("auth_initiator", "auth_responder", "auth_eap", separator=" ", ignore_nulls=True).alias("auth"),
        "auth_guessed",
        "nat",
        "tunnel",
        pl.concat_str("encryption", "prf", "integrity", separator=" ", ignore_nulls=True).alias("algorithms"),
    )
    numbers = ("handshake", "initiator_port", "responder_port", "messages", "bytes")
    time = pl.from_epoch("time", time_unit="ns").dt.strftime("%Y-%m-%d %H:%M:%S%.6f")
    return table.with_columns(
        pl.concat_str(
            *_TEXTS, time, *(pl.col(name).cast(pl.String) for name in numbers), separator=" ", ignore_nulls=True
        )
        .str.to_lowercase()
        .alias("search")
    )


def make_list_columns(table: pl.DataFrame) -> list[ListColumn]:
    """Return the columns of the list for the contents of `table`."""
    times = table["time"].drop_nulls()
    with_date = len(times) > 0 and int(times.max()) // _DAY != int(times.min()) // _DAY  # type: ignore[arg-type]
    columns = [
        _make_number_column("#", "handshake"),
        ListColumn("time", "time", lambda row: _format_time(row["time"], with_date=with_date)),
        ListColumn("initiator", "initiator", lambda row: escape_text(row["initiator"] or "-")),
        ListColumn("responder", "responder", lambda row: escape_text(row["responder"] or "-")),
        ListColumn(
            "outcome", "outcome", lambda row: row["outcome"] or "-", style=lambda row: _OUTCOMES.get(row["outcome"], "")
        ),
        _make_number_column("msgs", "messages"),
        _make_number_column("bytes", "bytes"),
        # `compute_widths` passes a row with this value alone, for which the mark has room
        ListColumn(
            "set-up, ms", "setup", lambda row: format_ms(row["setup"], uncertain=row.get("uncertain", True)), right=True
        ),
        _make_number_column("rtx", "retransmissions", lambda row: SPECIAL if row["retransmissions"] else ""),
        ListColumn("key exchange", "kex", _format_key_exchanges),
    ]
    if table["reason"].null_count() < table.height:
        columns.append(ListColumn("reason", "reason", lambda row: escape_text(row["reason"] or "")))
    return columns


def _make_number_column(name: str, source: str, style: Callable[[dict[str, Any]], str] | None = None) -> ListColumn:
    return ListColumn(name, source, lambda row: format_integer(row[source]), right=True, style=style)


def _format_key_exchanges(row: dict[str, Any]) -> str:
    return format_key_exchanges(row["key_exchange"], row["additional_key_exchanges"]) or "-"


def _format_time(ns: int | None, *, with_date: bool) -> str:
    """Return a UTC time to the millisecond."""
    text = format_iso_time(ns)
    if text is None:
        return "-"
    return f"{text[:10]} {text[11:23]}" if with_date else text[11:23]


def sort_rows(table: pl.DataFrame, by: str, *, falling: bool) -> pl.Series:
    """Return row numbers in the order of a column. Unknown values are last; addresses are sorted numerically."""
    column = table[by]
    if by in ("initiator", "responder"):
        known = column.unique().drop_nulls().to_list()
        ranks = {text: rank for rank, text in enumerate(sorted(known, key=_get_address_key))}
        column = column.replace_strict(ranks, default=None, return_dtype=pl.UInt32)
    return column.arg_sort(descending=falling, nulls_last=True)


def _get_address_key(text: str) -> tuple[int, int]:
    address = ipaddress.ip_address(text)
    return address.version, int(address)


def compute_widths(columns: Sequence[ListColumn], table: pl.DataFrame) -> list[int]:
    """Return the width of each column in cells, the same for all rows."""
    widths = []
    for column in columns:
        series = table[column.source]
        longest: Any = series.str.len_chars().max() if series.dtype == pl.String else None
        if longest is None and not series.is_empty():
            longest = len(column.text({column.source: series.max()}))
        widths.append(min(max(len(column.name), longest or 0), _MAX_WIDTH))
    return widths
