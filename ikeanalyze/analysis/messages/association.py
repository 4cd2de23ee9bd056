"""Which IKE SA a message belongs to, and which of the two peers sent it.

An IKE SA is known by its two SPIs, wherever its packets come from: a NAT may change ports and MOBIKE
addresses. Only IKE_SA_INIT needs more, because the responder's SPI is still 0 in the request:

- one initiator SPI, one responder SPI, one request body, one initiator address and port: one IKE SA. That is
  nearly every one, and is seen for all of them at once;
- anything else is settled message by message, in order of time (`SpiDisambiguator`): a request with another body is
  the same IKE SA if the responder asked for it (COOKIE, INVALID_KE_PAYLOAD, REDIRECT) or if it keeps its
  nonce; it is another one if it comes from elsewhere (two initiators chose the same SPI) or after the IKE SA
  had got its answer (an SPI used again).

RFC 7296, 2.6 (SPIs and cookies), 1.2 (INVALID_KE_PAYLOAD), 2.11 (addresses may change); RFC 5685, 3 (REDIRECT).

Handshakes that were sent on to another gateway (RFC 5685, 3).

A gateway that answers IKE_SA_INIT with N(REDIRECT) makes the initiator begin again elsewhere, with
N(REDIRECTED_FROM) in its new request and, in most stacks, with a new SPI. For whoever waits for the IKE SA
that is one handshake with an extra round trip.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.grouping import find_group_starts, group_order, number_within_captures
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Notifies by which a responder asks for another IKE_SA_INIT request.
ASKS_AGAIN: Final = {
    int(kind): kind.label for kind in (NotifyType.INVALID_KE_PAYLOAD, NotifyType.COOKIE, NotifyType.REDIRECT)
}

Endpoint = int
"""An address and a port in one number."""


@dataclass(slots=True)
class SaAssociation:
    """For each datagram: which handshake, and which side sent it."""

    handshake: Int64Array  # from 0, in order of the handshakes' first datagrams, so by capture first
    from_initiator: BoolArray
    count: int  # handshakes


def associate_datagrams(
    datagrams: Datagrams, clear: Mapping[int, bytes], translated: Mapping[Endpoint, Endpoint] = MappingProxyType({})
) -> SaAssociation:
    """Tell the IKE SAs of IKE datagrams apart, those of one capture from those of another too.

    `datagrams` are in order of capture and time; `clear` has the bytes of those that can be read without keys, by `datagrams.datagram`;
    `translated` the endpoints that a NAT changed within the capture, each with the one that stands for both.
    """
    total = len(datagrams)
    if not total:
        return SaAssociation(np.zeros(0, np.int64), np.zeros(0, np.bool_), 0)
    spi_i = number_within_captures(datagrams.spi_i, datagrams.source)
    order = group_order(spi_i)
    new = find_group_starts(spi_i[order])
    start = np.flatnonzero(new)
    size = np.diff(np.append(start, total))
    group = np.cumsum(new, dtype=np.int32) - np.int32(1)

    unclear = _unclear(datagrams, order, group)
    label = group
    fresh = len(start)
    for index in np.flatnonzero(unclear).tolist():
        rows = order[start[index] : start[index] + size[index]]
        candidate = SpiDisambiguator(datagrams, clear, translated).assign(rows)
        place = slice(start[index], start[index] + size[index])
        label[place] = np.where(candidate == 0, index, fresh + candidate - 1)
        fresh += int(candidate.max())
    # number the handshakes in order of their first datagrams: within a label the rows of `order` rise, so its first one is that
    first = np.full(fresh, total, np.int64)
    first[label[::-1]] = order[::-1]
    rank = np.empty(fresh, np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(fresh)
    handshake = np.empty(total, np.int64)
    handshake[order] = rank[label]
    return SaAssociation(handshake, _senders(datagrams, handshake, fresh), fresh)


_ALL: Final = slice(None)


def _endpoints(datagrams: Datagrams, initiator: BoolArray, rows: Int64Array | slice = _ALL) -> UInt64Array:
    """The initiator's address and port in some datagrams, where `initiator` says whether it is the sender."""
    shift = np.uint64(16)
    sender = datagrams.source[rows] << shift | datagrams.source_port[rows]
    receiver = datagrams.destination[rows] << shift | datagrams.destination_port[rows]
    return np.where(initiator, sender, receiver)


def is_init(datagrams: Datagrams) -> BoolArray:
    """IKE_SA_INIT, IKE_SESSION_RESUME; of IKEv1 the first message, whose responder cookie is 0.

    A responder that refuses the first message of IKEv1 in an informational message may not have made a cookie either.
    """
    v1 = (datagrams.spi_r == 0) & (datagrams.exchange_type != int(ikev1_registry.Ikev1ExchangeType.INFORMATIONAL))
    result: BoolArray = np.where(datagrams.is_ikev1, v1, is_ikev2_init(datagrams))
    return result


def is_ikev2_init(datagrams: Datagrams) -> BoolArray:
    """Datagrams whose exchange type is IKE_SA_INIT or IKE_SESSION_RESUME."""
    kind = datagrams.exchange_type
    result: BoolArray = kind == int(ExchangeType.IKE_SA_INIT)
    result |= kind == int(ExchangeType.IKE_SESSION_RESUME)
    return result


