"""Which transmissions were lost, as far as one capture can tell.

No capture sees a loss; it sees that nothing came of a transmission. The rules, for the transmissions of one
request and of its response in order of time:

- A responder answers each transmission of a request that reaches it (RFC 7296, section 2.1). So each response belongs
  to the latest request before it that has none yet, and a request to which no response belongs is *unanswered*: it was
  lost, or its response was lost before the capture saw it.
- An initiator that has the response does not repeat the request. So a response behind which the request comes again is
  *in vain*: it was lost, or it came too late.
- A repeated request may have been under way already when the response was. From where the capture was taken, no new
  request follows a response sooner than the initiator's reaction takes together with the path to it and back. A
  repetition that follows sooner than the quickest new request of the handshake proves nothing.

Nothing came of a transmission only if something would have been seen of it:

- Of a capture with the messages of one side alone, nothing can be said.
- The asker goes on when it has the response (RFC 7296, section 2.3; in IKEv1 within a phase). So a request of which no
  response was captured, though a later one follows, was answered: the capture has a hole there.
- A responder that asks its AAA server has the request, and need not answer what is sent again while it waits: of the
  transmissions before, those before the latest look lost, and of those behind nothing can be said.
- Behind the last request, the capture may have ended before its response came. A transmission counts if it was
  repeated, or if the capture goes on for longer than the slowest first timer, as in `outcome`.

A request that nobody has to answer (IKEv1 ends aggressive and quick mode with one; HIP has NOTIFY) is not unanswered
unless it was repeated. RADIUS repeats its requests in the same way (RFC 2865, section 2.4).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf
from typing import Any, Final

from ikeanalyze.analysis.handshakes.outcome import SLOWEST_FIRST_TIMER_NS

#: Protocols in which some requests have no response.
_MAY_END_OPEN: Final = frozenset({"IKEv1", "HIP"})


class LossEvidence(StrEnum):
    """What makes a transmission look lost."""

    UNANSWERED = "unanswered"  # a request without response: it, or its response, was lost
    IN_VAIN = "in vain"  # a response, and the request came again: lost, or too late


def infer_losses(
    messages: Iterable[Mapping[str, Any]], *, one_sided: bool, until_ns: int | None
) -> dict[int, LossEvidence]:
    """For the messages of one handshake, by id, those transmissions that look lost.

    `messages` are rows of the messages table: `message`, `exchange`, `protocol`, `message_id`, `sender`, `kind`,
    `first_ns`, `last_ns`. Messages that belong to no exchange are left alone. `one_sided`: the capture has those of one
    side alone. `until_ns` is the time of its last packet; None: not known.
    """
    if one_sided:
        return {}
    ordered = sorted(messages, key=lambda one: (one["first_ns"], one["message"]))
    slots: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    asked: dict[tuple[Any, ...], int] = {}  # of each asker, the time of its last request
    aaa: dict[int, int] = {}  # when the responder first asked its AAA server in an exchange
    for message in ordered:
        if message["exchange"] is not None:
            slots.setdefault((message["protocol"], message["exchange"], message["message_id"]), []).append(message)
            if message["kind"] == "request":
                asked[_asker(message)] = message["first_ns"]
                if message["protocol"] == "RADIUS":
                    aaa.setdefault(message["exchange"], message["first_ns"])
    reaction_ns = _quickest_reaction(list(slots.values()))
    found: dict[int, LossEvidence] = {}
    for slot in slots.values():
        requests = [message for message in slot if message["kind"] == "request"]
        last_ns = asked[_asker(requests[0])] if requests else 0
        if len(requests) == len(slot) and requests[-1]["first_ns"] < last_ns:
            continue  # a hole in the capture
        found.update(_in_vain(slot, reaction_ns.get(slot[0]["protocol"], 0)))
        found.update(
            (request["message"], LossEvidence.UNANSWERED)
            for request in _unanswered(slot)
            if (
                request["first_ns"] < last_ns
                or (until_ns is not None and until_ns - request["first_ns"] > SLOWEST_FIRST_TIMER_NS)
            )
            and request["first_ns"] < _had(requests, aaa)
        )
    return found


def _had(requests: Sequence[Mapping[str, Any]], aaa: Mapping[int, int]) -> float:
    """When the transmission was sent that the responder is known to have had; infinity: it is not known of any."""
    if requests[0]["protocol"] == "RADIUS" or requests[0]["exchange"] not in aaa:
        return inf
    by_ns = aaa[requests[0]["exchange"]]
    return max((one["first_ns"] for one in requests if one["first_ns"] <= by_ns), default=inf)


def _asker(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """Whose requests these are that go one after another: in IKEv1, exchanges of other message IDs are independent."""
    number = request["message_id"] if request["protocol"] == "IKEv1" else None
    return request["protocol"], request["sender"], number


def _in_vain(slot: Sequence[Mapping[str, Any]], reaction_ns: int) -> dict[int, LossEvidence]:
    """The responses behind which the request came again."""
    last = max((place for place, message in enumerate(slot) if message["kind"] == "request"), default=0)
    return {
        message["message"]: LossEvidence.IN_VAIN
        for message in slot[:last]
        if message["kind"] == "response" and slot[last]["first_ns"] - message["last_ns"] >= reaction_ns
    }


def _unanswered(slot: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The requests to which no response belongs."""
    waiting: list[Mapping[str, Any]] = []
    for message in slot:
        if message["kind"] == "request":
            waiting.append(message)
        elif waiting:
            waiting.pop()
    lone = len(waiting) == len(slot) == 1
    return [] if lone and slot[0]["protocol"] in _MAY_END_OPEN else waiting


def _quickest_reaction(slots: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    """By protocol, the shortest time between the end of a response and the request that follows it; ns."""
    shortest: dict[str, int] = {}
    for protocol in {slot[0]["protocol"] for slot in slots}:
        some = [slot for slot in slots if slot[0]["protocol"] == protocol]
        for one, following in pairwise(some):
            begin = following[0]["first_ns"]
            ends = [m["last_ns"] for m in one if m["kind"] == "response" and m["last_ns"] <= begin]
            if ends and following[0]["kind"] == "request":
                shortest[protocol] = min(shortest.get(protocol, begin), begin - max(ends))
    return shortest
