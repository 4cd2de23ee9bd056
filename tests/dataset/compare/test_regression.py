"""Lines of least squares, compared with scipy, with numpy's polynomials, and with a published data set."""

import numpy as np
import pytest
from scipy import stats

from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.regression import compute_band, fit_line
from tests.dataset.grouped import LAB, recorded, tables

#: NIST StRD "Norris" (linear regression, lower difficulty): x, y and the certified values.
NORRIS = """
0.2 0.1 337.4 338.8 118.2 118.1 884.6 888.0 10.1 9.2 226.5 228.1 666.3 668.5 996.3 998.5 448.6 449.1 777.0 778.9
558.2 559.2 0.4 0.3 0.6 0.1 775.5 778.1 666.9 668.8 338.0 339.3 447.5 448.9 11.6 10.8 556.0 557.7 228.1 228.3
995.8 998.0 887.6 888.8 120.2 119.6 0.3 0.3 0.3 0.6 556.8 557.6 339.1 339.3 887.2 888.0 999.0 998.5 779.0 778.9
11.1 10.2 118.3 117.6 229.2 228.9 669.1 668.4 448.9 449.2 0.5 0.2
"""


def test_certified_values_of_nist():
    x, y = np.array(NORRIS.split(), float).reshape(-1, 2).T
    fit = fit_line(x, y, 0.95)
    assert fit.counted == 36
    assert fit.slope.value == pytest.approx(1.00211681802045, rel=1e-12)
    assert fit.intercept.value == pytest.approx(-0.262323073774029, rel=1e-10)
    assert fit.deviation == pytest.approx(0.884796396144373, rel=1e-10)
    assert fit.r_squared == pytest.approx(0.999993745883712, rel=1e-12)
    t = stats.t.ppf(0.975, 34)
    assert fit.slope.high - fit.slope.value == pytest.approx(t * 0.429796848199937e-03, rel=1e-8)
    assert fit.intercept.value - fit.intercept.low == pytest.approx(t * 0.232818234301152, rel=1e-8)


def test_the_band_is_the_interval_of_the_mean():
    """The covariance of the coefficients, which numpy computes with matrices, gives the same band."""
    rng = np.random.default_rng(1)
    x = rng.integers(4, 12, 40).astype(float)
    y = 3 + 2 * x + rng.normal(0, 5, 40)
    (slope, intercept), covariance = np.polyfit(x, y, 1, cov=True)
    t = stats.t.ppf(0.95, 38)
    for point in compute_band(fit_line(x, y, 0.9), [0.0, 4.0, 7.5, 20.0]):
        error = np.sqrt([point.x, 1] @ covariance @ [point.x, 1])
        assert point.mean == pytest.approx(intercept + slope * point.x)
        assert (point.low, point.high) == pytest.approx((point.mean - t * error, point.mean + t * error))


def test_a_line_through_two_points_has_no_bounds():
    fit = fit_line(np.array([1.0, 3.0]), np.array([10.0, 14.0]), 0.95)
    assert (fit.slope.value, fit.intercept.value, fit.r_squared) == pytest.approx((2, 8, 1))
    assert (fit.slope.low, fit.slope.high, fit.slope.method, fit.deviation) == (None, None, None, None)
    (point,) = compute_band(fit, [2.0])
    assert (point.mean, point.low, point.high) == (pytest.approx(12), None, None)


def test_a_level_line_explains_nothing():
    fit = fit_line(np.array([1.0, 2.0, 3.0]), np.array([5.0, 5.0, 5.0]), 0.95)
    assert (fit.slope.value, fit.slope.low, fit.slope.high, fit.intercept.value) == (0, 0, 0, 5)
    assert (fit.r_squared, fit.deviation) == (None, 0)


