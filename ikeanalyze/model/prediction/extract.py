"""Extracts a `HandshakeFlow` from the tables of an analysis: a complete handshake and the processing times of both sides.

Time runs in turns, as in `analysis.timing`: from a request to its response one side has it, from there to the next
request the side that asks next. What of such an interval is the path's depends on where the capture was taken: a side's
own turns are exact there, those of the other side contain the path's round-trip time once. A side that goes on by itself,
having answered, has no path in between.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import polars as pl

from ikeanalyze.analysis.exchanges.radius import compute_aaa_wait
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.model.prediction.flow import (
    NON_ESP_MARKER,
    UDP_HEADER,
    FlowDatagram,
    FlowExchange,
    FlowMessage,
    HandshakeFlow,
    Side,
    get_encryption_overhead,
)

_WHOLE: Final = ("established", "completed")
_FRAGMENTATION: Final = "IKEV2_FRAGMENTATION_SUPPORTED"
_ETHERNET: Final = 14
#: Handshakes of one capture that are tried, the best first: where a message is missing in so many, it is in all.
_TRIED: Final = 100

Row = Mapping[str, Any]


class FlowError(ValueError):
    """There is no handshake that a prediction could be made of; the text says why."""


@dataclass(frozen=True, slots=True)
class CapturePoint:
    """Where a capture was taken, as something beside it says."""

    side: Side  # whose machine, or one next to it
    path_rtt_ns: int  # round trip between the two sides; 0: they are as good as next to each other


def extract_flow(
    analysis: Analysis, capture: str, handshake: int | None = None, place: CapturePoint | None = None
) -> HandshakeFlow:
    """The handshake `handshake` of `capture`; None: the one with the fewest retransmissions, the first of these.

    Ties prefer established handshakes. `place` is ignored if the path's round-trip time was given, or if the capture shows
    that it was taken on the other side.

    Raises:
        FlowError: it has none that is whole, or not that one.
    """
    table = analysis.handshakes.filter(pl.col("capture").cast(pl.String) == capture)
    whole = table.filter(pl.col("outcome").cast(pl.String).is_in(_WHOLE) & pl.col("setup_ns").is_not_null())
    if handshake is not None:
        chosen = whole.filter(pl.col("handshake") == handshake)
        if not chosen.height:
            raise FlowError(f"handshake {handshake} is {_why_not(table, handshake)}; {_known(whole)}")
        return _flow(analysis, _placed(chosen.row(0, named=True), place), whole.height - 1)
    problem = FlowError(f"there is no handshake that is whole and succeeded{_what_else(table)}")
    unsure = pl.col("outcome").cast(pl.String) != "established"
    best = whole.sort("retransmitted_messages", unsure, "handshake").head(_TRIED)
    for row in best.iter_rows(named=True):
        try:
            return _flow(analysis, _placed(row, place), whole.height - 1)
        except FlowError as error:
            problem = error
    raise problem


def _placed(row: Row, place: CapturePoint | None) -> Row:
    """The row with what is said beside the capture in place of what the capture does not tell."""
    if place is None or row["vantage"] not in ("unknown", place.side) or row["path_rtt_source"] == "given":
        return row
    return {
        **row,
        "vantage": place.side,
        "path_rtt_ns": place.path_rtt_ns,
        "path_rtt_source": "manifest",
    }


def _what_else(table: pl.DataFrame) -> str:
    """What there is, where none is whole."""
    outcomes = Counter(table["outcome"].cast(pl.String))
    # a set-up whose beginning the capture lacks has no time
    counts = [
        f"{count:,} {outcome if outcome not in _WHOLE else 'without beginning'}" for outcome, count in outcomes.items()
    ]
    return f", of {table.height:,} in it: {', '.join(counts)}" if counts else "; there is none at all"


def _why_not(table: pl.DataFrame, handshake: int) -> str:
    outcomes = table.filter(pl.col("handshake") == handshake)["outcome"].cast(pl.String).to_list()
    return f"{outcomes[0]}, or its beginning is missing" if outcomes else "not in it"


def _known(whole: pl.DataFrame) -> str:
    ids = whole["handshake"].sort().to_list()
    if not ids:
        return "none of its handshakes is whole and succeeded"
    return f"whole ones are {', '.join(map(str, ids[:10]))}{'...' if len(ids) > 10 else ''}"


def _flow(analysis: Analysis, row: Row, others: int) -> HandshakeFlow:
    number = row["handshake"]
    exchanges = list(
        analysis.exchanges.filter((pl.col("handshake") == number) & pl.col("set_up"))
        .sort("request_ns")
        .iter_rows(named=True)
    )
    messages = analysis.messages.filter((pl.col("handshake") == number) & pl.col("set_up"))
    by_exchange = messages.partition_by("exchange", as_dict=True)
    frames = analysis.frames.filter(pl.col("message").is_in(messages["message"].implode()))
    by_message = frames.filter(~pl.col("capture_duplicate")).partition_by("message", as_dict=True)
    path = row["path_rtt_ns"]
    built = []
    before: tuple[Side, int] | None = None  # who spoke last, and until when
    for exchange in exchanges:
        own = by_exchange[(exchange["exchange"],)].sort("first_ns")
        asker: Side = "initiator" if exchange["initiated_by"] == "initiator" else "responder"
        unanswered = exchange["end_ns"] is None
        if unanswered and row["protocol"] != "IKEv1":
            raise FlowError(f"handshake {number}: {exchange['type']} {exchange['message_id']} has no response")
        gap = 0 if before is None else exchange["request_ns"] - before[1]
        if before is not None and before[0] != asker:
            gap = _without_path(gap, asker, row)
        aaa, trips = _aaa(own)
        built.append(
            FlowExchange(
                type=str(exchange["type"]),
                message_id=None if row["protocol"] == "HIP" else exchange["message_id"],
                asker=asker,
                request=_message(own, "request", by_message, number),
                response=None if unanswered else _message(own, "response", by_message, number),
                before_ns=max(gap, 0),
                answer_ns=_answer(exchange, asker, aaa, row),
                aaa_ns=aaa,
                aaa_round_trips=trips,
            )
        )
        before = (asker, exchange["request_ns"]) if unanswered else (_other(asker), exchange["end_ns"])
    if not built:
        raise FlowError(f"handshake {number}: its messages are not in the capture")
    supports = [row["initiator_supports"] or [], row["responder_supports"] or []]
    return HandshakeFlow(
        capture=str(row["capture"]),
        handshake=number,
        others=others,
        protocol=row["protocol"],
        exchanges=tuple(built),
        fragmentation=all(_FRAGMENTATION in names for names in supports),
        protection=get_encryption_overhead(row["encryption"], row["integrity"]),
        setup_ns=row["setup_ns"],
        path=_source(row),
        path_rtt_ns=path,
    )


def _other(side: Side) -> Side:
    return "responder" if side == "initiator" else "initiator"


def _source(row: Row) -> Literal["given", "manifest", "estimated"] | None:
    match row["path_rtt_source"]:
        case None:
            return None
        case "given":
            return "given"
        case "manifest":
            return "manifest"
        case _:
            return "estimated"


def _without_path(interval: int, actor: Side, row: Row) -> int:
    """What of an interval that ends with something of `actor` is the actor's own."""
    if row["path_rtt_ns"] is None or row["vantage"] in ("unknown", actor):
        return interval
    rtt: int = row["path_rtt_ns"]
    return max(interval - rtt, 0)


