"""A report as an HTML page that needs no network and no other file."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final, TextIO

from msgspec.structs import replace

from ikeanalyze.analysis.result import ACCOUNTING, Analysis, AnalysisWarning, CaptureSummary, SkippedFile
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.html.page import SummaryCard, make_inline_svg, prepare_figure, render_template
from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNCERTAIN_MARK,
    Cell,
    format_count,
    format_identifier,
    format_input_name,
    format_integer,
    format_ms,
    format_outcome,
    format_ratio,
    format_time,
)
from ikeanalyze.render.ladder.diagram import LadderLayout, draw_ladder
from ikeanalyze.render.ladder.model import LOSSES, Ladder, LadderArrow, build_ladder
from ikeanalyze.render.report import document, selection
from ikeanalyze.render.report.figures import make_figures
from ikeanalyze.render.report.sections.diagnosis import render_diagnosis, render_diagnosis_table
from ikeanalyze.render.report.sections.handshake_details import render_handshake
from ikeanalyze.render.report.sections.overview import render_overview
from ikeanalyze.render.report.sections.rekeyed import render_rekeyed_ike_sas
from ikeanalyze.render.report.selection import SelectedHandshake, select_detailed, select_noteworthy
from ikeanalyze.render.report.text import PACKETS, describe_selection

#: Rows of the long tables: a page of any capture has only a few MB.
MAX_HANDSHAKES: Final = 10_000
_MAX_CAPTURES: Final = 200
_MAX_WARNINGS: Final = 200


def write_page(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the page."""
    out.write(render_page(analysis, every=view.every))


def render_page(analysis: Analysis, *, every: bool = False) -> str:
    """The page; `every`: with all handshakes in its table, however many."""
    rekeyed = list(render_rekeyed_ike_sas(analysis, every=every)) if analysis.handshakes.height > 1 else []
    analysis = select_detailed(analysis)
    table, common, together = (
        _render_overview(analysis, every=every) if analysis.handshakes.height > 1 else (None, None, [])
    )
    chosen = select_noteworthy(analysis.handshakes)
    diagnosis = list(render_diagnosis_table(analysis.handshakes, every=False)) if table is not None else []
    warnings = render_warning_table(analysis)
    skipped = render_skipped_table(analysis)
    names = [format_input_name(summary.path) for summary in analysis.captures]
    figures = [prepare_figure(figure) for figure in make_figures(analysis)]
    contents = [
        ("diagnosis", "Diagnosis", diagnosis),
        ("handshakes", "Handshakes", table),
        ("handshake", "Ladder", chosen),
        ("figures", "Figures", figures),
        ("together", "Together", together),
        ("rekeyed", "Rekeyed IKE SAs", rekeyed),
        ("captures", "Captures", True),
        ("warnings", "Warnings", warnings),
        ("skipped", "Skipped", skipped),
    ]
    return render_template(
        "report.html.j2",
        title=f"IKE handshakes in {names[0] if len(names) == 1 else format_count(len(names), 'capture')}",
        subtitle="" if len(names) == 1 else ", ".join(names[:5]) + (", ..." if len(names) > 5 else ""),
        contents=[(anchor, name) for anchor, name, content in contents if content],
        cards=list(_make_cards(analysis)),
        notices=list(_render_notices(analysis, table, chosen)),
        table=table,
        common=common,
        diagnosis=diagnosis,
        linked=[str(handshake.handshake) for handshake in chosen],
        handshakes=[_render_handshake(analysis, handshake) for handshake in chosen],
        figures=figures,
        together=together,
        rekeyed=rekeyed,
        captures=render_capture_table(analysis),
        warnings=warnings,
        skipped=skipped,
    )


def _render_overview(
    analysis: Analysis, *, every: bool
) -> tuple[TableSection | None, KeyValueSection | None, list[Section]]:
    """The table of handshakes, their common values, and their totals."""
    table, common, together = None, None, []
    for section in render_overview(analysis, every=True):
        if isinstance(section, TableSection) and section.title == "Handshakes":
            table = render_handshake_table(analysis, section, None if every else MAX_HANDSHAKES)
        elif table is None and isinstance(section, KeyValueSection):
            common = section
        else:
            together.append(section)
    return table, common, together


