import sys
import warnings

import numpy as np
import pytest

from ikeanalyze.dataset.compare.statistics import (
    MAX_BCA_SAMPLE,
    compute_rank_tests,
    compute_standard_deviation,
    correct_p_values,
    estimate_means,
    estimate_quantile,
    estimate_ratios,
)

#: Lower rank of the 95 % interval of a median by the size of the sample; the upper one mirrors it (Nair 1940).
NAIR = {6: 1, 8: 1, 9: 2, 10: 2, 12: 3, 15: 4, 20: 6, 25: 8, 30: 10, 40: 14, 50: 18, 65: 25}
#: Permeability of the human chorioamnion (Hollander & Wolfe 1973, p. 69), as in the documentation of R's wilcox.test.
AT_TERM = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
EARLIER = [1.15, 0.88, 0.90, 0.74, 1.21]


def sample(*values):
    return np.sort(np.array(values, np.float64))


def estimate_mean(values, *args):
    return estimate_means([values], *args)[0]


def estimate_ratio(values, baseline, *args):
    return estimate_ratios([(values, baseline)], *args)[0]


def compute_rank_test(values, baseline):
    return compute_rank_tests([(values, baseline)])[0]


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("n", NAIR)
def test_the_median_lies_between_the_ranks_of_the_table(n):
    result = estimate_quantile(np.arange(1.0, n + 1), 0.5, 0.95)
    assert (result.value, result.low, result.high) == ((n + 1) / 2, NAIR[n], n + 1 - NAIR[n])
    assert result.method == "order statistics"


def test_percentiles_are_interpolated():
    # 1 to 100: position 1 + 0.95 * 99 = 95.05, and 99.01
    assert estimate_quantile(np.arange(1.0, 101), 0.95, 0.95).value == pytest.approx(95.05)
    assert estimate_quantile(np.arange(1.0, 101), 0.99, 0.95).value == pytest.approx(99.01)
    # a tenth of the way from the 3rd to the 4th of 10, 20, 30, 50
    assert estimate_quantile(sample(10, 20, 30, 50), 0.7, 0.95).value == pytest.approx(32)


def test_what_a_sample_does_not_bound():
    # none of 50 is above the 99th percentile with a probability of 0.99 ** 50 = 61 %
    result = estimate_quantile(np.arange(1.0, 51), 0.99, 0.95)
    assert (result.low, result.high, result.method) == (pytest.approx(47, abs=1), None, "order statistics")
    # 0.99 ** 367 is more than 2.5 %, 0.99 ** 368 less; 0.95 ** 71 and 0.95 ** 72 likewise
    for p, n in ((0.99, 368), (0.95, 72)):
        assert estimate_quantile(np.arange(1.0, n), p, 0.95).high is None
        assert estimate_quantile(np.arange(1.0, n + 1), p, 0.95).high == n
    # all of 5 are on one side of the median with a probability of 2 / 2 ** 5 = 6.25 %
    result = estimate_quantile(np.arange(1.0, 6), 0.5, 0.95)
    assert (result.value, result.low, result.high, result.method) == (3, None, None, None)


def test_how_many_resamples_were_taken():
    """50 million values at most: of 30,000 there are 1,666."""
    assert estimate_mean(sample(*range(20)), 0.95).resamples == 2000
    assert estimate_mean(sample(*range(20)), 0.95, 300).resamples == 300
    assert estimate_mean(np.arange(30_000.0), 0.95).resamples == 1666
    assert estimate_mean(sample(5), 0.95).resamples is None
    assert estimate_ratio(sample(*range(1, 9)), sample(*range(2, 9)), 0.95, 400).resamples == 400


def test_a_mean_of_many_is_bounded_as_by_student():
    values = np.sort(np.random.default_rng(4).normal(100, 15, 400))
    result = estimate_mean(values, 0.95)
    half = 1.966 * values.std(ddof=1) / 20  # t of 399 degrees of freedom
    assert result.value == pytest.approx(values.mean())
    assert (result.low, result.high) == pytest.approx((result.value - half, result.value + half), abs=0.1 * half)
    assert result.method == "BCa bootstrap"


