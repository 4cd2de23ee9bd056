"""The tables of `layouts` as polars schemas."""

from typing import Final

import polars as pl

from ikeanalyze.analysis.tables import layouts
from ikeanalyze.analysis.tables.column_types import (
    CategoryType,
    ColumnType,
    EnumType,
    Layout,
    ListType,
    NumberType,
    StructType,
    TextType,
)

Schema = dict[str, pl.DataType | type[pl.DataType]]

_NUMBERS: Final[dict[str, type[pl.DataType]]] = {
    "bool": pl.Boolean, "uint8": pl.UInt8, "uint16": pl.UInt16, "uint32": pl.UInt32, "uint64": pl.UInt64,
    "int64": pl.Int64, "float64": pl.Float64,
}  # fmt: skip


def convert_type(kind: ColumnType) -> pl.DataType | type[pl.DataType]:
    """The type of a column in polars."""
    match kind:
        case NumberType():
            return _NUMBERS[kind.name]
        case TextType():
            return pl.String
        case CategoryType():
            return pl.Categorical
        case EnumType():
            return pl.Enum(kind.names)
        case ListType():
            return pl.List(convert_type(kind.inner))
        case StructType():
            return pl.Struct({name: convert_type(field) for name, field in kind.fields.items()})


def convert_layout(layout: Layout) -> Schema:
    """The columns of a table as a polars schema."""
    return {name: convert_type(kind) for name, kind in layout.items()}


PROTOCOLS: Final = pl.Enum(layouts.PROTOCOLS.names)
ENCAPSULATIONS: Final = pl.Enum(layouts.ENCAPSULATIONS.names)
OUTCOMES: Final = pl.Enum(layouts.OUTCOMES.names)
VANTAGES: Final = pl.Enum(layouts.VANTAGES.names)

FRAMES: Final = convert_layout(layouts.FRAMES)
MESSAGES: Final = convert_layout(layouts.MESSAGES)
EXCHANGES: Final = convert_layout(layouts.EXCHANGES)
HANDSHAKES: Final = convert_layout(layouts.HANDSHAKES)
