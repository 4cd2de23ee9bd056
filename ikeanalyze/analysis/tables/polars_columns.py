"""Converts arrays to columns of a table: numbers become names, unknown values become null."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt64Array, sort_distinct
from ikeanalyze.capture.buffers import is_repeated, release_free_memory
from ikeanalyze.capture.decode.ip import FIRST_IPV6, format_address_code, strip_capture_numbers

Array = npt.NDArray[Any]

#: Up to this number of rows, columns are made from lists: polars loads numpy.ma to read arrays, and runs a query to
#: gather, which takes longer than to analyse a small capture.
_FEW: Final = 1000
_TYPES: Final[Mapping[Any, type[pl.DataType]]] = {
    np.bool_: pl.Boolean, np.int8: pl.Int8, np.uint8: pl.UInt8, np.uint16: pl.UInt16, np.uint32: pl.UInt32,
    np.int64: pl.Int64, np.uint64: pl.UInt64, np.float64: pl.Float64,
}  # fmt: skip


def gather(values: pl.Series, place: Array) -> pl.Series:
    """The values at these places. (n,)"""
    # polars reads an array of places in a third of the time if it is a Series
    return values[place.tolist()] if len(place) <= _FEW else values.gather(pl.Series(place))


def gather_known(values: pl.Series, place: Array) -> pl.Series:
    """The values at these places; null at a place after the last one. (n,)"""
    # in one piece, because polars gathers lists from several pieces a hundred times as slowly
    return pl.concat([values, pl.Series([None], dtype=values.dtype)], rechunk=True).gather(place)


def make_series(values: Array) -> pl.Series:
    """An array as a column without a name. (n,)"""
    dtype = _TYPES.get(values.dtype.type)
    if len(values) > _FEW or dtype is None:
        return pl.Series(values)
    return pl.Series(values.tolist(), dtype=dtype)


class TextColumn(Struct, frozen=True):
    """A column of texts, most of which appear often."""

    texts: pl.Series  # (k,)
    place: Array  # of the text of each row in `texts`; (n,)

    def __len__(self) -> int:
        return len(self.place)

    def gather(self) -> pl.Series:
        """The text of each row. (n,)"""
        return gather(self.texts, self.place)

    def select(self, rows: Array) -> "TextColumn":
        """The column of these rows."""
        return TextColumn(self.texts, self.place[rows])


class SharedListColumn(Struct, frozen=True):
    """A column of lists, most of which appear often."""

    lists: pl.Series  # (k,)
    place: Array  # of the list of each row in `lists`; (n,)

    def __len__(self) -> int:
        return len(self.place)

    def gather(self) -> pl.Series:
        """The list of each row. (n,)"""
        return gather(self.lists, self.place)

    def select(self, rows: Array) -> "SharedListColumn":
        """The column of these rows."""
        return SharedListColumn(self.lists, self.place[rows])


class StructListColumn(Struct, frozen=True):
    """A column of lists of structures, as the fields of the structures of all lists."""

    fields: Mapping[str, "Array | TextColumn"]  # without nulls; (m,) each
    length: Int64Array  # of the list of each row; (n,)
    dtype: Any

    def __len__(self) -> int:
        return len(self.length)

    def gather(self) -> pl.Series:
        """The list of each row. (n,)"""
        # the lists of one length are cut out of all structures together
        length_of_struct = np.repeat(self.length, self.length)
        pieces: list[pl.Series] = []
        for length in sort_distinct(self.length).tolist():
            if not length:
                pieces.append(gather(pl.Series([[]], dtype=self.dtype), np.zeros((self.length == 0).sum(), np.int64)))
                continue
            chosen = length_of_struct == length
            flat = pl.DataFrame({name: _to_series(_select(value, chosen)) for name, value in self.fields.items()})
            pieces.append(flat.to_struct().reshape((-1, length)).arr.to_list())
        if len(pieces) == 1:
            return pieces[0]
        place = np.empty(len(self.length), np.int64)
        place[np.argsort(self.length, kind="stable")] = np.arange(len(self.length))
        return gather(pl.concat(pieces), place)

    def select(self, rows: Array) -> "StructListColumn":
        """The column of these rows."""
        length = self.length[rows]
        before = np.cumsum(self.length) - self.length
        chosen = np.repeat(before[rows] - (np.cumsum(length) - length), length) + np.arange(int(length.sum()))
        return StructListColumn(
            {name: _select(value, chosen) for name, value in self.fields.items()}, length, self.dtype
        )


class SpiColumn(Struct, frozen=True):
    """A column of SPIs, which are texts of 16 hex digits in tables."""

    values: UInt64Array  # (n,)

    def __len__(self) -> int:
        return len(self.values)

    def gather(self) -> pl.Series:
        """The text of each row. (n,)"""
        return format_spis(self.values)

    def select(self, rows: Array) -> "SpiColumn":
        """The column of these rows."""
        return SpiColumn(self.values[rows])


class AddressColumn(Struct, frozen=True):
    """A column of addresses, which are texts in tables."""

    codes: UInt64Array  # of an AddressBook; (n,)
    ipv6: Sequence[bytes]  # the IPv6 addresses of the AddressBook
    dtype: Any  # pl.String or pl.Categorical

    def __len__(self) -> int:
        return len(self.codes)

    def gather(self) -> pl.Series:
        """The text of each row. (n,)"""
        distinct, place = find_distinct(self.codes)
        return gather(_format_distinct_addresses(distinct, self.ipv6).cast(self.dtype), place)

    def select(self, rows: Array) -> "AddressColumn":
        """The column of these rows."""
        return AddressColumn(self.codes[rows], self.ipv6, self.dtype)


_COMPACT: Final = (TextColumn, SharedListColumn, StructListColumn, SpiColumn, AddressColumn)


def _select(value: Any, rows: Array) -> Any:
    """The rows of a column of `TableColumns`, by mask or number."""
    if isinstance(value, tuple):
        values, known = value
        return values[rows], known[rows]
    if isinstance(value, _COMPACT):
        return value.select(rows)
    return gather(value, rows) if isinstance(value, pl.Series) else value[rows]


def _to_series(value: Any) -> pl.Series:
    return value.gather() if isinstance(value, _COMPACT) else make_series(value)


class TableColumns(Struct, frozen=True):
    """A table as the arrays that it is made of.

    `columns` has them by name, as an array, an array and which of its values are known, a TextColumn or another of the
    classes above, or a Series. Names of `layout` that it lacks are null in all rows.
    """

    columns: dict[str, Any]
    layout: schema.Schema
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
            columns[name] = _select(narrow_integers(value, self.layout.get(name)), self.order)
            del value
        release_free_memory()  # polars has an allocator of its own
        return TableColumns(columns, self.layout, self.capture, self.height)

    def select(self, rows: Int64Array) -> "TableColumns":
        """The columns of these rows; the columns must be in order."""
        columns = {name: _select(value, rows) for name, value in self.columns.items()}
        capture = self.capture if isinstance(self.capture, str) else self.capture.select(rows)
        return TableColumns(columns, self.layout, capture, len(rows))

    def make_table(self) -> pl.DataFrame:
        """The table; `columns` is empty afterwards."""
        if not self.height:
            return pl.DataFrame(schema=self.layout)
        if self.order is not None:
            return self.sort_rows().make_table()
        capture: pl.Series | pl.Expr
        if isinstance(self.capture, TextColumn):
            capture = self.capture.gather()
        else:
            capture = pl.lit(self.capture, dtype=pl.String).cast(pl.Categorical)
        return make_table(self.columns, self.layout, capture)


def make_table(columns: dict[str, Any], layout: schema.Schema, capture: pl.Series | pl.Expr) -> pl.DataFrame:
    """A table with the columns and types of `layout`.

    A pair (values, known) becomes a column with nulls; a column of `layout` that is missing in `columns` is null.
    `columns` is empty afterwards, so that the memory of each column is free once the table has it.
    """
    height = next(len(value[0]) if isinstance(value, tuple) else len(value) for value in columns.values())
    plain: dict[str, Any] = {}
    masks: dict[str, pl.Series] = {}
    for name in list(columns):
        value = columns.pop(name)
        if isinstance(value, tuple):
            plain[name], known = value
            if not known.any():  # a null literal takes no memory
                del plain[name], value
                continue
            if not known.all():  # without a mask, polars uses the column without a copy
                masks[f"known {name}"] = make_series(known)
        else:
            plain[name] = value.gather() if isinstance(value, _COMPACT) else value
        dtype = layout.get(name)
        plain[name] = narrow_integers(plain[name], dtype)
        if isinstance(dtype, pl.Enum) and isinstance(plain[name], np.ndarray):
            # physical values to names
            plain[name] = gather(pl.Series(dtype.categories, dtype=dtype), plain[name])
        elif isinstance(plain[name], np.ndarray):
            plain[name] = make_series(plain[name])
        del value
    table = pl.DataFrame({**plain, **masks})
    names = set(plain)
    plain.clear()
    present = table.schema  # read once: polars builds the schema at each access
    expressions: list[pl.Series | pl.Expr] = []
    for name, dtype in layout.items():
        if name == "capture":
            expressions.append(capture.alias(name))
            continue
        if name not in names:
            expressions.append(pl.lit(None, dtype=dtype).alias(name))
            continue
        column = pl.col(name)
        if f"known {name}" in masks:
            column = pl.when(pl.col(f"known {name}")).then(column)
        if present[name] != dtype:
            column = column.cast(dtype)
        expressions.append(column.alias(name))
    if not height:
        return pl.DataFrame(schema=layout)
    return table.select(expressions)


_NARROW: Final = {
    pl.UInt8: np.uint8, pl.UInt16: np.uint16, pl.UInt32: np.uint32, pl.UInt64: np.uint64, pl.Int64: np.int64,
}  # fmt: skip


def narrow_integers(values: Any, dtype: Any) -> Any:
    """An integer array with the type of its column, so that polars does not copy it."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and dtype in _NARROW:
        narrow = _NARROW[dtype]
        if is_repeated(values):
            return np.broadcast_to(values[:1].astype(narrow), len(values))
        # the same bits
        return (
            values.view(np.uint64)
            if (values.dtype, narrow) == (np.int64, np.uint64)
            else values.astype(narrow, copy=False)
        )
    return values


