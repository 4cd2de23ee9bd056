"""Lines of styled text, and how they are wrapped to the width of a pane."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

#: Styles that are readable on light and on dark backgrounds.
TITLE: Final = "bold"
NAME: Final = "dim"
SPECIAL: Final = "magenta"
WRONG: Final = "red"
#: The first and the second of two compared messages.
FIRST: Final = "red"
SECOND: Final = "magenta"

_MIN_WIDTH: Final = 8  # cells of the text in an indented row
_CONSOLE: Final = Console(width=1000, color_system=None)


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text, and the indentation of its second and later rows if it is wrapped."""

    text: Text
    hang: int = 0  # cells


def make_line(text: str, style: str = "", hang: int = 0) -> TextLine:
    """Return a line in one style."""
    return TextLine(Text().append(text, style), hang)


def make_fact_line(name: str, value: str, names: int = 0, style: str = "", indent: int = 2) -> TextLine:
    """Return the line of a name and its value; `names`: cells of the longest name in the column of names."""
    width = max(names, cell_len(name))
    text = Text(" " * indent).append(name.ljust(width), NAME).append("  ")
    return TextLine(text.append(value, style), indent + width + 2)


def make_fact_lines(pairs: Iterable[tuple[str, str]], indent: int = 2) -> Iterator[TextLine]:
    """Return lines of names and values in two columns."""
    pairs = list(pairs)
    names = max((cell_len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        yield make_fact_line(name, value, names, indent=indent)


def wrap_lines(lines: Iterable[TextLine], width: int) -> list[Text]:
    """Return the lines in rows of at most `width` cells."""
    rows: list[Text] = []
    for line in lines:
        if line.text.cell_len <= width:
            rows.append(line.text)
            continue
        hang = min(line.hang, max(width - _MIN_WIDTH, 0))
        head, *_ = line.text.wrap(_CONSOLE, width)
        rest = line.text[len(head) :]
        head.rstrip()
        rows.append(head)
        # the rows after the first one are narrower
        spaces = len(rest.plain) - len(rest.plain.lstrip(" "))
        for row in rest[spaces:].wrap(_CONSOLE, max(width - hang, 1)):
            row.rstrip()
            rows.append(Text(" " * hang).append_text(row))
    return rows
