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
"""

from dataclasses import dataclass

import numpy as np

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import INITIATOR, RESPONDER, UNKNOWN_VANTAGE, NetworkPath
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, ExchangeColumns
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array


@dataclass(slots=True)
class TimeBreakdown:
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


@dataclass(frozen=True, slots=True)
class _Turns:
    """The exchanges of the set-ups, and who had the time of each: one after the other, without gap or overlap, ns."""

    handshake: Int64Array
    request_ns: Int64Array  # first transmission
    end_ns: Int64Array
    last: BoolArray  # of its handshake
    answered: BoolArray
    flipped: BoolArray  # the responder asked
    flipped_next: BoolArray  # the responder asks in the next exchange
    wait: Int64Array  # until the request, or that to the AAA server, was sent again
    turn: Int64Array  # from the request to the response, the AAA server's part included: the side that was asked
    aaa: Int64Array  # the AAA server's part of `turn`
    aaa_before: Int64Array  # the AAA server's part of the time before the response was sent again
    gap: Int64Array  # from the response to the next request: the side that asks next


def compute_time_breakdown(
    exchanges: ExchangeColumns,
    answers: AnsweredTransmissions,
    whole: BoolArray,
    pair: Int64Array,
    aaa_times: AaaTimes,
    path: NetworkPath,
) -> TimeBreakdown:
    """Take each handshake's set-up time apart.

    Args:
        exchanges: of the whole capture, ordered by handshake and time.
        answers: of these exchanges.
        whole: which handshakes are complete from the first request to the last response. (handshakes,)
        pair: a number for the two hosts of each handshake, between which the path is one. (handshakes,)
        aaa_times: how long the responder waited for the AAA server in each exchange.
        path: of each handshake.
    """
    count = len(whole)
    turns = _turns(exchanges, answers, whole, aaa_times)
    handshake, last, flipped, flipped_next = turns.handshake, turns.last, turns.flipped, turns.flipped_next
    turn = turns.turn - turns.aaa
    # the path lies within the initiator's side's view of the responder's turn, and the other way round; so also where the
    # responder asks (XAuth)
    vantage = path.vantage[handshake]
    in_turn = np.where(vantage == INITIATOR, ~flipped, flipped)
    between = np.where(vantage == INITIATOR, flipped_next, ~last & ~flipped_next)
    holds_path = turns.answered & (in_turn | between) & (vantage != UNKNOWN_VANTAGE)
    rtt = _path_rtt(pair[handshake], vantage, np.where(in_turn, turns.turn, turns.gap), holds_path, path.rtt_ns)
    known = rtt != UNKNOWN
    network = np.where(known, np.minimum(rtt, np.where(in_turn, turn, turns.gap)), 0)
    turn = turn - np.where(in_turn, network, 0)
    gap = turns.gap - np.where(in_turn, 0, network)

    def total(values: Int64Array) -> Int64Array:
        summed = np.zeros(count, np.int64)
        np.add.at(summed, handshake, values)
        return np.where(whole, summed, UNKNOWN)

    first = np.ones(len(last), np.bool_)
    first[1:] = last[:-1]
    first_ns, end_ns, path_rtt = (np.full(count, UNKNOWN) for _ in range(3))
    first_ns[handshake[first]] = turns.request_ns[first]
    end_ns[handshake[last]] = turns.end_ns[last]
    path_rtt[handshake[known]] = rtt[known]
    return TimeBreakdown(
        setup_ns=np.where(whole, end_ns - first_ns, UNKNOWN),
        network_ns=np.where(path_rtt != UNKNOWN, total(network), UNKNOWN),
        initiator_ns=total(np.where(flipped, turn, 0) + np.where(flipped_next, 0, gap)),
        responder_ns=total(np.where(flipped, 0, turn) + np.where(flipped_next, gap, 0)),
        aaa_ns=total(turns.aaa + turns.aaa_before),
        wait_ns=total(turns.wait),
        path_rtt_ns=path_rtt,
        end_ns=end_ns,
    )


def _turns(exchanges: ExchangeColumns, answers: AnsweredTransmissions, whole: BoolArray, aaa_times: AaaTimes) -> _Turns:
    rows = np.flatnonzero(exchanges.set_up & whole[exchanges.handshake] & (exchanges.request_messages > 0))
    handshake = exchanges.handshake[rows]
    request = exchanges.request_ns[rows]
    # IKEv1's aggressive and quick mode end with a message that is not answered: it ends with its own first transmission. So does
    # a request whose response has the earlier time, in a capture whose clocks disagree.
    answered = answers.answered_ns[rows] != UNKNOWN
    asked = np.where(answered, answers.answered_ns[rows], request)
    # a response in fragments was on its way while the last of them came: the sender's part
    end = np.where(answered, answers.end_ns[rows], request)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = handshake[1:] != handshake[:-1]
    following = np.where(last, end, np.append(request[1:], 0))
    # a response that the capture saw late cannot have been later than the request that it led to
    answer = np.minimum(end, following)
    asked = np.minimum(asked, answer)
    wait, turn = asked - request, answer - asked

    flipped = ~exchanges.initiator_asked[rows]
    answering = np.where(flipped, 0, aaa_times.answering_ns[rows])
    # where the response was lost and had to be asked for again, the AAA server had answered before that
    lost = answered & (exchanges.response_ns[rows] < asked)
    aaa_before = np.where(lost, np.minimum(answering, wait), 0)
    aaa = np.where(lost, 0, np.minimum(answering, turn))
    aaa_wait = np.minimum(np.where(flipped | lost, 0, aaa_times.wait_ns[rows]), turn - aaa)
    return _Turns(
        handshake=handshake,
        request_ns=request,
        end_ns=end,
        last=last,
        answered=answered,
        flipped=flipped,
        flipped_next=np.append(flipped[1:], False) & ~last,
        wait=wait + aaa_wait - aaa_before,
        turn=turn - aaa_wait,
        aaa=aaa,
        aaa_before=aaa_before,
        gap=following - answer,
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
