"""Columns of tables as arrays, texts and lists, without polars.

The compiled core writes them as they are; `polars_columns` makes polars tables of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.tables.column_types import ColumnType, EnumType, Layout, ListType, NumberType, StructType
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from ikeanalyze.capture.buffers import is_repeated
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.machine import release_free_memory

Array = npt.NDArray[Any]


class TextColumn(Struct, frozen=True):
    """A column of texts, most of which appear often."""

    texts: Sequence[str | None]  # (k,)
    place: Array  # of the text of each row in `texts`; (n,)

    def __len__(self) -> int:
        return len(self.place)

    def select(self, rows: Array) -> "TextColumn":
        """The column of these rows."""
        return TextColumn(self.texts, self.place[rows])


class SharedListColumn(Struct, frozen=True):
    """A column of lists, most of which appear often."""

    lists: Sequence[Sequence[Any] | None]  # elements are values of Python, structures dictionaries; (k,)
    place: Array  # of the list of each row in `lists`; (n,)

    def __len__(self) -> int:
        return len(self.place)

    def select(self, rows: Array) -> "SharedListColumn":
        """The column of these rows."""
        return SharedListColumn(self.lists, self.place[rows])


class StructColumn(Struct, frozen=True):
    """Structures, none of which is null, as a column for each field. They are elements of lists."""

    fields: Mapping[str, Any]  # as in `TableColumns`; (n,) each

    def __len__(self) -> int:
        return measure_column(next(iter(self.fields.values())))

    def select(self, rows: Array) -> "StructColumn":
        """The structures of these rows."""
        return StructColumn({name: select_rows(value, rows) for name, value in self.fields.items()})


class FlatListColumn(Struct, frozen=True):
    """A column of lists, as the elements of all lists one after another."""

    elements: Any  # a column as in `TableColumns`; (m,)
    length: Int64Array  # of the list of each row, -1: null; (n,)

    def __len__(self) -> int:
        return len(self.length)

    def select(self, rows: Array) -> "FlatListColumn":
        """The column of these rows."""
        count = np.maximum(self.length, 0)
        chosen = count[rows]
        before = np.cumsum(count) - count
        place = np.repeat(before[rows] - (np.cumsum(chosen) - chosen), chosen) + np.arange(int(chosen.sum()))
        return FlatListColumn(select_rows(self.elements, place), self.length[rows])


class SpiColumn(Struct, frozen=True):
    """A column of SPIs, which are texts of 16 hex digits in tables."""

    values: UInt64Array  # (n,)

    def __len__(self) -> int:
        return len(self.values)

    def select(self, rows: Array) -> "SpiColumn":
        """The column of these rows."""
        return SpiColumn(self.values[rows])


class AddressColumn(Struct, frozen=True):
    """A column of addresses, which are texts in tables."""

    codes: UInt64Array  # of an AddressBook; (n,)
    ipv6: Sequence[bytes]  # the IPv6 addresses of the AddressBook

    def __len__(self) -> int:
        return len(self.codes)

    def select(self, rows: Array) -> "AddressColumn":
        """The column of these rows."""
        return AddressColumn(self.codes[rows], self.ipv6)


COMPACT: Final = (TextColumn, SharedListColumn, StructColumn, FlatListColumn, SpiColumn, AddressColumn)


def measure_column(value: Any) -> int:
    """The number of rows of a column of `TableColumns`."""
    return len(value[0]) if isinstance(value, tuple) else len(value)


def select_rows(value: Any, rows: Array) -> Any:
    """The rows of a column of `TableColumns`, by mask or number."""
    if isinstance(value, tuple):
        values, known = value
        return select_rows(values, rows), known[rows]
    if isinstance(value, COMPACT):
        return value.select(rows)
    return value[rows] if rows.dtype == np.bool_ else value.take(rows)  # in half the time of an index of 32 bits


class TableColumns(Struct, frozen=True):
    """A table as the arrays that it is made of.

    `columns` has them by name, as an array or one of the classes above, or as a pair of these and an array that says
    which of the values are known. Names of `layout` that it lacks are null in all rows.
    """

    columns: dict[str, Any]
    layout: Layout
    capture: str | TextColumn  # path of the capture of all rows, or of each row
    height: int
    #: The row of the columns, except `capture`, that each row of the table is; None: the same.
    order: Int32Array | None = None

    def sort_rows(self) -> "TableColumns":
        """The same with columns in order; `columns` is empty afterwards if they were not."""
        if self.order is None:
            return self
        columns: dict[str, Any] = {}
        for name in list(self.columns):
            value = self.columns.pop(name)  # its memory is free when it is sorted, unless others keep it
            if isinstance(value, tuple):
                value = narrow_integers(value[0], self.layout.get(name)), value[1]
            columns[name] = select_rows(narrow_integers(value, self.layout.get(name)), self.order)
            del value
        release_free_memory()  # polars has an allocator of its own
        return TableColumns(columns, self.layout, self.capture, self.height)

    def select(self, rows: Int64Array) -> "TableColumns":
        """The columns of these rows; the columns must be in order."""
        columns = {name: select_rows(value, rows) for name, value in self.columns.items()}
        capture = self.capture if isinstance(self.capture, str) else self.capture.select(rows)
        return TableColumns(columns, self.layout, capture, len(rows))

    def list_values(self, name: str, rows: Int64Array) -> list[Any]:
        """The values of a column other than `capture` in these rows; the columns must be in order.

        Raises:
            KeyError: the layout has no such column.
        """
        kind = self.layout[name]
        return list_values(select_rows(self.columns[name], rows), kind) if name in self.columns else [None] * len(rows)


def make_empty_columns(layout: Layout) -> TableColumns:
    """A table without rows."""
    return TableColumns({}, layout, "", 0)


def narrow_integers(values: Any, kind: ColumnType | None) -> Any:
    """An integer array with the type of its column, so that it is not copied later."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and isinstance(kind, NumberType):
        narrow = np.dtype(kind.name)
        if narrow.kind not in "iu":
            return values
        if is_repeated(values):
            return np.broadcast_to(values[:1].astype(narrow), len(values))
        if values.dtype == np.int64 and narrow == np.uint64:
            return values.view(np.uint64)  # the same bits
        return values.astype(narrow, copy=False)
    return values


