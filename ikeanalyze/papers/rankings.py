"""The rankings of a report, as tables that its queries read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.model.ranking.criteria import CriteriaError, DatasetValues, load_criteria
from ikeanalyze.model.ranking.ranking import Ranking, rank_alternatives
from ikeanalyze.papers import PaperError

#: Weights from 0 to 1 in `ranking_curves`.
_POINTS: Final = 51

Rows = Iterator[Mapping[str, Any]]


def make_ranking_tables(names: Sequence[str], folder: Path) -> dict[str, pl.DataFrame]:
    """Rank by criteria files, and return the results as tables; no tables without names.

    Args:
        names: examples of `ikeanalyze rank`, or files `NAME.toml` relative to the folder.
        folder: of the report.

    Returns:
        Tables whose column `ranking` has the name of the file without `.toml`:

        * ranking_scores: alternative, place, score.
        * ranking_criteria: criterion, weight, alternative, grade, contribution.
        * ranking_parts: criterion, part, weight (within the criterion), alternative, value, grade.
        * ranking_turns: criterion, weight, above, below: the weights at which the order changes.
        * ranking_curves: criterion, weight, alternative, score: the scores with another weight of one criterion.

    Raises:
        PaperError: a file is missing or invalid.
    """
    rankings = {Path(name).stem: _rank(name, folder) for name in names}
    makers = {
        "ranking_scores": _list_scores,
        "ranking_criteria": _list_criteria,
        "ranking_parts": _list_parts,
        "ranking_turns": _list_turns,
        "ranking_curves": _list_curves,
    }
    return {
        table: pl.DataFrame(
            [{"ranking": name, **row} for name, ranking in rankings.items() for row in make(ranking)],
            infer_schema_length=None,
        )
        for table, make in makers.items()
        if rankings
    }


def _rank(name: str, folder: Path) -> Ranking:
    try:
        criteria = load_criteria(str(folder / name) if name.endswith(".toml") else name)
        return rank_alternatives(criteria, _refuse_dataset)
    except CriteriaError as error:
        raise PaperError(str(error)) from None


def _refuse_dataset(values: DatasetValues) -> Mapping[str, float]:
    raise CriteriaError(f"{values.dataset}: a report does not read datasets")


def _list_scores(ranking: Ranking) -> Rows:
    for place in ranking.places:
        yield {"alternative": place.name, "place": place.rank, "score": place.score}


def _list_criteria(ranking: Ranking) -> Rows:
    for criterion in ranking.ranked:
        for place in ranking.places:
            yield {
                "criterion": criterion.name,
                "weight": criterion.weight,
                "alternative": place.name,
                "grade": criterion.grades[place.name] if criterion.graded else None,
                "contribution": place.contributions[criterion.name] if criterion.graded else None,
            }


def _list_parts(ranking: Ranking) -> Rows:
    for criterion in ranking.ranked:
        for part in criterion.parts:
            for name, grade in part.grades.items():
                yield {
                    "criterion": criterion.name,
                    "part": part.name,
                    "weight": part.weight,
                    "alternative": name,
                    "value": part.values.get(name),
                    "grade": float(grade),
                }


def _list_turns(ranking: Ranking) -> Rows:
    for criterion in ranking.ranked:
        for turn in criterion.turns if criterion.graded else ():
            yield {"criterion": criterion.name, "weight": turn.weight, "above": turn.above, "below": turn.below}


def _list_curves(ranking: Ranking) -> Rows:
    for number, criterion in enumerate(ranking.ranked):
        for point in range(_POINTS if criterion.graded else 0):
            weight = point / (_POINTS - 1)
            scores = ranking.scores_at(number, weight).tolist()
            for name, score in zip(ranking.criteria.alternatives, scores, strict=True):
                yield {"criterion": criterion.name, "weight": weight, "alternative": name, "score": score}