def _unclear(datagrams: Datagrams, order: Int64Array, group: npt.NDArray[np.int32]) -> BoolArray:
    """Which groups of one SPIi need a closer look; `order` brings a group's datagrams together, `group` is theirs."""
    unclear = np.zeros(int(group[-1]) + 1, np.bool_)

    def differs(values: npt.NDArray[np.generic], of: npt.NDArray[np.int32]) -> None:
        """A group is unclear if not all of these values, which are of the groups `of`, are equal in it."""
        unclear[of[1:][(of[1:] == of[:-1]) & (values[1:] != values[:-1])]] = True

    spi_r = datagrams.spi_r[order]
    known = spi_r != 0
    differs(spi_r[known], group[known])
    differs(datagrams.protocol[order], group)
    inits = np.flatnonzero(is_init(datagrams)[order])
    rows = order[inits]
    request = (datagrams.is_ikev1 | ~datagrams.is_response)[rows]
    differs(_endpoints(datagrams, request, rows), group[inits])
    differs(datagrams.digest[rows[request]], group[inits[request]])
    unclear[group[(datagrams.spi_i == 0)[order]]] = True
    return unclear


def _senders(datagrams: Datagrams, handshake: Int64Array, count: int) -> BoolArray:
    """Who sent what: IKEv2 says it in a flag; in IKEv1 the initiator is who sent the first message."""
    result = datagrams.from_initiator.copy()
    old = np.flatnonzero(datagrams.is_ikev1)
    if len(old):
        first = np.full(count, -1, np.int64)
        ids = handshake[old]
        first[ids[::-1]] = old[::-1]
        head = first[ids]
        same_host = datagrams.source[old] == datagrams.source[head]
        both_ends_alike = datagrams.source[head] == datagrams.destination[head]
        same_port = datagrams.source_port[old] == datagrams.source_port[head]
        result[old] = np.where(both_ends_alike, same_port, same_host)
    return result


@dataclass(slots=True)
class _IkeSaCandidate:
    """An IKE SA under construction."""

    index: int
    protocol: int
    address: int | None  # of the initiator
    spis: set[int] = field(default_factory=set)  # responder SPIs
    nonces: set[bytes] = field(default_factory=set)
    asked_again: bool = False  # the last IKE_SA_INIT response wanted another request
    answered: bool = False  # an IKE_SA_INIT response took the request
    closed: bool = False  # no more protected messages with an SPI of their own are to be expected


