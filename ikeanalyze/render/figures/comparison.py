"""The figures of a comparison: for each metric the means with their intervals, against a numeric column where the groups
have one (loss, say), and how the values are distributed.
"""

import re
from collections.abc import Iterator
from typing import Final

from ikeanalyze.dataset.compare_columns import text
from ikeanalyze.dataset.comparison import Compared, Comparison, Estimate, Group
from ikeanalyze.render.comparison import digits, interval
from ikeanalyze.render.figures import charts
from ikeanalyze.render.figures.distribution import distributions
from ikeanalyze.render.figures.figure import Figure
from ikeanalyze.render.values import clean

#: Groups that have a colour each, and that have a line each.
_COLOURED: Final = 7
_LINES: Final = 40


def comparison_figures(comparison: Comparison) -> Iterator[Figure]:
    """All figures that the samples have something for, metric by metric."""
    number = _numeric(comparison)
    for metric in comparison.metrics:
        name = re.sub(r"[^\w.-]", "_", metric.name)
        yield from _means(comparison, metric, name)
        if number is not None:
            yield from _against(comparison, metric, name, number)
        samples = {
            label_of(comparison, group): one.sample.tolist()
            for group, one in zip(comparison.groups, metric.groups, strict=True)
            if one.counted > 1
        }
        shown = dict(list(samples.items())[:_COLOURED])
        left_out = (
            f" (the first {len(shown)} of {len(samples):,} groups)" if len(shown) < len(samples) else ""
        )
        yield from distributions(
            shown, name=name, what=_what(metric), unit=metric.unit or "", of=f"handshakes{left_out}"
        )


def label_of(comparison: Comparison, group: Group) -> str:
    """What a group is called: its value, or of several columns all of them with their names."""
    if len(group.values) == 1:
        return clean(text(group.values[0]))
    return clean(
        ", ".join(f"{name} {text(value)}" for name, value in zip(comparison.by, group.values, strict=True))
    )


def _what(metric: Compared) -> str:
    """A metric's name without its unit."""
    unit = metric.unit
    name = metric.name.removesuffix(f"_{unit}") if unit else metric.name
    return "set-up time" if name == "setup" else name.replace("_", " ")


def _title(metric: Compared) -> str:
    what = _what(metric)
    return f"{what}, {metric.unit}" if metric.unit and metric.unit != what else what


def _numeric(comparison: Comparison) -> int | None:
    """Which of the columns is one of numbers, several of them; None: none is."""
    for index in range(len(comparison.by)):
        values = {group.values[index] for group in comparison.groups}
        if len(values) > 1 and all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in values
        ):
            return index
    return None


def _bounds(estimate: Estimate) -> tuple[float, float]:
    """Both bounds; a bound that is not known is the value itself."""
    low = estimate.value if estimate.low is None else estimate.low
    return low, estimate.value if estimate.high is None else estimate.high


def _said(label: str, estimate: Estimate, counted: int) -> str:
    return f"{label}: mean {digits(estimate.value)} ({interval(estimate)}) of {counted:,}"


def _caption(comparison: Comparison) -> str:
    return (
        f"Mean of the handshakes that are {' or '.join(comparison.outcomes)}, with its "
        f"{100 * comparison.confidence:g} % interval."
    )


def _means(comparison: Comparison, metric: Compared, name: str) -> Iterator[Figure]:
    rows = []
    for group, one in zip(comparison.groups[:_LINES], metric.groups, strict=False):
        if one.mean is not None:
            low, high = _bounds(one.mean)
            label = label_of(comparison, group)
            said = _said(label, one.mean, one.counted)
            rows.append({"label": label, "value": one.mean.value, "low": low, "high": high, "said": said})
    if len(rows) < 2:
        return
    more = len(comparison.groups) - _LINES
    caption = _caption(comparison) + (f" {more:,} more groups are left out." if more > 0 else "")
    what = _what(metric)
    yield Figure(
        f"{name}-means",
        f"{what[:1].upper()}{what[1:]}: mean by {clean(', '.join(comparison.by))}",
        caption,
        lambda style: charts.intervals(rows, style, x_title=_title(metric)),
    )


def _against(comparison: Comparison, metric: Compared, name: str, number: int) -> Iterator[Figure]:
    rows, groups = [], list[str]()
    for group, one in zip(comparison.groups, metric.groups, strict=True):
        others = [value for i, value in enumerate(group.values) if i != number]
        label = clean(", ".join(map(text, others))) or "all"
        if label not in groups:
            groups.append(label)
        if one.mean is not None:
            low, high = _bounds(one.mean)
            said = _said(label_of(comparison, group), one.mean, one.counted)
            x = group.values[number]
            rows.append({"group": label, "x": x, "y": one.mean.value, "low": low, "high": high, "said": said})
    if len(groups) > _COLOURED or len({row["x"] for row in rows}) < 2:
        return
    column = clean(comparison.by[number])
    what = _what(metric)
    yield Figure(
        f"{name}-against-{re.sub(r'[^A-Za-z0-9_.-]', '_', comparison.by[number])}",
        f"{what[:1].upper()}{what[1:]} against {column}",
        _caption(comparison),
        lambda style: charts.points(rows, style, groups=groups, x_title=column, y_title=_title(metric)),
    )
