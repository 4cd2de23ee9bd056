"""Tables that only pages have: all captures with their accounting, all handshakes, the messages of one."""

from collections.abc import Iterable, Sequence

from ikeanalyze.analysis.result import ACCOUNTING, Analysis
from ikeanalyze.render.captures import PACKETS
from ikeanalyze.render.figures.ladder import LOSSES, Ladder
from ikeanalyze.render.section import TableSection
from ikeanalyze.render.table import TableColumn, number_columns
from ikeanalyze.render.values import escape_text, format_input_name, format_integer, format_ms, format_time


def render_capture_table(analysis: Analysis, most: int) -> TableSection:
    """Each capture with its packets by what they are."""
    used = [what for what in ACCOUNTING if any(one.accounting.get(what) for one in analysis.captures)]
    with_cut = any(one.snaplen_truncated for one in analysis.captures)
    columns = [
        TableColumn("capture"),
        TableColumn("format"),
        TableColumn("from"),
        TableColumn("to"),
        *number_columns("bytes", "packets", *(f"{PACKETS[what]}, packets" for what in used)),
        *([TableColumn("cut by the snaplen, packets", right=True)] if with_cut else []),
        TableColumn("state"),
    ]
    rows = [
        (
            format_input_name(one.path),
            one.format,
            format_time(one.first_ns),
            format_time(one.last_ns),
            format_integer(one.bytes),
            format_integer(one.packets),
            *(format_integer(one.accounting.get(what, 0)) for what in used),
            *([format_integer(one.snaplen_truncated)] if with_cut else []),
            f"damaged behind packet {one.packets:,}" if one.damaged else "whole",
        )
        for one in analysis.captures[:most]
    ]
    return TableSection("Captures and what their packets are", columns, rows, more=len(analysis.captures) - len(rows))


def render_handshake_table(analysis: Analysis, shown: TableSection, most: int | None) -> TableSection:
    """The table of `overview`, with what there is room for on a page; `most` rows, None: all."""
    table = analysis.handshakes.sort("handshake").head(most or analysis.handshakes.height)
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
    place = {column.name: index for index, column in enumerate(shown.columns)}
    columns = list(shown.columns)
    texts: list[Iterable[str]] = [*zip(*shown.rows[: table.height], strict=True)]
    for column, before in zip(more, places, strict=True):
        at = len(columns) if before is None else place[before] + len(columns) - len(shown.columns)
        columns.insert(at, TableColumn(column[0].name, right=column[0].name != "SPIi"))
        texts.insert(at, column[1])
    return TableSection(
        shown.title, columns, [*zip(*texts, strict=True)], more=analysis.handshakes.height - table.height
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


def render_warning_table(analysis: Analysis, most: int) -> TableSection | None:
    """What the user should know of; None: nothing."""
    rows = [
        (escape_text(one.capture), format_integer(one.frame), escape_text(one.what)) for one in analysis.warnings[:most]
    ]
    columns = (TableColumn("file"), TableColumn("frame", right=True), TableColumn("what"))
    return _or_none("Warnings", columns, rows, len(analysis.warnings))


def render_skipped_table(analysis: Analysis, most: int) -> TableSection | None:
    """Captures and files with keys of which nothing could be read; None: all could."""
    rows = [(escape_text(one.path), escape_text(one.reason)) for one in analysis.skipped[:most]]
    return _or_none("Skipped", (TableColumn("file"), TableColumn("why")), rows, len(analysis.skipped))


def _or_none(
    title: str, columns: Sequence[TableColumn], rows: Sequence[tuple[str, ...]], whole: int
) -> TableSection | None:
    return TableSection(title, columns, rows, more=whole - len(rows)) if rows else None
