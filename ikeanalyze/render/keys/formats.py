"""The formats of a list of keys."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.core.formats import OutputFormats, make_json_writer
from ikeanalyze.render.keys.document import build_document
from ikeanalyze.render.keys.text import KeyList, write_key_list

FORMATS: Final[OutputFormats[KeyList]] = OutputFormats(
    {Format.TERMINAL: write_key_list, Format.JSON: make_json_writer(build_document)}
)
