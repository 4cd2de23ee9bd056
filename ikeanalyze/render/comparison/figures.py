"""The figures of a comparison: for each metric the means with their intervals, the means against a numeric column of
the groups (such as loss), the lines against another quantity, and the distributions.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ikeanalyze.dataset.compare.columns import Value, format_value
from ikeanalyze.dataset.compare.metrics import PLUS
from ikeanalyze.dataset.compare.regression import compute_band
from ikeanalyze.dataset.compare.result import (
    Comparison,
    ComparisonGroup,
    Estimate,
    LineFit,
    MeanPrediction,
    MetricComparison,
    MetricRegression,
)
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.comparison.text import ALL_GROUPS, format_interval, format_significant
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.distribution import make_distribution_figures
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.table import clip_text, min_distinct_width
from ikeanalyze.render.core.values import escape_text

#: Units at the end of the names of columns.
_UNITS: Final = {"_percent": " %", "_ms": " ms", "_s": " s", "_kbps": " kbit/s", "_bytes": " bytes"}
#: Maximum number of groups with a colour each, and with a line each.
_MAX_COLOURS: Final = 7
_MAX_LINES: Final = 40
#: Maximum letters of a group's name.
_MAX_NAME_LENGTH: Final = 24
#: Maximum handshakes of a group that are drawn as points next to a line, and the points of its band.
_MAX_POINTS: Final = 500
_BAND_POINTS: Final = 61
#: Rows of charts, with the keys that the functions of `charts` document.
_Rows = list[dict[str, Any]]


def make_figures(comparison: Comparison, view: RenderOptions | None = None) -> Iterator[Figure]:
    """Yield the figures for which the samples have data, metric by metric.

    `log_y` of `view` is for the axis of the metric, also where it is horizontal, `log_x` for that of the numeric column
    or other quantity. Distributions have a logarithmic axis if their values need one.
    """
    view = view or RenderOptions()
    number = _find_numeric_column(comparison)
    labels = make_group_labels(comparison)
    by = f" by {escape_text(', '.join(comparison.by))}" if len(comparison.by) > 1 else ""
    for metric in comparison.metrics:
        name = _make_file_name(metric.name)
        yield from _make_mean_figures(comparison, metric, name, labels, view)
        if number is not None:
            yield from _make_figures_against(comparison, metric, name, number, view)
        if metric.regression is not None:
            yield from _make_regression_figures(comparison, metric, metric.regression, labels, view)
        samples = {
            label: summary.sample.tolist()
            for label, summary in zip(labels, metric.groups, strict=True)
            if summary.counted > 1
        }
        shown = dict(list(samples.items())[:_MAX_COLOURS])
        left_out = f" (the first {len(shown)} of {len(samples):,} groups)" if len(shown) < len(samples) else ""
        alone = f" of {next(iter(samples))}" if len(samples) == 1 < len(labels) else ""
        yield from make_distribution_figures(
            shown,
            name=name,
            quantity=_format_metric_name(metric),
            unit=metric.unit or "",
            population=f"handshakes{by}{alone}{left_out}",
        )


def make_group_labels(comparison: Comparison) -> list[str]:
    """Return the label of each group in drawings: its values, cut as far as all labels still differ."""
    counted = Counter[str]()
    names = []
    for group in comparison.groups:
        name = escape_text(", ".join(map(_format_label, comparison.by, group.values)))
        counted[name] += 1  # "a, b" may be one value and two
        names.append(f"{name} ({counted[name]})" if counted[name] > 1 else name)
    return _shorten_names(names)


def _format_label(name: str, value: Value) -> str:
    """A value in a legend: text alone, numbers with the column's name and unit: "loss 20 %" of `link_loss_percent`."""
    if isinstance(value, str) or value is None:
        return format_value(value)
    column, unit = name.removeprefix("link_"), ""
    for suffix, text in _UNITS.items():
        if column.endswith(suffix):
            column, unit = column.removesuffix(suffix), text
    return f"{column.replace('_', ' ')} {format_value(value)}{unit}"


