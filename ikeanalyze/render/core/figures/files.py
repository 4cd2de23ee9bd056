"""Figures, and how they become SVG, PDF and PNG files: as wide as one or two columns of a paper, with readable text."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

from ikeanalyze.render.core.figures.style import COLOURS, MM_PER_POINT, SINGLE, Style
from ikeanalyze.render.core.figures.text_widths import add_text_lengths
from ikeanalyze.render.core.output import make_output_error, replace_output
from ikeanalyze.render.core.section import TableSection

#: Resolution of PNG files: what journals require for line drawings (charts) and for text.
CHART_DPI: Final = 600
TEXT_DPI: Final = 300

#: Maximum width and height of a PNG: the ladder of a handshake of minutes is metres long.
_MAX_PIXELS: Final = 16_000
#: The attributes of an SVG that have coordinates.
_COORDINATES: Final = re.compile(r' (?:d|transform|points|width|height|r|[cdr]?[xy][12]?)="[^"]*"')
_LONG_NUMBER: Final = re.compile(r"-?\d+(?:\.\d{4,}(?:e-\d+)?|(?:\.\d+)?e-\d+)")
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
    """A drawing for files."""

    name: str  # of its files, without ending
    svg: str
    unit: float = 1.0  # of the SVG, in points
    dpi: int = CHART_DPI


def write_figures(directory: str, figures: Iterable[Figure], drawings: Iterable[Drawing] = ()) -> list[Path]:
    """Write `NAME.svg`, `.pdf` and `.png` for each figure, then for each of the other drawings; return the paths.

    Creates the directory. Raises `OutputError` if it cannot be written.
    """
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise make_output_error(directory, error, "--figures") from None
    charts = (Drawing(figure.name, figure.draw(SINGLE)) for figure in figures)
    return [path for drawing in chain(charts, drawings) for path in _write_drawing(target, drawing)]


def round_coordinates(svg: str) -> str:
    """Return a drawing with coordinates of at most three decimals.

    Further ones are not visible, and depend on the order in which a processor adds numbers.
    """
    return _COORDINATES.sub(lambda attribute: _LONG_NUMBER.sub(_round, attribute[0]), svg)


def _round(number: re.Match[str]) -> str:
    # adding 0 turns -0.0 into 0.0
    return f"{round(float(number[0]), 3) + 0:.3f}".rstrip("0").rstrip(".")


def make_svg_file(drawing: Drawing) -> str:
    """Return the SVG of a file: with a background, a size in millimetres, and texts as wide as they were drawn."""
    svg = _prepare_svg(drawing.svg)
    width, height = _measure(drawing)
    return _resize(svg, f"{width * MM_PER_POINT:.2f}mm", f"{height * MM_PER_POINT:.2f}mm")


def _resize(svg: str, width: str, height: str) -> str:
    return _SIZE.sub(f'width="{width}" height="{height}"', svg, count=1)


def _write_drawing(directory: Path, drawing: Drawing) -> list[Path]:
    """Write a drawing as SVG, PDF and PNG."""
    import vl_convert

    width, height = _measure(drawing)
    inches = max(width, height) / 72
    svg = _prepare_svg(drawing.svg)
    files = {
        ".svg": make_svg_file(drawing).encode(),
        ".pdf": vl_convert.svg_to_pdf(_resize(svg, f"{width:.2f}", f"{height:.2f}")),  # a unit is a point
        ".png": vl_convert.svg_to_png(svg, scale=drawing.unit, ppi=min(drawing.dpi, _MAX_PIXELS / inches)),
    }
    written = []
    for ending, content in files.items():
        path = directory / f"{drawing.name}{ending}"
        with replace_output(str(path), "--figures") as temporary:
            temporary.write_bytes(content)
        written.append(path)
    return written


def _measure(drawing: Drawing) -> tuple[float, float]:
    """Return width and height in points."""
    match = _SIZE.search(drawing.svg)
    if match is None:
        raise ValueError("a drawing without a size")
    return float(match[1]) * drawing.unit, float(match[2]) * drawing.unit


def _prepare_svg(svg: str) -> str:
    ground = f'<rect width="100%" height="100%" fill="{COLOURS["ground"]}"/>'
    head = svg.index(">") + 1
    return add_text_lengths(svg[:head] + ground + svg[head:])
