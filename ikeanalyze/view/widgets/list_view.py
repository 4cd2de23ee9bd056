"""A virtualised list widget with arrow and vi keys: only the visible lines are drawn."""

from abc import abstractmethod
from typing import ClassVar, Final

from rich.segment import Segment
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

_CURSOR: Final = "reverse"


# Textual's DataTable and OptionList need 10 to 30 s for 100,000 rows, at the start and after each filter; this needs
# 0.1 s.
class ListView(ScrollView, can_focus=True):
    """Lines below a fixed heading. An entry is one or several lines, and one entry has the cursor.

    A subclass defines the contents: `heading`, `entries`, `span`, `entry_at`, `draw`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("ctrl+u", "page(-0.5)", show=False),
        Binding("ctrl+d", "page(0.5)", show=False),
        Binding("home,g", "edge(0)", show=False),
        Binding("end,G", "edge(-1)", show=False),
        Binding("left", "sideways(-1)", show=False),
        Binding("right", "sideways(1)", show=False),
        Binding("enter", "choose", show=False),
    ]
    DEFAULT_CSS = """
    ListView { scrollbar-gutter: stable; scrollbar-size: 0 1; overflow-x: auto; overflow-y: scroll; }
    """

    cursor: reactive[int] = reactive(0)

    class CursorMoved(Message):
        """The cursor is at another entry."""

    class EntryChosen(Message):
        """Enter was pressed, or an entry was double-clicked."""

    def heading(self) -> list[Text]:
        """Return the fixed lines at the top."""
        return []

    @abstractmethod
    def entries(self) -> int:
        """Return the number of entries."""

    def span(self, entry: int) -> tuple[int, int]:
        """Return the first line of an entry, and its number of lines."""
        return entry, 1

    def entry_at(self, line: int) -> int | None:
        """Return the entry that a line belongs to, or None."""
        return line if 0 <= line < self.entries() else None

    def lines(self) -> int:
        """Return the number of lines below the heading."""
        return self.entries()

    @abstractmethod
    def draw(self, line: int) -> Text:
        """Return the text of a line."""

    def cells(self) -> int:
        """Return the width of the widest line in cells."""
        return self.size.width

    def update_rows(self, cursor: int = 0) -> None:
        """Show changed contents, with the cursor at an entry."""
        self.virtual_size = Size(self.cells(), self.lines() + len(self.heading()))
        # watchers are not called: the entry may differ even if its number is the same
        self.set_reactive(ListView.cursor, max(0, min(cursor, self.entries() - 1)))
        self._scroll_to_cursor()
        self.refresh()
        self.post_message(self.CursorMoved())

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor inside the list."""
        return max(0, min(cursor, self.entries() - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Show the cursor at its new entry."""
        if before != now:
            self._scroll_to_cursor()
            self.refresh()
            self.post_message(self.CursorMoved())

    def on_resize(self, _: Resize) -> None:
        """Keep the cursor visible."""
        self._scroll_to_cursor()

    def _visible_lines(self) -> int:
        return max(self.scrollable_content_region.height - len(self.heading()), 1)

    def _scroll_to_cursor(self) -> None:
        if not self.entries():
            return
        top, height = self.span(self.cursor)
        first = round(self.scroll_target_y)
        if self.cursor == 0:
            top, height = 0, top + height  # with the lines above the first entry
        if top + height > first + self._visible_lines():
            first = top + height - self._visible_lines()
        first = min(first, top)
        if first != round(self.scroll_target_y):
            self.scroll_to(y=first, animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by some entries."""
        self.cursor += by

    def action_page(self, pages: float) -> None:
        """Move the cursor by some pages."""
        if not self.entries():
            return
        step = max(round(abs(pages) * self._visible_lines()), 1)
        top, _ = self.span(self.cursor)
        line = top + step if pages > 0 else top - step
        last = self.lines() - 1
        line = max(0, min(line, last))
        # skip lines that belong to no entry
        direction = 1 if pages > 0 else -1
        while 0 <= line <= last and self.entry_at(line) is None:
            line += direction
        entry = self.entry_at(line) if 0 <= line <= last else None
        self.cursor = (self.entries() - 1 if pages > 0 else 0) if entry is None else entry

    def action_edge(self, entry: int) -> None:
        """Move the cursor to the first or the last entry."""
        self.cursor = entry % max(self.entries(), 1)

    def action_sideways(self, direction: int) -> None:
        """Scroll horizontally."""
        self.scroll_relative(x=8 * direction, animate=False)

    def action_choose(self) -> None:
        """Post `EntryChosen`."""
        if self.entries():
            self.post_message(self.EntryChosen())

    def on_click(self, event: Click) -> None:
        """Move the cursor to the clicked entry; a double click is the same as Enter."""
        line = event.y - len(self.heading())
        if line < 0:
            self.heading_clicked(event.x + round(self.scroll_x))
            return
        entry = self.entry_at(line + round(self.scroll_y))
        if entry is None:
            return
        self.cursor = entry
        if event.chain == 2:
            self.action_choose()

    def heading_clicked(self, cell: int) -> None:
        """Handle a click on a cell of the heading."""

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        heading = self.heading()
        if y < len(heading):
            return self._strip(heading[y], "")
        line = y - len(heading) + round(self.scroll_y)
        if line >= self.lines():
            return self._strip(Text(), "")
        entry = self.entry_at(line)
        at_cursor = entry is not None and entry == self.cursor and self.span(entry)[0] == line
        return self._strip(self.draw(line), _CURSOR if at_cursor else "")

    def _strip(self, text: Text, style: str) -> Strip:
        if style:
            # in one colour: dim or coloured text is unreadable in reverse
            padded = text.plain.ljust(len(text.plain) + max(self.cells() - text.cell_len, 0))
            text = Text().append(padded, style if self.has_focus else "bold underline")
        segments: list[Segment] = list(text.render(self.app.console))
        left = round(self.scroll_x)
        strip = Strip(segments, text.cell_len)
        return strip.crop_extend(left, left + self.size.width, self.rich_style).apply_style(self.rich_style)
