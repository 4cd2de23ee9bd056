"""A figure: title, caption, drawing function and numbers."""

from collections.abc import Callable
from dataclasses import dataclass

from ikeanalyze.render.core.figures.style import Style
from ikeanalyze.render.core.section import TableSection


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart that is drawn on demand."""

    name: str  # of its files, without ending
    title: str
    caption: str  # the quantity, the number of values, and the method
    draw: Callable[[Style], str]  # returns the SVG of this size, in light colours
    numbers: TableSection | None = None  # the drawn numbers as a table
