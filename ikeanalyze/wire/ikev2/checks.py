"""Checks payloads and messages of IKEv2 for violations of the protocol.

A finding is a text about invalid data that a peer sent; the receiver may have accepted them all the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.methods import EapMessage
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import parse_digital_signature
from ikeanalyze.wire.ikev2.configuration import Configuration
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, Nonce, SkPayload, decode_payload
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange
from ikeanalyze.wire.ikev2.notify_data import check_notify_data, get_notify_name
from ikeanalyze.wire.ikev2.payloads import (
    NONCE_BYTES,
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
UNIQUE_TYPES: Final = frozenset(
    {
        PayloadType.SA, PayloadType.KE, PayloadType.IDI, PayloadType.IDR, PayloadType.AUTH, PayloadType.NONCE,
        PayloadType.TSI, PayloadType.TSR, PayloadType.CP, PayloadType.EAP,
    }
)  # fmt: skip
#: Bytes of an SPI, by protocol (RFC 7296, section 3.11).
_SPI_BYTES: Final[Mapping[int, int]] = {ProtocolId.AH: 4, ProtocolId.ESP: 4}
#: The number of a proposal is one byte.
_MAX_PROPOSALS: Final = 255
#: Bytes of a hash in a certificate request (RFC 7296, section 3.7).
_SHA1_BYTES: Final = 20
#: Findings of one message; a hostile message can cause thousands.
_MAX_FINDINGS: Final = 50


class PayloadCheck(Struct, frozen=True):
    """A payload, its decoded body and the findings."""

    payload: Payload
    body: Body  # its type follows from the payload's
    findings: tuple[str, ...]  # each begins with the payload's name


class MessageCheck(Struct, frozen=True):
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
        if count > 1 and kind in UNIQUE_TYPES:
            findings.append(f"{get_name(PayloadType, kind)}: {count} times instead of once")
    for check in checks:
        findings.extend(check.findings)
    if len(findings) > _MAX_FINDINGS:
        findings[_MAX_FINDINGS - 1 :] = [f"{len(findings) - _MAX_FINDINGS + 1} more findings"]
    return MessageCheck(checks, tuple(findings))


def _check(payload: Payload, body: Body) -> Iterator[str]:
    match body:
        case MalformedPayload(str(error)) | EapMessage(_, _, str(error)):
            yield error
        case SecurityAssociation():
            yield from _check_sa(body)
        case Identification():
            yield from _check_identification(body)
        case ParsedCertificate():
            problem = body.error or check_certificate(parse_certificate(payload.body))
            if problem is not None:
                yield problem
        case CertificateRequest(_, authorities):
            # after the encoding, one byte
            if authorities is not None and (len(payload.body) - 1) % _SHA1_BYTES:
                yield f"{len(payload.body) - 1} bytes are not hashes of {_SHA1_BYTES} bytes each"
        case Authentication():
            yield from _check_authentication(body)
        case Nonce(data):
            if len(data) not in NONCE_BYTES:
                yield f"a nonce of {len(data)} bytes instead of {NONCE_BYTES[0]} to {NONCE_BYTES[-1]}"
        case Notify():
            yield from _check_notify(body)
        case Delete():
            yield from _check_delete(body)
        case TrafficSelectorPayload():
            yield from _check_selectors(body)
        case Configuration():
            yield from _check_configuration(body)
        case SkPayload(_, number, total):
            if number is not None and total is not None and not 1 <= number <= total:
                yield f"fragment {number} of {total}"


def _check_sa(association: SecurityAssociation) -> Iterator[str]:
    proposals = association.proposals
    if association.error is not None:
        yield association.error
    elif not proposals:
        yield "no proposal"
    if len(proposals) > _MAX_PROPOSALS:
        yield f"{len(proposals)} proposals, more than the maximum of {_MAX_PROPOSALS}"
    empty = sum(not proposal.transforms for proposal in proposals)
    if empty and association.error is None:
        yield f"{empty} of {len(proposals)} proposals have no transforms"


def _check_identification(identification: Identification) -> Iterator[str]:
    kind = get_name(IdType, identification.type)
    if identification.type not in IdType._value2member_map_:
        yield f"unknown identification type {kind}"
    elif format_identity(identification.type, identification.data) is None:
        yield f"{len(identification.data)} bytes are not a valid {kind}"


def _check_authentication(authentication: Authentication) -> Iterator[str]:
    if not authentication.data:
        yield "no authentication data"
    elif authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        try:
            if not parse_digital_signature(authentication.data).signature:
                yield "no signature after the algorithm identifier"
        except WireError as problem:
            yield f"algorithm identifier: {problem}"


def _check_notify(notify: Notify) -> Iterator[str]:
    name = get_notify_name(notify.type)
    problem = check_notify_data(notify.type, notify.data)
    if problem is not None:
        yield f"{name}: {problem}"
    size = _SPI_BYTES.get(notify.protocol)
    if notify.spi and size is not None and len(notify.spi) != size:
        yield f"{name}: an SPI of {len(notify.spi)} bytes instead of {size}"


def _check_delete(delete: Delete) -> Iterator[str]:
    protocol = get_name(ProtocolId, delete.protocol)
    size = _SPI_BYTES.get(delete.protocol)
    if delete.announced != len(delete.spis):
        yield f"{delete.announced} SPIs of {protocol} announced, {len(delete.spis)} present"
    elif size is not None and delete.spis and len(delete.spis[0]) != size:
        yield f"SPIs of {protocol} with {len(delete.spis[0])} bytes instead of {size}"


def _check_selectors(selectors: TrafficSelectorPayload) -> Iterator[str]:
    if selectors.error is not None:
        yield selectors.error
    elif selectors.announced != len(selectors.selectors):
        yield f"{selectors.announced} traffic selectors announced, {len(selectors.selectors)} present"
    for selector in selectors.selectors[:_MAX_FINDINGS]:
        if selector.start > selector.end:
            yield f"the range {selector.describe()} ends before its start"
        if selector.start and selector.rest:
            yield f"{len(selector.rest)} bytes follow the addresses of {selector.describe()}"


def _check_configuration(configuration: Configuration) -> Iterator[str]:
    if configuration.error is not None:
        yield configuration.error
    invalid = (entry for entry in configuration.entries if not entry.fits)
    for entry in islice(invalid, _MAX_FINDINGS - bool(configuration.error)):
        yield shorten_text(f"{entry.name} of {len(entry.data)} bytes")
