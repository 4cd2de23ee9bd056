"""Divide the set-up time of a handshake among network, initiator, responder, AAA server and retransmission timers.

The set-up time consists of intervals that follow one another without gap or overlap, from the first request to the last
frame of the last response; their sum is the set-up time exactly:

- From the first transmission of a request to the one that was answered, a retransmission timer was running; also from
  the first transmission of a RADIUS request to the one that was answered.
- From the request to its response is the responder's interval; it contains the path between capture point and
  responder. The time that the responder waited for its AAA server is a part of its own.
- From the response to the next request is the initiator's interval; it contains the path between capture point and
  initiator.

On the initiator's side, the initiator's intervals are exact and those of the responder contain the path; on the
responder's side it is the reverse. The round-trip time of the path is subtracted from the intervals that contain it:
the given one, or the shortest interval of that side between the two hosts, which is an upper estimate. If the capture
point is unknown, nothing is subtracted, and the network's part is null.
"""

from dataclasses import dataclass

import numpy as np

from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import INITIATOR, RESPONDER, UNKNOWN_VANTAGE, NetworkPath
from ikeanalyze.analysis.exchanges.exchanges import NEVER, UNKNOWN, ExchangeColumns
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array


@dataclass(slots=True)
class TimeBreakdown:
    """Parts of the set-up time in ns; UNKNOWN: part of the others, or no set-up time is known. (handshakes,) each"""

    setup_ns: Int64Array
    network_ns: Int64Array
    initiator_ns: Int64Array
    responder_ns: Int64Array
    aaa_ns: Int64Array
    wait_ns: Int64Array  # until the transmissions that were answered, of IKE and RADIUS
    path_rtt_ns: Int64Array  # round-trip time that `network_ns` was computed with
    end_ns: Int64Array  # last frame of the last response


@dataclass(frozen=True, slots=True)
class AaaTimes:
    """How long responders waited for their AAA servers, in ns. (exchanges,) each"""

    answering_ns: Int64Array  # from the transmissions of RADIUS requests that were answered to their responses
    wait_ns: Int64Array  # from the first transmissions to those


@dataclass(frozen=True, slots=True)
class _Intervals:
    """Consecutive intervals of the set-ups in ns, one row per exchange."""

    handshake: Int64Array
    request_ns: Int64Array  # time of the first transmission
    end_ns: Int64Array  # time of the last frame of the response
    last: BoolArray  # the last exchange of its handshake
    answered: BoolArray
    by_responder: BoolArray  # the responder sent the request
    next_by_responder: BoolArray  # the responder sends the request of the next exchange
    wait: Int64Array  # until the request, or the RADIUS request, was retransmitted
    turn: Int64Array  # from the request to the response, including `aaa`: the interval of the side that answers
    aaa: Int64Array  # the AAA server's part of `turn`
    aaa_before: Int64Array  # the AAA server's part before a lost response was repeated
    gap: Int64Array  # from the response to the next request: the interval of the side that sends it


