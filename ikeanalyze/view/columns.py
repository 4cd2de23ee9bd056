"""The columns of the list of handshakes: their text and order."""

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.tables.search_table import build_search_table
from ikeanalyze.render.core.values import (
    escape_text,
    format_identifier,
    format_integer,
    format_iso_time,
    format_key_exchanges,
    format_ms,
)
from ikeanalyze.view.text_lines import SPECIAL, WRONG

_OUTCOMES: Final = {"failed": WRONG, "unanswered": WRONG, "half-open": WRONG, "cut": SPECIAL}
_MAX_WIDTH: Final = 45  # cells of a column: an IPv6 address with a dotted end
_DAY: Final = 86_400_000_000_000  # ns


@dataclass(frozen=True, slots=True)
class ListColumn:
    """One column of the list."""

    name: str  # in the heading and in filters
    source: str  # column of the list table to sort and filter by
    text: Callable[[dict[str, Any]], str]  # of a row of the list table
    right: bool = False  # right-aligned, as numbers are
    style: Callable[[dict[str, Any]], str] | None = None


def build_list_table(handshakes: pl.DataFrame) -> pl.DataFrame:
    """Return the search table of the handshakes, in order of ids."""
    return build_search_table(handshakes.sort("handshake"))


def make_list_columns(table: pl.DataFrame) -> list[ListColumn]:
    """Return the columns of the list for the contents of `table`."""
    times = table["time"].drop_nulls()
    with_date = len(times) > 0 and int(times.max()) // _DAY != int(times.min()) // _DAY  # type: ignore[arg-type]
    columns = [
        ListColumn("#", "handshake", lambda row: format_identifier(row["handshake"]), right=True),
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
