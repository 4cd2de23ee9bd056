"""Grades of measured values: by how many steps one value is better than another.

Faigl, Pellikka, Bokor and Gurtov (suitability analysis, "Performance grade assignment") compare values with thresholds
of a standard (`ThresholdGrade`), or with the value of the solution in use today (`ReferenceGrade`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log2


@dataclass(frozen=True, slots=True)
class ThresholdGrade:
    """Fixed grades: g(P) of the first bound that P does not exceed.

    The paper uses 4, 3, 2 and 1 for authentication delays up to 50, 100, 150 and 300 ms and 0 above, and for deployment
    costs 1 for a cost of 0 and 0 above.
    """

    steps: Sequence[tuple[float, float]]  # bound and grade, bounds rising
    beyond: float  # grade above the last bound

    def grade(self, value: float) -> float:
        """Return the grade of a value."""
        return next((grade for bound, grade in self.steps if value <= bound), self.beyond)


@dataclass(frozen=True, slots=True)
class ReferenceGrade:
    """The number of halvings from the reference to the value, within limits: g(P) = log2(P_r / P).

    The paper defines P_r, L_l = 3 and L_r = 2, but not the function. This one is ours: a grade is a factor of 2, as in
    the scores; L_l limits the grades of better values, and L_r those of worse ones.
    """

    reference: float  # P_r, in the unit of the values
    better: float  # L_l: the highest grade
    worse: float  # L_r: the lowest grade is -L_r
    more_is_better: bool = False

    def grade(self, value: float) -> float:
        """Return the grade of a non-negative value."""
        halved = log2(self.reference / value) if value else inf
        return min(max(-halved if self.more_is_better else halved, -self.worse), self.better)


Function = ThresholdGrade | ReferenceGrade
