"""Lines of styled text, wrapped where a pane is too narrow for them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

#: Attributes and those of the terminal's own colours that can be read on light and on dark ground alike.
TITLE: Final = "bold"
NAME: Final = "dim"
SPECIAL: Final = "magenta"
WRONG: Final = "red"
#: What is of the first and of the second of two messages.
FIRST: Final = "red"
SECOND: Final = "magenta"

_LEAST: Final = 8  # cells that are left for a text that hangs
_CONSOLE: Final = Console(width=1000, color_system=None)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text, and how far its second and later rows are set in where it has to be wrapped."""

    text: Text
    hang: int = 0  # cells


def make_line(text: str, style: str = "", hang: int = 0) -> TextLine:
    """A line in one style."""
    return TextLine(Text().append(text, style), hang)


def make_fact_line(name: str, value: str, names: int = 0, style: str = "", indent: int = 2) -> TextLine:
    """A name and its value; `names`: cells of the longest name beside it."""
    room = max(names, cell_len(name))
    text = Text(" " * indent).append(name.ljust(room), NAME).append("  ")
    return TextLine(text.append(value, style), indent + room + 2)


def make_fact_lines(pairs: Iterable[tuple[str, str]], indent: int = 2) -> Iterator[TextLine]:
    """Names and their values, one below the other."""
    known = list(pairs)
    names = max((cell_len(name) for name, _ in known), default=0)
    for name, value in known:
        yield make_fact_line(name, value, names, indent=indent)


def wrap_lines(lines: Iterable[TextLine], width: int) -> list[Text]:
    """The lines in rows of at most `width` cells."""
    rows: list[Text] = []
    for line in lines:
        if line.text.cell_len <= width:
            rows.append(line.text)
            continue
        hang = min(line.hang, max(width - _LEAST, 0))
        head, *_ = line.text.wrap(_CONSOLE, width)
        rest = line.text[len(head) :]
        head.rstrip()
        rows.append(head)
        # the rows behind the first are narrower
        for row in _stripped(rest).wrap(_CONSOLE, max(width - hang, 1)):
            row.rstrip()
            rows.append(Text(" " * hang).append_text(row))
    return rows


def _stripped(text: Text) -> Text:
    spaces = len(text.plain) - len(text.plain.lstrip(" "))
    return text[spaces:]
