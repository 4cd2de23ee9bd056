"""The data dictionary of a report: the meaning of each column of its tables."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

import polars as pl

from ikeanalyze.analysis.tables import layouts
from ikeanalyze.papers import PaperError

#: A column in the source of the layouts, with its comment: `"mtu": UINT32,  # bytes`.
_COLUMN: Final = re.compile(r'^\s+"(?P<name>\w+)": .*?(?:  # (?P<comment>.*))?$')
_TABLE: Final = re.compile(r"^(?P<table>[A-Z]+): Final\[Layout\]")
_ABOVE: Final = re.compile(r"^\s+#: ?(?P<comment>.*)$")


@dataclass(frozen=True, slots=True)
class ColumnEntry:
    """A column of a table of `data`."""

    name: str
    type: str
    known: int  # rows in which it is not null
    distinct: int  # different values
    meaning: str


def describe_columns(name: str, table: pl.DataFrame, meanings: Mapping[str, str]) -> Iterator[ColumnEntry]:
    """Yield an entry for each column of the table `name`.

    Args:
        name: of the table. `exchanges` is described by the schema of the analysis; the others by that of handshakes.
        table: its rows.
        meanings: of columns that the schema does not describe, by their name, as `table.column`, or by a pattern such
            as `link_*` for those that have no other meaning.

    Raises:
        PaperError: a column has no meaning.
    """
    known = read_schema_comments("EXCHANGES" if name == "exchanges" else "HANDSHAKES")
    for column, values in zip(table.columns, table, strict=True):
        pattern = next(
            (key for key in meanings if fnmatchcase(column, key) or fnmatchcase(f"{name}.{column}", key)), ""
        )
        places = (meanings.get(f"{name}.{column}"), meanings.get(column), known.get(column), meanings.get(pattern))
        meaning = next((each for each in places if each), None)
        if meaning is None:
            raise PaperError(f"columns: {name}.{column} has no meaning")
        count = len(values) - values.null_count()
        yield ColumnEntry(column, str(values.dtype), count, values.drop_nulls().n_unique(), meaning)


@cache
def read_schema_comments(table: str) -> dict[str, str]:
    """Return the comments on the columns of a table in the source of `layouts`, which defines what they mean.

    The meaning of a column without a comment is its name in words (`initiator_address`).
    """
    comments: dict[str, str] = {}
    above: list[str] = []
    current = ""
    for line in inspect.getsource(layouts).splitlines():
        current = match["table"] if (match := _TABLE.match(line)) else current
        column = _COLUMN.match(line)
        if column and current == table:
            comment = " ".join([*above, column["comment"] or ""]).strip()
            comments[column["name"]] = comment or column["name"].replace("_", " ")
        comment_above = _ABOVE.match(line)
        above = [*above, comment_above["comment"]] if comment_above else []
    return comments
