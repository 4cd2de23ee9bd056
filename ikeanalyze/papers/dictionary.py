"""The data dictionary of a report: the meaning of each column of its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import polars as pl

from ikeanalyze.analysis.tables import layouts
from ikeanalyze.papers import PaperError

#: The fields of structures in columns of handshakes, by the name of the table that has a row for each structure.
_FIELDS: Final = {
    "certificates": layouts.CERTIFICATE_FIELDS,
    "diagnosis": layouts.DIAGNOSIS_FIELDS,
    "key_exchanges": layouts.KEY_EXCHANGE_FIELDS,
}


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
        name: of the table, by which the schema of the analysis is chosen (see `get_schema_meanings`).
        table: its rows.
        meanings: of columns that the schema does not describe, by their name, as `table.column`, or by a pattern such
            as `link_*` for those that have no other meaning.

    Raises:
        PaperError: a column has no meaning.
    """
    known = get_schema_meanings(name)
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


def get_schema_meanings(table: str) -> dict[str, str]:
    """Return the meanings of the columns that the analysis defines for a table, in words also if the name says it.

    A table that is neither of exchanges nor of structures in a column of handshakes has columns of handshakes.
    """
    columns = layouts.EXCHANGE_COLUMNS if table == "exchanges" else layouts.HANDSHAKE_COLUMNS | _FIELDS.get(table, {})
    return {name: column.meaning or name.replace("_", " ") for name, column in columns.items()}
