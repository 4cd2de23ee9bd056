"""The figures of a comparison: for each metric the means with their intervals, the means against a numeric column of
the groups (such as loss), and the distributions.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ikeanalyze.dataset.compare.columns import format_value
from ikeanalyze.dataset.compare.metrics import PLUS
from ikeanalyze.dataset.compare.result import Comparison, ComparisonGroup, Estimate, MetricComparison
from ikeanalyze.render.comparison.text import format_interval, format_significant
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


def make_figures(comparison: Comparison) -> Iterator[Figure]:
    """Yield the figures for which the samples have data, metric by metric."""
    number = _numeric(comparison)
    labels = make_group_labels(comparison)
    by = f" by {escape_text(', '.join(comparison.by))}" if len(comparison.by) > 1 else ""
    for metric in comparison.metrics:
        name = re.sub(r"[^\w.-]", "_", metric.name.replace(PLUS, "_plus_"))
        yield from _means(comparison, metric, name, labels)
        if number is not None:
            yield from _against(comparison, metric, name, number)
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


def _format_metric_name(metric: MetricComparison) -> str:
    """The name of a metric without its unit."""
    return " + ".join(_format_name(name, metric.unit) for name in metric.name.split(PLUS))


def _format_name(name: str, unit: str | None) -> str:
    short = name.removesuffix(f"_{unit}") if unit else name
    return "set-up time" if short == "setup" else short.replace("_", " ")


def _title(metric: MetricComparison) -> str:
    name = _format_metric_name(metric)
    return f"{name}, {metric.unit}" if metric.unit and metric.unit != name else name


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
