"""The JSON document of a comparison, schema "ikeanalyze.comparison/1", and CSV with a row per metric and group."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final, TextIO

from ikeanalyze.dataset.compare.result import Comparison, ComparisonGroup, Estimate, GroupDifference, MetricSummary
from ikeanalyze.render.core.formats import write_csv_rows
from ikeanalyze.render.core.json import select_attributes

SCHEMA: Final = "ikeanalyze.comparison/1"

_ESTIMATES: Final = ("mean", "median", "p95", "p99")


def build_document(comparison: Comparison) -> dict[str, Any]:
    """Return the document, without the samples."""
    return {
        "schema": SCHEMA,
        "source": comparison.source,
        "by": list(comparison.by),
        "baseline": comparison.baseline,
        "where": [select_attributes(condition, "column", "value") for condition in comparison.where],
        "outcomes": list(comparison.outcomes),
        **select_attributes(comparison, "confidence", "resamples"),
        "test": "Mann-Whitney U, two-sided",
        "correction": "Benjamini-Yekutieli",
        **select_attributes(comparison, "unread", "complete", "rekeyed", "warm_up"),
        "groups": [_group(group, comparison.by) for group in comparison.groups],
        "metrics": [
            {
                **select_attributes(metric, "name", "unit"),
                "groups": [
                    {"values": _values(group, comparison.by), **_summarize(summary)}
                    for group, summary in zip(comparison.groups, metric.groups, strict=True)
                ],
            }
            for metric in comparison.metrics
        ],
    }


def _values(group: ComparisonGroup, by: tuple[str, ...]) -> dict[str, Any]:
    return dict(zip(by, group.values, strict=True))


def _group(group: ComparisonGroup, by: tuple[str, ...]) -> dict[str, Any]:
    return {
        "values": _values(group, by),
        **select_attributes(group, "baseline", "captures", "handshakes", "failures"),
        "outcomes": dict(group.outcomes),
    }


def _summarize(summary: MetricSummary) -> dict[str, Any]:
    return {
        "counted": summary.counted,
        "left_out": dict(summary.left_out),
        **{name: _estimate(getattr(summary, name)) for name in _ESTIMATES},
        **select_attributes(summary, "sum", "deviation", "least", "greatest"),
        "against": None if summary.against is None else _difference(summary.against),
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _difference(difference: GroupDifference) -> dict[str, Any]:
    return {
        "ratio": _estimate(difference.ratio),
        "u": difference.test.u,
        "p": difference.test.p,
        "p_method": difference.test.method,
        "p_corrected": difference.p_corrected,
        "differs": difference.differs,
    }


def write_csv(comparison: Comparison, out: TextIO) -> None:
    """Write a heading and a row for each metric of each group. Unknown values are empty."""
    bounded = [f"{name}{bound}" for name in _ESTIMATES for bound in ("", "_low", "_high")]
    heading = (
        *("metric", *comparison.by, "captures", "handshakes", "failures", "counted", *bounded),
        *("deviation", "least", "greatest", "ratio", "ratio_low", "ratio_high", "p", "p_corrected", "differs", "sum"),
    )
    write_csv_rows([heading, *_list_rows(comparison)], out)


def _list_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for metric in comparison.metrics:
        for group, summary in zip(comparison.groups, metric.groups, strict=True):
            estimates = [cell for name in _ESTIMATES for cell in _bounds(getattr(summary, name))]
            other = summary.against
            compared: list[float | str | None] = [None] * 6
            if other is not None:
                compared = [*_bounds(other.ratio), other.test.p, other.p_corrected, str(other.differs).lower()]
            counts = (group.captures, group.handshakes, group.failures, summary.counted)
            yield (
                *(metric.name, *group.values, *counts, *estimates),
                *(summary.deviation, summary.least, summary.greatest, *compared, summary.sum),
            )


def _bounds(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
