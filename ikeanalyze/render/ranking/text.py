"""The sections of a ranking in text formats: alternatives, weights and grades, turning points."""

from collections.abc import Iterable, Iterator
from typing import Final

from ikeanalyze.model.ranking.ranking import Ranking
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection, make_table
from ikeanalyze.render.core.table import TableColumn, min_distinct_width, number_columns
from ikeanalyze.render.core.values import UNKNOWN, escape_text

#: Minimum cells of a column of names.
_MIN_NAME_WIDTH: Final = 12


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
    yield _order(ranking, every=every)
    yield _grades(ranking, every=every)
    turns = list(_turns(ranking, every=every))
    if turns:
        names = _narrow(ranking.criteria.alternatives)
        columns = (
            TableColumn("criterion", narrow=_narrow(criterion.name for criterion in ranking.ranked), middle=True),
            *number_columns("weight", "turns at"),
            TableColumn("with more ahead", narrow=names, middle=True),
            TableColumn("with less ahead", narrow=names, middle=True),
        )
        notes = ["weights at which two alternatives change places; the other weights keep their proportions"]
        yield make_table("Turning points", columns, turns, every=every, notes=notes)
    else:
        yield KeyValueSection("Turning points", [("none", "no weight of a single criterion changes the order")])


def _narrow(names: Iterable[str]) -> int:
    """The cells to which names can be cut so that they still differ."""
    return min_distinct_width((escape_text(name) for name in names), _MIN_NAME_WIDTH)


def _order(ranking: Ranking, *, every: bool) -> TableSection:
    graded = [criterion for criterion in ranking.ranked if criterion.graded]
    columns = (
        TableColumn("#", right=True),
        TableColumn("alternative", narrow=_narrow(ranking.criteria.alternatives), middle=True),
        TableColumn("score", right=True),
        *number_columns(*(escape_text(criterion.name) for criterion in graded), optional=1),
    )
    rows = [
        (
            str(place.rank),
            escape_text(place.name),
            f"{place.score:.4f}",
            *(f"{place.contributions[criterion.name]:.3f}" for criterion in graded),
        )
        for place in ranking.places
    ]
    notes = ["scores add up to 1; of each criterion its weight times its grade, which add up to the order"]
    notes += [
        f"{escape_text(criterion.name)} is left out: its grades do not differ"
        for criterion in ranking.ranked
        if not criterion.graded
    ]
    return make_table("Ranking", columns, rows, every=every, notes=notes)


def _grades(ranking: Ranking, *, every: bool) -> TableSection:
    names = ranking.criteria.alternatives
    labels = [escape_text(criterion.name) for criterion in ranking.ranked]
    labels += [f"  {escape_text(part.name)}" for criterion in ranking.ranked for part in criterion.parts]
    columns = (
        TableColumn("criterion", narrow=min_distinct_width(labels, 16), middle=True),
        TableColumn("weight", right=True),
        *number_columns(*(escape_text(name) for name in names), optional=1),
    )
    rows = []
    for criterion in ranking.ranked:
        alone = len(criterion.parts) == 1 and criterion.parts[0].name == criterion.name
        grades = [f"{criterion.grades[name]:.3g}" if criterion.graded else UNKNOWN for name in names]
        rows.append([escape_text(criterion.name), f"{criterion.weight:.4f}", *grades])
        for part in () if alone else criterion.parts:
            grades = [f"{part.grades[name]:.3g}" if part.grades else UNKNOWN for name in names]
            rows.append([f"  {escape_text(part.name)}", f"{criterion.weight * part.weight:.4f}", *grades])
    return make_table("Weights and grades", columns, rows, every=every)


def _turns(ranking: Ranking, *, every: bool) -> Iterator[tuple[str, ...]]:
    for criterion in ranking.ranked:
        if not criterion.graded:
            continue
        nearest = sorted(criterion.turns, key=lambda turn: abs(turn.weight - criterion.weight))
        for turn in criterion.turns:
            if every or turn in nearest[:FEW]:
                yield (
                    escape_text(criterion.name),
                    f"{criterion.weight:.4f}",
                    f"{turn.weight:.4f}",
                    escape_text(turn.above),
                    escape_text(turn.below),
                )
