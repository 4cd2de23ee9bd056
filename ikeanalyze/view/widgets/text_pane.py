"""A scrollable pane of text, wrapped to the width of the pane."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ikeanalyze.view.text_lines import TextLine, wrap_lines

#: Renders the lines for a pane of a width in cells.
LineRenderer = Callable[[int], Iterable[TextLine]]


class TextPane(ScrollView, can_focus=True):
    """Scrollable text."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("ctrl+b", "page_up", show=False),
        Binding("ctrl+f,space", "page_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]
    DEFAULT_CSS = """
    TextPane { scrollbar-gutter: stable; scrollbar-size: 0 1; overflow-x: hidden; overflow-y: scroll; }
    """

    def __init__(self, render_lines: LineRenderer | None = None, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._render_lines = render_lines
        self._rows: list[Text] = []

    def show(self, render_lines: LineRenderer) -> None:
        """Show another text, from its beginning."""
        self._render_lines = render_lines
        self._wrap()
        self.scroll_home(animate=False, force=True)

    def on_resize(self, _: Resize) -> None:
        """Wrap the text to the new width."""
        self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        if self._render_lines is None or width <= 0:
            return
        self._rows = wrap_lines(self._render_lines(width), width)
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    @property
    def text(self) -> str:
        """The text of the pane, one line per row."""
        return "\n".join(row.plain for row in self._rows)

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        row = y + round(self.scroll_y)
        text = self._rows[row] if row < len(self._rows) else Text()
        strip = Strip(list(text.render(self.app.console)), text.cell_len)
        return strip.crop_extend(0, self.size.width, self.rich_style).apply_style(self.rich_style)
