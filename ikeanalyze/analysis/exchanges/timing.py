"""Divide the set-up time of a handshake among network, initiator, responder, AAA server and retransmission timers.

The set-up time consists of intervals that follow one another without gap or overlap, from the first request to the last
frame of the last response; their sum is the set-up time exactly:

- From the first transmission of a request to the one that was answered, a retransmission timer was running; also from
  the first transmission of a RADIUS request to the one that was answered. The responder of IKEv1 has a timer too: from
  the first transmission of its response to the one after which the initiator continued, or of the initiator's message
  that has no response to the one after which the responder continued.
- From the request to its response is the responder's interval; it contains the path between capture point and
  responder. The time that the responder waited for its AAA server is a part of its own, unless the capture lacks some
  of the RADIUS messages: then that time is unknown, and a part of the responder's.
- From the response to the next request is the initiator's interval; it contains the path between capture point and
  initiator.

On the initiator's side, the initiator's intervals are exact and those of the responder contain the path; on the
responder's side it is the reverse. The round-trip time of the path is subtracted from the intervals that contain it:
the known one, or the shortest interval of that side between the two hosts, which is an upper estimate. If the capture
point is unknown, nothing is subtracted: the parts of network and initiator are null, and the sum of the initiator's
intervals is the part of both. The responder's part then contains the path between capture point and responder.

An interval after a repeated request is shorter than a round trip if another transmission of the request was answered
than assumed. So it is not used to estimate the round-trip time if the interval from the first transmission fits the
other exchanges; and of uncertain exchanges (see `answers`) the interval from the first response is used.

A link of limited rate takes time to transmit frames (see `transmission_times`), which is the network's too. Where the
path is in the responder's interval, this contains the transmission of the request and of the response. Otherwise the
responder's interval contains that of the request after its first frame, and the initiator's that of the response and of
the first frame of the next request.

The initiator sends the first request before it passes the capture point, and receives the last response after that. So
its own set-up time is longer by the round-trip time between it and the capture point, and by the transmission of the
first frame of this request and of this response. That time is 0 on its side, and otherwise null unless the round-trip
time is known other than from the intervals. A set-up of IKEv1 that ends with the initiator's message takes as long for
the initiator as at the capture point.
"""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.answers import AnsweredTransmissions
from ikeanalyze.analysis.exchanges.capture_point import (
    INITIATOR,
    RESPONDER,
    UNKNOWN_VANTAGE,
    NetworkPath,
    number_shared_host_pairs,
)
from ikeanalyze.analysis.exchanges.exchanges import NEVER, UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.grouping import number_pairs
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, Rows, SharedFact
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt64Array

if TYPE_CHECKING:
    from ikeanalyze.analysis.exchanges.transmission_times import TransmissionTimes

#: In round trips: an interval below the first bound is too short for one; about one is between the others.
_TOO_SHORT: Final = 0.75
_ABOUT_ONE: Final = (0.9, 1.25)


class TimeBreakdown(Struct):
    """Parts of the set-up time in ns; UNKNOWN: part of the others, or no set-up time is known. (handshakes,) each"""

    setup_ns: Int64Array
    initiator_setup_ns: Int64Array  # the set-up time as the initiator sees it
    network_ns: Int64Array
    initiator_ns: Int64Array
    initiator_and_network_ns: Int64Array  # both together, if the capture point is unknown
    responder_ns: Int64Array
    aaa_ns: Int64Array  # UNKNOWN also if the capture lacks RADIUS messages
    wait_ns: Int64Array  # until the transmissions that were answered, of IKE and RADIUS
    path_rtt_ns: Int64Array  # round-trip time that `network_ns` was computed with
    end_ns: Int64Array  # last frame of the last response


class AaaTimes(Struct, frozen=True):
    """How long responders waited for their AAA servers, in ns. (exchanges,) each"""

    answering_ns: Int64Array  # from the transmissions of RADIUS requests that were answered to their responses
    wait_ns: Int64Array  # from the first transmissions to those
    incomplete: AbstractSet[int] = frozenset()  # handshakes whose waits are unknown: the capture lacks RADIUS messages


