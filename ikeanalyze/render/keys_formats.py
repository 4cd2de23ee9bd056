"""The formats of a list of keys."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.formats import OutputFormats, make_json_writer
from ikeanalyze.render.keys import KeyList, write_key_list
from ikeanalyze.render.keys_document import build_document

FORMATS: Final[OutputFormats[KeyList]] = OutputFormats(
    {Format.TERMINAL: write_key_list, Format.JSON: make_json_writer(build_document)}
)
