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

A sample is sorted in ascending order.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal

import numpy as np
from scipy import stats

from ikeanalyze.dataset.comparison import Estimate, RankTest, Values

#: Greatest sample that BCa is made for.
LARGEST_BCA: Final = 5_000
#: Resamples unless other numbers are asked for.
RESAMPLES: Final = 2_000

_SEED: Final = 1
_AT_ONCE: Final = 1_000_000  # resampled values in memory: what a cache still holds is fastest
_MOST_DRAWN: Final = 50_000_000  # values that are drawn for one interval; then there are fewer resamples
_FEWEST_RESAMPLES: Final = 500
#: Up to here the distribution of U is computed, beyond it is normal to all that can be seen.
_SMALL: Final = 8
_SMALL_TOGETHER: Final = 1_000


def mean(sample: Values, confidence: float, resamples: int = RESAMPLES) -> Estimate:
    """The mean of at least one value, with its bootstrap interval."""
    return _bootstrapped(_mean, (sample,), confidence, resamples)


def ratio(sample: Values, baseline: Values, confidence: float, resamples: int = RESAMPLES) -> Estimate | None:
    """Mean of `sample` / mean of `baseline`, with its bootstrap interval; None: the baseline's mean is 0."""
    if not baseline.mean():
        return None
    return _bootstrapped(_ratio, (sample, baseline), confidence, resamples)


def quantile(sample: Values, p: float, confidence: float) -> Estimate:
    """The `p` quantile of at least one value, between order statistics linearly (type 7 of Hyndman and Fan 1996)."""
    value = float(np.quantile(sample, p))
    if sample[0] == sample[-1]:
        return Estimate(value)
    with _quiet():
        found: Any = stats.quantile_test(sample, q=value, p=p).confidence_interval(confidence)
    low, high = _known(found.low), _known(found.high)
    return Estimate(value, low, high, None if low is None and high is None else "order statistics")


def deviation(sample: Values) -> float | None:
    """The standard deviation (n - 1); None: of one value there is none."""
    return float(sample.std(ddof=1)) if len(sample) > 1 else None


def differ(sample: Values, baseline: Values) -> RankTest:
    """Compare two samples of at least one value each."""
    fewest, together = min(len(sample), len(baseline)), len(sample) + len(baseline)
    if fewest == 1:
        return _one(sample, baseline)
    method: Any = "asymptotic"
    if fewest <= _SMALL and together <= _SMALL_TOGETHER:
        method = "exact"
        # where some are equal, the exact distribution is another one
        if len(np.unique(np.concatenate((sample, baseline)))) < together:
            method = stats.PermutationMethod(batch=max(1, _AT_ONCE // together), rng=_generator())
    found = stats.mannwhitneyu(sample, baseline, alternative="two-sided", method=method)
    name = method if isinstance(method, str) else "permutation"
    return RankTest(float(found.statistic), float(found.pvalue), name)


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


def corrected(probabilities: Sequence[float]) -> list[float]:
    """Each of several p-values as it counts when all of them are looked at."""
    if not probabilities:
        return []
    return [float(one) for one in stats.false_discovery_control(probabilities, method="by")]


def _mean(sample: Values, axis: int) -> Any:
    return sample.mean(axis=axis)


def _ratio(sample: Values, baseline: Values, axis: int) -> Any:
    return sample.mean(axis=axis) / baseline.mean(axis=axis)


def _bootstrapped(statistic: Callable[..., Any], samples: Any, confidence: float, resamples: int) -> Estimate:
    value = float(statistic(*samples, axis=-1))
    sizes = [len(sample) for sample in samples]
    if min(sizes) < 2 or all(sample.min() == sample.max() for sample in samples):
        return Estimate(value)
    method: Literal["BCa", "percentile"] = "BCa" if max(sizes) <= LARGEST_BCA else "percentile"
    taken = min(resamples, max(_FEWEST_RESAMPLES, _MOST_DRAWN // sum(sizes)))
    with _quiet():
        found = stats.bootstrap(
            samples,
            statistic,
            n_resamples=taken,
            batch=max(1, _AT_ONCE // sum(sizes)),
            vectorized=True,
            confidence_level=confidence,
            method=method,
            rng=_generator(),
        ).confidence_interval
    low, high = _known(found.low), _known(found.high)
    if low is None and high is None:
        return Estimate(value)
    return Estimate(value, low, high, f"{method} bootstrap", taken)


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
