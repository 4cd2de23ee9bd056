"""The formats of a report."""

from typing import Final, TextIO

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.formats import OutputFormats, make_terminal_writer, make_text_writer
from ikeanalyze.render.report import document, parquet, text


def _write_page(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    from ikeanalyze.render.report.page import write_page  # loads altair, which takes a quarter of a second

    write_page(analysis, out, view)


def _write_csv(analysis: Analysis, out: TextIO, _view: RenderOptions) -> None:
    from ikeanalyze.render.report.csv import write_csv  # for this format alone

    write_csv(analysis, out)


def _write_junit(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    from ikeanalyze.render.report.gate.junit import write_junit  # for this format alone

    write_junit(analysis, out, view)


FORMATS: Final[OutputFormats[Analysis]] = OutputFormats(
    {
        Format.TERMINAL: make_terminal_writer(text.render_sections),
        Format.JSON: make_text_writer(document.write_report),
        Format.JSONL: make_text_writer(document.write_json_lines),
        Format.CSV: _write_csv,
        Format.MARKDOWN: text.write_markdown,
        Format.HTML: _write_page,
        Format.JUNIT: _write_junit,
    },
    directories={Format.PARQUET: parquet.write_parquet},
)
