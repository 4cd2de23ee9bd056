"""Charts as SVG, made with Vega-Altair and vl-convert. They know nothing about IKE.

Each function takes rows (dicts) and returns SVG in the light colours of `style.COLOURS`. `said` in a row is the tooltip
and the `aria-label` of its mark. Import this module only to draw charts: Altair and the Vega compiler take almost a
second to load. Under `python -OO`, which altair does not support, the import raises `OutputError`.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import vl_convert as vlc

from ikeanalyze.render.core.figures.style import COLOURS, FONT, SERIES, Style
from ikeanalyze.render.core.output import OutputError

try:
    import altair as alt
    from altair.utils import schemapi
except AttributeError:
    # it copies docstrings from class to class, which `python -OO` removes
    if sys.flags.optimize < 2:
        raise
    raise OutputError(
        "figures and HTML pages", "cannot be drawn without docstrings. Run Python without -OO and PYTHONOPTIMIZE=2"
    ) from None

Rows = Sequence[Mapping[str, Any]]

#: A scale is logarithmic if its largest value is at least this many times its smallest.
_MIN_LOG_SPAN: Final = 20
#: Vega's text for screen readers that only repeats the caption. Marks with an `aria-label` keep their role: without
#: one, the label is not allowed.
_CONTAINER: Final = re.compile(r' aria-roledescription="[^"]*"| role="graphics-object"')
#: Altair validates each part of a chart against its schema as soon as it is made, which explains mistakes better to the
#: author of a chart, and takes half the time of a page with figures. Tests validate the finished charts.
_unchecked: Final = schemapi.debug_mode(False)
_SAID: Final = "said:N"
#: Shapes of points and dashes of lines of groups, in order.
_SHAPES: Final = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
_DASHES: Final = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [10, 4], [1, 3], [6, 2, 1, 2, 1, 2])
_BAR_HEIGHT: Final = 1.9  # height of a bar with the space around it, in font sizes


def needs_log_scale(values: Sequence[float]) -> bool:
    """Return whether the values need a logarithmic scale."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= _MIN_LOG_SPAN


@_unchecked
def draw_stacked_bars(
    rows: Rows, style: Style, *, totals: Mapping[str, str], parts: Mapping[str, str], x_title: str
) -> str:
    """Horizontal bars of parts that add up. Rows: `label`, `part`, `value`.

    `totals` maps the labels in their order to the texts after their bars, `parts` the parts to their colours.
    """
    order = list(parts)
    sums = dict.fromkeys(totals, 0.0)
    for row in rows:
        sums[row["label"]] += row["value"]
    y = alt.Y("label:N", sort=list(totals), title=None)
    bars = (
        make_chart([{**row, "rank": order.index(row["part"])} for row in rows])
        .mark_bar(stroke=COLOURS["ground"], strokeWidth=style.font / 24)
        .encode(
            x=alt.X("value:Q", stack="zero").title(x_title).axis(make_number_axis(style)),
            y=y,
            color=alt.Color("part:N", sort=order, title=None)
            .scale(domain=order, range=[COLOURS[parts[part]] for part in order])
            .legend(_legend(order, style)),
            order=alt.Order("rank:Q"),
            description=_SAID,
        )
    )
    ends = make_chart([{"label": label, "end": sums[label], "text": text} for label, text in totals.items()])
    text = ends.mark_text(align="left", dx=style.font / 3, color=COLOURS["ink"]).encode(
        x=alt.X("end:Q").title(x_title), y=y, text="text:N"
    )
    return compile_svg(bars + text, style, height=_bars_height(len(totals), style))


@_unchecked
def draw_bars(rows: Rows, style: Style, *, x_title: str, colour: str = "initiator") -> str:
    """Horizontal bars followed by their texts, in the order of the rows. Rows: `label`, `value`, `text`."""
    base = make_chart(rows).encode(
        y=alt.Y("label:N", sort=[row["label"] for row in rows], title=None),
        x=alt.X("value:Q").title(x_title).axis(make_number_axis(style)),
    )
    layers = base.mark_bar(color=COLOURS[colour]).encode(description=_SAID) + base.mark_text(
        align="left", dx=style.font / 3, color=COLOURS["ink"]
    ).encode(text="text:N")
    return compile_svg(layers, style, height=_bars_height(len(rows), style))


