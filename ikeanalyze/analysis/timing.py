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
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ikeanalyze.analysis.exchanges import UNKNOWN, Exchanges
from ikeanalyze.analysis.ordering import distinct
from ikeanalyze.capture.columns import BoolArray, Int64Array, UInt8Array, UInt64Array

Vantage = Literal["initiator", "responder"]

#: For each time to live whether systems begin with it.
_IS_FRESH: Final = np.isin(np.arange(256), (64, 128, 255))

INITIATOR: Final = 0
RESPONDER: Final = 1
UNKNOWN_VANTAGE: Final = 2


@dataclass(slots=True)
class Breakdown:
    """Parts of the set-up time, one row per handshake, ns; UNKNOWN: contained in the other parts, or no set-up time."""

    setup_ns: Int64Array
    network_ns: Int64Array
    initiator_ns: Int64Array
    responder_ns: Int64Array
    aaa_ns: Int64Array
    wait_ns: Int64Array
    path_rtt_ns: Int64Array
    end_ns: Int64Array


@dataclass(frozen=True, slots=True)
class AaaTimes:
    """How long responders waited for their AAA servers, in nanoseconds. (exchanges,)"""

    answering_ns: Int64Array  # from the requests that were answered to their responses
    wait_ns: Int64Array  # before: until these requests were sent again


def vantages(
    handshake: Int64Array,
    from_initiator: BoolArray,
    ttl: UInt8Array,
    count: int,
    given: Vantage | None = None,
) -> UInt8Array:
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


def pairs_of_hosts(initiator: UInt64Array, responder: UInt64Array) -> Int64Array:
    """A number for the two hosts of each handshake, of which these are the address codes. (handshakes,)"""
    initiators, responders = distinct(initiator)[1], distinct(responder)[1]
    return distinct(initiators.astype(np.uint64) << np.uint64(32) | responders)[1].astype(np.int64)


def break_down(
    exchanges: Exchanges,
    whole: BoolArray,
    vantage: UInt8Array,
    pair: Int64Array,
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

    def total(values: Int64Array) -> Int64Array:
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
    pair: Int64Array,
    vantage: UInt8Array,
    far: Int64Array,
    holds_path: BoolArray,
    rtt_ns: int | None,
) -> Int64Array:
    """The path's round-trip time as it is taken off each exchange; UNKNOWN where it is not contained."""
    if rtt_ns is not None:
        return np.where(holds_path, rtt_ns, UNKNOWN)
    if not holds_path.any():
        return np.full(len(pair), UNKNOWN)
    shortest = np.full(int(pair.max()) * 2 + 2, np.iinfo(np.int64).max)
    slot = pair * 2 + (vantage == RESPONDER)
    np.minimum.at(shortest, slot[holds_path], far[holds_path])
    return np.where(holds_path, shortest[slot], UNKNOWN)
