"""Charts are valid Vega-Lite by its JSON schema, which drawing them does not check."""

import inspect

import altair as alt
import pytest
from jsonschema import ValidationError

from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.charts import Axes
from ikeanalyze.render.core.figures.style import PAGE

POINTS = [
    {"group": group, "series": group, "x": x, "y": x + 1, "low": x, "high": x + 2, "said": "said"}
    for group in ("a", "b", "c")
    for x in (1, 2, 30)
]
TICKS = [{"group": "a", "tick": 3, "said": "said"}]
LABELLED = [{"label": "a", "value": 3, "text": "3", "said": "said", "low": 1, "high": 4}]
PARTS = [{"label": "a", "part": "wait", "value": 3, "said": "said"}]
BOXES = [{"label": "a", "low": 1, "first": 2, "median": 3, "third": 4, "high": 5, "said": "said"}]
DOTS = [{"label": "a", "x": 6, "said": "said"}]
GROUPS = {"groups": ["a", "b", "c"]}
TITLES = {"x_title": "x", "y_title": "y"}
AXES = [Axes("x", "y", log, log_x) for log in (False, True) for log_x in (False, True)]
CALLS = {
    charts.draw_stacked_bars: [((PARTS, PAGE), {"totals": {"a": "3"}, "parts": {"wait": "initiator"}, "x_title": "x"})],
    charts.draw_bars: [((LABELLED, PAGE), {"x_title": "x"})],
    charts.draw_areas: [((POINTS + TICKS, PAGE), {**GROUPS, **TITLES, "log": log}) for log in (False, True)],
    charts.draw_steps: [((POINTS, PAGE), {**GROUPS, **TITLES, "log": log}) for log in (False, True)],
    charts.draw_points: [((POINTS, PAGE), {**GROUPS, **TITLES, "log": log}) for log in (False, True)],
    charts.draw_boxes: [
        ((BOXES, DOTS, PAGE), {"labels": ["a"], "x_title": "x", "log": log}) for log in (False, True)
    ],
    charts.draw_intervals: [((LABELLED, PAGE), {"x_title": "x", "log": log}) for log in (False, True)],
    charts.draw_curves: [((POINTS, PAGE, axes), {**GROUPS, "marks": [2]}) for axes in AXES],
    charts.draw_fits: [((POINTS, POINTS, PAGE, axes), GROUPS) for axes in AXES],
    charts.draw_means: [((POINTS, POINTS, PAGE, axes), GROUPS) for axes in AXES],
}  # fmt: skip


def test_all_charts_are_compared():
    functions = inspect.getmembers(charts, inspect.isfunction)
    assert {function for name, function in functions if name.startswith("draw_")} == set(CALLS)


@pytest.fixture
def specifications(monkeypatch):
    """Those of all charts that are drawn, without the layout of legends, which only the schema of Vega knows."""
    drawn = []

    def keep(specification):
        del specification["config"]["legend"]["layout"]
        drawn.append(specification)
        return ""

    monkeypatch.setattr(charts.vlc, "vegalite_to_svg", keep)
    return drawn


@pytest.mark.parametrize("draw", CALLS, ids=lambda draw: draw.__name__)
def test_charts_are_valid(specifications, draw):
    for arguments, options in CALLS[draw]:
        draw(*arguments, **options)
    assert len(specifications) == len(CALLS[draw])
    for specification in specifications:
        alt.Root.validate(specification)  # raises an error


def test_a_chart_that_is_wrong_is_not_valid(specifications):
    charts.draw_bars(LABELLED, PAGE, x_title="x")
    specifications[0]["layer"][0]["mark"]["type"] = "bars"
    with pytest.raises(ValidationError, match="bars"):
        alt.Root.validate(specifications[0])
