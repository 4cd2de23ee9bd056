"""The formats of the cost of ESP."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import (
    OutputFormats,
    make_csv_writer,
    make_json_writer,
    make_markdown_writer,
    make_terminal_writer,
)
from ikeanalyze.render.overhead.document import build_document, build_rows
from ikeanalyze.render.overhead.text import OverheadReport, render_sections

FORMATS: Final[OutputFormats[OverheadReport]] = OutputFormats(
    {
        Format.TERMINAL: make_terminal_writer(render_sections),
        Format.MARKDOWN: make_markdown_writer(render_sections),
        Format.JSON: make_json_writer(build_document),
        Format.CSV: make_csv_writer(build_rows),
    }
)
