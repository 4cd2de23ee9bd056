"""What a report for people says, section by section, before it is laid out.

A section is a heading with facts (name and value) or a table below it. Nothing here knows of widths or
colours.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.render import document
from ikeanalyze.render.table import Column
from ikeanalyze.render.values import (
    clean,
    count,
    endpoint,
    instant,
    key_exchanges,
    listed,
    ms,
    number,
    ratio,
    span,
)

#: Rows of a table that are shown unless all are asked for.
FEW: Final = 30

#: What ACCOUNTING counts, for people.
PACKETS: Final = {
    "ike": "IKE",
    "esp": "ESP",
    "ah": "AH",
    "nat_keepalive": "NAT keepalive",
    "radius": "RADIUS",
    "hip": "HIP",
    "tcp_encapsulation": "TCP encapsulation without IKE",
    "icmp": "ICMP",
    "other": "other",
    "malformed": "malformed",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, one below the other."""

    title: str
    rows: Sequence[tuple[str, str]]
    level: int = 2  # of the heading


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in columns."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    level: int = 2
    more: int = 0  # rows that are left out
    sums: bool = False  # the last row adds the others up
    notes: Sequence[str] = field(default=())


Section = Facts | Table


def sections(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """The report: captures, handshakes, and the details if there is one handshake only."""
    yield from captures(analysis, every=every)
    if analysis.handshakes.height == 1:
        yield from details(analysis)
    elif analysis.handshakes.height:
        yield from overview(analysis, every=every)
    else:
        yield Facts("Handshakes", [("found", "none")])


def captures(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """A summary of each capture; a table if there are many."""
    told: dict[str, int] = {}
    for warning in analysis.warnings:
        told[warning.capture] = told.get(warning.capture, 0) + 1
    if len(analysis.captures) <= 3:
        for one in analysis.captures:
            yield Facts(_name(one.path), list(_capture(one, told.get(one.path, 0))), level=1)
        return
    shown = analysis.captures if every else analysis.captures[:FEW]
    yield Table(
        "Captures",
        (
            Column("capture", narrow=16),
            Column("packets", right=True),
            Column("bytes", right=True),
            Column("IKE", right=True),
            Column("ESP", right=True, optional=2),
            Column("RADIUS", right=True, optional=3),
            Column("other", right=True, optional=4),
            Column("span", right=True, optional=1),
            Column("warnings", right=True),
        ),
        [
            (
                _name(one.path),
                number(one.packets),
                number(one.bytes),
                *(number(one.accounting.get(what, 0)) for what in ("ike", "esp", "radius")),
                number(sum(n for what, n in one.accounting.items() if what not in ("ike", "esp", "radius"))),
                _span(one),
                number(told.get(one.path, 0)),
            )
            for one in shown
        ],
        level=1,
        more=len(analysis.captures) - len(shown),
    )


def _name(path: str) -> str:
    return "standard input" if path == "-" else clean(path)


def _span(one: CaptureSummary) -> str:
    return "-" if one.first_ns is None or one.last_ns is None else span(one.last_ns - one.first_ns)


def _capture(one: CaptureSummary, warnings: int) -> Iterator[tuple[str, str]]:
    yield "format", clean(one.format)
    yield "packets", f"{one.packets:,} ({count(one.bytes, 'byte')} on the wire)"
    if one.first_ns is not None:
        yield "from", instant(one.first_ns)
        yield "to", f"{instant(one.last_ns)} ({_span(one)})"
    for what, packets in one.accounting.items():
        if packets:
            size = one.accounting_bytes.get(what, 0)
            yield PACKETS.get(what, what), f"{count(packets, 'packet')}, {count(size, 'byte')}"
    if one.snaplen_truncated:
        yield "cut by the snaplen", count(one.snaplen_truncated, "packet")
    if one.damaged:
        yield "damaged", f"the file is cut or broken behind packet {one.packets:,}"
    if warnings:
        yield "warnings", number(warnings)


def overview(analysis: Analysis, *, every: bool) -> Iterator[Section]:
    """Many handshakes: what they have in common, a row for each, and sums."""
    table = analysis.handshakes.sort("handshake")
    shown = table if every else table.head(FEW)
    texts = shown.with_columns(*document.text_columns(shown))
    varying: dict[str, list[str]] = {}
    common: list[tuple[str, str]] = []
    for name, column, values in _descriptions(table, texts):
        if column.n_unique() == 1:
            common.append((name, values[0]))
        else:
            varying[name] = values
    if common:
        yield Facts(f"{count(table.height, 'handshake')}, all with", common)
    ranks = {"key exchange": 1, "initiator": 2, "responder": 3, "authentication": 4}
    columns = [
        Column("#", right=True),
        *(Column(name, narrow=15, optional=ranks.get(name, 5)) for name in varying),
        Column("set-up, ms", right=True),
        Column("messages", right=True),
        Column("bytes", right=True),
        Column("blow-up", right=True),
        Column("outcome", narrow=11),
    ]
    rows = zip(
        map(str, texts["handshake"].to_list()),
        *varying.values(),
        map(ms, texts["setup_ns"].to_list()),
        map(number, (texts["initiator_messages"] + texts["responder_messages"]).to_list()),
        map(number, (texts["initiator_bytes"] + texts["responder_bytes"]).to_list()),
        map(ratio, texts["blowup"].to_list()),
        map(_outcome, texts["outcome"].to_list(), texts["reason"].to_list()),
        strict=True,
    )
    yield Table("Handshakes", columns, list(rows), more=table.height - shown.height)
    yield Facts("Together", list(_together(analysis)))


def _descriptions(table: pl.DataFrame, texts: pl.DataFrame) -> Iterator[tuple[str, pl.Series, list[str]]]:
    """What may be common to all handshakes: name, something to compare, text of the rows that are shown."""
    several = table["capture"].n_unique() > 1
    for name, column in (
        ("capture", "capture"),
        ("protocol", "protocol"),
        ("initiator", "initiator_address"),
        ("responder", "responder_address"),
    ):
        if column != "capture" or several:
            yield name, table[column], [clean(v) if v else "-" for v in texts[column].to_list()]
    methods = (
        table["additional_key_exchanges"]
        .list.eval(pl.element().struct.field("id").cast(pl.String))
        .list.join(",")
    )
    yield (
        "key exchange",
        table["key_exchange"].fill_null("") + methods.fill_null(""),
        [
            key_exchanges(first, more) or "-"
            for first, more in zip(
                texts["key_exchange"].to_list(), texts["additional_key_exchanges"].to_list(), strict=True
            )
        ],
    )
    auth = ("auth_initiator", "auth_responder", "auth_eap", "auth_guessed")
    yield (
        "authentication",
        table.select(pl.struct(auth).alias("auth"))["auth"],
        [_auth_short(*row) for row in texts.select(auth).iter_rows()],
    )


def _auth_short(initiator: str | None, responder: str | None, eap: str | None, guessed: bool | None) -> str:
    one, two = (clean(eap) if eap and i == "eap" else clean(i) if i else "?" for i in (initiator, responder))
    text = "-" if one == two == "?" else one if one == two else f"{one}/{two}"
    return text + (" (guess)" if guessed and text != "-" else "")


def _outcome(outcome: str, reason: str | None) -> str:
    return f"{outcome}: {clean(reason)}" if reason else outcome


def _together(analysis: Analysis) -> Iterator[tuple[str, str]]:
    sums = document.totals(analysis)
    outcomes = ", ".join(f"{n:,} {outcome}" for outcome, n in sums["outcomes"].items() if n)
    yield "handshakes", f"{sums['handshakes']:,}: {outcomes}"
    for name, link in sums["links"].items():
        if link["messages"]:
            yield f"link {name}", _counts(link)
    yield "retransmissions", _counts(sums["retransmissions"])
    yield "blow-up", ratio(sums["blowup"])
    setup = sums["setup_ms"]
    if setup["known"]:
        times = ", ".join(f"{how} {setup[how]:,.3f}" for how in ("min", "median", "mean", "max"))
        yield (
            "set-up, ms",
            times + (f" (of {setup['known']:,})" if setup["known"] < sums["handshakes"] else ""),
        )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(count(counts[what], what.removesuffix("s")) for what in ("messages", "frames", "bytes"))


def details(analysis: Analysis) -> Iterator[Section]:
    """Everything about the one handshake of `analysis`."""
    row = analysis.handshakes.with_columns(*document.text_columns(analysis.handshakes)).row(0, named=True)
    outcome = _outcome(row["outcome"], row["reason"])
    set_up = f" in {ms(row['setup_ns'])} ms" if row["setup_ns"] is not None else ""
    yield Facts(f"Handshake {row['handshake']:,}: {outcome}{set_up}", list(_identity(row, analysis)), level=1)
    if proposal := list(_proposal(row)):
        yield Facts("Proposal", proposal)
    yield _links(row)
    yield _phases(row)
    yield from _exchanges(analysis.exchanges)
    if row["setup_ns"] is not None:
        yield _breakdown(row)
    yield Facts("Transport", list(_transport(row)))
    supports = [(who, listed(row[f"{who}_supports"] or ())) for who in ("initiator", "responder")]
    if any(row[f"{who}_supports"] for who in ("initiator", "responder")):
        yield Facts("Supports", supports)


def _identity(row: Mapping[str, Any], analysis: Analysis) -> Iterator[tuple[str, str]]:
    if len(analysis.captures) > 1:
        yield "capture", _name(row["capture"])
    yield "protocol", row["protocol"]
    yield "SPIi, SPIr", f"{row['spi_i']}, {row['spi_r']}"
    yield "initiator", endpoint(row["initiator_address"], row["initiator_port"])
    yield "responder", endpoint(row["responder_address"], row["responder_port"])
    if row["aaa_address"] is not None:
        yield "AAA server", f"{clean(row['aaa_address'])} (asked by {clean(row['nas_address'] or '?')})"
    yield (
        "NAT",
        {None: "not known", "none": "none", "both": "detected on both sides"}.get(
            row["nat"], f"detected on the side of the {row['nat']}"
        ),
    )
    yield "from", instant(row["start_ns"])
    yield "to", instant(row["end_ns"])
    yield "authentication", _auth(row)
    if row["one_sided"]:
        yield "one-sided", f"only messages of the {row['one_sided']} are in the capture"


def _auth(row: Mapping[str, Any]) -> str:
    methods = [
        f"{who} {clean(row[f'auth_{who}'])}" for who in ("initiator", "responder") if row[f"auth_{who}"]
    ]
    if row["auth_eap"]:
        methods.append(clean(row["auth_eap"]))
    if not methods:
        return "not known"
    return ", ".join(methods) + (" (a guess: not decrypted)" if row["auth_guessed"] else "")


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


_COUNTS: Final = (
    Column("messages", right=True),
    Column("frames", right=True),
    Column("bytes", right=True),
)


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
        ("after the set-up", f"from {who}", *_three(row, f"after_setup_{who}"))
        for who in ("initiator", "responder")
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
        rows.append(
            ("together", *(number(sum(p[what] for p in phases)) for what in ("messages", "frames", "bytes")))
        )
    return Table("Phases", (Column("phase", narrow=12), *_COUNTS), rows, sums=len(rows) > 1)


_EXCHANGES: Final = "request, response: bytes in frames, of all transmissions; RTT, waited: ms"


def _exchanges(exchanges: pl.DataFrame) -> Iterator[Table]:
    table = exchanges.sort("exchange")
    table = table.with_columns(*document.text_columns(table))
    columns = [
        Column("exchange", narrow=12),
        Column("ID", right=True),
        Column("by", optional=3),
        Column("request", right=True),
        Column("response", right=True),
        Column("RTT", right=True),
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
        source = {"smallest seen": "an estimate: the smallest seen"}.get(
            row["path_rtt_source"], row["path_rtt_source"]
        )
        notes.append(f"RTT of the path {ms(row['path_rtt_ns'])} ms" + (f" ({source})" if source else ""))
    rows.append(("together", ms(row["setup_ns"])))
    columns = (Column("part"), Column("ms", right=True))
    return Table("Set-up time", columns, rows, sums=True, notes=[note for note in notes if note])


def _transport(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield (
        "retransmissions",
        _counts({w: row[f"retransmitted_{w}"] or 0 for w in ("messages", "frames", "bytes")}),
    )
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
