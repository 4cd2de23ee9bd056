"""Numbers and tables of reports, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ikeanalyze.dataset.compare.result import Estimate
from ikeanalyze.papers import PaperError
from ikeanalyze.papers.claims import Claim, Quantity, ReportTable, Verdict, substitute
from ikeanalyze.papers.dictionary import describe_columns
from ikeanalyze.papers.queries import Measurement, Tables, estimate_groups, run_sql
from ikeanalyze.papers.report import EvaluatedClaim, EvaluatedReport, load_tables
from ikeanalyze.papers.verdicts import Judgement
from ikeanalyze.render.core.section import TableSection
from ikeanalyze.render.core.table import TableColumn
from ikeanalyze.render.core.values import UNKNOWN, format_count

_PLACES: Final = 4  # significant digits of numbers that are not whole
_CLAIM_COLUMNS: Final = tuple(TableColumn(name) for name in ("claim", "place", "paper", "ours", "verdict", "why"))


def format_number(value: float) -> str:
    """Return a whole number with thousands separators, or four significant digits."""
    if value == int(value) or abs(value) >= 10 ** (_PLACES - 1):
        return f"{value:,.0f}"
    return f"{value:.{_PLACES}g}"


def format_estimate(estimate: Estimate) -> str:
    """Return `12.5 (11.9 to 13.2)`, without the interval if it is unknown or its ends are rounded to the value."""
    text = format_number(estimate.value)
    if estimate.low is None or estimate.high is None:
        return text
    low, high = format_number(estimate.low), format_number(estimate.high)
    return text if low == text == high else f"{text} ({low} to {high})"


def format_measurement(ours: Measurement | None, unit: str) -> str:
    """Return our value with its interval, unit and number of observations."""
    if ours is None:
        return UNKNOWN
    text = _add_unit(format_estimate(ours.estimate), unit)
    return text if ours.n is None else f"{text}, n = {ours.n:,}"


def format_paper_value(claim: Claim) -> str:
    """Return the paper's value with its unit."""
    if claim.value is None:
        return "drawn, no number"
    relation = {"equal": "", "above": "more than ", "below": "less than "}[claim.relation]
    return relation + _add_unit(format_number(claim.value), claim.unit)


def _add_unit(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number


def format_verdict(judgement: Judgement) -> str:
    """Return the verdict, with the deviation if it is `reproduced within`."""
    if judgement.verdict is not Verdict.WITHIN or judgement.deviation is None:
        return str(judgement.verdict)
    deviation = f"{judgement.deviation:.2g}"
    if not judgement.is_factor:
        return f"{judgement.verdict} {deviation} %"
    if deviation == "1":  # a factor of 1 would be the same number
        deviation = f"{judgement.deviation:.3g}"
    return f"{judgement.verdict} a factor of {deviation}"


def fill_text(text: str, report: EvaluatedReport) -> str:
    """Return a text of `claims.toml` with our values in place of `{id}`."""
    units = {quantity.id: quantity.unit for quantity in report.file.all_quantities}
    values = {
        name: UNKNOWN if ours is None else _add_unit(format_number(ours.estimate.value), units[name])
        for name, ours in report.quantities.items()
    }
    return substitute(text, values)


def render_claim_table(report: EvaluatedReport) -> TableSection:
    """Return the claims of the paper, our values and the verdicts."""
    return TableSection("Claims", _CLAIM_COLUMNS, [_make_claim_row(report, each) for each in report.claims])


def _make_claim_row(report: EvaluatedReport, each: EvaluatedClaim) -> tuple[str, ...]:
    claim = each.claim
    tests = [f"{quantity.item}: {_format_quantity(report, quantity)}" for quantity in _list_tests(report, claim)]
    why = " ".join([fill_text(claim.why, report), *(f"Test: {test}." for test in tests)]).strip()
    return (
        claim.item,
        claim.place,
        format_paper_value(claim),
        format_measurement(each.ours, claim.unit),
        format_verdict(each.judgement),
        why,
    )


def _list_tests(report: EvaluatedReport, claim: Claim) -> list[Quantity]:
    return [quantity for name in claim.tested_by for quantity in report.file.all_quantities if quantity.id == name]


def _format_quantity(report: EvaluatedReport, quantity: Quantity) -> str:
    return format_measurement(report.quantities[quantity.id], quantity.unit)


def render_quantity_table(report: EvaluatedReport) -> TableSection | None:
    """Return our own quantities; None: there are none."""
    rows = [(each.item, _format_quantity(report, each)) for each in report.file.quantities]
    columns = (TableColumn("quantity"), TableColumn("ours"))
    return TableSection("Tests of hypotheses, and other quantities", columns, rows) if rows else None


def render_own_tables(report: EvaluatedReport) -> Iterator[TableSection]:
    """Return the tables that `claims.toml` describes.

    Raises:
        PaperError: a query fails, unless the report was recorded with other values.
    """
    for spec in report.file.tables:
        try:
            yield _make_table(spec, report.tables)
        except PaperError as error:
            if report.is_variant:
                continue
            raise PaperError(f"{report.folder.claims}: table {spec.title!r}: {error}") from None


def render_dictionary_tables(report: EvaluatedReport) -> Iterator[TableSection]:
    """Return the columns of each table of `data`.

    Raises:
        PaperError: a table cannot be read, or a column has no meaning.
    """
    columns = [TableColumn(name) for name in ("column", "type", "known", "distinct", "meaning")]
    for name, table in load_tables(report.folder.data).items():
        try:
            entries = list(describe_columns(name, table, report.file.columns))
        except PaperError as error:
            raise PaperError(f"{report.folder.claims}: {error}") from None
        rows = [(each.name, each.type, f"{each.known:,}", f"{each.distinct:,}", each.meaning) for each in entries]
        yield TableSection(f"{name}.parquet: {format_count(len(table), 'row')}", columns, rows)


def _make_table(spec: ReportTable, tables: Tables) -> TableSection:
    frame = run_sql(spec.sql, tables)
    rows: Sequence[Mapping[str, Any]] = frame.rows(named=True)
    names = frame.columns
    if spec.by:
        rows = estimate_groups(frame, spec.by)
        names = [*spec.by, "n", *(name for name in names if name not in spec.by)]
    columns = [TableColumn(name, right=name not in spec.by and bool(spec.by)) for name in names]
    notes = (spec.note,) if spec.note else ()
    return TableSection(spec.title, columns, [[_format_cell(row[name]) for name in names] for row in rows], notes=notes)


def _format_cell(value: Any) -> str:
    match value:
        case None:
            return UNKNOWN
        case Estimate():
            return format_estimate(value)
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return format_number(value)
    return str(value)


def format_verdict_counts(report: EvaluatedReport) -> str:
    """Return `12 reproduced, 3 reproduced within, 1 contradicted`."""
    counts = report.verdicts
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def list_environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return names and values of `environment.json`."""
    recorded = environment.get("recorded", {})
    if recorded.get("first"):
        dates = dict.fromkeys((recorded["first"], recorded["last"]))
        yield "recorded", " to ".join(dates)
    if values := environment.get("values"):
        yield "other values", ", ".join(values)
    for name, value in environment.get("machine", {}).items():
        yield name, ", ".join(value) if isinstance(value, list) else str(value)
    for name, counts in environment.get("experiments", {}).items():
        cases, handshakes = format_count(counts["cases"], "case"), format_count(counts["handshakes"], "handshake")
        yield f"scenario {name}", f"{cases}, {handshakes}, {counts['established']:,} established"
