"""Extracts a `HandshakeFlow` from the tables of an analysis: a complete handshake with processing times of both sides.

From a request to its response the responding side processes; from a response to the next request the side that sends
the request. The capture point determines what such an interval contains: the intervals of the side that the capture was
taken on are exact, those of the other side contain the round-trip time of the path once. An interval between two
messages of the same side does not contain the path. If the lab's manifest has the rate of the link, the time to
transmit the messages is subtracted as well (see `analysis.exchanges.timing`).

All complete handshakes of the capture with the same exchanges give processing times, so that the prediction has their
spread. The first handshake of a daemon is often slower than those that follow.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import polars as pl

from ikeanalyze.analysis.exchanges.radius import compute_aaa_wait
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.tables.layouts import SUCCESSES
from ikeanalyze.model.prediction import flow
from ikeanalyze.model.prediction.flow import (
    CaptureLosses,
    FlowDatagram,
    FlowExchange,
    FlowMessage,
    HandshakeFlow,
    ObservedWait,
    Side,
)
from ikeanalyze.wire.registries.ikev2 import ExchangeType

_FRAGMENTATION: Final = "IKEV2_FRAGMENTATION_SUPPORTED"
_INTERMEDIATE: Final = "INTERMEDIATE_EXCHANGE_SUPPORTED"
_ETHERNET: Final = 14
#: Handshakes of a capture that are tried, the best first. If all of them lack a message, the others do too.
_MAX_TRIED: Final = 100
#: Handshakes of a capture that give processing times, those with the fewest retransmissions first.
_MAX_SAMPLES: Final = 500
#: Comparable handshakes have the same algorithms and authentication methods.
_SAME_COLUMNS: Final = (
    "protocol", "encryption", "prf", "integrity", "key_exchange", "additional_key_exchanges", "auth_initiator",
    "auth_responder", "auth_eap",
)  # fmt: skip
#: Largest difference in bytes of their messages: an ECDSA signature varies by a few bytes, and CBC pads to 16.
_SIZE_TOLERANCE: Final = 16
_FRAME_COLUMNS: Final = (
    "message", "fragment", "source", "encapsulation", "ip_fragment", "ike_bytes", "bytes", "protocol", "exchange_type"
)  # fmt: skip

Row = Mapping[str, Any]


class FlowError(ValueError):
    """No handshake can be used for a prediction; the message has the reason."""


def extract_flow(analysis: Analysis, capture: str, handshake: int | None = None) -> HandshakeFlow:
    """Return the flow of a handshake of `capture`, with the processing times of those that are comparable with it.

    `handshake` None: the one with the fewest retransmissions; established handshakes are preferred, then the first. The
    handshakes that the lab's manifest marks as warm-up are left out. With a number, that handshake alone is used.

    Raises:
        FlowError: no handshake is complete and successful, or the given one is not.
    """
    table = analysis.handshakes.filter(pl.col("capture").cast(pl.String) == capture, ~pl.col("rekeyed"))
    complete = table.filter(pl.col("outcome").cast(pl.String).is_in(SUCCESSES) & pl.col("setup_ns").is_not_null())
    if handshake is not None:
        chosen = complete.filter(pl.col("handshake") == handshake)
        if not chosen.height:
            reason = _explain_incomplete(table, handshake)
            raise FlowError(f"handshake {handshake} is {reason}; {_list_complete(complete)}")
        alone = _RecordedHandshakes(analysis, chosen).make_flow(chosen.row(0, named=True), complete.height - 1)
        return replace(alone, alone=True, losses=_find_losses(analysis, table))
    problem = FlowError(f"no complete and successful handshake{_count_outcomes(table)}")
    unsure = pl.col("outcome").cast(pl.String) != "established"
    best = _leave_out_warm_ups(complete).sort("retransmitted_messages", unsure, "handshake").head(_MAX_SAMPLES)
    recorded = _RecordedHandshakes(analysis, best)
    for number, row in enumerate(best.head(_MAX_TRIED).iter_rows(named=True)):
        try:
            flow = recorded.make_flow(row, complete.height - 1)
        except FlowError as error:
            problem = error
            continue
        return replace(_add_samples(flow, recorded, best.slice(number)), losses=_find_losses(analysis, table))
    raise problem


def _find_losses(analysis: Analysis, handshakes: pl.DataFrame) -> CaptureLosses:
    """Return the retransmissions in these rows of the handshakes table."""
    requests = analysis.messages.filter(
        pl.col("handshake").is_in(handshakes["handshake"].implode()),
        pl.col("sender").cast(pl.String) == "initiator",
        pl.col("kind").cast(pl.String) == "request",
        pl.col("protocol").cast(pl.String) != "RADIUS",
        set_up=True,
    )
    waits = (
        requests.sort("first_ns")
        .select("transmission", wait=pl.col("first_ns").diff().over("exchange") / 1e9)
        .filter(pl.col("transmission") > 1)
        .group_by("transmission", maintain_order=True)
        .agg(pl.col("wait").median(), pl.len())
        .sort("transmission")
        .drop_nulls()
    )
    observed = [ObservedWait(transmission - 1, wait, count) for transmission, wait, count in waits.iter_rows()]
    return CaptureLosses(
        handshakes=handshakes.height,
        retransmitted=handshakes.filter(pl.col("retransmitted_messages") > 0).height,
        unanswered=handshakes.filter(pl.col("outcome").cast(pl.String) == "unanswered").height,
        waits=tuple(wait for place, wait in enumerate(observed, 1) if wait.transmission == place),
    )


def _leave_out_warm_ups(complete: pl.DataFrame) -> pl.DataFrame:
    """Return the handshakes that are not warm-ups; all of them if the others are missing."""
    measured = complete.filter(pl.col("warm_up").not_().fill_null(True))
    return measured if measured.height else complete


def _add_samples(flow: HandshakeFlow, recorded: "_RecordedHandshakes", candidates: pl.DataFrame) -> HandshakeFlow:
    """Return `flow` with the exchanges of those `candidates` that are comparable; the first one is that of `flow`.

    Handshakes whose times are uncertain do not count, except the first.
    """
    first = candidates.row(0, named=True)
    samples = [flow.exchanges]
    for row in candidates.slice(1).filter(pl.col("uncertain").is_null()).iter_rows(named=True):
        if any(row[name] != first[name] for name in _SAME_COLUMNS):
            continue
        try:
            exchanges = recorded.extract_exchanges(row)
        except FlowError:
            continue
        if _are_comparable(flow.exchanges, exchanges):
            samples.append(exchanges)
    return replace(flow, samples=tuple(samples))


def _are_comparable(exchanges: tuple[FlowExchange, ...], others: tuple[FlowExchange, ...]) -> bool:
    """Whether two handshakes have the same exchanges, with messages of the same structure."""
    if len(exchanges) != len(others):
        return False
    return all(
        (exchange.type, exchange.asker) == (other.type, other.asker)
        and _have_same_structure(exchange.request, other.request)
        and _have_same_structure(exchange.response, other.response)
        for exchange, other in zip(exchanges, others, strict=True)
    )


def _have_same_structure(message: FlowMessage | None, other: FlowMessage | None) -> bool:
    if message is None or other is None:
        return message is other
    sizes, others = ([part.ike_bytes for part in item.parts] for item in (message, other))
    same_headers = (message.link, message.ip, message.marker) == (other.link, other.ip, other.marker)
    return same_headers and len(sizes) == len(others) and abs(sum(sizes) - sum(others)) <= _SIZE_TOLERANCE


def _count_outcomes(table: pl.DataFrame) -> str:
    """Return the outcomes of the handshakes as the end of an error message."""
    outcomes = Counter(table["outcome"].cast(pl.String))
    # a handshake whose beginning is not in the capture has no set-up time
    names = {outcome: "without beginning" if outcome in SUCCESSES else outcome for outcome in outcomes}
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


class _RecordedHandshakes:
    """The exchanges, messages and frames of some handshakes."""

    def __init__(self, analysis: Analysis, handshakes: pl.DataFrame) -> None:
        numbers = handshakes["handshake"].implode()
        exchanges = analysis.exchanges.filter(pl.col("handshake").is_in(numbers), set_up=True).sort("request_ns")
        messages = analysis.messages.filter(pl.col("handshake").is_in(numbers), set_up=True).sort("first_ns")
        frames = analysis.frames.filter(
            pl.col("message").is_in(messages["message"].implode()), ~pl.col("capture_duplicate")
        )
        self._exchanges = _group_rows(exchanges, "handshake")
        self._messages = _group_rows(messages, "exchange")
        self._payload_sizes = analysis.payload_sizes
        self._frames = _group_rows(frames.sort("number").select(_FRAME_COLUMNS), "message")
        self._byte_ns = {summary.path: summary.byte_ns for summary in analysis.captures}

    def make_flow(self, row: Row, others: int) -> HandshakeFlow:
        """Return the flow of a row of the handshakes table.

        Raises:
            FlowError: a message is missing.
        """
        source = row["path_rtt_source"]
        supports = [row["initiator_supports"] or [], row["responder_supports"] or []]
        return HandshakeFlow(
            capture=str(row["capture"]),
            handshake=row["handshake"],
            others=others,
            protocol=row["protocol"],
            exchanges=self.extract_exchanges(row),
            fragmentation=all(_FRAGMENTATION in names for names in supports),
            offered=len(row["offered"] or [""]),
            intermediate=all(_INTERMEDIATE in names for names in supports),
            protection=flow.get_encryption_overhead(row["encryption"], row["integrity"]),
            setup_ns=row["setup_ns"],
            path=source if source in (None, "given", "manifest") else "estimated",
            path_rtt_ns=row["path_rtt_ns"],
            shortest_round_trip_ns=self._find_shortest_round_trip(row),
        )

    def _find_shortest_round_trip(self, row: Row) -> int | None:
        """Return the shortest interval from a message of the captured side to one of the other side, in nanoseconds.

        Exchanges with repeated requests are left out: their response may be that to an earlier transmission.
        """
        side = row["vantage"]
        intervals = []
        answered_ns: int | None = None  # when the captured side sent its response to the previous request
        for exchange in self._exchanges.get(row["handshake"], ()):
            single = exchange["end_ns"] is not None and not exchange["wait_ns"]
            if exchange["initiated_by"] == side:
                if single:
                    intervals.append(exchange["end_ns"] - exchange["request_ns"])
                answered_ns = None
                continue
            if answered_ns is not None and exchange["request_ns"] is not None:
                intervals.append(exchange["request_ns"] - answered_ns)
            answered_ns = exchange["end_ns"] if single else None
        return None if side == "unknown" else min(intervals, default=None)

    def extract_exchanges(self, row: Row) -> tuple[FlowExchange, ...]:
        """Return the exchanges of a row of the handshakes table.

        Raises:
            FlowError: a message is missing.
        """
        number = row["handshake"]
        path = _RecordedPath(row, self._byte_ns.get(row["capture"], (0.0, 0.0)))
        flow_exchanges: list[FlowExchange] = []
        previous: tuple[Side, int] | None = None  # sender and end of the previous message
        for exchange in self._exchanges.get(number, ()):
            messages = self._messages[exchange["exchange"]]
            asker: Side = "initiator" if exchange["initiated_by"] == "initiator" else "responder"
            if exchange["request_ns"] is None:
                raise FlowError(f"handshake {number}: {exchange['type']} {exchange['message_id']} has no request")
            unanswered = exchange["end_ns"] is None
            if unanswered and row["protocol"] != "IKEv1":
                raise FlowError(f"handshake {number}: {exchange['type']} {exchange['message_id']} has no response")
            request = self._extract_message(messages, "request", number)
            response = None if unanswered else self._extract_message(messages, "response", number)
            gap = 0 if previous is None else exchange["request_ns"] - previous[1]
            if previous is not None and previous[0] != asker:
                sent = flow_exchanges[-1].response or flow_exchanges[-1].request
                gap = path.subtract(gap, asker, path.transmit(sent, previous[0]) + path.transmit_first(request, asker))
            aaa, trips = _measure_aaa(messages)
            flow_exchanges.append(
                FlowExchange(
                    type=str(exchange["type"]),
                    message_id=None if row["protocol"] == "HIP" else exchange["message_id"],
                    asker=asker,
                    request=request,
                    response=response,
                    before_ns=max(gap, 0),
                    answer_ns=_compute_answer_time(exchange, asker, aaa, path, request, response),
                    aaa_ns=aaa,
                    aaa_round_trips=trips,
                )
            )
            previous = (asker, exchange["request_ns"]) if unanswered else (flow.get_peer(asker), exchange["end_ns"])
        if not flow_exchanges:
            raise FlowError(f"handshake {number}: its messages are not in the capture")
        return tuple(flow_exchanges)

    def _extract_message(self, messages: Sequence[Row], kind: str, handshake: int) -> FlowMessage:
        """Return the first transmission that is complete in the capture."""
        for row in messages:
            if row["kind"] != kind or row["protocol"] == "RADIUS" or row["fragments_seen"] != row["fragments"]:
                continue
            frames = self._frames.get(row["message"])
            if frames and (message := _make_message(frames)):
                return replace(message, payloads=self._payload_sizes.get(row["message"]))
        name = messages[0]["type"]
        raise FlowError(f"handshake {handshake}: the capture has no complete transmission of the {name} {kind}")


def _group_rows(table: pl.DataFrame, column: str) -> dict[int, list[Row]]:
    """Return the rows by the value of a column, in order."""
    groups: dict[int, list[Row]] = {}
    for row in table.iter_rows(named=True):
        groups.setdefault(row[column], []).append(row)
    return groups


class _RecordedPath:
    """The path that a handshake was recorded over: its delay, and its rate if the lab's manifest has it."""

    def __init__(self, row: Row, byte_ns: tuple[float, float]) -> None:
        self._vantage, self._rtt_ns = row["vantage"], row["path_rtt_ns"]
        self._byte_ns = byte_ns if row["path_rtt_source"] == "manifest" else (0.0, 0.0)

    def transmit(self, message: FlowMessage, sender: Side) -> int:
        """Return the time in ns that the link takes to transmit all frames of a message."""
        return round(message.bytes * self._byte_ns[sender != "initiator"])

    def transmit_first(self, message: FlowMessage, sender: Side) -> int:
        """Return the time in ns that the link takes to transmit the first frame of a message."""
        return round(message.parts[0].frames[0] * self._byte_ns[sender != "initiator"])

    def contains(self, actor: Side) -> bool:
        """Return whether the intervals of `actor` contain the path: the capture was taken on the other side."""
        return self._rtt_ns is not None and self._vantage not in ("unknown", actor)

    def subtract(self, interval: int, actor: Side, transmission: int) -> int:
        """Return the processing time of `actor` in an interval that ends with a message of `actor`.

        `transmission`: of the messages, as far as the interval contains it, if it contains the path.
        """
        return max(interval - int(self._rtt_ns) - transmission, 0) if self.contains(actor) else interval


