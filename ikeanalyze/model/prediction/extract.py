"""Extracts a `HandshakeFlow` from the tables of an analysis: a complete handshake with processing times of both sides.

From a request to its response the responding side processes; from a response to the next request the side that sends
the request. The capture point determines what such an interval contains: the intervals of the side that the capture was
taken on are exact, those of the other side contain the round-trip time of the path once. An interval between two
messages of the same side does not contain the path.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.exchanges.radius import compute_aaa_wait
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.model.prediction import flow
from ikeanalyze.model.prediction.flow import FlowDatagram, FlowExchange, FlowMessage, HandshakeFlow, Side
from ikeanalyze.wire.registries.ikev2 import ExchangeType

_SUCCESSFUL: Final = ("established", "completed")
_FRAGMENTATION: Final = "IKEV2_FRAGMENTATION_SUPPORTED"
_ETHERNET: Final = 14
#: Handshakes of a capture that are tried, the best first. If all of them lack a message, the others do too.
_MAX_TRIED: Final = 100

Row = Mapping[str, Any]


class FlowError(ValueError):
    """No handshake can be used for a prediction; the message has the reason."""


def extract_flow(analysis: Analysis, capture: str, handshake: int | None = None) -> HandshakeFlow:
    """Return the flow of a handshake of `capture`.

    `handshake` None: the one with the fewest retransmissions; established handshakes are preferred, then the first.

    Raises:
        FlowError: no handshake is complete and successful, or the given one is not.
    """
    table = analysis.handshakes.filter(pl.col("capture").cast(pl.String) == capture, ~pl.col("rekeyed"))
    complete = table.filter(pl.col("outcome").cast(pl.String).is_in(_SUCCESSFUL) & pl.col("setup_ns").is_not_null())
    if handshake is not None:
        chosen = complete.filter(pl.col("handshake") == handshake)
        if not chosen.height:
            reason = _explain_incomplete(table, handshake)
            raise FlowError(f"handshake {handshake} is {reason}; {_list_complete(complete)}")
        return _make_flow(analysis, chosen.row(0, named=True), complete.height - 1)
    problem = FlowError(f"no complete and successful handshake{_count_outcomes(table)}")
    unsure = pl.col("outcome").cast(pl.String) != "established"
    best = complete.sort("retransmitted_messages", unsure, "handshake").head(_MAX_TRIED)
    for row in best.iter_rows(named=True):
        try:
            return _make_flow(analysis, row, complete.height - 1)
        except FlowError as error:
            problem = error
    raise problem


def _count_outcomes(table: pl.DataFrame) -> str:
    """Return the outcomes of the handshakes as the end of an error message."""
    outcomes = Counter(table["outcome"].cast(pl.String))
    # a handshake whose beginning is not in the capture has no set-up time
    names = {outcome: "without beginning" if outcome in _SUCCESSFUL else outcome for outcome in outcomes}
    counts = [f"{count:,} {names[outcome]}" for outcome, count in outcomes.items()]
    return f" among {table.height:,}: {', '.join(counts)}" if counts else ": the capture has none"


def _explain_incomplete(table: pl.DataFrame, handshake: int) -> str:
    outcomes = table.filter(pl.col("handshake") == handshake)["outcome"].cast(pl.String).to_list()
    return f"{outcomes[0]}, or its beginning is missing" if outcomes else "not in the capture"


def _list_complete(complete: pl.DataFrame) -> str:
    ids = complete["handshake"].sort().to_list()
    if not ids:
        return "no handshake is complete and successful"
    return f"complete handshakes: {', '.join(map(str, ids[:10]))}{'...' if len(ids) > 10 else ''}"


def _make_flow(analysis: Analysis, row: Row, others: int) -> HandshakeFlow:
    number = row["handshake"]
    exchanges = analysis.exchanges.filter(handshake=number, set_up=True).sort("request_ns")
    messages = analysis.messages.filter(handshake=number, set_up=True)
    by_exchange = messages.partition_by("exchange", as_dict=True)
    frames = analysis.frames.filter(pl.col("message").is_in(messages["message"].implode()))
    by_message = frames.filter(~pl.col("capture_duplicate")).partition_by("message", as_dict=True)
    flow_exchanges = []
    previous: tuple[Side, int] | None = None  # sender and end of the previous message
    for exchange in exchanges.iter_rows(named=True):
        exchange_messages = by_exchange[(exchange["exchange"],)].sort("first_ns")
        asker: Side = "initiator" if exchange["initiated_by"] == "initiator" else "responder"
        if exchange["request_ns"] is None:
            raise FlowError(f"handshake {number}: {exchange['type']} {exchange['message_id']} has no request")
        unanswered = exchange["end_ns"] is None
        if unanswered and row["protocol"] != "IKEv1":
            raise FlowError(f"handshake {number}: {exchange['type']} {exchange['message_id']} has no response")
        gap = 0 if previous is None else exchange["request_ns"] - previous[1]
        if previous is not None and previous[0] != asker:
            gap = _subtract_path(gap, asker, row)
        aaa, trips = _measure_aaa(exchange_messages)
        flow_exchanges.append(
            FlowExchange(
                type=str(exchange["type"]),
                message_id=None if row["protocol"] == "HIP" else exchange["message_id"],
                asker=asker,
                request=_extract_message(exchange_messages, "request", by_message, number),
                response=None if unanswered else _extract_message(exchange_messages, "response", by_message, number),
                before_ns=max(gap, 0),
                answer_ns=_compute_answer_time(exchange, asker, aaa, row),
                aaa_ns=aaa,
                aaa_round_trips=trips,
            )
        )
        previous = (asker, exchange["request_ns"]) if unanswered else (_get_peer(asker), exchange["end_ns"])
    if not flow_exchanges:
        raise FlowError(f"handshake {number}: its messages are not in the capture")
    source = row["path_rtt_source"]
    supports = [row["initiator_supports"] or [], row["responder_supports"] or []]
    return HandshakeFlow(
        capture=str(row["capture"]),
        handshake=number,
        others=others,
        protocol=row["protocol"],
        exchanges=tuple(flow_exchanges),
        fragmentation=all(_FRAGMENTATION in names for names in supports),
        protection=flow.get_encryption_overhead(row["encryption"], row["integrity"]),
        setup_ns=row["setup_ns"],
        path=source if source in (None, "given", "manifest") else "estimated",
        path_rtt_ns=row["path_rtt_ns"],
    )


def _get_peer(side: Side) -> Side:
    return "responder" if side == "initiator" else "initiator"


def _subtract_path(interval: int, actor: Side, row: Row) -> int:
    """Return the processing time of `actor` in an interval that ends with a message of `actor`."""
    if row["path_rtt_ns"] is None or row["vantage"] in ("unknown", actor):
        return interval
    return max(interval - int(row["path_rtt_ns"]), 0)


def _compute_answer_time(exchange: Row, asker: Side, aaa: int, row: Row) -> int | None:
    """Return the responding side's processing time; None if a retransmission was answered, which needs less work."""
    if exchange["end_ns"] is None or exchange["wait_ns"]:
        return None
    return max(_subtract_path(exchange["end_ns"] - exchange["request_ns"] - aaa, _get_peer(asker), row), 0)


