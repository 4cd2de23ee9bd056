"""Associate datagrams with IKE SAs, and find the peer that sent each of them.

Its two SPIs identify an IKE SA, independent of addresses: a NAT may change ports and MOBIKE addresses (RFC 7296,
section 2.11). Only IKE_SA_INIT needs more, because the responder's SPI is still 0 in the request (sections 1.2, 2.6):

- One initiator SPI, one responder SPI, one request body, one initiator address and port: one IKE SA. This holds for
  almost every IKE SA, and is decided for all of them at once.
- The same SPIs in another tunnel are of another IKE SA, unless the IKE SA moved there.
- Anything else is decided message by message, in order of time (`SpiDisambiguator`). A request with another body
  belongs to the same IKE SA if the responder asked for it (COOKIE, INVALID_KE_PAYLOAD, REDIRECT) or if it keeps its
  nonce, without other key exchange data of the same method. It belongs to another one if it comes from elsewhere (two
  initiators chose the same SPI) or if the IKE SA had been answered (an SPI is used again).
- A responder that does not speak the version of the first request refuses it in a version that it speaks, with the SPIs
  of the request (RFC 7296, section 2.5). That message belongs to the request.
- An initiator that has sent its next request does not repeat IKE_SA_INIT (RFC 7296, section 2.1), and a network
  delivers packets within 2 minutes (RFC 9293, section 3.4.2). The same request later than that is a replay of recorded
  traffic, and begins another IKE SA; the messages from its response on belong to that one.
- If the capture begins within an IKE SA, a later IKE_SA_INIT request with its SPIi begins another one if the next
  response has another responder's SPI. With the same SPI, the clock was set back.
- Peers with a seeded random generator choose both SPIs again for another set-up. A request with another body begins it
  as above. A response with the SPIs of an earlier IKE SA is its response, unless it repeats that of the earlier one.

A gateway may redirect the initiator to another one, which is another IKE SA of the same handshake (see `redirects`).
"""

from collections import deque
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ikeanalyze import core
from ikeanalyze.analysis.grouping import (
    argsort_stable,
    find_distinct,
    find_group_starts,
    group_order,
    number_by_first_row,
    number_within_captures,
)
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import BoolArray, Int32Array, Int64Array, UInt64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init, parse_payloads
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.ikev2 import INIT_EXCHANGES, ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Notifies by which a responder asks for another IKE_SA_INIT request.
ASKS_AGAIN: Final = {
    int(notify_type): notify_type.label
    for notify_type in (NotifyType.INVALID_KE_PAYLOAD, NotifyType.COOKIE, NotifyType.REDIRECT)
}

#: How long a network can delay a packet (the maximum segment lifetime of RFC 9293, section 3.4.2).
MAX_LIFETIME_NS: Final = 120_000_000_000

Endpoint = int
"""Address code << 16 | port."""


class SaAssociation(Struct):
    """The handshake of each datagram, and the side that sent it. (datagrams,) each"""

    handshake: Int32Array  # numbered from 0 in order of the first datagrams, so by capture first
    from_initiator: BoolArray
    count: int  # number of handshakes

    def find_first_rows(self) -> Int64Array:
        """The row of the first datagram of each handshake. (handshakes,)"""
        if core.compiled is not None:
            return core.compiled.find_first_rows(self.handshake, self.count)
        latest = np.maximum.accumulate(self.handshake)
        first: Int64Array = np.flatnonzero(find_group_starts(latest))
        if len(first) < self.count:  # a redirect has led to a handshake that began before
            first = np.zeros(self.count, np.int64)
            first[self.handshake[::-1]] = np.arange(len(self.handshake))[::-1]
        return first


