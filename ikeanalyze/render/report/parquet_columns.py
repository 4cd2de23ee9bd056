"""Tables of a report as Parquet, written by the compiled core from the arrays that they are made of.

polars writes every table (`parquet`), and is the definition: the files have the same schema and the same values. The
core writes them in a quarter of the processor time, and without a table in memory.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.tables.column_types import ColumnType, EnumType, ListType, StructType
from ikeanalyze.analysis.tables.columns import (
    AddressColumn,
    Array,
    FlatListColumn,
    SharedListColumn,
    SpiColumn,
    TableColumns,
    TextColumn,
    make_column,
    narrow_integers,
)
from ikeanalyze.capture.arrays import Int32Array, Int64Array, UInt8Array
from ikeanalyze.capture.buffers import is_repeated
from ikeanalyze.capture.decode.ip import FIRST_IPV6, format_address_code
from ikeanalyze.render.report.parquet_levels import Leaf, repeat_leaf, split_column

#: Empty files with the schemas of the tables, as polars writes them (see `tests.render.report.parquet_schemas`).
_SCHEMAS: Final = Path(__file__).with_name("parquet_schemas")
_LISTS: Final = (SharedListColumn, FlatListColumn)
#: Values, which of them are known (None: all), the texts that the values are places in with their ends, and the
#: definition and repetition levels of values in lists.
_CoreColumn = tuple[
    Array | str | None, Array | None, tuple[str, Int64Array] | None, tuple[UInt8Array, UInt8Array] | None
]
_NO_VALUE: Final[_CoreColumn] = (None, None, None, None)

#: Columns that are converted before they are written.
_CONVERTED_AT_ONCE: Final = 16


class ConvertedColumns(Struct, frozen=True):
    """Columns of a table as the core takes them."""

    leaves: list[tuple[str, list[_CoreColumn]]]  # of each column
    order: Int32Array | None  # as in `TableColumns`


class ColumnFile:
    """The Parquet file of a table, which the core writes in one step or several, each with some of the columns."""

    def __init__(self, name: str, path: Path, rows: int, row_group: int) -> None:
        """Create the file, for so many rows in groups of `row_group`.

        Raises:
            OSError: it cannot be created.
        """
        template = (_SCHEMAS / f"{name}.parquet").read_bytes()
        self._table = core.compiled.ParquetTable(str(path), template, rows, row_group)

    def convert(self, columns: TableColumns) -> Iterator[ConvertedColumns]:
        """The columns of their layout as `write` takes them, some at a time. `columns` are unchanged."""
        names = list(columns.layout)
        for begin in range(0, len(names), _CONVERTED_AT_ONCE):
            some = names[begin : begin + _CONVERTED_AT_ONCE]
            yield ConvertedColumns([(name, self._convert_column(columns, name)) for name in some], columns.order)

    @staticmethod
    def _convert_column(columns: TableColumns, name: str) -> list[_CoreColumn]:
        value = columns.capture if name == "capture" else columns.columns.get(name)
        if columns.order is not None and isinstance(value, _LISTS):
            value = value.select(columns.order)
        return _convert_leaves(value, columns.layout[name])

    def write(self, columns: ConvertedColumns) -> None:
        """Write some of the columns.

        Raises:
            OSError: the file cannot be written.
        """
        self._table.write(columns.leaves, columns.order)

    def finish(self) -> None:
        """Complete the file, after all columns.

        Raises:
            OSError: the file cannot be written.
        """
        self._table.finish()


def _convert_leaves(value: Any, kind: ColumnType) -> list[_CoreColumn]:
    """The leaves of a column, as Parquet stores it (see `parquet_levels`)."""
    if isinstance(value, SharedListColumn):
        distinct = make_column(value.lists, kind)
        return [_convert_leaf(repeat_leaf(leaf, value.place)) for leaf in split_column(distinct, kind)]
    if isinstance(value, FlatListColumn):
        return [_convert_leaf(leaf) for leaf in split_column(value, kind)]
    column = _convert(value, kind)
    return [column] * (_count_leaves(kind) if column is _NO_VALUE else 1)


def _convert_leaf(leaf: Leaf) -> _CoreColumn:
    levels = (leaf.definition, leaf.repetition)
    if isinstance(leaf.values, np.ndarray):
        return np.ascontiguousarray(narrow_integers(leaf.values[leaf.place], leaf.kind)), None, None, levels
    return np.ascontiguousarray(leaf.place, np.uint32), None, _join_texts(leaf.values), levels


def _count_leaves(kind: ColumnType) -> int:
    if isinstance(kind, ListType):
        return _count_leaves(kind.inner)
    return sum(map(_count_leaves, kind.fields.values())) if isinstance(kind, StructType) else 1


def _convert(value: Any, kind: ColumnType) -> _CoreColumn:
    """A column without lists as the core takes it."""
    known: Array | None = None
    if isinstance(value, tuple):
        value, known = value
        if not known.any():
            return _NO_VALUE
        if known.all():
            known = None
    if value is None:
        return _NO_VALUE
    if isinstance(value, str):
        return value, known, None, None
    if isinstance(value, SpiColumn):
        return np.ascontiguousarray(value.values), known, None, None
    if isinstance(value, AddressColumn):
        ipv6 = [format_address_code(FIRST_IPV6 + place, value.ipv6) for place in range(len(value.ipv6))]
        return np.ascontiguousarray(value.codes), known, _join_texts(ipv6), None
    if isinstance(value, TextColumn):
        has_text = np.array([text is not None for text in value.texts], np.bool_)
        if not has_text.all():
            known = has_text[value.place] if known is None else known & has_text[value.place]
        return np.ascontiguousarray(value.place, np.uint32), known, _join_texts(value.texts), None
    if isinstance(kind, EnumType):
        places = value if value.dtype.type is np.uint8 else value.astype(np.uint32)
        return np.ascontiguousarray(places), known, _join_texts(kind.names), None
    value = narrow_integers(value, kind)
    if value.dtype.type is np.uint32 and is_repeated(value):
        return value, known, None, None
    return np.ascontiguousarray(value), known, None, None


def _join_texts(texts: Sequence[str | None]) -> tuple[str, Int64Array]:
    """All texts as one, and the byte where each ends; None has no bytes."""
    ends: Int64Array = np.cumsum([len((text or "").encode()) for text in texts], dtype=np.int64)
    return "".join(text or "" for text in texts), ends
