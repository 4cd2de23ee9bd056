"""The formats of a verification."""

from typing import Final

from ikeanalyze.analysis.verification.verify import Verification
from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import OutputFormats, make_json_writer, make_terminal_writer
from ikeanalyze.render.verification.document import build_document
from ikeanalyze.render.verification.text import render_sections

FORMATS: Final[OutputFormats[Verification]] = OutputFormats(
    {Format.TERMINAL: make_terminal_writer(render_sections), Format.JSON: make_json_writer(build_document)}
)
