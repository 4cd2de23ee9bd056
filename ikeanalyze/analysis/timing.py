"""Where the time of a handshake went, and what of that is known and what is estimated.

The capture sees each exchange from where it was taken. Time runs in turns: from a request to its response the
responder has it (and the path between it and the capture), from a response to the next request the initiator
has it (and the path on its side); between the first transmission of a request and the one that was answered,
a timer was waited for, and so it was between the first transmission of a RADIUS request and the one that was
answered; the rest of the responder's time with its AAA server is a part of its own. These intervals follow one
another without gap or overlap from the first request to the last frame of the last response, so that they add
up to the set-up time exactly.

On the initiator's machine its own turns are exact and the path is contained in the responder's turns; on the
responder's it is the other way round. There the path's round-trip time is taken off: the one that was given,
else the shortest turn ever seen of that side between these two hosts, which is an estimate from above. Where
the vantage is unknown, nothing is taken off, and the network's part is null.

Which side it is: a packet that has crossed no router has the time to live that its sender's system begins
with (64, 128 or 255; RFC 1700, RFC 8200, 3 for the hop limit). If that holds in one direction only, its
sender's side is where the capture was taken.

What the path takes also says which response ended an exchange whose round trip is longer than the timer. `exchanges` goes by
the order of things: the response that ended an exchange is the first one after the last transmission
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
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.conversation import Conversation
from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges
from ikeanalyze.analysis.messages import Messages
from ikeanalyze.analysis.ordering import distinct

Numbers = npt.NDArray[np.int64]
Vantage = Literal["initiator", "responder"]

#: For each time to live whether systems begin with it.
_IS_FRESH: Final = np.isin(np.arange(256), (64, 128, 255))

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2

#: Less than this part of a round trip is none; jitter is not more than that.
_TOO_SHORT: Final = 0.75
#: A round trip, with what clocks, jitter and the initiator's work make of it.
_AT_LEAST: Final = 0.9
_AT_MOST: Final = 1.25
_LONG: Final = np.int64(1 << 60)  # ns, longer than any


@dataclass(slots=True)
class Breakdown:
    """Parts of the set-up time, one row per handshake, ns; UNKNOWN: contained in the other parts, or no set-up time."""

    setup_ns: Numbers
    network_ns: Numbers
    initiator_ns: Numbers
    responder_ns: Numbers
    aaa_ns: Numbers
    wait_ns: Numbers
    path_rtt_ns: Numbers
    end_ns: Numbers


@dataclass(frozen=True, slots=True)
class AaaTimes:
    """How long responders waited for their AAA servers, in nanoseconds. (exchanges,)"""

    answering_ns: Numbers  # from the requests that were answered to their responses
    wait_ns: Numbers  # before: until these requests were sent again


def vantages(
    handshake: Numbers,
    from_initiator: npt.NDArray[np.bool_],
    ttl: npt.NDArray[np.uint8],
    count: int,
    given: Vantage | None = None,
) -> npt.NDArray[np.uint8]:
    """INITIATOR, RESPONDER or UNKNOWN_VANTAGE for each of `count` handshakes: as given, else by the TTLs of its units."""
    if given is not None:
        return np.full(count, INITIATOR if given == "initiator" else RESPONDER, np.uint8)
    # of each handshake: units of the responder with a worn TTL, with a fresh one; the same of the initiator
    kind = handshake << 2 | from_initiator.astype(np.int64) << 1 | _IS_FRESH[ttl]
    units = np.bincount(kind, minlength=4 * count).reshape(-1, 4) > 0
    responder_worn, responder_fresh = units[:, 0] & ~units[:, 1], units[:, 1] & ~units[:, 0]
    initiator_worn, initiator_fresh = units[:, 2] & ~units[:, 3], units[:, 3] & ~units[:, 2]
    result = np.full(count, UNKNOWN_VANTAGE, np.uint8)
    result[initiator_fresh & responder_worn] = INITIATOR
    result[responder_fresh & initiator_worn] = RESPONDER
    return result


def pairs_of_hosts(initiator: npt.NDArray[np.uint64], responder: npt.NDArray[np.uint64]) -> Numbers:
    """A number for the two hosts of each handshake, of which these are the address codes. (handshakes,)"""
    initiators, responders = distinct(initiator)[1], distinct(responder)[1]
    return distinct(initiators.astype(np.uint64) << np.uint64(32) | responders)[1].astype(np.int64)


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
        _settle_one(
            exchanges, conversation.messages, row, own, int(following[row]), bool(goes_on[row]), int(rtt[row])
        )


def _hosts(conversation: Conversation) -> npt.NDArray[np.uint64]:
    """Address codes of the initiator and the responder of each handshake, as first seen. (2, handshakes)"""
    units, association = conversation.units, conversation.association
    hosts = np.zeros((2, association.count), np.uint64)
    backwards = association.handshake[::-1]
    hosts[0, backwards] = np.where(association.from_initiator, units.source, units.destination)[::-1]
    hosts[1, backwards] = np.where(association.from_initiator, units.destination, units.source)[::-1]
    return hosts


def _messages_of(conversation: Conversation, rows: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Each of the exchanges `rows`, which rise, with the rows of its messages."""
    wanted = np.flatnonzero(np.isin(conversation.exchange_of_message, rows))
    exchange = conversation.exchange_of_message[wanted]
    order = np.argsort(exchange, kind="stable")
    wanted, exchange = wanted[order], exchange[order]
    low, high = np.searchsorted(exchange, rows), np.searchsorted(exchange, rows, side="right")
    for row, begin, end in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
        yield row, wanted[begin:end]


