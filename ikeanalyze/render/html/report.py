"""A report as a page: what goes into its template."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document, select
from ikeanalyze.render.chosen import Chosen, choose
from ikeanalyze.render.details import details
from ikeanalyze.render.figures.diagram import Layout, draw
from ikeanalyze.render.figures.ladder import ladder
from ikeanalyze.render.figures.report import report_figures
from ikeanalyze.render.html import tables
from ikeanalyze.render.html.page import drawn, markup, render
from ikeanalyze.render.overview import overview
from ikeanalyze.render.section import Facts, Section, Table
from ikeanalyze.render.values import count, input_name, ms, ratio

#: Rows of the long tables, so that a page of any capture stays a few MB.
HANDSHAKES: Final = 10_000
_CAPTURES: Final = 200
_WARNINGS: Final = 200


@dataclass(frozen=True, slots=True)
class Card:
    """One number of the summary."""

    name: str
    value: str
    more: str = ""


def report_page(analysis: Analysis, *, every: bool = False) -> str:
    """The page; `every`: with all handshakes in its table, however many."""
    count_all = analysis.handshakes.height
    table, common, together = _table(analysis, every=every) if count_all > 1 else (None, None, [])
    chosen = choose(analysis.handshakes)
    warnings, skipped = tables.warnings(analysis, _WARNINGS), tables.skipped(analysis, _WARNINGS)
    names = [input_name(summary.path) for summary in analysis.captures]
    figures = [drawn(figure) for figure in report_figures(analysis)]
    contents = [
        ("handshakes", "Handshakes", table),
        ("handshake", "Ladder", chosen),
        ("figures", "Figures", figures),
        ("together", "Together", together),
        ("captures", "Captures", True),
        ("warnings", "Warnings", warnings),
        ("skipped", "Skipped", skipped),
    ]
    return render(
        "report.html.j2",
        title=f"IKE handshakes in {names[0] if len(names) == 1 else count(len(names), 'capture')}",
        subtitle="" if len(names) == 1 else ", ".join(names[:5]) + (", ..." if len(names) > 5 else ""),
        contents=[(anchor, name) for anchor, name, there in contents if there],
        cards=list(_cards(analysis)),
        notices=list(_notices(analysis, table, chosen)),
        table=table,
        common=common,
        linked=[str(one.handshake) for one in chosen],
        handshakes=[_handshake(analysis, one) for one in chosen],
        figures=figures,
        together=together,
        captures=tables.captures(analysis, _CAPTURES),
        warnings=warnings,
        skipped=skipped,
    )


def _table(analysis: Analysis, *, every: bool) -> tuple[Table | None, Facts | None, list[Section]]:
    """The table of handshakes, what is common to them, and the sections that add them up."""
    table, common, together = None, None, []
    for section in overview(analysis, every=True):
        if isinstance(section, Table) and section.title == "Handshakes":
            table = tables.handshakes(analysis, section, None if every else HANDSHAKES)
        elif table is None and isinstance(section, Facts):
            common = section
        else:
            together.append(section)
    return table, common, together


def _cards(analysis: Analysis) -> Iterator[Card]:
    sums = document.totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    if sums["handshakes"] == 1:
        yield Card("Handshake", outcomes.removeprefix("1 "), _reason(analysis))
    else:
        yield Card("Handshakes", f"{sums['handshakes']:,}", outcomes)
    setup = sums["setup_ms"]
    if setup["known"] == 1:
        yield Card("Set-up time", f"{setup['median']:,.3f} ms")
    elif setup["known"]:
        spread = f"{setup['min']:,.3f} to {setup['max']:,.3f}, mean {setup['mean']:,.3f}"
        of = f", of {setup['known']:,}" if setup["known"] < sums["handshakes"] else ""
        yield Card("Set-up time, median", f"{setup['median']:,.3f} ms", spread + of)
    for name, title in (("initiator-responder", "Initiator ↔ responder"), ("responder-aaa", "Responder ↔ AAA server")):
        link = sums["links"][name]
        if link["messages"]:
            more = f"{count(link['messages'], 'message')}, {count(link['frames'], 'frame')}"
            repeated = int(analysis.handshakes["aaa_retransmitted_messages"].sum())
            if name == "responder-aaa" and repeated:
                more += f", {count(repeated, 'retransmission')}"
            yield Card(title, f"{link['bytes']:,} bytes", more)
    if sums["blowup"] is not None:
        again = sums["retransmissions"]
        yield Card(
            "Blow-up", ratio(sums["blowup"]), f"{count(again['messages'], 'retransmission')}, {again['bytes']:,} bytes"
        )
    yield Card("Packets", f"{sums['packets']:,}", f"in {count(sums['captures'], 'capture')}")


def _reason(analysis: Analysis) -> str:
    return str(analysis.handshakes["reason"][0] or "")


def _notices(analysis: Analysis, table: Table | None, chosen: list[Chosen]) -> Iterator[str]:
    """What is wrong, and what is not on the page and where it is."""
    if analysis.skipped:
        yield f"{count(len(analysis.skipped), 'file')} could not be read: see Skipped."
    if analysis.warnings:
        yield f"{count(len(analysis.warnings), 'warning')}: see Warnings."
    if analysis.handshakes.is_empty():
        yield "No handshake was found."
    if chosen and analysis.messages["payloads"].null_count() == analysis.messages.height:
        yield (
            "What is in clear messages is not named, since the captures are large or no files: "
            "ikeanalyze ladder --handshake N names it."
        )
    if table is not None and table.more:
        yield (
            f"The table has the first {len(table.rows):,} of {analysis.handshakes.height:,} handshakes. "
            "The formats csv and parquet have all, --no-limit puts them into this page."
        )
    if len(chosen) < analysis.handshakes.height:
        yield (
            f"{len(chosen):,} of {analysis.handshakes.height:,} handshakes have a ladder here: "
            "--handshake N makes a page of any other."
        )


def _handshake(analysis: Analysis, chosen: Chosen) -> dict[str, Any]:
    one = select.handshake(analysis, chosen.handshake)
    drawing = ladder(one)
    first, *sections = details(one)
    row = one.handshakes.row(0, named=True)
    time = f", {ms(row['setup_ns'])} ms" if row["setup_ns"] is not None else ""
    why = f" ({chosen.why})" if chosen.why else ""
    return {
        "id": chosen.handshake,
        "choice": f"{chosen.handshake:,}: {row['outcome']}{time}{why}",
        "title": first.title,
        "ladder": markup(draw(drawing, Layout.BOTH)),
        "messages": tables.messages(drawing),
        "sections": [replace(first, title="Identity"), *sections],
    }
