"""Find the response that ended each exchange, and the transmission of the request that it answers.

A request may be sent several times, and each transmission may have a response. The capture shows the transmissions;
their order, the round-trip time of the path and RADIUS decide which of them count.

Order. An initiator repeats its request until it receives the response. So the response that ended the exchange is the
first one after the last transmission of the request, if it precedes the next request of the same side; otherwise it is
the latest response. It answers the latest transmission before it. If there are as many responses as requests, they
answer one another in order, late ones too.

Path. On the responder's side, and on the way to it, the order decides only if the round trip is shorter than the
retransmission timer. Otherwise transmissions keep coming for a round trip after the response that the initiator
accepted, each with a response that the initiator ignores. Then:

- A message sent less than a round trip before the next request cannot have caused it. So a response later than that did
  not end the exchange; the response one round trip before the next request did.
- The last exchange of the set-up, and one after which the responder sends a request (XAuth), have no such next request,
  and those after the set-up may have none. An initiator that has the response does not repeat the request: the first
  response that no transmission follows by more than a round trip ended the exchange.

On the initiator's side, a response that comes less than a round trip after a transmission answers an earlier one.

The round-trip time is the given one, if the side of the capture is known. Otherwise it is estimated, except on the
initiator's side, from exchanges of the same two hosts with a single response: the time from the end of the response to
the next request is a round trip plus the initiator's processing. The shortest time is used, if two exchanges with
repeated requests agree on it. If the timer is shorter than the round trip, every request is repeated; where a request
was not repeated, a late next request may follow a lost one. If the round-trip time is unknown or contradicts the
transmissions, the order decides alone. A known retransmission timer that is longer than the round trip excludes the
rest of this section.

Uncertain. If the round-trip time is unknown, repeated requests with a response to each repeat have two explanations:
responses were lost, or the round trip takes longer than the timer. The exchange is uncertain if the second one is
possible between its two hosts: most of their exchanges were repeated in this way, and none without repetition was
followed by the next request so soon that the round trip must be shorter than the timer. On the initiator's side this
does not occur: the first response that arrives ends the exchange.

RADIUS. A responder that sends a request to its AAA server has received the IKE request before. It does not answer
retransmissions while it waits. After it has answered it does: the response was lost and is repeated without another
RADIUS request.

IKEv1. The responder has a retransmission timer of its own: it repeats its last message until the next one arrives. If
it did so before the initiator continued, its last transmission ended the exchange.

A response of which the capture never has all fragments ends no measurement: the time to it is unknown. Nor does one
without encryption, which the other side has to ignore (see `unprotected`); an encrypted one counts instead. After a
refusal of IKE_SA_INIT, which anyone can send, an initiator waits a while (RFC 7296, section 2.21.1): a response that
accepts the same request counts instead.

RADIUS packets are assigned to exchanges by the times at which these ended. So `find_exchange_endings` first finds the
response that ended each exchange; then RADIUS is assigned; then `match_responses` finds the transmission that was
answered. Each value is decided once.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.exchanges.capture_point import (
    HOSTS,
    INITIATOR,
    NetworkPath,
    number_shared_host_pairs,
)
from ikeanalyze.analysis.exchanges.exchanges import NEVER, UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.grouping import argsort_stable, find_group_starts, number_pairs
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, Rows, SharedFact
from ikeanalyze.analysis.messages.messages import MessageColumns
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array
from ikeanalyze.capture.buffers import is_repeated
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES, PayloadType

#: strongSwan's default retransmit_timeout, the longest first timer among common stacks.
SLOWEST_FIRST_TIMER_NS: Final = 4_000_000_000
#: A shorter time, in round trips, contains no round trip, even with jitter.
_TOO_SHORT: Final = 0.75
#: Bounds of a round trip, in round trips: clocks, jitter and the initiator's processing change it.
_MIN_ROUND_TRIP: Final = 0.9
_MAX_ROUND_TRIP: Final = 1.25

#: Why times are uncertain, for people.
UNCERTAIN: Final = "requests were repeated and the repeats answered: the round trip may exceed the retransmission timer"


class ExchangeEndings(Struct, frozen=True):
    """The response that ended each exchange of `ExchangeColumns`; UNKNOWN without one. (exchanges,) each"""

    answer_ns: Int64Array  # first frame of that response
    end_ns: Int64Array  # its last frame
    answered_ns: Int64Array  # first frame of the transmission of the request that it answers
    last_request_ns: Int64Array  # last transmission of the request before the next exchange
    repeated_ns: Int64Array  # from the last response to the last transmission of the request; 0: none after it
    response_wait_ns: Int64Array  # until the responder repeated the response by its own timer (IKEv1), else 0
    uncertain: BoolArray  # the path may contradict the order, but its round-trip time is unknown


class AnsweredTransmissions(Struct, frozen=True):
    """How each exchange was answered, in the order of `ExchangeColumns`; UNKNOWN if it was not. (exchanges,) each"""

    answered_ns: Int64Array  # first frame of the transmission of the request that was answered
    end_ns: Int64Array  # last frame of the response that ended the exchange
    rtt_ns: Int64Array  # from the transmission that was answered to the first frame of that response
    wait_ns: Int64Array  # from the first transmission to that one; without a response, to the last one
    repeated_ns: Int64Array  # from the last response to the last transmission of the request; 0: none after it
    response_wait_ns: Int64Array  # until the responder repeated the response by its own timer (IKEv1), else 0
    uncertain: BoolArray  # see above


def find_exchange_endings(
    state: AnalysisState, path: NetworkPath, facts: CaptureFacts = WHOLE_CAPTURE
) -> ExchangeEndings:
    """Find the response that ended each exchange, by the order of the transmissions and by the path."""
    exchanges = state.exchanges
    endings = end_in_order(state)
    ambiguous = exchanges.initiator_asked & (endings.end_ns != UNKNOWN)
    ambiguous &= (exchanges.request_messages > 1) & (exchanges.response_messages > 1)
    rows = np.flatnonzero(ambiguous)
    rows = rows[path.vantage[exchanges.handshake[rows]] != INITIATOR]
    return _end_by_path(state, path, endings, rows, facts) if len(rows) or facts.partial else endings


def match_responses(
    state: AnalysisState, path: NetworkPath, endings: ExchangeEndings, aaa_request_ns: Int64Array
) -> AnsweredTransmissions:
    """Find the transmission of each request that was answered, and compute the times that depend on it.

    `aaa_request_ns` is the time of the first RADIUS request in each exchange, or UNKNOWN. (exchanges,)
    """
    exchanges = state.exchanges
    answered, answer = endings.answered_ns, endings.answer_ns
    rtt = path.rtt_ns[exchanges.handshake]
    # on the initiator's side no response comes sooner than a round trip
    early = exchanges.initiator_asked & (answered != UNKNOWN) & (answered > exchanges.request_ns)
    early &= (path.vantage[exchanges.handshake] == INITIATOR) & (rtt != UNKNOWN)
    if early.any():
        early &= answer - answered < _TOO_SHORT * rtt
        earlier = _find_latest_requests(state, answer, early, _MIN_ROUND_TRIP * rtt)
        answered = np.where(earlier != UNKNOWN, earlier, answered)
    # the responder had received the request before it sent one to its AAA server
    with_aaa = (aaa_request_ns != UNKNOWN) & (answered != UNKNOWN) & (exchanges.response_ns >= answered)
    received = _find_latest_requests(state, aaa_request_ns, with_aaa)
    answered = np.where(received != UNKNOWN, np.minimum(received, answered), answered)

    known = answered != UNKNOWN
    waited_until = np.where(known, answered, np.where(answer != UNKNOWN, UNKNOWN, endings.last_request_ns))
    waited = (exchanges.request_ns != UNKNOWN) & (waited_until != UNKNOWN)
    return AnsweredTransmissions(
        answered_ns=answered,
        end_ns=endings.end_ns,
        rtt_ns=np.where(known & ~_find_unmeasurable_responses(state), answer - answered, UNKNOWN),
        wait_ns=np.where(waited, waited_until - exchanges.request_ns, UNKNOWN),
        repeated_ns=endings.repeated_ns,
        response_wait_ns=endings.response_wait_ns,
        uncertain=endings.uncertain,
    )


def _find_incomplete_responses(state: AnalysisState) -> BoolArray:
    """Which exchanges have a response whose transmissions together lack IKE fragments. (exchanges,)"""
    incomplete = np.zeros(len(state.exchanges), np.bool_)
    rows = state.lacking_fragments
    incomplete[state.exchange_of_message[rows[state.messages.response[rows]]]] = True
    return incomplete


def _find_unmeasurable_responses(state: AnalysisState) -> BoolArray:
    """Which exchanges have no response that became complete, or none that is encrypted. (exchanges,)

    A response may lack IKE fragments, IP fragments or TCP segments. IP does not combine fragments of several
    transmissions. An IKE fragment that lacks IP fragments is one that the response lacks.
    """
    unmeasurable = _find_incomplete_responses(state) | state.unprotected
    if state.incomplete.any():
        lacking = np.zeros(len(state.messages), np.bool_)
        datagrams = state.datagrams
        missing_fragments = state.undelivered & (datagrams.fragment > 0)
        lacking[state.message_of_datagram[state.incomplete & ~missing_fragments]] = True
        rows = state.messages.response & ~lacking
        complete = np.bincount(state.exchange_of_message[rows], minlength=len(unmeasurable)) > 0
        unmeasurable |= ~complete
    return unmeasurable


def _find_responses_without_ip_fragments(state: AnalysisState) -> BoolArray:
    """Which exchanges have a response whose transmissions all lack IP fragments on the path. (exchanges,)

    A capture filter on UDP ports drops all IP fragments but the first. So the capture must have another one of the
    response.
    """
    lacking = state.incomplete & (state.datagrams.ip_fragments > 0) & (state.datagrams.fragment == 0)
    result = np.zeros(len(state.exchanges), np.bool_)
    if lacking.any():
        messages = np.zeros(len(state.messages), np.bool_)
        messages[state.message_of_datagram[lacking & (state.datagrams.ip_fragments > 1)]] = True
        result[state.exchange_of_message[messages & state.messages.response]] = True
        messages[state.message_of_datagram[lacking]] = True
        result[state.exchange_of_message[~messages & state.messages.response]] = False
    return result


def find_unreceived_responses(state: AnalysisState, answers: AnsweredTransmissions, last: BoolArray) -> BoolArray:
    """Which exchanges have no response that the initiator can have received (`outcome`, rule 3). (exchanges,)

    `last` are the exchanges to check, each the last one of its initiator.
    """
    exchanges = state.exchanges
    repeated = last & ((answers.repeated_ns > 0) | (exchanges.response_messages > 1))
    if not repeated.any():
        return repeated
    incomplete = _find_incomplete_responses(state) | _find_responses_without_ip_fragments(state)
    return repeated & (incomplete | (answers.repeated_ns > SLOWEST_FIRST_TIMER_NS))


def _find_latest_requests(
    state: AnalysisState, until_ns: Int64Array, mask: BoolArray, before_ns: npt.NDArray[Any] | None = None
) -> Int64Array:
    """The latest transmission of each exchange's request at least `before_ns` before a time, or UNKNOWN. (exchanges,)

    `until_ns` is the time for each exchange, `before_ns` 0 if it is None; `mask` chooses exchanges, the others have
    UNKNOWN.
    """
    latest = np.full(len(mask), UNKNOWN)
    if mask.any():
        messages, exchange = state.messages, state.exchange_of_message
        rows = np.flatnonzero(mask[exchange] & ~messages.response)
        exchange, sent = exchange[rows], messages.first_ns[rows]
        early_enough = until_ns[exchange] - sent >= (0 if before_ns is None else before_ns[exchange])
        np.maximum.at(latest, exchange[early_enough], sent[early_enough])
    return latest


def _find_revoked_refusals(state: AnalysisState, ignored: Int64Array) -> Int64Array:
    """The rows of responses that refuse an IKE_SA_INIT request which another response accepts (RFC 7296, 2.21.1).

    The initiator must have waited for that: its next request is later. The rows `ignored` are of messages that do not
    count.
    """
    exchanges, messages, exchange = state.exchanges, state.messages, state.exchange_of_message
    several = (exchanges.response_messages > 1) & (exchanges.protocol == Protocol.IKEV2)
    several &= np.isin(exchanges.exchange_type, INIT_EXCHANGES)
    if not several.any():
        return np.zeros(0, np.int64)
    counts = several[exchange] & messages.response
    counts[ignored] = False
    rows = np.flatnonzero(counts)
    # those that accept begin with SA, or with a nonce (IKE_SESSION_RESUME)
    refuses = messages.next_payload[rows] == int(PayloadType.NOTIFY)
    accepts = rows[~refuses]
    accepts = accepts[messages.first_ns[accepts] < _find_next_request_times(exchanges)[exchange[accepts]]]
    accepted = np.zeros(len(exchanges), np.bool_)
    accepted[exchange[accepts]] = True
    refused: Int64Array = rows[refuses & accepted[exchange[rows]]]
    return refused


def end_in_order(state: AnalysisState) -> ExchangeEndings:
    """Find the ending of each exchange by the order of its transmissions."""
    exchanges, messages = state.exchanges, state.messages
    count, exchange = len(exchanges), state.exchange_of_message
    if not count:
        nothing = np.zeros(0, np.int64)
        return ExchangeEndings(nothing, nothing, nothing, nothing, nothing, nothing, nothing.astype(np.bool_))
    ignored = state.in_clear[messages.response[state.in_clear]]
    ignored = ignored[~state.unprotected[exchange[ignored]]]
    ignored = np.concatenate([ignored, _find_revoked_refusals(state, ignored)])
    if len(ignored):  # another response counts instead
        rows = np.delete(np.arange(len(messages)), ignored)
        messages, exchange = messages.select(rows), exchange[rows]
    if core.compiled is not None:
        columns = core.compiled.end_in_order(messages, exchange, exchanges)
        if not columns["response_wait_ns"].any():  # only IKEv1 has some
            columns["response_wait_ns"] = np.broadcast_to(np.int64(0), count)  # takes no memory
        return ExchangeEndings(**columns, uncertain=np.zeros(count, np.bool_))
    if (exchange[1:] < exchange[:-1]).any():  # they usually are in order
        order = argsort_stable(exchange)
        messages, exchange = messages.select(order), exchange[order]
    start = np.flatnonzero(find_group_starts(exchange))
    when, response = messages.first_ns, messages.response
    current = when < _find_next_request_times(exchanges)[exchange]
    is_request, is_response = ~response & current, response & current

    last_request = np.maximum.reduceat(np.where(is_request, when, UNKNOWN), start)
    first_after = np.minimum.reduceat(np.where(is_response & (when > last_request[exchange]), when, NEVER), start)
    latest = np.maximum.reduceat(np.where(is_response, when, UNKNOWN), start)
    latest_end = np.maximum.reduceat(np.where(is_response, messages.last_ns, UNKNOWN), start)
    repeated = np.where((latest_end != UNKNOWN) & (last_request > latest_end), last_request - latest_end, 0)
    answer = np.where(first_after != NEVER, first_after, np.where(latest != UNKNOWN, latest, exchanges.response_ns))
    has_answer = answer != UNKNOWN
    rows = np.where(response & (when == answer[exchange]), np.arange(len(when)), len(when))
    answer_row = np.minimum.reduceat(rows, start)
    end = np.full(count, UNKNOWN)
    has_end = has_answer & (answer_row < len(when))
    end[has_end] = messages.last_ns[answer_row[has_end]]
    # the responder of IKEv1 repeats its response by itself
    by_itself = (exchanges.protocol == Protocol.IKEV1) & has_end & (answer > last_request) & (latest_end > end)
    by_itself &= _find_next_request_times(exchanges) != NEVER
    response_wait = np.where(by_itself, latest_end - end, 0)
    end = np.where(by_itself, latest_end, end)

    answered = np.maximum.reduceat(np.where(~response & (when <= answer[exchange]), when, UNKNOWN), start)
    # as many responses as requests: in order. A response after the initiator's next request answers a request too.
    requests = np.add.reduceat((~response).astype(np.int64), start)
    responses = np.add.reduceat(response.astype(np.int64), start)
    ordinal = np.add.reduceat((is_response & (when <= answer[exchange])).astype(np.int64), start)
    paired = np.flatnonzero((requests == responses) & (requests > 1) & (ordinal > 0) & has_answer)
    answered[paired] = when[start[paired] + ordinal[paired] - 1]
    known = has_answer & (answered != UNKNOWN) & (answered <= answer)
    return ExchangeEndings(
        answer_ns=answer,
        end_ns=end,
        answered_ns=np.where(known, answered, UNKNOWN),
        last_request_ns=last_request,
        repeated_ns=repeated,
        response_wait_ns=response_wait,
        uncertain=np.zeros(count, np.bool_),
    )


def _find_next_request_times(exchanges: ExchangeColumns) -> Int64Array:
    """When the same side of the same IKE SA began its next exchange; NEVER if it did not. (exchanges,)"""
    until = np.full(len(exchanges), NEVER)
    asked = exchanges.request_ns != UNKNOWN
    for side in (True, False):
        rows = np.flatnonzero(asked & (exchanges.initiator_asked == side))
        same = exchanges.handshake[rows[1:]] == exchanges.handshake[rows[:-1]]
        until[rows[:-1][same]] = exchanges.request_ns[rows[1:][same]]
    # the order of two exchanges that began at the same time is unknown
    return np.where(until > exchanges.start_ns, until, NEVER)


def _end_by_path(
    state: AnalysisState, path: NetworkPath, endings: ExchangeEndings, rows: Int64Array, facts: CaptureFacts
) -> ExchangeEndings:
    """Correct the endings of the exchanges `rows` where the round-trip time of the path is known."""
    exchanges, messages = state.exchanges, state.messages
    hosts = _get_hosts(state)
    handshake = exchanges.handshake[rows]
    known = path.initiator_rtt_ns[handshake]
    uncertain = np.zeros(len(exchanges), np.bool_)
    # of the rows alone: an exchange is seldom ambiguous
    if core.compiled is not None and not facts.partial:
        measures = core.compiled.measure_host_pairs(
            exchanges, endings.end_ns, messages, state.exchange_of_message, *hosts
        )
        following, continues = measures["following"], measures["continues"]
        pair = measures["pair"][handshake]
        rtt = np.where(known != UNKNOWN, known, measures["round_trip_ns"][pair])
        unknown = (known == UNKNOWN) & (rtt == 0) & exchanges.set_up[rows]
        uncertain[rows[unknown]] = measures["possibly_long"][pair[unknown]]
    else:
        following = _find_next_exchanges(exchanges)
        continues = _continues_at_once(exchanges, following)
        estimated = _estimate_round_trips(exchanges, endings, following, hosts, facts, rows)
        rtt = np.where(known != UNKNOWN, known, estimated)
        unknown = (known == UNKNOWN) & (rtt == 0) & exchanges.set_up[rows]
        possibly_long = _find_possibly_long_paths(state, endings, following, hosts, facts, rows[unknown])
        uncertain[rows[unknown]] = possibly_long
    if not len(rows):
        return endings
    timer = path.timer_ns[handshake]
    usable = (rtt > 0) & ((timer == UNKNOWN) | (_MAX_ROUND_TRIP * rtt > timer))
    rows, rtt = rows[usable], rtt[usable]
    gap = exchanges.request_ns[following[rows]] - endings.end_ns[rows]
    too_soon = (following[rows] >= 0) & (gap < _MIN_ROUND_TRIP * rtt)
    # where the next request does not decide: if the timer expired before the response arrived, transmissions and
    # responses crossed
    since = endings.answered_ns[rows] - exchanges.response_ns[rows]
    crossing = ~continues[rows] & (since > 0)
    crossing &= (since < 2 * rtt) | (exchanges.response_messages[rows] > 2)
    chosen = too_soon | crossing
    rows, rtt = rows[chosen], rtt[chosen]

    # the exchange after the set-up does not follow its last exchange at once
    following = np.where(exchanges.set_up[rows] & ~continues[rows], -1, following[rows])
    next_ns = np.where(following >= 0, exchanges.request_ns[following], NEVER)
    answer, end, answered = endings.answer_ns.copy(), endings.end_ns.copy(), endings.answered_ns.copy()
    times = zip(next_ns.tolist(), rtt.tolist(), strict=True)
    for (row, members), (until, round_trip) in zip(_iterate_messages(state, rows), times, strict=True):
        if continues[row] and until - end[row] >= _TOO_SHORT * round_trip:
            continue
        response = _find_fitting_response(messages, members, until, bool(continues[row]), round_trip)
        if response is None or messages.last_ns[response] >= end[row]:
            continue
        sent = messages.first_ns[members[~messages.response[members]]]
        sent = sent[sent <= messages.first_ns[response]]
        if len(sent):
            answer[row], end[row] = messages.first_ns[response], messages.last_ns[response]
            answered[row] = sent.max()
    waited = endings.response_wait_ns
    if not is_repeated(waited):
        waited = np.where(end == endings.end_ns, waited, 0)
    corrected = replace(endings, answer_ns=answer, end_ns=end, answered_ns=answered)
    return replace(corrected, response_wait_ns=waited, uncertain=uncertain)


def _find_fitting_response(
    messages: MessageColumns, members: Int64Array, next_ns: int, continues: bool, rtt: int
) -> np.int64 | None:
    """The row of the response that fits the round-trip time, or None.

    Args:
        messages: all messages.
        members: rows of the messages of the exchange.
        next_ns: time of the next request of the same side, or NEVER.
        continues: the initiator sends that request as soon as it has the response.
        rtt: round-trip time in ns.
    """
    is_response = messages.response[members]
    responses = members[is_response][np.argsort(messages.last_ns[members[is_response]], kind="stable")]
    ended = messages.last_ns[responses]
    if next_ns != NEVER:
        gap = next_ns - ended
        nearest = np.argmin(np.abs(gap - rtt))
        if _TOO_SHORT * rtt <= gap[nearest] <= _MAX_ROUND_TRIP * rtt:
            return np.int64(responses[nearest])
    if continues:
        return None
    sent_after = messages.first_ns[members[~is_response]].max() - ended
    fitting = responses[(sent_after > 0) & (sent_after <= rtt)]
    return fitting[0] if len(fitting) else None


def _find_possibly_long_paths(
    state: AnalysisState,
    endings: ExchangeEndings,
    following: Int64Array,
    hosts: UInt64Array,
    facts: CaptureFacts,
    wanted: Int64Array,
) -> BoolArray:
    """Whether the round trip of the exchanges `wanted` may take longer than the retransmission timer. (wanted,)

    `hosts` are the hosts of each handshake. (2, handshakes)
    """
    exchanges, messages = state.exchanges, state.messages
    of_handshake = number_pairs(*hosts)
    pair = of_handshake[exchanges.handshake]
    count = int(of_handshake.max(initial=0)) + 1
    answered = exchanges.initiator_asked & (endings.end_ns != UNKNOWN) & (exchanges.request_messages > 0)
    repeated = answered & (exchanges.request_messages > 1) & (exchanges.response_messages > 1)
    often = np.bincount(pair[repeated], minlength=count)
    seldom = np.bincount(pair[answered & ~repeated], minlength=count)
    # a round trip from the initiator to the responder and back is at most the time between two requests of which the
    # first one was sent once
    once = np.flatnonzero(answered & (exchanges.request_messages == 1) & _continues_at_once(exchanges, following))
    longest = np.full(count, NEVER)
    np.minimum.at(longest, pair[once], exchanges.request_ns[following[once]] - exchanges.request_ns[once])
    second = np.flatnonzero(~messages.response & messages.initiator_asked & (messages.transmission == 2))
    exchange = state.exchange_of_message[second]
    timer = np.full(count, NEVER)
    np.minimum.at(timer, pair[exchange], messages.first_ns[second] - exchanges.request_ns[exchange])

    def rows() -> Rows:
        ends = np.zeros((2, count), np.uint64)
        ends[:, of_handshake] = hosts
        totals = {"often": often, "seldom": seldom, "longest": longest, "timer": timer}
        return {**dict(zip(HOSTS, ends, strict=True)), **totals}

    shared = facts.share(
        SharedFact.LONG_PATHS, rows, needed=len(wanted) > 0, hosts=lambda: hosts[:, exchanges.handshake[wanted]]
    )
    if shared is not None:
        of_handshake, of_shared = number_shared_host_pairs((hosts[0], hosts[1]), shared)
        count = int(max(of_handshake.max(initial=0), of_shared.max(initial=0))) + 1
        often, seldom = (np.bincount(of_shared, shared[name], minlength=count) for name in ("often", "seldom"))
        longest, timer = np.full(count, NEVER), np.full(count, NEVER)
        np.minimum.at(longest, of_shared, shared["longest"])
        np.minimum.at(timer, of_shared, shared["timer"])
    return np.asarray((often > seldom) & (_MAX_ROUND_TRIP * longest > timer))[of_handshake[exchanges.handshake[wanted]]]


def _get_hosts(state: AnalysisState) -> UInt64Array:
    """Address codes of the initiator and the responder of each handshake in its first datagram. (2, handshakes)"""
    datagrams, head = state.datagrams, state.association.find_first_rows()
    source, destination = datagrams.source[head], datagrams.destination[head]
    by_initiator = state.association.from_initiator[head]
    return np.stack([np.where(by_initiator, source, destination), np.where(by_initiator, destination, source)])


def _iterate_messages(state: AnalysisState, rows: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yield each of the exchanges `rows` (ascending) with the rows of its messages."""
    members = np.flatnonzero(np.isin(state.exchange_of_message, rows))
    exchange = state.exchange_of_message[members]
    order = np.argsort(exchange, kind="stable")
    members, exchange = members[order], exchange[order]
    low, high = np.searchsorted(exchange, rows), np.searchsorted(exchange, rows, side="right")
    for row, begin, end in zip(rows.tolist(), low.tolist(), high.tolist(), strict=True):
        yield row, members[begin:end]


