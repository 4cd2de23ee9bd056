"""The columns of the Parquet files of datasets and reports, with types that every Parquet reader supports.

They are those of `analysis.schema`, with strings instead of categories, because each file would have its own
categories, and signed integers, so that differences of columns can be negative. In a dataset, `capture` and the id
within the capture identify a handshake, exchange or message.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.result import ACCOUNTING

if TYPE_CHECKING:  # reports write Parquet too, and need no labels
    from ikeanalyze.dataset.labels import LabelType

Columns = dict[str, pl.DataType]

#: One row per capture. If it could not be read, all columns from `format` on are null.
_CAPTURES: Final[schema.Schema] = {
    "capture": pl.String,  # path as given; unique in the dataset
    "state": pl.String,  # "read" or "failed"
    "reason": pl.String,  # why it could not be read; null: it was read
    "file_bytes": pl.Int64,  # of the file as stored, compressed or not
    "sha256": pl.String,  # of the file; null: it could not be opened, or failed for a reason outside the file
    "keys": pl.List(pl.String),  # its key files, relative to its folder
    "format": pl.String,  # "pcap" or "pcapng"
    "packets": pl.Int64,
    "bytes": pl.Int64,  # sum of the frame lengths on the wire
    "first_ns": pl.Int64,  # time of the first packet; null: no packets
    "last_ns": pl.Int64,
    "snaplen_truncated": pl.Int64,  # packets truncated by the snapshot length
    "damaged": pl.Boolean,  # truncated or damaged after the last packet that was read
    **{f"{use}_{unit}": pl.Int64 for use in ACCOUNTING for unit in ("packets", "bytes")},
    "handshakes": pl.Int64,  # rows of the handshakes table, without rekeyed IKE SAs
    "warnings": pl.List(pl.String),  # warnings about the capture and its key files
}
_LABEL_TYPES: Final[Mapping[str, Any]] = {"int": pl.Int64, "float": pl.Float64, "str": pl.String, "bool": pl.Boolean}
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_LABELLED_TABLES: Final = ("captures", "handshakes")


def _get_portable_type(column_type: object) -> pl.DataType:
    """The Parquet type of a column type of the analysis."""
    dtype: Any = column_type() if isinstance(column_type, type) else column_type
    match dtype:
        case pl.List():
            return pl.List(_get_portable_type(dtype.inner))
        case pl.Struct():
            return pl.Struct({field.name: _get_portable_type(field.dtype) for field in dtype.fields})
        case pl.Enum() | pl.Categorical():
            return pl.String()
        case pl.UInt8() | pl.UInt16():
            return pl.Int32()
        case pl.UInt32() | pl.UInt64():
            return pl.Int64()
        case pl.DataType():
            return dtype
    raise TypeError(f"unsupported column type {column_type}")


_TABLES: Final[Mapping[str, Columns]] = {
    name: {column: _get_portable_type(dtype) for column, dtype in columns.items()}
    for name, columns in (
        ("captures", _CAPTURES),
        ("handshakes", schema.HANDSHAKES),
        ("exchanges", schema.EXCHANGES),
        ("messages", schema.MESSAGES),
    )
}
#: Only reports have this table. Columns to join it by have the type that they have in the other tables.
_FRAMES: Final[Columns] = {
    **{column: dtype() if isinstance(dtype, type) else dtype for column, dtype in schema.FRAMES.items()},
    **{column: _TABLES["messages"][column] for column in ("capture", "message", "handshake", "protocol")},
    "number": pl.Int64(),  # `first_frame` and `last_frame` of messages
    "digest": pl.Int64(),
}


def get_columns(table: str, labels: Mapping[str, "LabelType"]) -> Columns:
    """Name and type of each column of a table, the labels last."""
    columns = dict(_TABLES[table])
    if table in _LABELLED_TABLES:
        columns.update({name: _LABEL_TYPES[label_type]() for name, label_type in labels.items()})
    return columns


def get_reserved_names() -> set[str]:
    """Column names, which labels cannot have."""
    return {column for table in _LABELLED_TABLES for column in _TABLES[table]}


def describe_columns(labels: Mapping[str, "LabelType"]) -> dict[str, dict[str, str]]:
    """The names and types of the columns of all tables as text, for the manifest."""
    return {table: {name: str(dtype) for name, dtype in get_columns(table, labels).items()} for table in _TABLES}


def find_constant_names(table: pl.DataFrame) -> dict[str, str]:
    """The columns with one name in all rows, such as the only protocol of a capture, and these names."""
    constants: dict[str, str] = {}
    for column in table.iter_columns():
        if isinstance(column.dtype, (pl.Enum, pl.Categorical)) and not column.has_nulls():
            numbers = column.to_physical()
            if len(numbers) and numbers.min() == numbers.max():
                constants[column.name] = column[0]
    return constants


def to_portable_types(table: pl.LazyFrame, name: str, constants: Mapping[str, str] = _NO_NAMES) -> pl.LazyFrame:
    """A table of the analysis, including `frames`, with the types of the Parquet files.

    The highest bit of a digest becomes the sign: digests are only compared for equality. `constants` are those of
    `find_constant_names`: polars writes one text for all rows in half the time of a text for each.
    """

    def convert(column: str, dtype: pl.DataType) -> pl.Expr:
        if column == "digest":
            return pl.col(column).reinterpret(signed=True)
        if column in constants and dtype == pl.String:
            return pl.lit(constants[column], dtype=dtype).alias(column)
        return pl.col(column).cast(dtype)

    columns = _FRAMES if name == "frames" else _TABLES[name]
    return table.select(convert(column, dtype) for column, dtype in columns.items())


def add_label_columns(
    table: pl.DataFrame, labels: Mapping[str, Mapping[str, Any]], label_types: Mapping[str, "LabelType"]
) -> pl.DataFrame:
    """The table with these label columns in place of its own; `labels` are those of each capture."""
    reserved = get_reserved_names()
    unlabelled = table.select([name for name in table.columns if name in reserved])
    if not label_types:
        return unlabelled
    rows = [(capture, *(values.get(name) for name in label_types)) for capture, values in labels.items()]
    columns = {"capture": pl.String(), **{name: _LABEL_TYPES[label_type]() for name, label_type in label_types.items()}}
    label_table = pl.DataFrame(rows, schema=columns, orient="row")
    return unlabelled.join(label_table, on="capture", how="left", maintain_order="left")
