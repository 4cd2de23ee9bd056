"""Infer lost transmissions from one capture.

A capture does not show a loss; it shows that a transmission had no effect. The rules, for the transmissions of one
request and of its response in order of time:

- A responder answers each transmission of a request that it receives (RFC 7296, section 2.1). So each response belongs
  to the latest request before it that has none yet. A request without a response is *unanswered*: it was lost, or its
  response was lost before the capture point.
- An initiator that has the response does not repeat the request. So a response that is followed by the request again is
  *in vain*: it was lost, or it came too late.
- A repeated request may have been sent before the response arrived. At the capture point, a new request follows a
  response after the round trip to the initiator plus its processing. A repetition that follows sooner than the fastest
  new request of the handshake proves nothing.

A transmission had no effect only if an effect would have been captured:

- A capture with the messages of only one side shows no effects.
- The initiator of an exchange sends its next request when it has the response (RFC 7296, section 2.3; in IKEv1 within a
  phase). So a request without a captured response that a later request follows was answered: the capture has a gap.
- A responder that sends a request to its AAA server has received the IKE request, and need not answer retransmissions
  while it waits. Of the transmissions before that, all but the latest look lost; the later ones show nothing.
- After the last request, the capture may have ended before the response came. A transmission counts if it was repeated,
  or if the capture continues for longer than the slowest first timer, as in `outcome`.

A request that needs no response (IKEv1 ends aggressive and quick mode with one; HIP has NOTIFY) is unanswered only if
it was repeated. RADIUS repeats its requests in the same way (RFC 2865, section 2.4).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from math import inf
from typing import Any, Final

from ikeanalyze.analysis.exchanges.answers import SLOWEST_FIRST_TIMER_NS

#: Protocols in which some requests need no response.
_WITH_UNANSWERED_REQUESTS: Final = frozenset({"IKEv1", "HIP"})


class LossEvidence(StrEnum):
    """Why a transmission looks lost."""

    UNANSWERED = "unanswered"  # a request without response: it, or its response, was lost
    IN_VAIN = "in vain"  # a response, and the request came again: lost, or too late


def infer_losses(
    messages: Iterable[Mapping[str, Any]], *, one_sided: bool, until_ns: int | None
) -> dict[int, LossEvidence]:
    """Find the transmissions of one handshake that look lost, by message id.

    Args:
        messages: rows of the messages table with `message`, `exchange`, `protocol`, `message_id`, `sender`, `kind`,
            `first_ns`, `last_ns`. Messages without an exchange are ignored.
        one_sided: the capture has the messages of only one side.
        until_ns: time of the last packet of the capture; None: unknown.
    """
    if one_sided:
        return {}
    ordered = sorted(messages, key=lambda message: (message["first_ns"], message["message"]))
    slots: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    last_request_ns: dict[tuple[Any, ...], int] = {}  # by sequence of requests
    aaa_ns: dict[int, int] = {}  # time of the first RADIUS request, by exchange
    for message in ordered:
        if message["exchange"] is not None:
            slots.setdefault((message["protocol"], message["exchange"], message["message_id"]), []).append(message)
            if message["kind"] == "request":
                last_request_ns[_get_sequence(message)] = message["first_ns"]
                if message["protocol"] == "RADIUS":
                    aaa_ns.setdefault(message["exchange"], message["first_ns"])
    reaction_ns = _find_fastest_reactions(list(slots.values()))
    losses: dict[int, LossEvidence] = {}
    for slot in slots.values():
        requests = [message for message in slot if message["kind"] == "request"]
        last_ns = last_request_ns[_get_sequence(requests[0])] if requests else 0
        if len(requests) == len(slot) and requests[-1]["first_ns"] < last_ns:
            continue  # a gap in the capture
        losses.update(_find_responses_in_vain(slot, reaction_ns.get(slot[0]["protocol"], 0)))
        received_ns = _find_received_ns(requests, aaa_ns) if requests else inf
        losses.update(
            (request["message"], LossEvidence.UNANSWERED)
            for request in _find_unanswered(slot)
            if (
                request["first_ns"] < last_ns
                or (until_ns is not None and until_ns - request["first_ns"] > SLOWEST_FIRST_TIMER_NS)
            )
            and request["first_ns"] < received_ns
        )
    return losses


def _find_received_ns(requests: Sequence[Mapping[str, Any]], aaa_ns: Mapping[int, int]) -> float:
    """The time of the transmission that the responder must have received; infinity: unknown."""
    if requests[0]["protocol"] == "RADIUS" or requests[0]["exchange"] not in aaa_ns:
        return inf
    by_ns = aaa_ns[requests[0]["exchange"]]
    return max((request["first_ns"] for request in requests if request["first_ns"] <= by_ns), default=inf)


def _get_sequence(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """The sequence of requests that a request belongs to; in IKEv1, each message ID has its own."""
    number = request["message_id"] if request["protocol"] == "IKEv1" else None
    return request["protocol"], request["sender"], number


def _find_responses_in_vain(slot: Sequence[Mapping[str, Any]], reaction_ns: int) -> dict[int, LossEvidence]:
    """The responses that are followed by the request again."""
    last = max((place for place, message in enumerate(slot) if message["kind"] == "request"), default=0)
    return {
        message["message"]: LossEvidence.IN_VAIN
        for message in slot[:last]
        if message["kind"] == "response" and slot[last]["first_ns"] - message["last_ns"] >= reaction_ns
    }


def _find_unanswered(slot: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The requests without a response."""
    waiting: list[Mapping[str, Any]] = []
    for message in slot:
        if message["kind"] == "request":
            waiting.append(message)
        elif waiting:
            waiting.pop()
    single = len(waiting) == len(slot) == 1
    return [] if single and slot[0]["protocol"] in _WITH_UNANSWERED_REQUESTS else waiting


def _find_fastest_reactions(slots: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    """The shortest time between the end of a response and the next request, in ns by protocol."""
    shortest: dict[str, int] = {}
    for protocol in {slot[0]["protocol"] for slot in slots}:
        of_protocol = [slot for slot in slots if slot[0]["protocol"] == protocol]
        for slot, following in pairwise(of_protocol):
            begin = following[0]["first_ns"]
            ends = [m["last_ns"] for m in slot if m["kind"] == "response" and m["last_ns"] <= begin]
            if ends and following[0]["kind"] == "request":
                shortest[protocol] = min(shortest.get(protocol, begin), begin - max(ends))
    return shortest
