"""Checks payloads and messages of IKEv2 for violations of the protocol.

A finding is a text about invalid data that a peer sent; the receiver may have accepted them all the same.
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
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, Nonce, SkPayload, decode_payload
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange
from ikeanalyze.wire.ikev2.notify_data import check_notify_data, get_notify_name
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    Notify,
    parse_certificate,
)
from ikeanalyze.wire.ikev2.proposals import SecurityAssociation
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import AuthMethod, IdType, PayloadType, ProtocolId
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate, check_certificate

#: Payloads that occur at most once in a message.
_UNIQUE_TYPES: Final = frozenset(
    {
        PayloadType.SA, PayloadType.KE, PayloadType.IDI, PayloadType.IDR, PayloadType.AUTH, PayloadType.NONCE,
        PayloadType.TSI, PayloadType.TSR, PayloadType.CP, PayloadType.EAP,
    }
)  # fmt: skip
#: Bytes of a nonce (RFC 7296, section 3.9).
_NONCE_BYTES: Final = range(16, 257)
#: Bytes of an SPI, by protocol (RFC 7296, section 3.11).
_SPI_BYTES: Final[Mapping[int, int]] = {ProtocolId.AH: 4, ProtocolId.ESP: 4}
#: The number of a proposal is one byte.
_MAX_PROPOSALS: Final = 255
#: Bytes of a hash in a certificate request (RFC 7296, section 3.7).
_SHA1_BYTES: Final = 20
#: Findings of one message; a hostile message can cause thousands.
_MAX_FINDINGS: Final = 50


@dataclass(frozen=True, slots=True)
class PayloadCheck:
    """A payload, its decoded body and the findings."""

    payload: Payload
    body: Body  # its type follows from the payload's
    findings: tuple[str, ...]  # each begins with the payload's name


@dataclass(frozen=True, slots=True)
class MessageCheck:
    """The payloads of a message and the findings."""

    payloads: tuple[PayloadCheck, ...]
    findings: tuple[str, ...]  # of the payloads and of the message as a whole, 50 at most


def check_payload(payload: Payload, *, response: bool | None = None, method: int | None = None) -> PayloadCheck:
    """Decode and check one payload. Never raises.

    `response`: whether its message is a response, which distinguishes an ML-KEM ciphertext from an encapsulation key;
    `method`: the key exchange method that was negotiated for a KE payload. None: unknown, not checked.
    """
    body = decode_payload(payload)
    if payload.type not in PayloadType._value2member_map_:
        if not payload.critical:
            return PayloadCheck(payload, body, ())
        finding = f"payload of unknown type {payload.type} is critical: the receiver must reject the message"
        return PayloadCheck(payload, body, (finding,))
    name = get_name(PayloadType, payload.type)
    problems = check_key_exchange(body, response, method) if isinstance(body, KeyExchange) else _check(payload, body)
    return PayloadCheck(payload, body, tuple(f"{name}: {problem}" for problem in problems))


def check_payload_chain(
    chain: PayloadChain, *, response: bool | None = None, method: int | None = None
) -> MessageCheck:
    """Decode and check all payloads of a message; the options are those of `check_payload`. Never raises."""
    checks = tuple(check_payload(payload, response=response, method=method) for payload in chain.payloads)
    findings = [] if chain.error is None else [f"payloads: {chain.error}"]
    counts = Counter(payload.type for payload in chain.payloads)
    for kind, count in counts.items():
        if count > 1 and kind in _UNIQUE_TYPES:
            findings.append(f"{get_name(PayloadType, kind)}: {count} times instead of once")
    for check in checks:
        findings.extend(check.findings)
    if len(findings) > _MAX_FINDINGS:
        findings[_MAX_FINDINGS - 1 :] = [f"{len(findings) - _MAX_FINDINGS + 1} more findings"]
    return MessageCheck(checks, tuple(findings))


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
            # after the encoding, one byte
            if authorities is not None and (len(payload.body) - 1) % _SHA1_BYTES:
                return [f"{len(payload.body) - 1} bytes are not hashes of {_SHA1_BYTES} bytes each"]
        case Authentication():
            return _check_authentication(body)
        case Nonce(data):
            if len(data) not in _NONCE_BYTES:
                return [f"a nonce of {len(data)} bytes instead of {_NONCE_BYTES[0]} to {_NONCE_BYTES[-1]}"]
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
    return []


def _check_sa(association: SecurityAssociation) -> list[str]:
    findings = [] if association.error is None else [association.error]
    proposals = association.proposals
    if not proposals and association.error is None:
        findings.append("no proposal")
    if len(proposals) > _MAX_PROPOSALS:
        findings.append(f"{len(proposals)} proposals, more than the maximum of {_MAX_PROPOSALS}")
    empty = sum(not proposal.transforms for proposal in proposals)
    if empty and association.error is None:
        findings.append(f"{empty} of {len(proposals)} proposals have no transforms")
    return findings


def _check_identification(identification: Identification) -> list[str]:
    kind = get_name(IdType, identification.type)
    if identification.type not in IdType._value2member_map_:
        return [f"unknown identification type {kind}"]
    if format_identity(identification.type, identification.data) is None:
        return [f"{len(identification.data)} bytes are not a valid {kind}"]
    return []


def _check_certificate(payload: Payload, certificate: ParsedCertificate) -> list[str]:
    if certificate.error is not None:
        return [certificate.error]
    problem = check_certificate(parse_certificate(payload.body))
    return [] if problem is None else [problem]


def _check_authentication(authentication: Authentication) -> list[str]:
    if not authentication.data:
        return ["no authentication data"]
    if authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        try:
            digital_signature = parse_digital_signature(authentication.data)
        except WireError as problem:
            return [f"algorithm identifier: {problem}"]
        if not digital_signature.signature:
            return ["no signature after the algorithm identifier"]
    return []


def _check_notify(notify: Notify) -> list[str]:
    findings = []
    problem = check_notify_data(notify.type, notify.data)
    if problem is not None:
        findings.append(f"{get_notify_name(notify.type)}: {problem}")
    size = _SPI_BYTES.get(notify.protocol)
    if notify.spi and size is not None and len(notify.spi) != size:
        findings.append(f"{get_notify_name(notify.type)}: an SPI of {len(notify.spi)} bytes instead of {size}")
    return findings


def _check_delete(delete: Delete) -> list[str]:
    protocol = get_name(ProtocolId, delete.protocol)
    if delete.announced != len(delete.spis):
        return [f"{delete.announced} SPIs of {protocol} announced, {len(delete.spis)} present"]
    size = _SPI_BYTES.get(delete.protocol)
    if size is not None and delete.spis and len(delete.spis[0]) != size:
        return [f"SPIs of {protocol} with {len(delete.spis[0])} bytes instead of {size}"]
    return []


def _check_selectors(selectors: TrafficSelectorPayload) -> list[str]:
    findings = [] if selectors.error is None else [selectors.error]
    if selectors.error is None and selectors.announced != len(selectors.selectors):
        findings.append(f"{selectors.announced} traffic selectors announced, {len(selectors.selectors)} present")
    for selector in selectors.selectors[:_MAX_FINDINGS]:
        if selector.start > selector.end:
            findings.append(f"the range {selector.describe()} ends before its start")
        if selector.start and selector.rest:
            findings.append(f"{len(selector.rest)} bytes follow the addresses of {selector.describe()}")
    return findings


def _check_configuration(configuration: Configuration) -> list[str]:
    findings = [] if configuration.error is None else [configuration.error]
    for entry in configuration.entries:
        if not entry.fits and len(findings) < _MAX_FINDINGS:
            findings.append(shorten_text(f"{entry.name} of {len(entry.data)} bytes"))
    return findings