def _measure_aaa(messages: pl.DataFrame) -> tuple[int, int]:
    """Return the time of the answered RADIUS requests without retransmission timers, and their number."""
    pairs: list[tuple[list[int], list[int]]] = []  # times of the transmissions and of the responses
    for row in messages.filter(pl.col("protocol").cast(pl.String) == "RADIUS").iter_rows(named=True):
        request = row["kind"] == "request"
        if request and row["transmission"] == 1:
            pairs.append(([], []))
        if pairs:
            pairs[-1][0 if request else 1].append(row["first_ns" if request else "last_ns"])
    answered = [compute_aaa_wait(sent, answers)[0] for sent, answers in pairs if sent and answers]
    return sum(answered), len(answered)


def _extract_message(
    messages: pl.DataFrame, kind: str, frames: Mapping[tuple[object, ...], pl.DataFrame], handshake: int
) -> FlowMessage:
    """Return the first transmission that is complete in the capture."""
    for row in messages.iter_rows(named=True):
        if row["kind"] != kind or row["protocol"] == "RADIUS" or row["fragments_seen"] != row["fragments"]:
            continue
        table = frames.get((row["message"],))
        if table is not None and (message := _make_message(list(table.sort("number").iter_rows(named=True)))):
            return message
    name = messages.row(0, named=True)["type"]
    raise FlowError(f"handshake {handshake}: the capture has no complete transmission of the {name} {kind}")


def _make_message(frames: list[Row]) -> FlowMessage | None:
    """Return the message in these frames; None if the size of a datagram is unknown."""
    parts: dict[int | None, list[Row]] = {}
    for frame in frames:
        parts.setdefault(frame["fragment"], []).append(frame)
    first = frames[0]
    ip = 40 if ":" in first["source"] else 20
    transport = 0 if first["encapsulation"] == "IP" else flow.UDP_HEADER
    marker = flow.NON_ESP_MARKER if first["encapsulation"] in ("UDP 4500", "TCP 4500") else 0
    link = _ETHERNET
    in_tcp = str(first["encapsulation"]).startswith("TCP")
    unfragmented = next((frame for frame in frames if not frame["ip_fragment"]), None)
    if unfragmented is not None and unfragmented["ike_bytes"] is not None and not in_tcp:
        # other headers before the message count as link header: VLAN tags, IP options
        link = max(unfragmented["bytes"] - unfragmented["ike_bytes"] - marker - transport - ip, 0)
    datagrams = []
    for number in sorted(parts, key=lambda number: number or 0):
        part = parts[number]
        size = next((frame["ike_bytes"] for frame in part if frame["ike_bytes"] is not None), None)
        if size is None:
            return None
        # TCP segments are not datagrams: the message counts as one frame
        sizes = (link + ip + transport + marker + size,) if in_tcp else tuple(frame["bytes"] for frame in part)
        datagrams.append(FlowDatagram(size, sizes))
    # RFC 7383 does not fragment IKE_SA_INIT, IKEv1 and HIP
    encrypted = first["protocol"] == "IKEv2" and first["exchange_type"] != ExchangeType.IKE_SA_INIT
    return FlowMessage(tuple(datagrams), encrypted, marker, transport, ip, link)
