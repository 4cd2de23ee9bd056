"""Loads the criteria of a ranking from a TOML file: alternatives, criteria, weights and grades (docs/rank.md)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field

from ikeanalyze.io.toml import TomlFileError, decode_toml, load_toml_text
from ikeanalyze.model.ranking.ahp import CRITERIA_STEP, GRADE_STEP, Opinion
from ikeanalyze.model.ranking.grades import Function, ReferenceGrade, ThresholdGrade

SHIPPED: Final = Path(__file__).with_name("examples")

#: Maximum difference of the sum of the weights from 1, since weights have few digits.
_SUM_TOLERANCE: Final = 2e-3
_MAX_ALTERNATIVES: Final = 200
_MAX_NUMBER: Final = 1e15

_Text = Annotated[str, Meta(min_length=1)]
_Number = Annotated[float, Meta(ge=-_MAX_NUMBER, le=_MAX_NUMBER, description="a number")]
_NonNegative = Annotated[float, Meta(ge=0, le=_MAX_NUMBER, description="a number of at least 0")]
_Positive = Annotated[float, Meta(gt=0, le=_MAX_NUMBER, description="a number above 0")]
_Factor = Annotated[float, Meta(gt=1, le=_MAX_NUMBER, description="a factor above 1")]
_Integer = Annotated[int, Meta(ge=-int(_MAX_NUMBER), le=int(_MAX_NUMBER), description="a number")]
_Plain = str | _Integer | _Number


class CriteriaError(ValueError):
    """A criteria file is invalid; the message has the file and the key."""


@dataclass(frozen=True, slots=True)
class DatasetValues:
    """Values taken from a dataset."""

    dataset: Path  # written by `batch` or by `report --format parquet`
    metric: str  # as in `compare --metric`
    by: str  # column whose values are the alternatives
    statistic: str  # "mean", "median", "p95" or "p99"
    where: Sequence[tuple[str, str]]  # column and value, as in `compare --where`
    groups: Mapping[str, str]  # alternative to value of `by`


@dataclass(frozen=True, slots=True)
class SubCriterion:
    """A criterion with grades of the alternatives."""

    key: str  # location in the file, for errors
    name: str
    progression: float  # γ: number of steps that a grade counts
    left_out: str | None  # why it has no grades; all alternatives are then equal
    unit: str | None  # of the values
    grades: Mapping[str, float]  # by alternative; empty: computed from values
    values: Mapping[str, float]  # by alternative; empty: none, or in `measured`
    measured: DatasetValues | None
    function: Function | None  # from values to grades


@dataclass(frozen=True, slots=True)
class Criterion:
    """A main criterion: parts and their weights."""

    name: str
    parts: Sequence[SubCriterion]
    weights: Sequence[float] | None  # of the parts, adding up to 1; None: from opinions, or equal
    opinions: Sequence[Opinion]


@dataclass(frozen=True, slots=True)
class Criteria:
    """The contents of a criteria file."""

    path: str
    title: str
    source: str | None
    notes: Sequence[str]
    alternatives: Sequence[str]
    criteria: Sequence[Criterion]
    weights: Sequence[float] | None  # of the criteria, adding up to 1; None: from opinions, or equal
    opinions: Sequence[Opinion]
    importance: Sequence[float]  # of the experts
    progression: Sequence[float]  # γ of the experts
    criteria_step: float
    grade_step: float


class _MeasuredTable(Struct):
    """Key `measured` of a criterion."""

    dataset: _Text
    metric: _Text
    by: _Text
    statistic: Literal["mean", "median", "p95", "p99"] = "mean"
    where: dict[str, _Plain] = {}
    groups: dict[str, _Plain] | None = None  # None: the names of the alternatives


class _FunctionTable(Struct):
    """Key `by` of a criterion: a `ThresholdGrade` (steps, beyond) or a `ReferenceGrade` (all others)."""

    steps: Annotated[list[tuple[_Number, _Number]], Meta(min_length=1)] | None = None  # bound and grade
    beyond: _Number | None = None
    reference: _Positive | None = None
    better: _NonNegative | None = None
    worse: _NonNegative | None = None
    more_is_better: bool | None = None

    def __post_init__(self) -> None:
        reference_values = (self.reference, self.better, self.worse, self.more_is_better)
        if self.steps is None and self.reference is None:
            raise ValueError("needs steps or reference")
        if any(value is not None for value in (reference_values if self.steps else (self.beyond,))):
            raise ValueError("needs either steps and beyond, or reference, better, worse and more_is_better")
        if any(pair[0] >= following[0] for pair, following in pairwise(self.steps or ())):
            raise ValueError("the bounds of steps must rise")

    def make_function(self) -> Function:
        if self.steps is not None:
            return ThresholdGrade(self.steps, self.beyond or 0.0)
        better, worse = (default if value is None else value for value, default in ((self.better, 3), (self.worse, 2)))
        return ReferenceGrade(self.reference or 0.0, better, worse, bool(self.more_is_better))


class _PartTable(Struct, kw_only=True):
    """A [[criterion.part]], or a [[criterion]] without parts."""

    name: _Text
    weight: _NonNegative | None = None
    left_out: _Text | None = None
    unit: _Text | None = None
    meaning: str | None = None  # for readers of the file
    progression: _NonNegative = 1.0
    grades: dict[str, _Number] | None = None
    values: dict[str, _NonNegative] | None = None
    measured: _MeasuredTable | None = None
    by: _FunctionTable | None = None

    def check(self) -> None:
        """Raise `ValueError` unless the part has one source of grades, and a function if that has values."""
        if sum(source is not None for source in (self.grades, self.values, self.measured, self.left_out)) != 1:
            raise ValueError("needs exactly one of grades, values, measured and left_out")
        if (self.values is None and self.measured is None) != (self.by is None):
            problem = "values and measured need by, which converts them to grades; grades and left_out exclude it"
            raise ValueError(problem)


class _Difference(Struct):
    """A [[difference]] or [[criterion.difference]]."""

    of: _Text
    to: _Text
    steps: list[_Number]


class _CriterionTable(_PartTable, kw_only=True):
    """A [[criterion]]."""

    part: Annotated[list[_PartTable], Meta(min_length=1)] | None = None
    difference: Annotated[list[_Difference], Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        part_keys = [key for key in _PartTable.__struct_fields__ if key not in ("name", "weight")]
        if self.part is None:
            self.check()
            if self.difference is not None:
                raise ValueError("difference needs [[criterion.part]]")
        elif misplaced := [key for key in part_keys if getattr(self, key) not in (None, 1.0)]:
            raise ValueError(f"{misplaced[0]} belongs in [[criterion.part]]")


class _Experts(Struct):
    """Table `experts`."""

    importance: list[_NonNegative] = field(default_factory=lambda: [1.0])
    progression: list[_NonNegative] | None = None  # None: 1 each
    step: _Factor = CRITERIA_STEP

    def __post_init__(self) -> None:
        self.progression = [1.0] * len(self.importance) if self.progression is None else self.progression
        if len(self.progression) != len(self.importance) or not sum(self.importance):
            raise ValueError("importance and progression need a number for each expert, and not all 0")


class _Grades(Struct):
    """Table `grades`."""

    step: _Factor = GRADE_STEP


class _CriteriaFile(Struct, kw_only=True):
    """A criteria file."""

    title: _Text | None = None
    source: _Text | None = None
    notes: list[_Text] = []
    alternatives: Annotated[list[_Text], Meta(min_length=2, max_length=_MAX_ALTERNATIVES)]
    experts: _Experts = field(default_factory=_Experts)
    grades: _Grades = field(default_factory=_Grades)
    criterion: Annotated[list[_CriterionTable], Meta(min_length=1)]
    difference: Annotated[list[_Difference], Meta(min_length=1)] | None = None

    def __post_init__(self) -> None:
        if len(set(self.alternatives)) < len(self.alternatives):
            raise ValueError("alternatives: names must be unique")


def list_examples() -> list[str]:
    """Return the names of the examples of ikeanalyze."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def load_criteria_text(name: str) -> str:
    """Return the text of the file at this path, or of the example with this name.

    Raises:
        CriteriaError: it does not exist or cannot be read.
    """
    with _name_in_errors(name):
        return load_toml_text(str(_find_file(name)))


