"""Writes sections of titles and tables as GitHub Flavored Markdown."""

from collections.abc import Iterable, Iterator
from typing import Final, TextIO, assert_never

from ikeanalyze.render.core.section import KeyValueSection, Section, TableSection
from ikeanalyze.render.core.values import escape_text

_ESCAPES: Final = str.maketrans({character: f"\\{character}" for character in "\\`*[]<>|"})


def write_sections(sections: Iterable[Section], out: TextIO) -> None:
    """Write sections one below the other, separated by empty lines."""
    for i, section in enumerate(sections):
        if i:
            out.write("\n")
        out.writelines(line + "\n" for line in _format_section(section))


def _format_section(section: Section) -> Iterator[str]:
    yield f"{'#' * section.level} {escape_markdown(section.title)}"
    yield ""
    match section:
        case KeyValueSection():
            yield "| | |"  # the header, without which Markdown has no table
            yield "|---|---|"
            for name, value in section.rows:
                yield f"| {escape_markdown(name)} | {escape_markdown(value)} |"
        case TableSection():
            yield _format_row([escape_markdown(column.name) for column in section.columns])
            yield "|" + "|".join("---:" if column.right else "---" for column in section.columns) + "|"
            for i, row in enumerate(section.rows):
                is_sum = section.sums and i == len(section.rows) - 1
                yield _format_row([f"**{escape_markdown(cell)}**" if is_sum else escape_markdown(cell) for cell in row])
            if section.more:
                yield ""
                yield f"... and {section.more:,} more (--no-limit shows them)"
            for note in section.notes:
                yield ""
                yield escape_markdown(note)
        case _:
            assert_never(section)


def _format_row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escape_markdown(text: str) -> str:
    """Return text on one line, escaped, because text from a capture must not become markup."""
    return escape_text(" ".join(text.split())).translate(_ESCAPES)
