"""Computes one value per group of a dataset, such as for a ranking."""

from collections.abc import Sequence
from typing import Final

from ikeanalyze.dataset.compare import compare_groups
from ikeanalyze.dataset.compare_columns import RowCondition, format_value
from ikeanalyze.dataset.compare_source import open_tables

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
