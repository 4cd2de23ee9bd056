"""The output formats of a kind of result.

Each kind of result (a report, a comparison, a prediction...) has a table `FORMATS` with a writer for each of its
formats. Most writers are made here from functions of the kind: its sections, its document, its rows.

The modules of a format are imported when it is written: a command needs the names of its formats before it reads a
capture, and polars must not be loaded before the reader process forks.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TextIO, TypeVar

from msgspec import Struct, field

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.output import open_output
from ikeanalyze.render.core.section import Section
from ikeanalyze.render.core.values import escape_cell

Result = TypeVar("Result")
_Rendered = TypeVar("_Rendered", contravariant=True)

#: Writes a result to a stream.
Writer = Callable[[Result, TextIO, RenderOptions], None]


class SectionsFunction(Protocol[_Rendered]):
    """Renders a result as sections; `every`: with all rows of a table."""

    def __call__(self, result: _Rendered, /, *, every: bool) -> Iterable[Section]:
        """Return the sections of `result`."""


class OutputFormats(Struct, Generic[Result], frozen=True):
    """The formats of a kind of result with their writers."""

    texts: Mapping[Format, Writer[Result]]  # for formats that are one stream of text
    #: For formats that are a directory, which the writer creates.
    directories: Mapping[Format, Callable[[Result, str], None]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Format]:
        """Iterate over the formats in the order of `Format`."""
        return (form for form in Format if form in self.texts or form in self.directories)

    def write(self, result: Result, form: Format, path: str = "-", view: RenderOptions | None = None) -> None:
        """Write `result` in one of these formats to `path` ("-": standard output, except for a directory).

        A file appears under its name when it is complete. Raises `OutputError` if `path` cannot be written.
        """
        if form in self.directories:
            self.directories[form](result, path)
            return
        with open_output(path) as out:
            self.texts[form](result, out, view or RenderOptions())


def make_terminal_writer(sections: SectionsFunction[Result]) -> Writer[Result]:
    """Return a writer that lays sections out in the width of the terminal."""

    def write(result: Result, out: TextIO, view: RenderOptions) -> None:
        from ikeanalyze.render.core.terminal import write_sections

        write_sections(sections(result, every=view.every), out, view.width)

    return write


def make_markdown_writer(sections: SectionsFunction[Result]) -> Writer[Result]:
    """Return a writer of sections as Markdown."""

    def write(result: Result, out: TextIO, view: RenderOptions) -> None:
        from ikeanalyze.render.core.markdown import write_sections

        write_sections(sections(result, every=view.every), out)

    return write


def make_json_writer(document: Callable[[Result], dict[str, Any]]) -> Writer[Result]:
    """Return a writer of one JSON document."""

    def write(result: Result, out: TextIO, _view: RenderOptions) -> None:
        from ikeanalyze.render.core.json import format_json

        out.write(format_json(document(result)) + "\n")

    return write


def make_csv_writer(rows: Callable[[Result], Iterable[Mapping[str, Any]]]) -> Writer[Result]:
    """Return a writer of CSV: a heading with the keys of the first row, then the rows; without rows, nothing."""

    def write(result: Result, out: TextIO, _view: RenderOptions) -> None:
        records = list(rows(result))
        if records:
            names = list(records[0])
            write_csv_rows([names, *([record[name] for name in names] for record in records)], out)

    return write


def write_csv_rows(rows: Iterable[Iterable[object]], out: TextIO) -> None:
    """Write rows of CSV. Text is escaped by `escape_cell`: file names, labels and column names may be a stranger's."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([escape_cell(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)


def make_text_writer(write: Callable[[Result, TextIO], None]) -> Writer[Result]:
    """Return a writer that ignores the options."""

    def writer(result: Result, out: TextIO, _view: RenderOptions) -> None:
        write(result, out)

    return writer


def make_formats(
    sections: SectionsFunction[Result],
    document: Callable[[Result], dict[str, Any]],
    others: Mapping[Format, Writer[Result]],
) -> OutputFormats[Result]:
    """Return the formats of a kind of result: sections for the terminal and as Markdown, document, and `others`."""
    common: dict[Format, Writer[Result]] = {
        Format.TERMINAL: make_terminal_writer(sections),
        Format.MARKDOWN: make_markdown_writer(sections),
        Format.JSON: make_json_writer(document),
    }
    return OutputFormats({**common, **others})
