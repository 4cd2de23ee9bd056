"""The figures of a comparison: for each metric the means with their intervals, the means against a numeric column of
the groups (such as loss), the lines against another quantity, and the distributions.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from ikeanalyze.dataset.compare.columns import format_value
from ikeanalyze.dataset.compare.metrics import PLUS
from ikeanalyze.dataset.compare.regression import compute_band
from ikeanalyze.dataset.compare.result import (
    Comparison,
    ComparisonGroup,
    Estimate,
    LineFit,
    MetricComparison,
    MetricRegression,
)
from ikeanalyze.render.comparison.text import ALL_GROUPS, format_interval, format_significant
from ikeanalyze.render.core.figures import charts
from ikeanalyze.render.core.figures.distribution import make_distribution_figures
from ikeanalyze.render.core.figures.files import Figure
from ikeanalyze.render.core.table import clip_text, min_distinct_width
from ikeanalyze.render.core.values import escape_text

#: Maximum number of groups with a colour each, and with a line each.
_MAX_COLOURS: Final = 7
_MAX_LINES: Final = 40
#: Maximum letters of a group's name.
_MAX_NAME_LENGTH: Final = 24
#: Maximum handshakes of a group that are drawn as points next to a line, and the points of its band.
_MAX_POINTS: Final = 500
_BAND_POINTS: Final = 61


def make_figures(comparison: Comparison) -> Iterator[Figure]:
    """Yield the figures for which the samples have data, metric by metric."""
    number = _numeric(comparison)
    labels = make_group_labels(comparison)
    by = f" by {escape_text(', '.join(comparison.by))}" if len(comparison.by) > 1 else ""
    for metric in comparison.metrics:
        name = _make_file_name(metric.name)
        yield from _means(comparison, metric, name, labels)
        if number is not None:
            yield from _against(comparison, metric, name, number)
        if metric.regression is not None:
            yield from _regression(comparison, metric, metric.regression, labels)
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
        name = escape_text(", ".join(map(format_value, group.values)))
        counted[name] += 1  # "a, b" may be one value and two
        names.append(f"{name} ({counted[name]})" if counted[name] > 1 else name)
    return _shorten_names(names)


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


def _title(metric: MetricComparison) -> str:
    return _make_axis_title(metric.name, metric.unit)


def _make_axis_title(name: str, unit: str | None) -> str:
    short = _format_name(name, unit)
    return f"{short}, {unit}" if unit and unit != short else short


def _numeric(comparison: Comparison) -> int | None:
    """The index of the first column with several numbers, or None."""
    for index in range(len(comparison.by)):
        values = {group.values[index] for group in comparison.groups}
        if len(values) > 1 and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            return index
    return None


def _bounds(estimate: Estimate) -> tuple[float, float]:
    """Both bounds; an unknown bound is the value itself."""
    low = estimate.value if estimate.low is None else estimate.low
    return low, estimate.value if estimate.high is None else estimate.high


def _make_mean_row(comparison: Comparison, group: ComparisonGroup, mean: Estimate, counted: int) -> dict[str, Any]:
    low, high = _bounds(mean)
    label = _format_group(comparison, group)
    text = f"{label}: mean {format_significant(mean.value)} ({format_interval(mean)}) of {counted:,}"
    return {"low": low, "high": high, "said": text}


def _caption(comparison: Comparison) -> str:
    return (
        f"Mean of the handshakes that are {' or '.join(comparison.outcomes)}, with its "
        f"{100 * comparison.confidence:g} % interval."
    )


def _means(comparison: Comparison, metric: MetricComparison, name: str, labels: Sequence[str]) -> Iterator[Figure]:
    rows = []
    for group, label, summary in zip(comparison.groups[:_MAX_LINES], labels, metric.groups, strict=False):
        if summary.mean is not None:
            row = _make_mean_row(comparison, group, summary.mean, summary.counted)
            rows.append({"label": label, "value": summary.mean.value, **row})
    if len(rows) < 2:
        return
    more = len(comparison.groups) - _MAX_LINES
    caption = _caption(comparison) + (f" {more:,} more groups are omitted." if more > 0 else "")
    label = _format_metric_name(metric)
    yield Figure(
        f"{name}-means",
        f"{label[:1].upper()}{label[1:]}: mean by {escape_text(', '.join(comparison.by))}",
        caption,
        lambda style: charts.draw_intervals(rows, style, x_title=_title(metric)),
    )


def _against(comparison: Comparison, metric: MetricComparison, name: str, number: int) -> Iterator[Figure]:
    rows = []
    others = [
        escape_text(", ".join(format_value(value) for i, value in enumerate(group.values) if i != number)) or "all"
        for group in comparison.groups
    ]
    short = dict(zip(others, _shorten_names(others), strict=True))
    groups = list(short.values())
    for group, other, summary in zip(comparison.groups, others, metric.groups, strict=True):
        if summary.mean is not None:
            row = _make_mean_row(comparison, group, summary.mean, summary.counted)
            rows.append({"group": short[other], "x": group.values[number], "y": summary.mean.value, **row})
    if len(groups) > _MAX_COLOURS or len({row["x"] for row in rows}) < 2:
        return
    column = escape_text(comparison.by[number])
    label = _format_metric_name(metric)
    yield Figure(
        f"{name}-against-{re.sub(r'[^A-Za-z0-9_.-]', '_', comparison.by[number])}",
        f"{label[:1].upper()}{label[1:]} against {column}",
        _caption(comparison),
        lambda style: charts.draw_points(rows, style, groups=groups, x_title=column, y_title=_title(metric)),
    )


def _regression(
    comparison: Comparison, metric: MetricComparison, regression: MetricRegression, labels: Sequence[str]
) -> Iterator[Figure]:
    """A figure of the line over all groups, and if there are several groups with lines, one of the line of each."""
    if regression.overall is None:
        return
    names = labels if len(labels) <= _MAX_COLOURS else [ALL_GROUPS] * len(labels)
    points, drawn = _list_points(regression, names)
    groups = list(dict.fromkeys(row["group"] for row in points))
    overall = groups[0] if len(groups) == 1 else ALL_GROUPS
    fits = {
        label: fit for label, fit in zip(labels, regression.groups, strict=True) if fit is not None and label in groups
    }
    x, y = _format_name(regression.against, regression.unit), _format_metric_name(metric)
    axes = charts.Axes(_make_axis_title(regression.against, regression.unit), _title(metric))
    title = f"{y[:1].upper()}{y[1:]} over {x}"
    name = f"{_make_file_name(metric.name)}-line-{_make_file_name(regression.against)}"
    caption = _caption_line(comparison, metric, regression.overall, drawn)
    lines = _list_band(overall, regression.overall)
    yield Figure(
        name, f"{title}: line", caption, lambda style: charts.draw_fits(points, lines, style, axes, groups=groups)
    )
    if len(groups) > 1 and fits:
        lines_by_group = [row for label, fit in fits.items() for row in _list_band(label, fit)]
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


def _list_band(group: str, fit: LineFit) -> list[dict[str, Any]]:
    xs = np.linspace(fit.x_least, fit.x_greatest, _BAND_POINTS).tolist()
    return [
        {"group": group, "x": point.x, "y": point.mean, "low": point.low, "high": point.high}
        for point in compute_band(fit, xs)
    ]


def _describe_band(comparison: Comparison) -> str:
    return f"Lines of least squares with the {100 * comparison.confidence:g} % confidence band of the mean."


def _caption_line(comparison: Comparison, metric: MetricComparison, fit: LineFit, drawn: str) -> str:
    unit = f" {metric.unit}" if metric.unit else ""
    r_squared = "" if fit.r_squared is None else f"; R² {fit.r_squared:.4f}"
    return (
        f"{_describe_band(comparison)} Slope {format_significant(fit.slope.value)} ({format_interval(fit.slope)}), "
        f"intercept {format_significant(fit.intercept.value)}{unit}{r_squared}; {fit.counted:,} handshakes.{drawn}"
    )