def test_a_wider_interval_for_more_confidence():
    values = np.sort(np.random.default_rng(4).normal(100, 15, 100))
    narrow, wide = estimate_mean(values, 0.8), estimate_mean(values, 0.99)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_interval_holds_the_mean_as_often_as_it_says():
    # of a skewed population, whose mean is 1: of 200 times 95 %, give or take three standard errors
    random = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        result = estimate_mean(np.sort(random.exponential(1, 50)), 0.95, 500)
        held += result.low <= 1 <= result.high
    assert 0.95 - 3 * (0.95 * 0.05 / 200) ** 0.5 <= held / 200 < 1


def test_a_large_sample():
    values = np.sort(np.random.default_rng(4).normal(100, 15, MAX_BCA_SAMPLE + 1))
    result = estimate_mean(values, 0.95)
    half = 1.96 * 15 / len(values) ** 0.5
    assert result.method == "percentile bootstrap"
    assert result.high - result.low == pytest.approx(2 * half, rel=0.1)


def test_the_same_numbers_each_time():
    values = np.sort(np.random.default_rng(4).exponential(1, 30))
    assert estimate_mean(values, 0.95) == estimate_mean(values, 0.95)
    assert compute_rank_test(values, values) == compute_rank_test(values, values)


@pytest.mark.parametrize("values", [(3,), (3, 3, 3)])
def test_what_does_not_vary_has_no_interval(values):
    for result in (estimate_mean(sample(*values), 0.95), estimate_quantile(sample(*values), 0.5, 0.95)):
        assert (result.value, result.low, result.high, result.method) == (3, None, None, None)


def test_a_ratio_of_one_run_each_has_no_interval():
    # what the RSA and the ECDSA handshake take of De Zuane and El Mechri, in ms: one run each
    result = estimate_ratio(sample(83.9), sample(58.7), 0.95)
    assert (result.value, result.low, result.high) == (pytest.approx(1.4293, abs=1e-4), None, None)


def test_the_interval_of_a_ratio():
    # the delta method, good for many values that vary little
    random = np.random.default_rng(4)
    slow, fast = np.sort(random.normal(300, 30, 500)), np.sort(random.normal(100, 10, 500))
    result = estimate_ratio(slow, fast, 0.95)
    assert result.value == pytest.approx(3, rel=0.02)
    half = 1.96 * result.value * (2 * 0.1**2 / 500) ** 0.5
    assert (result.low, result.high) == pytest.approx((result.value - half, result.value + half), abs=0.15 * half)


def test_a_ratio_to_what_does_not_vary():
    values = np.sort(np.random.default_rng(4).normal(100, 15, 100))
    result, alone = estimate_ratio(values, sample(50, 50, 50), 0.95), estimate_mean(values, 0.95)
    assert result.value == pytest.approx(alone.value / 50)
    assert (result.low, result.high) == pytest.approx((alone.low / 50, alone.high / 50), rel=0.01)


def test_no_ratio_to_nothing():
    assert estimate_ratio(sample(1, 2), sample(0, 0), 0.95) is None
    # some resamples have nothing but zeros: there is no upper bound
    assert estimate_ratio(sample(1, 2, 3), sample(0, 0, 1), 0.95).high is None


def test_the_deviation_is_that_of_the_standard_library():
    assert compute_standard_deviation(sample(2, 4, 4, 4, 5, 5, 7, 9)) == pytest.approx((32 / 7) ** 0.5)
    assert compute_standard_deviation(sample(2)) is None


def test_mann_whitney():
    # R: wilcox.test(x, y, alternative = "greater") gives W = 35 and p = 0.1272; two-sided it is twice as much
    rank_test = compute_rank_test(sample(*AT_TERM), sample(*EARLIER))
    assert (rank_test.u, rank_test.method) == (35, "exact")
    assert rank_test.p == pytest.approx(2 * 0.1272, abs=1e-4)


def test_small_samples_with_ties():
    # 1 1 1 against 2 2 2: 2 of the 20 ways to deal them out are as far apart
    rank_test = compute_rank_test(sample(1, 1, 1), sample(2, 2, 2))
    assert (rank_test.u, rank_test.p, rank_test.method) == (0, pytest.approx(2 / 20), "permutation")


def test_one_against_many():
    # the largest of eleven: with probability 1 in 11, and the smallest is as far away
    rank_test = compute_rank_test(sample(7), sample(*[5] * 10))
    assert rank_test.p == pytest.approx(2 / 11)
    assert compute_rank_test(sample(1), sample(1)).p == 1


