"""Types of table columns, without polars: the analysis describes its tables before polars is loaded, or without it."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


class NumberType(Struct, frozen=True):
    """Numbers of one width, or truth values."""

    name: str  # of the type in numpy


class TextType(Struct, frozen=True):
    """Texts."""


class CategoryType(Struct, frozen=True):
    """Texts, most of which appear often."""


class EnumType(Struct, frozen=True):
    """Names from a fixed list; arrays have their places in it."""

    names: tuple[str, ...]


class ListType(Struct, frozen=True):
    """Lists."""

    inner: "ColumnType"


class StructType(Struct, frozen=True):
    """Structures with these fields."""

    fields: Mapping[str, "ColumnType"]


ColumnType = NumberType | TextType | CategoryType | EnumType | ListType | StructType
#: Names and types of the columns of a table.
Layout = dict[str, ColumnType]


class Column(Struct, frozen=True):
    """A column of a table, or a field of a structure."""

    type: ColumnType
    meaning: str = ""  # with its unit; empty: the name says it


def get_column_types(columns: Mapping[str, Column]) -> Layout:
    """The types of described columns."""
    return {name: column.type for name, column in columns.items()}


BOOLEAN: Final = NumberType("bool")
UINT8: Final = NumberType("uint8")
UINT16: Final = NumberType("uint16")
UINT32: Final = NumberType("uint32")
UINT64: Final = NumberType("uint64")
INT64: Final = NumberType("int64")
FLOAT64: Final = NumberType("float64")
TEXT: Final = TextType()
CATEGORY: Final = CategoryType()
