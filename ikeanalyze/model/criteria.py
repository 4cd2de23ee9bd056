"""What is to be ranked and by what: a TOML file with alternatives, criteria, weights and grades (docs/rank.md)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Final

from ikeanalyze.io.toml import TomlFileError, read_toml, toml_text
from ikeanalyze.model.ahp import CRITERIA_STEP, GRADE_STEP, Opinion
from ikeanalyze.model.grades import Function, Reference, Threshold

SHIPPED: Final = Path(__file__).with_name("rankings")

#: Weights are written with few digits: so far from 1 their sum may be.
_SUM_SLACK: Final = 2e-3
_MOST_ALTERNATIVES: Final = 200

_ROOT: Final = {"title", "source", "notes", "alternatives", "experts", "grades", "criterion", "difference"}
_PART: Final = {
    "name",
    "weight",
    "left_out",
    "unit",
    "meaning",
    "progression",
    "grades",
    "values",
    "measured",
    "by",
}
_MEASURED: Final = {"dataset", "metric", "by", "statistic", "where", "groups"}
_STATISTICS: Final = ("mean", "median", "p95", "p99")


class CriteriaError(ValueError):
    """A file that says nothing that can be ranked; one line with the key that is wrong."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Values that a dataset has."""

    dataset: Path  # what `batch` makes, or `report --format parquet`
    metric: str  # as in `compare --metric`
    by: str  # column whose values are the alternatives
    statistic: str  # "mean", "median", "p95" or "p99"
    where: Sequence[tuple[str, str]]  # column and value, as in `compare --where`
    groups: Mapping[str, str]  # alternative to value of `by`


@dataclass(frozen=True, slots=True)
class Part:
    """A criterion that alternatives have grades in."""

    key: str  # where it stands in the file
    name: str
    progression: float  # γ: a grade counts so many steps
    left_out: str | None  # why it has no grades; it then counts alike for all
    unit: str | None  # of the values
    grades: Mapping[str, float]  # by alternative; empty: they are made of values
    values: Mapping[str, float]  # by alternative; empty: there are none, or `measured` has them
    measured: Measured | None
    function: Function | None  # from values to grades


@dataclass(frozen=True, slots=True)
class Criterion:
    """A main criterion: parts with weights among themselves."""

    name: str
    parts: Sequence[Part]
    weights: Sequence[float] | None  # of the parts, adding up to 1; None: by opinions, or equal
    opinions: Sequence[Opinion]


@dataclass(frozen=True, slots=True)
class Criteria:
    """A whole file."""

    path: str
    title: str
    source: str | None
    notes: Sequence[str]
    alternatives: Sequence[str]
    criteria: Sequence[Criterion]
    weights: Sequence[float] | None  # of the criteria, adding up to 1; None: by opinions, or equal
    opinions: Sequence[Opinion]
    importance: Sequence[float]  # of the experts
    progression: Sequence[float]  # γ of the experts
    criteria_step: float
    grade_step: float


