"""Lays predictions over the measured means of groups.

A prediction belongs to a group if its link has the values of the group's labels that describe a link (see
`prediction_file.LINK_COLUMNS`). Other columns of `--by` (a configuration, an authentication method) are not in a
prediction: it has their values in the dataset for the capture that it was made from.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose
from pathlib import PurePath
from statistics import NormalDist
from typing import Final

import polars as pl

from ikeanalyze.dataset.compare.columns import Value, format_value, get_group_column
from ikeanalyze.dataset.compare.prediction_file import PredictedCase, find_link_column, read_predictions
from ikeanalyze.dataset.compare.result import Comparison, Estimate, MeanPrediction, MetricComparison, MetricSummary
from ikeanalyze.dataset.compare.source import ComparisonTables

#: Unmatched predictions that are named.
_MAX_NAMED: Final = 5
#: Metrics, and their quantity in a prediction. A set-up time is predicted as the initiator sees it.
_QUANTITIES: Final = {
    "initiator_setup_ms": "setup_ms",
    "setup_ms": "setup_ms",
    **{name: name for name in ("bytes", "messages", "frames")},
}


#: Predictions with their files, by index of the group that they belong to.
_Matched = Mapping[int, Sequence[tuple[str, PredictedCase]]]


def list_link_labels(tables: ComparisonTables, by: Sequence[str]) -> list[str]:
    """The labels that describe the link, except those in `by`."""
    return [name for name in tables.labels if name not in by and find_link_column(name) is not None]


def lay_predictions(
    comparison: Comparison, files: Sequence[str], parts: Sequence[pl.DataFrame], tables: ComparisonTables
) -> Comparison:
    """The comparison with the predictions of these files.

    `parts` are the handshakes of each group, with a column `label NAME` for each of `list_link_labels`.

    Raises:
        CompareError: a file cannot be read.
    """
    labels = list_link_labels(tables, comparison.by)
    groups = [
        MeasuredGroup(
            dict(zip(comparison.by, group.values, strict=True)),
            {name: part[f"label {name}"].drop_nulls().unique().to_list() for name in labels},
        )
        for group, part in zip(comparison.groups, parts, strict=True)
    ]
    by_capture = _read_values_by_capture(tables, [name for name in comparison.by if find_link_column(name) is None])
    matched: dict[int, list[tuple[str, PredictedCase]]] = {}
    unmatched = []
    for file in files:
        for case in read_predictions(file):
            indices = match_groups(case, groups, by_capture)
            for i in indices:
                matched.setdefault(i, []).append((file, case))
            if not indices:
                unmatched.append(case)
    remarks = list(
        _describe_unused(unmatched, [*comparison.by, *labels], matched, [m.name for m in comparison.metrics])
    )
    metrics = tuple(_add_predictions(metric, matched, comparison.confidence) for metric in comparison.metrics)
    return replace(comparison, metrics=metrics, remarks=(*comparison.remarks, *remarks))


def _read_values_by_capture(tables: ComparisonTables, names: Sequence[str]) -> dict[str, set[tuple[Value, ...]]]:
    """The values of columns that occur in each capture of the dataset."""
    columns = tables.handshakes.collect_schema()
    values = {f"value {i}": get_group_column(name, columns, tables.labels, "by") for i, name in enumerate(names)}
    by_capture: dict[str, set[tuple[Value, ...]]] = {}
    for capture, *row in tables.handshakes.select(pl.col("capture"), **values).unique().collect().iter_rows():
        by_capture.setdefault(capture, set()).add(tuple(row))
    return by_capture


def _add_predictions(metric: MetricComparison, matched: _Matched, confidence: float) -> MetricComparison:
    groups = []
    for i, summary in enumerate(metric.groups):
        means = (predict_mean(metric.name, case, file, summary, confidence) for file, case in matched.get(i, ()))
        groups.append(replace(summary, predicted=tuple(mean for mean in means if mean is not None)))
    return replace(metric, groups=tuple(groups))


def _describe_unused(
    unmatched: Sequence[PredictedCase], columns: Sequence[str], matched: _Matched, metrics: Sequence[str]
) -> Iterator[str]:
    if unmatched:
        count = "1 prediction belongs" if len(unmatched) == 1 else f"{len(unmatched):,} predictions belong"
        named = "; ".join(describe_unmatched(unmatched[:_MAX_NAMED], columns))
        more = f"; and {len(unmatched) - _MAX_NAMED:,} more" if len(unmatched) > _MAX_NAMED else ""
        yield f"{count} to no group: {named}{more}"
    if "setup_ms" in metrics and any(case.link.rtt_ms for cases in matched.values() for _, case in cases):
        yield (
            "set-up times are predicted as the initiator sees them, so with a round-trip time they belong to "
            "initiator_setup_ms, not to setup_ms"
        )


@dataclass(frozen=True, slots=True)
class MeasuredGroup:
    """What a prediction must have to belong to a group."""

    values: Mapping[str, Value]  # of the columns of `by`
    labels: Mapping[str, Collection[Value]]  # known values of other labels that describe the link


def match_groups(
    case: PredictedCase, groups: Sequence[MeasuredGroup], by_capture: Mapping[str, Collection[tuple[Value, ...]]]
) -> list[int]:
    """Indices of the groups that a prediction belongs to.

    `by_capture` has the values of those columns of `by` that do not describe a link, by capture of the dataset.
    """
    others = [name for name in groups[0].values if find_link_column(name) is None] if groups else []
    distinct = {tuple(group.values[name] for name in others) for group in groups}
    if len(distinct) > 1:
        distinct = {
            values for path, several in by_capture.items() if _is_same_capture(path, case.capture) for values in several
        }
    if len(distinct) != 1:
        return []
    (wanted,) = distinct
    return [
        i
        for i, group in enumerate(groups)
        if tuple(group.values[name] for name in others) == wanted and _has_link(case, group)
    ]


def _has_link(case: PredictedCase, group: MeasuredGroup) -> bool:
    """Whether the labels of a group describe the link of a prediction."""
    required = {name: (value,) for name, value in group.values.items()} | dict(group.labels)
    for name, values in required.items():
        get = find_link_column(name)
        predicted = None if get is None else get(case)
        if predicted is not None and not all(_is_equal(value, predicted) for value in values):
            return False
    return True


def _is_equal(value: Value, predicted: Value) -> bool:
    if isinstance(value, int | float) and isinstance(predicted, int | float):
        return isclose(value, predicted, rel_tol=1e-9, abs_tol=1e-9)
    return value == predicted


def _is_same_capture(path: str, other: str) -> bool:
    """Whether one path is the end of the other: a batch and a prediction may run in different folders."""
    first, second = PurePath(path).parts, PurePath(other).parts
    shared = min(len(first), len(second))
    return first[-shared:] == second[-shared:]


def predict_mean(
    metric: str, case: PredictedCase, file: str, summary: MetricSummary, confidence: float
) -> MeanPrediction | None:
    """A prediction next to the measured mean of a group; None: this metric is not predicted.

    The bounds contain the mean of as many handshakes as the group counts with probability `confidence`, in the normal
    approximation; they include the error of a mean of `runs` simulated handshakes.
    """
    quantity = _QUANTITIES.get(metric)
    if quantity is None or (metric == "setup_ms" and case.link.rtt_ms):
        return None
    distribution = getattr(case, quantity)
    if distribution is None:
        return None
    mean = Estimate(distribution.mean)
    within = None
    if summary.counted:
        error = distribution.deviation * (1 / summary.counted + 1 / case.runs) ** 0.5
        half = NormalDist().inv_cdf((1 + confidence) / 2) * error
        mean = Estimate(distribution.mean, distribution.mean - half, distribution.mean + half, "normal approximation")
        within = summary.mean is not None and abs(summary.mean.value - distribution.mean) <= half
    return MeanPrediction(
        file=file,
        capture=case.capture,
        handshake=case.handshake,
        runs=case.runs,
        rtt_ms=case.link.rtt_ms,
        loss=case.link.loss,
        transport=case.transport,
        policy=case.policy.name,
        mean=mean,
        deviation=distribution.deviation,
        median=distribution.median,
        p95=distribution.p95,
        p99=distribution.p99,
        ratio=_divide_estimate(summary.mean, distribution.mean),
        within=within,
    )


def _divide_estimate(measured: Estimate | None, predicted: float) -> Estimate | None:
    if measured is None or not predicted:
        return None
    low, high = (None if bound is None else bound / predicted for bound in (measured.low, measured.high))
    return Estimate(measured.value / predicted, low, high, measured.method, measured.resamples)


def describe_unmatched(cases: Sequence[PredictedCase], columns: Sequence[str]) -> Iterator[str]:
    """A text for each prediction without a group: its capture, and its values of the columns that describe the link."""
    for case in cases:
        values = [
            f"{name}={format_value(get(case))}" for name in columns if (get := find_link_column(name)) is not None
        ]
        yield f"{case.capture} ({', '.join(values)})" if values else case.capture
