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
    MeanPrediction,
    MetricRegression,
    MetricSummary,
)
from ikeanalyze.render.core.formats import write_csv_rows
from ikeanalyze.render.core.json import select_attributes

SCHEMA: Final = "ikeanalyze.comparison/1"

_ESTIMATES: Final = ("mean", "median", "p95", "p99")
_BAND_POINTS: Final = 11
#: Columns of CSV after those of `by`, those of lines, and those of predictions.
_MEASURED_COLUMNS: Final = (
    *("captures", "handshakes", "failures", "counted"),
    *(f"{name}{bound}" for name in _ESTIMATES for bound in ("", "_low", "_high")),
    *("deviation", "least", "greatest", "ratio", "ratio_low", "ratio_high", "p", "p_corrected", "differs", "sum"),
)
_FIT_COLUMNS: Final = (
    *("against", "pairs", "slope", "slope_low", "slope_high", "intercept", "intercept_low", "intercept_high"),
    *("r_squared", "line_deviation"),
)
_PREDICTION_COLUMNS: Final = (
    *("predicted_from", "runs", "measured_by_predicted", "measured_by_predicted_low", "measured_by_predicted_high"),
    "within",
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
        "remarks": list(comparison.remarks),
        **select_attributes(comparison, "unread", "complete", "rekeyed", "warm_up"),
        "groups": [_build_group(group, comparison.by) for group in comparison.groups],
        "metrics": [
            {
                **select_attributes(metric, "name", "unit"),
                "groups": [
                    {"values": _build_group_values(group, comparison.by), **_build_summary(summary)}
                    for group, summary in zip(comparison.groups, metric.groups, strict=True)
                ],
                "regression": None if metric.regression is None else _build_regression(comparison, metric.regression),
            }
            for metric in comparison.metrics
        ],
    }


def _build_group_values(group: ComparisonGroup, by: tuple[str, ...]) -> dict[str, Any]:
    return dict(zip(by, group.values, strict=True))


def _build_group(group: ComparisonGroup, by: tuple[str, ...]) -> dict[str, Any]:
    return {
        "values": _build_group_values(group, by),
        **select_attributes(group, "baseline", "captures", "handshakes", "failures"),
        "outcomes": dict(group.outcomes),
    }


def _build_summary(summary: MetricSummary) -> dict[str, Any]:
    return {
        "counted": summary.counted,
        "left_out": dict(summary.left_out),
        **{name: _build_estimate(getattr(summary, name)) for name in _ESTIMATES},
        **select_attributes(summary, "sum", "deviation", "least", "greatest"),
        "against": None if summary.against is None else _build_difference(summary.against),
        "predicted": [asdict(prediction) for prediction in summary.predicted],
    }


def _build_estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else asdict(estimate)


def _build_difference(difference: GroupDifference) -> dict[str, Any]:
    return {
        "ratio": _build_estimate(difference.ratio),
        "u": difference.test.u,
        "p": difference.test.p,
        "p_method": difference.test.method,
        "p_corrected": difference.p_corrected,
        "differs": difference.differs,
    }


def _build_regression(comparison: Comparison, regression: MetricRegression) -> dict[str, Any]:
    return {
        **select_attributes(regression, "against", "unit"),
        "all": _build_fit(regression.overall),
        "groups": [
            {"values": _build_group_values(group, comparison.by), "line": _build_fit(fit)}
            for group, fit in zip(comparison.groups, regression.groups, strict=True)
        ],
    }


def _build_fit(fit: LineFit | None) -> dict[str, Any] | None:
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
    groups. A prediction has a row of its own. The column `kind` tells them apart.
    """
    heading = ("metric", *comparison.by, *_MEASURED_COLUMNS)
    groups = [summary for metric in comparison.metrics for summary in metric.groups]
    fits = any(metric.regression is not None for metric in comparison.metrics)
    predictions = any(summary.predicted for summary in groups)
    further = [
        *(["kind"] if fits or predictions else []),
        *(_FIT_COLUMNS if fits else ()),
        *(_PREDICTION_COLUMNS if predictions else ()),
    ]
    rows = ({**row, "differs": _format_flag(row.get("differs"))} for row in _list_rows(comparison))
    values = len(comparison.by)
    write_csv_rows(
        [
            (*heading, *further),
            *(
                (row["metric"], *row.get("values", [None] * values), *map(row.get, (*_MEASURED_COLUMNS, *further)))
                for row in rows
            ),
        ],
        out,
    )


def _format_flag(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def _list_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """The cells of each row by column, those of `by` as `values`; what a row does not have is missing."""
    for metric in comparison.metrics:
        regression = metric.regression
        for i, (group, summary) in enumerate(zip(comparison.groups, metric.groups, strict=True)):
            row: dict[str, Any] = {"metric": metric.name, "kind": "group", "values": group.values}
            row |= select_attributes(group, "captures", "handshakes", "failures")
            row |= select_attributes(summary, "counted", "deviation", "least", "greatest", "sum")
            for name in _ESTIMATES:
                row |= _build_bounds(name, getattr(summary, name))
            if summary.against is not None:
                row |= _build_bounds("ratio", summary.against.ratio)
                row |= select_attributes(summary.against, "p_corrected", "differs") | {"p": summary.against.test.p}
            yield row if regression is None else row | _list_fit(regression.against, regression.groups[i])
            for prediction in summary.predicted:
                yield {"metric": metric.name, "kind": "predicted", "values": group.values} | _list_prediction(
                    prediction
                )
        if regression is not None:
            yield {"metric": metric.name, "kind": "all groups"} | _list_fit(regression.against, regression.overall)


def _list_fit(against: str, fit: LineFit | None) -> dict[str, Any]:
    if fit is None:
        return {"against": against}
    lines = _build_bounds("slope", fit.slope) | _build_bounds("intercept", fit.intercept)
    return {
        "against": against,
        "pairs": fit.counted,
        "r_squared": fit.r_squared,
        "line_deviation": fit.deviation,
    } | lines


def _list_prediction(prediction: MeanPrediction) -> dict[str, Any]:
    return {
        **_build_bounds("mean", prediction.mean),
        **select_attributes(prediction, "median", "p95", "p99", "deviation", "runs"),
        "predicted_from": prediction.capture,
        **_build_bounds("measured_by_predicted", prediction.ratio),
        "within": _format_flag(prediction.within),
    }


def _build_bounds(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    if estimate is None:
        return {}
    return {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
