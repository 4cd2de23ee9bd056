"""Markdown as GitHub shows it: for a README, an issue or a lab notebook."""

from collections.abc import Iterable, Iterator
from typing import TextIO, assert_never

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.section import KeyValueSection, Section, TableSection
from ikeanalyze.render.core.values import escape_text
from ikeanalyze.render.report.text import render_sections

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*[]<>|"})


def write_markdown(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the report."""
    write_sections(render_sections(analysis, every=view.every), out)
    if analysis.warnings:
        out.write("\n## Warnings\n\n")
        for warning in analysis.warnings:
            where = f", packet {warning.frame:,}" if warning.frame is not None else ""
            out.write(f"- {_escape(warning.capture)}{where}: {_escape(warning.what)}\n")
    if analysis.skipped:
        out.write("\n## Skipped\n\n")
        out.writelines(f"- {_escape(one.path)}: {_escape(one.reason)}\n" for one in analysis.skipped)


def write_sections(parts: Iterable[Section], out: TextIO) -> None:
    """Write sections one below the other."""
    for i, section in enumerate(parts):
        if i:
            out.write("\n")
        out.writelines(line + "\n" for line in _lines(section))


def _lines(section: Section) -> Iterator[str]:
    yield f"{'#' * section.level} {_escape(section.title)}"
    yield ""
    match section:
        case KeyValueSection():
            yield "| | |"
            yield "|---|---|"
            for name, value in section.rows:
                yield f"| {_escape(name)} | {_escape(value)} |"
        case TableSection():
            yield _row([_escape(column.name) for column in section.columns])
            yield "|" + "|".join("---:" if column.right else "---" for column in section.columns) + "|"
            for i, row in enumerate(section.rows):
                bold = section.sums and i == len(section.rows) - 1
                yield _row([f"**{_escape(cell)}**" if bold else _escape(cell) for cell in row])
            if section.more:
                yield ""
                yield f"... and {section.more:,} more (--no-limit shows them)"
            for note in section.notes:
                yield ""
                yield _escape(note)
        case _:
            assert_never(section)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escape(text: str) -> str:
    """Text that came from a capture must not become markup."""
    return escape_text(" ".join(text.split())).translate(_SPECIAL)
