"""One handshake for people, with all that is known of it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.columns import text_columns
from ikeanalyze.render.inside import certificates, decrypted, exchanged_keys, matched_by, payload_bytes
from ikeanalyze.render.section import Facts, Section, Table
from ikeanalyze.render.table import Column, number_columns
from ikeanalyze.render.values import (
    UNKNOWN,
    clean,
    count,
    counted,
    endpoint,
    input_name,
    instant,
    listed,
    ms,
    number,
    outcome_text,
    ratio,
)


def details(analysis: Analysis) -> Iterator[Section]:
    """Everything about the one handshake of `analysis`."""
    row = analysis.handshakes.with_columns(*text_columns(analysis.handshakes)).row(0, named=True)
    outcome = outcome_text(row["outcome"], row["reason"])
    set_up = f" in {ms(row['setup_ns'])} ms" if row["setup_ns"] is not None else ""
    yield Facts(f"Handshake {row['handshake']:,}: {outcome}{set_up}", list(_identity(row, analysis)), level=1)
    if proposal := list(_proposal(row)):
        yield Facts("Proposal", proposal)
    yield from exchanged_keys(row, analysis.exchanges)
    yield from certificates(row)
    yield _links(row)
    if row["phases"]:
        yield _phases(row)
    yield from payload_bytes(analysis.handshakes)
    yield from _exchanges(analysis.exchanges)
    if row["setup_ns"] is not None:
        yield _breakdown(row)
    yield Facts("Transport", list(_transport(row)))
    supports = [(who, listed(row[f"{who}_supports"] or ())) for who in ("initiator", "responder")]
    if any(row[f"{who}_supports"] for who in ("initiator", "responder")):
        yield Facts("Supports", supports)


def _identity(row: Mapping[str, Any], analysis: Analysis) -> Iterator[tuple[str, str]]:
    if len(analysis.captures) > 1:
        yield "capture", input_name(row["capture"])
    yield "protocol", row["protocol"]
    if row["protocol"] != "HIP":
        yield "SPIi, SPIr", f"{row['spi_i']}, {row['spi_r']}"
    for side in ("initiator", "responder"):
        yield side, endpoint(row[f"{side}_address"], row[f"{side}_port"])
        if row["protocol"] == "HIP":
            yield "  its HIT", clean(row[f"{side}_hit"] or UNKNOWN)
    if row["aaa_address"] is not None:
        asked = f"asked by {clean(row['nas_address'] or '?')}"
        matched = matched_by(analysis.messages)
        yield "AAA server", f"{clean(row['aaa_address'])} ({asked}{matched and f', {matched}'})"
    yield (
        "NAT",
        {None: "not known", "none": "none", "both": "detected on both sides"}.get(
            row["nat"], f"detected on the side of the {row['nat']}"
        ),
    )
    yield "from", instant(row["start_ns"])
    yield "to", instant(row["end_ns"])
    opened = decrypted(analysis.messages)
    yield "authentication", _auth(row, opened=opened is not None)
    if opened is not None:
        yield "decrypted", opened
    if row["replaces"] is not None:
        yield "replaces", f"the IKE SA of handshake {row['replaces']:,}"
    if row["child_error"]:
        yield "CHILD_SA", f"refused: {clean(row['child_error'])}"
    if row["one_sided"]:
        yield "one-sided", f"only messages of the {row['one_sided']} are in the capture"


def _auth(row: Mapping[str, Any], *, opened: bool) -> str:
    methods = [f"{who} {clean(row[f'auth_{who}'])}" for who in ("initiator", "responder") if row[f"auth_{who}"]]
    if row["auth_eap"]:
        methods.append(clean(row["auth_eap"]))
    if not methods:
        return "not known"
    how = " (a guess: not decrypted)" if row["auth_guessed"] else " (read: decrypted)" if opened else ""
    return ", ".join(methods) + how


def _proposal(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("encryption", "prf", "integrity"):
        if row[name]:
            yield {"prf": "PRF"}.get(name, name), clean(row[name])
    if row["key_exchange"]:
        yield "key exchange", clean(row["key_exchange"])
    for slot in row["additional_key_exchanges"] or ():
        name = clean(slot["method"]) if slot["method"] else "unknown method"
        yield f"additional {slot['slot']}", f"{name} ({slot['id']})"
    offers = row["offered"] or ()
    for i, offer in enumerate(offers, 1):
        yield "offered" if len(offers) == 1 else f"offered {i}", clean(offer)


_COUNTS: Final = (*number_columns("messages", "frames", "bytes"),)


def _three(row: Mapping[str, Any], who: str) -> tuple[str, str, str]:
    return number(row[f"{who}_messages"]), number(row[f"{who}_frames"]), number(row[f"{who}_bytes"])


def _links(row: Mapping[str, Any]) -> Table:
    rows = [
        ("initiator-responder", "from initiator", *_three(row, "initiator")),
        ("initiator-responder", "from responder", *_three(row, "responder")),
    ]
    if row["nas_address"] is not None:
        rows.append(("responder-aaa", "from responder", *_three(row, "aaa_request")))
        rows.append(("responder-aaa", "from AAA", *_three(row, "aaa_response")))
    after = [
        ("after the set-up", f"from {who}", *_three(row, f"after_setup_{who}")) for who in ("initiator", "responder")
    ]
    if any(row[f"after_setup_{who}_messages"] for who in ("initiator", "responder")):
        rows += after
    return Table("Links", (Column("link", narrow=10), Column("direction", narrow=10), *_COUNTS), rows)


def _phases(row: Mapping[str, Any]) -> Table:
    phases = row["phases"] or ()
    rows: list[tuple[str, ...]] = [
        (clean(p["type"]), number(p["messages"]), number(p["frames"]), number(p["bytes"])) for p in phases
    ]
    if len(rows) > 1:
        rows.append(("total", *(number(sum(p[what] for p in phases)) for what in ("messages", "frames", "bytes"))))
    return Table("Phases", (Column("phase", narrow=12), *_COUNTS), rows, sums=len(rows) > 1)


_EXCHANGES: Final = "request, response: bytes in frames, of all transmissions; RTT, waited: ms"


def _exchanges(exchanges: pl.DataFrame) -> Iterator[Table]:
    table = exchanges.sort("exchange")
    table = table.with_columns(*text_columns(table))
    columns = [
        Column("exchange", narrow=12),
        Column("ID", right=True),
        Column("by", optional=3),
        *number_columns("request", "response", "RTT"),
        Column("waited", right=True, optional=2),
        Column("epoch", right=True, optional=4),
        Column("again for", narrow=10, optional=1),
    ]
    empty = {
        "by": bool((table["initiated_by"] == "initiator").all()),
        "waited": not bool((table["wait_ns"].fill_null(0) > 0).any()),
        "epoch": table["epoch"].null_count() == table.height,
        "again for": table["extra_round_trip"].null_count() == table.height,
    }
    columns = [column for column in columns if not empty.get(column.name)]
    for title, chosen in (
        ("Exchanges", table.filter("set_up")),
        ("Exchanges after the set-up", table.filter(~pl.col("set_up"))),
    ):
        rows = []
        for e in chosen.iter_rows(named=True):
            cells = {
                "exchange": clean(e["type"]),
                "ID": number(e["message_id"]),
                "by": e["initiated_by"],
                "request": _sent(e, "request"),
                "response": _sent(e, "response"),
                "RTT": ms(e["rtt_ns"]),
                "waited": ms(e["wait_ns"]),
                "epoch": number(e["epoch"]),
                "again for": clean(e["extra_round_trip"] or ""),
            }
            rows.append(tuple(cells[column.name] for column in columns))
        if rows:
            yield Table(title, columns, rows, notes=(_EXCHANGES,))


def _sent(row: Mapping[str, Any], kind: str) -> str:
    if row[f"{kind}_messages"] is None:
        return "none"
    return f"{row[f'{kind}_bytes']:,} in {row[f'{kind}_frames']:,}"


def _breakdown(row: Mapping[str, Any]) -> Table:
    parts = {
        "network": "network_ns",
        "initiator": "initiator_ns",
        "responder": "responder_ns",
        "AAA server": "aaa_ns",
        "waiting to retransmit": "retransmission_wait_ns",
    }
    rows = [(name, ms(row[column])) for name, column in parts.items() if row[column] is not None]
    vantage = {"unknown": "which side the capture was taken on is not known: --vantage tells it", None: ""}
    notes = [vantage.get(row["vantage"], f"captured at the {row['vantage']}")]
    if row["path_rtt_ns"] is not None:
        source = {"smallest seen": "an estimate: the smallest seen"}.get(row["path_rtt_source"], row["path_rtt_source"])
        notes.append(f"RTT of the path {ms(row['path_rtt_ns'])} ms" + (f" ({source})" if source else ""))
    rows.append(("total", ms(row["setup_ns"])))
    columns = (Column("part"), Column("ms", right=True))
    return Table("Set-up time", columns, rows, sums=True, notes=[note for note in notes if note])


def _again(row: Mapping[str, Any], what: str) -> str:
    return counted({w: row[f"{what}_{w}"] or 0 for w in ("messages", "frames", "bytes")})


def _transport(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "retransmissions", _again(row, "retransmitted")
    if row["aaa_retransmitted_messages"]:
        yield "  to and from AAA", _again(row, "aaa_retransmitted")
    yield "blow-up", ratio(row["blowup"])
    if row["ike_messages_fragmented"]:
        messages = count(row["ike_messages_fragmented"], "IKE message")
        yield "IKE fragments", f"{row['ike_fragments'] or 0:,} ({messages} fragmented)"
    else:
        yield "IKE fragments", "none"
    yield "IP fragments", number(row["ip_fragments"]) if row["ip_fragments"] else "none"
    if row["extra_round_trips"]:
        yield "extra round trips", f"{len(row['extra_round_trips'])}: {listed(row['extra_round_trips'])}"
    if row["capture_duplicates"]:
        yield "captured twice", f"{count(row['capture_duplicates'], 'frame')}, not counted above"
