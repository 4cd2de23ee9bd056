"""The sections of a result in text formats: headings with key-value pairs or a table, without widths or colours."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import Cell, format_cell

Item = TypeVar("Item")
#: The columns of a table, each with the function that returns its cell in the row of an item.
Columns = Sequence[tuple[TableColumn, Callable[[Item], Cell]]]

#: Rows of a table that are shown without --no-limit.
FEW: Final = 30


class KeyValueSection(Struct, frozen=True):
    """Names and values, one below the other."""

    title: str
    rows: Sequence[tuple[str, str]]
    level: int = 2  # of the heading
    outcome: str | None = None  # of the handshake that the section is about


class TableSection(Struct, frozen=True):
    """Rows in columns."""

    title: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    level: int = 2
    more: int = 0  # omitted rows
    sums: bool = False  # the last row is the sum of the others
    notes: Sequence[str] = ()


Section = KeyValueSection | TableSection


def tabulate(
    title: str,
    items: Sequence[Item],
    columns: Columns[Item],
    *,
    every: bool = True,
    most: int = FEW,
    level: int = 2,
    notes: Sequence[str] = (),
) -> TableSection:
    """Return a table with a row for each item, or for the first `most` unless `every` is set."""
    shown = items if every else items[:most]
    rows = [tuple(format_cell(cell(item)) for _, cell in columns) for item in shown]
    return TableSection(title, [column for column, _ in columns], rows, level, len(items) - len(shown), notes=notes)
