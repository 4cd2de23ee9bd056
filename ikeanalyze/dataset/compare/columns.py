"""Columns for grouping and filtering handshakes: their expressions, values and order."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import polars as pl
from polars.datatypes import DataType

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.metrics import Columns
from ikeanalyze.io.suggestions import suggest_names

#: Value of a column; None: unknown.
Value = str | int | float | bool | None
T = TypeVar("T")

#: Text of an unknown value, in output and arguments.
UNKNOWN: Final = "-"
#: Text of an empty list.
NONE: Final = "none"

#: Labels that an error names: recordings of the lab have dozens.
_LABELS_NAMED: Final = 8

_NUMBERS: Final = re.compile(r"(\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A column and the value that it must have."""

    column: str
    value: str  # as text; UNKNOWN: null

    def __str__(self) -> str:
        return f"{self.column}={self.value}"


def format_value(value: Value) -> str:
    """A value as text; 5.0 becomes 5."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def get_group_column(name: str, columns: Columns, labels: Sequence[str], argument: str) -> pl.Expr:
    """The values of a column of the handshakes table: numbers, booleans or text; lists are joined, or `NONE` if empty.

    Raises:
        CompareError: unknown column; the text names the labels and similar columns. `argument` is the argument that
            names the column.
    """
    value = _get_scalar(name, columns[name]) if name in columns else None
    if value is not None:
        return value
    known = f"(labels {join_values(labels[:_LABELS_NAMED])}" if labels else "("
    if (more := len(labels) - _LABELS_NAMED) > 0:
        known += f" and {more} more in the dataset's manifest.json"
    known += f"{'; ' if labels else ''}docs/compare.md lists the columns of each handshake)"
    if name in columns:
        raise CompareError(f"{name} has several values {known}", argument)
    scalars = [other for other in columns if _get_scalar(other, columns[other]) is not None]
    hint = suggest_names(name, (*labels, *scalars))
    raise CompareError(f"unknown column {name!r}{f'; {hint}' if hint else ' '}{known}", argument)


def _get_scalar(name: str, dtype: DataType) -> pl.Expr | None:
    """The values of a column as scalars; None: they cannot be represented as scalars."""
    value = pl.col(name)
    if dtype.is_numeric() or dtype == pl.Boolean:
        return value
    if name == "additional_key_exchanges":
        slot = pl.element().struct
        method = slot.field("method").fill_null(pl.format("method {}", slot.field("id")))
        return _join_list(value, value.list.eval(method).list.join(" + "))
    if dtype == pl.List(pl.String):
        return _join_list(value, value.list.join(", "))
    return None if dtype.is_nested() else value.cast(pl.String)


def _join_list(items: pl.Expr, text: pl.Expr) -> pl.Expr:
    """The text of a list; an empty list is distinct from an unknown one."""
    return pl.when(items.is_null() | (items.list.len() > 0)).then(text).otherwise(pl.lit(NONE))


def match_conditions(conditions: Sequence[RowCondition], columns: Columns, labels: Sequence[str]) -> pl.Expr:
    """Whether a handshake meets the conditions; those on the same column are ORed."""
    by_column: dict[str, list[pl.Expr]] = {}
    for condition in conditions:
        value = get_group_column(condition.column, columns, labels, "where")
        if condition.value == UNKNOWN:
            met = value.is_null()
        elif columns[condition.column].is_numeric():
            met = value == _parse_number(condition)
        else:
            met = value.cast(pl.String) == condition.value
        by_column.setdefault(condition.column, []).append(met)
    return pl.all_horizontal(pl.lit(True), *map(pl.any_horizontal, by_column.values()))


def _parse_number(condition: RowCondition) -> float:
    try:
        return float(condition.value)
    except ValueError:
        raise CompareError(f"{condition.column} is a number, but {condition.value!r} is not", "where") from None


def matches_value(value: Value, text: str) -> bool:
    """Whether the text of an argument is this value; 5 and 5.0 are equal."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    return format_value(value) == text


def sort_groups(groups: Mapping[tuple[Value, ...], T]) -> dict[tuple[Value, ...], T]:
    """Sort numbers by size, text in natural order (ML-KEM-512 before ML-KEM-1024), unknown values last."""
    return dict(sorted(groups.items(), key=lambda group: [_get_sort_key(value) for value in group[0]]))


def _get_sort_key(value: Value) -> tuple[int, float, list[tuple[str, float]]]:
    if value is None:
        return 2, 0, []
    if not isinstance(value, str):
        return 0, value, []
    parts = [*_NUMBERS.split(value), "0"]  # alternating text and number
    return 1, 0, [(parts[i], float(parts[i + 1])) for i in range(0, len(parts), 2)]


def join_values(values: Iterable[Value]) -> str:
    """Values as text, separated by commas."""
    return ", ".join(map(format_value, values))
