"""Drawings of an analysis or a comparison: charts, ladders, and their files for a paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis
    from ikeanalyze.dataset.compare.result import Comparison
    from ikeanalyze.model.prediction.predict import Prediction

#: Handshakes whose ladders are all written; of more, the noteworthy ones.
_FEW: Final = 5


def write_report(analysis: "Analysis", directory: str) -> list[Path]:
    """Write the figures of a report, and the ladders of a few handshakes; gives the paths.

    The directory is made. Raises `OutputError` where it cannot be written.
    """
    from ikeanalyze.render import select
    from ikeanalyze.render.chosen import select_noteworthy
    from ikeanalyze.render.figures.files import write_figures
    from ikeanalyze.render.figures.ladder import build_ladder
    from ikeanalyze.render.figures.report import make_figures

    chosen = select_noteworthy(analysis.handshakes, _FEW)
    ladders = (build_ladder(select.select_handshake(analysis, one.handshake)) for one in chosen)
    return write_figures(directory, make_figures(analysis), ladders)


def write_comparison(comparison: "Comparison", directory: str) -> list[Path]:
    """Write the figures of a comparison; otherwise as `write_report`."""
    from ikeanalyze.render.figures.comparison import make_figures
    from ikeanalyze.render.figures.files import write_figures

    return write_figures(directory, make_figures(comparison))


def write_predictions(predictions: "Sequence[Prediction]", directory: str) -> list[Path]:
    """Write the figures of predictions; otherwise as `write_report`."""
    from ikeanalyze.render.figures.files import write_figures
    from ikeanalyze.render.figures.prediction import make_figures

    return write_figures(directory, make_figures(predictions))
