"""A ranking: for people in a terminal and as Markdown, for programs as JSON and CSV."""

from collections.abc import Iterable, Iterator
from typing import Final

from ikeanalyze.model.ranking import Ranking
from ikeanalyze.render.section import FEW, Facts, Section, Table
from ikeanalyze.render.table import Column, number_columns, telling
from ikeanalyze.render.values import UNKNOWN, clean

#: Cells that a column of names keeps at least.
_NARROW: Final = 12


def sections(ranking: Ranking, *, every: bool) -> Iterator[Section]:
    """What was ranked by what, the order, and what would change it."""
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
        facts.append(("source", clean(criteria.source)))
    facts.extend(("note", clean(note)) for note in criteria.notes)
    yield Facts(clean(criteria.title), facts, level=1)
    yield _order(ranking, every=every)
    yield _grades(ranking, every=every)
    turns = list(_turns(ranking, every=every))
    if turns:
        names = _narrow(ranking.criteria.alternatives)
        columns = (
            Column("criterion", narrow=_narrow(one.name for one in ranking.ranked), middle=True),
            *number_columns("weight", "turns at"),
            Column("with more ahead", narrow=names, middle=True),
            Column("with less ahead", narrow=names, middle=True),
        )
        notes = ["weights at which two alternatives change places; the other weights keep their proportions"]
        shown = turns if every else turns[:FEW]
        yield Table("Turning points", columns, shown, more=len(turns) - len(shown), notes=notes)
    else:
        yield Facts("Turning points", [("none", "no weight of a single criterion changes the order")])


def _narrow(names: Iterable[str]) -> int:
    """To how many cells a column of names may be cut, so that they still differ."""
    return telling((clean(name) for name in names), _NARROW)


def _order(ranking: Ranking, *, every: bool) -> Table:
    graded = [one for one in ranking.ranked if one.graded]
    columns = (
        Column("#", right=True),
        Column("alternative", narrow=_narrow(ranking.criteria.alternatives), middle=True),
        Column("score", right=True),
        *number_columns(*(clean(one.name) for one in graded), optional=1),
    )
    rows = [
        (
            str(place.rank),
            clean(place.name),
            f"{place.score:.4f}",
            *(f"{place.contributions[one.name]:.3f}" for one in graded),
        )
        for place in ranking.places
    ]
    shown = rows if every else rows[:FEW]
    notes = ["scores add up to 1; of each criterion its weight times its grade, which add up to the order"]
    notes += [f"{clean(one.name)} is left out: it counts alike for all" for one in ranking.ranked if not one.graded]
    return Table("Ranking", columns, shown, more=len(rows) - len(shown), notes=notes)


def _grades(ranking: Ranking, *, every: bool) -> Table:
    names = ranking.criteria.alternatives
    labels = [clean(one.name) for one in ranking.ranked]
    labels += [f"  {clean(part.name)}" for one in ranking.ranked for part in one.parts]
    columns = (
        Column("criterion", narrow=telling(labels, 16), middle=True),
        Column("weight", right=True),
        *number_columns(*(clean(name) for name in names), optional=1),
    )
    rows = []
    for one in ranking.ranked:
        alone = len(one.parts) == 1 and one.parts[0].name == one.name
        whole = [f"{one.grades[name]:.3g}" if one.graded else UNKNOWN for name in names]
        rows.append([clean(one.name), f"{one.weight:.4f}", *whole])
        for part in () if alone else one.parts:
            grades = [f"{part.grades[name]:.3g}" if part.grades else UNKNOWN for name in names]
            rows.append([f"  {clean(part.name)}", f"{one.weight * part.weight:.4f}", *grades])
    shown = rows if every else rows[:FEW]
    return Table("Weights and grades", columns, shown, more=len(rows) - len(shown))


def _turns(ranking: Ranking, *, every: bool) -> Iterator[tuple[str, ...]]:
    for one in ranking.ranked:
        if not one.graded:
            continue
        nearest = sorted(one.turns, key=lambda turn: abs(turn.weight - one.weight))
        for turn in one.turns:
            if every or turn in nearest[:FEW]:
                yield (clean(one.name), f"{one.weight:.4f}", f"{turn.weight:.4f}", clean(turn.above), clean(turn.below))
