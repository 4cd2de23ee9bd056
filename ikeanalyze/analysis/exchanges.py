"""Messages to exchanges: each request with its response, their times, and what was waited for.

Which response ended an exchange, and which transmission of the request it answers, can be read from the order
of things alone: the response that ended it is the first one after the last transmission of the request
(whoever still repeats the request has not got the response yet), as long as that lies before the same side's
next request. It answers the latest transmission before it, unless as many responses as requests are there:
then they answer one another in order, late ones too. What asks an AAA server has the request by then (`had_by`).
Where a round trip takes longer than the timer, and how long it takes is known, that says more (`timing.settle`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.hip_types import I1_R1, I2_R2
from ikeanalyze.analysis.messages import Messages, lacking_fragments
from ikeanalyze.analysis.ordering import run_starts
from ikeanalyze.analysis.outcome import SLOWEST_FIRST_TIMER_NS
from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt8Array
from ikeanalyze.capture.datagrams import Protocol

#: What is not known, in a column of int64.
UNKNOWN: Final = np.int64(np.iinfo(np.int64).min)
_NEVER: Final = np.int64(np.iinfo(np.int64).max)

#: Exchanges of the initiator that set the IKE SA up: IKE_SA_INIT, IKE_AUTH, IKE_SESSION_RESUME, GSA_AUTH, IKE_INTERMEDIATE.
_SET_UP: Final = np.array([34, 35, 38, 39, 43], np.uint8)
#: Of IKEv1: base, main, authentication only, aggressive, transaction (XAuth, mode config); and the first quick mode.
_IKEV1_SET_UP: Final = np.array([1, 2, 3, 4, 6], np.uint8)
_QUICK_MODE: Final = 32
#: First payload of a response that refuses: the others begin with SA, or with a nonce (IKE_SESSION_RESUME).
_NOTIFY: Final = 41


@dataclass(slots=True)
class Exchanges:
    """Columns of one length, ordered by handshake and time."""

    handshake: Int64Array
    protocol: UInt8Array
    exchange_type: UInt8Array
    message_id: npt.NDArray[np.uint32]
    attempt: Int64Array  # from 0
    initiator_asked: BoolArray
    set_up: BoolArray
    start_ns: Int64Array
    request_messages: Int64Array  # 0: none in the capture
    request_frames: Int64Array
    request_bytes: Int64Array
    request_ns: Int64Array
    response_messages: Int64Array
    response_frames: Int64Array
    response_bytes: Int64Array
    response_ns: Int64Array  # UNKNOWN: none
    answered_ns: Int64Array  # first frame of the transmission of the request that was answered
    answer_ns: Int64Array  # first frame of the response that ended the exchange
    end_ns: Int64Array  # last frame of that response
    rtt_ns: Int64Array
    wait_ns: Int64Array
    repeated_ns: Int64Array  # how long after the last response the request was still sent; 0: it was not

    def __len__(self) -> int:
        return len(self.handshake)

    def take(self, chosen: npt.NDArray[np.generic]) -> "Exchanges":
        """Some of the exchanges, or all in another order."""
        return Exchanges(*(getattr(self, name)[chosen] for name in _COLUMNS))

    def note_answered(self, row: int, sent_ns: int) -> None:
        """Correct when the transmission was sent that the response which ended an exchange answers, and what follows from it."""
        self.answered_ns[row] = sent_ns
        self.rtt_ns[row] = self.answer_ns[row] - sent_ns
        self.wait_ns[row] = sent_ns - self.request_ns[row]


_COLUMNS: Final = tuple(Exchanges.__dataclass_fields__)


def make_exchanges(messages: Messages) -> tuple[Exchanges, Int64Array]:
    """The exchanges of a capture's messages, and for each message the exchange that it belongs to."""
    count = len(messages)
    attempt = _attempts(messages)
    pair = messages.slot >> 1
    # requests before responses, each in order of body and transmission
    order = np.arange(count)
    several = np.flatnonzero(attempt > 0)
    ordered = messages
    if len(several):
        rows = np.flatnonzero(np.isin(pair, pair[several]))
        order[rows] = rows[np.lexsort((rows, messages.response[rows], attempt[rows], pair[rows]))]
        ordered = messages.take(order)
        pair, attempt = pair[order], attempt[order]
    new = run_starts(pair, attempt)
    start = np.flatnonzero(new)
    exchange_of = np.cumsum(new) - 1
    exchanges = _count(ordered, attempt, start)
    sequence = _in_time(exchanges)
    _set_up(exchanges, sequence)
    _answers(ordered, exchanges, exchange_of, start, sequence)
    place = np.empty(len(start), np.int64)
    place[sequence] = np.arange(len(start))
    exchange_of_message = np.empty(count, np.int64)
    exchange_of_message[order] = place[exchange_of]
    return exchanges.take(sequence), exchange_of_message


