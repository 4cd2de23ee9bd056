"""Results as output: a package for each kind of result, with a module for each format.

This module has the names of the formats. It loads nothing, so that a command can check a format before it reads
anything.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from ikeanalyze.analysis.tables.fail_conditions import FailCondition


class Format(StrEnum):
    """The output formats. `FORMATS` of each kind of result has those that it supports; a report supports all."""

    TERMINAL = "terminal"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    HTML = "html"
    JUNIT = "junit"


#: Formats that the suffix of a file name stands for, the usual one first.
SUFFIXES: Final = {
    ".json": (Format.JSON, Format.JSONL),
    ".jsonl": (Format.JSONL,),
    ".ndjson": (Format.JSONL,),
    ".csv": (Format.CSV,),
    ".parquet": (Format.PARQUET,),
    ".md": (Format.MARKDOWN,),
    ".markdown": (Format.MARKDOWN,),
    ".html": (Format.HTML,),
    ".htm": (Format.HTML,),
    ".xml": (Format.JUNIT,),
}


class RenderOptions(Struct, frozen=True):
    """Options of the formats; all but the text formats always contain everything."""

    width: int | None = None  # columns of the terminal format; None: as wide as the terminal, or COLUMNS, or 80
    every: bool = False  # all rows of a table
    log_x: bool = False  # logarithmic axes in figures, where a kind of result supports it
    log_y: bool = False
    fail_on: "tuple[FailCondition, ...]" = ()  # conditions that make a test of the JUnit format fail; empty: its own
