"""The ladder of one handshake, rendered by `render.ladder`, with a cursor that moves from message to message."""

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
_MIN_WIDTH: Final = 46  # cells


class StyledText(TextStyler):
    """Styles the text of a ladder in the colours of the browser."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.unicode = True
        self._colours = ColorSystem.STANDARD

    def __call__(self, text: str, style: str) -> str:
        """Return `text` in `style`."""
        return super().__call__(text, SPECIAL if style == "yellow" else style)


class LadderView(ListView):
    """Shows the messages of a handshake between its hosts."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.has_payloads = False  #: whether the payloads of a message are shown below it
        self.marks: dict[int, str] = {}  #: characters of the marked messages, by message id
        self._details: HandshakeDetails | None = None
        self._heading: list[Text] = []
        self._lines: list[Text] = []
        self._entry_of_line: list[int | None] = []
        self._spans: list[tuple[int, int]] = []
        self._messages: list[int] = []
        self._drawn = 0

    def show(self, details: HandshakeDetails | None) -> None:
        """Show a handshake; None: nothing."""
        self._details = details
        self._lay_out()
        self.update_rows()

    @property
    def current(self) -> int | None:
        """Id of the message under the cursor; None if the ladder is empty."""
        return self._messages[self.cursor] if self._messages else None

    def show_payloads(self, visible: bool) -> None:
        """Show or hide the payloads of each message."""
        self.has_payloads = visible
        self._lay_out()
        self.update_rows(self.cursor)

    def on_resize(self, _: Resize) -> None:
        """Render the ladder for the new width."""
        if self._details is not None and self._drawn != self._width():
            self._lay_out()
            self.update_rows(self.cursor)
        else:
            self._scroll_to_cursor()

    def _width(self) -> int:
        return max(self.scrollable_content_region.width - _GUTTER, _MIN_WIDTH)

    def _lay_out(self) -> None:
        self._heading, self._lines, self._entry_of_line, self._spans, self._messages = [], [], [], [], []
        if self._details is None:
            return
        analysis = self._details.analysis
        if not self.has_payloads:
            nothing = pl.lit(None, MESSAGES["payloads"]).alias("payloads")
            analysis = replace(analysis, messages=analysis.messages.with_columns(nothing))
        self._drawn = self._width()
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
        """Return the names of the hosts."""
        return self._heading

    def entries(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    def span(self, entry: int) -> tuple[int, int]:
        """Return the first line of a message, and its number of lines."""
        return self._spans[entry]

    def entry_at(self, line: int) -> int | None:
        """Return the message that a line belongs to, or None."""
        return self._entry_of_line[line] if 0 <= line < len(self._lines) else None

    def lines(self) -> int:
        """Return the number of lines of the ladder."""
        return len(self._lines)

    def cells(self) -> int:
        """Return the width of a line in cells."""
        return self._drawn + _GUTTER

    def draw(self, line: int) -> Text:
        """Return one line, with the mark of its message."""
        text = self._lines[line]
        entry = self._entry_of_line[line]
        if entry is None or self._spans[entry][0] != line:
            return text
        mark = self.marks.get(self._messages[entry])
        return text if mark is None else Text(mark, "bold").append_text(text[len(mark) :])


def _text(line: str) -> Text:
    return Text(" " * _GUTTER).append_text(Text.from_ansi(line))