class SpiDisambiguator:
    """Datagrams of one initiator SPI, taken in order of time."""

    def __init__(
        self, datagrams: Datagrams, clear: Mapping[int, bytes], translated: Mapping[Endpoint, Endpoint]
    ) -> None:
        self._units = datagrams
        self._clear = clear
        self._translated = translated
        self._candidates: list[_IkeSaCandidate] = []
        self._by_digest: dict[int, _IkeSaCandidate] = {}
        self._by_endpoint: dict[Endpoint, _IkeSaCandidate] = {}
        self._by_spi: dict[tuple[int, int], _IkeSaCandidate] = {}
        self._by_address: dict[int, _IkeSaCandidate] = {}
        self._waiting: dict[int, deque[_IkeSaCandidate]] = {}  # by address, for the responder's SPI; in order of time
        self._by_nonce: dict[bytes, _IkeSaCandidate] = {}

    def assign(self, rows: Int64Array) -> Int64Array:
        """Which of the IKE SAs, numbered from 0, each datagram belongs to."""
        some = self._units.select(rows)
        init = is_init(some)
        request = np.where(some.is_ikev1, init, ~some.is_response)
        endpoint = _endpoints(some, np.where(some.is_ikev1, request, some.from_initiator))
        place: Callable[..., _IkeSaCandidate]
        result: list[int] = []
        columns = (init, request, endpoint, some.spi_r, some.protocol, some.digest, some.datagram)
        for is_first, asks, end, spi_r, protocol, digest, datagram in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            here = self._translated.get(end, end)
            if is_first:
                view = parse_init(self._clear.get(datagram, b""))
                place = self._request if asks else self._response
                candidate = place(view, here, protocol, digest, spi_r)
            else:
                candidate = self._later(here, protocol, spi_r)
            result.append(candidate.index)
        return np.array(result, np.int64)

    def _new(self, endpoint: Endpoint, protocol: int) -> _IkeSaCandidate:
        candidate = _IkeSaCandidate(len(self._candidates), protocol, endpoint >> 16)
        self._candidates.append(candidate)
        before = self._by_endpoint.get(endpoint)
        if before is not None:
            before.closed = True  # the SPI is used again
        self._by_endpoint[endpoint] = candidate
        self._waiting.setdefault(endpoint >> 16, deque()).append(candidate)
        self._by_address[endpoint >> 16] = candidate
        return candidate

    def _request(
        self, view: InitMessage, endpoint: Endpoint, protocol: int, digest: int, spi_r: int
    ) -> _IkeSaCandidate:
        candidate = self._by_digest.get(digest)
        if candidate is None and view.nonce is not None:
            candidate = self._by_nonce.get(view.nonce)
        if candidate is None:
            candidate = self._by_endpoint.get(endpoint)
            if candidate is not None and not self._continues(candidate, view, protocol):
                candidate = None
        if candidate is None:
            candidate = self._new(endpoint, protocol)
        self._by_digest[digest] = candidate
        self._by_endpoint[endpoint] = candidate
        if view.nonce is not None:
            candidate.nonces.add(view.nonce)
            self._by_nonce[view.nonce] = candidate
        if spi_r:
            self._know_spi(candidate, protocol, spi_r)
        candidate.asked_again = False
        return candidate

    def _continues(self, candidate: _IkeSaCandidate, view: InitMessage, protocol: int) -> bool:
        """Whether a request with a new body and a new nonce may still be the same IKE SA's."""
        if candidate.protocol != protocol:
            return False
        if candidate.asked_again or not candidate.nonces:
            return True
        has_cookie = any(kind == NotifyType.COOKIE for kind, _ in view.notifies)
        return has_cookie and not candidate.answered

    def _response(
        self, view: InitMessage, endpoint: Endpoint, protocol: int, _digest: int, spi_r: int
    ) -> _IkeSaCandidate:
        candidate = self._by_spi.get((protocol, spi_r)) if spi_r else None
        if candidate is None:
            candidate = self._by_endpoint.get(endpoint) or self._by_address.get(endpoint >> 16)
        if candidate is None:
            candidate = self._new(endpoint, protocol)
        if spi_r:
            self._know_spi(candidate, protocol, spi_r)
        candidate.asked_again = any(kind in ASKS_AGAIN for kind, _ in view.notifies)
        candidate.answered |= not candidate.asked_again
        return candidate

    def _later(self, endpoint: Endpoint, protocol: int, spi_r: int) -> _IkeSaCandidate:
        candidate = self._by_spi.get((protocol, spi_r))
        if candidate is None:
            # the response that brought this SPI is not in the capture
            candidate = self._without_spi(endpoint >> 16, protocol)
            if candidate is None:
                candidate = self._new(endpoint, protocol)
            candidate.closed = protocol == Protocol.IKEV2
            if spi_r or protocol == Protocol.IKEV2:
                self._know_spi(candidate, protocol, spi_r)
        return candidate

    def _without_spi(self, address: int, protocol: int) -> _IkeSaCandidate | None:
        """The first IKE SA of this initiator whose responder's SPI is not known yet.

        Refusals may have brought other SPIs. IKEv1's responder may have answered two transmissions with two cookies.
        """
        if protocol == Protocol.IKEV1:
            latest = self._by_address.get(address)
            return latest if latest is not None and latest.protocol == protocol else None
        waiting = self._waiting.get(address, deque())
        while waiting and (waiting[0].closed or waiting[0].answered or waiting[0].protocol != protocol):
            waiting.popleft()
        return waiting[0] if waiting else None

    def _know_spi(self, candidate: _IkeSaCandidate, protocol: int, spi_r: int) -> None:
        candidate.spis.add(spi_r)
        self._by_spi.setdefault((protocol, spi_r), candidate)


#: An initiator goes to the new gateway at once; after this time it is another attempt.
_WITHIN_NS: Final = 60_000_000_000


def follow_redirects(datagrams: Datagrams, association: SaAssociation, clear: Mapping[int, bytes]) -> SaAssociation:
    """Join each handshake that a REDIRECT ended with the one that followed it."""
    init = (datagrams.exchange_type == int(ExchangeType.IKE_SA_INIT)) & ~datagrams.is_ikev1
    # the response that redirects has no SA payload: its first payload is the notify
    answers = np.flatnonzero(init & datagrams.is_response & (datagrams.next_payload == int(PayloadType.NOTIFY)))
    redirects = [row for row in answers.tolist() if _has(clear, datagrams, row, NotifyType.REDIRECT)]
    if not redirects:
        return association
    label = np.arange(association.count)
    requests = np.flatnonzero(init & ~datagrams.is_response)
    for row in redirects:
        when, initiator = int(datagrams.first_ns[row]), datagrams.destination[row]
        ours = int(association.handshake[row])
        later = requests[(datagrams.source[requests] == initiator) & (datagrams.first_ns[requests] >= when)]
        for other in later.tolist():
            theirs = int(association.handshake[other])
            if int(datagrams.first_ns[other]) - when > _WITHIN_NS:
                break
            if theirs != ours and _has(clear, datagrams, other, NotifyType.REDIRECTED_FROM):
                label[label == label[theirs]] = label[ours]
                break
    # what is joined takes the number of its first part; the others move up
    kept, renumbered = np.unique(label, return_inverse=True)
    return SaAssociation(renumbered[association.handshake], association.from_initiator, len(kept))


def _has(clear: Mapping[int, bytes], datagrams: Datagrams, row: int, kind: int) -> bool:
    view = parse_init(clear.get(int(datagrams.datagram[row]), b""))
    return any(notify == kind for notify, _ in view.notifies)
