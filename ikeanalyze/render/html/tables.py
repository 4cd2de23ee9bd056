"""Tables that only pages have: all captures with their accounting, all handshakes, the messages of one."""

from collections.abc import Iterable, Sequence

from ikeanalyze.analysis.result import ACCOUNTING, Analysis
from ikeanalyze.render.captures import PACKETS
from ikeanalyze.render.figures.ladder import LOSSES, Ladder
from ikeanalyze.render.section import Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import clean, input_name, instant, ms, number


def captures(analysis: Analysis, most: int) -> Table:
    """Each capture with its packets by what they are."""
    used = [what for what in ACCOUNTING if any(one.accounting.get(what) for one in analysis.captures)]
    with_cut = any(one.snaplen_truncated for one in analysis.captures)
    columns = [
        Column("capture"),
        Column("format"),
        Column("from"),
        Column("to"),
        *number_columns("bytes", "packets", *(f"{PACKETS[what]}, packets" for what in used)),
        *([Column("cut by the snaplen, packets", right=True)] if with_cut else []),
        Column("state"),
    ]
    rows = [
        (
            input_name(one.path),
            one.format,
            instant(one.first_ns),
            instant(one.last_ns),
            number(one.bytes),
            number(one.packets),
            *(number(one.accounting.get(what, 0)) for what in used),
            *([number(one.snaplen_truncated)] if with_cut else []),
            f"damaged behind packet {one.packets:,}" if one.damaged else "whole",
        )
        for one in analysis.captures[:most]
    ]
    return Table("Captures and what their packets are", columns, rows, more=len(analysis.captures) - len(rows))


def handshakes(analysis: Analysis, shown: Table, most: int | None) -> Table:
    """The table of `overview`, with what there is room for on a page; `most` rows, None: all."""
    table = analysis.handshakes.sort("handshake").head(most or analysis.handshakes.height)
    starts = table["start_ns"]
    first = starts.min()
    aaa = table["aaa_retransmitted_messages"]
    more = [
        (Column("start, s"), [_seconds(ns, first) for ns in starts.to_list()]),
        (Column("frames"), map(number, (table["initiator_frames"] + table["responder_frames"]).to_list())),
        (Column("retransmissions"), map(number, table["retransmitted_messages"].to_list())),
        (Column("AAA retransmissions"), map(number, aaa.to_list())),
        (Column("SPIi"), table["spi_i"].to_list()),
    ]
    places = ["set-up, ms", "bytes", "outcome", "outcome", None]
    if not aaa.sum():
        del more[3], places[3]
    place = {column.name: index for index, column in enumerate(shown.columns)}
    columns = list(shown.columns)
    texts: list[Iterable[str]] = [*zip(*shown.rows[: table.height], strict=True)]
    for column, before in zip(more, places, strict=True):
        at = len(columns) if before is None else place[before] + len(columns) - len(shown.columns)
        columns.insert(at, Column(column[0].name, right=column[0].name != "SPIi"))
        texts.insert(at, column[1])
    return Table(shown.title, columns, [*zip(*texts, strict=True)], more=analysis.handshakes.height - table.height)


def _seconds(ns: int | None, first: object) -> str:
    return "-" if ns is None or not isinstance(first, int) else f"{(ns - first) / 1e9:,.3f}"


def messages(ladder: Ladder) -> Table:
    """What the ladder shows, to be read aloud, searched and copied."""
    rows = [
        (
            number(rung.frame),
            ms(rung.at_ns),
            ladder.hosts[rung.source].name,
            rung.label,
            number(rung.frames),
            number(rung.bytes),
            ", ".join([*rung.notes, *([LOSSES[rung.loss]] if rung.loss else [])]),
            " ".join(rung.payloads),
        )
        for rung in ladder.rungs
    ]
    columns = (
        *number_columns("frame", "time, ms"),
        Column("from"),
        Column("message"),
        *number_columns("frames", "bytes"),
        Column("notes"),
        Column("payloads"),
    )
    return Table(f"Messages of handshake {ladder.handshake:,}", columns, rows, more=ladder.left_out)


def warnings(analysis: Analysis, most: int) -> Table | None:
    """What the user should know of; None: nothing."""
    rows = [(clean(one.capture), number(one.frame), clean(one.what)) for one in analysis.warnings[:most]]
    columns = (Column("file"), Column("frame", right=True), Column("what"))
    return _or_none("Warnings", columns, rows, len(analysis.warnings))


def skipped(analysis: Analysis, most: int) -> Table | None:
    """Captures and files with keys of which nothing could be read; None: all could."""
    rows = [(clean(one.path), clean(one.reason)) for one in analysis.skipped[:most]]
    return _or_none("Skipped", (Column("file"), Column("why")), rows, len(analysis.skipped))


def _or_none(title: str, columns: Sequence[Column], rows: Sequence[tuple[str, ...]], whole: int) -> Table | None:
    return Table(title, columns, rows, more=whole - len(rows)) if rows else None
