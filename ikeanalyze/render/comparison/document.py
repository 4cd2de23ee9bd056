"""The JSON document of a comparison, schema "ikeanalyze.comparison/1", and CSV with a row per metric and group."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final, TextIO

import numpy as np

from ikeanalyze.dataset.compare.regression import compute_band
from ikeanalyze.dataset.compare.result import (
    Comparison,
    ComparisonGroup,
    Estimate,
    GroupDifference,
    LineFit,
    MetricRegression,
    MetricSummary,
)
from ikeanalyze.render.core.formats import write_csv_rows
from ikeanalyze.render.core.json import select_attributes

SCHEMA: Final = "ikeanalyze.comparison/1"

_ESTIMATES: Final = ("mean", "median", "p95", "p99")
_BAND_POINTS: Final = 11
#: Columns of CSV after those of `by`, and those of lines.
_MEASURED_COLUMNS: Final = (
    *("captures", "handshakes", "failures", "counted"),
    *(f"{name}{bound}" for name in _ESTIMATES for bound in ("", "_low", "_high")),
    *("deviation", "least", "greatest", "ratio", "ratio_low", "ratio_high", "p", "p_corrected", "differs", "sum"),
)
_FIT_COLUMNS: Final = (
    *("pairs", "slope", "slope_low", "slope_high", "intercept", "intercept_low", "intercept_high"),
    *("r_squared", "line_deviation"),
)


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
                "regression": None if metric.regression is None else _regression(comparison, metric.regression),
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


def _regression(comparison: Comparison, regression: MetricRegression) -> dict[str, Any]:
    return {
        **select_attributes(regression, "against", "unit"),
        "all": _fit(regression.overall),
        "groups": [
            {"values": _values(group, comparison.by), "line": _fit(fit)}
            for group, fit in zip(comparison.groups, regression.groups, strict=True)
        ],
    }


def _fit(fit: LineFit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    xs = np.linspace(fit.x_least, fit.x_greatest, _BAND_POINTS).tolist()
    bounds = ("value", "low", "high", "method")
    return {
        "counted": fit.counted,
        "slope": select_attributes(fit.slope, *bounds),
        "intercept": select_attributes(fit.intercept, *bounds),
        **select_attributes(fit, "r_squared", "deviation", "x_mean", "x_deviation", "x_least", "x_greatest"),
        "band": [asdict(point) for point in compute_band(fit, xs)],
    }


def write_csv(comparison: Comparison, out: TextIO) -> None:
    """Write a heading and a row for each metric of each group. Unknown values are empty.

    With lines against another quantity, each row has that of its group, and a further row per metric has that of all
    groups; the column `kind` tells them apart.
    """
    heading = ("metric", *comparison.by, *_MEASURED_COLUMNS)
    further = (*("kind", "against"), *_FIT_COLUMNS) if _has_regression(comparison) else ()
    write_csv_rows([(*heading, *further), *_list_rows(comparison)], out)


def _has_regression(comparison: Comparison) -> bool:
    return any(metric.regression is not None for metric in comparison.metrics)


def _list_rows(comparison: Comparison) -> Iterator[tuple[object, ...]]:
    for metric in comparison.metrics:
        regression = metric.regression
        for i, (group, summary) in enumerate(zip(comparison.groups, metric.groups, strict=True)):
            estimates = [cell for name in _ESTIMATES for cell in _bounds(getattr(summary, name))]
            other = summary.against
            compared: list[float | str | None] = [None] * 6
            if other is not None:
                compared = [*_bounds(other.ratio), other.test.p, other.p_corrected, str(other.differs).lower()]
            counts = (group.captures, group.handshakes, group.failures, summary.counted)
            yield (
                *(metric.name, *group.values, *counts, *estimates),
                *(summary.deviation, summary.least, summary.greatest, *compared, summary.sum),
                *(() if regression is None else ("group", regression.against, *_list_fit(regression.groups[i]))),
            )
        if regression is not None:
            unused = (None,) * (len(comparison.by) + len(_MEASURED_COLUMNS))
            yield metric.name, *unused, "all groups", regression.against, *_list_fit(regression.overall)


def _list_fit(fit: LineFit | None) -> list[object]:
    """The cells of `_FIT_COLUMNS`."""
    if fit is None:
        return [None] * len(_FIT_COLUMNS)
    return [fit.counted, *_bounds(fit.slope), *_bounds(fit.intercept), fit.r_squared, fit.deviation]


def _bounds(estimate: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