def associate_datagrams(
    datagrams: Datagrams, clear: Mapping[int, bytes], translated: Mapping[Endpoint, Endpoint] = MappingProxyType({})
) -> SaAssociation:
    """Associate IKE datagrams with IKE SAs, each capture by itself.

    `datagrams` are in order of capture and time; `clear` has the bytes of those that can be read without keys, by
    `datagrams.datagram`; `translated` the endpoints that a NAT changed within the capture, each with the one that
    stands for both.
    """
    if not len(datagrams):
        return SaAssociation(np.zeros(0, np.int32), np.zeros(0, np.bool_), 0)
    label, ambiguous = group_by_spi(datagrams)
    count = len(ambiguous)
    rows = np.flatnonzero(ambiguous[label]) if ambiguous.any() else np.zeros(0, np.int64)
    if len(rows):
        rows = rows[argsort_stable(label[rows])]
        for own in np.split(rows, np.flatnonzero(np.diff(label[rows])) + 1):
            candidate = SpiDisambiguator(datagrams, clear, translated).assign(own)
            label[own] = np.where(candidate == 0, label[own[0]], count + candidate - 1)
            count += int(candidate.max())
        label = number_by_first_row(label, count)[label].astype(np.int32)
    return SaAssociation(label, _find_senders(datagrams, label, count), count)


def group_by_spi(datagrams: Datagrams) -> tuple[Int32Array, BoolArray]:
    """The group of each datagram by SPIi, numbered in order of the first datagrams; and which may be several IKE SAs.

    (datagrams,), (groups,)
    """
    spi = _separate_spis(datagrams)
    if core.compiled is not None:
        return core.compiled.group_by_spi(spi, datagrams)
    order = group_order(spi)
    new = find_group_starts(spi[order])
    group = np.cumsum(new, dtype=np.int32) - np.int32(1)
    count = int(group[-1]) + 1
    label = np.empty(len(spi), np.int32)
    label[order] = group
    rank = number_by_first_row(label, count)
    ambiguous = np.empty(count, np.bool_)
    ambiguous[rank] = _find_ambiguous(datagrams, order, group)
    distinct: Int32Array = rank.astype(np.int32)[label]
    return distinct, ambiguous


def _separate_spis(datagrams: Datagrams) -> UInt64Array:
    """Initiator SPIs, or numbers that also differ by tunnel: the same SPI in two tunnels is of two IKE SAs. (n,)

    An IKE SA can move to another tunnel (RFC 4555): one that has no IKE_SA_INIT there belongs to the only one that has.
    """
    scope = datagrams.scope
    spi = number_within_captures(datagrams.spi_i, datagrams.source)
    if not scope.any():
        return spi
    first, place = find_distinct(find_distinct(spi)[1] | scope.astype(np.uint64) << np.uint64(32))
    spi_of = (first & np.uint64(0xFFFFFFFF)).astype(np.int64)
    begins = np.zeros(len(first), np.bool_)
    begins[place[is_init(datagrams)]] = True
    home = np.arange(len(first))
    only = np.zeros(int(spi_of.max()) + 1, np.int64)
    only[spi_of[begins]] = home[begins]
    moved = ~begins & (np.bincount(spi_of[begins], minlength=len(only)) == 1)[spi_of]
    home[moved] = only[spi_of[moved]]
    return home[place].astype(np.uint64)


_ALL: Final = slice(None)


def get_initiator_endpoints(datagrams: Datagrams, initiator: BoolArray, rows: Int64Array | slice = _ALL) -> UInt64Array:
    """The initiator's endpoint in each datagram; `initiator`: whether the initiator is the sender. (rows,)"""
    shift = np.uint64(16)
    sender = datagrams.source[rows] << shift | datagrams.source_port[rows]
    receiver = datagrams.destination[rows] << shift | datagrams.destination_port[rows]
    return np.where(initiator, sender, receiver)


def is_init(datagrams: Datagrams) -> BoolArray:
    """Whether each datagram is IKE_SA_INIT, IKE_SESSION_RESUME, or IKEv1's first message, whose responder cookie is 0.

    An informational message of IKEv1 that refuses the first message may have a zero cookie too.
    """
    v1 = (datagrams.spi_r == 0) & (datagrams.exchange_type != int(ikev1_registry.Ikev1ExchangeType.INFORMATIONAL))
    result: BoolArray = np.where(datagrams.is_ikev1, v1, is_ikev2_init(datagrams))
    return result


