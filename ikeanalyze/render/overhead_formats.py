"""The formats of the cost of ESP."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.formats import Formats, to_csv, to_json, to_markdown, to_terminal
from ikeanalyze.render.overhead import Answer, sections
from ikeanalyze.render.overhead_document import document, flat

FORMATS: Final[Formats[Answer]] = Formats(
    {
        Format.TERMINAL: to_terminal(sections),
        Format.MARKDOWN: to_markdown(sections),
        Format.JSON: to_json(document),
        Format.CSV: to_csv(flat),
    }
)
