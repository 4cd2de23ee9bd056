"""The JSON document of a ranking, schema "ikeanalyze.ranking/1", and the rows of its CSV."""

from collections.abc import Iterator
from typing import Any, Final

from ikeanalyze.model.ranking.ranking import RankedCriterion, Ranking
from ikeanalyze.render.core.json import select_attributes

SCHEMA: Final = "ikeanalyze.ranking/1"


def build_document(ranking: Ranking) -> dict[str, Any]:
    """Return the document."""
    criteria = ranking.criteria
    return {
        "schema": SCHEMA,
        "criteria_file": criteria.path,
        **select_attributes(criteria, "title", "source"),
        "notes": list(criteria.notes),
        **select_attributes(criteria, "criteria_step", "grade_step"),
        "ranking": [
            {
                "rank": place.rank,
                "alternative": place.name,
                "score": place.score,
                "contributions": dict(place.contributions),
            }
            for place in ranking.places
        ],
        "criteria": [_build_criterion(criterion) for criterion in ranking.ranked],
    }


def _build_criterion(criterion: RankedCriterion) -> dict[str, Any]:
    return {
        **select_attributes(criterion, "name", "weight", "graded"),
        "grades": dict(criterion.grades) if criterion.graded else None,
        "turning_points": [
            {"weight": turn.weight, "ahead_with_more": turn.above, "ahead_with_less": turn.below}
            for turn in criterion.turns
        ],
        "parts": [
            {
                **select_attributes(part, "name", "weight", "unit", "left_out"),
                "values": dict(part.values) or None,
                "grades": dict(part.grades) or None,
            }
            for part in criterion.parts
        ],
    }


def build_rows(ranking: Ranking) -> Iterator[dict[str, Any]]:
    """Yield a row for each alternative, best first."""
    for place in ranking.places:
        yield {
            "rank": place.rank,
            "alternative": place.name,
            "score": place.score,
            **{f"contribution of {name}": value for name, value in place.contributions.items()},
        }