def _in_time(exchanges: Exchanges) -> Int64Array:
    """The order of exchanges by handshake and time; they are in order of handshake and mostly of time already."""
    order = np.arange(len(exchanges))
    handshake, start = exchanges.handshake, exchanges.start_ns
    late = (handshake[1:] == handshake[:-1]) & (start[1:] < start[:-1])
    if late.any():
        rows = np.flatnonzero(np.isin(handshake, handshake[1:][late]))
        order[rows] = rows[np.lexsort((start[rows], handshake[rows]))]
    return order


def _attempts(messages: Messages) -> Int64Array:
    """Which attempt each message belongs to, where a request was repeated with another body.

    A response belongs to the last request that was first sent before it. In IKEv1 the n-th message of one side is answered by
    the n-th of the other.
    """
    attempt = np.zeros(len(messages), np.int64)
    old = messages.protocol == Protocol.IKEV1
    attempt[old] = messages.body[old]
    pair = messages.slot >> 1
    several = np.unique(pair[(messages.body > 0) & ~old])
    for low, high in zip(
        np.searchsorted(pair, several).tolist(),
        np.searchsorted(pair, several, side="right").tolist(),
        strict=True,
    ):
        asked: list[int] = []
        answered: dict[int, int] = {}
        refusals: set[int] = set()
        early: list[int] = []  # refusals of a request that is not in the capture
        for row in range(low, high):
            body, when = int(messages.body[row]), int(messages.first_ns[row])
            if not messages.response[row]:
                if body == len(asked):
                    asked.append(when)
                attempt[row] = body
            else:
                if body not in answered:
                    answered[body] = max(sum(earlier <= when for earlier in asked) - 1, 0)
                    if messages.next_payload[row] == _NOTIFY:
                        refusals.add(body)
                        if asked and when < asked[0]:
                            early.append(body)
                attempt[row] = answered[body]
        if len(set(answered.values())) < len(answered):
            rows = np.arange(low, high)[messages.response[low:high]]
            moved = _late_refusals(answered, refusals)
            attempt[rows] -= np.isin(messages.body[rows], moved)
            if early:
                first = messages.response[low:high] & np.isin(messages.body[low:high], early)
                attempt[low:high] += ~first
    return attempt


def _late_refusals(answered: dict[int, int], refusals: set[int]) -> list[int]:
    """Responses, by body, that came during the attempt that followed theirs; `answered` says during which attempt they came.

    A responder may refuse each transmission of a request in other words: a cookie has the time in it. An attempt has one
    response: the one that is no refusal, or else the last; refusals beside it are those of the attempt before.
    """
    final: dict[int, int] = {}
    for body in sorted(answered, key=lambda one: (one not in refusals, one)):
        final[answered[body]] = body
    return [body for body in refusals if answered[body] > 0 and final[answered[body]] != body]