def is_ikev2_init(datagrams: Datagrams) -> BoolArray:
    """Whether the exchange type of each datagram is IKE_SA_INIT or IKE_SESSION_RESUME."""
    result = np.zeros(len(datagrams), np.bool_)
    for exchange_type in INIT_EXCHANGES:  # `np.isin` takes many times as long for two small numbers
        result |= datagrams.exchange_type == int(exchange_type)
    return result


def _find_ambiguous(datagrams: Datagrams, order: Int64Array, group: npt.NDArray[np.int32]) -> BoolArray:
    """Which groups of one SPIi may contain several IKE SAs. (groups,)

    `order` sorts the datagrams by group; `group` is the group of each datagram in that order.
    """
    ambiguous = np.zeros(int(group[-1]) + 1, np.bool_)

    def require_equal(values: npt.NDArray[np.generic], of: npt.NDArray[np.int32]) -> None:
        """Mark the groups in which these values, of the groups `of`, are not all equal."""
        ambiguous[of[1:][(of[1:] == of[:-1]) & (values[1:] != values[:-1])]] = True

    spi_r = datagrams.spi_r[order]
    known = spi_r != 0
    require_equal(spi_r[known], group[known])
    require_equal(datagrams.protocol[order], group)
    inits = np.flatnonzero(is_init(datagrams)[order])
    rows = order[inits]
    request = (datagrams.is_ikev1 | ~datagrams.is_response)[rows]
    require_equal(get_initiator_endpoints(datagrams, request, rows), group[inits])
    require_equal(datagrams.digest[rows[request]], group[inits[request]])
    requests = inits[request]
    if len(requests):  # in order of group and time
        when, start = datagrams.first_ns[order[requests]], find_group_starts(group[requests])
        late = when - when[start][np.cumsum(start) - 1] > MAX_LIFETIME_NS
        ambiguous[group[requests[late]]] = True
    ambiguous[group[(datagrams.spi_i == 0)[order]]] = True
    return ambiguous


def _find_senders(datagrams: Datagrams, handshake: Int32Array, count: int) -> BoolArray:
    """Whether the initiator sent each datagram: a flag in IKEv2; with IKEv1 the initiator sends the first message.

    The flag does not count if it contradicts the addresses of IKE_SA_INIT (`find_contradicted_flags`), nor in a message
    of IKEv2 that refuses a request of IKEv1, to whose exchanges it belongs.
    """
    result = datagrams.from_initiator.copy()
    contradicted = find_contradicted_flags(datagrams, handshake, count)
    result[contradicted] = ~result[contradicted]
    if datagrams.is_ikev1.any():
        first = np.full(count, -1, np.int64)
        first[handshake[::-1]] = np.arange(len(handshake))[::-1]
        ikev1_rows = np.flatnonzero(datagrams.is_ikev1 | datagrams.is_ikev1[first[handshake]])
        head = first[handshake[ikev1_rows]]
        same_host = datagrams.source[ikev1_rows] == datagrams.source[head]
        both_ends_alike = datagrams.source[head] == datagrams.destination[head]
        same_port = datagrams.source_port[ikev1_rows] == datagrams.source_port[head]
        result[ikev1_rows] = np.where(both_ends_alike, same_port, same_host)
    return result