def test_one_against_many_with_ties():
    # one retransmission: 17 of 501 handshakes have as many, so a handshake like that is no rare one
    many = sample(*[0] * 484, *[1] * 16)
    rank_test = compute_rank_test(sample(1), many)
    assert (rank_test.u, rank_test.p, rank_test.method) == (484 + 16 / 2, pytest.approx(2 * 17 / 501), "exact")
    assert compute_rank_test(many, sample(1)).p == rank_test.p
    assert compute_rank_test(many, sample(1)).u == 16 / 2


def test_one_against_thousands():
    # the greatest of 2,001 values; the normal approximation would have 0.08
    assert compute_rank_test(sample(5000), np.arange(2000.0)).p == pytest.approx(2 / 2001)


def test_nothing_differs_from_itself():
    values = np.sort(np.random.default_rng(4).exponential(1, 30))
    assert compute_rank_test(values, values).p == pytest.approx(1)
    assert compute_rank_test(sample(*[5] * 20), sample(*[5] * 30)).p == 1


def test_noise_is_called_a_difference_as_seldom_as_it_says():
    # retransmissions at 20 % loss: many ties
    random = np.random.default_rng(9)
    called = sum(
        compute_rank_test(np.sort(random.poisson(1, 25) * 1.0), np.sort(random.poisson(1, 25) * 1.0)).p < 0.05
        for _ in range(400)
    )
    assert called / 400 == pytest.approx(0.05, abs=0.033)


def test_many_against_few_takes_no_time():
    random = np.random.default_rng(4)
    assert (
        compute_rank_test(np.sort(random.normal(0, 1, 8)), np.sort(random.normal(3, 1, 100_000))).method == "asymptotic"
    )


def test_p_values_are_corrected_for_several_tests():
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "BY")
    assert correct_p_values([0.01, 0.04, 0.03, 0.005]) == pytest.approx([1 / 24, 1 / 12, 1 / 12, 1 / 24])
    assert correct_p_values([0.6, 0.7]) == [1, 1]
    assert correct_p_values([0.04]) == [0.04]
    assert correct_p_values([]) == []


def test_many_samples_at_once_have_the_numbers_of_each_alone():
    random = np.random.default_rng(4)
    sizes = [1, 2, 20, 20, 20, 7, 7, 7, 7, 30, 20, 2, 400]
    samples = [np.sort(random.poisson(3, size) * 1.0) for size in sizes]
    samples += [np.sort(random.exponential(1, size)) for size in sizes]
    samples += [np.zeros(20), np.ones(20), np.ones(7)]
    baselines = [samples[(5 * i) % len(samples)] for i in range(len(samples))]
    pairs = list(zip(samples, baselines, strict=True))

    def numbers(estimate):
        if estimate is None:
            return None
        bounds = [None if bound is None else pytest.approx(bound, rel=1e-12) for bound in (estimate.low, estimate.high)]
        return (pytest.approx(estimate.value, rel=1e-12), *bounds, estimate.method, estimate.resamples)

    def plain(estimate):
        if estimate is None:
            return None
        return (estimate.value, estimate.low, estimate.high, estimate.method, estimate.resamples)

    assert [plain(item) for item in estimate_means(samples, 0.95, 500)] == [
        numbers(estimate_mean(item, 0.95, 500)) for item in samples
    ]
    assert [plain(item) for item in estimate_ratios(pairs, 0.95, 500)] == [
        numbers(estimate_ratio(*pair, 0.95, 500)) for pair in pairs
    ]
    assert compute_rank_tests(pairs) == [compute_rank_test(*pair) for pair in pairs]


def test_many_groups_cost_little_more_than_a_few():
    """As work, not time: what scipy takes to begin is paid for samples of one size together."""
    samples = list(np.sort(np.random.default_rng(4).exponential(1, (300, 20))))
    began = 0

    def count(frame, event, _argument):
        nonlocal began
        began += event == "call" and frame.f_code.co_name == "bootstrap"

    sys.setprofile(count)
    try:
        result = estimate_means(samples, 0.95)
    finally:
        sys.setprofile(None)
    assert len(result) == 300
    assert 0 < began < 30
