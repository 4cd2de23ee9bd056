"""What a ladder diagram shows of one handshake: hosts, messages as sent, and whose turn it was between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ikeanalyze.analysis.exchanges.losses import LossEvidence, infer_losses
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.render.core.columns import cast_text_columns
from ikeanalyze.render.core.values import escape_text, format_count, format_handshake_title
from ikeanalyze.render.ladder.text import (
    format_message_label,
    get_ladder_messages,
    get_message_notes,
    get_message_payloads,
    get_start_ns,
)
from ikeanalyze.render.report.selection import get_handshake_row

#: Messages of one diagram; a handshake with more was repeated for minutes, and shows nothing else further down.
MOST: Final = 300

#: What makes a transmission look lost, for people.
LOSSES: Final = {
    LossEvidence.UNANSWERED: "no response: it was lost, or its response",
    LossEvidence.IN_VAIN: "the request came again: lost, or too late",
}


@dataclass(frozen=True, slots=True)
class Lifeline:
    """One lifeline."""

    role: str  # "initiator", "responder", "aaa"; the name of its colour as well
    name: str  # for people
    address: str


@dataclass(frozen=True, slots=True)
class LadderArrow:
    """One transmission of a message: an arrow."""

    message: int  # id
    frame: int  # number of its first frame in the capture
    at_ns: int  # after the start of the handshake
    source: int  # index of the host that sent it
    target: int
    label: str  # "IKE_AUTH 1 request"
    bytes: int
    frames: int
    again: bool  # a retransmission
    loss: LossEvidence | None
    notes: tuple[str, ...]
    payloads: tuple[str, ...]  # in a few words each
    set_up: bool


@dataclass(frozen=True, slots=True)
class ProcessingInterval:
    """A time in which one host had to act, from one rung to another."""

    host: int
    waiting: bool  # for a timer to run out
    first: int  # indices of rungs
    last: int


@dataclass(frozen=True, slots=True)
class Ladder:
    """One handshake between its hosts."""

    handshake: int
    title: str
    hosts: tuple[Lifeline, ...]
    rungs: tuple[LadderArrow, ...]
    turns: tuple[ProcessingInterval, ...]
    left_out: int  # messages beyond MOST


def build_ladder(analysis: Analysis) -> Ladder:
    """The ladder of the one handshake of `analysis`, see `select.handshake`."""
    row = get_handshake_row(analysis)
    messages = get_ladder_messages(analysis)
    hosts = [
        Lifeline("initiator", "initiator", escape_text(row["initiator_address"] or "")),
        Lifeline("responder", "responder", escape_text(row["responder_address"] or "")),
    ]
    if row["aaa_address"] is not None:
        hosts.append(Lifeline("aaa", "AAA server", escape_text(row["aaa_address"])))
    ends = [capture.last_ns for capture in analysis.captures if capture.path == row["capture"]]
    lost = infer_losses(messages, one_sided=row["one_sided"] is not None, until_ns=ends[0] if ends else None)
    start = get_start_ns(row, messages)
    shown = messages[:MOST]
    rungs = tuple(_make_arrow(message, start, len(hosts), lost.get(message["message"])) for message in shown)
    return Ladder(
        handshake=row["handshake"],
        title=format_handshake_title(row),
        hosts=tuple(hosts),
        rungs=rungs,
        turns=tuple(_find_turns(shown, analysis)),
        left_out=len(messages) - len(shown),
    )


def _make_arrow(message: Mapping[str, Any], start_ns: int, hosts: int, loss: LossEvidence | None) -> LadderArrow:
    if message["protocol"] == "RADIUS" and hosts > 2:
        source, target = (1, 2) if message["kind"] == "request" else (2, 1)
    else:
        source, target = (0, 1) if message["sender"] == "initiator" else (1, 0)
    return LadderArrow(
        message=message["message"],
        frame=message["first_frame"],
        at_ns=message["first_ns"] - start_ns,
        source=source,
        target=target,
        label=format_message_label(message),
        bytes=message["bytes"],
        frames=message["frames"],
        again=message["transmission"] > 1,
        loss=loss,
        notes=tuple(get_message_notes(dict(message))),
        payloads=tuple(get_message_payloads(message)),
        set_up=bool(message["set_up"]),
    )


def format_size(rung: LadderArrow) -> str:
    """Bytes, and frames where there are several."""
    text = format_count(rung.bytes, "byte")
    return f"{text} in {rung.frames:,} frames" if rung.frames > 1 else text


def _find_turns(messages: Sequence[Mapping[str, Any]], analysis: Analysis) -> Iterator[ProcessingInterval]:
    """Whose turn it was, as `analysis.exchanges.timing` divides the set-up time."""
    by_exchange: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    for index, message in enumerate(messages):
        if message["exchange"] is not None and message["set_up"]:
            by_exchange.setdefault(message["exchange"], []).append((index, message))
    rows = analysis.exchanges.filter("set_up").sort("exchange")
    last_response: int | None = None  # the response that ended the exchange before
    for row in cast_text_columns(rows).iter_rows(named=True):
        indexed = by_exchange.get(row["exchange"], [])
        ike = [(index, message) for index, message in indexed if message["protocol"] != "RADIUS"]
        requests = [index for index, message in ike if message["kind"] == "request"]
        if not requests:
            last_response = None
            continue
        asker = 0 if row["initiated_by"] == "initiator" else 1
        if last_response is not None and last_response < requests[0]:
            yield ProcessingInterval(asker, waiting=False, first=last_response, last=requests[0])
        answered_ns = None if row["wait_ns"] is None else row["request_ns"] + row["wait_ns"]
        answered = next((i for i, m in ike if i in requests and m["first_ns"] == answered_ns), requests[-1])
        if answered > requests[0]:
            yield ProcessingInterval(asker, waiting=True, first=requests[0], last=answered)
        last_response = next(
            (i for i, m in ike if m["kind"] == "response" and m["last_ns"] == row["end_ns"] and i > answered), None
        )
        if last_response is not None:
            yield ProcessingInterval(1 - asker, waiting=False, first=answered, last=last_response)
        yield from _find_aaa_turns(indexed)


def _find_aaa_turns(indexed: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[ProcessingInterval]:
    """The AAA server's, from the transmission that it answers; the responder's waits before repetitions are apart."""
    sent_requests: dict[int, list[int]] = {}  # transmissions of a request, by its identifier
    requests: list[list[int]] = []
    for index, message in indexed:
        if message["protocol"] != "RADIUS":
            continue
        if message["kind"] == "request":
            if message["transmission"] == 1 or message["message_id"] not in sent_requests:
                requests.append([])
                sent_requests[message["message_id"]] = requests[-1]
            sent_requests[message["message_id"]].append(index)
        elif sent := sent_requests.get(message["message_id"]):
            yield ProcessingInterval(2, waiting=False, first=sent[-1], last=index)
    for sent in requests:
        if len(sent) > 1:
            yield ProcessingInterval(1, waiting=True, first=sent[0], last=sent[-1])