def null_where_unknown(values: Array, known: BoolArray) -> Array | tuple[Array, BoolArray]:
    """Values, with null where they are not known; without the mask if all are."""
    return values if known.all() else (values, known)


def null_unknown(values: Array) -> tuple[Array, Array]:
    """Values with null in place of UNKNOWN."""
    return values, values != UNKNOWN


def null_zero(values: Array) -> tuple[Array, Array]:
    """Values with null in place of 0."""
    return values, values > 0


#: SPIs that are Python objects at one time.
_SPIS_AT_ONCE: Final = 1 << 16


def format_spis(values: UInt64Array) -> pl.Series:
    """SPIs as 16 hex digits."""
    parts = [_format_spis(values[at : at + _SPIS_AT_ONCE]) for at in range(0, max(len(values), 1), _SPIS_AT_ONCE)]
    return pl.concat(parts)


def _format_spis(values: UInt64Array) -> pl.Series:
    digits = values.astype(">u8").tobytes().hex().encode()
    return pl.Series(np.frombuffer(digits, "S16").tolist(), dtype=pl.Binary).cast(pl.String)


def _format_distinct_addresses(codes: UInt64Array, ipv6: Sequence[bytes]) -> pl.Series:
    codes = strip_capture_numbers(codes)
    is_ipv4 = codes < np.uint64(FIRST_IPV6)
    # each octet of an IPv4 address is one of 256 texts
    octets = codes[is_ipv4].astype(">u4").view(np.uint8).reshape(-1, 4)
    decimal = pl.Series([str(number) for number in range(256)], dtype=pl.String)
    parts = [gather(decimal, octets[:, index]).alias(str(index)) for index in range(4)]
    texts = pl.select(pl.concat_str(parts, separator=".")).to_series()
    if is_ipv4.all():
        return texts
    others = pl.Series([format_address_code(code, ipv6) for code in codes[~is_ipv4].tolist()], dtype=pl.String)
    order = np.concatenate([np.flatnonzero(is_ipv4), np.flatnonzero(~is_ipv4)])
    where = np.empty(len(order), np.uint32)
    where[order] = np.arange(len(order), dtype=np.uint32)
    return gather(pl.concat([texts, others]), where)