def _make_cards(analysis: Analysis) -> Iterator[SummaryCard]:
    sums = document.compute_totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    if sums["handshakes"] == 1:
        yield SummaryCard("Handshake", outcomes.removeprefix("1 "), analysis.handshakes["reason"][0] or "")
    else:
        yield SummaryCard("Handshakes", f"{sums['handshakes']:,}", outcomes)
    setup = sums["setup_ms"]
    if setup["known"] == 1:
        yield SummaryCard("Set-up time", f"{UNCERTAIN_MARK if setup['uncertain'] else ''}{setup['median']:,.3f} ms")
    elif setup["known"]:
        spread = f"{setup['min']:,.3f} to {setup['max']:,.3f}, mean {setup['mean']:,.3f}"
        known = f", of {setup['known']:,}" if setup["known"] < sums["handshakes"] else ""
        uncertain = f", {setup['uncertain']:,} uncertain" if setup["uncertain"] else ""
        yield SummaryCard("Set-up time, median", f"{setup['median']:,.3f} ms", spread + known + uncertain)
    for name, title in (("initiator-responder", "Initiator ↔ responder"), ("responder-aaa", "Responder ↔ AAA server")):
        link = sums["links"][name]
        if link["messages"]:
            more = f"{format_count(link['messages'], 'message')}, {format_count(link['frames'], 'frame')}"
            repeated = int(analysis.handshakes["aaa_retransmitted_messages"].sum())
            if name == "responder-aaa" and repeated:
                more += f", {format_count(repeated, 'retransmission')}"
            yield SummaryCard(title, f"{link['bytes']:,} bytes", more)
    if sums["blowup"] is not None:
        retransmissions = sums["retransmissions"]
        yield SummaryCard(
            "Blow-up",
            format_ratio(sums["blowup"]),
            f"{format_count(retransmissions['messages'], 'retransmission')}, {retransmissions['bytes']:,} bytes",
        )
    yield SummaryCard("Packets", f"{sums['packets']:,}", f"in {format_count(sums['captures'], 'capture')}")


def _render_notices(analysis: Analysis, table: TableSection | None, chosen: list[SelectedHandshake]) -> Iterator[str]:
    """Warnings, and where to find what the page leaves out."""
    if analysis.selection is not None:
        yield f"Selection: {', '.join(f'{name} {value}' for name, value in describe_selection(analysis.selection))}."
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


def _render_handshake(analysis: Analysis, chosen: SelectedHandshake) -> dict[str, Any]:
    single = selection.select_handshake(analysis, chosen.handshake)
    drawing = build_ladder(single)
    first, *sections = render_handshake(single, every=True)
    row = single.handshakes.row(0, named=True)
    diagnosis = list(render_diagnosis(row))
    assert isinstance(first, KeyValueSection)
    identity = KeyValueSection("Identity", first.rows[len(diagnosis) :], first.level)
    uncertain = row["uncertain"] is not None
    time = f", {format_ms(row['setup_ns'], uncertain=uncertain)} ms" if row["setup_ns"] is not None else ""
    why = f" ({chosen.why})" if chosen.why else ""
    return {
        "id": chosen.handshake,
        "choice": f"{chosen.handshake:,}: {format_outcome(row['outcome'], None)}{time}{why}",
        "title": first.title,
        "diagnosis": diagnosis,
        "ladder": make_inline_svg(draw_ladder(drawing, LadderLayout.BOTH)),
        "messages": render_message_table(drawing),
        "sections": [identity, *sections],
    }


def render_capture_table(analysis: Analysis) -> TableSection:
    """Each capture with its packets by what they are."""
    used = [kind for kind in ACCOUNTING if any(capture.accounting.get(kind) for capture in analysis.captures)]

    columns: list[tuple[TableColumn, Callable[[CaptureSummary], Cell]]] = [
        (TableColumn("capture"), lambda capture: format_input_name(capture.path)),
        (TableColumn("format"), lambda capture: capture.format),
        (TableColumn("from"), lambda capture: format_time(capture.first_ns)),
        (TableColumn("to"), lambda capture: format_time(capture.last_ns)),
        (TableColumn("bytes", right=True), lambda capture: capture.bytes),
        (TableColumn("packets", right=True), lambda capture: capture.packets),
        *((TableColumn(f"{PACKETS[kind]}, packets", right=True), partial(_count_packets, kind)) for kind in used),
    ]
    if any(capture.snaplen_truncated for capture in analysis.captures):
        cut = TableColumn("cut by the snaplen, packets", right=True)
        columns.append((cut, lambda capture: capture.snaplen_truncated))
    columns.append((TableColumn("state"), _describe_state))
    return tabulate("Captures and what their packets are", analysis.captures, columns, every=False, most=_MAX_CAPTURES)


