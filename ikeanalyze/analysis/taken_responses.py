"""Which response ended an exchange whose round trip is longer than the timer: what the path takes says it.

`exchanges` goes by the order of things: the response that ended an exchange is the first one after the last transmission
of the request. On the responder's side (and on the way to it) that holds only if the path is quicker than the timer. If
it is not, transmissions keep coming for a round trip after the response that was taken, each with a response of its own
that the initiator has no use for. What the path takes decides then:

- Nothing that was sent less than a round trip before the next request can have led to it. So a response that was sent
  later than that is not the one; the one that was sent a round trip before is.
- The last exchange of the set-up, and one behind which the responder asks (XAuth), have no such next request; those after
  the set-up need not have one. Whoever has the response does not repeat the request: the first response that no
  transmission follows by more than a round trip is the one.

On the initiator's side a response cannot have come sooner than a round trip behind the request that it answers. If it did, it
answers an earlier transmission.

The round-trip time is the one that was given, if the side of the capture is known. Else it is known, but not on the initiator's
side, from exchanges of the same two hosts that have one response only: from its end to the next request it takes a round trip
and the initiator's work.
The shortest of these counts, if two agree on it in which the request was repeated nevertheless. Where the timer is the quicker,
it always is; where it is not repeated, a next request that comes late may be one whose first transmission was lost.
Where the round-trip time is not known, or what it says does not fit, the order decides alone.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges
from ikeanalyze.analysis.messages import Messages
from ikeanalyze.analysis.timing import INITIATOR, RESPONDER, Vantage, pairs_of_hosts, vantages
from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt64Array

#: Less than this part of a round trip is none; jitter is not more than that.
_TOO_SHORT: Final = 0.75
#: A round trip, with what clocks, jitter and the initiator's work make of it.
_AT_LEAST: Final = 0.9
_AT_MOST: Final = 1.25
_LONG: Final = np.int64(1 << 60)  # ns, longer than any


def settle(conversation: Conversation, given: Vantage | None, rtt_ns: int | None) -> None:
    """Correct the exchanges that another response ended, or another request asked, than the order of things says.

    `given` is the side of the captures, if it was given, and `rtt_ns` the path's round-trip time.
    """
    exchanges, units, association = conversation.exchanges, conversation.units, conversation.association
    ended = exchanges.initiator_asked & (exchanges.end_ns != UNKNOWN) & (exchanges.request_messages > 1)
    doubtful = ended & (exchanges.response_messages > 1)
    early = ended & (exchanges.wait_ns > 0) & (exchanges.rtt_ns < _TOO_SHORT * (rtt_ns or 0))
    if not (doubtful | early).any():
        return
    of_units = association.handshake, association.from_initiator
    side = vantages(*of_units, units.ttl, association.count, given)[exchanges.handshake]
    rows = np.flatnonzero(early & (side == INITIATOR))
    for row, own in _messages_of(conversation, rows):
        _ask_earlier(exchanges, conversation.messages, row, own, rtt_ns or 0)
    rows = np.flatnonzero(doubtful & (side != INITIATOR))
    if not len(rows):
        return
    pair = pairs_of_hosts(*_hosts(conversation))[exchanges.handshake]
    following = _following(exchanges)
    rtt = _round_trips(exchanges, following, pair)[pair]
    if rtt_ns is not None:
        rtt = np.where(side == RESPONDER, rtt_ns, rtt)
    rows = rows[rtt[rows] > 0]
    gap = exchanges.request_ns[following[rows]] - exchanges.end_ns[rows]
    soon = (following[rows] >= 0) & (gap < _AT_LEAST * rtt[rows])
    # where the next request does not tell, a repetition has to have been under way: most came when a timer had run out
    goes_on = _goes_on(exchanges, following)
    following = np.where(exchanges.set_up & ~goes_on, -1, following)
    last = ~goes_on[rows]
    since = exchanges.answered_ns[rows] - exchanges.response_ns[rows]
    crossing = last & (since > 0) & ((since < 2 * rtt[rows]) | (exchanges.response_messages[rows] > 2))
    for row, own in _messages_of(conversation, rows[soon | crossing]):
        _settle_one(exchanges, conversation.messages, row, own, int(following[row]), bool(goes_on[row]), int(rtt[row]))


def _hosts(conversation: Conversation) -> UInt64Array:
    """Address codes of the initiator and the responder of each handshake, as first seen. (2, handshakes)"""
    units, association = conversation.units, conversation.association
    hosts = np.zeros((2, association.count), np.uint64)
    backwards = association.handshake[::-1]
    hosts[0, backwards] = np.where(association.from_initiator, units.source, units.destination)[::-1]
    hosts[1, backwards] = np.where(association.from_initiator, units.destination, units.source)[::-1]
    return hosts


def _messages_of(conversation: Conversation, rows: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Each of the exchanges `rows`, which rise, with the rows of its messages."""
    wanted = np.flatnonzero(np.isin(conversation.exchange_of_message, rows))
    exchange = conversation.exchange_of_message[wanted]
    order = np.argsort(exchange, kind="stable")
    wanted, exchange = wanted[order], exchange[order]
    low, high = np.searchsorted(exchange, rows), np.searchsorted(exchange, rows, side="right")
    for row, begin, end in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
        yield row, wanted[begin:end]


