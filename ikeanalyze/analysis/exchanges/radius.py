"""Pair RADIUS requests with responses, and assign each pair to the handshake that waited for it.

A response has its request's identifier and is sent to the sender of the request (RFC 2865, sections 2.5 and 3). The
same identifier with the same authenticator is a retransmission; with another authenticator, or more than 2 minutes
after the response (a replay, as in `messages.association`), it is a new request. The State attribute connects the pairs
of one EAP conversation: the server sends it in Access-Challenge, and the next Access-Request returns it (RFC 2865,
section 5.24; RFC 3579, section 2.1).

A conversation belongs to the handshake whose responder had an unanswered request during every pair of the conversation.
If several handshakes fit, the peers' addresses in Calling-Station-Id and Called-Station-Id decide; if they do not, the
conversation is assigned to no handshake, with a warning.

A proxy sends a request of its own to another server while the responder's request waits (RFC 2865, section 2.3). If the
capture has both, the proxy's request is not part of the link between responder and AAA server, and is assigned to no
handshake.

A capture may lack some of the messages of a conversation. Then the time that the responder waited for its AAA server is
unknown. A message is missing if

- a request has no response, and the responder did not ask again in the same exchange (another server),
- a request returns a State that the capture does not show in the response to another request,
- an IKE_AUTH exchange without RADIUS follows an Access-Challenge: the responder hands on each EAP message (RFC 3579,
  section 2.1), or
- the last response is Access-Challenge: only Access-Accept ends the conversation of a successful handshake.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct, field

from ikeanalyze.analysis.exchanges.answers import ExchangeEndings
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN, ExchangeColumns
from ikeanalyze.analysis.exchanges.timing import AaaTimes, TimeBreakdown
from ikeanalyze.analysis.messages.association import MAX_LIFETIME_NS
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, CaptureWarning, SharedFact
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import BoolArray, Int64Array, sort_distinct
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import CAPTURE_BIT, format_address_code
from ikeanalyze.capture.formats.records import LATEST_NS
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.radius import CLIENT_REQUESTS, RadiusCode

if TYPE_CHECKING:
    from ikeanalyze.wire.radius import RadiusPacket

#: Requests sent by the server to the client (RFC 5176).
_SERVER_REQUESTS: Final = frozenset({RadiusCode.DISCONNECT_REQUEST, RadiusCode.COA_REQUEST})
#: Requests with the same EAP message that a proxy may be asking for: an identity is the same in all of a user's
#: handshakes.
_MAX_SIMILAR: Final = 64


class RadiusExchange(Struct):
    """One RADIUS request, all its transmissions, and its response."""

    code: int
    identifier: int
    client: int  # address codes
    server: int
    from_client: bool
    view: "RadiusPacket"  # of the request
    requests: list[int] = field(default_factory=list)  # rows of the datagrams, in order of time
    responses: list[int] = field(default_factory=list)
    response_view: "RadiusPacket | None" = None
    conversation: int = -1
    preceding: "RadiusExchange | None" = None  # whose response has the State that this request returns
    handshake: int | None = None
    exchange: int | None = None
    forwarded: bool = False  # sent by a proxy for a client whose request is in the capture
    matched_by: str | None = None  # "EAP": the IKE message has the same EAP message, byte by byte; or "time"

    @property
    def capture(self) -> int:
        """The number of the capture."""
        return self.client >> CAPTURE_BIT

    def get_wait(self, datagrams: Datagrams) -> tuple[int, int]:
        """How long the client waited for the response, and before that until it repeated the request, in ns."""
        if not self.requests or not self.responses:
            return 0, 0
        return compute_aaa_wait(datagrams.first_ns[self.requests].tolist(), datagrams.last_ns[self.responses].tolist())


class RadiusMessages(Struct):
    """RADIUS datagrams and the exchanges that they form."""

    datagrams: Datagrams
    pairs: list[RadiusExchange]


class ResponderIntervals(Struct, frozen=True):
    """The intervals from a set-up request to its response, in order of start. (intervals,) each"""

    start_ns: Int64Array
    end_ns: Int64Array
    handshake: Int64Array
    exchange: Int64Array


class PeerAddresses(Struct, frozen=True):
    """The addresses of the peers of a handshake."""

    initiator: str  # address as text
    responder: str
    initiator_ports: frozenset[int] = frozenset()  # of all its messages


def compute_aaa_wait(sent_ns: Sequence[int], answers_ns: Sequence[int]) -> tuple[int, int]:
    """The time from the answered transmission of a request to its response, and from the first transmission to it.

    As with IKE (see `exchanges`), the response that counts is the first one after the last transmission: a client that
    sends again has not got what came before. It answers the latest transmission, unless there are as many responses as
    requests: then they answer one another in order.

    Args:
        sent_ns: when each transmission of the request was sent, in order, at least one.
        answers_ns: when each response was there, in order, at least one.
    """
    taken = next((place for place, when in enumerate(answers_ns) if when >= sent_ns[-1]), len(answers_ns) - 1)
    answer = answers_ns[taken]
    if len(sent_ns) == len(answers_ns):
        answered = sent_ns[taken]
    else:
        answered = max((when for when in sent_ns if when <= answer), default=sent_ns[0])
    return max(answer - answered, 0), answered - sent_ns[0]


def pair_radius_messages(datagrams: Datagrams, clear: Mapping[int, bytes]) -> list[RadiusExchange]:
    """Pair RADIUS datagrams, which are in order of capture and time."""
    if not len(datagrams):
        return []
    from ikeanalyze.wire.radius import parse_radius  # here, because few captures have RADIUS

    pairs: list[RadiusExchange] = []
    waiting: dict[tuple[int, int, int, int, int, int], RadiusExchange] = {}
    states: dict[tuple[int, bytes], RadiusExchange] = {}
    # the latest requests, by capture, code and EAP message
    asked: dict[tuple[int, int, bytes | None], deque[RadiusExchange]] = {}
    conversations = 0
    ends = ("source", "source_port", "destination", "destination_port")
    names = (*ends, "exchange_type", "message_id", "datagram", "scope", "first_ns")
    rows = zip(*(getattr(datagrams, name).tolist() for name in names), strict=True)
    for row, (*addresses, code, identifier, datagram, scope, time_ns) in enumerate(rows):
        source, source_port, destination, destination_port = addresses
        view = parse_radius(clear.get(datagram, b""))
        if code in CLIENT_REQUESTS or code in _SERVER_REQUESTS:
            key = (source, source_port, destination, destination_port, identifier, scope)
            pair = waiting.get(key)
            if pair is not None and pair.responses:
                answered_ns = int(datagrams.first_ns[pair.responses[0]])
                pair = None if time_ns - answered_ns > MAX_LIFETIME_NS else pair
            if pair is None or pair.view.authenticator != view.authenticator or pair.code != code:
                from_client = code in CLIENT_REQUESTS
                client, server = (source, destination) if from_client else (destination, source)
                pair = RadiusExchange(code, identifier, client, server, from_client, view)
                pairs.append(pair)
                waiting[key] = pair
                alike = asked.setdefault((pair.capture, code, view.eap_message), deque(maxlen=_MAX_SIMILAR))
                pair.forwarded = _is_forwarded(pair, alike)
                alike.append(pair)
                pair.preceding = states.get((server, view.state)) if view.state is not None else None
                if pair.preceding is None:
                    pair.conversation = conversations
                    conversations += 1
                else:
                    pair.conversation = pair.preceding.conversation
            pair.requests.append(row)
            continue
        key = (destination, destination_port, source, source_port, identifier, scope)
        pair = waiting.get(key)
        if pair is None:
            # the request is not in the capture
            pair = RadiusExchange(code, identifier, destination, source, True, view, conversation=conversations)
            conversations += 1
            pairs.append(pair)
            waiting[key] = pair
        pair.responses.append(row)
        pair.response_view = view
        if view.state is not None:
            states[(source, view.state)] = pair
    return pairs


def find_aaa_timeouts(pairs: Mapping[int, Sequence[RadiusExchange]], exchanges: ExchangeColumns) -> list[int]:
    """Handshakes that their responder ended because the AAA server answered none of its repeated last requests.

    After successful EAP another IKE_AUTH exchange follows (RFC 7296, section 2.16), so a response that none follows is
    a refusal. `pairs` are those of each handshake, in order of time; `exchanges` those of the whole capture, ordered by
    handshake and time.
    """
    ended = []
    for handshake, exchanged in pairs.items():
        last = exchanged[-1]
        if last.exchange is None or last.responses or len(last.requests) < 2 or last.view.eap_message is None:
            continue
        until = int(np.searchsorted(exchanges.handshake, np.int32(handshake), side="right"))
        followed = exchanges.set_up[last.exchange + 1 : until].any()
        is_auth = exchanges.exchange_type[last.exchange] == ExchangeType.IKE_AUTH
        if is_auth and exchanges.response_messages[last.exchange] > 0 and not followed:
            ended.append(handshake)
    return ended


def _is_forwarded(pair: RadiusExchange, alike: Iterable[RadiusExchange]) -> bool:
    """Whether a proxy sent a new request; `alike` are earlier requests with the same EAP message.

    Proxies hand EAP messages on as they are (RFC 3579, 2.1). One that asks a second server has its first request among
    them. A proxy may have the address of its responder: a request from this address to itself is for the proxy.
    """
    if pair.client == pair.server:
        return False
    for before in reversed([earlier for earlier in alike if not earlier.responses]):
        if pair.from_client and before.server == pair.client:
            return True
        if before.client == pair.client:
            return before.forwarded
        if pair.from_client and pair.view.proxied:
            return True
    return False


def _find_set_up_requests(exchanges: ExchangeColumns) -> Int64Array:
    """Rows of the exchanges that may have waited for RADIUS. (rows,)"""
    requested = exchanges.set_up & exchanges.initiator_asked & (exchanges.request_messages > 0)
    # HIP does not use EAP
    return np.flatnonzero(requested & (exchanges.protocol != Protocol.HIP))


def _is_assignable(pair: RadiusExchange) -> bool:
    """Whether a pair belongs to a conversation with the AAA server of a responder."""
    return pair.code == RadiusCode.ACCESS_REQUEST and bool(pair.requests) and not pair.forwarded


def share_waiting_handshakes(
    state: AnalysisState, endings: ExchangeEndings, radius: RadiusMessages, facts: CaptureFacts
) -> None:
    """Share the times of RADIUS requests, and the initiators' SPIs of the handshakes that may have waited for them.

    RADIUS is assigned in one part of a capture, which must have all of these handshakes.
    """
    pairs = [pair for pair in radius.pairs if _is_assignable(pair)]
    times = np.array([_get_time_span(pair, radius.datagrams) for pair in pairs], np.int64).reshape(-1, 2)
    exchanges = state.exchanges
    rows = _find_set_up_requests(exchanges)
    shared = facts.share(SharedFact.RADIUS, lambda: {"begin": times[:, 0], "finish": times[:, 1]}, needed=len(rows) > 0)
    if shared is not None:
        times = np.stack([shared["begin"], shared["finish"]], axis=1)
    end_ns = endings.end_ns[rows]
    end_ns = np.where(end_ns == UNKNOWN, state.last_ns[state.capture[exchanges.handshake[rows]]], end_ns)
    waiting = np.unique(exchanges.handshake[rows[_contain_any(exchanges.request_ns[rows], end_ns, times)]])
    of_datagram = np.isin(state.association.handshake, waiting)
    spis = np.unique(state.datagrams.spi_i[of_datagram])
    facts.share(SharedFact.WAITING, lambda: {"spi_i": spis}, needed=False)


def _contain_any(start_ns: Int64Array, end_ns: Int64Array, times: Int64Array) -> BoolArray:
    """Which intervals contain one of the `times`, begin and end of each. (intervals,)"""
    if not len(times):
        return np.zeros(len(start_ns), np.bool_)
    times = times[np.argsort(times[:, 0])]
    earliest_end = np.minimum.accumulate(times[::-1, 1])[::-1]  # of those that begin at this time or later
    place = np.searchsorted(times[:, 0], start_ns)
    return np.asarray((place < len(times)) & (earliest_end[np.minimum(place, len(times) - 1)] <= end_ns))


def _get_time_span(pair: RadiusExchange, datagrams: Datagrams) -> tuple[int, int]:
    """From the request to its first response, or to the last transmission of the request.

    Further responses answer retransmissions and may come after the responder has continued.
    """
    begin = int(datagrams.first_ns[pair.requests[0]])
    return begin, int(datagrams.last_ns[pair.responses[0] if pair.responses else pair.requests[-1]])


def _assign_conversations(
    pairs: list[RadiusExchange],
    datagrams: Datagrams,
    intervals: ResponderIntervals,
    peers: Mapping[int, PeerAddresses],
    ids: Int64Array,
) -> list[tuple[int, str]]:
    """Assign each conversation of one capture to the handshake that waited for it; returns warnings (frame, text).

    If a pair was assigned by its EAP messages, the other pairs of its conversation follow.
    `peers` are those of each handshake of the capture; `ids` the ids of all handshakes.
    """
    warnings: list[tuple[int, str]] = []
    conversations: dict[int, list[RadiusExchange]] = {}
    for pair in pairs:
        if _is_assignable(pair):
            conversations.setdefault(pair.conversation, []).append(pair)
    longest = int((intervals.end_ns - intervals.start_ns).max()) if len(intervals.start_ns) else 0
    by_initiator: dict[str, list[int]] = {}
    for handshake, addresses in peers.items():
        by_initiator.setdefault(addresses.initiator, []).append(handshake)
    for members in conversations.values():
        waiting = [_find_waiting_rows(pair, datagrams, intervals, longest) for pair in members]
        fitting = sort_distinct(intervals.handshake[waiting[0]])
        for rows in waiting[1:]:
            fitting = np.intersect1d(fitting, intervals.handshake[rows])
        known = [pair.handshake for pair in members if pair.handshake is not None]
        if known:
            fitting = np.intersect1d(fitting, known)
        if len(fitting) > 1:
            fitting = _choose_by_station_ids(members[0].view, fitting, peers, by_initiator)
        if len(fitting) == 1:
            handshake = int(fitting[0])
            for pair, rows in zip(members, waiting, strict=True):
                if pair.matched_by is None:
                    row = rows[intervals.handshake[rows] == handshake][-1]
                    pair.handshake, pair.exchange = handshake, int(intervals.exchange[row])
                    pair.matched_by = "time"
        elif len(fitting):
            frame = int(datagrams.number[members[0].requests[0]])
            which = ", ".join(str(ids[candidate]) for candidate in fitting[:5])
            warnings.append((frame, f"RADIUS conversation fits several handshakes ({which}): counted to none of them"))
    return warnings


def _find_waiting_rows(
    pair: RadiusExchange, datagrams: Datagrams, intervals: ResponderIntervals, longest: int
) -> Int64Array:
    """The intervals in which a responder was waiting from the request to its first response, in order of start."""
    begin, finish = _get_time_span(pair, datagrams)
    low = int(np.searchsorted(intervals.start_ns, begin - longest))
    high = int(np.searchsorted(intervals.start_ns, begin, side="right"))
    around: Int64Array = np.flatnonzero(intervals.end_ns[low:high] >= finish) + low
    return around


def _choose_by_station_ids(
    view: "RadiusPacket",
    fitting: Int64Array,
    peers: Mapping[int, PeerAddresses],
    by_initiator: Mapping[str, Sequence[int]],
) -> Int64Array:
    """Those of the handshakes whose peers are the station ids of the request; all if there are none.

    `by_initiator` has the handshakes of each initiator.
    """
    if view.calling_station_id is None:
        return fitting
    same = np.intersect1d(fitting, by_initiator.get(view.calling_station_id.partition("[")[0], ())).tolist()
    named = [handshake for handshake in same if _matches_station_ids(view, peers.get(handshake))]
    by_port = [handshake for handshake in named if _matches_station_ids(view, peers.get(handshake), by_port=True)]
    return np.array(by_port or named, np.int64) if named else fitting


def _matches_station_ids(view: "RadiusPacket", peers: PeerAddresses | None, *, by_port: bool = False) -> bool:
    """Whether the station ids of the request are these peers; strongSwan writes them as 192.0.2.1[4500]."""
    if peers is None or view.calling_station_id is None:
        return False
    calling, _, port = view.calling_station_id.partition("[")
    called = (view.called_station_id or "").partition("[")[0]
    if by_port and port not in {f"{number}]" for number in peers.initiator_ports}:
        return False
    return calling == peers.initiator and (not called or called == peers.responder)


def group_radius_by_handshake(radius: RadiusMessages) -> dict[int, list[RadiusExchange]]:
    """The RADIUS exchanges of each handshake that has some, in order of time."""
    pairs: dict[int, list[RadiusExchange]] = {}
    for pair in radius.pairs:
        if pair.handshake is not None:
            pairs.setdefault(pair.handshake, []).append(pair)
    return pairs


def find_first_radius_requests(radius: RadiusMessages, count: int) -> Int64Array:
    """The time of the first RADIUS request of each exchange, or UNKNOWN. (exchanges,)"""
    asked = np.full(count, UNKNOWN)
    for pair in radius.pairs:
        if pair.exchange is not None and pair.requests:
            when = radius.datagrams.first_ns[pair.requests[0]]
            if asked[pair.exchange] == UNKNOWN or when < asked[pair.exchange]:
                asked[pair.exchange] = when
    return asked


def sum_aaa_times(
    radius: RadiusMessages, pairs: Mapping[int, Sequence[RadiusExchange]], exchanges: ExchangeColumns
) -> AaaTimes:
    """How long the responder waited for its AAA server in each exchange; `pairs` are those of each handshake."""
    count = len(exchanges)
    if not pairs:
        nothing = np.broadcast_to(np.int64(0), count)  # takes no memory
        return AaaTimes(nothing, nothing)
    incomplete = frozenset(row for row, exchanged in pairs.items() if _lacks_messages(exchanged, exchanges))
    times = AaaTimes(np.zeros(count, np.int64), np.zeros(count, np.int64), incomplete)
    for handshake, exchanged in pairs.items():
        for pair in exchanged:
            if pair.exchange is None:
                continue
            answering, wait = pair.get_wait(radius.datagrams)
            if handshake in incomplete:
                answering = 0  # a part of the responder's time, as the unknown rest is
            # only impossible times add up to more than 64 bits
            for column, more in ((times.answering_ns, answering), (times.wait_ns, wait)):
                column[pair.exchange] = min(int(column[pair.exchange]) + more, LATEST_NS)
    return times


def _lacks_messages(pairs: Sequence[RadiusExchange], exchanges: ExchangeColumns) -> bool:
    """Whether the capture lacks RADIUS messages of a successful handshake with these pairs, in order of time."""
    last_of_exchange = {pair.exchange: pair for pair in pairs}
    before: RadiusExchange | None = None
    for pair in pairs:
        if not pair.responses and pair is last_of_exchange[pair.exchange]:
            return True
        if pair.view.state is not None and not _is_state_known(pair, before):
            return True
        if before is not None and _skips_exchange(before, pair, exchanges):
            return True
        before = pair
    return before is not None and _is_challenged(before)


def warn_of_missing_radius(
    times: AaaTimes, breakdown: TimeBreakdown, capture: Int64Array
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture with set-ups whose AAA server's time is unknown; `capture`: of handshakes."""
    incomplete = np.array(sorted(times.incomplete), np.int64)
    captures = capture[incomplete[breakdown.setup_ns[incomplete] != UNKNOWN]]
    warnings: list[tuple[int, CaptureWarning]] = []
    for number in sort_distinct(captures).tolist():
        count = int((captures == number).sum())
        subject = f"{count} set-ups" if count > 1 else "a set-up"
        text = f"the capture lacks RADIUS messages of {subject}: the AAA server's time is unknown, and counts as "
        warnings.append((number, (None, f"{text}time of the responder")))
    return warnings


