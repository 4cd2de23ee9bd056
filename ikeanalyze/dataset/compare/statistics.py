"""Summarises samples of a metric and tests the difference between samples.

scipy does the computation; this module selects the method. A value that cannot be estimated from the data is None,
never NaN.

* Mean and ratio of two means: bias-corrected and accelerated bootstrap (BCa; Efron 1987). Above `MAX_BCA_SAMPLE` values
  the percentile bootstrap, because the cost of BCa's jackknife is quadratic in the sample size, and its correction
  shrinks.
* Quantiles: the order statistics that bracket them with the wanted probability (Conover 1999, 3.2), exact for every
  distribution. A bootstrap is unsuitable: BCa's jackknife is not consistent for a quantile, and resamples of 50 values
  never exceed the largest of them, even if the 99th percentile does.
* Difference: two-sided Mann-Whitney U test. Set-up times over lossy links increase in steps of retransmission timers,
  so their means are not normally distributed, and a single handshake of eight seconds must not decide.
* Several comparisons: the correction of Benjamini and Yekutieli (2001), which does not require independence: groups
  share their baseline.

Samples are sorted in ascending order. A call of scipy costs more than the computation for a group of twenty values, so
samples of equal sizes are passed together, as rows of one array; each row gets the same result as alone.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from scipy import stats

from ikeanalyze.dataset.compare.result import Estimate, RankTest, Values

#: Size of the largest sample for which BCa is used.
MAX_BCA_SAMPLE: Final = 5_000
#: Default number of resamples.
RESAMPLES: Final = 2_000

#: A sample and its baseline.
Pair = tuple[Values, Values]

_SEED: Final = 1
_BATCH: Final = 1_000_000  # resampled values in memory; fastest if they fit into the cache
_MAX_DRAWN: Final = 50_000_000  # values drawn for one interval; larger samples get fewer resamples
_MIN_RESAMPLES: Final = 500
#: Up to these sizes of the smaller and of both samples, the distribution of U is computed; above, it is nearly normal.
_SMALL: Final = 8
_SMALL_TOGETHER: Final = 1_000


def estimate_means(samples: Sequence[Values], confidence: float, resamples: int = RESAMPLES) -> list[Estimate]:
    """The mean of each sample of at least one value, with its bootstrap interval."""
    return _bootstrap(_compute_mean, [(sample,) for sample in samples], confidence, resamples)


def estimate_ratios(pairs: Sequence[Pair], confidence: float, resamples: int = RESAMPLES) -> list[Estimate | None]:
    """Mean of each sample / mean of its baseline, with its bootstrap interval; None: the ratio is not finite."""
    with _ignore_warnings():
        finite = [i for i, pair in enumerate(pairs) if np.isfinite(_compute_ratio(*pair, axis=-1))]
    estimates = dict(
        zip(finite, _bootstrap(_compute_ratio, [pairs[i] for i in finite], confidence, resamples), strict=True)
    )
    return [estimates.get(i) for i in range(len(pairs))]


def estimate_quantile(sample: Values, p: float, confidence: float) -> Estimate:
    """The `p` quantile of at least one value, interpolated linearly (type 7 of Hyndman and Fan 1996)."""
    value = float(np.quantile(sample, p))
    if sample[0] == sample[-1]:
        return Estimate(value)
    first, last = _find_ranks(len(sample), p, confidence)
    low, high = (None if rank is None else float(sample[rank]) for rank in (first, last))
    return Estimate(value, low, high, None if low is None and high is None else "order statistics")


@lru_cache(maxsize=1_024)
def _find_ranks(size: int, p: float, confidence: float) -> tuple[int | None, int | None]:
    """Indices of the order statistics that bracket the `p` quantile; None: the sample is too small."""
    with _ignore_warnings():
        places = np.arange(size, dtype=np.float64)
        interval: Any = stats.quantile_test(places, q=0, p=p).confidence_interval(confidence)
    low, high = _get_finite(interval.low), _get_finite(interval.high)
    return None if low is None else int(low), None if high is None else int(high)


def compute_standard_deviation(sample: Values) -> float | None:
    """The standard deviation (n - 1); None: only one value."""
    return float(sample.std(ddof=1)) if len(sample) > 1 else None


def compute_rank_tests(pairs: Sequence[Pair]) -> list[RankTest]:
    """Compare each sample with its baseline, of at least one value each."""
    tests: dict[int, RankTest] = {}
    by_method: dict[str, list[int]] = {}
    for i, (sample, baseline) in enumerate(pairs):
        fewest, together = min(len(sample), len(baseline)), len(sample) + len(baseline)
        if fewest == 1:
            tests[i] = _test_single_value(sample, baseline)
            continue
        method = "asymptotic"
        if fewest <= _SMALL and together <= _SMALL_TOGETHER:
            # the exact distribution requires distinct values
            some_equal = len(np.unique(np.concatenate((sample, baseline)))) < together
            method = "permutation" if some_equal else "exact"
        by_method.setdefault(method, []).append(i)
    for method, places in by_method.items():
        for rows in _group_by_size([pairs[i] for i in places], _BATCH // 10):
            indices = [places[row] for row in rows]
            tests.update(zip(indices, _test_pairs([pairs[i] for i in indices], method), strict=True))
    return [tests[i] for i in range(len(pairs))]


def _test_pairs(pairs: Sequence[Pair], name: str) -> list[RankTest]:
    """Test pairs of samples of the same two sizes, at least two values each."""
    method: Any = name
    if name == "permutation":
        together = sum(len(sample) for pair in pairs for sample in pair)
        method = stats.PermutationMethod(batch=max(1, _BATCH // together), rng=_make_generator())
    samples, baselines = _stack(pairs)
    result: Any = stats.mannwhitneyu(samples, baselines, alternative="two-sided", method=method, axis=-1)
    # some versions of scipy return NaN for samples without any variance, which do not differ
    are_equal = np.ptp(np.concatenate((samples, baselines), axis=-1), axis=-1) == 0
    statistics, values = np.atleast_1d(result.statistic), np.atleast_1d(np.where(are_equal, 1.0, result.pvalue))
    return [RankTest(float(u), float(p), name) for u, p in zip(statistics, values, strict=True)]


def _test_single_value(sample: Values, baseline: Values) -> RankTest:
    """Test a single value against a sample, exactly: under the null hypothesis, it is any of all values.

    The distribution of its rank is uniform, so never nearly normal, and the exact method of scipy does not support
    ties.
    """
    single, others = (sample, baseline) if len(sample) == 1 else (baseline, sample)
    ranks = stats.rankdata(np.concatenate((single, others)))
    below = float(ranks[0]) - 1  # number of smaller values, and half of the equal ones
    u = below if single is sample else len(others) - below
    p = 2 * min((ranks <= ranks[0]).mean(), (ranks >= ranks[0]).mean())
    return RankTest(u, min(float(p), 1.0), "exact")


def correct_p_values(probabilities: Sequence[float]) -> list[float]:
    """Correct p-values for multiple comparisons (Benjamini and Yekutieli)."""
    if not probabilities:
        return []
    return [float(p) for p in stats.false_discovery_control(probabilities, method="by")]


def _compute_mean(sample: Values, axis: int) -> Any:
    # contiguous: rounding of a sum depends on the memory layout
    return np.ascontiguousarray(sample).mean(axis=axis)


def _compute_ratio(sample: Values, baseline: Values, axis: int) -> Any:
    return _compute_mean(sample, axis) / _compute_mean(baseline, axis)


def _bootstrap(
    statistic: Callable[..., Any], tuples: Sequence[tuple[Values, ...]], confidence: float, resamples: int
) -> list[Estimate]:
    """Bootstrap an estimate for each tuple of samples; `statistic` takes the samples as arguments."""
    estimates = [Estimate(float(statistic(*samples, axis=-1))) for samples in tuples]
    varied = [
        i
        for i, samples in enumerate(tuples)
        if min(map(len, samples)) > 1 and any(sample[0] < sample[-1] for sample in samples)
    ]
    for rows in _group_by_size([tuples[i] for i in varied], _BATCH // resamples):
        places = [varied[row] for row in rows]
        sizes = [len(sample) for sample in tuples[places[0]]]
        method: Literal["BCa", "percentile"] = "BCa" if max(sizes) <= MAX_BCA_SAMPLE else "percentile"
        taken = min(resamples, max(_MIN_RESAMPLES, _MAX_DRAWN // sum(sizes)))
        with _ignore_warnings():
            bounds = stats.bootstrap(
                _stack([tuples[i] for i in places]),
                statistic,
                n_resamples=taken,
                batch=max(1, _BATCH // sum(sizes)),
                vectorized=True,
                confidence_level=confidence,
                method=method,
                axis=-1,
                rng=_make_generator(),
            ).confidence_interval
        for i, *bounds_ in zip(places, np.atleast_1d(bounds.low), np.atleast_1d(bounds.high), strict=True):
            low, high = map(_get_finite, bounds_)
            if low is not None or high is not None:
                estimates[i] = Estimate(estimates[i].value, low, high, f"{method} bootstrap", taken)
    return estimates


def _group_by_size(tuples: Sequence[tuple[Values, ...]], most: int) -> Iterator[list[int]]:
    """Indices of tuples whose samples have the same sizes, with at most `most` values, or one tuple."""
    by_size: dict[tuple[int, ...], list[int]] = {}
    for i, samples in enumerate(tuples):
        by_size.setdefault(tuple(map(len, samples)), []).append(i)
    for sizes, places in by_size.items():
        step = max(1, most // sum(sizes))
        for first in range(0, len(places), step):
            yield places[first : first + step]


def _stack(tuples: Sequence[tuple[Values, ...]]) -> tuple[Values, ...]:
    """Stack the first samples of all tuples as rows of an array, likewise the second ones; one tuple stays as it is."""
    return tuples[0] if len(tuples) == 1 else tuple(np.stack(samples) for samples in zip(*tuples, strict=True))


def _make_generator() -> np.random.Generator:
    """A new generator with the same seed for each interval, so that intervals do not depend on each other."""
    return np.random.default_rng(_SEED)


def _get_finite(bound: Any) -> float | None:
    return float(bound) if np.isfinite(bound) else None


@contextmanager
def _ignore_warnings() -> Iterator[None]:
    """Suppress warnings about undefined results; they become None."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
