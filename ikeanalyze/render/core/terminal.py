"""Sections as text in the width of the terminal, in colour where the terminal supports it.

Colour only repeats what the text contains: nothing is lost in a pipe or with NO_COLOR.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final, TextIO, assert_never

from ikeanalyze.render.core.section import KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import fit_columns, format_lines, pad_text

_MIN_WIDTH: Final = 60
#: Names of facts that are shown in colour.
_PROBLEMS: Final = ("diagnosis", "damaged", "warnings", "one-sided", "malformed", "cut by the snaplen")
#: Colours of outcomes that are not a success.
OUTCOME_STYLES: Final = {
    "failed": "red",
    "unanswered": "red",
    "half-open": "red",
    "cut": "yellow",
    "not made": "yellow",
}


class TextStyler:
    """Applies colours to text if the output supports them."""

    def __init__(self, out: TextIO, width: int | None) -> None:
        if _is_plain(out):
            self.width = max(width or _get_columns() or 80, _MIN_WIDTH)
            self._colours = None
            self.unicode = (getattr(out, "encoding", None) or "utf-8").lower().startswith("utf")
            return
        from rich.console import Console  # not for a pipe or file, because it loads longer than a small report takes

        console = Console(file=out)
        # FORCE_COLOR applies to a pipe, but not to a file named with -o
        terminal = console.is_terminal and (out is sys.stdout or out.isatty())
        self.width = max(width or (console.width if terminal else _get_columns() or 80), _MIN_WIDTH)
        self._colours = None if console.no_color or not terminal else console._color_system
        self.unicode = console.encoding.lower().startswith("utf")

    def __call__(self, text: str, style: str) -> str:
        """Return `text` in `style`, or unchanged without colours."""
        if self._colours is None or not text:
            return text
        from rich.style import Style

        return Style.parse(style).render(text, color_system=self._colours)


def _get_columns() -> int | None:
    """Return the width that the environment has for output that is not a terminal."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() else None


def _is_plain(out: TextIO) -> bool:
    """Return whether `out` is a pipe or file, and no variable of the environment makes rich use colours there."""
    return not out.isatty() and not os.environ.keys() & {"FORCE_COLOR", "TTY_COMPATIBLE"}


def write_sections(parts: Iterable[Section], out: TextIO, width: int | None = None) -> None:
    """Write sections one below the other, `width` columns wide; None: as wide as the terminal, or COLUMNS, or 80."""
    paint = TextStyler(out, width)
    for i, section in enumerate(parts):
        if i:
            out.write("\n")
        for line in _format_section(section, paint):
            out.write((line if paint.unicode else line.replace("…", "~")) + "\n")


def get_headline_style(outcome: str | None, success: str = "bold cyan") -> str:
    """Return the style of a title with this outcome of a handshake; `success`: the style of all others."""
    return f"bold {OUTCOME_STYLES[outcome]}" if outcome in OUTCOME_STYLES else success


def _format_section(section: Section, paint: TextStyler) -> Iterator[str]:
    style = "bold cyan" if section.level == 1 else "bold"
    if isinstance(section, KeyValueSection):
        style = get_headline_style(section.outcome, style)
    for line in wrap(section.title, paint.width, break_on_hyphens=False) or [""]:
        yield paint(line, style)
    match section:
        case KeyValueSection():
            yield from format_facts(section.rows, paint)
        case TableSection():
            yield from _format_table(section, paint)
        case _:
            assert_never(section)


def format_facts(facts: Sequence[tuple[str, str]], paint: TextStyler) -> Iterator[str]:
    """Yield names and values in two columns; a long value is wrapped."""
    names = max((len(name) for name, _ in facts), default=0)
    for name, value in facts:
        width = paint.width - names - 4
        texts = wrap(_divide_long_words(value, width), width, break_on_hyphens=False) or [""]
        yield f"  {paint(pad_text(name, names), 'dim')}  {paint(texts[0], 'yellow' if name in _PROBLEMS else '')}".rstrip()
        for text in texts[1:]:
            yield " " * (names + 4) + text


def _divide_long_words(text: str, width: int) -> str:
    """Put spaces behind slashes at which words that are longer than a line, such as proposals, continue on the next."""
    if len(text) <= width:
        return text
    return " ".join(_divide_word(word, width) if len(word) > width else word for word in text.split(" "))


def _divide_word(word: str, width: int) -> str:
    lines = [""]
    for part in re.findall(r"[^/]*/|[^/]+$", word):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return " ".join(lines)


def _format_table(section: TableSection, paint: TextStyler) -> Iterator[str]:
    fitted = fit_columns(section.columns, section.rows, paint.width - 2)
    text = format_lines(section.columns, section.rows, fitted)
    yield "  " + paint(next(text), "dim")
    for i, line in enumerate(text):
        row = section.rows[i]
        style = OUTCOME_STYLES.get(row[-1].split(":")[0], "") if section.columns[-1].name == "outcome" else ""
        if section.sums and i == len(section.rows) - 1:
            style = "bold"
        yield "  " + paint(line, style)
    if section.more:
        yield f"  ... and {section.more:,} more (--no-limit shows them)"
    notes = list(section.notes)
    if fitted.left_out:
        names = ", ".join(section.columns[i].name for i in fitted.left_out)
        notes.append(f"no room for: {names} (all in the formats json and csv)")
    for note in notes:
        for line in wrap(note, paint.width - 2, break_on_hyphens=False):
            yield "  " + paint(line, "dim")
