"""A report: what it can be written as, a file each."""

from typing import Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format
from ikeanalyze.render.core import json, markdown, terminal
from ikeanalyze.render.core.formats import OutputFormats, make_text_writer
from ikeanalyze.render.report import csv, document, page, parquet

FORMATS: Final[OutputFormats[Analysis]] = OutputFormats(
    {
        Format.TERMINAL: terminal.write_terminal,
        Format.JSON: make_text_writer(json.write_report),
        Format.JSONL: make_text_writer(document.write_json_lines),
        Format.CSV: make_text_writer(csv.write_csv),
        Format.MARKDOWN: markdown.write_markdown,
        Format.HTML: page.write_page,
    },
    directories={Format.PARQUET: parquet.write_parquet},
)
