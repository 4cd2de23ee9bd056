"""Predictions as a page: what goes into its template."""

from collections.abc import Sequence

from ikeanalyze.model.prediction import Prediction
from ikeanalyze.render.figures.prediction import prediction_figures
from ikeanalyze.render.html.page import drawn, render
from ikeanalyze.render.prediction import sections
from ikeanalyze.render.section import Facts, Table
from ikeanalyze.render.values import count, input_name


def prediction_page(predictions: Sequence[Prediction]) -> str:
    """The page: all predictions in it, a table of many in parts."""
    captures = dict.fromkeys(input_name(one.flow.capture) for one in predictions)
    told = list(sections(predictions, every=True))
    many = len(predictions) > 1
    return render(
        "prediction.html.j2",
        title="Handshakes on other links",
        subtitle=", ".join(captures),
        contents=[("predicted", "Predicted"), ("figures", "Figures")],
        cards=[
            {"name": "Captures", "value": f"{len(captures):,}", "more": ""},
            {
                "name": "Predictions",
                "value": f"{len(predictions):,}",
                "more": count(predictions[0].runs, "run") + " each",
            },
        ],
        beside=[one for one in told if isinstance(one, Facts) or not many],
        predicted=[one for one in told if isinstance(one, Table) and many],
        figures=[drawn(figure) for figure in prediction_figures(predictions)],
    )
