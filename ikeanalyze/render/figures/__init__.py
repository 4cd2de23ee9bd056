"""Drawings of an analysis or a comparison: charts, ladders, and their files for a paper."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis
    from ikeanalyze.dataset.comparison import Comparison
    from ikeanalyze.model.prediction import Prediction

#: Handshakes whose ladders are all written; of more, the noteworthy ones.
_FEW: Final = 5


def write_report(analysis: "Analysis", directory: str) -> list[Path]:
    """Write the figures of a report, and the ladders of a few handshakes; gives the paths.

    The directory is made. Raises `OutputError` where it cannot be written.
    """
    from ikeanalyze.render import select
    from ikeanalyze.render.chosen import choose
    from ikeanalyze.render.figures.files import write_figures
    from ikeanalyze.render.figures.ladder import ladder
    from ikeanalyze.render.figures.report import report_figures

    chosen = choose(analysis.handshakes, _FEW)
    ladders = (ladder(select.handshake(analysis, one.handshake)) for one in chosen)
    return write_figures(directory, report_figures(analysis), ladders)


def write_comparison(comparison: "Comparison", directory: str) -> list[Path]:
    """Write the figures of a comparison; otherwise as `write_report`."""
    from ikeanalyze.render.figures.comparison import comparison_figures
    from ikeanalyze.render.figures.files import write_figures

    return write_figures(directory, comparison_figures(comparison))


def write_predictions(predictions: "Sequence[Prediction]", directory: str) -> list[Path]:
    """Write the figures of predictions; otherwise as `write_report`."""
    from ikeanalyze.render.figures.files import write_figures
    from ikeanalyze.render.figures.prediction import prediction_figures

    return write_figures(directory, prediction_figures(predictions))