class _Intervals(Struct, frozen=True):
    """Consecutive intervals of the set-ups in ns, one row per exchange."""

    exchange: Int64Array  # row of the exchange
    handshake: Int32Array
    request_ns: Int64Array  # time of the first transmission
    end_ns: Int64Array  # time of the last frame of the response
    last: BoolArray  # the last exchange of its handshake
    answered: BoolArray
    by_responder: BoolArray  # the responder sent the request
    next_by_responder: BoolArray  # the responder sends the request of the next exchange
    wait: Int64Array  # until the request, the RADIUS request or the response (IKEv1) was retransmitted
    turn: Int64Array  # from the request to the response, including `aaa`: the interval of the side that answers
    aaa: Int64Array  # the AAA server's part of `turn`
    aaa_before: Int64Array  # the AAA server's part before a lost response was repeated
    gap: Int64Array  # from the response to the next request: the interval of the side that sends it
    longest_gap: Int64Array  # the same, from the first response if it is uncertain which one ended the exchange
    doubtful: BoolArray  # the request was repeated, and not every transmission has a response


def compute_time_breakdown(
    exchanges: ExchangeColumns,
    answers: AnsweredTransmissions,
    complete: BoolArray,
    hosts: tuple[UInt64Array, UInt64Array],
    aaa_times: AaaTimes,
    path: NetworkPath,
    facts: CaptureFacts = WHOLE_CAPTURE,
    transmissions: "TransmissionTimes | None" = None,
) -> TimeBreakdown:
    """Divide the set-up time of each handshake into its parts.

    Args:
        exchanges: all exchanges, ordered by handshake and time.
        answers: the answers of these exchanges.
        complete: which handshakes are in the capture from the first request to the last response. (handshakes,)
        hosts: address codes of the initiator and the responder of each handshake. (handshakes,) each
        aaa_times: how long the responder waited for the AAA server in each exchange.
        path: the paths of the handshakes.
        facts: the facts of the whole capture.
        transmissions: how long the link took to transmit the messages of each exchange; None: the rate is unlimited.
    """
    count = len(complete)
    has_aaa = aaa_times.answering_ns.any() or aaa_times.wait_ns.any() or aaa_times.incomplete
    if core.compiled is not None and not (has_aaa or facts.partial or transmissions is not None):
        return TimeBreakdown(**core.compiled.divide_set_up_times(exchanges, answers, complete, *hosts, path))
    intervals = _build_intervals(exchanges, answers, complete, aaa_times)
    handshake, last = intervals.handshake, intervals.last
    by_responder, next_by_responder = intervals.by_responder, intervals.next_by_responder
    turn = intervals.turn - intervals.aaa
    rtt, in_turn = _find_round_trips(intervals, hosts, path, facts)
    known = rtt != UNKNOWN
    in_turn_ns, in_gap_ns = np.where(known & in_turn, rtt, 0), np.where(known & ~in_turn, rtt, 0)
    path_in_turn, path_in_gap = known & in_turn, known & ~in_turn
    if transmissions is not None:
        turn_ns, gap_ns = _find_transmissions(intervals, transmissions, in_turn)
        in_turn_ns, in_gap_ns = in_turn_ns + turn_ns, in_gap_ns + gap_ns
        path_in_turn, path_in_gap = path_in_turn | (turn_ns > 0), path_in_gap | (gap_ns > 0)
    in_turn_ns = np.where(path_in_turn, np.minimum(in_turn_ns, turn), 0)
    in_gap_ns = np.where(path_in_gap, np.minimum(in_gap_ns, intervals.gap), 0)
    network = in_turn_ns + in_gap_ns
    turn = turn - in_turn_ns
    gap = intervals.gap - in_gap_ns

    def total(values: Int64Array) -> Int64Array:
        summed = np.zeros(count, np.int64)
        np.add.at(summed, handshake, values)
        return np.where(complete, summed, UNKNOWN)

    first = np.ones(len(last), np.bool_)
    first[1:] = last[:-1]
    first_ns, end_ns, path_rtt, after_ns = (np.full(count, UNKNOWN) for _ in range(4))
    first_ns[handshake[first]] = intervals.request_ns[first]
    end_ns[handshake[last]] = intervals.end_ns[last]
    path_rtt[handshake[known]] = rtt[known]
    setup = np.where(complete, end_ns - first_ns, UNKNOWN)
    # the responder's message that ends the set-up arrives later
    initiator_rtt = path.initiator_rtt_ns[handshake[last]]
    by_initiator = intervals.by_responder[last] == intervals.answered[last]
    after_ns[handshake[last]] = np.where(by_initiator & (initiator_rtt != UNKNOWN), 0, initiator_rtt)
    if transmissions is not None:
        begin_and_end = transmissions.request_begin_ns[intervals.exchange[first]]
        begin_and_end = begin_and_end + transmissions.response_ns[intervals.exchange[last]]
        after_ns[handshake[last]] += np.where(by_initiator | (initiator_rtt == UNKNOWN), 0, begin_and_end)
    after_ns[path.vantage == INITIATOR] = 0
    initiator = total(np.where(by_responder, turn, 0) + np.where(next_by_responder, 0, gap))
    unseparated = path.vantage == UNKNOWN_VANTAGE
    has_unknown_aaa = np.zeros(count, np.bool_)
    has_unknown_aaa[list(aaa_times.incomplete)] = True
    return TimeBreakdown(
        setup_ns=setup,
        initiator_setup_ns=np.where(complete & (after_ns != UNKNOWN), setup + after_ns, UNKNOWN),
        network_ns=np.where(path_rtt != UNKNOWN, total(network), UNKNOWN),
        initiator_ns=np.where(unseparated, UNKNOWN, initiator),
        initiator_and_network_ns=np.where(unseparated, initiator, UNKNOWN),
        responder_ns=total(np.where(by_responder, 0, turn) + np.where(next_by_responder, gap, 0)),
        aaa_ns=np.where(has_unknown_aaa, UNKNOWN, total(intervals.aaa + intervals.aaa_before)),
        wait_ns=total(intervals.wait),
        path_rtt_ns=path_rtt,
        end_ns=end_ns,
    )


