"""The formats of a verification."""

from typing import Final

from ikeanalyze.analysis.verification import Verification
from ikeanalyze.render import Format
from ikeanalyze.render.formats import Formats, to_json, to_terminal
from ikeanalyze.render.verification import sections
from ikeanalyze.render.verification_document import document

FORMATS: Final[Formats[Verification]] = Formats(
    {Format.TERMINAL: to_terminal(sections), Format.JSON: to_json(document)}
)
