"""Colours and sizes of all drawings, so that a colour means the same everywhere and a figure fits its place.

The colours are told apart with any kind of colour vision and in print: they differ in lightness as well. On a page they
are CSS variables, which have other values on a dark ground; in a file they are the light ones.
"""

import re
from dataclasses import dataclass
from typing import Final

#: Name and value of each colour on a light ground. None is the same as another one.
COLOURS: Final = {
    "ground": "#ffffff",
    "ink": "#1c2430",
    "muted": "#566273",
    "rule": "#d8dee6",
    "initiator": "#1767a8",
    "responder": "#c2680c",
    "aaa": "#8a4a9e",
    "network": "#2c8577",
    "waiting": "#7d8896",
    "lost": "#b42334",
}
#: The same on a dark ground.
DARK: Final = {
    "ground": "#12161c",
    "ink": "#e6eaf0",
    "muted": "#a5b0be",
    "rule": "#323c4a",
    "initiator": "#6cb4ee",
    "responder": "#f0a04b",
    "aaa": "#cf98e0",
    "network": "#63c7b5",
    "waiting": "#8591a0",
    "lost": "#ff7b86",
}
#: Colours of groups that have no meaning of their own, in order.
SERIES: Final = ("initiator", "responder", "network", "aaa", "lost", "ink", "waiting")

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
#: The last is for PNG files where there is no such font at all: vl-convert has it, and leaves out what it has no font for.
MONO: Final = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace, Liberation Sans"

_NAME_OF: Final = {value: name for name, value in COLOURS.items()}
_ANY: Final = re.compile("|".join(_NAME_OF))


@dataclass(frozen=True, slots=True)
class Style:
    """How large a chart is drawn. A unit is a CSS pixel on a page and a point (1/72 inch) in a file."""

    width: int  # units, everything included
    font: float  # size of all text, units
    screen: bool  # on a page


#: On a page; charts stand side by side where there is room.
PAGE: Final = Style(width=490, font=12, screen=True)
#: A column of a paper with two columns, 88 mm, and both of them, 180 mm.
SINGLE: Final = Style(width=249, font=7.5, screen=False)
DOUBLE: Final = Style(width=510, font=7.5, screen=False)
MM_PER_POINT: Final = 25.4 / 72


def insert_css_variables(svg: str) -> str:
    """The drawing with its colours as CSS variables of the page that it stands in."""
    return _ANY.sub(lambda found: f"var(--{_NAME_OF[found[0]]})", svg)
