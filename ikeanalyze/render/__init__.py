"""Results to output: one file per format, behind the one interface of `formats`.

Here are the names that all have in common; they load nothing, so that a format can be checked before anything is read.
"""

from dataclasses import dataclass
from enum import StrEnum


class Format(StrEnum):
    """What a result can be written as; a report as all of it, see `FORMATS` of each kind of result."""

    TERMINAL = "terminal"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    HTML = "html"


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How the formats for people present an analysis; the others give everything."""

    width: int | None = None  # columns of the terminal format; None: those of the terminal, 80 where there is none
    every: bool = False  # all rows of a table, however many