def load_criteria(name: str) -> Criteria:
    """Read the file at this path, or the example with this name.

    Raises:
        CriteriaError: it does not exist or is invalid.
    """
    path = _find_file(name)
    with _name_in_errors(name):
        return _make_criteria(name, path.parent, decode_toml(str(path), _CriteriaFile))


@contextmanager
def _name_in_errors(name: str) -> Iterator[None]:
    """Add the name of the file to errors."""
    try:
        yield
    except FileNotFoundError:
        known = ", ".join(list_examples())
        raise CriteriaError(f"{name}: no such file; the examples are {known}") from None
    except OSError as error:
        raise CriteriaError(f"{name}: cannot be read: {error.strerror}") from None
    except (TomlFileError, CriteriaError) as error:
        raise CriteriaError(f"{name}: {error}") from None


def _find_file(name: str) -> Path:
    return SHIPPED / f"{name}.toml" if name in list_examples() else Path(name)


def _make_criteria(name: str, directory: Path, content: _CriteriaFile) -> Criteria:
    experts = content.experts
    criteria = [_make_criterion(table, directory, content) for table in content.criterion]
    weights, opinions = _parse_weights("", content.difference, content.criterion, "criterion", len(experts.importance))
    return Criteria(
        path=name,
        title=content.title or Path(name).stem,
        source=content.source,
        notes=content.notes,
        alternatives=content.alternatives,
        criteria=criteria,
        weights=weights,
        opinions=opinions,
        importance=experts.importance,
        progression=experts.progression or (),
        criteria_step=experts.step,
        grade_step=content.grades.step,
    )