def _find_round_trips(
    intervals: _Intervals, hosts: tuple[UInt64Array, UInt64Array], path: NetworkPath, facts: CaptureFacts
) -> tuple[Int64Array, BoolArray]:
    """Return the round-trip time of the path in each exchange, and whether the path is in the turn; see `_Intervals`.

    The other place is the gap. The round-trip time is UNKNOWN where the path is in neither. (exchanges,) each
    """
    # seen from the initiator's side, the path is in the responder's intervals, and the reverse; also where the
    # responder sends requests (XAuth)
    vantage = path.vantage[intervals.handshake]
    in_turn = np.where(vantage == INITIATOR, ~intervals.by_responder, intervals.by_responder)
    between = np.where(
        vantage == INITIATOR, intervals.next_by_responder, ~intervals.last & ~intervals.next_by_responder
    )
    holds_path = intervals.answered & (in_turn | between) & (vantage != UNKNOWN_VANTAGE)
    rtt = path.rtt_ns[intervals.handshake]
    unknown = bool((rtt[holds_path] == UNKNOWN).any())
    if unknown or facts.partial:
        paths = _PathIntervals(
            handshake=intervals.handshake,
            by_responder=vantage == RESPONDER,
            interval=np.where(in_turn, intervals.turn, intervals.longest_gap),
            wait=intervals.wait,
            certain=holds_path & ~(in_turn & intervals.doubtful),
            possible=holds_path,
        )
        rtt = np.where(rtt == UNKNOWN, _measure_paths(paths, hosts, facts, needed=unknown), rtt)
    return np.where(holds_path, rtt, UNKNOWN), in_turn