@_unchecked
def draw_areas(rows: Rows, style: Style, *, groups: Sequence[str], x_title: str, y_title: str, log: bool) -> str:
    """Curves with the area below them. Rows: `group`, `x`, `y`, ascending in x; rows with `tick` are drawn as ticks."""
    curves = [row for row in rows if "tick" not in row]
    ticks = [row for row in rows if "tick" in row]
    colour = make_group_colours(groups, style)
    chart: Any = (
        make_chart(curves)
        .mark_area(fillOpacity=0.18, line={"strokeWidth": style.font / 7})
        .encode(
            x=_x(x_title, style, log),
            y=alt.Y("y:Q", stack=None).title(y_title).axis(make_number_axis(style, 4)),
            color=colour,
        )
    )
    if ticks:
        chart += (
            make_chart(ticks)
            .mark_tick(thickness=style.font / 12, size=style.font * 0.7, yOffset=style.font * 0.35, opacity=0.7)
            .encode(
                x=alt.X("tick:Q").scale(type="log" if log else "linear", zero=False),
                y=alt.datum(0),
                color=colour,
                description=_SAID,
            )
        )
    return compile_svg(chart, style)


@_unchecked
def draw_steps(rows: Rows, style: Style, *, groups: Sequence[str], x_title: str, y_title: str, log: bool) -> str:
    """A cumulative distribution. Rows: `group`, `x`, `y` (a share)."""
    y = alt.Y("y:Q").title(y_title).axis(format="%", tickCount=5).scale(domain=[0, 1])
    return compile_svg(_make_lines(rows, style, groups, _x(x_title, style, log), y, stepped=True), style)


def _make_lines(rows: Rows, style: Style, groups: Sequence[str], x: alt.X, y: alt.Y, *, stepped: bool) -> Any:
    chart: Any = make_chart(rows).mark_line(
        interpolate="step-after" if stepped else "linear", strokeWidth=style.font / 7
    )
    dashes = alt.StrokeDash("group:N", sort=list(groups), legend=None)
    return chart.encode(x=x, y=y, color=make_group_colours(groups, style), strokeDash=dashes)


@_unchecked
def draw_points(
    rows: Rows, style: Style, *, groups: Sequence[str], x_title: str, y_title: str, log: bool = False
) -> str:
    """Points, with a line from `low` to `high` where a row has them. Rows: `group`, `x`, `y`.

    `log`: the vertical axis is logarithmic, and all values are positive.
    """
    ranged = [row for row in rows if "low" in row]
    y = alt.Y("y:Q").title(y_title).axis(make_number_axis(style)).scale(type="log" if log else "linear", zero=not log)
    x = alt.X("x:Q").title(x_title).axis(make_number_axis(style, 8)).scale(zero=True, nice=False, padding=style.font)
    colour = make_group_colours(groups, style)
    # the same legend as that of the colours, so that both are in one: shapes are all that differs in grey
    legend = None if len(groups) < 2 else _legend(groups, style)
    shape = alt.Shape("group:N", sort=list(groups), title=None).legend(legend)
    shape = shape.scale(domain=list(groups), range=[_SHAPES[i % len(_SHAPES)] for i in range(len(groups))])
    marks: Any = make_chart(rows).mark_point(filled=True, size=style.font * 4, opacity=0.65)
    chart: Any = marks.encode(x=x, y=y, color=colour, shape=shape, description=_SAID)
    if ranged:
        base = make_chart(ranged).encode(x=x, color=colour)
        chart += base.mark_rule(strokeWidth=style.font / 8).encode(y="low:Q", y2="high:Q")
        if len(groups) < len(ranged):
            chart += base.mark_line(strokeWidth=style.font / 10).encode(y=y)
    return compile_svg(chart, style)


