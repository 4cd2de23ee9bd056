"""A report: what it can be written as, a file each."""

from typing import Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format, csv, html, json, jsonl, markdown, parquet, terminal
from ikeanalyze.render.formats import Formats, to_text

FORMATS: Final[Formats[Analysis]] = Formats(
    {
        Format.TERMINAL: terminal.write,
        Format.JSON: to_text(json.write),
        Format.JSONL: to_text(jsonl.write),
        Format.CSV: to_text(csv.write),
        Format.MARKDOWN: markdown.write,
        Format.HTML: html.write,
    },
    directories={Format.PARQUET: parquet.write},
)
