"""Which response ended each exchange, and which transmission of the request it answers.

A request may be sent several times, and each transmission may have a response. The capture shows the transmissions; which
of them count follows from their order, from the round-trip time of the path, and from RADIUS.

By order. A sender that repeats its request has not got the response. So the response that ended the exchange is the first
one after the last transmission of the request, as long as it precedes the next request of the same side; if there is none,
it is the latest response. It answers the latest transmission before it, unless there are as many responses as requests:
then they answer one another in order, late ones too.

By the path. On the responder's side, and on the way to it, the order decides only if the path is quicker than the
retransmission timer. If it is not, transmissions keep coming for a round trip after the response that was taken, each
with a response that the initiator ignores. Then:

- A message sent less than a round trip before the next request cannot have led to it. So a response later than that did
  not end the exchange; the one a round trip before the next request did.
- The last exchange of the set-up, and one after which the responder asks (XAuth), have no such next request; those after
  the set-up may have none. An initiator that has the response does not repeat the request: the first response that no
  transmission follows by more than a round trip ended the exchange.

On the initiator's side, a response that comes sooner than a round trip after a transmission answers an earlier one.

The round-trip time is the given one, if the side of the capture is known. Otherwise it comes, except on the initiator's
side, from exchanges of the same two hosts with a single response: from its end to the next request it takes a round trip
and the initiator's work. The shortest of these counts, if two agree on it in which the request was repeated. If the timer
is the quicker, the request is always repeated; if it was not, a late next request may follow a lost one. If the
round-trip time is unknown, or contradicts the transmissions, the order decides alone.

By RADIUS. A responder that asks its AAA server has got the request before. It does not answer what is sent again meanwhile.
After it has answered it does: the response was lost, and comes again without another question to the AAA server.

RADIUS packets are assigned to exchanges by the times at which these ended. So `find_exchange_endings` decides first which response
ended each exchange; then RADIUS is assigned; then `match_responses` decides which transmission was answered. Each value is
decided once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.analysis.exchanges.capture_point import INITIATOR, RESPONDER, NetworkPath, number_host_pairs
from ikeanalyze.analysis.exchanges.exchanges import NEVER, UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.grouping import argsort_stable, find_group_starts
from ikeanalyze.analysis.handshakes.outcome import SLOWEST_FIRST_TIMER_NS
from ikeanalyze.analysis.messages.messages import find_incomplete_messages
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array

#: Less than this part of a round trip is none; jitter is smaller.
_TOO_SHORT: Final = 0.75
#: A round trip, changed by clocks, jitter and the initiator's work.
_AT_LEAST: Final = 0.9
_AT_MOST: Final = 1.25
_LONG: Final = np.int64(1 << 60)  # ns, longer than any


@dataclass(frozen=True, slots=True)
class ExchangeEndings:
    """The response that ended each exchange, in the order of `ExchangeColumns`; UNKNOWN: there is none. (exchanges,) each"""

    answer_ns: Int64Array  # first frame of that response
    end_ns: Int64Array  # its last frame
    asked_ns: Int64Array  # first frame of the transmission before it
    last_request_ns: Int64Array  # last transmission of the request before the next exchange
    repeated_ns: Int64Array  # how long after the last response the request was still sent; 0: it was not


@dataclass(frozen=True, slots=True)
class AnsweredTransmissions:
    """How each exchange was answered, in the order of `ExchangeColumns`; UNKNOWN: it was not. (exchanges,) each"""

    answered_ns: Int64Array  # first frame of the transmission of the request that was answered
    end_ns: Int64Array  # last frame of the response that ended the exchange
    rtt_ns: Int64Array  # from the transmission that was answered to the first frame of that response
    wait_ns: Int64Array  # from the first transmission to that one; without a response, to the last one
    repeated_ns: Int64Array  # how long after the last response the request was still sent; 0: it was not


def find_exchange_endings(state: AnalysisState, path: NetworkPath) -> ExchangeEndings:
    """The response that ended each exchange, by the order of the transmissions and by the path."""
    exchanges = state.exchanges
    endings = _end_in_order(state)
    doubtful = exchanges.initiator_asked & (endings.end_ns != UNKNOWN)
    doubtful &= (exchanges.request_messages > 1) & (exchanges.response_messages > 1)
    rows = np.flatnonzero(doubtful)
    rows = rows[path.vantage[exchanges.handshake[rows]] != INITIATOR]
    return _end_by_path(state, path, endings, rows) if len(rows) else endings


def match_responses(
    state: AnalysisState, path: NetworkPath, endings: ExchangeEndings, aaa_asked_ns: Int64Array
) -> AnsweredTransmissions:
    """The transmission of each request that was answered, and the times that follow from it.

    `aaa_asked_ns` is when the responder first asked its AAA server in each exchange, UNKNOWN if it did not. (exchanges,)
    """
    exchanges = state.exchanges
    answered, answer = endings.asked_ns, endings.answer_ns
    if path.rtt_ns is not None:
        # on the initiator's side no response comes sooner than a round trip
        early = exchanges.initiator_asked & (answered != UNKNOWN) & (answered > exchanges.request_ns)
        early &= (answer - answered < _TOO_SHORT * path.rtt_ns) & (path.vantage[exchanges.handshake] == INITIATOR)
        earlier = _latest_requests(state, answer, early, _AT_LEAST * path.rtt_ns)
        answered = np.where(earlier != UNKNOWN, earlier, answered)
    # the responder had the request before it asked its AAA server
    asked = (aaa_asked_ns != UNKNOWN) & (answered != UNKNOWN) & (exchanges.response_ns >= answered)
    had = _latest_requests(state, aaa_asked_ns, asked)
    answered = np.where(had != UNKNOWN, np.minimum(had, answered), answered)

    known = answered != UNKNOWN
    waited_until = np.where(known, answered, np.where(answer != UNKNOWN, UNKNOWN, endings.last_request_ns))
    waited = (exchanges.request_ns != UNKNOWN) & (waited_until != UNKNOWN)
    return AnsweredTransmissions(
        answered_ns=answered,
        end_ns=endings.end_ns,
        rtt_ns=np.where(known, answer - answered, UNKNOWN),
        wait_ns=np.where(waited, waited_until - exchanges.request_ns, UNKNOWN),
        repeated_ns=endings.repeated_ns,
    )


def find_unreceived_responses(state: AnalysisState, answers: AnsweredTransmissions, last: BoolArray) -> BoolArray:
    """Which of the exchanges `last`, each the last one of its initiator, have no response that it can have taken.

    See `outcome`. (exchanges,)
    """
    exchanges, messages = state.exchanges, state.messages
    again = last & ((answers.repeated_ns > 0) | (exchanges.response_messages > 1))
    if not again.any():
        return again
    lacking = np.zeros(len(exchanges), np.bool_)
    rows = find_incomplete_messages(messages)
    lacking[state.exchange_of_message[rows[messages.response[rows]]]] = True
    # an initiator that answers a request of the responder has the IKE SA, and the capture lacks the rest
    taken = ~exchanges.initiator_asked & ~exchanges.set_up & (exchanges.response_messages > 0)
    result = again & (lacking | (answers.repeated_ns > SLOWEST_FIRST_TIMER_NS))
    return result & ~np.isin(exchanges.handshake, exchanges.handshake[taken])


def _latest_requests(state: AnalysisState, until_ns: Int64Array, chosen: BoolArray, before_ns: float = 0) -> Int64Array:
    """The latest transmission of each chosen exchange's request that is `before_ns` before a time; UNKNOWN: none.

    `until_ns` is the time of each exchange. (exchanges,)
    """
    latest = np.full(len(chosen), UNKNOWN)
    if chosen.any():
        messages, exchange = state.messages, state.exchange_of_message
        rows = np.flatnonzero(chosen[exchange] & ~messages.response)
        exchange, sent = exchange[rows], messages.first_ns[rows]
        soon_enough = until_ns[exchange] - sent >= before_ns
        np.maximum.at(latest, exchange[soon_enough], sent[soon_enough])
    return latest


def _end_in_order(state: AnalysisState) -> ExchangeEndings:
    """The ending of each exchange by the order of its transmissions."""
    exchanges, messages = state.exchanges, state.messages
    count, exchange = len(exchanges), state.exchange_of_message
    if not count:
        return ExchangeEndings(*(np.zeros(0, np.int64) for _ in ExchangeEndings.__dataclass_fields__))
    if (exchange[1:] < exchange[:-1]).any():  # mostly they are in order
        order = argsort_stable(exchange)
        messages, exchange = messages.select(order), exchange[order]
    start = np.flatnonzero(find_group_starts(exchange))
    when, response = messages.first_ns, messages.response
    current = when < _next_requests(exchanges)[exchange]
    asking, answering = ~response & current, response & current

    last_request = np.maximum.reduceat(np.where(asking, when, UNKNOWN), start)
    ending = np.minimum.reduceat(np.where(answering & (when > last_request[exchange]), when, NEVER), start)
    latest = np.maximum.reduceat(np.where(answering, when, UNKNOWN), start)
    last_end = np.maximum.reduceat(np.where(answering, messages.last_ns, UNKNOWN), start)
    repeated = np.where((last_end != UNKNOWN) & (last_request > last_end), last_request - last_end, 0)
    answer = np.where(ending != NEVER, ending, np.where(latest != UNKNOWN, latest, exchanges.response_ns))
    has_answer = answer != UNKNOWN
    row = np.where(response & (when == answer[exchange]), np.arange(len(when)), len(when))
    ended_by = np.minimum.reduceat(row, start)
    end = np.full(count, UNKNOWN)
    has_end = has_answer & (ended_by < len(when))
    end[has_end] = messages.last_ns[ended_by[has_end]]

    asked = np.maximum.reduceat(np.where(~response & (when <= answer[exchange]), when, UNKNOWN), start)
    # a response that comes after its initiator has gone on answers a request too
    requests = np.add.reduceat((~response).astype(np.int64), start)
    responses = np.add.reduceat(response.astype(np.int64), start)
    ordinal = np.add.reduceat((answering & (when <= answer[exchange])).astype(np.int64), start)
    paired = np.flatnonzero((requests == responses) & (requests > 1) & (ordinal > 0) & has_answer)
    asked[paired] = when[start[paired] + ordinal[paired] - 1]
    known = has_answer & (asked != UNKNOWN) & (asked <= answer)
    return ExchangeEndings(answer, end, np.where(known, asked, UNKNOWN), last_request, repeated)


def _next_requests(exchanges: ExchangeColumns) -> Int64Array:
    """When the same side of the same IKE SA began its next exchange; never: the end of time. (exchanges,)"""
    until = np.full(len(exchanges), NEVER)
    asked = exchanges.request_ns != UNKNOWN
    for side in (True, False):
        rows = np.flatnonzero(asked & (exchanges.initiator_asked == side))
        same = exchanges.handshake[rows[1:]] == exchanges.handshake[rows[:-1]]
        until[rows[:-1][same]] = exchanges.request_ns[rows[1:][same]]
    # the order of two exchanges that began at the same time is unknown
    return np.where(until > exchanges.start_ns, until, NEVER)


def _end_by_path(
    state: AnalysisState, path: NetworkPath, endings: ExchangeEndings, rows: Int64Array
) -> ExchangeEndings:
    """The endings, those of the exchanges `rows` by the round-trip time of the path where it is known."""
    exchanges = state.exchanges
    pair = number_host_pairs(*_hosts(state))[exchanges.handshake]
    following = _following(exchanges)
    goes_on = _goes_on(exchanges, following)
    rtt = _round_trips(exchanges, endings, following, pair)[pair]
    if path.rtt_ns is not None:
        rtt = np.where(path.vantage[exchanges.handshake] == RESPONDER, path.rtt_ns, rtt)
    rows = rows[rtt[rows] > 0]
    gap = exchanges.request_ns[following[rows]] - endings.end_ns[rows]
    soon = (following[rows] >= 0) & (gap < _AT_LEAST * rtt[rows])
    # where the next request does not decide, a repetition must have been under way: most came when a timer had run out
    since = endings.asked_ns[rows] - exchanges.response_ns[rows]
    crossing = ~goes_on[rows] & (since > 0)
    crossing &= (since < 2 * rtt[rows]) | (exchanges.response_messages[rows] > 2)

    # what follows the set-up does not follow its last exchange at once
    following = np.where(exchanges.set_up & ~goes_on, -1, following)
    next_ns = np.where(following >= 0, exchanges.request_ns[following], NEVER)
    answer, end, asked = endings.answer_ns.copy(), endings.end_ns.copy(), endings.asked_ns.copy()
    messages = state.messages
    for row, own in _messages_of(state, rows[soon | crossing]):
        if goes_on[row] and next_ns[row] - end[row] >= _TOO_SHORT * rtt[row]:
            continue
        response = _find_fitting_response(state, own, int(next_ns[row]), bool(goes_on[row]), int(rtt[row]))
        if response is None or messages.last_ns[response] >= end[row]:
            continue
        sent = messages.first_ns[own[~messages.response[own]]]
        sent = sent[sent <= messages.first_ns[response]]
        if len(sent):
            answer[row], end[row] = messages.first_ns[response], messages.last_ns[response]
            asked[row] = sent.max()
    return ExchangeEndings(answer, end, asked, endings.last_request_ns, endings.repeated_ns)


def _find_fitting_response(
    state: AnalysisState, own: Int64Array, next_ns: int, goes_on: bool, rtt: int
) -> np.int64 | None:
    """The response that fits a round-trip time; None: none does.

    Args:
        conversation: all messages.
        own: rows of the messages of the exchange.
        next_ns: the next request of the same side, or NEVER.
        goes_on: the initiator goes on with that request at once.
        rtt: ns.
    """
    messages = state.messages
    is_response = messages.response[own]
    responses = own[is_response][np.argsort(messages.last_ns[own[is_response]], kind="stable")]
    ended = messages.last_ns[responses]
    if next_ns != NEVER:
        gap = next_ns - ended
        nearest = np.argmin(np.abs(gap - rtt))
        if _TOO_SHORT * rtt <= gap[nearest] <= _AT_MOST * rtt:
            return np.int64(responses[nearest])
    if goes_on:
        return None
    sent_after = messages.first_ns[own[~is_response]].max() - ended
    fitting = responses[(sent_after > 0) & (sent_after <= rtt)]
    return fitting[0] if len(fitting) else None


def _hosts(state: AnalysisState) -> UInt64Array:
    """Address codes of the initiator and the responder of each handshake, as first seen. (2, handshakes)"""
    datagrams, association = state.datagrams, state.association
    hosts = np.zeros((2, association.count), np.uint64)
    backwards = association.handshake[::-1]
    hosts[0, backwards] = np.where(association.from_initiator, datagrams.source, datagrams.destination)[::-1]
    hosts[1, backwards] = np.where(association.from_initiator, datagrams.destination, datagrams.source)[::-1]
    return hosts


def _messages_of(state: AnalysisState, rows: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Each of the exchanges `rows`, which rise, with the rows of its messages."""
    wanted = np.flatnonzero(np.isin(state.exchange_of_message, rows))
    exchange = state.exchange_of_message[wanted]
    order = np.argsort(exchange, kind="stable")
    wanted, exchange = wanted[order], exchange[order]
    low, high = np.searchsorted(exchange, rows), np.searchsorted(exchange, rows, side="right")
    for row, begin, end in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
        yield row, wanted[begin:end]


