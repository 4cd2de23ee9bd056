"""The formats of a list of keys."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.formats import Formats, to_json
from ikeanalyze.render.keys import Listing, write_terminal
from ikeanalyze.render.keys_document import document

FORMATS: Final[Formats[Listing]] = Formats({Format.TERMINAL: write_terminal, Format.JSON: to_json(document)})
