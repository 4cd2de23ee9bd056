"""What a kind of result can be written as: the one interface between results and formats.

Each kind of result (a report, a comparison, a prediction...) has one table, `FORMATS`, with a writer for each format that
it can be written as. Most writers are made here, of what the kind gives anyway: its sections, its document, its rows.

What formats need is imported when something is written: a command knows its formats before it reads a capture, and polars
must not be there yet (`capture.forked`).
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TextIO, TypeVar

from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.output import open_output
from ikeanalyze.render.core.section import Section

Result = TypeVar("Result")
_Shown = TypeVar("_Shown", contravariant=True)

#: Writes a result to a stream.
Writer = Callable[[Result, TextIO, RenderOptions], None]


class SectionsFunction(Protocol[_Shown]):
    """What a result says to people, section by section; `every`: all rows of a table, however many."""

    def __call__(self, result: _Shown, /, *, every: bool) -> Iterable[Section]:
        """The sections of `result`."""


@dataclass(frozen=True, slots=True)
class OutputFormats(Generic[Result]):
    """The formats of one kind of result, each with what writes it."""

    texts: Mapping[Format, Writer[Result]]  # of formats that are one stream of text
    #: Of formats that are a directory, which is made.
    directories: Mapping[Format, Callable[[Result, str], None]] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Format]:
        """The formats that there are, in the order of `Format`."""
        return (form for form in Format if form in self.texts or form in self.directories)

    def write(self, result: Result, form: Format, path: str = "-", view: RenderOptions | None = None) -> None:
        """Write `result` as `form`, one of these formats, to `path` ("-": standard output, but for a directory).

        A file appears under its name when it is complete, not before. Raises `OutputError` where `path` cannot be
        written.
        """
        if form in self.directories:
            self.directories[form](result, path)
            return
        with open_output(path) as out:
            self.texts[form](result, out, view or RenderOptions())


def make_terminal_writer(sections: SectionsFunction[Result]) -> Writer[Result]:
    """Lays sections out in the width that there is."""

    def write(result: Result, out: TextIO, view: RenderOptions) -> None:
        from ikeanalyze.render.core.terminal import write_sections

        write_sections(sections(result, every=view.every), out, view.width)

    return write


def make_markdown_writer(sections: SectionsFunction[Result]) -> Writer[Result]:
    """Writes sections as Markdown."""

    def write(result: Result, out: TextIO, view: RenderOptions) -> None:
        from ikeanalyze.render.core.markdown import write_sections

        write_sections(sections(result, every=view.every), out)

    return write


def make_json_writer(document: Callable[[Result], dict[str, Any]]) -> Writer[Result]:
    """Writes one JSON document."""

    def write(result: Result, out: TextIO, _view: RenderOptions) -> None:
        from ikeanalyze.render.core.json import format_json

        out.write(format_json(document(result)) + "\n")

    return write


def make_csv_writer(rows: Callable[[Result], Iterable[Mapping[str, Any]]]) -> Writer[Result]:
    """Writes CSV: a heading with the names of the first row, and the rows, which all have these; of no rows nothing."""

    def write(result: Result, out: TextIO, _view: RenderOptions) -> None:
        records = list(rows(result))
        if records:
            writer = csv.DictWriter(out, list(records[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(records)

    return write


def make_text_writer(write: Callable[[Result, TextIO], None]) -> Writer[Result]:
    """A writer that writes everything, whatever the view."""

    def writer(result: Result, out: TextIO, _view: RenderOptions) -> None:
        write(result, out)

    return writer
