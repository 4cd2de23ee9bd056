"""A ranking: for people in a terminal and as Markdown, for programs as JSON and CSV."""

from collections.abc import Iterable, Iterator
from typing import Final

from ikeanalyze.model.ranking.ranking import Ranking
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, min_distinct_width, number_columns
from ikeanalyze.render.core.values import UNKNOWN, escape_text

#: Cells that a column of names keeps at least.
_NARROW: Final = 12


def render_sections(ranking: Ranking, *, every: bool) -> Iterator[Section]:
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
        facts.append(("source", escape_text(criteria.source)))
    facts.extend(("note", escape_text(note)) for note in criteria.notes)
    yield KeyValueSection(escape_text(criteria.title), facts, level=1)
    yield _order(ranking, every=every)
    yield _grades(ranking, every=every)
    turns = list(_turns(ranking, every=every))
    if turns:
        names = _narrow(ranking.criteria.alternatives)
        columns = (
            TableColumn("criterion", narrow=_narrow(one.name for one in ranking.ranked), middle=True),
            *number_columns("weight", "turns at"),
            TableColumn("with more ahead", narrow=names, middle=True),
            TableColumn("with less ahead", narrow=names, middle=True),
        )
        notes = ["weights at which two alternatives change places; the other weights keep their proportions"]
        shown = turns if every else turns[:FEW]
        yield TableSection("Turning points", columns, shown, more=len(turns) - len(shown), notes=notes)
    else:
        yield KeyValueSection("Turning points", [("none", "no weight of a single criterion changes the order")])


def _narrow(names: Iterable[str]) -> int:
    """To how many cells a column of names may be cut, so that they still differ."""
    return min_distinct_width((escape_text(name) for name in names), _NARROW)


def _order(ranking: Ranking, *, every: bool) -> TableSection:
    graded = [one for one in ranking.ranked if one.graded]
    columns = (
        TableColumn("#", right=True),
        TableColumn("alternative", narrow=_narrow(ranking.criteria.alternatives), middle=True),
        TableColumn("score", right=True),
        *number_columns(*(escape_text(one.name) for one in graded), optional=1),
    )
    rows = [
        (
            str(place.rank),
            escape_text(place.name),
            f"{place.score:.4f}",
            *(f"{place.contributions[one.name]:.3f}" for one in graded),
        )
        for place in ranking.places
    ]
    shown = rows if every else rows[:FEW]
    notes = ["scores add up to 1; of each criterion its weight times its grade, which add up to the order"]
    notes += [
        f"{escape_text(one.name)} is left out: it counts alike for all" for one in ranking.ranked if not one.graded
    ]
    return TableSection("Ranking", columns, shown, more=len(rows) - len(shown), notes=notes)


def _grades(ranking: Ranking, *, every: bool) -> TableSection:
    names = ranking.criteria.alternatives
    labels = [escape_text(one.name) for one in ranking.ranked]
    labels += [f"  {escape_text(part.name)}" for one in ranking.ranked for part in one.parts]
    columns = (
        TableColumn("criterion", narrow=min_distinct_width(labels, 16), middle=True),
        TableColumn("weight", right=True),
        *number_columns(*(escape_text(name) for name in names), optional=1),
    )
    rows = []
    for one in ranking.ranked:
        alone = len(one.parts) == 1 and one.parts[0].name == one.name
        whole = [f"{one.grades[name]:.3g}" if one.graded else UNKNOWN for name in names]
        rows.append([escape_text(one.name), f"{one.weight:.4f}", *whole])
        for part in () if alone else one.parts:
            grades = [f"{part.grades[name]:.3g}" if part.grades else UNKNOWN for name in names]
            rows.append([f"  {escape_text(part.name)}", f"{one.weight * part.weight:.4f}", *grades])
    shown = rows if every else rows[:FEW]
    return TableSection("Weights and grades", columns, shown, more=len(rows) - len(shown))


def _turns(ranking: Ranking, *, every: bool) -> Iterator[tuple[str, ...]]:
    for one in ranking.ranked:
        if not one.graded:
            continue
        nearest = sorted(one.turns, key=lambda turn: abs(turn.weight - one.weight))
        for turn in one.turns:
            if every or turn in nearest[:FEW]:
                yield (
                    escape_text(one.name),
                    f"{one.weight:.4f}",
                    f"{turn.weight:.4f}",
                    escape_text(turn.above),
                    escape_text(turn.below),
                )
