"""Predictions as a page: what goes into its template."""

from collections.abc import Sequence

from ikeanalyze.model.prediction import Prediction
from ikeanalyze.render.figures.prediction import prediction_figures
from ikeanalyze.render.html.page import drawn, render
from ikeanalyze.render.prediction import sections
from ikeanalyze.render.values import count, input_name


def prediction_page(predictions: Sequence[Prediction], *, every: bool = False) -> str:
    """The page; `every`: with all predictions, not just 30."""
    captures = dict.fromkeys(input_name(one.flow.capture) for one in predictions)
    return render(
        "prediction.html.j2",
        title="Handshakes on other links",
        subtitle=", ".join(captures),
        contents=[("predicted", "Predicted"), ("figures", "Figures")],
        cards=[
            {"name": "Captures", "value": f"{len(captures):,}", "more": ""},
            {"name": "Predictions", "value": f"{len(predictions):,}", "more": count(predictions[0].runs, "run") + " each"},
        ],
        sections=list(sections(predictions, every=every)),
        figures=[drawn(figure) for figure in prediction_figures(predictions)],
    )  # fmt: skip