@_unchecked
def draw_boxes(rows: Rows, dots: Rows, style: Style, *, labels: Sequence[str], x_title: str, log: bool) -> str:
    """Horizontal boxes over dots: a line from `low` to `high`, a box of the quartiles, a bar at the median.

    Rows: `label`, `low`, `first`, `median`, `third`, `high`; dots: `label`, `x`.
    """
    y = alt.Y("label:N", sort=list(labels), title=None)
    scale = alt.Scale(type="log" if log else "linear", zero=not log, nice=True)
    height = style.font * 0.8
    chart: Any = make_chart(rows).encode(y=y)
    layers: Any = chart.mark_rule(color=COLOURS["initiator"], strokeWidth=style.font / 10).encode(
        x=alt.X("low:Q").scale(scale).title(x_title).axis(make_number_axis(style)), x2="high:Q"
    )
    layers += chart.mark_bar(color=COLOURS["initiator"], opacity=0.35, size=height, stroke=COLOURS["initiator"]).encode(
        x=alt.X("first:Q").scale(scale).title(x_title), x2="third:Q"
    )
    if dots:
        layers += (
            make_chart(dots)
            .mark_circle(color=COLOURS["muted"], size=style.font * 1.2, opacity=0.55)
            .encode(y=y, x=alt.X("x:Q").scale(scale).title(x_title), description=_SAID)
        )
    layers += chart.mark_tick(color=COLOURS["ink"], thickness=style.font / 6, size=height * 1.3).encode(
        x=alt.X("median:Q").scale(scale).title(x_title), description=_SAID
    )
    return compile_svg(layers, style, height=_bars_height(len(labels), style))


@_unchecked
def draw_intervals(rows: Rows, style: Style, *, x_title: str, log: bool = False) -> str:
    """A dot for each value, on a line between its bounds. Rows: `label`, `value`, `low`, `high`."""
    y = alt.Y("label:N", sort=[row["label"] for row in rows], title=None)
    # names of groups are only as long as they need to be to differ
    base = make_chart(rows).encode(y=y.axis(labelLimit=21 * style.font))
    lines = base.mark_rule(color=COLOURS["initiator"], strokeWidth=style.font / 5).encode(
        x=alt.X("low:Q").title(x_title).axis(make_number_axis(style)).scale(_make_scale(log)), x2="high:Q"
    )
    dots = base.mark_point(filled=True, size=style.font * 4, color=COLOURS["ink"], opacity=1).encode(
        x=alt.X("value:Q").title(x_title), description=_SAID
    )
    return compile_svg(lines + dots, style, height=_bars_height(len(rows), style))


def make_chart(rows: Rows) -> alt.Chart:
    """Return a chart of these rows, without marks."""
    # a list would be copied, row by row, with each step that changes the chart
    return alt.Chart(alt.Data(values=tuple(rows)))  # type: ignore[no-untyped-call]


def _x(x_title: str, style: Style, log: bool) -> alt.X:
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False, nice=True)
    return alt.X("x:Q").title(x_title).scale(scale).axis(make_number_axis(style))


def make_number_axis(style: Style, count: int = 6) -> alt.Axis:
    """Return an axis of numbers with about `count` ticks, at most 4 in a narrow chart."""
    return alt.Axis(format=",~r", tickCount=count if style.width > 300 else min(count, 4))


def make_group_colours(groups: Sequence[str], style: Style) -> alt.Color:
    """Return the colours of the groups, in this order, with a legend for two or more."""
    colour = alt.Color("group:N", sort=list(groups)).title(None)
    names = [SERIES[i % len(SERIES)] for i in range(len(groups))]
    legend = None if len(groups) < 2 else _legend(groups, style)
    return colour.scale(domain=list(groups), range=[COLOURS[name] for name in names]).legend(legend)


def _legend(names: Sequence[str], style: Style) -> alt.Legend:
    """A legend with as many columns as fit; names run row by row, a column is as wide as its longest name."""
    room = style.width / style.font - 2
    # letters are about 0.55 wide, the symbol and the gap of a name 3
    for columns in range(len(names), 1, -1):
        if sum(3 + 0.55 * max(map(len, names[column::columns])) for column in range(columns)) <= room:
            return alt.Legend(columns=columns)
    return alt.Legend(columns=1)


