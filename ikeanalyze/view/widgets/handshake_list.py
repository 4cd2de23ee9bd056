"""The list of handshakes, with a filter, an order and a selection."""

from typing import Any, Final

import polars as pl
from rich.text import Text
from textual.events import Resize

from ikeanalyze.analysis.tables.filter_language import FilterError, parse_filter
from ikeanalyze.analysis.tables.search_table import build_filter_expression
from ikeanalyze.render.core.table import pad_text
from ikeanalyze.view.columns import build_list_table, compute_widths, make_list_columns, sort_rows
from ikeanalyze.view.text_lines import NAME
from ikeanalyze.view.widgets.list_view import ListView

_CHOSEN: Final = {True: "*", False: " "}


class HandshakeList(ListView):
    """A list of the handshakes that match the filter, one line each."""

    def __init__(self, handshakes: pl.DataFrame, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._fill(handshakes)
        self.chosen: set[int] = set()  #: ids of the handshakes that are selected to be saved
        self.sorted_by = 0  #: index of a column
        self.falling = False
        self.filter = ""
        self.problem: str | None = None  #: the error in the filter, which then matches no handshake
        self._gap = "  "
        self._order = pl.int_range(self.table.height, eager=True).to_list()
        self._shown = self._order
        self._last: int | None = None  # handshake under the cursor before the filter excluded all

    def _fill(self, handshakes: pl.DataFrame) -> None:
        self.table = build_list_table(handshakes)
        self.columns = make_list_columns(self.table)
        self._widths = compute_widths(self.columns, self.table)

    def extend(self, handshakes: pl.DataFrame) -> None:
        """Show these handshakes: those before, in the same places, and further ones with greater ids."""
        self._fill(handshakes)
        self.sort(self.sorted_by, falling=self.falling)

    def on_resize(self, _: Resize) -> None:
        """Move the columns closer together if they do not fit."""
        self._gap = "  "
        if self.cells() > self.scrollable_content_region.width:
            self._gap = " "
        self.update_rows(self.cursor)

    @property
    def shown(self) -> list[int]:
        """Ids of the handshakes that match the filter, in the order of the list."""
        ids: list[int] = self.table["handshake"].gather(self._shown).to_list()
        return ids

    @property
    def current(self) -> int | None:
        """Id of the handshake under the cursor; None if the list is empty."""
        return int(self.row(self.cursor)["handshake"]) if self._shown else None

    def row(self, entry: int) -> dict[str, Any]:
        """Return the row of an entry in `table`."""
        return self.table.row(self._shown[entry], named=True)

    def choose(self) -> None:
        """Select the handshake under the cursor, or clear its selection, and move to the next."""
        if self.current is not None:
            self.chosen ^= {self.current}
            self.action_move(1)
            self.refresh()

    def set_filter(self, text: str) -> None:
        """Show the handshakes that match a filter."""
        self.filter = text
        self._rearrange()

    def sort(self, column: int, *, falling: bool = False) -> None:
        """Sort by a column."""
        self.sorted_by = column % len(self.columns)
        self.falling = falling
        self._order = sort_rows(self.table, self.columns[self.sorted_by].source, falling=falling).to_list()
        self._rearrange()

    def _rearrange(self) -> None:
        """Apply order and filter; the cursor stays at its handshake if the filter keeps it."""
        self._last = last = self._last if self.current is None else self.current
        matches = self.table.select("handshake", self._read_filter().alias("matches"))["matches"]
        order = pl.Series(self._order, dtype=pl.Int64)
        self._shown = order.filter(matches.gather(order)).to_list()
        shown = self.shown
        self.update_rows(shown.index(last) if last in shown else 0)

    def _read_filter(self) -> pl.Expr:
        """Return the filter as an expression over the table."""
        self.problem = None
        try:
            return build_filter_expression(parse_filter(self.filter, unfinished=True))
        except FilterError as error:
            self.problem = str(error)
            return pl.lit(False)

    def heading(self) -> list[Text]:
        """Return the names of the columns, with the direction of the order."""
        line = Text(_CHOSEN[False])
        for index, (column, width) in enumerate(zip(self.columns, self._widths, strict=True)):
            name, is_sorted = column.name, index == self.sorted_by
            if is_sorted and len(name) < width:
                sign = "▼" if self.falling else "▲"
                name = f"{sign}{name}" if column.right else f"{name}{sign}"
            line.append(pad_text(name, width, right=column.right), "bold" if is_sorted else NAME).append(self._gap)
        return [line]

    def heading_clicked(self, cell: int) -> None:
        """Sort by the clicked column, or reverse its order."""
        end = len(_CHOSEN[False])
        for index, width in enumerate(self._widths):
            end += width + len(self._gap)
            if cell < end:
                self.sort(index, falling=index == self.sorted_by and not self.falling)
                return

    def entries(self) -> int:
        """Return the number of handshakes that are shown."""
        return len(self._shown)

    def cells(self) -> int:
        """Return the width of a line in cells."""
        return sum(self._widths) + len(self._gap) * len(self._widths) + len(_CHOSEN[True])

    def draw(self, line: int) -> Text:
        """Return the line of a handshake."""
        row = self.row(line)
        text = Text(_CHOSEN[row["handshake"] in self.chosen])
        for column, width in zip(self.columns, self._widths, strict=True):
            style = "" if column.style is None else column.style(row)
            text.append(pad_text(column.text(row), width, right=column.right), style).append(self._gap)
        return text
