"""The file `claims.toml` of a report: what the paper states, and which query computes our value of it."""

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from ikeanalyze.io.toml import TomlFileError, decode_toml
from ikeanalyze.papers import PaperError

#: Where a text has the value of a claim or a quantity: `{id}`.
PLACEHOLDER: Final = re.compile(r"\{([a-z0-9-]+)\}")

Id = Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", description="lower-case words joined by -")]
Text = Annotated[str, Meta(min_length=1)]


class Verdict(StrEnum):
    """How our value compares with the paper's."""

    REPRODUCED = "reproduced"
    WITHIN = "reproduced within"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_MEASURABLE = "not measurable here"


class Quantity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that we compute, by a query over the tables of `data` or by a formula of `papers.formulas`."""

    id: Id
    item: Text  # the name of the quantity
    unit: str = ""
    sql: str = ""  # see `papers.queries.measure` for its columns
    statistic: Literal["mean", "median", "sum", "r_squared"] = "mean"  # of the rows of `sql`
    formula: str = ""  # its name
    arguments: dict[str, str | int | float | bool] = {}

    def __post_init__(self) -> None:
        """Check what types cannot express."""
        if self.sql and self.formula:
            raise ValueError("sql and formula exclude each other")

    @property
    def computed(self) -> bool:
        """Whether we have a value."""
        return bool(self.sql or self.formula)


class Claim(Quantity, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that the paper states.

    `kind` decides what is compared, and the unit of `tolerance`:

    * exact: a count or a size; the tolerance is in per cent.
    * ratio: a quantity with a spread; reproduced if our interval contains the paper's value; in per cent.
    * order: a quantity of another machine, of which only the order of magnitude is comparable; a factor.
    * lost: in a drawing, without a number.

    With the relation `above` or `below`, the claim is undecided if our interval contains the limit, or a number within
    the tolerance of it.
    """

    place: Text  # in the paper
    kind: Literal["exact", "ratio", "order", "lost"]
    value: float | None = None  # None: `kind` is lost
    relation: Literal["equal", "above", "below"] = "equal"  # the paper states a limit, or a direction
    tolerance: Annotated[float, Meta(ge=0)] = 0
    expect: Verdict
    why: str = ""  # a hypothesis about the difference; may contain {id}
    tested_by: tuple[Id, ...] = ()  # claims and quantities that test the hypothesis

    def __post_init__(self) -> None:
        """Check what types cannot express."""
        super().__post_init__()
        if (self.kind == "lost") != (self.value is None):
            raise ValueError("a claim has a value unless its kind is lost")
        if not self.computed and self.expect is not Verdict.NOT_MEASURABLE:
            raise ValueError(f"without sql and formula, expect is {Verdict.NOT_MEASURABLE}")
        if not self.why and self.expect is not Verdict.REPRODUCED:
            raise ValueError("why is missing: a hypothesis about the difference, or the reason why it is not measured")


class Recording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a scenario is run, as by the options of `ikeanalyze lab run`."""

    jobs: Annotated[int, Meta(ge=1, le=64)] = 1  # cases at once: for bytes and outcomes; it adds milliseconds to times
    interleave: bool = False  # the cases take turns: for costs and times that are compared
    fixed: bool = False  # the number of handshakes is what is measured: --quick and -n leave it as in the scenario

    def __post_init__(self) -> None:
        """Check what types cannot express."""
        if self.interleave and self.jobs > 1:
            raise ValueError("jobs and interleave exclude each other")


class CasePrediction(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Predictions of recorded cases by `ikeanalyze predict`, as rows of the table `predictions` of `data`."""

    id: Id  # the column `prediction`
    experiment: Text  # the scenario
    case: dict[str, str | int | float | bool] = {}  # values of keys of the scenario that its cases have; {}: all cases
    options: Text  # of `ikeanalyze predict`, as on the command line


class KeptTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `data` keeps of a table."""

    columns: tuple[Text, ...] = ()  # (): all
    without: tuple[Text, ...] = ()  # experiments whose rows are left out


class ReportTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of our own results."""

    title: Text
    sql: Text
    by: tuple[str, ...] = ()  # columns of the groups; the other columns become means with intervals. (): no groups
    note: str = ""


class ReportFigure(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A figure of our own results.

    Columns of `sql`: `bars`: label, value; `stacked`: label, part, value; `intervals`: label, value (a row for each
    observation); `points`: group, x, value (likewise); `line`: the same, and the line of least squares through all
    observations; `curves`: group, x, value, and optionally `mark`, values of x at which a line is drawn; `means`: as
    `points`, over the band of `predicted`; `densities`: group, value (likewise), on a logarithmic axis if the values
    need it. `paper-overhead` draws the figure with this id of `ikeanalyze overhead paper`.
    """

    id: Id
    kind: Literal["bars", "stacked", "intervals", "points", "line", "curves", "means", "densities", "paper-overhead"]
    title: str = ""
    caption: str = ""
    sql: str = ""
    predicted: str = ""  # `means`: a query with the columns group, x, value, low, high
    x_title: str = ""
    y_title: str = ""
    log: bool = False


class ClaimFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file `claims.toml`."""

    title: Text
    source: Text  # authors and title of the paper
    question: Text
    answer: Text  # may contain {id}
    figure: str = ""  # id of the figure next to the answer
    captures: tuple[Text, ...] = ()  # small recordings that formulas need, as `SCENARIO/NAME.pcapng`; kept in `data`
    recording: dict[str, Recording] = {}  # by scenario, without .toml; the others: one case at a time
    data: dict[str, KeptTable] = {}  # tables that `data` keeps. {}: all
    predictions: tuple[CasePrediction, ...] = ()  # the table `predictions`
    views: dict[str, Text] = {}  # queries that later queries use as tables, in this order
    claims: tuple[Claim, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    columns: dict[str, Text] = {}  # meaning of columns; with it, `data/README.md` describes those of all tables
    tables: tuple[ReportTable, ...] = ()
    figures: tuple[ReportFigure, ...] = ()
    rankings: tuple[Text, ...] = ()  # criteria: examples of `ikeanalyze rank`, or files here; `papers/rankings.py`

    def __post_init__(self) -> None:
        """Check that ids are unique and references are valid."""
        ids = [quantity.id for quantity in self.all_quantities]
        if repeated := {name for name in ids if ids.count(name) > 1}:
            raise ValueError(f"the id {min(repeated)} is used more than once")
        for place, name in self._references():
            if name not in ids:
                raise ValueError(f"{place}: no claim or quantity has the id {name}")
        if self.figure and self.figure not in {figure.id for figure in self.figures}:
            raise ValueError(f"figure: no figure has the id {self.figure}")

    @property
    def all_quantities(self) -> tuple[Quantity, ...]:
        """Claims and quantities."""
        return (*self.claims, *self.quantities)

    def _references(self) -> Iterator[tuple[str, str]]:
        texts = [("answer", self.answer), *((claim.id, claim.why) for claim in self.claims)]
        yield from ((place, match[1]) for place, text in texts for match in PLACEHOLDER.finditer(text))
        yield from ((claim.id, name) for claim in self.claims for name in claim.tested_by)


def load_claims(path: Path) -> ClaimFile:
    """Read and check a file `claims.toml`.

    Raises:
        PaperError: it cannot be read or is invalid.
    """
    try:
        return decode_toml(str(path), ClaimFile)
    except OSError as error:
        raise PaperError(f"{path}: {error.strerror}") from None
    except TomlFileError as error:
        raise PaperError(f"{path}: {error}") from None


def substitute(text: str, values: dict[str, Any]) -> str:
    """Return the text with each `{id}` replaced by the value of that id."""
    return PLACEHOLDER.sub(lambda match: str(values[match[1]]), text)