def _ask_earlier(exchanges: Exchanges, messages: Messages, row: int, own: Numbers, rtt: int) -> None:
    """Correct one exchange, seen by the initiator, whose response came too soon behind the transmission that it should answer."""
    sent = messages.first_ns[own[~messages.response[own]]]
    sent = sent[exchanges.answer_ns[row] - sent >= _AT_LEAST * rtt]
    if len(sent):
        _answer(exchanges, row, sent.max())


def _answer(exchanges: Exchanges, row: int, answered: np.int64) -> None:
    """Note which transmission of the request the response that ended the exchange answers."""
    exchanges.answered_ns[row] = answered
    exchanges.rtt_ns[row] = exchanges.answer_ns[row] - answered
    exchanges.wait_ns[row] = answered - exchanges.request_ns[row]


def _settle_one(
    exchanges: Exchanges,
    messages: Messages,
    row: int,
    own: Numbers,
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
        _answer(exchanges, row, asked.max())


def _following(exchanges: Exchanges) -> Numbers:
    """The initiator's next exchange in the same handshake, -1: none. (exchanges,)"""
    following = np.full(len(exchanges), -1)
    own = np.flatnonzero(exchanges.initiator_asked & (exchanges.request_ns != UNKNOWN))
    same = exchanges.handshake[own[1:]] == exchanges.handshake[own[:-1]]
    following[own[:-1][same]] = own[1:][same]
    return following


def _goes_on(exchanges: Exchanges, following: Numbers) -> npt.NDArray[np.bool_]:
    """Which exchanges the initiator goes on from at once, by the next one that sets the IKE SA up. (exchanges,)"""
    at_once = following == np.arange(1, len(following) + 1)
    return np.asarray(at_once & exchanges.set_up & exchanges.set_up[following])


def _round_trips(exchanges: Exchanges, following: Numbers, pair: Numbers) -> Numbers:
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


def break_down(
    exchanges: Exchanges,
    whole: npt.NDArray[np.bool_],
    vantage: npt.NDArray[np.uint8],
    pair: Numbers,
    aaa_times: AaaTimes,
    rtt_ns: int | None,
) -> Breakdown:
    """Take each handshake's set-up time apart.

    Args:
        exchanges: of the whole capture, ordered by handshake and time.
        whole: which handshakes are complete from the first request to the last response. (handshakes,)
        vantage: of each handshake. (handshakes,)
        pair: a number for the two hosts of each handshake, between which the path is one. (handshakes,)
        aaa_times: what the responder waited for the AAA server, in each exchange.
        rtt_ns: the path's round-trip time, if it was given.
    """
    count = len(whole)
    rows = np.flatnonzero(exchanges.set_up & whole[exchanges.handshake] & (exchanges.request_messages > 0))
    handshake = exchanges.handshake[rows]
    request = exchanges.request_ns[rows]
    # IKEv1's aggressive and quick mode end with a message that is not answered: it ends with its own first transmission. So does
    # a request whose response has the earlier time, in a capture whose clocks disagree.
    answered = exchanges.answered_ns[rows] != UNKNOWN
    asked = np.where(answered, exchanges.answered_ns[rows], request)
    # a response in fragments was on its way while the last of them came: the sender's part
    answer = np.where(answered, exchanges.end_ns[rows], request)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = handshake[1:] != handshake[:-1]
    end = answer
    following = np.where(last, end, np.append(request[1:], 0))
    # a response that the capture saw late cannot have been later than the request that it led to
    answer = np.minimum(answer, following)
    asked = np.minimum(asked, answer)

    wait, turn, gap = asked - request, answer - asked, following - answer
    # the turn is the side's that was asked, the gap behind it the side's that asks next
    flipped = ~exchanges.initiator_asked[rows]
    flipped_next = np.append(flipped[1:], False) & ~last
    answering = np.where(flipped, 0, aaa_times.answering_ns[rows])
    # where the response was lost and had to be asked for again, the AAA server had answered before that
    lost = answered & (exchanges.response_ns[rows] < asked)
    aaa_before = np.where(lost, np.minimum(answering, wait), 0)
    aaa = np.where(lost, 0, np.minimum(answering, turn))
    aaa_wait = np.minimum(np.where(flipped | lost, 0, aaa_times.wait_ns[rows]), turn - aaa)
    turn, wait = turn - aaa_wait, wait + aaa_wait - aaa_before

    # the path lies within the initiator's side's view of the responder's turn, and the other way round; so also where the
    # responder asks (XAuth)
    sign = vantage[handshake]
    in_turn = np.where(sign == INITIATOR, ~flipped, flipped)
    far = np.where(in_turn, turn - aaa, gap)
    between = np.where(sign == INITIATOR, flipped_next, ~last & ~flipped_next)
    holds_path = answered & (in_turn | between) & (sign != UNKNOWN_VANTAGE)
    path = _path_rtt(pair[handshake], sign, np.where(in_turn, turn, gap), holds_path, rtt_ns)
    known = path != UNKNOWN
    network = np.where(known, np.minimum(path, far), 0)
    taken_turn, taken_gap = np.where(in_turn, network, 0), np.where(in_turn, 0, network)
    responders = np.where(flipped, 0, turn - aaa - taken_turn) + np.where(flipped_next, gap - taken_gap, 0)
    initiators = np.where(flipped, turn - taken_turn, 0) + np.where(flipped_next, 0, gap - taken_gap)

    def total(values: Numbers) -> Numbers:
        summed = np.zeros(count, np.int64)
        np.add.at(summed, handshake, values)
        return np.where(whole, summed, UNKNOWN)

    first = np.ones(len(rows), np.bool_)
    first[1:] = last[:-1]
    first_ns, end_ns = np.full(count, UNKNOWN), np.full(count, UNKNOWN)
    first_ns[handshake[first]] = request[first]
    end_ns[handshake[last]] = end[last]
    estimated = np.zeros(count, np.bool_)
    estimated[handshake[known]] = True
    path_rtt = np.full(count, UNKNOWN)
    path_rtt[handshake[known]] = path[known]
    return Breakdown(
        setup_ns=np.where(whole, end_ns - first_ns, UNKNOWN),
        network_ns=np.where(whole & estimated, total(network), UNKNOWN),
        initiator_ns=total(initiators),
        responder_ns=total(responders),
        aaa_ns=total(aaa + aaa_before),
        wait_ns=total(wait),
        path_rtt_ns=path_rtt,
        end_ns=end_ns,
    )


def _path_rtt(
    pair: Numbers,
    vantage: npt.NDArray[np.uint8],
    far: Numbers,
    holds_path: npt.NDArray[np.bool_],
    rtt_ns: int | None,
) -> Numbers:
    """The path's round-trip time as it is taken off each exchange; UNKNOWN where it is not contained."""
    if rtt_ns is not None:
        return np.where(holds_path, rtt_ns, UNKNOWN)
    if not holds_path.any():
        return np.full(len(pair), UNKNOWN)
    shortest = np.full(int(pair.max()) * 2 + 2, np.iinfo(np.int64).max)
    slot = pair * 2 + (vantage == RESPONDER)
    np.minimum.at(shortest, slot[holds_path], far[holds_path])
    return np.where(holds_path, shortest[slot], UNKNOWN)
