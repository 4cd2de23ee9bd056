"""The sections of a ranking in text formats: alternatives, weights and grades, turning points."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from ikeanalyze.model.ranking.ranking import AlternativeRank, RankedCriterion, Ranking, RankSwap
from ikeanalyze.render.core.section import FEW, Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, min_distinct_width
from ikeanalyze.render.core.values import UNKNOWN, escape_text

#: Minimum cells of a column of names.
_MIN_NAME_WIDTH: Final = 12
#: A criterion or, indented, a part of one: name, weight, and grades by alternative.
_GradesRow = tuple[str, float, Mapping[str, float]]


def render_sections(ranking: Ranking, *, every: bool) -> Iterator[Section]:
    """The criteria, the ranked alternatives, and the weights at which their order changes."""
    criteria = ranking.criteria
    facts = [
        ("alternatives", f"{len(criteria.alternatives):,}"),
        ("method", "multiplicative analytic hierarchy process"),
        (
            "steps",
            f"between criteria a factor of {criteria.criteria_step:.4g}, between grades of {criteria.grade_step:.4g}",
        ),
    ]
    if criteria.source is not None:
        facts.append(("source", escape_text(criteria.source)))
    facts.extend(("note", escape_text(note)) for note in criteria.notes)
    yield KeyValueSection(escape_text(criteria.title), facts, level=1)
    yield _render_ranking_table(ranking, every=every)
    yield _render_grade_table(ranking, every=every)
    if turns := list(_list_turns(ranking, every=every)):
        criterion_width = _narrow(criterion.name for criterion in ranking.ranked)
        names = _narrow(ranking.criteria.alternatives)
        columns: Columns[tuple[RankedCriterion, RankSwap]] = [
            (TableColumn("criterion", narrow=criterion_width, middle=True), lambda turn: turn[0].name),
            (TableColumn("weight", right=True), lambda turn: f"{turn[0].weight:.4f}"),
            (TableColumn("turns at", right=True), lambda turn: f"{turn[1].weight:.4f}"),
            (TableColumn("with more ahead", narrow=names, middle=True), lambda turn: turn[1].above),
            (TableColumn("with less ahead", narrow=names, middle=True), lambda turn: turn[1].below),
        ]
        notes = ["weights at which two alternatives change places; the other weights keep their proportions"]
        yield tabulate("Turning points", turns, columns, every=every, notes=notes)
    else:
        yield KeyValueSection("Turning points", [("none", "no weight of a single criterion changes the order")])


def _narrow(names: Iterable[str]) -> int:
    """The cells to which names can be cut so that they still differ."""
    return min_distinct_width((escape_text(name) for name in names), _MIN_NAME_WIDTH)


def _render_ranking_table(ranking: Ranking, *, every: bool) -> TableSection:
    graded = [criterion.name for criterion in ranking.ranked if criterion.graded]
    names = _narrow(ranking.criteria.alternatives)
    columns: Columns[AlternativeRank] = [
        (TableColumn("#", right=True), lambda place: str(place.rank)),
        (TableColumn("alternative", narrow=names, middle=True), lambda place: place.name),
        (TableColumn("score", right=True), lambda place: f"{place.score:.4f}"),
        *(
            (TableColumn(escape_text(name), right=True, optional=1), partial(_format_contribution, name))
            for name in graded
        ),
    ]
    notes = ["scores add up to 1; of each criterion its weight times its grade, which add up to the order"]
    notes += [
        f"{escape_text(criterion.name)} is left out: its grades do not differ"
        for criterion in ranking.ranked
        if not criterion.graded
    ]
    return tabulate("Ranking", ranking.places, columns, every=every, notes=notes)


def _format_contribution(criterion: str, place: AlternativeRank) -> str:
    return f"{place.contributions[criterion]:.3f}"


def _render_grade_table(ranking: Ranking, *, every: bool) -> TableSection:
    rows: list[_GradesRow] = []
    for criterion in ranking.ranked:
        rows.append((criterion.name, criterion.weight, criterion.grades if criterion.graded else {}))
        if [part.name for part in criterion.parts] != [criterion.name]:
            rows += [(f"  {part.name}", criterion.weight * part.weight, part.grades) for part in criterion.parts]
    labels = [escape_text(criterion.name) for criterion in ranking.ranked]
    labels += [f"  {escape_text(part.name)}" for criterion in ranking.ranked for part in criterion.parts]
    grades = (
        (TableColumn(escape_text(name), right=True, optional=1), partial(_format_grade, name))
        for name in ranking.criteria.alternatives
    )
    columns: Columns[_GradesRow] = [
        (TableColumn("criterion", narrow=min_distinct_width(labels, 16), middle=True), lambda row: row[0]),
        (TableColumn("weight", right=True), lambda row: f"{row[1]:.4f}"),
        *grades,
    ]
    return tabulate("Weights and grades", rows, columns, every=every)


def _format_grade(alternative: str, row: _GradesRow) -> str:
    return f"{row[2][alternative]:.3g}" if row[2] else UNKNOWN


def _list_turns(ranking: Ranking, *, every: bool) -> Iterator[tuple[RankedCriterion, RankSwap]]:
    for criterion in ranking.ranked:
        nearest = sorted(criterion.turns, key=lambda turn: abs(turn.weight - criterion.weight))
        if criterion.graded:
            yield from ((criterion, turn) for turn in criterion.turns if every or turn in nearest[:FEW])
