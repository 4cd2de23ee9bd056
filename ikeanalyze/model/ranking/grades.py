"""Grades of measured values: how many steps better or worse than another one a value is.

Faigl, Pellikka, Bokor and Gurtov (suitability analysis, "Performance grade assignment") have two ways: comparison with values
that a standard sets (`ThresholdGrade`), and with what is in use today (`ReferenceGrade`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log2


@dataclass(frozen=True, slots=True)
class ThresholdGrade:
    """Fixed grades: g(P) of the first bound that P does not exceed.

    The paper's for authentication delay is 4, 3, 2, 1 up to 50, 100, 150 and 300 ms, beyond that 0; its
    deployment criteria have 1 for a cost of 0 and 0 above.
    """

    steps: Sequence[tuple[float, float]]  # bound and grade, bounds rising
    beyond: float  # grade above the last bound

    def grade(self, value: float) -> float:
        """The grade of a value."""
        return next((grade for bound, grade in self.steps if value <= bound), self.beyond)


@dataclass(frozen=True, slots=True)
class ReferenceGrade:
    """How often a value is half of the reference's, within limits: g(P) = log2(P_r / P).

    The paper names P_r, L_l = 3 and L_r = 2, and its text lacks the function between them. This is ours: a grade is a factor of 2,
    as it is in the scores; L_l bounds it on the side of the better values, L_r on that of the worse ones.
    """

    reference: float  # P_r, in the unit of the values
    better: float  # L_l: the highest grade
    worse: float  # L_r: the lowest grade is -L_r
    more_is_better: bool = False

    def grade(self, value: float) -> float:
        """The grade of a value, which is not negative."""
        halved = log2(self.reference / value) if value else inf
        return min(max(-halved if self.more_is_better else halved, -self.worse), self.better)


Function = ThresholdGrade | ReferenceGrade
