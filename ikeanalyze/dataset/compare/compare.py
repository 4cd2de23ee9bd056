"""Compares groups of handshakes: summarises each metric per group and tests the difference from a baseline.

    handshakes of a dataset ──by labels──▶ groups ──of each metric──▶ samples ──statistics──▶ Comparison

The sample of a metric has the handshakes that succeeded (or those with the given outcomes). The number of other
handshakes is reported too, because the mean of the successful handshakes improves as more handshakes fail.

`compute_group_values` gives one value per group of a dataset, for example for a ranking.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from ikeanalyze.analysis.schema import OUTCOMES
from ikeanalyze.analysis.tables.layouts import SUCCESSES
from ikeanalyze.dataset.compare import CompareError, statistics
from ikeanalyze.dataset.compare.columns import (
    RowCondition,
    Value,
    format_value,
    get_group_column,
    join_values,
    match_conditions,
    matches_value,
    sort_groups,
)
from ikeanalyze.dataset.compare.metrics import Metric, aggregate_exchanges, select_metrics
from ikeanalyze.dataset.compare.predicted import lay_predictions, list_link_labels
from ikeanalyze.dataset.compare.regression import check_spread, regress
from ikeanalyze.dataset.compare.result import (
    Comparison,
    ComparisonGroup,
    Estimate,
    GroupDifference,
    MetricComparison,
    MetricSummary,
    Values,
)
from ikeanalyze.dataset.compare.source import UNREADABLE, ComparisonTables, find_unreadable_file, open_tables
from ikeanalyze.dataset.copies import find_overlaps
from ikeanalyze.io.suggestions import describe_choices

#: Metrics that are compared if none is named.
DEFAULT_METRICS: Final = ("setup_ms", "bytes", "retransmissions")
#: Reason of a metric to leave out a handshake with a counted outcome.
NOT_KNOWN: Final = "not known"

_MAX_GROUPS: Final = 1_000
_MAX_OVERLAPS: Final = 5  # that are named
#: Resamples for values without intervals.
_MIN_RESAMPLES: Final = 100
#: Larger values of labels (floats go up to 1.8e308) have no finite mean and variance; they count as unknown.
_MAX_VALUE: Final = 1e100


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """What to compare, and how."""

    by: Sequence[str]  # columns to group by: labels, or columns of the handshakes table
    metrics: Sequence[str] = DEFAULT_METRICS  # names of metrics
    #: Value of the first column of `by`; a group is compared with the group that has this value and equal values in all
    #: other columns. None: the first value in order.
    baseline: str | None = None
    where: Sequence[RowCondition] = ()  # conditions on handshakes; those on the same column are ORed, columns are ANDed
    outcomes: Sequence[str] = SUCCESSES  # outcomes of the handshakes that metrics count
    confidence: float = 0.95  # of the intervals, 0 to 1; 1 - confidence is the level of the test
    resamples: int = statistics.RESAMPLES  # number of bootstrap resamples
    warm_up: bool = False  # count the lab's warm-up handshakes too
    against: str | None = None  # name of a metric, against which a line is fitted to each of the others
    predicted: Sequence[str] = ()  # JSON files of `ikeanalyze predict`

    @property
    def drops_warm_up(self) -> bool:
        """Whether warm-up handshakes are in no group: no column or condition asks for them either."""
        return not self.warm_up and "warm_up" not in (*self.by, *(condition.column for condition in self.where))


def compare_groups(tables: ComparisonTables, request: ComparisonRequest) -> Comparison:
    """Compare groups of the handshakes in these tables.

    Raises:
        CompareError: unknown column, metric, outcome or baseline, no handshakes, or `against` has only one value.
    """
    for outcome in request.outcomes:
        if outcome not in OUTCOMES.categories:
            raise CompareError(
                f"unknown outcome {outcome!r}{describe_choices(outcome, OUTCOMES.categories)}", "outcome"
            )
    if request.predicted and not set(request.outcomes) <= set(SUCCESSES):
        raise CompareError(f"predictions are of handshakes that are {' or '.join(SUCCESSES)}", "predicted")
    names = list(dict.fromkeys(request.by))
    labels = list_link_labels(tables, names) if request.predicted else []
    try:
        selected = select_metrics(tables.handshakes, request.metrics)
        against = [] if request.against is None else select_metrics(tables.handshakes, [request.against], "against")
        table = _read_table(tables, names, [*selected, *against], request.where, labels)
        remarks = _describe_overlaps(tables, request.where)
    except UNREADABLE as error:
        raise find_unreadable_file(tables.path, error) from None
    set_up = table.filter(~pl.col("rekeyed"))
    grouped = set_up.filter(pl.col("warm_up").not_().fill_null(True)) if request.drops_warm_up else set_up
    if grouped.is_empty():
        which = " that meets the conditions" if request.where else ""
        which += " except warm-ups" if not set_up.is_empty() else ""
        raise CompareError(f"{tables.path}: no handshake{which}", "where" if request.where else None)
    parts = _partition(grouped, names)
    first = _find_baseline(request.baseline, names[0], [values[0] for values in parts])
    comparison = Comparison(
        source=tables.path,
        by=tuple(names),
        baseline=first,
        where=tuple(request.where),
        outcomes=tuple(request.outcomes),
        confidence=request.confidence,
        resamples=request.resamples,
        groups=tuple(_count_groups(parts, first)),
        metrics=(),
        unread=tables.unread,
        complete=tables.complete,
        rekeyed=table.height - set_up.height,
        warm_up=set_up.height - grouped.height,
        remarks=tuple(remarks),
    )
    counted = [part.filter(pl.col("outcome").is_in(request.outcomes)) for part in parts.values()]
    metrics = [_compare_metric(metric, counted, comparison) for metric in selected]
    if against:
        metrics = _regress_metrics(metrics, against[0], counted, request.confidence)
    comparison = replace(comparison, metrics=tuple(metrics))
    return lay_predictions(comparison, request.predicted, counted, tables) if request.predicted else comparison


def _read_table(
    tables: ComparisonTables,
    by: Sequence[str],
    metrics: Sequence[Metric],
    where: Sequence[RowCondition],
    labels: Sequence[str],
) -> pl.DataFrame:
    """A row per handshake: capture, outcome, `group N` for each column of `by`, `metric NAME` for each metric, and
    `label NAME` for each of these labels.
    """
    columns = tables.handshakes.collect_schema()
    groups = {f"group {i}": get_group_column(name, columns, tables.labels, "by") for i, name in enumerate(by)}
    rows = tables.handshakes.filter(match_conditions(where, columns, tables.labels))
    if any(metric.from_exchanges for metric in metrics):
        rows = rows.join(aggregate_exchanges(tables.exchanges), on=["capture", "handshake"], how="left")
    return rows.select(
        pl.col("capture"),
        pl.col("outcome").cast(pl.String),
        pl.col("rekeyed"),
        pl.col("warm_up"),
        **groups,
        **{f"label {name}": pl.col(name) for name in labels},
        **{f"metric {metric.name}": pl.when(metric.value.abs() <= _MAX_VALUE).then(metric.value) for metric in metrics},
    ).collect()


def _describe_overlaps(tables: ComparisonTables, where: Sequence[RowCondition]) -> list[str]:
    """Sentences about captures whose handshakes count several times."""
    columns = tables.handshakes.collect_schema()
    handshakes = tables.handshakes.filter(match_conditions(where, columns, tables.labels))
    overlaps = [overlap for overlap in find_overlaps(handshakes, tables.captures) if overlap.shared]
    texts = [f"{overlap}: these handshakes count once for each capture" for overlap in overlaps[:_MAX_OVERLAPS]]
    more = len(overlaps) - len(texts)
    return [*texts, f"{more:,} more groups of captures overlap"] if more else texts


def _partition(table: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Value, ...], pl.DataFrame]:
    """The rows of each group, by its values."""
    parts = table.partition_by([f"group {i}" for i in range(len(by))], as_dict=True)
    if len(parts) > _MAX_GROUPS:
        raise CompareError(
            f"{join_values(by)} would make {len(parts):,} groups, more than {_MAX_GROUPS:,}. "
            "Name a column whose values handshakes share",
            "by",
        )
    return sort_groups(parts)


def _find_baseline(wanted: str | None, name: str, values: Sequence[Value]) -> Value:
    """The value of the baseline groups: `wanted`, or that of the first group."""
    if wanted is None:
        return values[0]
    for value in values:
        if matches_value(value, wanted):
            return value
    choices = describe_choices(wanted, map(format_value, dict.fromkeys(values)))
    raise CompareError(f"{name} is never {wanted!r}{choices}", "baseline")


def _count_groups(parts: Mapping[tuple[Value, ...], pl.DataFrame], first: Value) -> Iterator[ComparisonGroup]:
    """The groups; those with `first` in the first column are baselines."""
    indices = {values: i for i, values in enumerate(parts)}
    for values, part in parts.items():
        outcomes = Counter(part["outcome"].to_list())
        yield ComparisonGroup(
            values=values,
            baseline=None if values[0] == first else indices.get((first, *values[1:])),
            captures=part["capture"].n_unique(),
            handshakes=part.height,
            outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES.categories},
        )


def _compare_metric(metric: Metric, parts: Sequence[pl.DataFrame], comparison: Comparison) -> MetricComparison:
    """Compare one metric of all groups; `parts` are the rows of each group with a counted outcome."""
    counted = [part[f"metric {metric.name}"] for part in parts]
    samples = [values.drop_nulls().sort().to_numpy() for values in counted]
    pairs = {
        i: group.baseline
        for i, group in enumerate(comparison.groups)
        if group.baseline is not None and len(samples[i]) and len(samples[group.baseline])
    }
    sample_pairs = [(samples[i], samples[other]) for i, other in pairs.items()]
    tests = statistics.compute_rank_tests(sample_pairs)
    corrected = statistics.correct_p_values([test.p for test in tests])
    ratios = statistics.estimate_ratios(sample_pairs, comparison.confidence, comparison.resamples)
    differences = {
        i: GroupDifference(ratio=ratio, test=test, p_corrected=p, differs=p < 1 - comparison.confidence)
        for i, ratio, test, p in zip(pairs, ratios, tests, corrected, strict=True)
    }
    nonempty = [i for i, sample in enumerate(samples) if len(sample)]
    estimates = statistics.estimate_means([samples[i] for i in nonempty], comparison.confidence, comparison.resamples)
    means = dict(zip(nonempty, estimates, strict=True))
    summaries = []
    for i, group in enumerate(comparison.groups):
        left_out = {outcome: n for outcome, n in group.outcomes.items() if n and outcome not in comparison.outcomes}
        if unknown := counted[i].null_count():
            left_out[NOT_KNOWN] = unknown
        summaries.append(_summarise(samples[i], left_out, means.get(i), differences.get(i), comparison))
    return MetricComparison(metric.name, metric.unit, tuple(summaries))


def _regress_metrics(
    metrics: Sequence[MetricComparison], against: Metric, parts: Sequence[pl.DataFrame], confidence: float
) -> list[MetricComparison]:
    """The metrics with their lines against another one; `parts` as in `_compare_metric`."""

    def select(name: str) -> list[Values]:
        return [part[f"metric {name}"].fill_null(float("nan")).to_numpy() for part in parts]

    against_values = select(against.name)
    check_spread(against.name, np.concatenate(against_values))
    return [
        replace(
            metric, regression=regress(against, list(zip(against_values, select(metric.name), strict=True)), confidence)
        )
        for metric in metrics
    ]


def _summarise(
    sample: Values,
    left_out: Mapping[str, int],
    mean: Estimate | None,
    against: GroupDifference | None,
    comparison: Comparison,
) -> MetricSummary:
    """The summary of a sample; `mean` is None if the sample is empty."""
    if mean is None:
        return MetricSummary(0, left_out, None, None, None, None, None, None, None, None, None, sample)
    median, p95, p99 = (statistics.estimate_quantile(sample, p, comparison.confidence) for p in (0.5, 0.95, 0.99))
    return MetricSummary(
        counted=len(sample),
        left_out=left_out,
        mean=mean,
        median=median,
        p95=p95,
        p99=p99,
        deviation=statistics.compute_standard_deviation(sample),
        sum=float(sample.sum()),
        least=float(sample[0]),
        greatest=float(sample[-1]),
        against=against,
        sample=sample,
    )


def compute_group_values(
    path: str, by: str, metric: str, statistic: str, where: Sequence[RowCondition] = ()
) -> dict[str, float]:
    """A statistic of `metric` by value of the column `by`, as text; groups without a value are left out.

    `statistic` is mean, median, p95 or p99; `path` is that of a dataset; `where` is as in `ComparisonRequest`. Only
    successful handshakes count.

    Raises:
        CompareError: unknown dataset, column or metric.
    """
    request = ComparisonRequest([by], [metric], where=where, resamples=_MIN_RESAMPLES)
    comparison = compare_groups(open_tables(path), request)
    (metric_comparison,) = comparison.metrics
    values = {}
    for group, summary in zip(comparison.groups, metric_comparison.groups, strict=True):
        estimate = getattr(summary, statistic)
        if estimate is not None and group.values[0] is not None:
            values[format_value(group.values[0])] = float(estimate.value)
    return values
