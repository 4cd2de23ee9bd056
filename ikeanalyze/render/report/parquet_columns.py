"""Tables of a report as Parquet, written by the compiled core from the arrays that they are made of.

polars writes every table (`parquet`), and is the definition: the files have the same schema and the same values. The
core writes large tables of numbers, repeated texts and repeated lists in a quarter of the processor time, and without a
table in memory.
"""

from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from ikeanalyze import core
from ikeanalyze.analysis import schema
from ikeanalyze.analysis.tables.polars_columns import (
    AddressColumn,
    Array,
    SharedListColumn,
    SpiColumn,
    StructListColumn,
    TableColumns,
    TextColumn,
    narrow_integers,
)
from ikeanalyze.capture.arrays import Int64Array, UInt8Array
from ikeanalyze.capture.buffers import is_repeated
from ikeanalyze.capture.decode.ip import FIRST_IPV6, format_address_code
from ikeanalyze.dataset.columns import to_portable_types
from ikeanalyze.render.report.parquet_levels import Leaf, make_struct_levels, split_lists

_LAYOUTS: Final = {
    "frames": schema.FRAMES,
    "messages": schema.MESSAGES,
    "exchanges": schema.EXCHANGES,
    "handshakes": schema.HANDSHAKES,
}
#: Threads that encode a table: of the one that is written last, and not while the analysis continues.
_THREADS: Final = {"handshakes": 2}
#: Types of arrays that the core writes.
_TYPES: Final = (np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int32, np.int64, np.float64)
#: Values, which of them are known (None: all), the texts that the values are places in with their ends, and the
#: definition and repetition levels of values in lists.
_CoreColumn = tuple[
    Array | str | None, Array | None, tuple[str, Int64Array] | None, tuple[UInt8Array, UInt8Array] | None
]
_NO_VALUE: Final[_CoreColumn] = (None, None, None, None)


def make_column_writer(name: str, columns: TableColumns) -> Callable[[Path, int], None] | None:
    """A function that writes a table to a path in groups of a given number of rows; None: the core does not write it.

    The function raises OSError if the file cannot be written.
    """
    if name not in _LAYOUTS:
        return None
    converted: list[_CoreColumn] = []
    for column, dtype in columns.layout.items():
        value = columns.capture if column == "capture" else columns.columns.get(column)
        if columns.order is not None and isinstance(value, (SharedListColumn, StructListColumn)):
            value = value.select(columns.order)
        leaves = _convert_leaves(value, dtype)
        if leaves is None:
            return None
        converted.extend(leaves)

    def write(path: Path, row_group: int) -> None:
        core.compiled.write_parquet(
            str(path), _make_template(name), converted, columns.height, columns.order, row_group, _THREADS.get(name, 1)
        )

    return write


@cache
def _make_template(name: str) -> bytes:
    """A file with the schema of the table, and without rows."""
    content = BytesIO()
    to_portable_types(pl.DataFrame(schema=_LAYOUTS[name]).lazy(), name).collect().write_parquet(content)
    return content.getvalue()


def _convert_leaves(value: Any, dtype: Any) -> list[_CoreColumn] | None:
    """The leaves of a column, as Parquet stores it (see `parquet_levels`); None: the core does not write it."""
    if isinstance(value, SharedListColumn):
        return [_convert_leaf(leaf) for leaf in split_lists(value.lists, value.place)]
    if isinstance(value, StructListColumn):
        levels = make_struct_levels(value.length)
        fields = [_convert(value.fields[field.name], field.dtype) for field in dtype.inner.fields]
        return [(*field[:3], levels) for field in fields if field is not None]
    column = _convert(value, dtype)
    return None if column is None else [column] * (_count_leaves(dtype) if column is _NO_VALUE else 1)


def _convert_leaf(leaf: Leaf) -> _CoreColumn:
    values, levels = leaf.values, (leaf.definition, leaf.repetition)
    if values.dtype == pl.String:
        texts = _join_texts(values)
        return np.ascontiguousarray(leaf.place, np.uint32), None, texts, levels
    return values.to_numpy()[leaf.place], None, None, levels


def _count_leaves(dtype: Any) -> int:
    if isinstance(dtype, pl.List):
        return _count_leaves(dtype.inner)
    return sum(_count_leaves(field.dtype) for field in dtype.fields) if isinstance(dtype, pl.Struct) else 1


def _convert(value: Any, dtype: Any) -> _CoreColumn | None:
    """A column without lists as the core takes it; None: it does not."""
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
        return np.ascontiguousarray(value.values), None, None, None
    if isinstance(value, AddressColumn):
        ipv6 = [format_address_code(FIRST_IPV6 + place, value.ipv6) for place in range(len(value.ipv6))]
        return np.ascontiguousarray(value.codes), None, _join_texts(pl.Series(ipv6, dtype=pl.String)), None
    if isinstance(value, TextColumn):
        return _convert_texts(value) if known is None else None
    if not isinstance(value, np.ndarray):
        return None
    if isinstance(dtype, pl.Enum):
        places = value if value.dtype.type is np.uint8 else value.astype(np.uint32)
        return np.ascontiguousarray(places), known, _join_texts(dtype.categories), None
    value = narrow_integers(value, dtype)
    if value.dtype.type is np.uint32 and is_repeated(value):
        return value, known, None, None
    return (np.ascontiguousarray(value), known, None, None) if value.dtype.type in _TYPES else None


def _convert_texts(column: TextColumn) -> _CoreColumn:
    known = None
    if column.texts.null_count():
        known = column.texts.is_not_null().to_numpy()[column.place]
    texts = column.texts.cast(pl.String).fill_null("")
    return np.ascontiguousarray(column.place, np.uint32), known, _join_texts(texts), None


def _join_texts(texts: pl.Series) -> tuple[str, Int64Array]:
    """All texts as one, and the byte where each ends."""
    ends: Int64Array = np.cumsum(texts.str.len_bytes().to_numpy(), dtype=np.int64)
    return "".join(texts.to_list()), ends
