"""Merge the attempts of a handshake that a gateway redirected to another one.

A gateway that answers IKE_SA_INIT with N(REDIRECT) makes the initiator begin again at another gateway, with
N(REDIRECTED_FROM) in the new request and, in most stacks, with a new SPI (RFC 5685, section 3). Both attempts are one
handshake with an extra round trip.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.messages.association import Endpoint, SaAssociation, get_initiator_endpoints, has_notify
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: An initiator contacts the new gateway at once; after this time it is a new attempt.
MAX_REDIRECT_NS: Final = 60_000_000_000


class _RedirectedHandshake(Struct):
    """A handshake that a gateway ended with a REDIRECT."""

    handshake: int
    gateway: int  # address code
    time_ns: int  # of the last REDIRECT
    is_waiting: bool = True  # no request has continued it


class _RedirectQueue:
    """The redirected handshakes that wait for a request at another gateway, in order of their first REDIRECT."""

    def __init__(self) -> None:
        self._latest: dict[int, _RedirectedHandshake] = {}  # by number of the handshake
        self._by_endpoint: dict[Endpoint, deque[_RedirectedHandshake]] = {}  # of the initiator
        self._by_address: dict[int, deque[_RedirectedHandshake]] = {}  # of the initiator

    def add(self, handshake: int, gateway: int, endpoint: Endpoint, time_ns: int) -> None:
        """Add a handshake, unless a request has continued it after a REDIRECT of the same gateway."""
        earlier = self._latest.get(handshake)
        if earlier is not None and earlier.is_waiting:
            earlier.time_ns = time_ns
        elif earlier is None or earlier.gateway != gateway:
            redirected = self._latest[handshake] = _RedirectedHandshake(handshake, gateway, time_ns)
            self._by_endpoint.setdefault(endpoint, deque()).append(redirected)
            self._by_address.setdefault(endpoint >> 16, deque()).append(redirected)

    def remove(self, handshake: int) -> None:
        """A request of the handshake itself, with the same SPI, continues it."""
        if handshake in self._latest:
            self._latest[handshake].is_waiting = False

    def find(self, endpoint: Endpoint, time_ns: int) -> _RedirectedHandshake | None:
        """The handshake that a request from this endpoint continues if it has REDIRECTED_FROM."""
        for waiting in (self._by_endpoint.get(endpoint, deque()), self._by_address.get(endpoint >> 16, deque())):
            while waiting:
                redirected = waiting[0]
                if redirected.is_waiting and time_ns - redirected.time_ns <= MAX_REDIRECT_NS:
                    return redirected
                redirected.is_waiting = False
                waiting.popleft()
        return None


def follow_redirects(
    datagrams: Datagrams, association: SaAssociation, clear: Mapping[int, bytes], redirects: list[int]
) -> SaAssociation:
    """Merge each handshake that a REDIRECT ended with the one at the new gateway.

    A handshake that begins with a request with REDIRECTED_FROM continues one that was redirected at most a minute
    before: if several initiators behind one NAT were redirected, the one with the same port, or else the first one.

    `redirects` are the rows that `find_redirects` has found, which are not empty.
    """
    init = (datagrams.exchange_type == int(ExchangeType.IKE_SA_INIT)) & ~datagrams.is_ikev1
    redirected_hosts = np.unique(datagrams.destination[redirects])
    requests = np.flatnonzero(init & ~datagrams.is_response & np.isin(datagrams.source, redirected_hosts))
    rows = np.union1d(requests, redirects)
    is_request = ~datagrams.is_response[rows]
    columns = (
        *(rows, is_request, association.handshake[rows], get_initiator_endpoints(datagrams, is_request, rows)),
        *(datagrams.source[rows], datagrams.first_ns[rows], datagrams.digest[rows]),
    )
    label = np.arange(association.count)
    first_rows = association.find_first_rows()
    queue = _RedirectQueue()
    bodies: set[tuple[int, int]] = set()  # of requests: handshake and digest
    for row, asks, handshake, endpoint, sender, time_ns, digest in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        if not asks:
            queue.add(handshake, sender, endpoint, time_ns)
        elif row == first_rows[handshake]:
            redirected = queue.find(endpoint, time_ns)
            if redirected is not None and has_notify(datagrams, clear, row, NotifyType.REDIRECTED_FROM):
                label[handshake] = label[redirected.handshake]
                redirected.is_waiting = False
        elif (handshake, digest) not in bodies:
            queue.remove(handshake)
        if asks:
            bodies.add((handshake, digest))
    # merged handshakes keep the number of the first; the others are renumbered
    labels, renumbered = np.unique(label, return_inverse=True)
    return SaAssociation(renumbered.astype(np.int32)[association.handshake], association.from_initiator, len(labels))
