"""One figure: what it shows in words, how it is drawn, and the numbers behind it."""

from collections.abc import Callable
from dataclasses import dataclass

from ikeanalyze.render.core.figures.style import Style
from ikeanalyze.render.core.section import TableSection


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart that has not been drawn yet."""

    name: str  # of its files, without ending
    title: str
    caption: str  # what is counted, of how many, and how it was computed
    draw: Callable[[Style], str]  # the SVG of this size, in light colours
    numbers: TableSection | None = None  # what is drawn, as a table