def _find_transmissions(
    intervals: _Intervals, transmissions: "TransmissionTimes", in_turn: BoolArray
) -> tuple[Int64Array, Int64Array]:
    """The times to transmit messages in `turn` and in `gap`; `in_turn`: the path is in the turn. (exchanges,) each"""
    request, begin, response = (
        values[intervals.exchange]
        for values in (transmissions.request_ns, transmissions.request_begin_ns, transmissions.response_ns)
    )
    # the first frame of a repeated request is as long as that of its first transmission
    turn = np.where(in_turn, request + response, np.maximum(request - begin, 0))
    next_begin = np.append(begin[1:], 0)
    between = ~in_turn & ~intervals.last & (intervals.next_by_responder == intervals.by_responder)
    gap = np.where(between, response + next_begin, 0)
    return np.where(intervals.answered, turn, 0), np.where(intervals.answered, gap, 0)


def _build_intervals(
    exchanges: ExchangeColumns, answers: AnsweredTransmissions, complete: BoolArray, aaa_times: AaaTimes
) -> _Intervals:
    rows = np.flatnonzero(exchanges.set_up & complete[exchanges.handshake] & (exchanges.request_messages > 0))
    handshake = exchanges.handshake[rows]
    request = exchanges.request_ns[rows]
    # The third message of IKEv1's aggressive and quick mode has no response: the exchange ends with its first
    # transmission. So does a request whose response is earlier, in a capture with inconsistent clocks.
    answered = answers.answered_ns[rows] != UNKNOWN
    by_responder = ~exchanges.initiator_asked[rows]
    last = np.ones(len(rows), np.bool_)
    last[:-1] = handshake[1:] != handshake[:-1]
    next_by_responder = np.append(by_responder[1:], False) & ~last
    next_ns = np.where(last, NEVER, np.append(request[1:], 0))
    # the responder continues after a transmission of the message without response, which it had asked for again
    repeated = ~answered & ~by_responder & next_by_responder & (answers.wait_ns[rows] > 0)
    sent = np.where(repeated, request + answers.wait_ns[rows], request)
    asked = np.where(answered, answers.answered_ns[rows], np.where(sent < next_ns, sent, request))
    del repeated, sent  # a flood has millions of intervals
    # the transmission time of a fragmented response counts for its sender
    end = np.where(answered, answers.end_ns[rows], asked)
    following = np.where(last, end, next_ns)
    del next_ns
    # a response that was captured late cannot be later than the request that followed it
    answer = np.minimum(end, following)
    asked = np.minimum(asked, answer)
    wait, turn = asked - request, answer - asked
    response_wait = np.minimum(answers.response_wait_ns[rows], turn)
    turn -= response_wait
    wait += response_wait
    del response_wait
    aaa = aaa_before = np.broadcast_to(np.int64(0), len(rows))  # takes no memory
    if aaa_times.answering_ns.any() or aaa_times.wait_ns.any():
        answering = np.where(by_responder, 0, aaa_times.answering_ns[rows])
        # if the response was lost and the request was repeated, the AAA server had answered before
        lost = answered & (exchanges.response_ns[rows] < asked)
        aaa_before = np.where(lost, np.minimum(answering, asked - request), 0)
        aaa = np.where(lost, 0, np.minimum(answering, turn))
        aaa_wait = np.minimum(np.where(by_responder | lost, 0, aaa_times.wait_ns[rows]), turn - aaa)
        wait += aaa_wait - aaa_before
        turn -= aaa_wait
    del asked
    gap = following - answer
    longest_gap = gap
    uncertain = answers.uncertain[rows]
    if uncertain.any():
        longest_gap = following - np.where(uncertain, np.minimum(exchanges.response_ns[rows], answer), answer)
    del following, answer
    return _Intervals(
        exchange=rows,
        handshake=handshake,
        request_ns=request,
        end_ns=end,
        last=last,
        answered=answered,
        by_responder=by_responder,
        next_by_responder=next_by_responder,
        wait=wait,
        turn=turn,
        aaa=aaa,
        aaa_before=aaa_before,
        gap=gap,
        longest_gap=longest_gap,
        doubtful=(exchanges.request_messages[rows] > 1)
        & (exchanges.request_messages[rows] != exchanges.response_messages[rows]),
    )


