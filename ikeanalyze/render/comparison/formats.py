"""The formats and the figures of a comparison."""

from pathlib import Path
from typing import Final, TextIO

from ikeanalyze.dataset.compare.result import Comparison
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.comparison import document
from ikeanalyze.render.comparison.text import render_sections
from ikeanalyze.render.core.formats import OutputFormats, make_formats, make_text_writer


def _write_page(comparison: Comparison, out: TextIO, view: RenderOptions) -> None:
    from ikeanalyze.render.comparison.page import render_page  # loads Altair

    out.write(render_page(comparison, view))


def write_comparison_figures(comparison: Comparison, directory: str, view: RenderOptions) -> list[Path]:
    """Write the figures; return the paths. Creates the directory; raises `OutputError` if it cannot be written."""
    from ikeanalyze.render.comparison.figures import make_figures  # loads Altair
    from ikeanalyze.render.core.figures.files import write_figures

    return write_figures(directory, make_figures(comparison, view))


FORMATS: Final[OutputFormats[Comparison]] = make_formats(
    render_sections,
    document.build_document,
    {Format.CSV: make_text_writer(document.write_csv), Format.HTML: _write_page},
)