def compute_time_breakdown(
    exchanges: ExchangeColumns,
    answers: AnsweredTransmissions,
    complete: BoolArray,
    pair: Int64Array,
    aaa_times: AaaTimes,
    path: NetworkPath,
) -> TimeBreakdown:
    """Divide the set-up time of each handshake into its parts.

    Args:
        exchanges: all exchanges, ordered by handshake and time.
        answers: the answers of these exchanges.
        complete: which handshakes are in the capture from the first request to the last response. (handshakes,)
        pair: number of the pair of hosts of each handshake, which share a path. (handshakes,)
        aaa_times: how long the responder waited for the AAA server in each exchange.
        path: the paths of the handshakes.
    """
    count = len(complete)
    intervals = _build_intervals(exchanges, answers, complete, aaa_times)
    handshake, last = intervals.handshake, intervals.last
    by_responder, next_by_responder = intervals.by_responder, intervals.next_by_responder
    turn = intervals.turn - intervals.aaa
    # seen from the initiator's side, the path is in the responder's intervals, and the reverse; also where the
    # responder sends requests (XAuth)
    vantage = path.vantage[handshake]
    in_turn = np.where(vantage == INITIATOR, ~by_responder, by_responder)
    between = np.where(vantage == INITIATOR, next_by_responder, ~last & ~next_by_responder)
    holds_path = intervals.answered & (in_turn | between) & (vantage != UNKNOWN_VANTAGE)
    rtt = _estimate_path_rtt(
        pair[handshake], vantage, np.where(in_turn, intervals.turn, intervals.gap), holds_path, path.rtt_ns
    )
    known = rtt != UNKNOWN
    network = np.where(known, np.minimum(rtt, np.where(in_turn, turn, intervals.gap)), 0)
    turn = turn - np.where(in_turn, network, 0)
    gap = intervals.gap - np.where(in_turn, 0, network)

    def total(values: Int64Array) -> Int64Array:
        summed = np.zeros(count, np.int64)
        np.add.at(summed, handshake, values)
        return np.where(complete, summed, UNKNOWN)

    first = np.ones(len(last), np.bool_)
    first[1:] = last[:-1]
    first_ns, end_ns, path_rtt = (np.full(count, UNKNOWN) for _ in range(3))
    first_ns[handshake[first]] = intervals.request_ns[first]
    end_ns[handshake[last]] = intervals.end_ns[last]
    path_rtt[handshake[known]] = rtt[known]
    return TimeBreakdown(
        setup_ns=np.where(complete, end_ns - first_ns, UNKNOWN),
        network_ns=np.where(path_rtt != UNKNOWN, total(network), UNKNOWN),
        initiator_ns=total(np.where(by_responder, turn, 0) + np.where(next_by_responder, 0, gap)),
        responder_ns=total(np.where(by_responder, 0, turn) + np.where(next_by_responder, gap, 0)),
        aaa_ns=total(intervals.aaa + intervals.aaa_before),
        wait_ns=total(intervals.wait),
        path_rtt_ns=path_rtt,
        end_ns=end_ns,
    )


def _build_intervals(
    exchanges: ExchangeColumns, answers: AnsweredTransmissions, complete: BoolArray, aaa_times: AaaTimes
) -> _Intervals:
    rows = np.flatnonzero(exchanges.set_up & complete[exchanges.handshake] & (exchanges.request_messages > 0))
    handshake = exchanges.handshake[rows]
    request = exchanges.request_ns[rows]
    # The third message of IKEv1's aggressive and quick mode has no response: the exchange ends with its first
    # transmission. So does a request whose response is earlier, in a capture with inconsistent clocks.
    answered = answers.answered_ns[rows] != UNKNOWN
    asked = np.where(answered, answers.answered_ns[rows], request)
    # the transmission time of a fragmented response counts for its sender
    end = np.where(answered, answers.end_ns[rows], request)
    last = np.ones(len(rows), np.bool_)
    last[:-1] = handshake[1:] != handshake[:-1]
    following = np.where(last, end, np.append(request[1:], 0))
    # a response that was captured late cannot be later than the request that followed it
    answer = np.minimum(end, following)
    asked = np.minimum(asked, answer)
    wait, turn = asked - request, answer - asked

    by_responder = ~exchanges.initiator_asked[rows]
    answering = np.where(by_responder, 0, aaa_times.answering_ns[rows])
    # if the response was lost and the request was repeated, the AAA server had answered before
    lost = answered & (exchanges.response_ns[rows] < asked)
    aaa_before = np.where(lost, np.minimum(answering, wait), 0)
    aaa = np.where(lost, 0, np.minimum(answering, turn))
    aaa_wait = np.minimum(np.where(by_responder | lost, 0, aaa_times.wait_ns[rows]), turn - aaa)
    return _Intervals(
        handshake=handshake,
        request_ns=request,
        end_ns=end,
        last=last,
        answered=answered,
        by_responder=by_responder,
        next_by_responder=np.append(by_responder[1:], False) & ~last,
        wait=wait + aaa_wait - aaa_before,
        turn=turn - aaa_wait,
        aaa=aaa,
        aaa_before=aaa_before,
        gap=following - answer,
    )


def _estimate_path_rtt(
    pair: Int64Array, vantage: UInt8Array, interval: Int64Array, holds_path: BoolArray, rtt_ns: int | None
) -> Int64Array:
    """The round-trip time to subtract in each exchange, in ns; UNKNOWN where the interval does not contain the path."""
    if rtt_ns is not None:
        return np.where(holds_path, rtt_ns, UNKNOWN)
    if not holds_path.any():
        return np.full(len(pair), UNKNOWN)
    shortest = np.full(int(pair.max()) * 2 + 2, NEVER)
    side = pair * 2 + (vantage == RESPONDER)
    np.minimum.at(shortest, side[holds_path], interval[holds_path])
    return np.where(holds_path, shortest[side], UNKNOWN)
