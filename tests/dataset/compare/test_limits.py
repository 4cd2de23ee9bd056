"""Limits on the differences of a comparison that was made by hand."""

from ikeanalyze.dataset.compare.compare import ComparisonRequest, compare_groups
from ikeanalyze.dataset.compare.limits import MetricLimit, find_exceeded, parse_limits
from ikeanalyze.dataset.compare.result import Estimate, GroupDifference, RankTest
from tests.dataset.grouped import tables, times

TEST = RankTest(1.0, 0.001, "exact")


def difference(ratio, differs):
    return GroupDifference(ratio, TEST, 0.001, differs)


def test_a_limit_has_a_metric_direction_and_percentage():
    assert parse_limits("setup_ms>10%, a+b<2.5 %") == (
        MetricLimit("setup_ms>10%", "setup_ms", larger=True, percent=10),
        MetricLimit("a+b<2.5 %", "a+b", larger=False, percent=2.5),
    )


def test_noise_is_decided_by_the_test_and_the_interval():
    (larger, smaller) = parse_limits("x>10%,x<10%")
    above, below, around = Estimate(1.2, 1.1, 1.3), Estimate(0.8, 0.7, 0.9), Estimate(1.2, 0.9, 1.5)
    assert larger.is_beyond(above)
    assert not larger.is_beyond(Estimate(1.05))
    assert smaller.is_beyond(below)
    assert larger.is_more_than_noise(difference(above, True))
    assert not larger.is_more_than_noise(difference(above, False))
    assert not larger.is_more_than_noise(difference(around, True))
    assert larger.is_more_than_noise(difference(Estimate(1.2), True))  # equal values have no interval
    assert smaller.is_more_than_noise(difference(below, True))


def test_a_baseline_of_zero():
    (larger, smaller) = parse_limits("x>10%,x<10%")
    assert larger.is_beyond(None)
    assert not smaller.is_beyond(None)


def test_a_group_in_which_every_handshake_failed_exceeds_each_limit():
    rows = times("a", 1, 2, 3) + times("b", 1, 2, outcome="failed")
    comparison = compare_groups(tables(rows), ComparisonRequest(["config"], ["setup_ms"]))
    (exceeded,) = find_exceeded(comparison, parse_limits("setup_ms>500%"))
    assert (exceeded.group, exceeded.problem, exceeded.noise) == ("config=b", "none of 2 handshakes counts", False)


def test_few_handshakes_may_be_noise():
    rows = times("a", 1, 1.1) + times("b", 5, 5.1)
    comparison = compare_groups(tables(rows), ComparisonRequest(["config"], ["setup_ms"]))
    (exceeded,) = find_exceeded(comparison, parse_limits("setup_ms>10%"))
    assert exceeded.noise
