"""Curves over numbers: functions of a size, a rate or a weight, several in one chart."""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from ikeanalyze.render.figures.charts import Rows, compile_svg, make_chart, make_group_colours, make_number_axis
from ikeanalyze.render.figures.style import Style


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of curves."""

    x: str  # titles, with units
    y: str
    log: bool = False  # the scale of y is logarithmic


def draw_curves(
    rows: Rows, style: Style, axes: Axes, *, groups: Sequence[str], stepped: bool = False, marks: Sequence[float] = ()
) -> str:
    """A line for each group. Rows: `group`, `x`, `y`, rising in x.

    `stepped`: y stays until the next x; `marks`: vertical lines at these x.
    """
    scale = alt.Scale(type="log", nice=False) if axes.log else alt.Scale(zero=True)
    x = alt.X("x:Q").title(axes.x).scale(zero=False, nice=False).axis(make_number_axis(style))
    chart = (
        make_chart(rows)
        .mark_line(interpolate="step-after" if stepped else "linear", strokeWidth=style.font / 7)
        .encode(
            x=x,
            y=alt.Y("y:Q").title(axes.y).axis(make_number_axis(style, 5)).scale(scale),
            color=make_group_colours(groups, style),
            strokeDash=alt.StrokeDash("group:N", sort=list(groups), legend=None),
        )
    )
    if not marks:
        return compile_svg(chart, style)
    rules = make_chart([{"x": value} for value in marks]).mark_rule(
        strokeWidth=style.font / 10, strokeDash=[2, 2], opacity=0.6
    )
    return compile_svg(chart + rules.encode(x=x), style)