def _shorten_names(names: Sequence[str]) -> list[str]:
    """Long names cut in the middle so that they still differ; a chart would cut them at the end."""
    width = min_distinct_width(names, _MAX_NAME_LENGTH)
    return [clip_text(name, width, middle=True) for name in names]


def _format_group(comparison: Comparison, group: ComparisonGroup) -> str:
    """The columns and values of a group."""
    return escape_text(
        ", ".join(f"{name} {format_value(value)}" for name, value in zip(comparison.by, group.values, strict=True))
    )


def _make_file_name(metric: str) -> str:
    return re.sub(r"[^\w.-]", "_", metric.replace(PLUS, "_plus_"))


def _format_metric_name(metric: MetricComparison) -> str:
    """The name of a metric without its unit."""
    return _format_name(metric.name, metric.unit)


def _format_name(name: str, unit: str | None) -> str:
    """The name of a metric, or of a sum of metrics, without its unit."""
    parts = [part.removesuffix(f"_{unit}") if unit else part for part in name.split(PLUS)]
    return escape_text(" + ".join("set-up time" if part == "setup" else part.replace("_", " ") for part in parts))


def _format_title(metric: MetricComparison) -> str:
    return _make_axis_title(metric.name, metric.unit)


def _make_axis_title(name: str, unit: str | None) -> str:
    short = _format_name(name, unit)
    return f"{short}, {unit}" if unit and unit != short else short


def _find_numeric_column(comparison: Comparison) -> int | None:
    """The index of the first column with several numbers, or None."""
    for index in range(len(comparison.by)):
        values = {group.values[index] for group in comparison.groups}
        if len(values) > 1 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return index
    return None


def _get_bounds(estimate: Estimate) -> tuple[float, float]:
    """Both bounds; an unknown bound is the value itself."""
    low = estimate.value if estimate.low is None else estimate.low
    return low, estimate.value if estimate.high is None else estimate.high


def _make_mean_row(comparison: Comparison, group: ComparisonGroup, mean: Estimate, counted: int) -> dict[str, Any]:
    low, high = _get_bounds(mean)
    label = _format_group(comparison, group)
    text = f"{label}: mean {format_significant(mean.value)} ({format_interval(mean)}) of {counted:,}"
    return {"low": low, "high": high, "said": text}


def _format_caption(comparison: Comparison) -> str:
    return (
        f"Mean of the handshakes that are {' or '.join(comparison.outcomes)}, with its "
        f"{100 * comparison.confidence:g} % interval."
    )


def _make_mean_figures(
    comparison: Comparison, metric: MetricComparison, name: str, labels: Sequence[str], view: RenderOptions
) -> Iterator[Figure]:
    rows = []
    for group, label, summary in zip(comparison.groups[:_MAX_LINES], labels, metric.groups, strict=False):
        if summary.mean is not None:
            row = _make_mean_row(comparison, group, summary.mean, summary.counted)
            rows.append({"label": label, "y": summary.mean.value, **row})
    rows, left_out = _select_drawable(rows, RenderOptions(log_y=view.log_y))
    if len(rows) < 2:
        return
    rows = [{**row, "value": row["y"]} for row in _raise_bounds(rows, view)]
    more = len(comparison.groups) - _MAX_LINES
    caption = _format_caption(comparison) + (f" {more:,} more groups are omitted." if more > 0 else "") + left_out
    label = _format_metric_name(metric)
    yield Figure(
        f"{name}-means",
        f"{label[:1].upper()}{label[1:]}: mean by {escape_text(', '.join(comparison.by))}",
        caption,
        lambda style: charts.draw_intervals(rows, style, x_title=_format_title(metric), log=view.log_y),
    )