def _following(exchanges: ExchangeColumns) -> Int64Array:
    """The initiator's next exchange in the same handshake, -1: none. (exchanges,)"""
    following = np.full(len(exchanges), -1)
    own = np.flatnonzero(exchanges.initiator_asked & (exchanges.request_ns != UNKNOWN))
    same = exchanges.handshake[own[1:]] == exchanges.handshake[own[:-1]]
    following[own[:-1][same]] = own[1:][same]
    return following


def _goes_on(exchanges: ExchangeColumns, following: Int64Array) -> BoolArray:
    """Which exchanges the initiator goes on from at once, by the next one that sets up the IKE SA. (exchanges,)"""
    at_once = following == np.arange(1, len(following) + 1)
    return np.asarray(at_once & exchanges.set_up & exchanges.set_up[following])


def _round_trips(
    exchanges: ExchangeColumns, endings: ExchangeEndings, following: Int64Array, pair: Int64Array
) -> Int64Array:
    """By pair of hosts, the shortest round trip from here to the initiator and back; ns, 0 where it is not certain.

    `pair` is that of each exchange.
    """
    single = exchanges.initiator_asked & (exchanges.response_messages == 1) & (endings.end_ns != UNKNOWN)
    rows = np.flatnonzero(single & _goes_on(exchanges, following))
    gap = exchanges.request_ns[following[rows]] - endings.end_ns[rows]
    hosts = pair[rows]
    count = int(pair.max()) + 1
    shortest = np.full(count, _LONG)
    np.minimum.at(shortest, hosts, gap)
    agree = (exchanges.request_messages[rows] > 1) & (gap <= _AT_MOST * shortest[hosts])
    certain = (np.bincount(hosts[agree], minlength=count) > 1) & (shortest > 0)
    return np.where(certain, shortest, 0)