def test_points_above_each_other_have_no_line():
    assert fit_line(np.array([4.0, 4.0, 4.0]), np.array([1.0, 2.0, 3.0]), 0.95) is None
    assert fit_line(np.array([]), np.array([]), 0.95) is None


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_values_whose_squares_overflow(size):
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.0, 2.5, 5.0])
    expected, fit = stats.linregress(x, y), fit_line(size * x, size * y, 0.95)
    assert fit.slope.value == pytest.approx(expected.slope)
    assert fit.intercept.value == pytest.approx(size * expected.intercept)
    assert fit.r_squared == pytest.approx(expected.rvalue**2)


def test_recorded_set_up_times_against_messages():
    data = recorded(**{f"loss{loss}": LAB / f"loss_loss-percent-{loss}.pcapng" for loss in (5, 20)})
    request = ComparisonRequest(["loss"], metrics=["setup_ms"], against="messages")
    (metric,) = compare_groups(data, request).metrics
    rows = data.handshakes.collect()
    messages = (rows["initiator_messages"] + rows["responder_messages"]).to_numpy()
    took = rows["setup_ns"].to_numpy() / 1e6
    expected = stats.linregress(messages, took)
    fit = metric.regression.overall
    assert (metric.regression.against, metric.regression.unit) == ("messages", "messages")
    assert (fit.counted, fit.slope.value, fit.intercept.value) == pytest.approx(
        (20, expected.slope, expected.intercept)
    )
    assert fit.r_squared == pytest.approx(expected.rvalue**2)
    five = (rows["loss"] == 5).to_numpy()
    assert metric.regression.groups[0].slope.value == pytest.approx(stats.linregress(messages[five], took[five]).slope)


def test_only_handshakes_with_both_values_count():
    rows = [
        {"config": config, "x": x, "setup_ns": y and y * 1_000_000, "outcome": outcome}
        for config, x, y, outcome in (
            ("a", 1.0, 10, "completed"), ("a", 2.0, 20, "established"), ("a", 3.0, 60, "completed"),
            ("a", 9.0, 99, "failed"), ("a", None, 99, "completed"), ("b", 4.0, None, "completed"),
            ("b", 5.0, 30, "completed"),
        )
    ]  # fmt: skip
    request = ComparisonRequest(["config"], metrics=["setup_ms"], against="x")
    (metric,) = compare_groups(tables(rows, ("config", "x")), request).metrics
    a, b = metric.regression.groups
    expected = stats.linregress([1, 2, 3, 5], [10, 20, 60, 30])
    assert (a.counted, a.slope.value, a.intercept.value) == pytest.approx((3, 25, -20))
    assert b is None
    assert (metric.regression.overall.counted, metric.regression.overall.slope.value) == pytest.approx(
        (4, expected.slope)
    )
    assert [list(x) for x, _ in metric.regression.samples] == [[1, 2, 3], [5]]


def test_a_metric_of_which_nothing_is_known_has_no_line():
    rows = [{"config": "a", "x": x, "setup_ns": None} for x in (1.0, 2.0)]
    request = ComparisonRequest(["config"], metrics=["setup_ms"], against="x")
    (metric,) = compare_groups(tables(rows, ("config", "x")), request).metrics
    assert (metric.regression.overall, metric.regression.groups) == (None, (None,))


@pytest.mark.parametrize(
    ("values", "name", "problem"),
    [
        ((4.0, 4.0, 4.0), "x", "x is 4 in all 3 counted handshakes; a line needs different values"),
        ((None, None, 1.0), "qq", "unknown metric 'qq' (docs/compare.md lists the metrics; "),
        ((1.0, 2.0, 1.0), "aaa_bytes", "aaa_bytes is not known for any counted handshake"),
        ((1.0, 2.0, 1.0), "bytes+setup_ms", "bytes+setup_ms would add bytes to ms"),
    ],
)
def test_what_no_line_can_be_fitted_against(values, name, problem):
    rows = [{"config": "a", "x": x, "setup_ns": 1} for x in values]
    with pytest.raises(CompareError) as raised:
        compare_groups(tables(rows, ("config", "x")), ComparisonRequest(["config"], metrics=["setup_ms"], against=name))
    assert str(raised.value).startswith(problem)
    assert raised.value.argument == "against"
