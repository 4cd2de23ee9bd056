"""Limits on differences from the baseline, as `compare --fail-on` uses them.

A group exceeds a limit if its mean differs from the baseline's by more than the limit, and the difference is more than
noise: the test is significant, and the interval of the ratio, if it is known, excludes 1. A group of which no handshake
counts, while the baseline has some, exceeds every limit: its handshakes failed.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.columns import format_value
from ikeanalyze.dataset.compare.result import Comparison, Estimate, GroupDifference, MetricComparison

_LIMIT: Final = re.compile(r"\s*([^<>\s]+)\s*([<>])\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class MetricLimit:
    """A limit on the difference of a metric from the baseline."""

    text: str  # as it was given
    metric: str  # name
    larger: bool  # larger values are worse
    percent: float  # of the baseline's mean

    def is_beyond(self, ratio: Estimate | None) -> bool:
        """Return whether the ratio of the means is beyond the limit; None: the baseline's mean is 0."""
        if ratio is None:
            return self.larger
        change = ratio.value - 1 if self.larger else 1 - ratio.value
        return change > self.percent / 100

    def is_more_than_noise(self, difference: GroupDifference) -> bool:
        """Return whether the difference is significant, and the interval of the ratio excludes 1."""
        ratio = difference.ratio
        bound = None if ratio is None else ratio.low if self.larger else ratio.high
        return difference.differs and (bound is None or (bound > 1 if self.larger else bound < 1))


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A group that is beyond a limit."""

    limit: MetricLimit
    group: str  # such as "config=pq, loss=5"
    problem: str  # the values that were compared
    noise: bool  # the difference may be noise, so that the limit is not exceeded


def parse_limits(text: str) -> tuple[MetricLimit, ...]:
    """Parse limits such as `setup_ms>10%,bytes>5%`.

    Raises:
        CompareError: a text is not a limit.
    """
    return tuple(_parse_limit(part.strip()) for part in text.split(","))


def _parse_limit(text: str) -> MetricLimit:
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise CompareError(
            f"{text!r} is not METRIC>PERCENT%, such as setup_ms>10% (METRIC<PERCENT%: smaller is worse)", "fail-on"
        )
    return MetricLimit(text, match[1], match[2] == ">", float(match[3]))


def find_exceeded(comparison: Comparison, limits: Sequence[MetricLimit]) -> list[ExceededLimit]:
    """Return the groups that are beyond a limit, in the order of limits and groups; `noise` tells which may be noise.

    Raises:
        CompareError: no group is compared with a baseline.
    """
    if all(group.baseline is None for group in comparison.groups):
        raise CompareError(f"{comparison.source}: no group is compared with a baseline")
    metrics = {metric.name: metric for metric in comparison.metrics}
    return [exceeded for limit in limits for exceeded in _find(comparison, limit, metrics[limit.metric])]


def _find(comparison: Comparison, limit: MetricLimit, metric: MetricComparison) -> Iterator[ExceededLimit]:
    for group, summary in zip(comparison.groups, metric.groups, strict=True):
        base = None if group.baseline is None else metric.groups[group.baseline].mean
        if base is None:
            continue
        name = ", ".join(
            f"{column}={format_value(value)}" for column, value in zip(comparison.by, group.values, strict=True)
        )
        if summary.mean is None or summary.against is None:
            yield ExceededLimit(limit, name, f"none of {group.handshakes} handshakes counts", noise=False)
        elif limit.is_beyond(summary.against.ratio):
            values = f"{_format_number(summary.mean.value)} instead of {_format_number(base.value)}"
            change = f"{values}{_format_change(summary.against.ratio)}, p {summary.against.p_corrected:.2g}"
            yield ExceededLimit(limit, name, change, noise=not limit.is_more_than_noise(summary.against))


def _format_number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _format_change(ratio: Estimate | None) -> str:
    return "" if ratio is None else f" ({(ratio.value - 1) * 100:+.1f} %)"