def _make_criterion(table: _CriterionTable, directory: Path, content: _CriteriaFile) -> Criterion:
    key = f"criterion {table.name!r}"
    if table.part is None:
        return Criterion(table.name, [_make_part(key, table, directory, content.alternatives)], [1.0], [])
    parts = [
        _make_part(f"{key}, part {number} {part.name!r}", part, directory, content.alternatives)
        for number, part in enumerate(table.part, 1)
    ]
    experts = len(content.experts.importance)
    return Criterion(table.name, parts, *_parse_weights(f"{key}, ", table.difference, table.part, "part", experts))


def _make_part(key: str, table: _PartTable, directory: Path, alternatives: Sequence[str]) -> SubCriterion:
    try:
        table.check()
    except ValueError as error:
        raise CriteriaError(f"{key}: {error}") from None
    measured = None
    if table.measured is not None:
        measured = _make_dataset_values(f"{key}.measured", table.measured, directory, alternatives)
    return SubCriterion(
        key=key,
        name=table.name,
        progression=table.progression,
        left_out=table.left_out,
        unit=table.unit,
        grades=_check_values(f"{key}.grades", table.grades, alternatives),
        values=_check_values(f"{key}.values", table.values, alternatives),
        measured=measured,
        function=table.by.make_function() if table.by else None,
    )


def _check_values(key: str, values: Mapping[str, float] | None, alternatives: Sequence[str]) -> Mapping[str, float]:
    """Return the values in the order of the alternatives; empty if there are none."""
    if values is None:
        return {}
    if unknown := values.keys() - set(alternatives):
        raise CriteriaError(f"{key}: {min(unknown)!r} is not an alternative")
    if missing := [name for name in alternatives if name not in values]:
        raise CriteriaError(f"{key}: no value for {', '.join(missing)}")
    return {name: values[name] for name in alternatives}


def _make_dataset_values(
    key: str, table: _MeasuredTable, directory: Path, alternatives: Sequence[str]
) -> DatasetValues:
    names = {name: name for name in alternatives} if table.groups is None else table.groups
    if missing := [name for name in alternatives if name not in names]:
        raise CriteriaError(f"{key}.groups: no group for {', '.join(missing)}")
    where = [(column, str(value)) for column, value in table.where.items()]
    groups = {name: str(names[name]) for name in alternatives}
    return DatasetValues(directory / table.dataset, table.metric, table.by, table.statistic, where, groups)


def _parse_weights(
    prefix: str, differences: Sequence[_Difference] | None, tables: Sequence[_PartTable], kind: str, experts: int
) -> tuple[Sequence[float] | None, Sequence[Opinion]]:
    """Return the weights in the file, or the opinions of the experts; without both all weights are equal.

    Args:
        prefix: start of error messages.
        differences: opinions of the experts.
        tables: the weighted criteria or parts.
        kind: "criterion" or "part", for error messages.
        experts: number of experts.
    """
    places = {table.name: place for place, table in enumerate(tables)}
    if len(places) < len(tables):
        raise CriteriaError(f"{prefix}{kind}: names must be unique")
    weights = [table.weight for table in tables if table.weight is not None]
    if weights:
        if len(weights) < len(tables) or differences is not None:
            raise CriteriaError(f"{prefix}weight: give either all weights, or none; with differences give none")
        total = fsum(weights)  # exact: `sum` differs between versions of Python
        if abs(total - 1) > _SUM_TOLERANCE:
            raise CriteriaError(f"{prefix}weight: the sum is {total:g}, but must be 1")
        return [weight / total for weight in weights], []
    opinions = []
    for difference in differences or ():
        of, to, steps = difference.of, difference.to, difference.steps
        for side, name in (("of", of), ("to", to)):
            if name not in places:
                raise CriteriaError(f"{prefix}difference.{side}: unknown {kind} {name!r}")
        if of == to:
            raise CriteriaError(f"{prefix}difference: {of!r} is compared with itself")
        if len(steps) != experts:
            difference_key = f"{prefix}difference of {of!r} to {to!r}"
            raise CriteriaError(f"{difference_key}: steps needs {experts} numbers, one per expert")
        opinions.append(Opinion(places[of], places[to], steps))
    return None, opinions
