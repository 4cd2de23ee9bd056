"""The output formats of a replay report: text for a terminal, and JSON."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import OutputFormats, make_json_writer, make_terminal_writer
from ikeanalyze.render.replay.document import build_document
from ikeanalyze.render.replay.text import render_sections
from ikeanalyze.replay.session.result import ReplayReport

FORMATS: Final[OutputFormats[ReplayReport]] = OutputFormats(
    {Format.TERMINAL: make_terminal_writer(render_sections), Format.JSON: make_json_writer(build_document)}
)
