"""Makes polars tables of `TableColumns`: numbers become names, unknown values become null."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from ikeanalyze.analysis.grouping import find_distinct
from ikeanalyze.analysis.schema import convert_layout, convert_type
from ikeanalyze.analysis.tables.column_types import ColumnType, EnumType, ListType, StructType
from ikeanalyze.analysis.tables.columns import (
    COMPACT,
    AddressColumn,
    Array,
    FlatListColumn,
    SharedListColumn,
    SpiColumn,
    StructColumn,
    TableColumns,
    TextColumn,
    narrow_integers,
)
from ikeanalyze.capture.arrays import Int64Array, UInt64Array, sort_distinct
from ikeanalyze.capture.decode.ip import FIRST_IPV6, format_address_code, strip_capture_numbers

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


def make_series(values: Array) -> pl.Series:
    """An array as a column without a name. (n,)"""
    dtype = _TYPES.get(values.dtype.type)
    if len(values) > _FEW or dtype is None:
        return pl.Series(values)
    return pl.Series(values.tolist(), dtype=dtype)


def convert_column(value: Any, kind: ColumnType) -> pl.Series:
    """A column of `TableColumns` that is not a pair, with its type. (n,)"""
    match value:
        case TextColumn():
            return gather(pl.Series(value.texts, dtype=convert_type(kind)), value.place)
        case SharedListColumn():
            return gather(pl.Series(value.lists, dtype=convert_type(kind)), value.place)
        case FlatListColumn():
            assert isinstance(kind, ListType)
            return _make_lists(_convert_elements(value.elements, kind.inner), value.length)
        case SpiColumn():
            return _format_spis(value.values)
        case AddressColumn():
            distinct, place = find_distinct(value.codes)
            return gather(_format_distinct_addresses(distinct, value.ipv6).cast(convert_type(kind)), place)
        case pl.Series():
            return value
    if isinstance(kind, EnumType):  # places of names
        return gather(pl.Series(kind.names, dtype=convert_type(kind)), value)
    return make_series(narrow_integers(value, kind)).cast(convert_type(kind))


def _convert_elements(value: Any, kind: ColumnType) -> pl.Series:
    """The elements of lists, with null where a pair says so. (m,)"""
    if isinstance(value, tuple):
        values, known = value
        return convert_column(values, kind).set(~make_series(known), None)
    if isinstance(value, StructColumn):
        assert isinstance(kind, StructType)
        fields = {name: _convert_elements(value.fields[name], inner) for name, inner in kind.fields.items()}
        return pl.DataFrame(fields).to_struct()
    return convert_column(value, kind)


def _make_lists(flat: pl.Series, lengths: Int64Array) -> pl.Series:
    """Lists of these lengths (-1: null), which together contain all values of `flat` in this order."""
    # lists of one length are cut out of all values together: as objects they would take microseconds each
    length_of_value = np.repeat(lengths, np.maximum(lengths, 0))
    pieces: list[pl.Series] = []
    for length in sort_distinct(lengths).tolist():
        if length > 0:
            chosen = make_series(length_of_value == length)
            pieces.append(flat.filter(chosen).reshape((-1, length)).arr.to_list())
        else:
            single = pl.Series([[] if length == 0 else None], dtype=pl.List(flat.dtype))
            pieces.append(gather(single, np.zeros((lengths == length).sum(), np.int64)))
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return pl.Series([], dtype=pl.List(flat.dtype))
    place = np.empty(len(lengths), np.int64)
    place[np.argsort(lengths, kind="stable")] = np.arange(len(lengths))
    # in one piece, because polars gathers lists from several pieces a hundred times as slowly
    return gather(pl.concat(pieces, rechunk=True), place)


def make_table(source: TableColumns) -> pl.DataFrame:
    """The table of these columns.

    They are taken out of `source`, so that the memory of each is free once the table has it.
    """
    schema = convert_layout(source.layout)
    if not source.height:
        return pl.DataFrame(schema=schema)
    if source.order is not None:
        source = source.sort_rows()
    columns = source.columns
    plain: dict[str, pl.Series] = {}
    masks: dict[str, pl.Series] = {}
    for name in list(columns):
        value = columns.pop(name)
        if isinstance(value, tuple):
            value, known = value
            if not known.any():  # a null literal takes no memory
                continue
            if not known.all():  # without a mask, polars uses the column without a copy
                masks[f"known {name}"] = make_series(known)
        kind = source.layout[name]
        if isinstance(value, COMPACT) or isinstance(kind, EnumType):
            plain[name] = convert_column(value, kind)
        elif isinstance(value, np.ndarray):
            plain[name] = make_series(narrow_integers(value, kind))
        else:
            plain[name] = value
        del value
    table = pl.DataFrame({**plain, **masks})
    names = set(plain)
    plain.clear()
    present = table.schema  # read once: polars builds the schema at each access
    expressions: list[pl.Series | pl.Expr] = []
    for name, dtype in schema.items():
        if name == "capture":
            expressions.append(_make_capture_column(source.capture, dtype).alias(name))
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
    return table.select(expressions)


def _make_capture_column(capture: str | TextColumn, dtype: pl.DataType | type[pl.DataType]) -> pl.Series | pl.Expr:
    if isinstance(capture, TextColumn):
        return gather(pl.Series(capture.texts, dtype=dtype), capture.place)
    return pl.lit(capture, dtype=pl.String).cast(dtype)


#: SPIs that are Python objects at one time.
_SPIS_AT_ONCE: Final = 1 << 16


def _format_spis(values: UInt64Array) -> pl.Series:
    """SPIs as 16 hex digits."""
    parts = [_format_few_spis(values[at : at + _SPIS_AT_ONCE]) for at in range(0, max(len(values), 1), _SPIS_AT_ONCE)]
    return pl.concat(parts)


def _format_few_spis(values: UInt64Array) -> pl.Series:
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