def _count_packets(kind: str, capture: CaptureSummary) -> int:
    return capture.accounting.get(kind, 0)


def _describe_state(capture: CaptureSummary) -> str:
    return f"damaged behind packet {capture.packets}" if capture.damaged else "whole"


#: Columns of the overview for which a page has its own.
_OF_TERMINALS: Final = ("start, UTC", "rtx", "SPIi")


def render_handshake_table(analysis: Analysis, overview: TableSection, limit: int | None) -> TableSection:
    """The table of `overview`, with what there is room for on a page; `most` rows, None: all."""
    table = analysis.handshakes.sort("handshake").head(limit or analysis.handshakes.height)
    starts = table["start_ns"]
    first = starts.min()
    aaa = table["aaa_retransmitted_messages"]
    frames = table["initiator_frames"] + table["responder_frames"]
    # new columns by the name of the column that they precede
    more: dict[str, list[tuple[str, Iterable[str]]]] = {
        "set-up, ms": [("start, s", (_format_seconds(ns, first) for ns in starts.to_list()))],
        "bytes": [("frames", map(format_integer, frames.to_list()))],
        "outcome": [("retransmissions", map(format_integer, table["retransmitted_messages"].to_list()))],
    }
    if aaa.sum():
        more["outcome"].append(("AAA retransmissions", map(format_integer, aaa.to_list())))
    columns: list[TableColumn] = []
    texts: list[Iterable[str]] = []
    for column, cells in zip(overview.columns, zip(*overview.rows[: table.height], strict=True), strict=True):
        if column.name in _OF_TERMINALS:
            continue
        new = more.get(column.name, ())
        columns += [*number_columns(*(name for name, _ in new)), column]
        texts += [*(new_cells for _, new_cells in new), cells]
    columns.append(TableColumn("SPIi"))
    rows = [*zip(*texts, table["spi_i"].to_list(), strict=True)]
    return TableSection(overview.title, columns, rows, more=analysis.handshakes.height - table.height)


def _format_seconds(ns: int | None, first: object) -> str:
    return "-" if ns is None or not isinstance(first, int) else f"{(ns - first) / 1e9:,.3f}"


def render_message_table(ladder: Ladder) -> TableSection:
    """What the ladder shows, to be read aloud, searched and copied."""
    columns: Columns[LadderArrow] = [
        (TableColumn("frame", right=True), lambda rung: format_identifier(rung.frame)),
        (TableColumn("time, ms", right=True), lambda rung: format_ms(rung.at_ns)),
        (TableColumn("from"), lambda rung: ladder.hosts[rung.source].name),
        (TableColumn("message"), lambda rung: rung.label),
        (TableColumn("frames", right=True), lambda rung: rung.frames),
        (TableColumn("bytes", right=True), lambda rung: rung.bytes),
        (TableColumn("notes"), lambda rung: ", ".join([*rung.notes, *([LOSSES[rung.loss]] if rung.loss else [])])),
        (TableColumn("payloads"), lambda rung: " ".join(rung.payloads)),
    ]
    table = tabulate(f"Messages of handshake {ladder.handshake}", ladder.rungs, columns)
    return replace(table, more=ladder.left_out)


def render_warning_table(analysis: Analysis) -> TableSection | None:
    """Return the warnings; None without any."""
    columns: Columns[AnalysisWarning] = [
        (TableColumn("file"), lambda warning: warning.capture),
        (TableColumn("frame", right=True), lambda warning: format_identifier(warning.frame)),
        (TableColumn("message"), lambda warning: warning.message),
    ]
    return (
        tabulate("Warnings", analysis.warnings, columns, every=False, most=_MAX_WARNINGS) if analysis.warnings else None
    )


def render_skipped_table(analysis: Analysis) -> TableSection | None:
    """Return the captures and key files that could not be read; None without any."""
    columns: Columns[SkippedFile] = [
        (TableColumn("file"), lambda file: file.path),
        (TableColumn("why"), lambda file: file.reason),
    ]
    return tabulate("Skipped", analysis.skipped, columns, every=False, most=_MAX_WARNINGS) if analysis.skipped else None
