"""What a sample of a metric is like, and whether it differs from another one by more than noise.

All of it is scipy's; here stands which method is taken when, and that a number which the data do not bear is
None and never NaN:

* The mean and the ratio of two means: bootstrap, bias-corrected and accelerated (BCa; Efron 1987). Above
  `LARGEST_BCA` values the plain percentiles of the bootstrap, since the jackknife that BCa needs grows with the
  square of the sample while what it corrects shrinks with its size.
* Quantiles: the order statistics that bracket them with the wanted probability (Conover 1999, 3.2), exact for
  every distribution. The bootstrap does not fit there: BCa's jackknife is not consistent for a quantile, and
  resampling 50 values never yields more than their largest, however far the 99th percentile may lie above it.
* The difference: Mann-Whitney U, two-sided. Set-up times over lossy links jump by whole retransmission timers,
  so their means have no normal distribution, and one handshake of eight seconds must not decide.
* Several comparisons: the correction of Benjamini and Yekutieli (2001), which needs no independence: groups share their
  baseline.

A sample is sorted in ascending order. What scipy takes to begin costs more than the numbers of a group of twenty, so samples of
one size are handed to it together, as rows of one array; each row gets the numbers that it would get alone.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
from scipy import stats

from ikeanalyze.dataset.compare.result import Estimate, RankTest, Values

#: Greatest sample that BCa is made for.
LARGEST_BCA: Final = 5_000
#: Resamples unless other numbers are asked for.
RESAMPLES: Final = 2_000

#: A sample and its baseline.
Pair = tuple[Values, Values]

_SEED: Final = 1
_AT_ONCE: Final = 1_000_000  # resampled values in memory: what a cache still holds is fastest
_MOST_DRAWN: Final = 50_000_000  # values that are drawn for one interval; then there are fewer resamples
_FEWEST_RESAMPLES: Final = 500
#: Up to here the distribution of U is computed, beyond it is normal to all that can be seen.
_SMALL: Final = 8
_SMALL_TOGETHER: Final = 1_000


def estimate_mean(sample: Values, confidence: float, resamples: int = RESAMPLES) -> Estimate:
    """The mean of at least one value, with its bootstrap interval."""
    return estimate_means([sample], confidence, resamples)[0]


def estimate_means(samples: Sequence[Values], confidence: float, resamples: int = RESAMPLES) -> list[Estimate]:
    """The `estimate_mean` of each sample."""
    return _bootstrapped(_mean, [(sample,) for sample in samples], confidence, resamples)


def estimate_ratio(sample: Values, baseline: Values, confidence: float, resamples: int = RESAMPLES) -> Estimate | None:
    """Mean of `sample` / mean of `baseline`, with its bootstrap interval; None: the baseline's mean is 0.

    Or so small that the ratio is no number.
    """
    return estimate_ratios([(sample, baseline)], confidence, resamples)[0]


def estimate_ratios(pairs: Sequence[Pair], confidence: float, resamples: int = RESAMPLES) -> list[Estimate | None]:
    """The `estimate_ratio` of each sample and its baseline."""
    estimates_: list[Estimate | None] = [None] * len(pairs)
    with _quiet():
        some = [i for i, pair in enumerate(pairs) if np.isfinite(_ratio(*pair, axis=-1))]
    estimates = _bootstrapped(_ratio, [pairs[i] for i in some], confidence, resamples)
    for i, estimate in zip(some, estimates, strict=True):
        estimates_[i] = estimate
    return estimates_


def estimate_quantile(sample: Values, p: float, confidence: float) -> Estimate:
    """The `p` quantile of at least one value, between order statistics linearly (type 7 of Hyndman and Fan 1996)."""
    value = float(np.quantile(sample, p))
    if sample[0] == sample[-1]:
        return Estimate(value)
    first, last = _ranks(len(sample), p, confidence)
    low, high = (None if rank is None else float(sample[rank]) for rank in (first, last))
    return Estimate(value, low, high, None if low is None and high is None else "order statistics")


@lru_cache(maxsize=1_024)
def _ranks(size: int, p: float, confidence: float) -> tuple[int | None, int | None]:
    """Places of the order statistics that bracket the `p` quantile, from 0; None: a sample of this size has none."""
    with _quiet():
        places = np.arange(size, dtype=np.float64)
        interval: Any = stats.quantile_test(places, q=0, p=p).confidence_interval(confidence)
    low, high = _known(interval.low), _known(interval.high)
    return None if low is None else int(low), None if high is None else int(high)


def compute_standard_deviation(sample: Values) -> float | None:
    """The standard deviation (n - 1); None: of one value there is none."""
    return float(sample.std(ddof=1)) if len(sample) > 1 else None


def compute_rank_test(sample: Values, baseline: Values) -> RankTest:
    """Compare two samples of at least one value each."""
    return compute_rank_tests([(sample, baseline)])[0]


def compute_rank_tests(pairs: Sequence[Pair]) -> list[RankTest]:
    """`compute_rank_test` for each sample and its baseline."""
    tests: dict[int, RankTest] = {}
    alike: dict[str, list[int]] = {}
    for i, (sample, baseline) in enumerate(pairs):
        fewest, together = min(len(sample), len(baseline)), len(sample) + len(baseline)
        if fewest == 1:
            tests[i] = _one(sample, baseline)
            continue
        method = "asymptotic"
        if fewest <= _SMALL and together <= _SMALL_TOGETHER:
            # where some are equal, the exact distribution is another one
            some_equal = len(np.unique(np.concatenate((sample, baseline)))) < together
            method = "permutation" if some_equal else "exact"
        alike.setdefault(method, []).append(i)
    for method, places in alike.items():
        for rows in _of_one_size([pairs[i] for i in places], _AT_ONCE // 10):
            some = [places[row] for row in rows]
            tests.update(zip(some, _tested([pairs[i] for i in some], method), strict=True))
    return [tests[i] for i in range(len(pairs))]


def _tested(pairs: Sequence[Pair], name: str) -> list[RankTest]:
    """Pairs of samples of the same two sizes, at least two values each."""
    method: Any = name
    if name == "permutation":
        together = sum(len(sample) for pair in pairs for sample in pair)
        method = stats.PermutationMethod(batch=max(1, _AT_ONCE // together), rng=_generator())
    samples, baselines = _rows(pairs)
    result: Any = stats.mannwhitneyu(samples, baselines, alternative="two-sided", method=method, axis=-1)
    statistics, values = np.atleast_1d(result.statistic), np.atleast_1d(result.pvalue)
    return [RankTest(float(u), float(p), name) for u, p in zip(statistics, values, strict=True)]


def _one(sample: Values, baseline: Values) -> RankTest:
    """One value against others, exactly: each of all the values might have been the one.

    The distribution of its rank is flat, so far from normal however many there are, and scipy's exact one knows no ties.
    """
    alone, others = (sample, baseline) if len(sample) == 1 else (baseline, sample)
    ranks = stats.rankdata(np.concatenate((alone, others)))
    below = float(ranks[0]) - 1  # of the others, and half of those that are equal
    u = below if alone is sample else len(others) - below
    p = 2 * min((ranks <= ranks[0]).mean(), (ranks >= ranks[0]).mean())
    return RankTest(u, min(float(p), 1.0), "exact")


def correct_p_values(probabilities: Sequence[float]) -> list[float]:
    """Each of several p-values as it counts when all of them are looked at."""
    if not probabilities:
        return []
    return [float(p) for p in stats.false_discovery_control(probabilities, method="by")]


def _mean(sample: Values, axis: int) -> Any:
    # in one piece: what a sum is rounded to depends on where its numbers lie
    return np.ascontiguousarray(sample).mean(axis=axis)


def _ratio(sample: Values, baseline: Values, axis: int) -> Any:
    return _mean(sample, axis) / _mean(baseline, axis)


def _bootstrapped(
    statistic: Callable[..., Any], tuples: Sequence[tuple[Values, ...]], confidence: float, resamples: int
) -> list[Estimate]:
    """An estimate for each tuple of samples that `statistic` takes."""
    estimates = [Estimate(float(statistic(*samples, axis=-1))) for samples in tuples]
    varied = [
        i
        for i, samples in enumerate(tuples)
        if min(map(len, samples)) > 1 and any(sample[0] < sample[-1] for sample in samples)
    ]
    for rows in _of_one_size([tuples[i] for i in varied], _AT_ONCE // resamples):
        places = [varied[row] for row in rows]
        sizes = [len(sample) for sample in tuples[places[0]]]
        method: Literal["BCa", "percentile"] = "BCa" if max(sizes) <= LARGEST_BCA else "percentile"
        taken = min(resamples, max(_FEWEST_RESAMPLES, _MOST_DRAWN // sum(sizes)))
        with _quiet():
            bounds = stats.bootstrap(
                _rows([tuples[i] for i in places]),
                statistic,
                n_resamples=taken,
                batch=max(1, _AT_ONCE // sum(sizes)),
                vectorized=True,
                confidence_level=confidence,
                method=method,
                axis=-1,
                rng=_generator(),
            ).confidence_interval
        for i, *both in zip(places, np.atleast_1d(bounds.low), np.atleast_1d(bounds.high), strict=True):
            low, high = map(_known, both)
            if low is not None or high is not None:
                estimates[i] = Estimate(estimates[i].value, low, high, f"{method} bootstrap", taken)
    return estimates


def _of_one_size(tuples: Sequence[tuple[Values, ...]], most: int) -> Iterator[list[int]]:
    """Places of tuples whose samples have the same sizes, together at most so many values, or one tuple."""
    alike: dict[tuple[int, ...], list[int]] = {}
    for i, samples in enumerate(tuples):
        alike.setdefault(tuple(map(len, samples)), []).append(i)
    for sizes, places in alike.items():
        step = max(1, most // sum(sizes))
        for first in range(0, len(places), step):
            yield places[first : first + step]


def _rows(tuples: Sequence[tuple[Values, ...]]) -> tuple[Values, ...]:
    """The first samples of all tuples as rows of an array, the second ones likewise; of one tuple, its samples."""
    return tuples[0] if len(tuples) == 1 else tuple(np.stack(some) for some in zip(*tuples, strict=True))


def _generator() -> np.random.Generator:
    """The same numbers for each interval, so that one does not depend on which others are asked for."""
    return np.random.default_rng(_SEED)


def _known(bound: Any) -> float | None:
    return float(bound) if np.isfinite(bound) else None


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings of what has no bound: it becomes None."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
