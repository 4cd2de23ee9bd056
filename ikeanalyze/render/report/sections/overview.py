"""The sections of several handshakes: common properties, a table with a row for each, and sums."""

from collections.abc import Iterator
from typing import Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.section import FEW, KeyValueSection, Section, TableSection
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNCERTAIN_MARK,
    UNKNOWN,
    escape_text,
    format_count,
    format_counts,
    format_integer,
    format_iso_time,
    format_key_exchanges,
    format_ms,
    format_outcome,
    format_ratio,
)
from ikeanalyze.render.report import document
from ikeanalyze.render.report.sections.decrypted_contents import describe_decryption, render_payload_bytes
from ikeanalyze.render.report.selection import select_set_ups

#: Room in a terminal of 100 columns for the columns with which a handshake is found in a log.
_WIDE: Final = 98


def render_overview(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """Yield common properties, the table of handshakes, and sums."""
    table = analysis.handshakes
    if not table["handshake"].is_sorted():  # sorting copies the table, which may be large
        table = table.sort("handshake")
    shown = table if every else table.head(FEW)
    texts = cast_text_columns(shown)
    varying: dict[str, list[str]] = {}
    common: list[tuple[str, str]] = []
    for name, column, values in _list_descriptions(table, texts):
        if column.n_unique() == 1:
            common.append((name, values[0]))
        else:
            varying[name] = values
    if common:
        yield KeyValueSection(f"{format_count(table.height, 'handshake')}, all with", common)
    ranks = {"key exchange": 2, "initiator": 3, "responder": 4, "authentication": 5}
    columns = [
        TableColumn("#", right=True),
        TableColumn("start, UTC", optional=1, least=_WIDE),
        TableColumn("SPIi", narrow=16, middle=True, optional=1, least=_WIDE),
        *(TableColumn(name, narrow=15, optional=ranks.get(name, 6)) for name in varying),
        *number_columns("set-up, ms", "messages"),
        TableColumn("rtx", right=True, optional=1, least=_WIDE),
        *number_columns("bytes", "blow-up"),
        TableColumn("outcome", narrow=11),
    ]
    rows = zip(
        map(str, texts["handshake"].to_list()),
        _format_starts(texts["start_ns"].to_list()),
        [escape_text(spi or hit or UNKNOWN) for spi, hit in texts.select("spi_i", "initiator_hit").iter_rows()],
        *varying.values(),
        [format_ms(ns, uncertain=why is not None) for ns, why in texts.select("setup_ns", "uncertain").iter_rows()],
        map(format_integer, (texts["initiator_messages"] + texts["responder_messages"]).to_list()),
        map(format_integer, texts["retransmitted_messages"].to_list()),
        map(format_integer, (texts["initiator_bytes"] + texts["responder_bytes"]).to_list()),
        map(format_ratio, texts["blowup"].to_list()),
        map(format_outcome, texts["outcome"].to_list(), texts["reason"].to_list(), texts["child_error"].to_list()),
        strict=True,
    )
    reasons = shown["uncertain"].drop_nulls().unique().to_list()
    notes = [f"{UNCERTAIN_MARK} uncertain: {reason}; set --vantage and --rtt" for reason in reasons]
    yield TableSection("Handshakes", columns, list(rows), more=table.height - shown.height, notes=notes)
    yield KeyValueSection("Together", list(_list_totals(analysis)))
    yield from render_payload_bytes(table)


def _format_starts(times: list[int | None]) -> list[str]:
    """Return times of day to the millisecond, with the date if there are several days."""
    texts = [format_iso_time(ns) for ns in times]
    days = {text[:10] for text in texts if text is not None}
    return [
        UNKNOWN if text is None else f"{text[:10]} {text[11:23]}" if len(days) > 1 else text[11:23] for text in texts
    ]


def _list_descriptions(table: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[str, pl.Series, list[str]]]:
    """Properties that may be common to all handshakes: name, column to compare, texts of the shown rows."""
    several = table["capture"].n_unique() > 1
    for column in ("capture", "protocol", "initiator_address", "responder_address"):
        if column != "capture" or several:
            known = [escape_text(value) if value else "-" for value in texts[column].to_list()]
            yield column.removesuffix("_address"), table[column], known
    if table["tunnel"].null_count() < table.height:
        yield (
            "tunnel",
            table["tunnel"],
            [escape_text(tunnel) if tunnel else "-" for tunnel in texts["tunnel"].to_list()],
        )
    ids = table["additional_key_exchanges"].list.eval(pl.element().struct.field("id").cast(pl.String)).list.join(",")
    methods = table["key_exchange"].fill_null("") + ids.fill_null("")
    names = texts.select("key_exchange", "additional_key_exchanges").iter_rows()
    yield "key exchange", methods, [format_key_exchanges(first, more) or "-" for first, more in names]
    auth = ("auth_initiator", "auth_responder", "auth_eap", "auth_guessed")
    compared = table.select(pl.struct(auth).alias("auth"))["auth"]
    yield "authentication", compared, [_format_auth(*row) for row in texts.select(auth).iter_rows()]


def _format_auth(initiator: str | None, responder: str | None, eap: str | None, guessed: bool | None) -> str:
    first, second = (
        "+".join(escape_text(eap if eap and word == "eap" else word) for word in methods.split("+")) if methods else "?"
        for methods in (initiator, responder)
    )
    text = "-" if first == second == "?" else first if first == second else f"{first}/{second}"
    return text + (" (guess)" if guessed and text != "-" else "")


def _list_totals(analysis: Analysis) -> Iterator[tuple[str, str]]:
    sums = document.compute_totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    yield "handshakes", f"{sums['handshakes']:,}: {outcomes}"
    for name, link in sums["links"].items():
        if link["messages"]:
            yield f"link {name}", format_counts(link)
    yield "retransmissions", format_counts(sums["retransmissions"])
    table = select_set_ups(analysis).handshakes
    repeated = {count: int(table[f"aaa_retransmitted_{count}"].sum()) for count in ("messages", "frames", "bytes")}
    if repeated["messages"]:
        yield "  to and from AAA", format_counts(repeated)
    yield "blow-up", format_ratio(sums["blowup"])
    setup = sums["setup_ms"]
    if setup["known"]:
        times = ", ".join(f"{statistic} {setup[statistic]:,.3f}" for statistic in ("min", "median", "mean", "max"))
        of = f" (of {setup['known']:,})" if setup["known"] < sums["handshakes"] else ""
        uncertain = f"; {setup['uncertain']:,} {UNCERTAIN_MARK} uncertain" if setup["uncertain"] else ""
        yield "set-up, ms", f"{times}{of}{uncertain}"
    if (opened := describe_decryption(analysis.messages)) is not None:
        yield "decrypted", opened
    yield from _key_exchanges(analysis.handshakes)


def _key_exchanges(table: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """The number of decoded key exchanges, and of those with findings."""
    findings = table["key_exchanges"].drop_nulls().explode().drop_nulls().struct.field("findings")
    if findings.is_empty():
        return
    wrong = int((findings.list.len() > 0).sum())
    result = f"findings in {wrong:,}, see the warnings" if wrong else "no finding"
    yield "key exchanges", f"{len(findings):,} read, {result}"
