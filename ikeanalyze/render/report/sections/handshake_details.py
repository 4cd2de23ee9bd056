"""The sections of a single handshake with all its details."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.section import Columns, KeyValueSection, Section, TableSection, tabulate
from ikeanalyze.render.core.table import TableColumn, number_columns
from ikeanalyze.render.core.values import (
    UNCERTAIN_MARK,
    UNKNOWN,
    escape_text,
    format_count,
    format_counts,
    format_endpoint,
    format_handshake_title,
    format_identifier,
    format_input_name,
    format_integer,
    format_ms,
    format_ratio,
    format_time,
    join_items,
)
from ikeanalyze.render.report.sections.decrypted_contents import (
    describe_decryption,
    describe_radius_matching,
    render_certificates,
    render_key_exchanges,
    render_payload_bytes,
)
from ikeanalyze.render.report.sections.diagnosis import render_diagnosis
from ikeanalyze.render.report.selection import get_handshake_row


def render_handshake(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """Yield the sections of the only handshake of `analysis`.

    Unless `every` is set, the exchanges after the set-up are only the first ones: liveness checks every few seconds
    make thousands of them.
    """
    row = get_handshake_row(analysis)
    facts = [*render_diagnosis(row), *_render_identity(row, analysis)]
    yield KeyValueSection(format_handshake_title(row), facts, level=1, outcome=row["outcome"])
    if proposal := list(_render_proposal(row)):
        yield KeyValueSection("Proposal", proposal)
    yield from render_key_exchanges(row, analysis.exchanges)
    yield from render_certificates(row)
    yield _render_link_table(row)
    if row["phases"]:
        yield _render_phase_table(row)
    yield from render_payload_bytes(analysis.handshakes)
    yield from _render_exchange_tables(analysis.exchanges, uncertain=row["uncertain"] is not None, every=every)
    if row["setup_ns"] is not None:
        yield _render_breakdown_table(row)
    yield KeyValueSection("Transport", list(_render_transport(row)))
    if row["initiator_supports"] or row["responder_supports"]:
        yield KeyValueSection("Supports", [(side, _format_supports(row, side)) for side in ("initiator", "responder")])


def _render_identity(row: Mapping[str, Any], analysis: Analysis) -> Iterator[tuple[str, str]]:
    if len(analysis.captures) > 1:
        yield "capture", format_input_name(row["capture"])
    yield "protocol", row["protocol"]
    if row["protocol"] != "HIP":
        yield "SPIi, SPIr", f"{row['spi_i']}, {row['spi_r']}"
    for side in ("initiator", "responder"):
        yield side, format_endpoint(row[f"{side}_address"], row[f"{side}_port"])
        if row["protocol"] == "HIP":
            yield "  its HIT", escape_text(row[f"{side}_hit"] or UNKNOWN)
    if row["tunnel"] is not None:
        yield "tunnel", escape_text(row["tunnel"])
    if row["aaa_address"] is not None:
        nas = f"asked by {escape_text(row['nas_address'] or '?')}"
        matched = describe_radius_matching(analysis.messages)
        yield "AAA server", f"{escape_text(row['aaa_address'])} ({nas}{matched and f', {matched}'})"
    nat = {None: "not known", "none": "none", "both": "detected on both sides"}
    yield "NAT", nat.get(row["nat"], f"detected on the side of the {row['nat']}")
    yield "from", format_time(row["start_ns"])
    yield "to", format_time(row["end_ns"])
    opened = describe_decryption(analysis.messages)
    yield "authentication", _format_auth(row, opened=opened is not None)
    if opened is not None:
        yield "decrypted", opened
    if row["replaces"] is not None:
        yield "replaces", f"the IKE SA of handshake {row['replaces']}"
    if row["child_error"]:
        yield "CHILD_SA", f"refused: {escape_text(row['child_error'])}"
    if row["one_sided"]:
        yield "one-sided", f"only messages of the {row['one_sided']} are in the capture"


def _format_supports(row: Mapping[str, Any], side: str) -> str:
    names = row[f"{side}_supports"]
    if not row[f"{side}_init_truncated"]:
        return join_items(names or ())
    return (
        f"{join_items(names)}; the rest is truncated in the capture" if names else "not known: truncated in the capture"
    )


def _format_auth(row: Mapping[str, Any], *, opened: bool) -> str:
    methods = [
        f"{side} {escape_text(row[f'auth_{side}'])}" for side in ("initiator", "responder") if row[f"auth_{side}"]
    ]
    if row["auth_eap"]:
        methods.append(escape_text(row["auth_eap"]))
    if not methods:
        return "not known"
    source = " (a guess: not decrypted)" if row["auth_guessed"] else " (read: decrypted)" if opened else ""
    return ", ".join(methods) + source


def _render_proposal(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("encryption", "prf", "integrity"):
        if row[name]:
            yield {"prf": "PRF"}.get(name, name), escape_text(row[name])
    if row["key_exchange"]:
        yield "key exchange", escape_text(row["key_exchange"])
    for slot in row["additional_key_exchanges"] or ():
        name = escape_text(slot["method"]) if slot["method"] else "unknown method"
        yield f"additional {slot['slot']}", f"{name} ({slot['id']})"
    offers = row["offered"] or ()
    for i, offer in enumerate(offers, 1):
        yield "offered" if len(offers) == 1 else f"offered {i}", escape_text(offer)


_COUNTS: Final = ("messages", "frames", "bytes")


def _render_link_table(row: Mapping[str, Any]) -> TableSection:
    links = [
        ("initiator-responder", "from initiator", "initiator"),
        ("initiator-responder", "from responder", "responder"),
    ]
    if row["nas_address"] is not None:
        links.append(("responder-aaa", "from responder", "aaa_request"))
        links.append(("responder-aaa", "from AAA", "aaa_response"))
    if any(row[f"after_setup_{side}_messages"] for side in ("initiator", "responder")):
        links += [("after the set-up", f"from {side}", f"after_setup_{side}") for side in ("initiator", "responder")]
    rows = [(*names, *(format_integer(row[f"{sender}_{count}"]) for count in _COUNTS)) for *names, sender in links]
    columns = (TableColumn("link", narrow=10), TableColumn("direction", narrow=10), *number_columns(*_COUNTS))
    return TableSection("Links", columns, rows)


def _render_phase_table(row: Mapping[str, Any]) -> TableSection:
    phases = row["phases"]
    if len(phases) > 1:
        phases = [*phases, {"type": "total", **{count: sum(phase[count] for phase in phases) for count in _COUNTS}}]
    rows = [(escape_text(phase["type"]), *(format_integer(phase[count]) for count in _COUNTS)) for phase in phases]
    return TableSection(
        "Phases", (TableColumn("phase", narrow=12), *number_columns(*_COUNTS)), rows, sums=len(rows) > 1
    )


_EXCHANGES: Final = "request, response: bytes in frames, of all transmissions; RTT, waited: ms"


def _render_exchange_tables(exchanges: pl.DataFrame, *, uncertain: bool, every: bool) -> Iterator[TableSection]:

    def format_time(row: Mapping[str, Any], column: str) -> str:
        return format_ms(row[column], uncertain=uncertain and row["set_up"] and _is_repeated(row))

    table = cast_text_columns(exchanges.sort("exchange"))
    columns: Columns[Mapping[str, Any]] = [
        (TableColumn("exchange", narrow=12), lambda row: row["type"]),
        (TableColumn("ID", right=True), lambda row: format_identifier(row["message_id"])),
        (TableColumn("by", optional=3), lambda row: row["initiated_by"]),
        (TableColumn("request", right=True), lambda row: _format_sent(row, "request")),
        (TableColumn("response", right=True), lambda row: _format_sent(row, "response")),
        (TableColumn("RTT", right=True), lambda row: format_time(row, "rtt_ns")),
        (TableColumn("waited", right=True, optional=2), lambda row: format_time(row, "wait_ns")),
        (TableColumn("epoch", right=True, optional=4), lambda row: row["epoch"]),
        (TableColumn("again for", narrow=10, optional=1), lambda row: row["extra_round_trip"] or ""),
    ]
    empty = {
        "by": bool((table["initiated_by"] == "initiator").all()),
        "waited": not bool((table["wait_ns"].fill_null(0) > 0).any()),
        "epoch": table["epoch"].null_count() == table.height,
        "again for": table["extra_round_trip"].null_count() == table.height,
    }
    columns = [(column, cell) for column, cell in columns if not empty.get(column.name)]
    for title, in_set_up in (("Exchanges", True), ("Exchanges after the set-up", False)):
        if rows := table.filter(pl.col("set_up") == in_set_up).to_dicts():
            yield tabulate(title, rows, columns, every=every or in_set_up, notes=(_EXCHANGES,))


def _is_repeated(exchange: Mapping[str, Any]) -> bool:
    return all((exchange[f"{kind}_messages"] or 0) > 1 for kind in ("request", "response"))


def _format_sent(row: Mapping[str, Any], kind: str) -> str:
    if row[f"{kind}_messages"] is None:
        return "none"
    return f"{row[f'{kind}_bytes']:,} in {row[f'{kind}_frames']:,}"


def _render_breakdown_table(row: Mapping[str, Any]) -> TableSection:
    parts = {name: f"{name}_ns" for name in ("network", "initiator")}
    parts |= {"initiator and network": "initiator_and_network_ns", "responder": "responder_ns"}
    parts |= {"AAA server": "aaa_ns", "waiting to retransmit": "retransmission_wait_ns"}
    uncertain = row["uncertain"] is not None
    rows = [
        (name, format_ms(row[column], uncertain=uncertain)) for name, column in parts.items() if row[column] is not None
    ]
    vantage = {"unknown": "unknown capture point, network time not separated: set it with --vantage", None: ""}
    notes = [vantage.get(row["vantage"], f"captured at the {row['vantage']}")]
    if row["path_rtt_ns"] is not None:
        sources = {"smallest seen": "an estimate: the smallest seen", "manifest": "from the lab's manifest"}
        source = sources.get(row["path_rtt_source"], row["path_rtt_source"])
        notes.append(f"RTT of the path {format_ms(row['path_rtt_ns'])} ms" + (f" ({source})" if source else ""))
    if row["initiator_setup_ns"] not in (None, row["setup_ns"]):
        notes.append(f"{format_ms(row['initiator_setup_ns'])} ms as the initiator sees it")
    if uncertain:
        notes.append(f"{UNCERTAIN_MARK} uncertain: {row['uncertain']}; set --vantage and --rtt")
    rows.append(("total", format_ms(row["setup_ns"], uncertain=uncertain)))
    columns = (TableColumn("part"), TableColumn("ms", right=True))
    return TableSection("Set-up time", columns, rows, sums=True, notes=[note for note in notes if note])


def _format_repeated(row: Mapping[str, Any], prefix: str) -> str:
    return format_counts({count: row[f"{prefix}_{count}"] or 0 for count in _COUNTS})


def _render_transport(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "retransmissions", _format_repeated(row, "retransmitted")
    if row["aaa_retransmitted_messages"]:
        yield "  to and from AAA", _format_repeated(row, "aaa_retransmitted")
    yield "blow-up", format_ratio(row["blowup"])
    if row["ike_messages_fragmented"]:
        messages = format_count(row["ike_messages_fragmented"], "IKE message")
        yield "IKE fragments", f"{row['ike_fragments'] or 0:,} ({messages} fragmented)"
    else:
        yield "IKE fragments", "none"
    yield "IP fragments", format_integer(row["ip_fragments"]) if row["ip_fragments"] else "none"
    if row["extra_round_trips"]:
        yield "extra round trips", f"{len(row['extra_round_trips'])}: {join_items(row['extra_round_trips'])}"
    if row["capture_duplicates"]:
        yield "captured twice", f"{format_count(row['capture_duplicates'], 'frame')}, not counted above"
