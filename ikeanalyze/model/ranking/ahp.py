"""The multiplicative analytic hierarchy process: computes weights from opinions of experts, and scores from grades.

F. A. Lootsma, "Scale sensitivity in the multiplicative AHP and SMART" (Journal of Multi-Criteria Decision Analysis,
1993), as used by Faigl, Pellikka, Bokor and Gurtov. An expert states by how many steps one criterion is more important
than another; a step is a factor. The grade of an alternative is also a number of steps. Weights are exponents: the
score of an alternative is the product of factor^grade to the power of the weight, over all criteria.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import log, sqrt
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array

#: Factor of one step between criteria for a progression factor of 1 (Lootsma's). The paper does not print it, but this
#: factor and whole numbers of steps of its seven experts give its weights.
CRITERIA_STEP: Final = sqrt(2)
#: Factor of one grade of an alternative (Lootsma's).
GRADE_STEP: Final = 2.0

#: Scores that differ by less are equal.
_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Opinion:
    """The opinions of the experts about two criteria."""

    of: int  # index of a criterion
    to: int
    steps: Sequence[float]  # for each expert: by how much `of` is more important than `to`


@dataclass(frozen=True, slots=True)
class TurningPoint:
    """A weight at which the order changes."""

    weight: float  # of the criterion; the others keep their proportions
    above: int  # index of the alternative that is better with a larger weight
    below: int  # index of the alternative that is better with a smaller weight


def fit_weights(
    count: int,
    opinions: Sequence[Opinion],
    importance: Sequence[float],
    progression: Sequence[float],
    step: float = CRITERIA_STEP,
) -> Float64Array:
    """Return the weights of `count` criteria, adding up to 1, that fit the opinions best.

    The logarithms of the weights are those with the least squares of `ln w_of - ln w_to - γ_d · ln step · steps`, each
    where expert d has an importance and a progression factor γ_d. Without opinions all weights are equal.

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
    """Return the scores of the alternatives, adding up to 1.

    Args:
        weight: the weight of each criterion, adding up to 1.
        steps: natural logarithm of the score of each alternative in each criterion. (criteria, alternatives)
    """
    total = weight @ steps
    relative = np.exp(total - total.max())
    return np.asarray(relative / relative.sum(), np.float64)


def compute_ranks(score: Float64Array) -> list[int]:
    """Return the rank of each alternative, from 1; equal scores have the same rank."""
    return [1 + int((score > value + _TOLERANCE).sum()) for value in score]


def set_weight(weight: Float64Array, criterion: int, value: float) -> Float64Array:
    """Return the weights with this one for a criterion; the others keep their proportions (equal if all were 0)."""
    rest = np.delete(weight, criterion)
    rest = rest / rest.sum() if rest.sum() > 0 else np.full(len(rest), 1 / max(len(rest), 1))
    return np.insert(rest * (1 - value), criterion, value)


def find_turning_points(weight: Float64Array, steps: Float64Array, criterion: int) -> list[TurningPoint]:
    """Return the weights of a criterion between 0 and 1 at which two alternatives change places, in ascending order.

    The logarithm of a score is linear in the weight, so two alternatives change places where two lines cross.
    """
    if len(weight) < 2:
        return []
    alone = steps[criterion]
    others = set_weight(weight, criterion, 0.0) @ steps
    points = []
    for first, second in combinations(range(steps.shape[1]), 2):
        slope = (alone[first] - others[first]) - (alone[second] - others[second])
        if abs(slope) < _TOLERANCE:
            continue
        at = (others[second] - others[first]) / slope
        if _TOLERANCE < at < 1 - _TOLERANCE:
            above, below = (first, second) if slope > 0 else (second, first)
            points.append(TurningPoint(float(at), above, below))
    return sorted(points, key=lambda point: point.weight)
