"""The columns of all Parquet files, of datasets and of reports, with types that every reader of Parquet has.

They are those of `analysis.schema`, with strings in place of categories, since each file would have categories of its own,
and signed integers, so that the difference of two columns may be negative. In a dataset, `capture` and the id, which counts
within the capture, identify the row of a handshake, exchange or message.
"""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis import schema
from ikeanalyze.analysis.result import ACCOUNTING
from ikeanalyze.dataset.labels import Kind

Columns = dict[str, pl.DataType]

#: One row is one capture of the input. If it could not be read, all columns from `format` on are null.
_CAPTURES: Final[schema.Schema] = {
    "capture": pl.String,  # the path as it was given; no other capture of the dataset has it
    "state": pl.String,  # "read" or "failed"
    "reason": pl.String,  # why it could not be read; null: it could
    "file_bytes": pl.Int64,  # of the file as it is, compressed or not
    "sha256": pl.String,  # of the same; null: it could not be opened, or failed for a reason that is not in it
    "keys": pl.List(pl.String),  # files with its keys, as seen from its folder
    "format": pl.String,  # "pcap" or "pcapng"
    "packets": pl.Int64,
    "bytes": pl.Int64,  # sum of the frame lengths on the wire
    "first_ns": pl.Int64,  # time of the first packet; null: it has none
    "last_ns": pl.Int64,
    "snaplen_truncated": pl.Int64,  # packets of which the file has less than crossed the wire
    "damaged": pl.Boolean,  # cut or broken behind the last packet that was read
    **{f"{what}_{unit}": pl.Int64 for what in ACCOUNTING for unit in ("packets", "bytes")},
    "handshakes": pl.Int64,  # rows in that table
    "warnings": pl.List(pl.String),  # what could be read and counted, but that one should know of; of its keys, too
}
_PLAIN: Final[Mapping[str, Any]] = {
    "int": pl.Int64,
    "float": pl.Float64,
    "str": pl.String,
    "bool": pl.Boolean,
}
_LABELLED: Final = ("captures", "handshakes")


def _plain(given: object) -> pl.DataType:
    """The type of a column of the dataset for one of the analysis."""
    dtype: Any = given() if isinstance(given, type) else given
    match dtype:
        case pl.List():
            return pl.List(_plain(dtype.inner))
        case pl.Struct():
            return pl.Struct({field.name: _plain(field.dtype) for field in dtype.fields})
        case pl.Enum() | pl.Categorical():
            return pl.String()
        case pl.UInt8() | pl.UInt16():
            return pl.Int32()
        case pl.UInt32() | pl.UInt64():
            return pl.Int64()
        case pl.DataType():
            return dtype
    raise TypeError(f"{given} is no type of a column")


_TABLES: Final[Mapping[str, Columns]] = {
    name: {column: _plain(dtype) for column, dtype in columns.items()}
    for name, columns in (
        ("captures", _CAPTURES),
        ("handshakes", schema.HANDSHAKES),
        ("exchanges", schema.EXCHANGES),
        ("messages", schema.MESSAGES),
    )
}
#: Only reports have this table. SPIs stay unsigned, as people know them.
_FRAMES: Final[Columns] = {
    column: pl.UInt64() if column in ("spi_i", "spi_r") else _plain(dtype) for column, dtype in schema.FRAMES.items()
}


def get_columns(table: str, labels: Mapping[str, Kind]) -> Columns:
    """Name and type of each column of a table, the labels last."""
    own = dict(_TABLES[table])
    if table in _LABELLED:
        own.update({name: _PLAIN[kind]() for name, kind in labels.items()})
    return own


def get_reserved_names() -> set[str]:
    """Names that a label cannot have."""
    return {column for table in _LABELLED for column in _TABLES[table]}


def describe_columns(labels: Mapping[str, Kind]) -> dict[str, dict[str, str]]:
    """All tables with their columns and types in words, for the manifest."""
    return {table: {name: str(dtype) for name, dtype in get_columns(table, labels).items()} for table in _TABLES}


def to_portable_types(table: pl.DataFrame, name: str) -> pl.DataFrame:
    """A table of the analysis, `frames` included, with the types of the Parquet files.

    The highest of the 64 bits of a digest becomes the sign: digests are only compared for equality.
    """
    return table.select(
        pl.col(column).reinterpret(signed=True) if column == "digest" else pl.col(column).cast(dtype)
        for column, dtype in (_FRAMES if name == "frames" else _TABLES[name]).items()
    )


def add_label_columns(
    table: pl.DataFrame, labels: Mapping[str, Mapping[str, Any]], kinds: Mapping[str, Kind]
) -> pl.DataFrame:
    """The table with its label columns, by the captures' labels; those that it had go."""
    own = table.select([name for name in table.columns if name in get_reserved_names()])
    rows = [(capture, *(one.get(name) for name in kinds)) for capture, one in labels.items()]
    columns = {"capture": pl.String(), **{name: _PLAIN[kind]() for name, kind in kinds.items()}}
    known = pl.DataFrame(rows, schema=columns, orient="row")
    return own.join(known, on="capture", how="left", maintain_order="left")