def _answer(exchange: Row, asker: Side, aaa: int, row: Row) -> int | None:
    """The answering side's computation; None where a repeated request was answered: the work may have been done by then."""
    if exchange["end_ns"] is None or exchange["wait_ns"]:
        return None
    return max(_without_path(exchange["end_ns"] - exchange["request_ns"] - aaa, _other(asker), row), 0)


def _aaa(messages: pl.DataFrame) -> tuple[int, int]:
    """Time from each RADIUS request to its answer, without the wait to send it again, and how many were answered."""
    pairs: list[tuple[list[int], list[int]]] = []  # when the request was sent, and when responses were there
    for row in messages.filter(pl.col("protocol").cast(pl.String) == "RADIUS").iter_rows(named=True):
        request = row["kind"] == "request"
        if request and row["transmission"] == 1:
            pairs.append(([], []))
        if pairs:
            pairs[-1][0 if request else 1].append(row["first_ns" if request else "last_ns"])
    answered = [compute_aaa_wait(sent, answers)[0] for sent, answers in pairs if sent and answers]
    return sum(answered), len(answered)


def _message(
    messages: pl.DataFrame, kind: str, frames: Mapping[tuple[object, ...], pl.DataFrame], handshake: int
) -> FlowMessage:
    """The first transmission that is whole in the capture."""
    for row in messages.iter_rows(named=True):
        if row["kind"] != kind or row["protocol"] == "RADIUS" or row["fragments_seen"] != row["fragments"]:
            continue
        own = frames.get((row["message"],))
        if own is not None and (message := _of_frames(list(own.sort("number").iter_rows(named=True)))):
            return message
    name = messages.row(0, named=True)["type"]
    raise FlowError(f"handshake {handshake}: no transmission of the {name} {kind} is whole in the capture")


def _of_frames(frames: list[Row]) -> FlowMessage | None:
    """Frames to the parts of a message; None: the size of one is not known."""
    parts: dict[int | None, list[Row]] = {}
    for frame in frames:
        parts.setdefault(frame["fragment"], []).append(frame)
    first = frames[0]
    ip = 40 if ":" in first["source"] else 20
    transport = 0 if first["encapsulation"] == "IP" else UDP_HEADER
    marker = NON_ESP_MARKER if first["encapsulation"] in ("UDP 4500", "TCP 4500") else 0
    link = _ETHERNET
    whole = next((frame for frame in frames if not frame["ip_fragment"]), None)
    if whole is not None and whole["ike_bytes"] is not None and not _in_tcp(frames):
        # what else stands before the message counts as link header: VLAN tags, IP options
        link = max(whole["bytes"] - whole["ike_bytes"] - marker - transport - ip, 0)
    built = []
    for own in _in_order(parts):
        size = next((frame["ike_bytes"] for frame in own if frame["ike_bytes"] is not None), None)
        if size is None:
            return None
        # a TCP segment is no datagram: it is laid out anew
        sizes = (link + ip + transport + marker + size,) if _in_tcp(own) else tuple(frame["bytes"] for frame in own)
        built.append(FlowDatagram(size, sizes))
    # IKE_SA_INIT (34) and all of IKEv1 and HIP are not fragmented by RFC 7383
    encrypted = first["protocol"] == "IKEv2" and first["exchange_type"] != 34
    return FlowMessage(tuple(built), encrypted, marker, transport, ip, link)


def _in_order(parts: Mapping[int | None, list[Row]]) -> Iterable[list[Row]]:
    return [parts[number] for number in sorted(parts, key=lambda number: number or 0)]


def _in_tcp(frames: list[Row]) -> bool:
    return str(frames[0]["encapsulation"]).startswith("TCP")