def _compute_answer_time(
    exchange: Row, asker: Side, aaa: int, path: _RecordedPath, request: FlowMessage, response: FlowMessage | None
) -> int | None:
    """Return the responding side's processing time; None if a retransmission was answered, which needs less work."""
    if response is None or exchange["wait_ns"]:
        return None
    answerer = flow.get_peer(asker)
    turn: int = exchange["end_ns"] - exchange["request_ns"] - aaa
    if path.contains(answerer):
        turn = path.subtract(turn, answerer, path.transmit(request, asker) + path.transmit(response, answerer))
    else:  # further frames arrive while the first one is in the capture
        turn -= path.transmit(request, asker) - path.transmit_first(request, asker)
    return max(turn, 0)


def _measure_aaa(messages: Sequence[Row]) -> tuple[int, int]:
    """Return the time of the answered RADIUS requests without retransmission timers, and their number."""
    pairs: list[tuple[list[int], list[int]]] = []  # times of the transmissions and of the responses
    for row in messages:
        if row["protocol"] != "RADIUS":
            continue
        request = row["kind"] == "request"
        if request and row["transmission"] == 1:
            pairs.append(([], []))
        if pairs:
            pairs[-1][0 if request else 1].append(row["first_ns" if request else "last_ns"])
    answered = [compute_aaa_wait(sent, answers)[0] for sent, answers in pairs if sent and answers]
    return sum(answered), len(answered)


def _make_message(frames: Sequence[Row]) -> FlowMessage | None:
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