def find_contradicted_flags(datagrams: Datagrams, handshake: Int32Array, count: int) -> Int64Array:
    """The rows of datagrams of IKEv2 whose Initiator flag contradicts the addresses (RFC 7296, section 3.1).

    An IKE SA that begins with IKE_SA_INIT has an initiator and a responder with two addresses. A later message from the
    one address to the other is the initiator's, and the way back the responder's: neither a NAT nor MOBIKE turns that
    round, since they give a host another address than that of its peer. Messages with other addresses are left to the
    flag.
    """
    if core.compiled is not None:
        return core.compiled.find_contradicted_flags(datagrams, handshake, count)
    is_flagged, init = datagrams.from_initiator, is_ikev2_init(datagrams)
    ikev2 = datagrams.protocol == Protocol.IKEV2
    head = np.zeros(count, np.int64)
    head[handshake[::-1]] = np.arange(len(handshake))[::-1]
    # otherwise the flags of IKE_SA_INIT contradict one another
    begins = ikev2[head] & init[head] & (is_flagged[head] != datagrams.is_response[head])
    sender, receiver = datagrams.source[head], datagrams.destination[head]
    initiator = np.where(is_flagged[head], sender, receiver)
    responder = np.where(is_flagged[head], receiver, sender)
    rows = np.flatnonzero(ikev2 & ~init & (begins & (initiator != responder))[handshake])
    source, destination, own = datagrams.source[rows], datagrams.destination[rows], handshake[rows]
    forth = (source == initiator[own]) & (destination == responder[own])
    back = (source == responder[own]) & (destination == initiator[own])
    return rows[np.where(is_flagged[rows], back, forth)]


def find_wrong_flags(datagrams: Datagrams, association: SaAssociation) -> Int64Array:
    """The rows of datagrams of IKEv2 whose flags contradict their senders (RFC 7296, section 3.1).

    IKE_SA_INIT must have the Initiator flag or the Response flag, and not both.
    """
    is_flagged = datagrams.from_initiator
    wrong = np.equal(is_flagged, datagrams.is_response)
    if wrong.any():
        wrong &= is_ikev2_init(datagrams)
    wrong |= is_flagged != association.from_initiator
    return np.flatnonzero(wrong & (datagrams.protocol == Protocol.IKEV2))


def refuses_version(data: bytes, protocol: int) -> bool:
    """Whether a clear message has the notify INVALID_MAJOR_VERSION, which has the same number in IKEv1 (RFC 2408)."""
    if protocol == Protocol.IKEV2:
        return NotifyType.INVALID_MAJOR_VERSION in parse_init(data).notify_types
    if protocol != Protocol.IKEV1:
        return False
    from ikeanalyze.wire.ikev1.message import parse_phase1_message  # here, because few captures have IKEv1

    return NotifyType.INVALID_MAJOR_VERSION in parse_phase1_message(data).notifies


class _IkeSaCandidate(Struct):
    """An IKE SA under construction."""

    index: int
    protocol: int
    address: int | None  # of the initiator
    spis: set[int] = field(default_factory=set)  # responder SPIs
    nonces: set[bytes] = field(default_factory=set)
    asked_again: bool = False  # the last IKE_SA_INIT response asked for another request
    answered: bool = False  # an IKE_SA_INIT response accepted the request
    closed: bool = False  # no encrypted messages with a new responder SPI can follow
    begins_later: bool = False  # its first message is not IKE_SA_INIT
    moved_on_ns: int | None = None  # time of the initiator's first request after IKE_SA_INIT
    requests: int = 0  # IKE_SA_INIT requests
    requested_ns: int = 0  # time of the last one
    responses: int = 0  # IKE_SA_INIT responses
    last_response: int | None = None  # digest of the last one
    replayed_by: "_IkeSaCandidate | None" = None


class _InitDatagram(NamedTuple):
    """An IKE_SA_INIT message, and what the assignment needs to know of it."""

    view: InitMessage
    endpoint: Endpoint  # of the initiator
    protocol: int
    digest: int
    datagram: int
    spi_r: int
    time_ns: int
    next_spi: int  # of the responder in the next response; 0: none


