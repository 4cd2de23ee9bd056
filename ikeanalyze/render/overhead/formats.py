"""The formats of the cost of ESP."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import OutputFormats, make_csv_writer, make_formats
from ikeanalyze.render.overhead.document import build_document, build_rows
from ikeanalyze.render.overhead.text import OverheadReport, render_sections

FORMATS: Final[OutputFormats[OverheadReport]] = make_formats(
    render_sections, build_document, {Format.CSV: make_csv_writer(build_rows)}
)