def _ask_earlier(exchanges: Exchanges, messages: Messages, row: int, own: Int64Array, rtt: int) -> None:
    """Correct one exchange, seen by the initiator, whose response came too soon behind the transmission that it should answer."""
    sent = messages.first_ns[own[~messages.response[own]]]
    sent = sent[exchanges.answer_ns[row] - sent >= _AT_LEAST * rtt]
    if len(sent):
        exchanges.note_answered(row, int(sent.max()))


def _settle_one(
    exchanges: Exchanges,
    messages: Messages,
    row: int,
    own: Int64Array,
    following: int,
    goes_on: bool,
    rtt: int,
) -> None:
    """Correct one exchange; `own` are the rows of its messages, `following` that of the same side's next exchange or -1."""
    is_response = messages.response[own]
    responses = own[is_response][np.argsort(messages.last_ns[own[is_response]], kind="stable")]
    ended = messages.last_ns[responses]
    sent = messages.first_ns[own[~is_response]]
    taken = responses[:0]
    if following >= 0:
        gap = exchanges.request_ns[following] - ended
        nearest = np.argmin(np.abs(gap - rtt))
        if _TOO_SHORT * rtt <= gap[nearest] <= _AT_MOST * rtt:
            taken = responses[nearest : nearest + 1]
    if goes_on:
        if exchanges.request_ns[following] - exchanges.end_ns[row] >= _TOO_SHORT * rtt:
            return
    elif not len(taken):
        behind = sent.max() - ended
        taken = responses[(behind > 0) & (behind <= rtt)][:1]
    if not len(taken) or messages.last_ns[taken[0]] >= exchanges.end_ns[row]:
        return
    answer = messages.first_ns[taken[0]]
    asked = sent[sent <= answer]
    if len(asked):
        exchanges.answer_ns[row], exchanges.end_ns[row] = answer, messages.last_ns[taken[0]]
        exchanges.note_answered(row, int(asked.max()))


def _following(exchanges: Exchanges) -> Int64Array:
    """The initiator's next exchange in the same handshake, -1: none. (exchanges,)"""
    following = np.full(len(exchanges), -1)
    own = np.flatnonzero(exchanges.initiator_asked & (exchanges.request_ns != UNKNOWN))
    same = exchanges.handshake[own[1:]] == exchanges.handshake[own[:-1]]
    following[own[:-1][same]] = own[1:][same]
    return following


def _goes_on(exchanges: Exchanges, following: Int64Array) -> BoolArray:
    """Which exchanges the initiator goes on from at once, by the next one that sets the IKE SA up. (exchanges,)"""
    at_once = following == np.arange(1, len(following) + 1)
    return np.asarray(at_once & exchanges.set_up & exchanges.set_up[following])


def _round_trips(exchanges: Exchanges, following: Int64Array, pair: Int64Array) -> Int64Array:
    """By pair of hosts, the shortest round trip from here to the initiator and back; ns, 0 where it is not certain.

    `pair` is that of each exchange.
    """
    lone = exchanges.initiator_asked & (exchanges.response_messages == 1) & (exchanges.end_ns != UNKNOWN)
    lone &= _goes_on(exchanges, following)
    rows = np.flatnonzero(lone)
    gap = exchanges.request_ns[following[rows]] - exchanges.end_ns[rows]
    hosts = pair[rows]
    count = int(pair.max()) + 1
    shortest = np.full(count, _LONG)
    np.minimum.at(shortest, hosts, gap)
    agree = (exchanges.request_messages[rows] > 1) & (gap <= _AT_MOST * shortest[hosts])
    certain = (np.bincount(hosts[agree], minlength=count) > 1) & (shortest > 0)
    return np.where(certain, shortest, 0)
