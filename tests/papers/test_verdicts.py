"""Verdicts on claims. The expected ones are worked out by hand."""

import pytest

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers.claims import Claim, Verdict
from ikeanalyze.papers.verdicts import can_differ_by_chance, judge


def make_claim(kind: str, value: float | None, **settings) -> Claim:
    settings = {"expect": Verdict.NOT_MEASURABLE, "why": "-", **settings}
    return Claim(id="a", item="a", place="Table 1", kind=kind, value=value, **settings)


@pytest.mark.parametrize(
    ("kind", "tolerance", "paper", "ours", "verdict", "deviation"),
    [
        ("exact", 0, 4, Estimate(4.0), Verdict.REPRODUCED, None),
        ("exact", 0, 4, Estimate(5.0), Verdict.CONTRADICTED, 25),
        ("exact", 5, 1000, Estimate(1050.0), Verdict.WITHIN, 5),
        ("exact", 5, 1000, Estimate(949.0), Verdict.CONTRADICTED, 5.1),
        # the interval of an exact quantity is not asked: a mean of 4.5 messages is not 4
        ("exact", 0, 4, Estimate(4.5, 4.0, 5.0), Verdict.CONTRADICTED, 12.5),
        ("ratio", 0, 3, Estimate(3.1, 2.9, 3.3), Verdict.REPRODUCED, None),
        ("ratio", 10, 3, Estimate(3.15, 3.1, 3.2), Verdict.WITHIN, 5),
        ("ratio", 1, 3, Estimate(3.15, 3.1, 3.2), Verdict.CONTRADICTED, 5),
        ("order", 10, 50, Estimate(5.0), Verdict.WITHIN, 10),
        ("order", 10, 5, Estimate(50.0), Verdict.WITHIN, 10),
        ("order", 10, 5, Estimate(51.0), Verdict.CONTRADICTED, 10.2),
        ("order", 10, 5, Estimate(-5.0), Verdict.CONTRADICTED, None),
        ("exact", 5, 0, Estimate(0.0), Verdict.REPRODUCED, None),
        ("exact", 5, 0, Estimate(0.1), Verdict.CONTRADICTED, float("inf")),
    ],
)
def test_a_value_is_compared_as_its_kind_requires(kind, tolerance, paper, ours, verdict, deviation):
    judgement = judge(make_claim(kind, paper, tolerance=tolerance), ours)
    assert judgement.verdict is verdict
    assert judgement.deviation == (None if deviation is None else pytest.approx(deviation))


@pytest.mark.parametrize(
    ("relation", "ours", "verdict"),
    [
        ("above", Estimate(1.5, 1.2, 1.8), Verdict.REPRODUCED),
        ("above", Estimate(1.5, 0.9, 2.1), Verdict.UNDECIDED),
        ("above", Estimate(0.5, 0.4, 0.6), Verdict.CONTRADICTED),
        ("above", Estimate(1.0), Verdict.CONTRADICTED),
        ("below", Estimate(0.5, 0.4, 0.6), Verdict.REPRODUCED),
        ("below", Estimate(0.9, 0.8, 1.0), Verdict.UNDECIDED),
        ("below", Estimate(1.1, 1.05, 1.2), Verdict.CONTRADICTED),
    ],
)
def test_all_of_the_interval_is_on_the_side_of_a_limit(relation, ours, verdict):
    assert judge(make_claim("order", 1, relation=relation), ours).verdict is verdict


@pytest.mark.parametrize(
    ("kind", "tolerance", "ours", "verdict"),
    [
        ("ratio", 5, Estimate(310.0, 309.0, 312.0), Verdict.UNDECIDED),  # 285 to 315
        ("ratio", 5, Estimate(318.0, 316.0, 320.0), Verdict.REPRODUCED),
        ("ratio", 5, Estimate(318.0, 314.0, 320.0), Verdict.UNDECIDED),
        ("ratio", 5, Estimate(283.0, 282.0, 284.0), Verdict.CONTRADICTED),
        ("ratio", 5, Estimate(290.0), Verdict.UNDECIDED),
        ("order", 2, Estimate(500.0, 490.0, 510.0), Verdict.UNDECIDED),  # 150 to 600
        ("order", 2, Estimate(700.0, 690.0, 710.0), Verdict.REPRODUCED),
        ("order", 2, Estimate(100.0, 90.0, 110.0), Verdict.CONTRADICTED),
    ],
)
def test_within_the_tolerance_of_a_limit_the_machine_decides(kind, tolerance, ours, verdict):
    claim = make_claim(kind, 300, relation="above", tolerance=tolerance)
    assert judge(claim, ours).verdict is verdict


@pytest.mark.parametrize(
    ("kind", "first", "second", "by_chance"),
    [
        ("ratio", Verdict.REPRODUCED, Verdict.WITHIN, True),
        ("ratio", Verdict.UNDECIDED, Verdict.CONTRADICTED, True),
        ("ratio", Verdict.WITHIN, Verdict.WITHIN, True),
        ("ratio", Verdict.WITHIN, Verdict.CONTRADICTED, False),
        ("ratio", Verdict.REPRODUCED, Verdict.CONTRADICTED, False),
        ("exact", Verdict.REPRODUCED, Verdict.WITHIN, False),  # has no interval
        ("ratio", Verdict.UNDECIDED, Verdict.NOT_MEASURABLE, False),  # data are missing
    ],
)
def test_the_width_of_an_interval_is_chance(kind, first, second, by_chance):
    claim = make_claim(kind, 1)
    assert can_differ_by_chance(claim, first, second) is by_chance
    assert can_differ_by_chance(claim, second, first) is by_chance


@pytest.mark.parametrize(("kind", "value", "ours"), [("lost", None, Estimate(1.0)), ("exact", 1, None)])
def test_nothing_is_compared_without_two_numbers(kind, value, ours):
    assert judge(make_claim(kind, value), ours).verdict is Verdict.NOT_MEASURABLE