def _find_next_exchanges(exchanges: ExchangeColumns) -> Int64Array:
    """The row of the initiator's next exchange in the same handshake, or -1. (exchanges,)"""
    following = np.full(len(exchanges), -1)
    rows = np.flatnonzero(exchanges.initiator_asked & (exchanges.request_ns != UNKNOWN))
    same = exchanges.handshake[rows[1:]] == exchanges.handshake[rows[:-1]]
    following[rows[:-1][same]] = rows[1:][same]
    return following


def _continues_at_once(exchanges: ExchangeColumns, following: Int64Array) -> BoolArray:
    """Which exchanges are followed at once by another of the initiator that sets up the IKE SA. (exchanges,)"""
    at_once = following == np.arange(1, len(following) + 1)
    return np.asarray(at_once & exchanges.set_up & exchanges.set_up[following])


def _estimate_round_trips(
    exchanges: ExchangeColumns,
    endings: ExchangeEndings,
    following: Int64Array,
    hosts: UInt64Array,
    facts: CaptureFacts,
    wanted: Int64Array,
) -> Int64Array:
    """The shortest round trip between capture point and initiator for the hosts of the exchanges `wanted`. (wanted,)

    `hosts` are the hosts of each handshake. (2, handshakes). Returns ns; 0: unknown.
    """
    single = exchanges.initiator_asked & (exchanges.response_messages == 1) & (endings.end_ns != UNKNOWN)
    rows = np.flatnonzero(single & _continues_at_once(exchanges, following))
    gap = exchanges.request_ns[following[rows]] - endings.end_ns[rows]
    repeated = exchanges.request_messages[rows] > 1
    ends = hosts[:, exchanges.handshake[rows]]
    shared = facts.share(
        SharedFact.ROUND_TRIPS,
        lambda: {**dict(zip(HOSTS, ends, strict=True)), "repeated": repeated, "gap": gap},
        needed=len(wanted) > 0,
        hosts=lambda: hosts[:, exchanges.handshake[wanted]],
    )
    if shared is None:
        pair = number_pairs(*hosts)
        measured = pair[exchanges.handshake[rows]]
    else:
        gap, repeated = shared["gap"], shared["repeated"]
        pair, measured = number_shared_host_pairs((hosts[0], hosts[1]), shared)
    count = int(max(pair.max(initial=0), measured.max(initial=0))) + 1
    shortest = np.full(count, NEVER)
    np.minimum.at(shortest, measured, gap)
    agree = repeated & (gap <= _MAX_ROUND_TRIP * shortest[measured])
    certain = (np.bincount(measured[agree], minlength=count) > 1) & (shortest > 0)
    return np.where(certain, shortest, 0)[pair[exchanges.handshake[wanted]]]
