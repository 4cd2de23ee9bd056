"""A report as an HTML page that needs no network and no other file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TextIO

from ikeanalyze.analysis.result import ACCOUNTING, Analysis
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.html.page import make_inline_svg, prepare_figure, render_template
from ikeanalyze.render.core.section import KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNCERTAIN_MARK,
    escape_text,
    format_count,
    format_input_name,
    format_integer,
    format_ms,
    format_ratio,
    format_time,
)
from ikeanalyze.render.ladder.diagram import LadderLayout, draw_ladder
from ikeanalyze.render.ladder.model import LOSSES, Ladder, build_ladder
from ikeanalyze.render.report import document, selection
from ikeanalyze.render.report.figures import make_figures
from ikeanalyze.render.report.handshake_details import render_handshake
from ikeanalyze.render.report.overview import render_overview
from ikeanalyze.render.report.selection import SelectedHandshake, select_noteworthy
from ikeanalyze.render.report.text import PACKETS

#: Rows of the long tables: a page of any capture has only a few MB.
MAX_HANDSHAKES: Final = 10_000
_MAX_CAPTURES: Final = 200
_MAX_WARNINGS: Final = 200


@dataclass(frozen=True, slots=True)
class SummaryCard:
    """One number of the summary."""

    name: str
    value: str
    more: str = ""


def write_page(analysis: Analysis, out: TextIO, view: RenderOptions) -> None:
    """Write the page."""
    out.write(render_page(analysis, every=view.every))


def render_page(analysis: Analysis, *, every: bool = False) -> str:
    """The page; `every`: with all handshakes in its table, however many."""
    count_all = analysis.handshakes.height
    table, common, together = _table(analysis, every=every) if count_all > 1 else (None, None, [])
    chosen = select_noteworthy(analysis.handshakes)
    warnings, skipped = (
        render_warning_table(analysis, _MAX_WARNINGS),
        render_skipped_table(analysis, _MAX_WARNINGS),
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
        contents=[(anchor, name) for anchor, name, content in contents if content],
        cards=list(_cards(analysis)),
        notices=list(_notices(analysis, table, chosen)),
        table=table,
        common=common,
        linked=[str(handshake.handshake) for handshake in chosen],
        handshakes=[_handshake(analysis, handshake) for handshake in chosen],
        figures=figures,
        together=together,
        captures=render_capture_table(analysis, _MAX_CAPTURES),
        warnings=warnings,
        skipped=skipped,
    )


def _table(analysis: Analysis, *, every: bool) -> tuple[TableSection | None, KeyValueSection | None, list[Section]]:
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


def _cards(analysis: Analysis) -> Iterator[SummaryCard]:
    sums = document.compute_totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    if sums["handshakes"] == 1:
        yield SummaryCard("Handshake", outcomes.removeprefix("1 "), _reason(analysis))
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


def _reason(analysis: Analysis) -> str:
    return str(analysis.handshakes["reason"][0] or "")


def _notices(analysis: Analysis, table: TableSection | None, chosen: list[SelectedHandshake]) -> Iterator[str]:
    """Warnings, and where to find what the page leaves out."""
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
    single = selection.select_handshake(analysis, chosen.handshake)
    drawing = build_ladder(single)
    first, *sections = render_handshake(single)
    row = single.handshakes.row(0, named=True)
    uncertain = row["uncertain"] is not None
    time = f", {format_ms(row['setup_ns'], uncertain=uncertain)} ms" if row["setup_ns"] is not None else ""
    why = f" ({chosen.why})" if chosen.why else ""
    return {
        "id": chosen.handshake,
        "choice": f"{chosen.handshake:,}: {row['outcome']}{time}{why}",
        "title": first.title,
        "ladder": make_inline_svg(draw_ladder(drawing, LadderLayout.BOTH)),
        "messages": render_message_table(drawing),
        "sections": [replace(first, title="Identity"), *sections],
    }


def render_capture_table(analysis: Analysis, limit: int) -> TableSection:
    """Each capture with its packets by what they are."""
    used = [kind for kind in ACCOUNTING if any(capture.accounting.get(kind) for capture in analysis.captures)]
    with_cut = any(capture.snaplen_truncated for capture in analysis.captures)
    columns = [
        TableColumn("capture"),
        TableColumn("format"),
        TableColumn("from"),
        TableColumn("to"),
        *number_columns("bytes", "packets", *(f"{PACKETS[kind]}, packets" for kind in used)),
        *([TableColumn("cut by the snaplen, packets", right=True)] if with_cut else []),
        TableColumn("state"),
    ]
    rows = [
        (
            format_input_name(capture.path),
            capture.format,
            format_time(capture.first_ns),
            format_time(capture.last_ns),
            format_integer(capture.bytes),
            format_integer(capture.packets),
            *(format_integer(capture.accounting.get(kind, 0)) for kind in used),
            *([format_integer(capture.snaplen_truncated)] if with_cut else []),
            f"damaged behind packet {capture.packets:,}" if capture.damaged else "whole",
        )
        for capture in analysis.captures[:limit]
    ]
    return TableSection("Captures and what their packets are", columns, rows, more=len(analysis.captures) - len(rows))


def render_handshake_table(analysis: Analysis, overview: TableSection, limit: int | None) -> TableSection:
    """The table of `overview`, with what there is room for on a page; `most` rows, None: all."""
    table = analysis.handshakes.sort("handshake").head(limit or analysis.handshakes.height)
    starts = table["start_ns"]
    first = starts.min()
    aaa = table["aaa_retransmitted_messages"]
    more = [
        (TableColumn("start, s"), [_seconds(ns, first) for ns in starts.to_list()]),
        (TableColumn("frames"), map(format_integer, (table["initiator_frames"] + table["responder_frames"]).to_list())),
        (TableColumn("retransmissions"), map(format_integer, table["retransmitted_messages"].to_list())),
        (TableColumn("AAA retransmissions"), map(format_integer, aaa.to_list())),
        (TableColumn("SPIi"), table["spi_i"].to_list()),
    ]
    places = ["set-up, ms", "bytes", "outcome", "outcome", None]
    if not aaa.sum():
        del more[3], places[3]
    place = {column.name: index for index, column in enumerate(overview.columns)}
    columns = list(overview.columns)
    texts: list[Iterable[str]] = [*zip(*overview.rows[: table.height], strict=True)]
    for column, before in zip(more, places, strict=True):
        index = len(columns) if before is None else place[before] + len(columns) - len(overview.columns)
        columns.insert(index, TableColumn(column[0].name, right=column[0].name != "SPIi"))
        texts.insert(index, column[1])
    return TableSection(
        overview.title, columns, [*zip(*texts, strict=True)], more=analysis.handshakes.height - table.height
    )


def _seconds(ns: int | None, first: object) -> str:
    return "-" if ns is None or not isinstance(first, int) else f"{(ns - first) / 1e9:,.3f}"


def render_message_table(ladder: Ladder) -> TableSection:
    """What the ladder shows, to be read aloud, searched and copied."""
    rows = [
        (
            format_integer(rung.frame),
            format_ms(rung.at_ns),
            ladder.hosts[rung.source].name,
            rung.label,
            format_integer(rung.frames),
            format_integer(rung.bytes),
            ", ".join([*rung.notes, *([LOSSES[rung.loss]] if rung.loss else [])]),
            " ".join(rung.payloads),
        )
        for rung in ladder.rungs
    ]
    columns = (
        *number_columns("frame", "time, ms"),
        TableColumn("from"),
        TableColumn("message"),
        *number_columns("frames", "bytes"),
        TableColumn("notes"),
        TableColumn("payloads"),
    )
    return TableSection(f"Messages of handshake {ladder.handshake:,}", columns, rows, more=ladder.left_out)


def render_warning_table(analysis: Analysis, limit: int) -> TableSection | None:
    """What the user should know of; None: nothing."""
    rows = [
        (escape_text(warning.capture), format_integer(warning.frame), escape_text(warning.message))
        for warning in analysis.warnings[:limit]
    ]
    columns = (TableColumn("file"), TableColumn("frame", right=True), TableColumn("what"))
    return _or_none("Warnings", columns, rows, len(analysis.warnings))


def render_skipped_table(analysis: Analysis, limit: int) -> TableSection | None:
    """Captures and files with keys of which nothing could be read; None: all could."""
    rows = [(escape_text(file.path), escape_text(file.reason)) for file in analysis.skipped[:limit]]
    return _or_none("Skipped", (TableColumn("file"), TableColumn("why")), rows, len(analysis.skipped))


def _or_none(
    title: str, columns: Sequence[TableColumn], rows: Sequence[tuple[str, ...]], whole: int
) -> TableSection | None:
    return TableSection(title, columns, rows, more=whole - len(rows)) if rows else None
