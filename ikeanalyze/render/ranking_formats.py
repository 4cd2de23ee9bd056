"""The formats of a ranking."""

from typing import Final

from ikeanalyze.model.ranking import Ranking
from ikeanalyze.render import Format
from ikeanalyze.render.formats import Formats, to_csv, to_json, to_markdown, to_terminal
from ikeanalyze.render.ranking import sections
from ikeanalyze.render.ranking_document import document, flat

FORMATS: Final[Formats[Ranking]] = Formats(
    {
        Format.TERMINAL: to_terminal(sections),
        Format.MARKDOWN: to_markdown(sections),
        Format.JSON: to_json(document),
        Format.CSV: to_csv(flat),
    }
)
