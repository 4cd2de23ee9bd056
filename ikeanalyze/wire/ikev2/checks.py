"""What is wrong with a payload or a message of IKEv2, in words: findings, for a reader who has to decide whom to
blame.

A finding is about bytes that no peer should send; whether anyone minds is another question.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.methods import EapMessage
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import parse_digital_signature
from ikeanalyze.wire.ikev2.configuration import Configuration
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, Nonce, SkPayload, UnparsedPayload, decode_payload
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange
from ikeanalyze.wire.ikev2.notify import Notify
from ikeanalyze.wire.ikev2.notify_data import get_notify_name, validation_error
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    parse_certificate,
)
from ikeanalyze.wire.ikev2.proposals import SecurityAssociation
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import AuthMethod, IdType, PayloadType, ProtocolId
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate, check_certificate

#: Payloads that a message has once at most.
_ONCE: Final = frozenset(
    {
        PayloadType.SA, PayloadType.KE, PayloadType.IDI, PayloadType.IDR, PayloadType.AUTH, PayloadType.NONCE,
        PayloadType.TSI, PayloadType.TSR, PayloadType.CP, PayloadType.EAP,
    }
)  # fmt: skip
#: Bytes of a nonce (RFC 7296, section 3.9).
_NONCE_BYTES: Final = range(16, 257)
#: Bytes of an SPI, by protocol (RFC 7296, section 3.11).
_SPI_BYTES: Final[Mapping[int, int]] = {ProtocolId.AH: 4, ProtocolId.ESP: 4}
#: A proposal's number has one byte.
_PROPOSALS: Final = 255
#: An RFC 7296 certificate request has SHA-1 hashes.
_SHA1: Final = 20
#: Findings that are given of one message; a hostile one has room for thousands of the same.
_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class PayloadCheck:
    """A payload, what it says and what is wrong with it."""

    payload: Payload
    body: Body  # its type follows from the payload's
    findings: tuple[str, ...]  # each begins with the payload's name; empty: nothing to say against it


@dataclass(frozen=True, slots=True)
class MessageCheck:
    """All payloads of a message."""

    payloads: tuple[PayloadCheck, ...]
    findings: tuple[str, ...]  # of the payloads and of the message as a whole, 50 at most


def check_payload(payload: Payload, *, response: bool | None = None, method: int | None = None) -> PayloadCheck:
    """Read and check one payload. Never raises.

    `response`: whether its message is a response, which tells an ML-KEM ciphertext from an encapsulation key;
    `method`: the key exchange method that was negotiated for what a KE payload is in. None: not known, not
    checked.
    """
    body = decode_payload(payload)
    if payload.type not in PayloadType._value2member_map_:
        if not payload.critical:
            return PayloadCheck(payload, body, ())
        what = f"payload of the unknown type {payload.type} is critical: its receiver has to refuse the message"
        return PayloadCheck(payload, body, (what,))
    name = get_name(PayloadType, payload.type)
    found = check_key_exchange(body, response, method) if isinstance(body, KeyExchange) else _check(payload, body)
    return PayloadCheck(payload, body, tuple(f"{name}: {what}" for what in found))


def check_payload_chain(
    chain: PayloadChain, *, response: bool | None = None, method: int | None = None
) -> MessageCheck:
    """Read and check all payloads of a message; the options are those of `check_payload`. Never raises."""
    inspected = tuple(check_payload(payload, response=response, method=method) for payload in chain.payloads)
    found = [] if chain.error is None else [f"payloads: {chain.error}"]
    counts = Counter(payload.type for payload in chain.payloads)
    for kind, count in counts.items():
        if count > 1 and kind in _ONCE:
            found.append(f"{get_name(PayloadType, kind)}: {count} times, one is allowed")
    for inspection in inspected:
        found.extend(inspection.findings)
    if len(found) > _MOST:
        found[_MOST - 1 :] = [f"{len(found) - _MOST + 1} more findings"]
    return MessageCheck(inspected, tuple(found))


def _check(payload: Payload, body: Body) -> list[str]:
    match body:
        case MalformedPayload(error):
            return [error]
        case SecurityAssociation():
            return _check_sa(body)
        case Identification():
            return _check_identification(body)
        case ParsedCertificate():
            return _check_certificate(payload, body)
        case CertificateRequest(_, authorities):
            # the first byte is the encoding
            if authorities is not None and (len(payload.body) - 1) % _SHA1:
                return [f"{len(payload.body) - 1} bytes are not hashes of {_SHA1} bytes each"]
        case Authentication():
            return _check_authentication(body)
        case Nonce(data):
            if len(data) not in _NONCE_BYTES:
                return [f"a nonce of {len(data)} bytes, it has to have {_NONCE_BYTES[0]} to {_NONCE_BYTES[-1]}"]
        case Notify():
            return _check_notify(body)
        case Delete():
            return _check_delete(body)
        case TrafficSelectorPayload():
            return _check_selectors(body)
        case Configuration():
            return _check_configuration(body)
        case EapMessage(_, _, error):
            return [] if error is None else [error]
        case SkPayload(_, number, total):
            if number is not None and total is not None and not 1 <= number <= total:
                return [f"fragment {number} of {total}"]
        case UnparsedPayload() | _:
            pass
    return []


def _check_sa(association: SecurityAssociation) -> list[str]:
    found = [] if association.error is None else [association.error]
    proposals = association.proposals
    if not proposals and association.error is None:
        found.append("no proposal")
    if len(proposals) > _PROPOSALS:
        found.append(f"{len(proposals)} proposals, numbers go to {_PROPOSALS}")
    empty = sum(not proposal.transforms for proposal in proposals)
    if empty and association.error is None:
        found.append(f"{empty} of {len(proposals)} proposals without a transform")
    return found


def _check_identification(identification: Identification) -> list[str]:
    kind = get_name(IdType, identification.type)
    if identification.type not in IdType._value2member_map_:
        return [f"unknown identification type {kind}"]
    if format_identity(identification.type, identification.data) is None:
        return [f"{len(identification.data)} bytes are no {kind}"]
    return []


def _check_certificate(payload: Payload, view: ParsedCertificate) -> list[str]:
    if view.error is not None:
        return [view.error]
    problem = check_certificate(parse_certificate(payload.body))
    return [] if problem is None else [problem]


def _check_authentication(authentication: Authentication) -> list[str]:
    if not authentication.data:
        return ["no authentication data"]
    if authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        try:
            signed = parse_digital_signature(authentication.data)
        except WireError as problem:
            return [f"algorithm identifier: {problem}"]
        if not signed.signature:
            return ["no signature behind the algorithm identifier"]
    return []


def _check_notify(notify: Notify) -> list[str]:
    found = []
    problem = validation_error(notify.type, notify.data)
    if problem is not None:
        found.append(f"{get_notify_name(notify.type)}: {problem}")
    size = _SPI_BYTES.get(notify.protocol)
    if notify.spi and size is not None and len(notify.spi) != size:
        found.append(f"{get_notify_name(notify.type)}: an SPI of {len(notify.spi)} bytes instead of {size}")
    return found


def _check_delete(delete: Delete) -> list[str]:
    protocol = get_name(ProtocolId, delete.protocol)
    if delete.announced != len(delete.spis):
        return [f"{delete.announced} SPIs of {protocol} announced, {len(delete.spis)} there"]
    size = _SPI_BYTES.get(delete.protocol)
    if size is not None and delete.spis and len(delete.spis[0]) != size:
        return [f"SPIs of {protocol} with {len(delete.spis[0])} bytes instead of {size}"]
    return []


def _check_selectors(selectors: TrafficSelectorPayload) -> list[str]:
    found = [] if selectors.error is None else [selectors.error]
    if selectors.error is None and selectors.announced != len(selectors.selectors):
        found.append(f"{selectors.announced} traffic selectors announced, {len(selectors.selectors)} there")
    for selector in selectors.selectors[:_MOST]:
        if selector.start > selector.end:
            found.append(f"the range {selector.describe()} ends before it begins")
        if selector.start and selector.rest:
            found.append(f"{len(selector.rest)} bytes follow the addresses of {selector.describe()}")
    return found


def _check_configuration(configuration: Configuration) -> list[str]:
    found = [] if configuration.error is None else [configuration.error]
    for entry in configuration.entries:
        if not entry.fits and len(found) < _MOST:
            found.append(shorten_text(f"{entry.name} of {len(entry.data)} bytes"))
    return found
