"""Figures as SVG and PNG files for a paper: as wide as one or two columns, with readable text."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ikeanalyze.render.core.figures.figure import Figure
from ikeanalyze.render.core.figures.style import COLOURS, DOUBLE, MM_PER_POINT, SINGLE
from ikeanalyze.render.core.figures.text_widths import add_text_lengths
from ikeanalyze.render.core.output import make_output_error, replace_atomically
from ikeanalyze.render.ladder.diagram import FILE_WIDTH, LadderLayout, draw_ladder
from ikeanalyze.render.ladder.model import Ladder

#: Resolution of PNG files: what journals require for line drawings (charts) and for text (ladders).
CHART_DPI: Final = 600
LADDER_DPI: Final = 300

#: Maximum width and height of a PNG: the ladder of a handshake of minutes is metres long.
_MAX_PIXELS: Final = 16_000
_SIZE: Final = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def write_figures(directory: str, figures: Iterable[Figure], ladders: Iterable[Ladder] = ()) -> list[Path]:
    """Write `NAME.svg` and `NAME.png` for each figure and for two ladders of each handshake; return the paths.

    Creates the directory. Raises `OutputError` if it cannot be written.
    """
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise make_output_error(directory, error, "--figures") from None
    written: list[Path] = []
    for figure in figures:
        written += _write_drawing(target / figure.name, figure.draw(SINGLE), 1.0, CHART_DPI)
    for ladder in ladders:
        for layout, name in ((LadderLayout.EVEN, ""), (LadderLayout.TRUE, "-time")):
            svg = draw_ladder(ladder, layout, width=FILE_WIDTH)
            path = target / f"handshake-{ladder.handshake}-ladder{name}"
            written += _write_drawing(path, svg, DOUBLE.width / FILE_WIDTH, LADDER_DPI)
    return written


def _write_drawing(path: Path, svg: str, points: float, dpi: int) -> list[Path]:
    """Write a drawing whose unit is `points` points as SVG and PNG."""
    import vl_convert

    match = _SIZE.search(svg)
    if match is None:
        raise ValueError("a drawing without a size")
    width, height = (float(size) * points for size in match.groups())
    inches = max(width, height) / 72
    ground = f'<rect width="100%" height="100%" fill="{COLOURS["ground"]}"/>'
    head = svg.index(">") + 1
    svg = add_text_lengths(svg[:head] + ground + svg[head:])
    in_mm = f'width="{width * MM_PER_POINT:.2f}mm" height="{height * MM_PER_POINT:.2f}mm"'
    png = vl_convert.svg_to_png(svg, scale=points, ppi=min(dpi, _MAX_PIXELS / inches))
    files = {".svg": _SIZE.sub(in_mm, svg, count=1).encode(), ".png": png}
    written = []
    for ending, content in files.items():
        name = path.with_name(path.name + ending)
        with replace_atomically(str(name)) as temporary:
            temporary.write_bytes(content)
        written.append(name)
    return written
