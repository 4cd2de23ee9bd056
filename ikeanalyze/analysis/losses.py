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

A request that nobody has to answer (IKEv1 ends aggressive and quick mode with one) is not unanswered unless it was
repeated. RADIUS repeats its requests in the same way (RFC 2865, section 2.4).
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any


class Loss(StrEnum):
    """What makes a transmission look lost."""

    UNANSWERED = "unanswered"  # a request without response: it, or its response, was lost
    IN_VAIN = "in vain"  # a response, and the request came again: lost, or too late


def losses(messages: Iterable[Mapping[str, Any]]) -> dict[int, Loss]:
    """For the messages of one handshake, by id, those transmissions that look lost.

    `messages` are rows of the messages table: `message`, `exchange`, `protocol`, `message_id`, `kind`, `first_ns`,
    `last_ns`. Messages that belong to no exchange are left alone.
    """
    ordered = sorted(messages, key=lambda one: (one["first_ns"], one["message"]))
    slots: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for message in ordered:
        if message["exchange"] is not None:
            slots.setdefault((message["protocol"], message["exchange"], message["message_id"]), []).append(
                message
            )
    reaction_ns = _quickest_reaction(list(slots.values()))
    found: dict[int, Loss] = {}
    for slot in slots.values():
        found.update(_of_slot(slot, reaction_ns.get(slot[0]["protocol"], 0)))
    return found


def _of_slot(slot: Sequence[Mapping[str, Any]], reaction_ns: int) -> dict[int, Loss]:
    found: dict[int, Loss] = {}
    waiting: list[Mapping[str, Any]] = []  # requests to which no response belongs yet
    answers: list[Mapping[str, Any]] = []
    for message in slot:
        if message["kind"] == "request":
            for answer in answers:
                if message["first_ns"] - answer["last_ns"] >= reaction_ns:
                    found[answer["message"]] = Loss.IN_VAIN
            waiting.append(message)
        else:
            answers.append(message)
            if waiting:
                waiting.pop()
    if answers or len(waiting) > 1 or slot[0]["protocol"] != "IKEv1":
        found.update((request["message"], Loss.UNANSWERED) for request in waiting)
    return found


def _quickest_reaction(slots: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, int]:
    """By protocol, the shortest time between the end of a response and the request that follows it; ns."""
    shortest: dict[str, int] = {}
    for protocol in {slot[0]["protocol"] for slot in slots}:
        some = [slot for slot in slots if slot[0]["protocol"] == protocol]
        for one, following in zip(some, some[1:], strict=False):
            begin = following[0]["first_ns"]
            ends = [m["last_ns"] for m in one if m["kind"] == "response" and m["last_ns"] <= begin]
            if ends and following[0]["kind"] == "request":
                shortest[protocol] = min(shortest.get(protocol, begin), begin - max(ends))
    return shortest
