"""Compares our value with the paper's: the verdict on a claim."""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers.claims import Claim, Verdict

#: Relative difference below which two numbers are the same: rounding of floating-point arithmetic.
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a claim."""

    verdict: Verdict
    deviation: float | None = None  # of our value from the paper's: per cent, or a factor if `is_factor`
    is_factor: bool = False


def judge(claim: Claim, ours: Estimate | None) -> Judgement:
    """Return the verdict on a claim; `ours` is None if there is no value of ours."""
    if claim.value is None or ours is None:
        return Judgement(Verdict.NOT_MEASURABLE)
    if claim.relation != "equal":
        return Judgement(_judge_side(claim, claim.value, ours))
    if claim.kind == "order":
        return _judge_order(claim, claim.value, ours.value)
    deviation = _relative_difference(ours.value, claim.value)
    if deviation <= _SAME or (claim.kind == "ratio" and _contains(ours, claim.value)):
        return Judgement(Verdict.REPRODUCED)
    within = 100 * deviation <= claim.tolerance
    return Judgement(Verdict.WITHIN if within else Verdict.CONTRADICTED, 100 * deviation)


def can_differ_by_chance(claim: Claim, first: Verdict, second: Verdict) -> bool:
    """Whether chance explains these verdicts of two runs.

    `undecided` depends on the width of an interval. So does whether a ratio within the tolerance is `reproduced`.
    """
    verdicts = {first, second}
    if first is second:
        return True
    if Verdict.NOT_MEASURABLE in verdicts:  # data are missing
        return False
    return Verdict.UNDECIDED in verdicts or (claim.kind == "ratio" and verdicts == {Verdict.REPRODUCED, Verdict.WITHIN})


def _judge_side(claim: Claim, limit: float, ours: Estimate) -> Verdict:
    """Return whether all, some or nothing of our interval is on the side of the limit that the paper states.

    Within the tolerance of the limit, another machine may be on its other side.
    """
    low, high = (ours.value if end is None else end for end in (ours.low, ours.high))
    least, most = _apply_tolerance(claim, limit)
    above, below = low > most, high < least
    if (low < high or least < most) and not above and not below:
        return Verdict.UNDECIDED
    return Verdict.REPRODUCED if (above if claim.relation == "above" else below) else Verdict.CONTRADICTED


def _apply_tolerance(claim: Claim, limit: float) -> tuple[float, float]:
    """Return the numbers around a limit that are within the tolerance of the claim."""
    if claim.kind == "order":
        ends = (limit / claim.tolerance, limit * claim.tolerance) if claim.tolerance else (limit, limit)
    else:
        margin = abs(limit) * claim.tolerance / 100
        ends = limit - margin, limit + margin
    return min(ends), max(ends)


def _judge_order(claim: Claim, value: float, ours: float) -> Judgement:
    if value * ours <= 0:
        return Judgement(Verdict.REPRODUCED if value == ours else Verdict.CONTRADICTED)
    factor = max(ours / value, value / ours)
    return Judgement(Verdict.WITHIN if factor <= claim.tolerance else Verdict.CONTRADICTED, factor, is_factor=True)


def _relative_difference(ours: float, value: float) -> float:
    """Relative to the paper's value; infinite if that is 0 and ours is not."""
    if value == 0:
        return 0 if ours == 0 else float("inf")
    return abs(ours - value) / abs(value)


def _contains(ours: Estimate, value: float) -> bool:
    return ours.low is not None and ours.high is not None and ours.low <= value <= ours.high
