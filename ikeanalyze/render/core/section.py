"""What a report for people is made of: headings with facts or a table below them.

Nothing here knows of widths or colours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.render.core.table import TableColumn

#: Rows of a table that are shown unless all are asked for.
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
    more: int = 0  # rows that are left out
    sums: bool = False  # the last row adds the others up
    notes: Sequence[str] = field(default=())


Section = KeyValueSection | TableSection
