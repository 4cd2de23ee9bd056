"""Extract proposals, supported extensions and authentication methods from clear messages, for the report."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.exchanges.hip_exchange_types import CLOSE, EXCHANGE, I1_R1, I2_R2
from ikeanalyze.capture.arrays import Float64Array, Int64Array
from ikeanalyze.wire.header import is_truncated_message
from ikeanalyze.wire.ikev2.message import InitMessage
from ikeanalyze.wire.ikev2.proposals import Proposal
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.ikev2 import ExchangeType, HashAlgorithm
from ikeanalyze.wire.registries.ikev2_notifies import FIRST_STATUS, NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import TransformType
from ikeanalyze.wire.registries.radius import RadiusCode
from ikeanalyze.wire.registries.vendor_ids import get_vendor_name

#: Notifies by which a responder asks for another IKE_SA_INIT request (RFC 7296, 1.3 and 2.6).
WANTS_ANOTHER_REQUEST: Final = (NotifyType.COOKIE, NotifyType.INVALID_KE_PAYLOAD)
#: Status notifies with which the responder refuses the first request: it should go to another gateway (RFC 5685), or
#: its ticket of session resumption is not valid (RFC 5723, section 4.3).
_REFUSALS: Final = (NotifyType.REDIRECT, NotifyType.TICKET_NACK)
#: Status notifies of IKE_SA_INIT that do not say what a peer supports.
_NOT_ABILITIES: Final = frozenset(
    {
        NotifyType.NAT_DETECTION_SOURCE_IP,
        NotifyType.NAT_DETECTION_DESTINATION_IP,
        NotifyType.COOKIE,
        NotifyType.REDIRECT,
        NotifyType.REDIRECTED_FROM,
    }
)

_HIP_EXCHANGES: Final = {I1_R1: "I1-R1", I2_R2: "I2-R2", CLOSE: "CLOSE-CLOSE_ACK"}

#: The report's words for IKEv1's authentication methods; the others keep their registry's names.
_IKEV1_AUTH: Final = {"PSK": "psk", "RSA-SIG": "rsa", "DSS-SIG": "dss", "RSA": "rsa", "DSS": "dss"}


class ChosenProposal(Struct, frozen=True):
    """A chosen proposal."""

    encryption: str | None
    prf: str | None
    integrity: str | None
    key_exchange: str | None
    additional: tuple[tuple[int, str, int], ...] = ()  # slot (1 to 7), method, its number


class AuthMethods(Struct, frozen=True):
    """How the peers authenticated."""

    initiator: str | None
    responder: str | None
    eap: str | None
    guessed: bool


class InitFacts(Struct, frozen=True):
    """What one form of IKE_SA_INIT message tells, or the messages of one side in another protocol."""

    proposals: tuple[str, ...]
    chosen: ChosenProposal | None  # its first proposal: in a response, the one that was chosen
    supports: tuple[str, ...]
    error: str | None  # an error notify, REDIRECT or TICKET_NACK: the responder did not take the request
    wanted: str | None = None  # COOKIE or INVALID_KE_PAYLOAD, by which a responder asks for another request
    truncated: bool | None = False  # the capture has only the beginning of a message: it may tell more; None: unknown


class Phase1Facts(Struct, frozen=True):
    """What the clear messages of an IKEv1 handshake tell."""

    request: InitFacts  # as of an IKE_SA_INIT request: the offer and what the initiator supports
    response: InitFacts  # as of a response: the choice and what the responder supports
    auth: AuthMethods | None
    error: str | None  # an error notify


def get_exchange_name(version: int, exchange_type: int) -> str:
    """Name of an exchange type of IKEv2 or IKEv1; its number where there is none."""
    return get_name(ExchangeType if version == 2 else ikev1_registry.Ikev1ExchangeType, exchange_type)


@cache
def build_type_names() -> tuple[str, ...]:
    """Names of messages and exchanges by `Protocol` * 256 + number: exchange types of IKE, RADIUS codes, HIP packet
    types, followed by the HIP exchanges (see `hip_exchange_types`).
    """
    names = [get_exchange_name(version, number) for version in (2, 1) for number in range(256)]
    names += [get_name(RadiusCode, code) for code in range(256)]
    packets = [get_name(HipPacketType, number) for number in range(EXCHANGE)]
    return (*names, *packets, *(_HIP_EXCHANGES.get(EXCHANGE + number, name) for number, name in enumerate(packets)))


def extract_init_facts(view: InitMessage) -> InitFacts:
    """Facts of an IKE_SA_INIT message."""
    supports: list[str] = []
    error = wanted = None
    for notify_type in view.notify_types:
        if notify_type in WANTS_ANOTHER_REQUEST:
            wanted = wanted or get_name(NotifyType, notify_type)
        elif notify_type < FIRST_STATUS or notify_type in _REFUSALS:
            error = error or get_name(NotifyType, notify_type)
        elif notify_type == NotifyType.SIGNATURE_HASH_ALGORITHMS:
            supports.extend(map(_describe_signature_hashes, view.list_notify_data(notify_type)))
        elif notify_type not in _NOT_ABILITIES:
            supports.append(get_name(NotifyType, notify_type))
    supports.extend(_describe_vendors(view.vendor_ids))
    return InitFacts(
        proposals=tuple(proposal.describe() for proposal in view.proposals),
        chosen=_make_chosen_proposal(view.proposals[0]) if view.proposals else None,
        supports=tuple(dict.fromkeys(supports)),
        error=error,
        wanted=wanted,
        truncated=view.is_truncated,
    )


def extract_proposal_facts(offered: Sequence[Proposal], chosen: Proposal) -> InitFacts:
    """The same of a CREATE_CHILD_SA exchange that made an IKE SA."""
    return InitFacts(
        tuple(proposal.describe() for proposal in offered), _make_chosen_proposal(chosen), (), None, truncated=None
    )


def _describe_signature_hashes(data: bytes) -> str:
    numbers = [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data) - 1, 2)]
    names = [get_name(HashAlgorithm, number) for number in numbers]
    return f"SIGNATURE_HASH_ALGORITHMS({', '.join(names)})"


def _describe_vendors(vendor_ids: Sequence[bytes]) -> list[str]:
    return [f"vendor {get_vendor_name(vendor_id) or vendor_id.hex()}" for vendor_id in vendor_ids]


def _make_chosen_proposal(proposal: Proposal) -> ChosenProposal:
    names: dict[int, str] = {}
    for transform in proposal.transforms:
        names.setdefault(transform.type, transform.name)
    additional = ((slot, method.name, method.id) for slot, method in proposal.list_additional_key_exchanges())
    return ChosenProposal(
        encryption=names.get(TransformType.ENCR),
        prf=names.get(TransformType.PRF),
        integrity=names.get(TransformType.INTEG),
        key_exchange=names.get(TransformType.KE),
        additional=tuple(sorted(additional)),
    )


def extract_phase1_facts(messages: Sequence[tuple[bool, bytes]]) -> Phase1Facts:
    """Facts of IKEv1's clear messages, given in order of time with whether the initiator sent them."""
    # here, because few captures have IKEv1
    from ikeanalyze.wire.ikev1.message import parse_phase1_message
    from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType

    offered: tuple[str, ...] = ()
    chosen: ChosenProposal | None = None
    auth: AuthMethods | None = None
    error: str | None = None
    supports: tuple[dict[str, None], dict[str, None]] = ({}, {})
    truncated = [False, False]
    for from_initiator, data in messages:
        view = parse_phase1_message(data)
        truncated[not from_initiator] |= is_truncated_message(data)
        for name in _describe_vendors(view.vendor_ids):
            supports[not from_initiator][name] = None
        if view.transforms and from_initiator and not offered:
            offered = tuple(transform.describe() for transform in view.transforms)
        elif view.transforms and not from_initiator and chosen is None:
            first = view.transforms[0]
            chosen = ChosenProposal(first.encryption, first.hash, first.hash, first.group)
            auth = _get_phase1_auth_methods(first.auth)
        for notify_type in view.notifies:
            if notify_type < FIRST_STATUS:
                error = error or get_name(Ikev1NotifyType, notify_type)
    request = InitFacts(offered, None, tuple(supports[0]), None, truncated=truncated[0])
    response = InitFacts((), chosen, tuple(supports[1]), None, truncated=truncated[1])
    return Phase1Facts(request, response, auth, error)


