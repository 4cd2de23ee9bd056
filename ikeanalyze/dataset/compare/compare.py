"""Compares groups of handshakes: summarises each metric per group and tests the difference from a baseline.

    handshakes of a dataset ──by labels──▶ groups ──of each metric──▶ samples ──statistics──▶ Comparison

The sample of a metric has the handshakes that succeeded (or those with the given outcomes). The number of other handshakes is
reported too, because the mean of the successful handshakes improves as more handshakes fail.

Computes one value per group of a dataset, such as for a ranking.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from ikeanalyze.analysis.handshakes.handshakes import REKEYED
from ikeanalyze.analysis.schema import OUTCOMES
from ikeanalyze.dataset.compare import statistics
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
from ikeanalyze.dataset.compare.errors import CompareError
from ikeanalyze.dataset.compare.metrics import Metric, aggregate_exchanges, select_metrics
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

#: Metrics that are compared if none is named.
USUAL: Final = ("setup_ms", "bytes", "retransmissions")
#: Outcomes of the handshakes that a metric counts, unless others are named.
SUCCESS: Final = ("established", "completed")
#: Why a metric leaves out a handshake whose outcome it counts.
NOT_KNOWN: Final = "not known"

_MOST_GROUPS: Final = 1_000
#: What labels may have beyond that (a float ends at 1.8e308) has no mean and no variance: it is not known.
_LARGEST: Final = 1e100


def compare_groups(
    tables: ComparisonTables,
    by: Sequence[str],
    *,
    metrics: Sequence[str] = USUAL,
    baseline: str | None = None,
    where: Sequence[RowCondition] = (),
    outcomes: Sequence[str] = SUCCESS,
    confidence: float = 0.95,
    resamples: int = statistics.RESAMPLES,
) -> Comparison:
    """Compare groups of handshakes.

    Args:
        tables: of a dataset, see `compare_source.tables`.
        by: columns whose values make a group: labels, or others of the handshakes table.
        metrics: their names.
        baseline: value of the first column of `by`; a group is compared with the one that has it and agrees in
            all other columns. None: the first one in order.
        where: conditions that handshakes must meet, any of those on the same column.
        outcomes: of the handshakes that a metric counts.
        confidence: of the intervals, 0 to 1; 1 - confidence is the level of the test.
        resamples: of a bootstrap.

    Raises:
        CompareError: there is no such column, metric, outcome or baseline, or nothing to compare.
    """
    for outcome in outcomes:
        if outcome not in OUTCOMES.categories:
            raise CompareError(
                f"there is no outcome {outcome!r}; there are {join_values(OUTCOMES.categories)}", "outcome"
            )
    names = list(dict.fromkeys(by))
    try:
        chosen = select_metrics(tables.handshakes, list(dict.fromkeys(metrics)))
        table = _table(tables, names, chosen, where)
    except UNREADABLE as error:
        raise find_unreadable_file(tables.path, error) from None
    set_up = table.filter(~pl.col("rekeyed"))
    if set_up.is_empty():
        why = " that meets the conditions" if where else ""
        raise CompareError(f"{tables.path}: there is no handshake in it{why}", "where" if where else None)
    parts = _parts(set_up, names)
    first = _baseline(baseline, names[0], [values[0] for values in parts])
    asked = Comparison(
        source=tables.path,
        by=tuple(names),
        baseline=first,
        where=tuple(where),
        outcomes=tuple(outcomes),
        confidence=confidence,
        resamples=resamples,
        groups=tuple(_groups(parts, first)),
        metrics=(),
        unread=tables.unread,
        complete=tables.complete,
        rekeyed=table.height - set_up.height,
    )
    counted = [part.filter(pl.col("outcome").is_in(outcomes)) for part in parts.values()]
    return replace(asked, metrics=tuple(_compared(metric, counted, asked) for metric in chosen))


def _table(
    tables: ComparisonTables, by: Sequence[str], metrics: Sequence[Metric], where: Sequence[RowCondition]
) -> pl.DataFrame:
    """A row per handshake: its capture and outcome, `group N` for each column of `by`, `metric NAME` for each metric."""
    columns = tables.handshakes.collect_schema()
    groups = {f"group {i}": get_group_column(name, columns, tables.labels, "by") for i, name in enumerate(by)}
    rows = tables.handshakes.filter(match_conditions(where, columns, tables.labels))
    if any(metric.from_exchanges for metric in metrics):
        rows = rows.join(aggregate_exchanges(tables.exchanges), on=["capture", "handshake"], how="left")
    return rows.select(
        pl.col("capture"),
        pl.col("outcome").cast(pl.String),
        (pl.col("reason") == REKEYED).fill_null(False).alias("rekeyed"),
        **groups,
        **{f"metric {metric.name}": pl.when(metric.value.abs() <= _LARGEST).then(metric.value) for metric in metrics},
    ).collect()


def _parts(table: pl.DataFrame, by: Sequence[str]) -> dict[tuple[Value, ...], pl.DataFrame]:
    """The rows of each group, by its values."""
    parts = table.partition_by([f"group {i}" for i in range(len(by))], as_dict=True)
    if len(parts) > _MOST_GROUPS:
        raise CompareError(
            f"{join_values(by)} would make {len(parts):,} groups, more than {_MOST_GROUPS:,}. "
            "Name a column whose values handshakes share",
            "by",
        )
    return sort_groups(parts)


def _baseline(given: str | None, name: str, values: Sequence[Value]) -> Value:
    """The value that makes a group a baseline: that of the first group unless one was given."""
    if given is None:
        return values[0]
    for value in values:
        if matches_value(value, given):
            return value
    raise CompareError(f"{name} is never {given!r}; it is {join_values(dict.fromkeys(values))}", "baseline")


def _groups(parts: Mapping[tuple[Value, ...], pl.DataFrame], first: Value) -> Iterator[ComparisonGroup]:
    """The groups, of which those with `first` in the first column are baselines."""
    places = {values: i for i, values in enumerate(parts)}
    for values, part in parts.items():
        outcomes = Counter(part["outcome"].to_list())
        yield ComparisonGroup(
            values=values,
            baseline=None if values[0] == first else places.get((first, *values[1:])),
            captures=part["capture"].n_unique(),
            handshakes=part.height,
            outcomes={outcome: outcomes[outcome] for outcome in OUTCOMES.categories},
        )


def _compared(metric: Metric, parts: Sequence[pl.DataFrame], asked: Comparison) -> MetricComparison:
    """One metric of all groups, of which `parts` has what counts; `asked` says how, and what is compared with what."""
    counted = [part[f"metric {metric.name}"] for part in parts]
    samples = [values.drop_nulls().sort().to_numpy() for values in counted]
    pairs = {
        i: group.baseline
        for i, group in enumerate(asked.groups)
        if group.baseline is not None and len(samples[i]) and len(samples[group.baseline])
    }
    beside = [(samples[i], samples[other]) for i, other in pairs.items()]
    tests = statistics.compute_rank_tests(beside)
    corrected = statistics.correct_p_values([test.p for test in tests])
    ratios = statistics.estimate_ratios(beside, asked.confidence, asked.resamples)
    differences = {
        i: GroupDifference(ratio=ratio, test=test, p_corrected=p, differs=p < 1 - asked.confidence)
        for i, ratio, test, p in zip(pairs, ratios, tests, corrected, strict=True)
    }
    some = [i for i, sample in enumerate(samples) if len(sample)]
    estimates = statistics.estimate_means([samples[i] for i in some], asked.confidence, asked.resamples)
    means = dict(zip(some, estimates, strict=True))
    measured = []
    for i, group in enumerate(asked.groups):
        left_out = {outcome: n for outcome, n in group.outcomes.items() if n and outcome not in asked.outcomes}
        if unknown := counted[i].null_count():
            left_out[NOT_KNOWN] = unknown
        measured.append(_measured(samples[i], left_out, means.get(i), differences.get(i), asked))
    return MetricComparison(metric.name, metric.unit, tuple(measured))


def _measured(
    sample: Values,
    left_out: Mapping[str, int],
    mean: Estimate | None,
    against: GroupDifference | None,
    asked: Comparison,
) -> MetricSummary:
    """`mean` of the sample is None where there is no sample."""
    if mean is None:
        return MetricSummary(0, left_out, None, None, None, None, None, None, None, None, sample)
    median, p95, p99 = (statistics.estimate_quantile(sample, p, asked.confidence) for p in (0.5, 0.95, 0.99))
    return MetricSummary(
        counted=len(sample),
        left_out=left_out,
        mean=mean,
        median=median,
        p95=p95,
        p99=p99,
        deviation=statistics.compute_standard_deviation(sample),
        least=float(sample[0]),
        greatest=float(sample[-1]),
        against=against,
        sample=sample,
    )


pass

#: No interval is wanted, so few resamples do.
_RESAMPLES: Final = 100


def compute_group_values(
    path: str, by: str, metric: str, statistic: str, where: Sequence[RowCondition] = ()
) -> dict[str, float]:
    """A statistic of `metric` for each value of the column `by`, as text; groups without a value are left out.

    `statistic` is mean, median, p95 or p99; `path` and `where` are as in `compare_groups`; handshakes that did not succeed do not count.

    Raises:
        CompareError: there is no such dataset, column or metric.
    """
    comparison = compare_groups(open_tables(path), [by], metrics=[metric], where=where, resamples=_RESAMPLES)
    (measured,) = comparison.metrics
    values = {}
    for group, summary in zip(comparison.groups, measured.groups, strict=True):
        estimate = getattr(summary, statistic)
        if estimate is not None and group.values[0] is not None:
            values[format_value(group.values[0])] = float(estimate.value)
    return values