def shipped() -> list[str]:
    """Names of the examples that come with the package."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def criteria_text(name: str) -> str:
    """The text of the file of this path, or of the example of this name.

    Raises:
        CriteriaError: there is none.
    """
    with _named(name):
        return toml_text(str(_place(name)))


def read_criteria(name: str) -> Criteria:
    """What the file of this path, or the example of this name, says.

    Raises:
        CriteriaError: there is none, or it cannot be used.
    """
    with _named(name):
        return _criteria(name, _place(name).parent, read_toml(str(_place(name))))


@contextmanager
def _named(name: str) -> Iterator[None]:
    """What goes wrong, as an error that names the file."""
    try:
        yield
    except FileNotFoundError:
        known = ", ".join(shipped())
        raise CriteriaError(f"{name}: there is no such file; the examples are {known}") from None
    except OSError as error:
        raise CriteriaError(f"{name}: cannot be read: {error.strerror}") from None
    except (TomlFileError, CriteriaError) as error:
        raise CriteriaError(f"{name}: {error}") from None


def _place(name: str) -> Path:
    return SHIPPED / f"{name}.toml" if name in shipped() else Path(name)


def _criteria(name: str, folder: Path, content: Mapping[str, Any]) -> Criteria:
    _known("", content, _ROOT)
    alternatives = content.get("alternatives", [])
    if not _texts(alternatives) or not 2 <= len(set(alternatives)) == len(alternatives) <= _MOST_ALTERNATIVES:
        raise CriteriaError(f"alternatives: must be a list of 2 to {_MOST_ALTERNATIVES} names, each another one")
    experts = _table("experts", content.get("experts", {}))
    _known("experts", experts, {"importance", "progression", "step"})
    importance = _numbers("experts.importance", experts.get("importance", [1]), 0)
    progression = _numbers("experts.progression", experts.get("progression", [1] * len(importance)), 0)
    if len(progression) != len(importance) or not sum(importance):
        raise CriteriaError("experts: importance and progression need a number for each expert, and not all 0")
    grades = _table("grades", content.get("grades", {}))
    _known("grades", grades, {"step"})
    notes = content.get("notes", [])
    if not _texts(notes):
        raise CriteriaError("notes: must be a list of texts")
    given = _tables("criterion", content.get("criterion"), "criterion")
    criteria = [
        _criterion(f"criterion {n}", one, folder, alternatives, len(importance)) for n, one in enumerate(given, 1)
    ]
    names = [one.name for one in criteria]
    weights, opinions = _weighting("", content, given, names, "criterion", len(importance))
    return Criteria(
        path=name,
        title=_text("title", content.get("title", Path(name).stem)),
        source=None if "source" not in content else _text("source", content["source"]),
        notes=notes,
        alternatives=alternatives,
        criteria=criteria,
        weights=weights,
        opinions=opinions,
        importance=importance,
        progression=progression,
        criteria_step=_above_one("experts.step", experts.get("step", CRITERIA_STEP)),
        grade_step=_above_one("grades.step", grades.get("step", GRADE_STEP)),
    )


def _criterion(
    key: str, given: Mapping[str, Any], folder: Path, alternatives: Sequence[str], experts: int
) -> Criterion:
    name = _text(f"{key}.name", given.get("name"))
    key = f"criterion {name!r}"
    if "part" not in given:
        _known(key, given, _PART)
        part = _part(key, {**given, "name": name}, folder, alternatives)
        return Criterion(name, [part], [1.0], [])
    _known(key, given, {"name", "weight", "part", "difference"})
    parts_given = _tables(f"{key}.part", given["part"], "criterion.part")
    parts = []
    for n, one in enumerate(parts_given, 1):
        _known(f"{key}, part {n}", one, _PART)
        parts.append(_part(f"{key}, part {n}", one, folder, alternatives))
    weights, opinions = _weighting(key, given, parts_given, [part.name for part in parts], "part", experts)
    return Criterion(name, parts, weights, opinions)


def _part(key: str, given: Mapping[str, Any], folder: Path, alternatives: Sequence[str]) -> Part:
    name = _text(f"{key}.name", given.get("name"))
    key = key if repr(name) in key else f"{key} {name!r}"
    sources = [one for one in ("grades", "values", "measured", "left_out") if one in given]
    if len(sources) != 1:
        raise CriteriaError(f"{key}: needs one of grades, values, measured and left_out")
    measured = None
    if "measured" in given:
        measured = _measured(f"{key}.measured", _table(key, given["measured"]), folder, alternatives)
    needs_function = "values" in given or measured is not None
    if needs_function != ("by" in given):
        raise CriteriaError(f"{key}.by: goes with values or measured, as what makes grades of them")
    if "unit" in given:
        _text(f"{key}.unit", given["unit"])
    return Part(
        key=key,
        name=name,
        progression=_number(f"{key}.progression", given.get("progression", 1), 0),
        left_out=None if "left_out" not in given else _text(f"{key}.left_out", given["left_out"]),
        unit=given.get("unit"),
        grades=_by_alternative(f"{key}.grades", given.get("grades"), alternatives, None),
        values=_by_alternative(f"{key}.values", given.get("values"), alternatives, 0),
        measured=measured,
        function=_function(f"{key}.by", _table(f"{key}.by", given["by"])) if needs_function else None,
    )


def _by_alternative(key: str, given: Any, alternatives: Sequence[str], least: float | None) -> dict[str, float]:
    """A number for each alternative, or none at all."""
    if given is None:
        return {}
    table = _table(key, given)
    if unknown := table.keys() - set(alternatives):
        raise CriteriaError(f"{key}: {min(unknown)!r} is none of the alternatives")
    if missing := [one for one in alternatives if one not in table]:
        raise CriteriaError(f"{key}: has no number for {', '.join(missing)}")
    return {one: _number(f"{key}.{one}", table[one], least) for one in alternatives}


def _measured(key: str, given: Mapping[str, Any], folder: Path, alternatives: Sequence[str]) -> Measured:
    _known(key, given, _MEASURED)
    statistic = given.get("statistic", "mean")
    if _text(f"{key}.statistic", statistic) not in _STATISTICS:
        raise CriteriaError(f"{key}.statistic: there is no {statistic!r}; there are {', '.join(_STATISTICS)}")
    groups = _table(f"{key}.groups", given.get("groups", {one: one for one in alternatives}))
    if missing := [one for one in alternatives if one not in groups]:
        raise CriteriaError(f"{key}.groups: has no group for {', '.join(missing)}")
    where = _table(f"{key}.where", given.get("where", {}))
    return Measured(
        dataset=folder / _text(f"{key}.dataset", given.get("dataset")),
        metric=_text(f"{key}.metric", given.get("metric")),
        by=_text(f"{key}.by", given.get("by")),
        statistic=statistic,
        where=[(column, _plain(f"{key}.where.{column}", value)) for column, value in where.items()],
        groups={one: _plain(f"{key}.groups.{one}", groups[one]) for one in alternatives},
    )


def _function(key: str, given: Mapping[str, Any]) -> Function:
    if "steps" in given:
        _known(key, given, {"steps", "beyond"})
        steps = given["steps"]
        if not isinstance(steps, list) or not steps:
            raise CriteriaError(f"{key}.steps: must be a list of [bound, grade]")
        pairs = [_numbers(f"{key}.steps", step, None) for step in steps]
        if any(len(pair) != 2 for pair in pairs) or any(one[0] >= other[0] for one, other in pairwise(pairs)):
            raise CriteriaError(f"{key}.steps: must be pairs [bound, grade], bounds rising")
        beyond = _number(f"{key}.beyond", given.get("beyond", 0), None)
        return Threshold([(pair[0], pair[1]) for pair in pairs], beyond)
    if "reference" not in given:
        raise CriteriaError(f"{key}: needs steps or reference")
    _known(key, given, {"reference", "better", "worse", "more_is_better"})
    reference = _number(f"{key}.reference", given["reference"], 0)
    more = given.get("more_is_better", False)
    if not reference or not isinstance(more, bool):
        raise CriteriaError(f"{key}: reference is above 0, more_is_better is true or false")
    return Reference(
        reference,
        _number(f"{key}.better", given.get("better", 3), 0),
        _number(f"{key}.worse", given.get("worse", 2), 0),
        more,
    )


def _weighting(
    key: str,
    owner: Mapping[str, Any],
    given: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    what: str,
    experts: int,
) -> tuple[Sequence[float] | None, Sequence[Opinion]]:
    """Weights as they are written, or what experts say of them; neither: all are equal."""
    prefix = f"{key}, " if key else ""
    if len(set(names)) < len(names):
        raise CriteriaError(f"{prefix}{what}: two have the same name")
    weighted = ["weight" in one for one in given]
    if any(weighted):
        if not all(weighted) or "difference" in owner:
            raise CriteriaError(f"{prefix}weight: all have one, or none; with differences between them none has")
        weights = [
            _number(f"{prefix}{what} {name!r}.weight", one["weight"], 0) for name, one in zip(names, given, strict=True)
        ]
        if abs(sum(weights) - 1) > _SUM_SLACK:
            raise CriteriaError(f"{prefix}weight: they add up to {sum(weights):g}, and not to 1")
        return [weight / sum(weights) for weight in weights], []
    if "difference" not in owner:
        return None, []
    place = {name: n for n, name in enumerate(names)}
    opinions = []
    table = "criterion.difference" if key else "difference"
    for one in _tables(f"{prefix}difference", owner["difference"], table):
        _known(f"{prefix}difference", one, {"of", "to", "steps"})
        for side in ("of", "to"):
            if (name := _text(f"{prefix}difference.{side}", one.get(side))) not in place:
                raise CriteriaError(f"{prefix}difference.{side}: {name!r} is no {what}")
        steps = _numbers(f"{prefix}difference.steps", one.get("steps"), None)
        if one["of"] == one["to"]:
            raise CriteriaError(f"{prefix}difference: {one['of']!r} is compared with itself")
        if len(steps) != experts:
            raise CriteriaError(
                f"{prefix}difference of {one['of']!r} to {one['to']!r}: steps need a number for each of {experts} experts"
            )
        opinions.append(Opinion(place[one["of"]], place[one["to"]], steps))
    return None, opinions


def _known(key: str, given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := given.keys() - known:
        where = f"{key}: " if key else ""
        raise CriteriaError(f"{where}there is no {min(unknown)!r}; there are {', '.join(sorted(known))}")


def _table(key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CriteriaError(f"{key}: must be a table")
    return value


def _tables(key: str, value: Any, name: str) -> list[dict[str, Any]]:
    """Those under [[`name`]]."""
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        raise CriteriaError(f"{key}: there must be one [[{name}]] at least")
    return value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise CriteriaError(f"{key}: must be text")
    return value


def _plain(key: str, value: Any) -> str:
    """A text or a number, as text."""
    if not isinstance(value, str):
        _number(key, value, None)
    return str(value)


def _numbers(key: str, value: Any, least: float | None) -> list[float]:
    if not isinstance(value, list):
        raise CriteriaError(f"{key}: must be a list of numbers")
    return [_number(key, one, least) for one in value]


def _number(key: str, value: Any, least: float | None) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or abs(value) > 1e15  # before isfinite, which an integer may be too large for
        or not isfinite(value)
    ):
        raise CriteriaError(f"{key}: must be a number")
    if least is not None and value < least:
        raise CriteriaError(f"{key}: {value:g} is less than {least:g}")
    return float(value)


def _above_one(key: str, value: Any) -> float:
    number = _number(key, value, 0)
    if number <= 1:
        raise CriteriaError(f"{key}: a step is a factor above 1")
    return number
