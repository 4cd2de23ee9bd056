"""The multiplicative analytic hierarchy process: from what experts say to weights, from grades to scores.

F. A. Lootsma, "Scale sensitivity in the multiplicative AHP and SMART" (Journal of Multi-Criteria Decision Analysis, 1993), as
Faigl, Pellikka, Bokor and Gurtov use it. An expert says by how many steps one criterion matters more than another; a
step is a factor. A grade of an alternative is such a number of steps as well. Weights are exponents: the score of an
alternative is the product of factor^grade to the power of the weight, over all criteria.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log, sqrt
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array

#: Factor of one step between criteria, at a progression factor of 1. The paper's text does not print it; with this one (which is
#: Lootsma's) the paper's weights come out of whole numbers of steps of its seven experts.
CRITERIA_STEP: Final = sqrt(2)
#: Factor of one grade of an alternative (Lootsma's).
GRADE_STEP: Final = 2.0

#: Scores that differ by less are the same.
_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Opinion:
    """What experts say of two criteria."""

    of: int  # place of a criterion
    to: int
    steps: Sequence[float]  # one an expert: so much more (or, negative, less) does `of` matter than `to`


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """A weight at which the order changes."""

    weight: float  # of the criterion; the others keep their proportions
    above: int  # place of the alternative that is ahead when the weight is larger
    below: int  # of the one that is ahead when it is smaller


def fit_weights(
    count: int,
    opinions: Sequence[Opinion],
    importance: Sequence[float],
    progression: Sequence[float],
    step: float = CRITERIA_STEP,
) -> Float64Array:
    """Weights of `count` criteria, adding up to 1, that fit the opinions best.

    The logarithms of the weights are those with the least squares of `ln w_of - ln w_to - γ_d · ln step · steps`, each
    expert d counting with their importance and having a progression factor γ_d of their own. Without opinions all are equal.

    Raises:
        ValueError: the opinions do not connect all criteria, or no expert has any importance.
    """
    if not opinions:
        return np.full(count, 1 / count)
    rows, values = [], []
    for opinion in opinions:
        for steps, weight, factor in zip(opinion.steps, importance, progression, strict=True):
            row = np.zeros(count)
            row[opinion.of], row[opinion.to] = 1.0, -1.0
            rows.append(sqrt(weight) * row)
            values.append(sqrt(weight) * factor * log(step) * steps)
    matrix = np.array(rows)
    if np.linalg.matrix_rank(matrix) < count - 1:
        raise ValueError("the differences do not connect all criteria")
    logarithms, *_ = np.linalg.lstsq(matrix, np.array(values), rcond=None)
    relative = np.exp(logarithms - logarithms.max())
    return np.asarray(relative / relative.sum(), np.float64)


def compute_scores(weight: Float64Array, steps: Float64Array) -> Float64Array:
    """Scores of the alternatives, adding up to 1.

    Args:
        weight: of each criterion, adding up to 1.
        steps: criteria by alternatives, natural logarithms of what each alternative scores in each criterion.
    """
    total = weight @ steps
    relative = np.exp(total - total.max())
    return np.asarray(relative / relative.sum(), np.float64)


def compute_ranks(score: Float64Array) -> list[int]:
    """Place of each alternative, from 1; the same for the same score."""
    return [1 + int((score > value + _SAME).sum()) for value in score]


def set_weight(weight: Float64Array, criterion: int, value: float) -> Float64Array:
    """The weights when one criterion has this one: the others keep their proportions (equal, if all were 0)."""
    rest = np.delete(weight, criterion)
    rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / max(len(rest), 1))
    return np.insert(rest * (1 - value), criterion, value)


def find_turning_points(weight: Float64Array, steps: Float64Array, criterion: int) -> list[TurningPoint]:
    """The weights of one criterion, above 0 and below 1, at which two alternatives change places; rising.

    The logarithm of a score is linear in the weight, so they are where two straight lines cross.
    """
    if len(weight) < 2:
        return []
    alone = steps[criterion]
    others = set_weight(weight, criterion, 0.0) @ steps
    points = []
    for first, second in combinations(range(steps.shape[1]), 2):
        slope = (alone[first] - others[first]) - (alone[second] - others[second])
        if abs(slope) < _SAME:
            continue
        at = (others[second] - others[first]) / slope
        if _SAME < at < 1 - _SAME:
            above, below = (first, second) if slope > 0 else (second, first)
            points.append(TurningPoint(float(at), above, below))
    return sorted(points, key=lambda point: point.weight)
