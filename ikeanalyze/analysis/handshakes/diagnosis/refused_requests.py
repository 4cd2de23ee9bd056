"""Requests for rekeying and for further CHILD_SAs that were refused after the set-up (RFC 7296, section 1.3).

An error notify in the response tells it if the response was decrypted. Otherwise its size does: a successful response
has payloads that need more bytes than an error notify.

A refusal does not count if another request for the same made up for it: a single INVALID_KE_PAYLOAD, TEMPORARY_FAILURE
or CHILD_SA_NOT_FOUND is a normal part of the protocol (sections 1.3 and 2.25).
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from ikeanalyze.analysis.handshakes.diagnosis.suspect import RefusedRequest, get_message_room
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Least bytes of the payloads of a successful response. CREATE_CHILD_SA: a CHILD_SA needs less than an IKE SA, an SA
#: payload with a single transform (4 + 12 + 8), a nonce of 16 bytes (4 + 16) and two traffic selectors of IPv4
#: (2 * 24). IKE_FOLLOWUP_KE: a KE payload (8) of the shortest method, Curve25519 (32).
_LEAST_BYTES: Final = {ExchangeType.CREATE_CHILD_SA: 92, ExchangeType.IKE_FOLLOWUP_KE: 40}
#: A side answers TEMPORARY_FAILURE while it rekeys or closes the SA itself (RFC 7296, 2.25): fewer are normal.
_MANY_TEMPORARY: Final = 3
#: Refusals of a new CHILD_SA that depend on its networks.
_OF_NETWORKS: Final = (NotifyType.TS_UNACCEPTABLE.label, NotifyType.NO_PROPOSAL_CHOSEN.label)


class Purpose(StrEnum):
    """What a request is for."""

    IKE_REKEYING = "the rekeying of the IKE SA"
    CHILD_REKEYING = "the rekeying of a CHILD_SA"
    CHILD = "the set-up of a CHILD_SA"


class DecryptedRequest(Struct, frozen=True):
    """Facts from the decrypted payloads of a request and its response; None: not decrypted, or there is none."""

    has_response: bool = False  # the response was decrypted
    notify: str | None = None  # error notify
    purpose: Purpose | None = None
    wanted_method: str | None = None  # see `RefusedRequest`
    offered: str | None = None
    selectors: str | None = None
    selector_bodies: tuple[bytes, bytes] | None = None  # of the payloads TSi and TSr
    differs_in_key_exchange: bool = False


#: Of a request that was not decrypted.
NOT_DECRYPTED: Final = DecryptedRequest()


class LaterRequest(Struct):
    """A CREATE_CHILD_SA or IKE_FOLLOWUP_KE request after the set-up, which has a response."""

    exchange: int
    type: int
    from_initiator: bool
    start_ns: int
    end_ns: int
    short_bytes: int  # length of a short response; -1: it is not short
    decrypted: DecryptedRequest
    refused: bool = False
    superseded: bool = False  # its IKE_FOLLOWUP_KE was refused
    purpose: Purpose | None = None


def find_refused_request(
    requests: Sequence[LaterRequest],
    latest_ns: Mapping[bool, int],
    encryption: str | None,
    integrity: str | None,
) -> RefusedRequest | None:
    """The last request of an IKE SA that was refused, and for which no other one made up.

    Args:
        requests: those of the IKE SA, in order of time.
        latest_ns: when the last request of any type of each side (whether it is the initiator) began.
        encryption: name of the algorithm.
        integrity: name of the algorithm.
    """
    latest: dict[bool, LaterRequest] = {}  # CREATE_CHILD_SA of each side
    for request in requests:
        request.refused = _is_refused(request, encryption, integrity)
        request.purpose = request.decrypted.purpose
        before = latest.get(request.from_initiator)
        if request.type == ExchangeType.CREATE_CHILD_SA:
            latest[request.from_initiator] = request
        elif before is not None:
            request.purpose = before.purpose
            before.superseded |= request.refused
    left = [
        request
        for request in requests
        if request.refused and not any(_makes_up_for(request, other) for other in requests)
    ]
    for request in reversed(left):
        same = [other for other in left if _is_same(request, other)]
        if _is_noteworthy(request, len(same), latest_ns.get(request.from_initiator, 0)):
            return _describe(request, len(same))
    return None


def _is_refused(request: LaterRequest, encryption: str | None, integrity: str | None) -> bool:
    if request.short_bytes < 0:
        return False
    if request.decrypted.has_response:
        return request.decrypted.notify is not None
    room = get_message_room(request.short_bytes, encryption, integrity)
    return room is not None and room < _LEAST_BYTES[ExchangeType(request.type)]


def _makes_up_for(refused: LaterRequest, other: LaterRequest) -> bool:
    """Whether another request, which was not over before this one, was for the same and succeeded."""
    if other.refused or other.superseded or other.type != ExchangeType.CREATE_CHILD_SA:
        return False
    if other.end_ns < refused.start_ns:
        return False
    if refused.purpose is None or other.purpose is None:
        return True
    if (refused.purpose == Purpose.IKE_REKEYING) != (other.purpose == Purpose.IKE_REKEYING):
        return False
    if refused.purpose == Purpose.CHILD and refused.decrypted.notify in _OF_NETWORKS:
        # other CHILD_SAs have other networks
        here, there = refused.decrypted.selector_bodies, other.decrypted.selector_bodies
        return here is None or there is None or there in (here, here[::-1])
    return True


def _is_same(refused: LaterRequest, other: LaterRequest) -> bool:
    return (
        other.from_initiator == refused.from_initiator
        and other.type == refused.type
        and other.purpose == refused.purpose
        and other.decrypted.notify == refused.decrypted.notify
    )


def _is_noteworthy(refused: LaterRequest, count: int, latest_ns: int) -> bool:
    """Whether the refusal is more than a step of the protocol whose next one may be missing."""
    if refused.decrypted.notify == NotifyType.TEMPORARY_FAILURE.label:
        return count >= _MANY_TEMPORARY
    if refused.decrypted.notify == NotifyType.INVALID_KE_PAYLOAD.label:
        return count > 1 or latest_ns > refused.end_ns
    return True


def _describe(refused: LaterRequest, count: int) -> RefusedRequest:
    decrypted = refused.decrypted
    sides = ("initiator", "responder") if refused.from_initiator else ("responder", "initiator")
    return RefusedRequest(
        exchange=refused.exchange,
        type=ExchangeType(refused.type).name,
        sender=sides[0],
        by=sides[1],
        count=count,
        response_bytes=refused.short_bytes,
        notify=decrypted.notify,
        purpose=refused.purpose,
        wanted_method=decrypted.wanted_method,
        offered=decrypted.offered,
        selectors=decrypted.selectors,
        differs_in_key_exchange=decrypted.differs_in_key_exchange,
    )