class _PathIntervals(Struct, frozen=True):
    """Intervals that may contain a round trip. (intervals,) each"""

    handshake: Int32Array
    by_responder: BoolArray  # captured on the responder's side
    interval: Int64Array  # ns
    wait: Int64Array  # from the first transmission of the request to the beginning of the interval
    certain: BoolArray  # the interval contains a round trip
    possible: BoolArray  # the interval contains one if the transmission was answered that is assumed


def _measure_paths(
    paths: _PathIntervals, hosts: tuple[UInt64Array, UInt64Array], facts: CaptureFacts, *, needed: bool
) -> Int64Array:
    """The shortest round trip between the hosts of each interval, seen from the same side; or UNKNOWN. (intervals,)

    `hosts` are the address codes of the initiator and the responder of each handshake. (handshakes,) each
    """
    count = len(paths.interval)
    names = ("by_responder", "interval", "wait", "certain")

    def rows() -> Rows:
        possible = np.flatnonzero(paths.possible)
        initiator, responder = (ends[paths.handshake[possible]] for ends in hosts)
        return {"initiator": initiator, "responder": responder, **{n: getattr(paths, n)[possible] for n in names}}

    ends = np.stack(hosts)
    shared = facts.share(
        SharedFact.PATH_INTERVALS, rows, needed=needed, hosts=lambda: ends[:, paths.handshake[paths.possible]]
    )
    if not needed:
        return np.full(count, UNKNOWN)
    by_responder, interval, wait, certain = (getattr(paths, name) for name in names)
    possible = paths.possible
    if shared is None:
        pair = number_pairs(*hosts)[paths.handshake]
    else:
        of_handshake, of_shared = number_shared_host_pairs(hosts, shared)
        pair = np.concatenate([of_handshake[paths.handshake], of_shared])
        by_responder, interval, wait = (np.concatenate([getattr(paths, name), shared[name]]) for name in names[:3])
        # the intervals of this part are among the shared ones
        none = np.zeros(count, np.bool_)
        certain = np.concatenate([none, shared["certain"]])
        possible = np.concatenate([none, np.ones(len(of_shared), np.bool_)])
    side = pair * 2 + by_responder
    measurable = certain | (possible & _may_measure(side, interval, wait, certain))
    return _find_shortest(side, interval, measurable)[:count]


def _find_shortest(side: Int64Array, interval: Int64Array, measurable: BoolArray) -> Int64Array:
    """The shortest of the measurable intervals with the same number in `side`; UNKNOWN without one. (exchanges,)"""
    shortest = np.full(int(side.max()) + 1, NEVER)
    np.minimum.at(shortest, side[measurable], interval[measurable])
    return np.where(shortest[side] == NEVER, UNKNOWN, shortest[side])


def _may_measure(side: Int64Array, interval: Int64Array, wait: Int64Array, certain: BoolArray) -> BoolArray:
    """Which intervals may measure the path although the request was repeated. (exchanges,)

    If the interval from the first transmission is about as long as the shortest certain one, that transmission was
    answered, and a shorter interval is not a round trip.
    """
    shortest = _find_shortest(side, interval, certain)
    since_first = interval + wait
    low, high = _ABOUT_ONE
    first_answered = (since_first >= low * shortest) & (since_first <= high * shortest)
    first_answered &= interval < _TOO_SHORT * shortest
    return np.asarray((shortest == UNKNOWN) | ~first_answered)