class SpiDisambiguator:
    """Assigns the datagrams of one initiator SPI, in order of time, to IKE SAs."""

    def __init__(
        self, datagrams: Datagrams, clear: Mapping[int, bytes], translated: Mapping[Endpoint, Endpoint]
    ) -> None:
        self._datagrams = datagrams
        self._clear = clear
        self._translated = translated
        self._candidates: list[_IkeSaCandidate] = []
        self._by_digest: dict[int, _IkeSaCandidate] = {}
        self._by_endpoint: dict[Endpoint, _IkeSaCandidate] = {}
        self._by_spi: dict[tuple[int, int], _IkeSaCandidate] = {}
        self._by_address: dict[int, _IkeSaCandidate] = {}
        #: By address: those without a responder SPI so far, in order of time.
        self._waiting: dict[int, deque[_IkeSaCandidate]] = {}
        self._by_nonce: dict[bytes, tuple[_IkeSaCandidate, int]] = {}  # with the datagram of the request

    def assign(self, rows: Int64Array) -> Int64Array:
        """The IKE SA of each datagram, numbered from 0. (rows,)"""
        chosen = self._datagrams.select(rows)
        init = is_init(chosen)
        request = np.where(chosen.is_ikev1, init, ~chosen.is_response)
        endpoint = get_initiator_endpoints(chosen, np.where(chosen.is_ikev1, request, chosen.from_initiator))
        result: list[int] = []
        receiver = get_initiator_endpoints(chosen, np.zeros(len(chosen), np.bool_))
        following = _find_following_spis(chosen, init & ~request)
        next_request = ~init & chosen.from_initiator & ~chosen.is_response & ~chosen.is_ikev1
        columns = (
            *(init, request, next_request, endpoint, receiver, chosen.spi_r),
            *(chosen.protocol, chosen.digest, chosen.datagram, chosen.first_ns, following),
        )
        for is_first, asks, moves_on, end, to, spi_r, protocol, digest, datagram, time_ns, next_spi in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            here = self._translated.get(end, end)
            if is_first:
                view = parse_init(self._clear.get(datagram, b""))
                message = _InitDatagram(view, here, protocol, digest, datagram, spi_r, time_ns, next_spi)
                candidate = self._assign_request(message) if asks else self._assign_response(message)
            else:
                # the receiver, whatever the flags: strongSwan's refusal of IKEv1 has the Initiator flag
                refused_end = self._translated.get(to, to)
                refused = None if spi_r else self._find_refused(refused_end, protocol, self._clear.get(datagram, b""))
                candidate = refused or self._assign_later_message(here, protocol, spi_r)
                if moves_on and candidate.requests and candidate.moved_on_ns is None:
                    candidate.moved_on_ns = time_ns
            result.append(candidate.index)
        return np.array(result, np.int64)

    def _add_candidate(self, endpoint: Endpoint, protocol: int) -> _IkeSaCandidate:
        candidate = _IkeSaCandidate(len(self._candidates), protocol, endpoint >> 16)
        self._candidates.append(candidate)
        previous = self._by_endpoint.get(endpoint)
        if previous is not None:
            previous.closed = True  # the SPI is used again
        self._by_endpoint[endpoint] = candidate
        self._waiting.setdefault(endpoint >> 16, deque()).append(candidate)
        self._by_address[endpoint >> 16] = candidate
        return candidate

    def _assign_request(self, message: _InitDatagram) -> _IkeSaCandidate:
        view, endpoint, protocol, digest, datagram, spi_r, time_ns, next_spi = message
        candidate = self._by_digest.get(digest)
        if candidate is None and view.nonce in self._by_nonce:
            same_nonce, earlier = self._by_nonce[view.nonce]
            if not _has_other_key(self._clear.get(earlier, b""), self._clear.get(datagram, b"")):
                candidate = same_nonce
        if candidate is not None:
            candidate = _find_latest_replay(candidate)
            if candidate.moved_on_ns is not None and time_ns - candidate.moved_on_ns > MAX_LIFETIME_NS:
                candidate.replayed_by = self._add_candidate(endpoint, protocol)
                candidate = candidate.replayed_by
        if candidate is None:
            candidate = self._find_earlier(view, endpoint, protocol)
            if candidate is not None and _begins_within(candidate) and next_spi and next_spi not in candidate.spis:
                candidate = None
        if candidate is None:
            candidate = self._add_candidate(endpoint, protocol)
        if self._by_digest.get(digest) is not candidate:
            self._by_digest[digest] = candidate
            if view.nonce is not None:
                candidate.nonces.add(view.nonce)
                self._by_nonce[view.nonce] = candidate, datagram
        self._by_endpoint[endpoint] = candidate
        if spi_r:
            self._add_spi(candidate, protocol, spi_r)
        candidate.asked_again = False
        candidate.requests += 1
        candidate.requested_ns = time_ns
        return candidate

    def _find_earlier(self, view: InitMessage, endpoint: Endpoint, protocol: int) -> _IkeSaCandidate | None:
        """The IKE SA that a request with a new body and a new nonce may belong to."""
        only = self._candidates[0] if len(self._candidates) == 1 else None
        if only is not None and _begins_within(only):
            return only
        candidate = self._by_endpoint.get(endpoint)
        return candidate if candidate is not None and self._continues(candidate, view, protocol) else None

    def _continues(self, candidate: _IkeSaCandidate, view: InitMessage, protocol: int) -> bool:
        """Whether a request with a new body and a new nonce may belong to the candidate."""
        if candidate.protocol != protocol:
            return False
        if candidate.asked_again or not candidate.nonces:
            return True
        has_cookie = NotifyType.COOKIE in view.notify_types
        return has_cookie and not candidate.answered

    def _assign_response(self, message: _InitDatagram) -> _IkeSaCandidate:
        view, endpoint, protocol, digest, _, spi_r, time_ns, _ = message
        candidate = self._by_spi.get((protocol, spi_r)) if spi_r else None
        if candidate is not None and candidate.replayed_by is not None:
            candidate = self._by_spi[protocol, spi_r] = _find_latest_replay(candidate)
        if candidate is not None and not _repeats_response(candidate, digest, time_ns):
            latest = self._by_endpoint.get(endpoint, candidate)
            if latest.requests and not latest.answered and latest.protocol == protocol:
                candidate = self._by_spi[protocol, spi_r] = latest
        if candidate is None:
            candidate = self._by_endpoint.get(endpoint) or self._by_address.get(endpoint >> 16)
        if candidate is None:
            candidate = self._add_candidate(endpoint, protocol)
        if spi_r:
            self._add_spi(candidate, protocol, spi_r)
        candidate.asked_again = any(notify_type in ASKS_AGAIN for notify_type in view.notify_types)
        # one without a responder SPI accepts nothing (RFC 7296, section 2.6), even if its notify was not captured
        accepts = bool(spi_r) or view.error is None
        candidate.answered |= accepts and not candidate.asked_again
        candidate.responses += 1
        candidate.last_response = digest
        return candidate

    def _assign_later_message(self, endpoint: Endpoint, protocol: int, spi_r: int) -> _IkeSaCandidate:
        candidate = self._by_spi.get((protocol, spi_r))
        if candidate is None:
            # the response with this SPI is not in the capture
            candidate = self._find_without_spi(endpoint >> 16, protocol)
            if candidate is None:
                candidate = self._add_candidate(endpoint, protocol)
                candidate.begins_later = True
            candidate.closed = protocol == Protocol.IKEV2
            if spi_r or protocol == Protocol.IKEV2:
                self._add_spi(candidate, protocol, spi_r)
        return candidate

    def _find_refused(self, endpoint: Endpoint, protocol: int, data: bytes) -> _IkeSaCandidate | None:
        """The unanswered IKE SA of another version whose request this message refuses, if it does."""
        candidate = self._by_endpoint.get(endpoint)
        if candidate is None or candidate.protocol == protocol or candidate.answered or candidate.spis:
            return None
        return candidate if refuses_version(data, protocol) else None

    def _find_without_spi(self, address: int, protocol: int) -> _IkeSaCandidate | None:
        """The first IKE SA of this initiator without a known responder SPI.

        Refusals may have had other SPIs. An IKEv1 responder may have answered two transmissions with two cookies.
        """
        if protocol == Protocol.IKEV1:
            latest = self._by_address.get(address)
            return latest if latest is not None and latest.protocol == protocol else None
        waiting = self._waiting.get(address, deque())
        while waiting and (waiting[0].closed or waiting[0].answered or waiting[0].protocol != protocol):
            waiting.popleft()
        return waiting[0] if waiting else None

    def _add_spi(self, candidate: _IkeSaCandidate, protocol: int, spi_r: int) -> None:
        candidate.spis.add(spi_r)
        self._by_spi.setdefault((protocol, spi_r), candidate)


