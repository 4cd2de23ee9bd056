"""A list that one moves through with the keys of arrows and of vi: however long it is, what is seen of it is drawn."""

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


# Textual's DataTable and OptionList take 10 to 30 s to fill with 100,000 rows, at the start and after each filter; this 0.1 s.
class ListView(ScrollView, can_focus=True):
    """Lines below a heading that stays; one or several of them are an entry, and one entry has the cursor.

    A subclass says what there is: `heading`, `entries`, `span`, `entry_at`, `draw`.
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
    Rows { scrollbar-gutter: stable; scrollbar-size: 0 1; overflow-x: auto; overflow-y: scroll; }
    """

    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor is at another entry."""

    class Chosen(Message):
        """Enter was pressed, or an entry was clicked twice."""

    def heading(self) -> list[Text]:
        """Lines that stay at the top."""
        return []

    def entries(self) -> int:
        """How many there are."""
        raise NotImplementedError

    def span(self, entry: int) -> tuple[int, int]:
        """The first line of an entry, and how many lines it has."""
        return entry, 1

    def entry_at(self, line: int) -> int | None:
        """The entry that a line belongs to; None: to none."""
        return line if 0 <= line < self.entries() else None

    def lines(self) -> int:
        """How many there are below the heading."""
        return self.entries()

    def draw(self, line: int) -> Text:
        """One line."""
        raise NotImplementedError

    def cells(self) -> int:
        """Those of the widest line."""
        return self.size.width

    def update_rows(self, cursor: int = 0) -> None:
        """Show what there is now, with the cursor at an entry."""
        self.virtual_size = Size(self.cells(), self.lines() + len(self.heading()))
        # the entry may be another one, though its number is the same
        self.set_reactive(ListView.cursor, max(0, min(cursor, self.entries() - 1)))
        self._follow()
        self.refresh()
        self.post_message(self.Moved())

    def validate_cursor(self, cursor: int) -> int:
        """Stay inside of the list."""
        return max(0, min(cursor, self.entries() - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        """Follow the cursor."""
        if before != now:
            self._follow()
            self.refresh()
            self.post_message(self.Moved())

    def on_resize(self, _: Resize) -> None:
        """Keep the cursor in sight."""
        self._follow()

    def _room(self) -> int:
        return max(self.scrollable_content_region.height - len(self.heading()), 1)

    def _follow(self) -> None:
        if not self.entries():
            return
        top, height = self.span(self.cursor)
        first = round(self.scroll_target_y)
        if self.cursor == 0:
            top, height = 0, top + height  # with what stands above it
        if top + height > first + self._room():
            first = top + height - self._room()
        first = min(first, top)
        if first != round(self.scroll_target_y):
            self.scroll_to(y=first, animate=False, force=True)

    def action_move(self, by: int) -> None:
        """Some entries on."""
        self.cursor += by

    def action_page(self, pages: float) -> None:
        """Some pages on."""
        if not self.entries():
            return
        step = max(round(abs(pages) * self._room()), 1)
        top, _ = self.span(self.cursor)
        line = top + step if pages > 0 else top - step
        last = self.lines() - 1
        line = max(0, min(line, last))
        # lines of no entry are passed over
        way = 1 if pages > 0 else -1
        while 0 <= line <= last and self.entry_at(line) is None:
            line += way
        entry = self.entry_at(line) if 0 <= line <= last else None
        self.cursor = (self.entries() - 1 if pages > 0 else 0) if entry is None else entry

    def action_edge(self, entry: int) -> None:
        """To the first or the last one."""
        self.cursor = entry % max(self.entries(), 1)

    def action_sideways(self, way: int) -> None:
        """See what is beside."""
        self.scroll_relative(x=8 * way, animate=False)

    def action_choose(self) -> None:
        """Say that this one is wanted."""
        if self.entries():
            self.post_message(self.Chosen())

    def on_click(self, event: Click) -> None:
        """Put the cursor where the mouse is; twice is as Enter."""
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
        """The heading was clicked, at a cell of its line."""

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        heading = self.heading()
        if y < len(heading):
            return self._strip(heading[y], "")
        line = y - len(heading) + round(self.scroll_y)
        if line >= self.lines():
            return self._strip(Text(), "")
        entry = self.entry_at(line)
        chosen = entry is not None and entry == self.cursor and self.span(entry)[0] == line
        return self._strip(self.draw(line), _CURSOR if chosen else "")

    def _strip(self, text: Text, style: str) -> Strip:
        if style:
            # a bar of one colour: what is dim or coloured could not be read on it
            wide = text.plain.ljust(len(text.plain) + max(self.cells() - text.cell_len, 0))
            text = Text().append(wide, style if self.has_focus else "bold underline")
        segments: list[Segment] = list(text.render(self.app.console))
        left = round(self.scroll_x)
        strip = Strip(segments, text.cell_len)
        return strip.crop_extend(left, left + self.size.width, self.rich_style).apply_style(self.rich_style)