def _make_figures_against(
    comparison: Comparison, metric: MetricComparison, name: str, number: int, view: RenderOptions
) -> Iterator[Figure]:
    rows: _Rows = []
    predicted: _Rows = []
    others = [
        escape_text(
            ", ".join(
                _format_label(name, value)
                for i, (name, value) in enumerate(zip(comparison.by, group.values, strict=True))
                if i != number
            )
        )
        or "all"
        for group in comparison.groups
    ]
    short = dict(zip(others, _shorten_names(others), strict=True))
    groups = list(dict.fromkeys(short.values()))
    for group, other, summary in zip(comparison.groups, others, metric.groups, strict=True):
        place = {"group": short[other], "x": group.values[number]}
        if summary.mean is not None:
            row = _make_mean_row(comparison, group, summary.mean, summary.counted)
            rows.append({**place, "y": summary.mean.value, **row})
        predicted += [{**place, **_make_prediction_row(comparison, group, mean)} for mean in summary.predicted]
    rows, left_out = _select_drawable(rows, view)
    predicted, predictions_left_out = _select_drawable(predicted, view, "predictions")
    if len(groups) > _MAX_COLOURS or len({row["x"] for row in rows}) < 2:
        return
    rows, predicted = _raise_bounds(rows, view, predicted), _raise_bounds(predicted, view, rows)
    column = escape_text(comparison.by[number])
    axes = charts.Axes(column, _format_title(metric), view.log_y, view.log_x)
    label = _format_metric_name(metric)
    yield Figure(
        f"{name}-against-{re.sub(r'[^A-Za-z0-9_.-]', '_', comparison.by[number])}",
        f"{label[:1].upper()}{label[1:]} against {column}",
        _format_caption(comparison)
        + left_out
        + (_describe_predictions(comparison) if predicted else "")
        + predictions_left_out,
        lambda style: charts.draw_means(rows, predicted, style, axes, groups=groups),
    )


def _make_prediction_row(comparison: Comparison, group: ComparisonGroup, prediction: MeanPrediction) -> dict[str, Any]:
    low, high = _get_bounds(prediction.mean)
    text = f"{_format_group(comparison, group)}: predicted mean {format_significant(prediction.mean.value)}"
    return {
        "y": prediction.mean.value,
        "low": low,
        "high": high,
        "said": f"{text} ({format_interval(prediction.mean)})",
        # one capture may be predicted for several paths that the groups do not tell apart
        "series": f"{prediction.file} {prediction.capture} {prediction.transport} {prediction.policy}",
    }


def _describe_predictions(comparison: Comparison) -> str:
    return (
        f" Hollow diamonds on dashed lines: predicted means, in a band where {100 * comparison.confidence:g} % of the "
        "means of as many predicted handshakes are."
    )


def _make_regression_figures(
    comparison: Comparison,
    metric: MetricComparison,
    regression: MetricRegression,
    labels: Sequence[str],
    view: RenderOptions,
) -> Iterator[Figure]:
    """A figure of the line over all groups, and if there are several groups with lines, one of the line of each."""
    if regression.overall is None:
        return
    names = labels if len(labels) <= _MAX_COLOURS else [ALL_GROUPS] * len(labels)
    points, drawn = _list_points(regression, names)
    points, left_out = _select_drawable(points, view, "handshakes")
    drawn += left_out
    if len(points) < 2:
        return
    groups = list(dict.fromkeys(row["group"] for row in points))
    overall = groups[0] if len(groups) == 1 else ALL_GROUPS
    fits = {
        label: fit for label, fit in zip(labels, regression.groups, strict=True) if fit is not None and label in groups
    }
    x, y = _format_name(regression.against, regression.unit), _format_metric_name(metric)
    axes = charts.Axes(
        _make_axis_title(regression.against, regression.unit), _format_title(metric), view.log_y, view.log_x
    )
    title = f"{y[:1].upper()}{y[1:]} over {x}"
    name = f"{_make_file_name(metric.name)}-line-{_make_file_name(regression.against)}"
    caption = _format_caption_line(comparison, metric, regression.overall, drawn)
    lines = _list_band(overall, regression.overall, view, points)
    yield Figure(
        name, f"{title}: line", caption, lambda style: charts.draw_fits(points, lines, style, axes, groups=groups)
    )
    if len(groups) > 1 and fits:
        lines_by_group = [row for label, fit in fits.items() for row in _list_band(label, fit, view, points)]
        without = f" Without a line: {', '.join(group for group in groups if group not in fits)}."
        yield Figure(
            f"{name}-groups",
            f"{title}: a line for each group",
            f"{_describe_band(comparison)}{without if len(fits) < len(groups) else ''}{drawn}",
            lambda style: charts.draw_fits(points, lines_by_group, style, axes, groups=groups),
        )


