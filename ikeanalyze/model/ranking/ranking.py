"""Ranks alternatives, with the contribution of each criterion and the weights at which the order changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite, log

import numpy as np

from ikeanalyze.model.arrays import Float64Array
from ikeanalyze.model.ranking import ahp
from ikeanalyze.model.ranking.criteria import Criteria, CriteriaError, Criterion, DatasetValues, SubCriterion

#: Returns the values of the alternatives in a dataset; raises `CriteriaError` if it has none.
Lookup = Callable[[DatasetValues], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class GradedSubCriterion:
    """A sub-criterion with its weight and its grades."""

    name: str
    weight: float  # within its criterion
    unit: str | None
    left_out: str | None
    values: Mapping[str, float]  # by alternative; empty: the file has grades
    grades: Mapping[str, float]  # by alternative; empty: it is left out


@dataclass(frozen=True, slots=True)
class RankSwap:
    """The order changes at this weight of a criterion."""

    weight: float
    above: str  # better with a larger weight
    below: str  # better with a smaller weight


@dataclass(frozen=True, slots=True)
class RankedCriterion:
    """A main criterion with its weight and its grades."""

    name: str
    weight: float
    parts: Sequence[GradedSubCriterion]
    graded: bool  # False: all of its parts are left out
    grades: Mapping[str, float]  # by alternative: mean of the parts, with their weights and progression factors
    turns: Sequence[RankSwap]  # in ascending order


@dataclass(frozen=True, slots=True)
class AlternativeRank:
    """An alternative with its rank and its score."""

    name: str
    rank: int  # from 1; equal scores have the same rank
    score: float  # all scores add up to 1
    contributions: Mapping[str, float]  # by criterion, in grades: weight times grade


@dataclass(frozen=True, slots=True)
class Ranking:
    """The result of a ranking."""

    criteria: Criteria
    places: Sequence[AlternativeRank]  # best first
    ranked: Sequence[RankedCriterion]
    steps: Float64Array  # criteria by alternatives (in the file's order), natural logarithms

    @property
    def weights(self) -> Float64Array:
        """The weights of the criteria."""
        return np.array([criterion.weight for criterion in self.ranked])

    def scores_at(self, criterion: int, weight: float) -> Float64Array:
        """Return the scores in the order of the file, with another weight of one criterion."""
        return ahp.compute_scores(ahp.set_weight(self.weights, criterion, weight), self.steps)


def rank_alternatives(criteria: Criteria, lookup: Lookup) -> Ranking:
    """Rank the alternatives.

    Raises:
        CriteriaError: the opinions do not determine the weights, or a value is missing.
    """
    names = criteria.alternatives
    weights = _compute_weights(criteria, "", criteria.weights, criteria.opinions, len(criteria.criteria))
    parts = [_grade_parts(criteria, criterion, lookup) for criterion in criteria.criteria]
    pairs = zip(criteria.criteria, parts, strict=True)
    grades = np.array([_mean_grades(criterion, graded, names) for criterion, graded in pairs])
    steps = grades * log(criteria.grade_step)
    score = ahp.compute_scores(weights, steps)
    ranked = [
        RankedCriterion(
            name=criterion.name,
            weight=float(weights[i]),
            parts=parts[i],
            graded=any(part.grades for part in parts[i]),
            grades=dict(zip(names, grades[i].tolist(), strict=True)),
            turns=[
                RankSwap(point.weight, names[point.above], names[point.below])
                for point in ahp.find_turning_points(weights, steps, i)
            ],
        )
        for i, criterion in enumerate(criteria.criteria)
    ]
    places = []
    for name, rank, value in zip(names, ahp.compute_ranks(score), score.tolist(), strict=True):
        contributions = {criterion.name: criterion.weight * criterion.grades[name] for criterion in ranked}
        places.append(AlternativeRank(name, rank, value, contributions))
    return Ranking(criteria, sorted(places, key=lambda place: place.rank), ranked, steps)


def _mean_grades(criterion: Criterion, parts: Sequence[GradedSubCriterion], names: Sequence[str]) -> Float64Array:
    """Return the grades of the alternatives in a criterion: the weighted mean of its parts, with progression."""
    pairs = zip(parts, criterion.parts, strict=True)
    factors = [(part.weight * source.progression, part.grades) for part, source in pairs]
    return np.array([fsum(factor * grades.get(name, 0.0) for factor, grades in factors) for name in names])


def _compute_weights(
    criteria: Criteria, key: str, weights: Sequence[float] | None, opinions: Sequence[ahp.Opinion], count: int
) -> Float64Array:
    if weights is not None:
        return np.array(weights)
    try:
        return ahp.fit_weights(count, opinions, criteria.importance, criteria.progression, criteria.criteria_step)
    except ValueError as error:
        raise CriteriaError(f"{criteria.path}: {key}difference: {error}") from None


def _grade_parts(criteria: Criteria, criterion: Criterion, lookup: Lookup) -> list[GradedSubCriterion]:
    key = f"criterion {criterion.name!r}, "
    weights = _compute_weights(criteria, key, criterion.weights, criterion.opinions, len(criterion.parts))
    pairs = zip(criterion.parts, weights.tolist(), strict=True)
    return [_grade_part(criteria, part, weight, lookup) for part, weight in pairs]


def _grade_part(criteria: Criteria, part: SubCriterion, weight: float, lookup: Lookup) -> GradedSubCriterion:
    values = part.values
    if part.measured is not None:
        try:
            values = lookup(part.measured)
        except CriteriaError as error:
            raise CriteriaError(f"{criteria.path}: {part.key}.measured: {error}") from None
        for name in criteria.alternatives:
            if name not in values or not isfinite(values[name]) or values[name] < 0:
                raise CriteriaError(f"{criteria.path}: {part.key}.measured: has no value for {name}")
    grades = part.grades
    if part.function is not None:
        grades = {name: part.function.grade(values[name]) for name in criteria.alternatives}
    return GradedSubCriterion(part.name, weight, part.unit, part.left_out, values, grades)