def make_null_column(count: int) -> tuple[Array, Array]:
    """A column for `make_table` without any value, which takes no memory in the table."""
    return np.zeros(count, np.uint8), np.zeros(count, np.bool_)


def scatter_texts(values: Mapping[int, str | None], count: int) -> TextColumn | tuple[Array, Array]:
    """Texts by row, null in the other rows: a column for `make_table`."""
    if not values:
        return make_null_column(count)
    # only the rows with a text are converted from Python objects, which takes microseconds a row
    place = np.zeros(count, np.uint32)
    place[list(values)] = np.arange(1, len(values) + 1)
    return TextColumn(pl.Series([None, *values.values()], dtype=pl.String), place)


def scatter_lists(values: Mapping[int, Sequence[str]], count: int) -> SharedListColumn:
    """Lists of texts by row, empty in the other rows; each distinct list is converted once."""
    distinct: dict[tuple[str, ...], int] = {(): 0}
    place = np.zeros(count, np.uint32)
    for row, texts in values.items():
        place[row] = distinct.setdefault(tuple(texts), len(distinct))
    return SharedListColumn(pl.Series(list(distinct), dtype=pl.List(pl.String)), place)


def make_lists(flat: pl.Series, lengths: Int64Array) -> pl.Series:
    """Lists of these lengths, which together contain all values of `flat` in this order."""
    ends = np.cumsum(lengths)
    # lists of one length are cut out of all values together: as objects they would take microseconds each
    pieces = [pl.Series([], dtype=pl.List(flat.dtype))]
    order: list[Int64Array] = []
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        order.append(rows)
        if length:
            values = flat.gather((ends[rows][:, None] - length + np.arange(length)).ravel())
            pieces.append(values.reshape((-1, length)).arr.to_list())
        else:
            pieces.append(pl.Series([[]], dtype=pl.List(flat.dtype)).gather(np.zeros(len(rows), np.int64)))
    place = np.empty(len(lengths), np.int64)
    if order:
        place[np.concatenate(order)] = np.arange(len(lengths))
    return pl.concat(pieces, rechunk=True).gather(place)