def _list_points(regression: MetricRegression, names: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """The handshakes as points, and a sentence about those that are left out."""
    rows, omitted = [], 0
    for name, (xs, ys) in zip(names, regression.samples, strict=True):
        step = max(1, -(-len(xs) // _MAX_POINTS))
        omitted += len(xs) - len(xs[::step])
        rows += [
            {"group": name, "x": x, "y": y, "said": f"{name}: {format_significant(x)}, {format_significant(y)}"}
            for x, y in zip(xs[::step].tolist(), ys[::step].tolist(), strict=True)
        ]
    return rows, f" {omitted:,} of the handshakes are not drawn as points." if omitted else ""


def _list_band(group: str, fit: LineFit, view: RenderOptions, points: _Rows) -> _Rows:
    """The points of a line; on logarithmic axes, those that are above 0, from the first of the drawn `points`."""
    space = np.geomspace if view.log_x else np.linspace
    first = min((row["x"] for row in points if row["x"] >= fit.x_least), default=fit.x_greatest)
    xs = space(first, fit.x_greatest, _BAND_POINTS) if not view.log_x or fit.x_greatest > 0 else np.array([])
    rows = [
        {"group": group, "x": point.x, "y": point.mean, "low": point.low, "high": point.high}
        for point in compute_band(fit, xs.tolist())
    ]
    return _raise_bounds(_select_drawable(rows, view)[0], view, points)


def _select_drawable(rows: _Rows, view: RenderOptions, name: str = "means") -> tuple[_Rows, str]:
    """The rows that logarithmic axes can show, and a sentence about the others."""
    kept = [row for row in rows if (row.get("x", 1) > 0 or not view.log_x) and (row["y"] > 0 or not view.log_y)]
    omitted = len(rows) - len(kept)
    axes = "logarithmic axes" if view.log_x and view.log_y else "a logarithmic axis"
    return kept, f" Left out because of {axes}: {omitted:,} of {len(rows):,} {name}, at or below 0." if omitted else ""


def _raise_bounds(rows: _Rows, view: RenderOptions, *others: _Rows) -> _Rows:
    """The rows, on a logarithmic axis without bounds at or below 0: they become the lowest value in a drawing."""
    if not view.log_y:
        return rows
    drawn = [value for part in (rows, *others) for row in part for value in (row["y"], row.get("low"))]
    lowest = min((value for value in drawn if value is not None and value > 0), default=0)
    return [{**row, "low": max(row["low"], lowest)} if row.get("low") is not None else row for row in rows]


def _describe_band(comparison: Comparison) -> str:
    return f"Lines of least squares with the {100 * comparison.confidence:g} % confidence band of the mean."


def _format_caption_line(comparison: Comparison, metric: MetricComparison, fit: LineFit, drawn: str) -> str:
    unit = f" {metric.unit}" if metric.unit else ""
    r_squared = "" if fit.r_squared is None else f"; R² {fit.r_squared:.4f}"
    return (
        f"{_describe_band(comparison)} Slope {format_significant(fit.slope.value)} ({format_interval(fit.slope)}), "
        f"intercept {format_significant(fit.intercept.value)}{unit}{r_squared}; {fit.counted:,} handshakes.{drawn}"
    )
