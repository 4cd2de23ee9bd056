"""The formats and the figures of predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO

from ikeanalyze.model.prediction.predict import Prediction
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.formats import OutputFormats, make_csv_writer, make_formats, make_markdown_writer
from ikeanalyze.render.prediction import document
from ikeanalyze.render.prediction.text import render_sections, render_with_warnings


def write_prediction_figures(predictions: Sequence[Prediction], directory: str, *, log_y: bool = False) -> list[Path]:
    """Write the figures; return the paths. Creates the directory; raises `OutputError` if it cannot be written."""
    from ikeanalyze.render.core.figures.files import write_figures  # loads Altair
    from ikeanalyze.render.prediction.figures import make_figures

    return write_figures(directory, make_figures(predictions, log_y=log_y))


def _write_page(predictions: Sequence[Prediction], out: TextIO, view: RenderOptions) -> None:
    from ikeanalyze.render.prediction.page import render_page  # loads Altair

    out.write(render_page(predictions, log_y=view.log_y))


#: The formats for at least one prediction.
FORMATS: Final[OutputFormats[Sequence[Prediction]]] = make_formats(
    render_sections,
    document.build_document,
    {
        Format.MARKDOWN: make_markdown_writer(render_with_warnings),
        Format.CSV: make_csv_writer(document.build_rows),
        Format.HTML: _write_page,
    },
)