def _find_latest_replay(candidate: _IkeSaCandidate) -> _IkeSaCandidate:
    while candidate.replayed_by is not None:
        candidate = candidate.replayed_by
    return candidate


def _begins_within(candidate: _IkeSaCandidate) -> bool:
    """Whether the capture begins within this IKE SA: it has later messages, and IKE_SA_INIT at most as a refusal."""
    return (
        candidate.protocol == Protocol.IKEV2
        and candidate.begins_later
        and not (candidate.requests or candidate.answered)
    )


def _find_following_spis(datagrams: Datagrams, responses: BoolArray) -> UInt64Array:
    """The responder's SPI of the next IKE_SA_INIT response after each datagram that has one; 0: none. (datagrams,)"""
    rows = np.flatnonzero(responses & (datagrams.spi_r != 0))
    spis = np.append(datagrams.spi_r[rows], np.uint64(0))
    return spis[np.searchsorted(rows, np.arange(len(datagrams)))]


def _has_other_key(first: bytes, second: bytes) -> bool:
    """Whether two IKE_SA_INIT requests have key exchange data of one method that differ.

    A request with a cookie repeats the other payloads (RFC 7296, section 2.6), and one after INVALID_KE_PAYLOAD has
    another method, so these are not two requests of one handshake.
    """
    bodies = [_find_key_exchange(data) for data in (first, second)]
    return b"" not in bodies and bodies[0][:2] == bodies[1][:2] and bodies[0][4:] != bodies[1][4:]