def _count(messages: Messages, attempt: Int64Array, start: Int64Array) -> Exchanges:
    count = len(start)
    response = messages.response

    def total(values: Int64Array, where: BoolArray) -> Int64Array:
        return np.add.reduceat(np.where(where, values, 0), start) if count else np.zeros(0, np.int64)

    def first(where: BoolArray) -> Int64Array:
        if not count:
            return np.zeros(0, np.int64)
        when = np.minimum.reduceat(np.where(where, messages.first_ns, _NEVER), start)
        return np.where(when == _NEVER, UNKNOWN, when)

    request_ns, response_ns = first(~response), first(response)
    one = np.ones(len(messages), np.int64)
    unknown = np.full(count, UNKNOWN)
    return Exchanges(
        handshake=messages.handshake[start],
        protocol=messages.protocol[start],
        exchange_type=messages.exchange_type[start],
        message_id=messages.message_id[start],
        attempt=attempt[start],
        initiator_asked=messages.initiator_asked[start],
        set_up=np.zeros(count, np.bool_),
        start_ns=np.where(request_ns == UNKNOWN, response_ns, request_ns),
        request_messages=total(one, ~response),
        request_frames=total(messages.frames, ~response),
        request_bytes=total(messages.bytes, ~response),
        request_ns=request_ns,
        response_messages=total(one, response),
        response_frames=total(messages.frames, response),
        response_bytes=total(messages.bytes, response),
        response_ns=response_ns,
        answered_ns=unknown,
        answer_ns=unknown.copy(),
        end_ns=unknown.copy(),
        rtt_ns=unknown.copy(),
        wait_ns=unknown.copy(),
        repeated_ns=np.zeros(count, np.int64),
    )


def _set_up(exchanges: Exchanges, sequence: Int64Array) -> None:
    """Mark what sets the IKE SA up."""
    old = exchanges.protocol == Protocol.IKEV1
    sets_up = np.isin(exchanges.exchange_type, _SET_UP)
    hip = exchanges.protocol == Protocol.HIP
    if hip.any():
        sets_up = np.where(hip, np.isin(exchanges.exchange_type, (I1_R1, I2_R2)), sets_up)
    v2 = ~old & sets_up & exchanges.initiator_asked
    exchanges.set_up[:] = v2 | (old & np.isin(exchanges.exchange_type, _IKEV1_SET_UP))
    quick = sequence[(old & (exchanges.exchange_type == _QUICK_MODE))[sequence]]
    if len(quick):
        _, first = np.unique(exchanges.handshake[quick], return_index=True)
        earliest = dict(
            zip(
                exchanges.handshake[quick[first]].tolist(),
                exchanges.message_id[quick[first]].tolist(),
                strict=True,
            )
        )
        of_first = [earliest[int(exchanges.handshake[row])] == int(exchanges.message_id[row]) for row in quick.tolist()]
        exchanges.set_up[quick[of_first]] = True


