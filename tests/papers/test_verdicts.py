"""Verdicts on claims. The expected ones are worked out by hand."""

import pytest

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers.claims import Claim, Verdict
from ikeanalyze.papers.verdicts import judge


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


@pytest.mark.parametrize(("kind", "value", "ours"), [("lost", None, Estimate(1.0)), ("exact", 1, None)])
def test_nothing_is_compared_without_two_numbers(kind, value, ours):
    assert judge(make_claim(kind, value), ours).verdict is Verdict.NOT_MEASURABLE
