"""The formats of a replay."""

from typing import Final

from ikeanalyze.render import Format
from ikeanalyze.render.formats import Formats, to_json, to_terminal
from ikeanalyze.render.replay import sections
from ikeanalyze.render.replay_document import document
from ikeanalyze.replay.replayed import Replayed

FORMATS: Final[Formats[Replayed]] = Formats({Format.TERMINAL: to_terminal(sections), Format.JSON: to_json(document)})
