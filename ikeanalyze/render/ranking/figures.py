"""The figures of a ranking: the scores, and how they change with the weight of each criterion."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ikeanalyze.model.ranking.ranking import RankedCriterion, Ranking
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.charts import Axes, draw_curves
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.figures.style import Style
from ikeanalyze.render.core.values import escape_text

#: Number of lines that can be distinguished in one chart.
_LINES: Final = 7
_POINTS: Final = 101


def make_figures(ranking: Ranking) -> Iterator[Figure]:
    """Scores, then for each criterion that has grades the sensitivity to its weight."""
    rows = [
        {
            "label": escape_text(place.name),
            "value": place.score,
            "text": f"{place.score:.3f}",
            "said": f"{place.rank}. {escape_text(place.name)}: {place.score:.4f}",
        }
        for place in ranking.places
    ]
    yield Figure(
        "ranking-scores",
        f"{escape_text(ranking.criteria.title)}: scores",
        "Scores by the multiplicative analytic hierarchy process, adding up to 1.",
        lambda style: charts.draw_bars(rows, style, x_title="score"),
    )
    for number, criterion in enumerate(ranking.ranked):
        if criterion.graded and len(ranking.ranked) > 1:
            yield _make_sensitivity_figure(ranking, number, criterion)


def _make_sensitivity_figure(ranking: Ranking, number: int, criterion: RankedCriterion) -> Figure:
    best = [place.name for place in ranking.places[:_LINES]]
    order = list(ranking.criteria.alternatives)
    rows: list[Mapping[str, Any]] = []
    for point in range(_POINTS):
        weight = point / (_POINTS - 1)
        score = ranking.scores_at(number, weight)
        rows += [{"group": escape_text(name), "x": weight, "y": float(score[order.index(name)])} for name in best]
    left_out = len(order) - len(best)
    more = f" The last {left_out:,} alternatives are left out." if left_out else ""

    def draw(style: Style) -> str:
        axes = Axes(f"weight of {escape_text(criterion.name)}", "score")
        return draw_curves(rows, style, axes, groups=[escape_text(name) for name in best], marks=[criterion.weight])

    return Figure(
        # the number tells criteria apart whose names are the same without signs that files cannot have
        f"ranking-sensitivity-{number + 1}-{re.sub(r'[^0-9A-Za-z_.-]', '_', criterion.name)}",
        f"{escape_text(ranking.criteria.title)}: sensitivity to the weight of {escape_text(criterion.name)}",
        f"Scores by the weight; the other weights keep their proportions. The line is the weight that it has.{more}",
        draw,
    )
