"""The sections of a comparison in text formats: the settings, the groups, and two tables for each metric."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import floor, log10
from typing import Final

from ikeanalyze.dataset.compare.columns import format_value
from ikeanalyze.dataset.compare.result import Comparison, Estimate, LineFit, MetricComparison, MetricRegression
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, min_distinct_width, number_columns
from ikeanalyze.render.core.values import UNKNOWN, escape_text, format_count

_DIGITS: Final = 4
#: Smaller and larger numbers are written with an exponent.
_TINY, _HUGE = 1e-9, 1e15
#: Minimum cells of a label.
_NARROW: Final = 10
#: Name of the row over all groups.
ALL_GROUPS: Final = "all groups"
_DISAGREE: Final = (
    "an interval without 1 next to a no: a few handshakes make the means differ (p compares ranks), or the difference "
    "may be chance, because several groups are compared"
)


def render_sections(comparison: Comparison, *, every: bool) -> Iterator[Section]:
    """The settings, the groups, and for each metric its estimates and its differences from the baseline."""
    yield KeyValueSection(escape_text(comparison.source), _render_facts(comparison), level=1)
    shown = range(len(comparison.groups) if every else min(len(comparison.groups), FEW))
    yield _render_group_table(comparison, shown)
    for metric in comparison.metrics:
        yield _render_metric_table(comparison, metric, shown)
        if any(comparison.groups[i].baseline is not None for i in shown):
            yield _render_difference_table(comparison, metric, shown)
        if any(summary.predicted for summary in metric.groups):
            yield _render_prediction_table(comparison, metric, shown)
        if metric.regression is not None:
            yield _render_regression_table(comparison, metric, metric.regression, shown)


def _render_facts(comparison: Comparison) -> list[tuple[str, str]]:
    first = comparison.by[0]
    facts = [
        ("handshakes", f"{sum(group.handshakes for group in comparison.groups):,}"),
        ("groups by", escape_text(", ".join(comparison.by))),
        ("baseline", escape_text(f"{first}={format_value(comparison.baseline)}")),
        ("metrics count", f"handshakes that are {' or '.join(comparison.outcomes)}"),
        (
            "intervals",
            f"{_format_percent(comparison)}; means and ratios by {_describe_resamples(comparison)} bootstrap resamples, "
            "quantiles by order statistics",
        ),
        ("p", "Mann-Whitney U, two-sided, corrected (Benjamini-Yekutieli) for all groups"),
    ]
    if comparison.where:
        facts.insert(1, ("only", escape_text(", ".join(map(str, comparison.where)))))
    if comparison.rekeyed:
        facts.append(("rekeyed", f"{format_count(comparison.rekeyed, 'IKE SA')} without set-up, in no group"))
    if comparison.warm_up:
        facts.append(("warm-up", f"{format_count(comparison.warm_up, 'handshake')} left out, in no group"))
    if comparison.unread:
        facts.append(("not read", f"{format_count(comparison.unread, 'capture')}: what was in them is in no group"))
    if not comparison.complete:
        facts.append(("unfinished", "the batch has not read all captures"))
    return facts


def _describe_resamples(comparison: Comparison) -> str:
    """The number of resamples; large groups have fewer than requested."""
    taken = {comparison.resamples}
    for metric in comparison.metrics:
        for summary in metric.groups:
            ratio = None if summary.against is None else summary.against.ratio
            for estimate in (summary.mean, ratio):
                if estimate is not None and estimate.resamples is not None:
                    taken.add(estimate.resamples)
    fewest = min(taken)
    if fewest == comparison.resamples:
        return f"{fewest:,}"
    return f"{fewest:,} (the largest groups) to {comparison.resamples:,}"


def _render_group_table(comparison: Comparison, shown: Sequence[int]) -> TableSection:
    groups = comparison.groups
    outcomes = [name for name in groups[0].outcomes if any(group.outcomes[name] for group in groups)]
    columns = (
        *_make_label_columns(comparison, shown),
        *number_columns("captures", optional=1),
        *number_columns("handshakes", *outcomes),
    )
    rows = []
    for i in shown:
        numbers = (groups[i].captures, groups[i].handshakes, *(groups[i].outcomes[name] for name in outcomes))
        rows.append((*_format_label_values(comparison, i), *(f"{number:,}" for number in numbers)))
    return TableSection("Groups", columns, rows, more=len(comparison.groups) - len(shown))


def _render_metric_table(comparison: Comparison, metric: MetricComparison, shown: Sequence[int]) -> TableSection:
    percent = _format_percent(comparison)
    columns = [
        *_make_label_columns(comparison, shown),
        *number_columns("counted", "mean"),
        TableColumn(f"{percent} of it", right=True, optional=1),
        TableColumn("median", right=True),
        TableColumn(f"{percent} of the median", right=True, optional=4),
        TableColumn("p95", right=True, optional=2),
        TableColumn(f"{percent} of p95", right=True, optional=5),
        TableColumn("p99", right=True, optional=3),
        TableColumn(f"{percent} of p99", right=True, optional=5),
        TableColumn("sum", right=True, optional=6),
    ]
    rows = []
    for i in shown:
        summary = metric.groups[i]
        row = [*_format_label_values(comparison, i), f"{summary.counted:,}"]
        for estimate in (summary.mean, summary.median, summary.p95, summary.p99):
            row += [format_significant(estimate.value if estimate else None), format_interval(estimate)]
        rows.append([*row, format_significant(summary.sum)])
    left_out: Counter[str] = Counter()
    for summary in metric.groups:
        left_out.update(summary.left_out)
    notes = [f"left out: {', '.join(f'{n:,} {reason}' for reason, n in left_out.items())}"] if left_out else []
    return TableSection(metric.name, columns, rows, more=len(comparison.groups) - len(shown), notes=notes)


def _render_difference_table(comparison: Comparison, metric: MetricComparison, shown: Sequence[int]) -> TableSection:
    columns = (
        *_make_label_columns(comparison, shown),
        TableColumn("ratio of means", right=True),
        TableColumn(f"{_format_percent(comparison)} of it", right=True, optional=1),
        TableColumn("p", right=True),
        TableColumn("more than noise"),
    )
    rows, notes = [], []
    for i in shown:
        if comparison.groups[i].baseline is None:
            continue
        against = metric.groups[i].against
        cells = (UNKNOWN,) * 4
        if against is not None:
            cells = (
                format_significant(against.ratio.value if against.ratio else None),
                format_interval(against.ratio),
                format_p_value(against.p_corrected),
                "yes" if against.differs else "no",
            )
            if not against.differs and _excludes_one(against.ratio):
                notes = [_DISAGREE]
        rows.append((*_format_label_values(comparison, i), *cells))
    baseline = f"{comparison.by[0]} {format_value(comparison.baseline)}"
    return TableSection(escape_text(f"{metric.name}, against {baseline}"), columns, rows, notes=notes)


def _excludes_one(ratio: Estimate | None) -> bool:
    if ratio is None or ratio.low is None or ratio.high is None:
        return False
    return not ratio.low <= 1 <= ratio.high


def _render_prediction_table(comparison: Comparison, metric: MetricComparison, shown: Sequence[int]) -> TableSection:
    percent = _format_percent(comparison)
    columns = (
        *_make_label_columns(comparison, shown),
        TableColumn("predicted from", narrow=_NARROW, middle=True, optional=3),
        *number_columns("predicted"),
        TableColumn(f"{percent} of such means", right=True, optional=1),
        *number_columns("measured"),
        TableColumn("measured / predicted", right=True),
        TableColumn(f"{percent} of it", right=True, optional=2),
        TableColumn("within"),
    )
    rows = []
    for i in shown:
        summary = metric.groups[i]
        for prediction in summary.predicted:
            ratio, mean = prediction.ratio, prediction.mean
            rows.append(
                (
                    *(*_format_label_values(comparison, i), escape_text(prediction.capture)),
                    *(format_significant(mean.value), format_interval(mean)),
                    format_significant(summary.mean.value if summary.mean else None),
                    *(format_significant(ratio.value if ratio else None), format_interval(ratio)),
                    UNKNOWN if prediction.within is None else "yes" if prediction.within else "no",
                )
            )
    note = f"within: the measured mean is where {percent} of the means of so many predicted handshakes are"
    return TableSection(f"{metric.name}, measured against predicted", columns, rows, notes=[note])


def _render_regression_table(
    comparison: Comparison, metric: MetricComparison, regression: MetricRegression, shown: Sequence[int]
) -> TableSection:
    percent = _format_percent(comparison)
    columns = (
        *_make_label_columns(comparison, shown),
        *number_columns("counted", "slope"),
        TableColumn(f"{percent} of it", right=True, optional=1),
        TableColumn("intercept", right=True),
        TableColumn(f"{percent} of the intercept", right=True, optional=2),
        TableColumn("R²", right=True),
    )
    rows = [(*_format_label_values(comparison, i), *_format_fit(regression.groups[i])) for i in shown]
    if len(comparison.groups) > 1:
        rows.append((ALL_GROUPS, *("",) * (len(comparison.by) - 1), *_format_fit(regression.overall)))
    notes = [f"intercept + slope * {regression.against}, by least squares"]
    if any(fit is None for fit in regression.groups):
        notes.append(f"no line where {regression.against} or {metric.name} has no two values to draw it through")
    title = escape_text(f"{metric.name} as a line over {regression.against}")
    return TableSection(title, columns, rows, more=len(comparison.groups) - len(shown), notes=notes)


def _format_fit(fit: LineFit | None) -> tuple[str, ...]:
    """Number of handshakes, slope, intercept and R² of a line, with the intervals."""
    if fit is None:
        return (UNKNOWN,) * 6
    estimates = [cell for e in (fit.slope, fit.intercept) for cell in (format_significant(e.value), format_interval(e))]
    return f"{fit.counted:,}", *estimates, UNKNOWN if fit.r_squared is None else f"{fit.r_squared:.4f}"


def _make_label_columns(comparison: Comparison, shown: Sequence[int]) -> list[TableColumn]:
    """The columns that identify the group of a row. Values that differ still differ when they are cut."""
    values = zip(*(_format_label_values(comparison, i) for i in shown), strict=True)
    return [
        TableColumn(escape_text(name), narrow=min_distinct_width(texts, _NARROW), middle=True)
        for name, texts in zip(comparison.by, values, strict=True)
    ]


def _format_label_values(comparison: Comparison, group: int) -> list[str]:
    return [escape_text(format_value(value)) for value in comparison.groups[group].values]


def _format_percent(comparison: Comparison) -> str:
    return f"{100 * comparison.confidence:g} %"


def format_significant(value: float | None) -> str:
    """Return a number with four significant digits; all digits before the point are kept below 1e15."""
    if value is None:
        return UNKNOWN
    if value and not _TINY <= abs(value) < _HUGE:
        return f"{value:.{_DIGITS - 1}e}"
    places = 0 if value == int(value) else _DIGITS - 1 - floor(log10(abs(value)))
    return f"{value:,.{max(places, 0)}f}"


def format_interval(estimate: Estimate | None) -> str:
    """Return both bounds; a bound that cannot be estimated is a question mark."""
    if estimate is None or estimate.method is None:
        return UNKNOWN
    low, high = ("?" if bound is None else format_significant(bound) for bound in (estimate.low, estimate.high))
    return f"{low} to {high}"


def format_p_value(p: float) -> str:
    """Return a p-value with two significant digits, or `< 0.0001`."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"
