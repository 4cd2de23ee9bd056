"""Figures as files for a paper: SVG and PNG, as wide as one column or two, with letters that can be read there."""

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

#: Resolution of PNG files: of charts as journals ask it of line drawings, of ladders as of what is mostly text.
CHART_DPI: Final = 600
LADDER_DPI: Final = 300

#: The most pixels of a PNG, one way: a ladder of minutes is metres long.
_MOST_PIXELS: Final = 16_000
_SIZE: Final = re.compile(r'width="([\d.]+)" height="([\d.]+)"')


def write_figures(directory: str, figures: Iterable[Figure], ladders: Iterable[Ladder] = ()) -> list[Path]:
    """Write `NAME.svg` and `NAME.png` for each figure, two ladders for each handshake; gives the paths.

    The directory is made. Raises `OutputError` where it cannot be written.
    """
    target = Path(directory)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise make_output_error(directory, error, "--figures") from None
    written: list[Path] = []
    for figure in figures:
        written += _write(target / figure.name, figure.draw(SINGLE), 1.0, CHART_DPI)
    for ladder in ladders:
        for layout, name in ((LadderLayout.EVEN, ""), (LadderLayout.TRUE, "-time")):
            svg = draw_ladder(ladder, layout, width=FILE_WIDTH)
            path = target / f"handshake-{ladder.handshake}-ladder{name}"
            written += _write(path, svg, DOUBLE.width / FILE_WIDTH, LADDER_DPI)
    return written


def _write(path: Path, svg: str, points: float, dpi: int) -> list[Path]:
    """One drawing whose unit is so many points."""
    import vl_convert

    found = _SIZE.search(svg)
    if found is None:
        raise ValueError("a drawing without a size")
    width, height = (float(size) * points for size in found.groups())
    inches = max(width, height) / 72
    ground = f'<rect width="100%" height="100%" fill="{COLOURS["ground"]}"/>'
    head = svg.index(">") + 1
    svg = add_text_lengths(svg[:head] + ground + svg[head:])
    in_mm = f'width="{width * MM_PER_POINT:.2f}mm" height="{height * MM_PER_POINT:.2f}mm"'
    png = vl_convert.svg_to_png(svg, scale=points, ppi=min(dpi, _MOST_PIXELS / inches))
    files = {".svg": _SIZE.sub(in_mm, svg, count=1).encode(), ".png": png}
    written = []
    for ending, content in files.items():
        name = path.with_name(path.name + ending)
        with replace_atomically(str(name)) as temporary:
            temporary.write_bytes(content)
        written.append(name)
    return written
