"""Analysis to output: one file per format, behind one function.

`write` is the interface. A module for a text format has `write(analysis, out, view)`; Parquet, which is a
directory of files, has `write(analysis, directory)`. A module is imported when its format is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis


class Format(StrEnum):
    """What a report can be written as."""

    TERMINAL = "terminal"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class View:
    """How the formats for people present an analysis; the others give everything."""

    width: int | None = (
        None  # columns of the terminal format; None: those of the terminal, 80 where there is none
    )
    every: bool = False  # all rows of a table, however many


def write(analysis: Analysis, form: Format, path: str = "-", view: View | None = None) -> None:
    """Write `analysis` as `form` to `path`: "-" is standard output; for Parquet a directory, which is made.

    A file appears under its name when it is complete, not before. Raises `OutputError` where `path` cannot be
    written.
    """
    from ikeanalyze.render import output

    view = view or View()
    match form:
        case Format.TERMINAL:
            from ikeanalyze.render import terminal

            with output.opened(path) as out:
                terminal.write(analysis, out, view)
        case Format.JSON:
            from ikeanalyze.render import json

            with output.opened(path) as out:
                json.write(analysis, out, view)
        case Format.JSONL:
            from ikeanalyze.render import jsonl

            with output.opened(path) as out:
                jsonl.write(analysis, out, view)
        case Format.CSV:
            from ikeanalyze.render import csv

            with output.opened(path) as out:
                csv.write(analysis, out, view)
        case Format.PARQUET:
            from ikeanalyze.render import parquet

            parquet.write(analysis, path)
        case Format.MARKDOWN:
            from ikeanalyze.render import markdown

            with output.opened(path) as out:
                markdown.write(analysis, out, view)
        case Format.HTML:
            from ikeanalyze.render import html

            with output.opened(path) as out:
                html.write(analysis, out, view)
        case _:
            assert_never(form)
