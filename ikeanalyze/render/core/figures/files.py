"""Figures, and how they become SVG and PNG files: as wide as one or two columns of a paper, with readable text."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from ikeanalyze.render.core.figures.style import COLOURS, MM_PER_POINT, SINGLE, Style
from ikeanalyze.render.core.figures.text_widths import add_text_lengths
from ikeanalyze.render.core.output import make_output_error, replace_atomically
from ikeanalyze.render.core.section import TableSection

#: Resolution of PNG files: what journals require for line drawings (charts) and for text.
CHART_DPI: Final = 600
TEXT_DPI: Final = 300

#: Maximum width and height of a PNG: the ladder of a handshake of minutes is metres long.
_MAX_PIXELS: Final = 16_000
_SIZE: Final = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart that is drawn on demand."""

    name: str  # of its files, without ending
    title: str
    caption: str  # the quantity, the number of values, and the method
    draw: Callable[[Style], str]  # returns the SVG of this size, in light colours
    numbers: TableSection | None = None  # the drawn numbers as a table


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawing for an SVG file and a PNG file."""

    name: str  # of its files, without ending
    svg: str
    unit: float = 1.0  # of the SVG, in points
    dpi: int = CHART_DPI


def write_figures(directory: str, figures: Iterable[Figure], drawings: Iterable[Drawing] = ()) -> list[Path]:
    """Write `NAME.svg` and `NAME.png` for each figure, then for each of the other drawings; return the paths.

    Creates the directory. Raises `OutputError` if it cannot be written.
    """
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise make_output_error(directory, error, "--figures") from None
    charts = (Drawing(figure.name, figure.draw(SINGLE)) for figure in figures)
    return [path for drawing in chain(charts, drawings) for path in _write_drawing(target, drawing)]


def _write_drawing(directory: Path, drawing: Drawing) -> list[Path]:
    """Write a drawing as SVG and PNG."""
    import vl_convert

    svg = drawing.svg
    match = _SIZE.search(svg)
    if match is None:
        raise ValueError("a drawing without a size")
    width, height = (float(size) * drawing.unit for size in match.groups())
    inches = max(width, height) / 72
    ground = f'<rect width="100%" height="100%" fill="{COLOURS["ground"]}"/>'
    head = svg.index(">") + 1
    svg = add_text_lengths(svg[:head] + ground + svg[head:])
    in_mm = f'width="{width * MM_PER_POINT:.2f}mm" height="{height * MM_PER_POINT:.2f}mm"'
    png = vl_convert.svg_to_png(svg, scale=drawing.unit, ppi=min(drawing.dpi, _MAX_PIXELS / inches))
    files = {".svg": _SIZE.sub(in_mm, svg, count=1).encode(), ".png": png}
    written = []
    for ending, content in files.items():
        path = directory / f"{drawing.name}{ending}"
        with replace_atomically(str(path)) as temporary:
            temporary.write_bytes(content)
        written.append(path)
    return written