def _get_phase1_auth_methods(method: str | None) -> AuthMethods | None:
    """The methods of both sides, by the registry's name: XAuthInitPSK is a PSK, and XAuth of the initiator."""
    if method is None:
        return None
    for prefix, peers in (("XAuth", True), ("Hybrid", False)):
        if method.startswith((f"{prefix}Init", f"{prefix}Resp")):
            name = method[len(prefix) + 4 :]
            word = _IKEV1_AUTH.get(name, name)
            # hybrid authentication leaves the one who does XAuth without a method of its own
            asked = f"{word}+xauth" if peers else "xauth"
            both = (asked, word) if method.startswith(f"{prefix}Init") else (word, asked)
            return AuthMethods(*both, None, guessed=False)
    word = _IKEV1_AUTH.get(method, method.lower())
    return AuthMethods(word, word, None, guessed=False)


#: Largest IKE_AUTH message, in bytes, without a certificate: with a single small ECDSA certificate it has 650 or more.
_LARGEST_PSK: Final = 500
#: Smallest IKE_AUTH message, in bytes, with an identity and an AUTH payload: a smaller one is a refusal.
_SMALLEST_AUTH: Final = 150


def guess_auth(rounds: int, request_bytes: float, response_bytes: float) -> AuthMethods | None:
    """Guess the authentication from what can be seen without keys: how many IKE_AUTH exchanges, and how large.

    More than one exchange is EAP (RFC 7296, 2.16) or multiple authentication (RFC 4739). With one, messages too small
    for a certificate mean a pre-shared key (or, rarely, signatures with certificates that were not sent); large ones
    mean signatures, of unknown kind.
    """
    if rounds > 1:
        return AuthMethods("eap", None, None, guessed=True)
    if not rounds:
        return None
    psk = [_SMALLEST_AUTH <= size <= _LARGEST_PSK for size in (request_bytes, response_bytes)]
    if not any(psk):
        return None
    return AuthMethods("psk" if psk[0] else None, "psk" if psk[1] else None, None, guessed=True)


def guess_auths(
    rounds: Int64Array, request_bytes: Float64Array, response_bytes: Float64Array
) -> tuple[list[AuthMethods], Int64Array]:
    """`guess_auth` for many handshakes: the distinct guesses, and for each an index into them, -1: none. (n,)"""
    case = np.minimum(rounds, 2)
    for size in (request_bytes, response_bytes):
        case = case * 2 + ((size >= _SMALLEST_AUTH) & (size <= _LARGEST_PSK))
    guesses: list[AuthMethods] = []
    result = np.full(len(rounds), -1, np.int64)
    _, firsts, inverse = np.unique(case, return_index=True, return_inverse=True)
    for number, first in enumerate(firsts.tolist()):
        guess = guess_auth(int(rounds[first]), float(request_bytes[first]), float(response_bytes[first]))
        if guess is not None:
            result[inverse == number] = len(guesses)
            guesses.append(guess)
    return guesses, result