def _find_key_exchange(data: bytes) -> bytes:
    """The body of the KE payload; empty: it has none."""
    payloads = parse_payloads(data).payloads
    return next((payload.body for payload in payloads if payload.type == PayloadType.KE), b"")


def _repeats_response(candidate: _IkeSaCandidate, digest: int, time_ns: int) -> bool:
    """Whether a response repeats the last one of this IKE SA, because a request of it has no response yet."""
    return (
        candidate.last_response == digest
        and candidate.requests > candidate.responses
        and time_ns - candidate.requested_ns <= MAX_LIFETIME_NS
    )


def find_redirects(datagrams: Datagrams, clear: Mapping[int, bytes]) -> list[int]:
    """The rows of the IKE_SA_INIT responses that redirect the initiator to another gateway (RFC 5685, section 3)."""
    init = (datagrams.exchange_type == int(ExchangeType.IKE_SA_INIT)) & ~datagrams.is_ikev1
    # the response that redirects has no SA payload: its first payload is the notify
    responses = np.flatnonzero(init & datagrams.is_response & (datagrams.next_payload == int(PayloadType.NOTIFY)))
    return [row for row in responses.tolist() if has_notify(datagrams, clear, row, NotifyType.REDIRECT)]


def has_notify(datagrams: Datagrams, clear: Mapping[int, bytes], row: int, notify_type: int) -> bool:
    """Whether an IKE_SA_INIT message has a notify of this type."""
    view = parse_init(clear.get(int(datagrams.datagram[row]), b""))
    return notify_type in view.notify_types
