"""Colours and sizes of all drawings.

The colours also differ in lightness, so that they can be distinguished with any kind of colour vision and in print. On
a page they are CSS variables with other values on a dark background; in a file they are the light ones.
"""

import re
from dataclasses import dataclass
from typing import Final

#: Name and value of each colour on a light background. All values differ.
COLOURS: Final = {
    "ground": "#ffffff",
    "ink": "#1c2430",
    "muted": "#566273",
    "rule": "#d8dee6",
    "initiator": "#1767a8",
    "responder": "#c2680c",
    "aaa": "#8a4a9e",
    "network": "#2c8577",
    "combined": "#4a5fc1",
    "waiting": "#7d8896",
    "lost": "#b42334",
}
#: The same on a dark background.
DARK: Final = {
    "ground": "#12161c",
    "ink": "#e6eaf0",
    "muted": "#a5b0be",
    "rule": "#323c4a",
    "initiator": "#6cb4ee",
    "responder": "#f0a04b",
    "aaa": "#cf98e0",
    "network": "#63c7b5",
    "combined": "#9aa9f5",
    "waiting": "#8591a0",
    "lost": "#ff7b86",
}
#: Colours of groups without a colour of their own, in order.
SERIES: Final = ("initiator", "responder", "network", "aaa", "lost", "ink", "waiting")

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
#: The last one is for PNG files on systems without any of the others: vl-convert includes it and omits text without a
#: font.
MONO: Final = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace, Liberation Sans"

_COLOUR_NAMES: Final = {value: name for name, value in COLOURS.items()}
_COLOUR: Final = re.compile("|".join(_COLOUR_NAMES))


@dataclass(frozen=True, slots=True)
class Style:
    """The size of a chart. A unit is a CSS pixel on a page and a point (1/72 inch) in a file."""

    width: int  # units, everything included
    font: float  # size of all text, units
    screen: bool  # on a page


#: On a page, where charts are side by side if there is room.
PAGE: Final = Style(width=490, font=12, screen=True)
#: In a paper: one column, 88 mm, and two columns, 180 mm.
SINGLE: Final = Style(width=249, font=7.5, screen=False)
DOUBLE: Final = Style(width=510, font=7.5, screen=False)
MM_PER_POINT: Final = 25.4 / 72


def insert_css_variables(svg: str) -> str:
    """Return the drawing with its colours replaced by the CSS variables of a page."""
    return _COLOUR.sub(lambda match: f"var(--{_COLOUR_NAMES[match[0]]})", svg)