def _answers(
    messages: Messages, exchanges: Exchanges, exchange_of: Int64Array, start: Int64Array, sequence: Int64Array
) -> None:
    """Find the response that ended each exchange, and the transmission of the request that it answers."""
    count = len(start)
    if not count:
        return
    when, response = messages.first_ns, messages.response
    until = _next_requests(exchanges, sequence)[exchange_of]
    current = when < until
    asking, answering = ~response & current, response & current

    last_request = np.maximum.reduceat(np.where(asking, when, UNKNOWN), start)
    ending = np.minimum.reduceat(np.where(answering & (when > last_request[exchange_of]), when, _NEVER), start)
    latest = np.maximum.reduceat(np.where(answering, when, UNKNOWN), start)
    ended = np.maximum.reduceat(np.where(answering, messages.last_ns, UNKNOWN), start)
    again = (ended != UNKNOWN) & (last_request > ended)
    exchanges.repeated_ns[again] = (last_request - ended)[again]
    answer = np.where(ending != _NEVER, ending, np.where(latest != UNKNOWN, latest, exchanges.response_ns))
    exchanges.answer_ns = answer
    has_answer = answer != UNKNOWN
    row = np.where(response & (when == answer[exchange_of]), np.arange(len(when)), len(when))
    ended_by = np.minimum.reduceat(row, start)
    has_end = has_answer & (ended_by < len(when))
    exchanges.end_ns[has_end] = messages.last_ns[ended_by[has_end]]

    answered = np.maximum.reduceat(np.where(~response & (when <= answer[exchange_of]), when, UNKNOWN), start)
    # a response that comes when its initiator has gone on answers a request all the same
    requests = np.add.reduceat((~response).astype(np.int64), start)
    responses = np.add.reduceat(response.astype(np.int64), start)
    nth = np.add.reduceat((answering & (when <= answer[exchange_of])).astype(np.int64), start)
    paired = np.flatnonzero((requests == responses) & (requests > 1) & (nth > 0) & has_answer)
    answered[paired] = when[start[paired] + nth[paired] - 1]

    known = has_answer & (answered != UNKNOWN) & (answered <= answer)
    exchanges.answered_ns = np.where(known, answered, UNKNOWN)
    exchanges.rtt_ns = np.where(known, answer - answered, UNKNOWN)
    asked = exchanges.request_ns != UNKNOWN
    waited_until = np.where(known, answered, np.where(has_answer, UNKNOWN, last_request))
    exchanges.wait_ns = np.where(asked & (waited_until != UNKNOWN), waited_until - exchanges.request_ns, UNKNOWN)


def had_by(exchanges: Exchanges, messages: Messages, exchange_of_message: Int64Array, known: Mapping[int, int]) -> None:
    """Correct the answered transmissions of exchanges whose responder is `known`, by exchange, to have had the request by a time.

    A responder that asks its AAA server has got the request before, and what is sent again meanwhile is not what it answers.
    What is sent again once it has answered is: the response was lost, and comes again without asking.
    """
    for exchange, by_ns in known.items():
        rows = (exchange_of_message == exchange) & ~messages.response & (messages.first_ns <= by_ns)
        first = exchanges.response_ns[exchange] >= exchanges.answered_ns[exchange]
        if rows.any() and first and exchanges.answered_ns[exchange] != UNKNOWN:
            latest = messages.first_ns[rows].max()
            exchanges.note_answered(exchange, int(min(latest, exchanges.answered_ns[exchange])))


def unheard(messages: Messages, exchanges: Exchanges, exchange_of_message: Int64Array, last: BoolArray) -> BoolArray:
    """Which of the exchanges `last`, each the last one of its initiator, have no response that it can have taken.

    See `outcome`. (exchanges,)
    """
    again = last & ((exchanges.repeated_ns > 0) | (exchanges.response_messages > 1))
    if not again.any():
        return again
    lacking = np.zeros(len(exchanges), np.bool_)
    rows = lacking_fragments(messages)
    lacking[exchange_of_message[rows[messages.response[rows]]]] = True
    # an initiator that answers a request of the responder has the IKE SA, and the capture is what lacks the rest
    taken = ~exchanges.initiator_asked & ~exchanges.set_up & (exchanges.response_messages > 0)
    result = again & (lacking | (exchanges.repeated_ns > SLOWEST_FIRST_TIMER_NS))
    return result & ~np.isin(exchanges.handshake, exchanges.handshake[taken])


def _next_requests(exchanges: Exchanges, sequence: Int64Array) -> Int64Array:
    """When the same side of the same IKE SA began its next exchange; never: the end of time."""
    until = np.full(len(exchanges), _NEVER)
    asked = exchanges.request_ns[sequence] != UNKNOWN
    for side in (True, False):
        rows = sequence[asked & (exchanges.initiator_asked[sequence] == side)]
        same = exchanges.handshake[rows[1:]] == exchanges.handshake[rows[:-1]]
        until[rows[:-1][same]] = exchanges.request_ns[rows[1:][same]]
    # two exchanges that began with the same frame time say nothing of each other
    return np.where(until > exchanges.start_ns, until, _NEVER)
