"""The sections of a result in text formats: headings with key-value pairs or a table, without widths or colours."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.render.core.table import TableColumn

#: Rows of a table that are shown without --no-limit.
FEW: Final = 30


@dataclass(frozen=True, slots=True)
class KeyValueSection:
    """Names and values, one below the other."""

    title: str
    rows: Sequence[tuple[str, str]]
    level: int = 2  # of the heading


@dataclass(frozen=True, slots=True)
class TableSection:
    """Rows in columns."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    level: int = 2
    more: int = 0  # omitted rows
    sums: bool = False  # the last row is the sum of the others
    notes: Sequence[str] = field(default=())


Section = KeyValueSection | TableSection


def make_table(
    title: str,
    columns: Sequence[TableColumn],
    rows: Sequence[Sequence[str]],
    *,
    every: bool,
    level: int = 2,
    notes: Sequence[str] = (),
) -> TableSection:
    """Return a table of all rows, or of the first `FEW` unless `every` is set."""
    shown = rows if every else rows[:FEW]
    return TableSection(title, columns, shown, level, more=len(rows) - len(shown), notes=notes)