def _is_challenged(pair: RadiusExchange) -> bool:
    return pair.response_view is not None and pair.response_view.code == RadiusCode.ACCESS_CHALLENGE


def _is_state_known(pair: RadiusExchange, before: RadiusExchange | None) -> bool:
    """Whether the capture has the exchange that the State of a request comes from; `before` is the one before it."""
    if pair.preceding is not None:
        return bool(pair.preceding.requests)
    # the snapshot length may have cut the State off
    return before is not None and before.response_view is not None and before.response_view.error is not None


def _skips_exchange(before: RadiusExchange, pair: RadiusExchange, exchanges: ExchangeColumns) -> bool:
    """Whether an IKE_AUTH exchange without RADIUS is between an Access-Challenge and the next pair of a handshake."""
    if not _is_challenged(before) or before.exchange is None or pair.exchange is None:
        return False
    types = exchanges.exchange_type[before.exchange : pair.exchange + 1]
    return len(types) > 2 and bool((types == ExchangeType.IKE_AUTH).all())


def assign_radius(
    state: AnalysisState, endings: ExchangeEndings, radius: RadiusMessages, ids: Int64Array
) -> list[tuple[int, tuple[int, str]]]:
    """Assign RADIUS conversations to the handshakes of their captures.

    Args:
        state: the exchanges of all captures.
        endings: when they ended.
        radius: the pairs, which get their handshakes and exchanges.
        ids: those of the handshakes, for the warnings.

    Returns:
        warnings: number of the capture, frame and text.
    """
    exchanges = state.exchanges
    asked = _find_set_up_requests(exchanges)
    capture = state.capture[state.association.handshake]
    warnings: list[tuple[int, tuple[int, str]]] = []
    for number, pairs in groupby(radius.pairs, key=lambda pair: pair.capture):
        rows = asked[state.capture[exchanges.handshake[asked]] == number]
        rows = rows[np.argsort(exchanges.request_ns[rows], kind="stable")]
        end = np.where(endings.end_ns[rows] == UNKNOWN, state.last_ns[number], endings.end_ns[rows])
        intervals = ResponderIntervals(exchanges.request_ns[rows], end, exchanges.handshake[rows], rows)
        peers = _collect_peers(state, np.flatnonzero(capture == number))
        conversations = _assign_conversations(list(pairs), radius.datagrams, intervals, peers, ids)
        warnings.extend((number, warning) for warning in conversations)
    return warnings


def _collect_peers(state: AnalysisState, rows: Int64Array) -> dict[int, PeerAddresses]:
    """The addresses of the peers of each handshake that has datagrams in `rows`, which are those of one capture."""
    datagrams, association = state.datagrams, state.association
    handshakes = association.handshake[rows]
    ports_of_both = datagrams.source_port[rows], datagrams.destination_port[rows]
    initiator_port = np.where(association.from_initiator[rows], *ports_of_both)
    ports: dict[int, set[int]] = defaultdict(set)
    for handshake, port in set(zip(handshakes.tolist(), initiator_port.tolist(), strict=True)):
        ports[handshake].add(port)
    peers: dict[int, PeerAddresses] = {}
    _, heads = np.unique(handshakes, return_index=True)
    for head in rows[heads].tolist():
        ends = [
            format_address_code(int(column[head]), state.addresses)
            for column in (datagrams.source, datagrams.destination)
        ]
        initiator, responder = ends if association.from_initiator[head] else ends[::-1]
        handshake = int(association.handshake[head])
        peers[handshake] = PeerAddresses(initiator, responder, frozenset(ports[handshake]))
    return peers
