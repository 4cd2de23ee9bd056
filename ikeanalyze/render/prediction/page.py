"""Predictions as an HTML page."""

from collections.abc import Sequence

from ikeanalyze.model.prediction.predict import Prediction
from ikeanalyze.render.core.html.page import SummaryCard, prepare_figure, render_template
from ikeanalyze.render.core.section import KeyValueSection, TableSection
from ikeanalyze.render.core.values import format_count, format_input_name
from ikeanalyze.render.prediction.figures import make_figures
from ikeanalyze.render.prediction.text import render_sections, render_warnings


def render_page(predictions: Sequence[Prediction], *, log_y: bool = False) -> str:
    """Return the page with all predictions; a long table is split. `log_y`: as in `make_figures`."""
    captures = dict.fromkeys(format_input_name(section.flow.capture) for section in predictions)
    sections = list(render_sections(predictions, every=True))
    warnings = render_warnings(predictions)
    many = len(predictions) > 1
    return render_template(
        "prediction.html.j2",
        title="Handshakes on other links",
        subtitle=", ".join(captures),
        contents=[
            ("predicted", "Predicted"),
            *([("warnings", "Warnings")] if warnings else []),
            ("figures", "Figures"),
        ],
        warnings=warnings,
        cards=[
            SummaryCard("Captures", f"{len(captures):,}"),
            SummaryCard("Predictions", f"{len(predictions):,}", format_count(predictions[0].runs, "run") + " each"),
        ],
        beside=[section for section in sections if isinstance(section, KeyValueSection) or not many],
        predicted=[section for section in sections if isinstance(section, TableSection) and many],
        figures=[prepare_figure(figure) for figure in make_figures(predictions, log_y=log_y)],
    )