def _bars_height(count: int, style: Style) -> float:
    return max(count, 1) * _BAR_HEIGHT * style.font


def compile_svg(chart: Any, style: Style, height: float | None = None) -> str:
    """Return the chart as SVG; `height` in the unit of the style's width, None: in proportion to it."""
    text = {"labelFontSize": style.font, "titleFontSize": style.font, "labelColor": COLOURS["ink"]}
    spec = (
        chart.properties(
            width="container",
            height=height or style.width * 0.42,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
            padding={"left": style.font if style.screen else 1, "right": style.font, "top": 2, "bottom": 1},
        )
        .configure(background="transparent", font=FONT)
        .configure_view(stroke=None, continuousWidth=style.width)
        .configure_axis(
            **text,
            titleColor=COLOURS["ink"],
            titleFontWeight="normal",
            gridColor=COLOURS["rule"],
            domainColor=COLOURS["muted"],
            tickColor=COLOURS["muted"],
            **dict.fromkeys(("gridWidth", "domainWidth", "tickWidth"), style.font / 14),
            tickSize=style.font / 3,
            labelSeparation=style.font,
            labelPadding=style.font / 4,
            titlePadding=style.font if style.screen else style.font / 2,
            labelLimit=14 * style.font,
        )
        .configure_axisY(gridDash=[])
        .configure_text(fontSize=style.font)
        .configure_legend(
            orient="top",
            **text,
            symbolSize=style.font * 8,
            columnPadding=style.font,
            rowPadding=style.font / 4,
            padding=0,
            offset=style.font / 2,
            labelLimit=style.width - 4 * style.font,
        )
        .to_dict(validate=False)
    )
    spec["width"] = style.width
    # legends are aligned to the end of the axis: those aligned to its start are cut after long labels
    spec["config"]["legend"]["layout"] = {"top": {"anchor": "end"}}
    svg: str = vlc.vegalite_to_svg(spec)
    return _CONTAINER.sub("", svg)


@dataclass(frozen=True, slots=True)
class Axes:
    """The axes of curves."""

    x: str  # titles, with units
    y: str
    log: bool = False  # the scale of y is logarithmic
    log_x: bool = False  # the scale of x is logarithmic


@_unchecked
def draw_curves(
    rows: Rows, style: Style, axes: Axes, *, groups: Sequence[str], stepped: bool = False, marks: Sequence[float] = ()
) -> str:
    """A line for each group. Rows: `group`, `x`, `y`, ascending in x.

    `stepped`: y stays until the next x; `marks`: vertical lines at these x.
    """
    scale = alt.Scale(type="log", nice=False) if axes.log else alt.Scale(zero=True)
    x = alt.X("x:Q").title(axes.x).scale(zero=False, nice=False).axis(make_number_axis(style))
    y = alt.Y("y:Q").title(axes.y).axis(make_number_axis(style, 5)).scale(scale)
    chart = _make_lines(rows, style, groups, x, y, stepped=stepped)
    if not marks:
        return compile_svg(chart, style)
    rules = make_chart([{"x": value} for value in marks]).mark_rule(
        strokeWidth=style.font / 10, strokeDash=[2, 2], opacity=0.6
    )
    return compile_svg(chart + rules.encode(x=x), style)


