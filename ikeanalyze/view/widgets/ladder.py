"""The ladder of one handshake, drawn by `render.ladder`, with a cursor that goes from message to message."""

from dataclasses import replace
from typing import Final

import polars as pl
from rich.color import ColorSystem
from rich.text import Text
from textual.events import Resize

from ikeanalyze.analysis.schema import MESSAGES
from ikeanalyze.render.core.terminal import TextStyler
from ikeanalyze.render.ladder import text as ladder_text
from ikeanalyze.view.session import HandshakeDetails
from ikeanalyze.view.text_lines import SPECIAL
from ikeanalyze.view.widgets.list_view import ListView

_GUTTER: Final = 2  # cells, for marks
_LEAST: Final = 46  # cells that a ladder can be drawn in


class StyledText(TextStyler):
    """Paints in the colours of this room."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.unicode = True
        self._colours = ColorSystem.STANDARD

    def __call__(self, text: str, style: str) -> str:
        """`text` in `style`."""
        return super().__call__(text, SPECIAL if style == "yellow" else style)


class LadderView(ListView):
    """The messages of a handshake between its hosts."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.words = False  #: the payloads of each message stand below it
        self.marks: dict[int, str] = {}  #: signs of the messages that were marked, by their ids
        self._opened: HandshakeDetails | None = None
        self._heading: list[Text] = []
        self._lines: list[Text] = []
        self._entry_of_line: list[int | None] = []
        self._spans: list[tuple[int, int]] = []
        self._messages: list[int] = []
        self._drawn = 0

    def clear(self) -> None:
        """Show no handshake."""
        self._opened = None
        self._heading, self._lines, self._entry_of_line, self._spans, self._messages = [], [], [], [], []
        self.update_rows()

    def show(self, opened: HandshakeDetails) -> None:
        """Show a handshake."""
        self._opened = opened
        self._lay_out()
        self.update_rows()

    @property
    def current(self) -> int | None:
        """Id of the message under the cursor; None: there is none."""
        return self._messages[self.cursor] if self._messages else None

    def show_words(self, words: bool) -> None:
        """Show the payloads of each message below it, or not."""
        self.words = words
        self._lay_out()
        self.update_rows(self.cursor)

    def on_resize(self, _: Resize) -> None:
        """Draw it as wide as there is room."""
        if self._opened is not None and self._drawn != self._width():
            self._lay_out()
            self.update_rows(self.cursor)
        else:
            self._follow()

    def _width(self) -> int:
        return max(self.scrollable_content_region.width - _GUTTER, _LEAST)

    def _lay_out(self) -> None:
        if self._opened is None:
            return
        analysis = self._opened.analysis
        if not self.words:
            nothing = pl.lit(None, MESSAGES["payloads"]).alias("payloads")
            analysis = replace(analysis, messages=analysis.messages.with_columns(nothing))
        self._drawn = self._width()
        self._lines, self._entry_of_line, self._spans, self._messages = [], [], [], []
        first, *rungs = ladder_text.render_rows(analysis, StyledText(self._drawn))
        self._heading = list(map(_text, first.lines))
        for rung in rungs:
            entry = None
            if rung.message is not None:
                entry = len(self._messages)
                self._messages.append(rung.message)
                self._spans.append((len(self._lines), len(rung.lines)))
            self._lines.extend(map(_text, rung.lines))
            self._entry_of_line.extend([entry] * len(rung.lines))

    def heading(self) -> list[Text]:
        """The names of the hosts."""
        return self._heading

    def entries(self) -> int:
        """Messages."""
        return len(self._messages)

    def span(self, entry: int) -> tuple[int, int]:
        """The lines of a message."""
        return self._spans[entry]

    def entry_at(self, line: int) -> int | None:
        """The message that a line is of."""
        return self._entry_of_line[line] if 0 <= line < len(self._lines) else None

    def lines(self) -> int:
        """All of the ladder."""
        return len(self._lines)

    def cells(self) -> int:
        """Those of a line."""
        return self._drawn + _GUTTER

    def draw(self, line: int) -> Text:
        """One line, with the mark of its message."""
        text = self._lines[line]
        entry = self._entry_of_line[line]
        if entry is None or self._spans[entry][0] != line:
            return text
        mark = self.marks.get(self._messages[entry])
        return text if mark is None else Text(mark, "bold").append_text(text[len(mark) :])


def _text(line: str) -> Text:
    return Text(" " * _GUTTER).append_text(Text.from_ansi(line))