def list_values(value: Any, kind: ColumnType | None = None) -> list[Any]:
    """The values of a column of `TableColumns` as values of Python, None where they are null. (n,)

    `kind`: its type, needed for names, which are numbers in the column.
    """
    match value:
        case tuple():  # since numpy 2.5, the pattern `(values, known)` would also match an array of two rows
            values, known = value
            listed = zip(list_values(values, kind), known.tolist(), strict=True)
            return [one if is_known else None for one, is_known in listed]
        case TextColumn():
            return [value.texts[place] for place in value.place.tolist()]
        case SharedListColumn():
            return [value.lists[place] for place in value.place.tolist()]
        case StructColumn():
            fields = kind.fields if isinstance(kind, StructType) else {}
            columns = [list_values(column, fields.get(name)) for name, column in value.fields.items()]
            return [dict(zip(value.fields, row, strict=True)) for row in zip(*columns, strict=True)]
        case FlatListColumn():
            elements = list_values(value.elements, kind.inner if isinstance(kind, ListType) else None)
            ends = np.cumsum(np.maximum(value.length, 0)).tolist()
            bounds = zip(ends, value.length.tolist(), strict=True)
            return [None if length < 0 else elements[end - length : end] for end, length in bounds]
        case SpiColumn():
            return [f"{spi:016x}" for spi in value.values.tolist()]
        case AddressColumn():
            codes = value.codes.tolist()
            texts = {code: format_address_code(code, value.ipv6) for code in set(codes)}
            return [texts[code] for code in codes]
    if isinstance(kind, EnumType):  # places of names
        return [kind.names[place] for place in value.tolist()]
    numbers: list[Any] = value.tolist()
    return numbers


def make_column(values: Sequence[Any], kind: ColumnType) -> Any:
    """A column of values of Python, None where they are null."""
    match kind:
        case NumberType():
            known = np.array([value is not None for value in values], np.bool_)
            return np.array([value or 0 for value in values], kind.name), known
        case ListType():
            length = np.array([-1 if value is None else len(value) for value in values], np.int64)
            return FlatListColumn(make_column([item for value in values for item in value or ()], kind.inner), length)
        case StructType():
            fields = kind.fields.items()
            return StructColumn({name: make_column([value[name] for value in values], inner) for name, inner in fields})
    return TextColumn(values, np.arange(len(values), dtype=np.uint32))


def share_values(values: Sequence[Any], place: Array, kind: ColumnType) -> Any:
    """A column with the values at these places, None where they are null."""
    if isinstance(kind, ListType):
        return SharedListColumn(values, place)
    return select_rows(make_column(values, kind), place)


def null_where_unknown(values: Array, known: BoolArray) -> Array | tuple[Array, BoolArray]:
    """Values, with null where they are not known; without the mask if all are."""
    return values if known.all() else (values, known)


def null_unknown(values: Array) -> tuple[Array, Array]:
    """Values with null in place of UNKNOWN."""
    return values, values != UNKNOWN


def null_zero(values: Array) -> tuple[Array, Array]:
    """Values with null in place of 0."""
    return values, values > 0


def make_null_column(count: int) -> tuple[Array, Array]:
    """A column without any value, which takes no memory in the table."""
    return np.zeros(count, np.uint8), np.zeros(count, np.bool_)


def scatter_texts(values: Mapping[int, str | None], count: int) -> TextColumn | tuple[Array, Array]:
    """Texts by row, null in the other rows."""
    if not values:
        return make_null_column(count)
    # only the rows with a text are converted from Python objects, which takes microseconds a row
    place = np.zeros(count, np.uint32)
    place[list(values)] = np.arange(1, len(values) + 1)
    return TextColumn([None, *values.values()], place)


def scatter_lists(values: Mapping[int, Sequence[str]], count: int) -> SharedListColumn:
    """Lists of texts by row, empty in the other rows; each distinct list is converted once."""
    distinct: dict[tuple[str, ...], int] = {(): 0}
    place = np.zeros(count, np.uint32)
    for row, texts in values.items():
        place[row] = distinct.setdefault(tuple(texts), len(distinct))
    return SharedListColumn(list(distinct), place)