@_unchecked
def draw_fits(points: Rows, lines: Rows, style: Style, axes: Axes, *, groups: Sequence[str]) -> str:
    """Points, and lines with a band around them. Rows: `group`, `x`, `y`; lines also `low` and `high`, ascending in x.

    Groups also differ in the shape of their points and the dashes of their lines. Lines of other groups are solid.
    """
    names = [*groups, *dict.fromkeys(row["group"] for row in lines if row["group"] not in groups)]
    x = alt.X("x:Q").title(axes.x).scale(_make_scale(axes.log_x, padding=style.font)).axis(make_number_axis(style))
    y = alt.Y("y:Q").title(axes.y).scale(_make_scale(axes.log)).axis(make_number_axis(style, 5))
    colours = [COLOURS[SERIES[i % len(SERIES)] if name in groups else "ink"] for i, name in enumerate(names)]
    shapes = [_SHAPES[i % len(_SHAPES)] if name in groups else "stroke" for i, name in enumerate(names)]
    dashes = [_DASHES[i % len(_DASHES)] if name in groups else [1, 0] for i, name in enumerate(names)]
    legend = None
    if len(names) > 1:
        legend = _legend(names, style)
        # else those of the band, which is the first layer
        legend.symbolOpacity, legend.symbolStrokeWidth = 1, style.font / 9
    colour = alt.Color("group:N", sort=names, title=None).scale(domain=names, range=colours).legend(legend)
    shape = alt.Shape("group:N", sort=names, title=None).scale(domain=names, range=shapes).legend(legend)
    band = make_chart(lines).mark_area(opacity=0.18).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour)
    marks: Any = make_chart(points).mark_point(size=style.font * 3, opacity=0.6, strokeWidth=style.font / 12)
    layers: list[Any] = [band, marks.encode(x=x, y=y, color=colour, shape=shape, description=_SAID)]
    for name, dash in zip(names, dashes, strict=True):
        # a layer for each, because a scale of dashes would also apply to the symbols of the legend
        own = make_chart([row for row in lines if row["group"] == name])
        line = own.mark_line(strokeWidth=style.font / 7, strokeDash=dash)
        layers.append(line.encode(x=x, y=y, color=colour))
    return compile_svg(alt.layer(*layers), style)


@_unchecked
def draw_means(rows: Rows, predicted: Rows, style: Style, axes: Axes, *, groups: Sequence[str]) -> str:
    """Filled points with intervals, on solid lines, over hollow diamonds with bands, on dashed lines.

    Rows: `group`, `x`, `y`, `low`, `high`; those of `predicted` also `series`, one for each dashed line.
    """
    x = alt.X("x:Q").title(axes.x).scale(_make_scale(axes.log_x, padding=style.font)).axis(make_number_axis(style, 8))
    y = alt.Y("y:Q").title(axes.y).scale(_make_scale(axes.log)).axis(make_number_axis(style))
    names = list(groups)
    legend = _legend(names, style) if len(names) > 1 else None
    if legend is not None:
        # else those of the band, if it is the first layer
        legend.symbolOpacity, legend.symbolDash, legend.symbolStrokeWidth = 1, [1, 0], style.font / 9
    colours = [COLOURS[SERIES[i % len(SERIES)]] for i in range(len(names))]
    shapes = [_SHAPES[i % len(_SHAPES)] for i in range(len(names))]
    colour = alt.Color("group:N", sort=names, title=None).scale(domain=names, range=colours).legend(legend)
    shape = alt.Shape("group:N", sort=names, title=None).scale(domain=names, range=shapes).legend(legend)
    measured = make_chart(rows).encode(x=x, color=colour)
    layers: list[Any] = []
    if predicted:
        base = make_chart(predicted).encode(x=x, color=colour, detail="series:N")
        layers.append(base.mark_area(opacity=0.16).encode(y="low:Q", y2="high:Q"))
        layers.append(base.mark_line(strokeWidth=style.font / 10, strokeDash=[4, 3]).encode(y=y))
        hollow = base.mark_point(
            shape="diamond", filled=False, size=style.font * 6, strokeWidth=style.font / 9, opacity=1
        )
        layers.append(hollow.encode(y=y, description=_SAID))
    layers.append(measured.mark_rule(strokeWidth=style.font / 8).encode(y=alt.Y("low:Q"), y2="high:Q"))
    if len(names) < len(rows):
        layers.append(measured.mark_line(strokeWidth=style.font / 10).encode(y=y))
    points = measured.mark_point(filled=True, size=style.font * 4, opacity=0.8)
    layers.append(points.encode(y=y, shape=shape, description=_SAID))
    return compile_svg(alt.layer(*layers), style)


def _make_scale(log: bool, padding: float | None = None) -> alt.Scale:
    """A scale that includes 0 unless it is logarithmic; `padding`: units at both ends, not ends at round numbers."""
    kind = alt.Scale(type="log") if log else alt.Scale(zero=True)
    kind.nice = padding is None
    if padding is not None:
        kind.padding = padding
    return kind
