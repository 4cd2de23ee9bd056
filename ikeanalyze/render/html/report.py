"""A report as a page: what goes into its template."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render import document, select
from ikeanalyze.render.chosen import SelectedHandshake, select_noteworthy
from ikeanalyze.render.details import render_handshake
from ikeanalyze.render.figures.diagram import LadderLayout, draw_ladder
from ikeanalyze.render.figures.ladder import build_ladder
from ikeanalyze.render.figures.report import make_figures
from ikeanalyze.render.html import tables
from ikeanalyze.render.html.page import make_inline_svg, prepare_figure, render_template
from ikeanalyze.render.overview import render_overview
from ikeanalyze.render.section import KeyValueSection, Section, TableSection
from ikeanalyze.render.values import format_count, format_input_name, format_ms, format_ratio

#: Rows of the long tables, so that a page of any capture stays a few MB.
HANDSHAKES: Final = 10_000
_CAPTURES: Final = 200
_WARNINGS: Final = 200


@dataclass(frozen=True, slots=True)
class SummaryCard:
    """One number of the summary."""

    name: str
    value: str
    more: str = ""


def render_page(analysis: Analysis, *, every: bool = False) -> str:
    """The page; `every`: with all handshakes in its table, however many."""
    count_all = analysis.handshakes.height
    table, common, together = _table(analysis, every=every) if count_all > 1 else (None, None, [])
    chosen = select_noteworthy(analysis.handshakes)
    warnings, skipped = (
        tables.render_warning_table(analysis, _WARNINGS),
        tables.render_skipped_table(analysis, _WARNINGS),
    )
    names = [format_input_name(summary.path) for summary in analysis.captures]
    figures = [prepare_figure(figure) for figure in make_figures(analysis)]
    contents = [
        ("handshakes", "Handshakes", table),
        ("handshake", "Ladder", chosen),
        ("figures", "Figures", figures),
        ("together", "Together", together),
        ("captures", "Captures", True),
        ("warnings", "Warnings", warnings),
        ("skipped", "Skipped", skipped),
    ]
    return render_template(
        "report.html.j2",
        title=f"IKE handshakes in {names[0] if len(names) == 1 else format_count(len(names), 'capture')}",
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
        captures=tables.render_capture_table(analysis, _CAPTURES),
        warnings=warnings,
        skipped=skipped,
    )


def _table(analysis: Analysis, *, every: bool) -> tuple[TableSection | None, KeyValueSection | None, list[Section]]:
    """The table of handshakes, what is common to them, and the sections that add them up."""
    table, common, together = None, None, []
    for section in render_overview(analysis, every=True):
        if isinstance(section, TableSection) and section.title == "Handshakes":
            table = tables.render_handshake_table(analysis, section, None if every else HANDSHAKES)
        elif table is None and isinstance(section, KeyValueSection):
            common = section
        else:
            together.append(section)
    return table, common, together


def _cards(analysis: Analysis) -> Iterator[SummaryCard]:
    sums = document.compute_totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    if sums["handshakes"] == 1:
        yield SummaryCard("Handshake", outcomes.removeprefix("1 "), _reason(analysis))
    else:
        yield SummaryCard("Handshakes", f"{sums['handshakes']:,}", outcomes)
    setup = sums["setup_ms"]
    if setup["known"] == 1:
        yield SummaryCard("Set-up time", f"{setup['median']:,.3f} ms")
    elif setup["known"]:
        spread = f"{setup['min']:,.3f} to {setup['max']:,.3f}, mean {setup['mean']:,.3f}"
        of = f", of {setup['known']:,}" if setup["known"] < sums["handshakes"] else ""
        yield SummaryCard("Set-up time, median", f"{setup['median']:,.3f} ms", spread + of)
    for name, title in (("initiator-responder", "Initiator ↔ responder"), ("responder-aaa", "Responder ↔ AAA server")):
        link = sums["links"][name]
        if link["messages"]:
            more = f"{format_count(link['messages'], 'message')}, {format_count(link['frames'], 'frame')}"
            repeated = int(analysis.handshakes["aaa_retransmitted_messages"].sum())
            if name == "responder-aaa" and repeated:
                more += f", {format_count(repeated, 'retransmission')}"
            yield SummaryCard(title, f"{link['bytes']:,} bytes", more)
    if sums["blowup"] is not None:
        again = sums["retransmissions"]
        yield SummaryCard(
            "Blow-up",
            format_ratio(sums["blowup"]),
            f"{format_count(again['messages'], 'retransmission')}, {again['bytes']:,} bytes",
        )
    yield SummaryCard("Packets", f"{sums['packets']:,}", f"in {format_count(sums['captures'], 'capture')}")


def _reason(analysis: Analysis) -> str:
    return str(analysis.handshakes["reason"][0] or "")


def _notices(analysis: Analysis, table: TableSection | None, chosen: list[SelectedHandshake]) -> Iterator[str]:
    """What is wrong, and what is not on the page and where it is."""
    if analysis.skipped:
        yield f"{format_count(len(analysis.skipped), 'file')} could not be read: see Skipped."
    if analysis.warnings:
        yield f"{format_count(len(analysis.warnings), 'warning')}: see Warnings."
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


def _handshake(analysis: Analysis, chosen: SelectedHandshake) -> dict[str, Any]:
    one = select.select_handshake(analysis, chosen.handshake)
    drawing = build_ladder(one)
    first, *sections = render_handshake(one)
    row = one.handshakes.row(0, named=True)
    time = f", {format_ms(row['setup_ns'])} ms" if row["setup_ns"] is not None else ""
    why = f" ({chosen.why})" if chosen.why else ""
    return {
        "id": chosen.handshake,
        "choice": f"{chosen.handshake:,}: {row['outcome']}{time}{why}",
        "title": first.title,
        "ladder": make_inline_svg(draw_ladder(drawing, LadderLayout.BOTH)),
        "messages": tables.render_message_table(drawing),
        "sections": [replace(first, title="Identity"), *sections],
    }
