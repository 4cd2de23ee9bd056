"""Chooses the proposals to offer in IKE_SA_INIT, and interprets the response.

RFC 7296, sections 2.6, 2.7, 2.23; RFC 9242; RFC 9370.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from msgspec.structs import replace

from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, PRF, IkeSuite, PrfAlgorithm, get_prf, get_suite
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.initiator.key_exchange import explain_unsupported
from ikeanalyze.replay.responses import format_notify_type
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.message import InitMessage, parse_init, parse_payloads
from ikeanalyze.wire.ikev2.notify_data import parse_hash_algorithms
from ikeanalyze.wire.ikev2.payloads import (
    NONCE_BYTES,
    KeyExchange,
    compute_nat_detection_hash,
    parse_key_exchange,
    parse_notify,
)
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import FIRST_STATUS, NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, TransformType

_NONE: Final = 0  # transform ID NONE
_MAX_TRANSFORMS: Final = 255  # their number is one byte (RFC 7296, section 3.3.1)
_ADDITIONAL_KEY_EXCHANGES: Final = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)


@dataclass(frozen=True, slots=True)
class ReplayProposals:
    """Proposals for IKE_SA_INIT that we support completely."""

    proposals: tuple[Proposal, ...]
    key_exchange: int  # method of the KE payload
    left_out: tuple[str, ...]  # recorded but not offered, each with the reason


def select_proposals(recorded: Sequence[Proposal], method: int) -> ReplayProposals:
    """Return the recorded proposals without transforms that we do not support.

    `method`: the method of the recorded KE payload; replaced by an offered one if it is not supported.

    Raises:
        CannotReplayError: no proposal is left.
    """
    proposals: list[Proposal] = []
    left_out: dict[str, None] = {}
    for proposal in recorded:
        usable, reasons = _filter_transforms(proposal)
        left_out.update(dict.fromkeys(reasons))
        if usable is not None:
            # numbers count from 1 without a gap (RFC 7296, section 3.3.1)
            proposals.append(replace(usable, number=len(proposals) + 1))
    methods = list_key_exchange_methods(proposals)
    if not methods:
        reason = "; ".join(left_out) or "the request has none"
        raise CannotReplayError(f"none of the recorded proposals can be offered: {reason}")
    if method not in methods:
        if unsupported := explain_unsupported(method):
            left_out[unsupported] = None
        method = methods[0]
    return ReplayProposals(tuple(proposals), method, tuple(left_out))


def list_key_exchange_methods(proposals: Sequence[Proposal]) -> list[int]:
    """Return the key exchange methods offered for IKE_SA_INIT, in order."""
    transforms = (transform for proposal in proposals for transform in proposal.transforms)
    return [transform.id for transform in transforms if transform.type == TransformType.KE]


def is_offered(chosen: Proposal, offered: Sequence[Proposal]) -> bool:
    """Whether `chosen` has one alternative of each transform type of an offered proposal (RFC 7296, section 2.7)."""
    for proposal in offered:
        if proposal.number != chosen.number or proposal.protocol != chosen.protocol:
            continue
        types = [transform.type for transform in chosen.transforms]
        needed = {transform.type for transform in proposal.transforms}
        optional = {transform.type for transform in proposal.transforms if transform.id == _NONE}
        return (
            len(set(types)) == len(types)
            and needed - optional <= set(types)
            and all(transform in proposal.transforms for transform in chosen.transforms)
        )
    return False


def _filter_transforms(proposal: Proposal) -> tuple[Proposal | None, list[str]]:
    """Return a proposal without unsupported transforms, and the reasons; None if a type has no supported transform."""
    if len(proposal.transforms) > _MAX_TRANSFORMS:
        return None, [f"a proposal with more than {_MAX_TRANSFORMS} transforms cannot be encoded"]
    explained = [(transform, _explain_unsupported_transform(transform)) for transform in proposal.transforms]
    usable = tuple(transform for transform, reason in explained if reason is None)
    reasons = [reason for _, reason in explained if reason is not None]
    lost = {transform.type for transform in proposal.transforms} - {transform.type for transform in usable}
    return (None if lost or not usable else replace(proposal, transforms=usable)), reasons


def _explain_unsupported_transform(transform: Transform) -> str | None:
    """Return why we do not support a transform, in one clause; None: we do."""
    kind, number = transform.type, transform.id
    if kind == TransformType.ENCR:
        algorithm = ENCRYPTION.get(number)
        if number != Encryption.NULL and algorithm and algorithm.get_key_bytes(transform.key_bits) is not None:
            return None
    elif kind == TransformType.PRF:
        if number in PRF:
            return None
    elif kind == TransformType.INTEG:
        if number in INTEGRITY or number == _NONE:
            return None
    elif kind in _ADDITIONAL_KEY_EXCHANGES and number == _NONE:
        return None
    elif kind == TransformType.KE or kind in _ADDITIONAL_KEY_EXCHANGES:
        return explain_unsupported(number)
    return f"{get_name(TransformType, kind)} {transform.name} is not supported"


_NO_SPI: Final = bytes(8)

Endpoint = tuple[str, int]  # address, UDP port


@dataclass(frozen=True, slots=True)
class CookieRequest:
    """The request must be sent again with this cookie."""

    data: bytes


@dataclass(frozen=True, slots=True)
class KeyExchangeMethodRequest:
    """The request must be sent again with a KE payload of this method."""

    method: int


@dataclass(frozen=True, slots=True)
class InitRefusal:
    """The responder refuses, or its response is not acceptable."""

    reason: str  # name of a notify, or a clause


@dataclass(frozen=True, slots=True)
class InitAcceptance:
    """The negotiated parameters."""

    spi_r: bytes
    chosen: Proposal
    prf: PrfAlgorithm
    suite: IkeSuite
    key_exchange: KeyExchange  # the responder's
    nonce: bytes  # the responder's
    additional: tuple[int, ...]  # methods of the additional key exchanges, in order
    nat: bool | None  # NAT detected; None: the responder does not support NAT detection
    fragmentation: bool  # the responder supports IKE fragmentation
    hash_algorithms: tuple[int, ...] | None  # for signatures; None: RFC 7427 is not supported
    childless: bool  # the responder supports an IKE SA without Child SA


Answer = CookieRequest | KeyExchangeMethodRequest | InitRefusal | InitAcceptance


def parse_init_response(
    data: bytes, offered: Sequence[Proposal], method: int, local: Endpoint, remote: Endpoint
) -> Answer:
    """Interpret an IKE_SA_INIT response whose header was checked. Never raises.

    `method`: of our KE payload. `local`, `remote`: source and destination of the request, for NAT detection.
    """
    view = parse_init(data)
    notifies = dict(reversed(view.notifies))  # of several of one type, the first
    if not view.proposals and NotifyType.COOKIE in notifies:
        return CookieRequest(notifies[NotifyType.COOKIE])
    requested = notifies.get(NotifyType.INVALID_KE_PAYLOAD)
    if requested is not None and len(requested) == 2:
        return KeyExchangeMethodRequest(int.from_bytes(requested))
    error = next((kind for kind, _ in view.notifies if kind < FIRST_STATUS), None)
    if error is None and NotifyType.REDIRECT in notifies:
        error = NotifyType.REDIRECT
    if error is not None:
        return InitRefusal(format_notify_type(error))
    if view.error is not None:
        return InitRefusal(f"invalid response to IKE_SA_INIT: {view.error}")
    return _check_acceptance(data, view, notifies, offered, method, local, remote)


def _check_acceptance(
    data: bytes,
    view: InitMessage,
    notifies: dict[int, bytes],
    offered: Sequence[Proposal],
    method: int,
    local: Endpoint,
    remote: Endpoint,
) -> InitAcceptance | InitRefusal:
    """Return the negotiated parameters, unless the response lacks something or does not fit the request."""
    chosen, suite, prf = view.chosen, get_suite(view.chosen), get_prf(view.chosen)
    spi_i, spi_r = data[:8], data[8:16]
    if chosen is None or view.ke_method is None or view.nonce is None:
        return InitRefusal("the response to IKE_SA_INIT lacks SA, KE or nonce")
    if spi_r == _NO_SPI or len(view.nonce) not in NONCE_BYTES:
        return InitRefusal("the response to IKE_SA_INIT has no SPI or a nonce of invalid length")
    if len(view.proposals) > 1 or suite is None or prf is None or not is_offered(chosen, offered):
        return InitRefusal(f"the responder chose {chosen.describe()}, which was not offered")
    agreed = next((transform.id for transform in chosen.transforms if transform.type == TransformType.KE), None)
    for peer_method in (agreed, view.ke_method):
        if peer_method != method:
            name = "none" if peer_method is None else get_key_exchange_name(peer_method)
            return InitRefusal(f"the responder's key exchange is {name}, ours {get_key_exchange_name(method)}")
    identifiers = ((transform.type, transform.id) for transform in chosen.transforms)
    additional = sorted((kind, number) for kind, number in identifiers if kind in _ADDITIONAL_KEY_EXCHANGES and number)
    if additional and NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED not in notifies:
        return InitRefusal("the responder chose additional key exchanges, but does not support IKE_INTERMEDIATE")
    body = next(payload.body for payload in parse_payloads(data).payloads if payload.type == PayloadType.KE)
    hashes = notifies.get(NotifyType.SIGNATURE_HASH_ALGORITHMS)
    return InitAcceptance(
        spi_r=spi_r,
        chosen=chosen,
        prf=prf,
        suite=suite,
        key_exchange=parse_key_exchange(body),
        nonce=view.nonce,
        additional=tuple(number for _, number in additional),
        nat=_detect_nat(view.notifies, spi_i, spi_r, local, remote),
        fragmentation=NotifyType.IKEV2_FRAGMENTATION_SUPPORTED in notifies,
        hash_algorithms=None if hashes is None else parse_hash_algorithms(hashes),
        childless=NotifyType.CHILDLESS_IKEV2_SUPPORTED in notifies,
    )


def list_error_notifies(chain: Iterable[Payload]) -> list[int]:
    """Return the types of the error notifies among payloads, in order."""
    types = []
    for payload in chain:
        if payload.type == PayloadType.NOTIFY:
            with suppress(WireError):
                kind = parse_notify(payload.body).type
                if kind < FIRST_STATUS:
                    types.append(kind)
    return types


def get_first_error(chain: Iterable[Payload]) -> str | None:
    """Return the name of the first error notify among payloads; None: no error."""
    return next(map(format_notify_type, list_error_notifies(chain)), None)


def compute_nat_hashes(spi_i: bytes, spi_r: bytes, source: Endpoint, destination: Endpoint) -> tuple[bytes, bytes]:
    """Return the data of NAT_DETECTION_SOURCE_IP and NAT_DETECTION_DESTINATION_IP (RFC 7296, section 2.23)."""
    first, second = (
        compute_nat_detection_hash(spi_i, spi_r, ip_address(address).packed, port)
        for address, port in (source, destination)
    )
    return first, second


def _detect_nat(
    notifies: Sequence[tuple[int, bytes]], spi_i: bytes, spi_r: bytes, local: Endpoint, remote: Endpoint
) -> bool | None:
    """Return whether the responder's hashes show a NAT; None: it did not send both kinds.

    Without a NAT, one of the source hashes is that of the responder's endpoint, and one of the destination hashes that
    of ours.
    """
    source, destination = compute_nat_hashes(spi_i, spi_r, remote, local)
    hashes = {
        kind: [data for notify_type, data in notifies if notify_type == kind]
        for kind in (NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP)
    }
    if not all(hashes.values()):
        return None
    sources, destinations = hashes.values()
    return source not in sources or destination not in destinations
