"""Columns that handshakes are grouped by or narrowed down with: which there are, their values, their order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import polars as pl
from polars.datatypes import DataType

from ikeanalyze.dataset.compare.errors import CompareError
from ikeanalyze.dataset.compare.metrics import Columns

#: What a column has of a handshake; None: it is not known.
Value = str | int | float | bool | None
T = TypeVar("T")

#: How an unknown value is written, in what is shown and in what is asked for.
UNKNOWN: Final = "-"
#: How a list with nothing in it is written.
NONE: Final = "none"

_NUMBERS: Final = re.compile(r"(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class RowCondition:
    """What a column must have."""

    column: str
    value: str  # as text; UNKNOWN: nothing

    def __str__(self) -> str:
        return f"{self.column}={self.value}"


def format_value(value: Value) -> str:
    """A value as it is shown: 5 and not 5.0."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def get_group_column(name: str, columns: Columns, labels: Sequence[str], argument: str) -> pl.Expr:
    """The values of a column of the handshakes table: numbers, booleans, or text; of lists the items after one another, or `NONE`.

    Raises `CompareError` if there is no such column, with those that there are; `argument` is where it was named.
    """
    value = _simple(name, columns[name]) if name in columns else None
    if value is not None:
        return value
    others = [other for other in columns if other not in labels and _simple(other, columns[other]) is not None]
    known = f"labels {join_values(labels)}; of each handshake {join_values(others)}" if labels else join_values(others)
    problem = f"{name} has several values" if name in columns else f"there is no column {name!r}"
    raise CompareError(f"{problem}; there are {known}", argument)


def _simple(name: str, kind: DataType) -> pl.Expr | None:
    """The value of a column, None if it is none that handshakes could share."""
    value = pl.col(name)
    if kind.is_numeric() or kind == pl.Boolean:
        return value
    if name == "additional_key_exchanges":
        slot = pl.element().struct
        method = slot.field("method").fill_null(pl.format("method {}", slot.field("id")))
        return _joined(value, value.list.eval(method).list.join(" + "))
    if kind == pl.List(pl.String):
        return _joined(value, value.list.join(", "))
    return None if kind.is_nested() else value.cast(pl.String)


def _joined(items: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The text of a list; an empty one is not what is unknown, and needs a name."""
    return pl.when(items.is_null() | (items.list.len() > 0)).then(text).otherwise(pl.lit(NONE))


def match_conditions(conditions: Sequence[RowCondition], columns: Columns, labels: Sequence[str]) -> pl.Expr:
    """Whether a handshake meets the conditions, of those on the same column any."""
    by_column: dict[str, list[pl.Expr]] = {}
    for condition in conditions:
        has = get_group_column(condition.column, columns, labels, "where")
        if condition.value == UNKNOWN:
            met = has.is_null()
        elif columns[condition.column].is_numeric():
            met = has == _number(condition)
        else:
            met = has.cast(pl.String) == condition.value
        by_column.setdefault(condition.column, []).append(met)
    return pl.all_horizontal(pl.lit(True), *(pl.any_horizontal(some) for some in by_column.values()))


def _number(condition: RowCondition) -> float:
    try:
        return float(condition.value)
    except ValueError:
        raise CompareError(f"{condition.column} is a number, and {condition.value!r} is none", "where") from None


def matches_value(value: Value, given: str) -> bool:
    """Whether `given` on the command line is this value: 5 and 5.0 are the same number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(given) == value
        except ValueError:
            return False
    return format_value(value) == given


def sort_groups(groups: Mapping[tuple[Value, ...], T]) -> dict[tuple[Value, ...], T]:
    """Numbers by size, text as people count (ML-KEM-512 before ML-KEM-1024), what is unknown last."""
    return dict(sorted(groups.items(), key=lambda group: [_rank(value) for value in group[0]]))


def _rank(value: Value) -> tuple[int, float, list[tuple[str, float]]]:
    if value is None:
        return 2, 0, []
    if not isinstance(value, str):
        return 0, value, []
    parts = [*_NUMBERS.split(value), "0"]  # text and number in turns
    return 1, 0, [(parts[i], float(parts[i + 1])) for i in range(0, len(parts), 2)]


def join_values(values: Iterable[Value]) -> str:
    """Values after one another."""
    return ", ".join(map(format_value, values))
