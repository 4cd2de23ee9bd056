"""A report: its folder, and its claims with our values and verdicts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import Claim, ClaimFile, Verdict, load_claims
from ikeanalyze.papers.queries import Measurement, Tables, measure, run_sql
from ikeanalyze.papers.rankings import make_ranking_tables
from ikeanalyze.papers.verdicts import Judgement, can_differ_by_chance, judge

_CLAIMS: Final = "claims.toml"


@dataclass(frozen=True, slots=True)
class ReportFolder:
    """The folder of a report: a short title, after the number of a paper if it is about one (`004-satellite`)."""

    path: Path

    @property
    def number(self) -> str:
        """What a user names the report by: the number of its paper, or else the name of the folder."""
        number = self.path.name.partition("-")[0]
        return number if number.isdecimal() else self.path.name

    @property
    def claims(self) -> Path:
        """The file with the claims."""
        return self.path / _CLAIMS

    @property
    def data(self) -> Path:
        """The folder with the tables."""
        return self.path / "data"

    @property
    def environment(self) -> Path:
        """The file that describes where the data were recorded."""
        return self.path / "environment.json"

    @property
    def scenarios(self) -> list[Path]:
        """The scenarios of the lab, by name."""
        return sorted((self.path / "scenarios").glob("*.toml"))


@dataclass(frozen=True, slots=True)
class EvaluatedClaim:
    """A claim, our value, and the verdict."""

    claim: Claim
    ours: Measurement | None
    judgement: Judgement

    @property
    def is_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.judgement.verdict is self.claim.expect

    @property
    def is_within_chance(self) -> bool:
        """Whether the verdict is the expected one, or differs from it by chance (see `can_differ_by_chance`)."""
        return can_differ_by_chance(self.claim, self.judgement.verdict, self.claim.expect)


@dataclass(frozen=True, slots=True)
class EvaluatedReport:
    """A report with everything that its pages show."""

    folder: ReportFolder
    file: ClaimFile
    question: str  # Markdown
    claims: tuple[EvaluatedClaim, ...]
    quantities: Mapping[str, Measurement | None]  # by id, those of claims included
    tables: Tables
    environment: Mapping[str, Any]  # empty: nothing was recorded

    @property
    def is_variant(self) -> bool:
        """Whether its scenarios were run with other values, so that some of its data may not exist."""
        return is_variant(self.environment)

    @property
    def verdicts(self) -> Counter[Verdict]:
        """The number of claims by verdict."""
        return Counter(claim.judgement.verdict for claim in self.claims)


def list_reports(reports: Path) -> list[ReportFolder]:
    """Return the folders with claims, by name.

    Raises:
        PaperError: there are none.
    """
    folders = [ReportFolder(path.parent) for path in sorted(reports.glob(f"*/{_CLAIMS}"))]
    if not folders:
        remedy = "Run this in a clone of ikeanalyze, or name another folder with --reports"
        raise PaperError(f"{reports}: no folder in it has a file {_CLAIMS}. {remedy}")
    return folders


def find_report(reports: Path, name: str) -> ReportFolder:
    """Return the report with this number or folder name.

    Raises:
        PaperError: there is none, or several.
    """
    folders = list_reports(reports)
    matches = [folder for folder in folders if name in (folder.number, folder.path.name)]
    if len(matches) != 1:
        problem = "several folders have this number" if matches else f"no folder with this number has a file {_CLAIMS}"
        raise PaperError(f"{name}: {problem}; there are: {', '.join(folder.path.name for folder in folders)}")
    return matches[0]


def is_variant(environment: Mapping[str, Any]) -> bool:
    """Whether a report was recorded with other values of keys of its scenarios."""
    return bool(environment.get("values"))


def evaluate_report(folder: ReportFolder) -> EvaluatedReport:
    """Compute the values and verdicts of a report from its committed data.

    In a report that was recorded with other values, what its data do not give is unknown.

    Raises:
        PaperError: a file is missing or invalid, or a query fails.
    """
    file = load_claims(folder.claims)
    tables = load_tables(folder.data)
    tables |= make_ranking_tables(file.rankings, folder.path)
    tables["claims"] = _make_claim_table(file.claims)
    environment = _read_environment(folder.environment)
    optional = is_variant(environment)
    for name, sql in file.views.items():
        with _name_place(folder, f"view {name}", optional=optional):
            tables[name] = run_sql(sql, tables)
    quantities: dict[str, Measurement | None] = dict.fromkeys(quantity.id for quantity in file.all_quantities)
    for quantity in file.all_quantities:
        with _name_place(folder, quantity.id, optional=optional):
            quantities[quantity.id] = measure(quantity, tables, folder.data)
    claims = []
    for claim in file.claims:
        ours = quantities[claim.id]
        claims.append(EvaluatedClaim(claim, ours, judge(claim, ours.estimate if ours else None)))
    return EvaluatedReport(
        folder=folder,
        file=file,
        question=_read_text(folder.path / "question.md"),
        claims=tuple(claims),
        quantities=quantities,
        tables=tables,
        environment=environment,
    )


def _make_claim_table(claims: Sequence[Claim]) -> pl.DataFrame:
    """Return what the paper states as a table, for queries that compute something from its numbers."""
    rows = [(claim.id, claim.value) for claim in claims]
    return pl.DataFrame(rows, schema={"id": pl.String, "value": pl.Float64}, orient="row")


@contextmanager
def _name_place(folder: ReportFolder, place: str, *, optional: bool) -> Iterator[None]:
    """Add the file and the place in it to errors, or ignore those of what is optional."""
    try:
        yield
    except PaperError as error:
        if optional:
            return
        raise PaperError(f"{folder.claims}: {place}: {error}") from None


def load_tables(data: Path) -> dict[str, pl.DataFrame]:
    """Return the tables in a folder by the names of their files, without `.parquet`.

    Raises:
        PaperError: a file cannot be read.
    """
    try:
        return {path.stem: pl.read_parquet(path) for path in sorted(data.glob("*.parquet"))}
    except (OSError, pl.exceptions.PolarsError) as error:
        raise PaperError(f"{data}: a table cannot be read: {error}") from None


def describe_unexpected(folder: ReportFolder, each: EvaluatedClaim) -> str:
    """Return a line about a claim whose verdict is not the expected one."""
    numbers = ""
    if each.ours is not None and each.claim.value is not None:
        numbers = f" (paper {each.claim.value:g}, ours {each.ours.estimate.value:g})"
    verdict = each.judgement.verdict
    return f"{folder.claims}: {each.claim.id}: expected {each.claim.expect}, computed {verdict}{numbers}"


def _read_environment(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        document: dict[str, Any] = json.loads(_read_text(path))
    except ValueError as error:
        raise PaperError(f"{path}: not JSON: {error}") from None
    return document


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PaperError(f"{path}: {error.strerror}") from None
