"""Fits straight lines by least squares: a metric against another quantity of the same handshakes.

scipy fits the line and gives the standard errors; the intervals of slope and intercept and the confidence band of the
mean use Student's t with n - 2 degrees of freedom (Draper and Smith 1998, 1.4 and 3.1). They hold for independent
handshakes whose deviations from the line have the same variance everywhere.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from scipy import stats

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.metrics import Metric
from ikeanalyze.dataset.compare.result import BandPoint, Estimate, LineFit, MetricRegression, Values

#: Values of both quantities, x and y, of the same handshakes; NaN: unknown.
Pairs = tuple[Values, Values]

_METHOD: Final = "Student's t"


def check_spread(name: str, values: Values) -> None:
    """Check that a line against these values of all counted handshakes (NaN: unknown) can be fitted.

    Raises:
        CompareError: fewer than two different values.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        raise CompareError(f"{name} is not known for any counted handshake", "against")
    if known.min() == known.max():
        raise CompareError(
            f"{name} is {known[0]:.12g} in all {len(known):,} counted handshakes; a line needs different values",
            "against",
        )


def regress(against: Metric, groups: Sequence[Pairs], confidence: float) -> MetricRegression:
    """Fit a line to the pairs of each group, and one to those of all groups."""
    samples = tuple(map(_select_known, groups))
    x, y = (np.concatenate(values) for values in zip(*samples, strict=True))
    return MetricRegression(
        against=against.name,
        unit=against.unit,
        overall=fit_line(x, y, confidence),
        groups=tuple(fit_line(*sample, confidence) for sample in samples),
        samples=samples,
    )


def _select_known(pairs: Pairs) -> Pairs:
    x, y = pairs
    known = ~(np.isnan(x) | np.isnan(y))
    return x[known], y[known]


def fit_line(x: Values, y: Values, confidence: float) -> LineFit | None:
    """The line of least squares through points; None: fewer than two different x."""
    if not len(x) or x.min() == x.max():
        return None
    # exact powers of two: the squares of labels up to 1e100 and their products would overflow
    x_unit, y_unit = (float(2.0 ** np.frexp(np.abs(values).max())[1]) for values in (x, y))
    scaled = x / x_unit
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        line: Any = stats.linregress(scaled, y / y_unit)
    constant = y.min() == y.max()  # linregress gives NaN for its errors, which are 0
    squares = float(((scaled - scaled.mean()) ** 2).sum())
    slope_error, intercept_error = (0.0, 0.0) if constant else (line.stderr, line.intercept_stderr)
    t = float(stats.t.ppf((1 + confidence) / 2, len(x) - 2)) if len(x) > 2 else None
    return LineFit(
        counted=len(x),
        slope=_estimate(line.slope, slope_error, t, y_unit / x_unit),
        intercept=_estimate(line.intercept, intercept_error, t, y_unit),
        r_squared=None if constant else float(line.rvalue**2),
        deviation=None if t is None else float(slope_error * squares**0.5 * y_unit),
        t=t,
        x_mean=float(scaled.mean()) * x_unit,
        x_deviation=float(scaled.std(ddof=1)) * x_unit,
        x_least=float(x.min()),
        x_greatest=float(x.max()),
    )


def estimate_r_squared(x: Values, y: Values, confidence: float) -> Estimate:
    """The coefficient of determination of the line through points, with the interval of the correlation (Fisher's z).

    x has at least two different values. Without bounds for fewer than four points; 0 if all y are equal.
    """
    if y.min() == y.max():
        return Estimate(0.0)
    correlation = stats.pearsonr(x, y)
    value = float(correlation.statistic**2)
    if len(x) < 4:  # the standard error is 1 / sqrt(n - 3)
        return Estimate(value)
    ends = correlation.confidence_interval(confidence)
    low, high = sorted((float(ends.low**2), float(ends.high**2)))
    return Estimate(value, 0.0 if ends.low < 0 < ends.high else low, high, "Fisher's z")


def _estimate(value: float, error: float, t: float | None, unit: float) -> Estimate:
    if t is None:
        return Estimate(float(value * unit))
    return Estimate(float(value * unit), float((value - t * error) * unit), float((value + t * error) * unit), _METHOD)


def compute_band(fit: LineFit, xs: Sequence[float]) -> list[BandPoint]:
    """The line at `xs` with the confidence interval of the mean there; without bounds for a line through two points."""
    points = []
    for x in xs:
        mean = fit.intercept.value + fit.slope.value * x
        if fit.t is None or fit.deviation is None:
            points.append(BandPoint(x, mean, None, None))
            continue
        distance = (x - fit.x_mean) / fit.x_deviation
        half = fit.t * fit.deviation * (1 / fit.counted + distance**2 / (fit.counted - 1)) ** 0.5
        points.append(BandPoint(x, mean, mean - half, mean + half))
    return points
