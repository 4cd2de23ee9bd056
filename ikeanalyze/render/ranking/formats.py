"""The formats of a ranking."""

from typing import Final

from ikeanalyze.model.ranking.ranking import Ranking
from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import OutputFormats, make_csv_writer, make_formats
from ikeanalyze.render.ranking.document import build_document, build_rows
from ikeanalyze.render.ranking.text import render_sections

FORMATS: Final[OutputFormats[Ranking]] = make_formats(
    render_sections, build_document, {Format.CSV: make_csv_writer(build_rows)}
)
