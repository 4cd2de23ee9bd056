"""Describes payloads of IKEv2 in a few words each, as logs of daemons do: `IDi(gw.example) AUTH(PSK) TSi(::/0)`."""

from collections.abc import Iterable, Sequence
from typing import Final

from ikeanalyze.wire.eap.methods import EapMessage, describe_eap
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.configuration import Configuration
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, SkPayload, VendorId, decode_payload
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.notify_data import describe_notify
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    Notify,
)
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType, ProtocolId
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate

#: Entries of a list that are shown; a hostile payload can hold thousands.
_MAX_SELECTORS: Final = 4
_MAX_ATTRIBUTES: Final = 8
#: Hex digits of an unknown vendor ID that are shown.
_MAX_DIGITS: Final = 16


def describe_payloads(chain: PayloadChain | Iterable[Payload]) -> list[str]:
    """A short text for each payload, in order: SA, KE(ML-KEM-768), No, N(COOKIE), SKF(2/3). Never raises.

    Values chosen by a peer are escaped and shortened, so that a terminal can show them. A payload that is too short for
    its fields is shown with a question mark: KE(?).
    """
    payloads = chain.payloads if isinstance(chain, PayloadChain) else chain
    return [describe_payload(payload) for payload in payloads]


def describe_payload(payload: Payload, body: Body | None = None) -> str:
    """A short text for one payload; `body`: the result of `decode_payload`, if the caller already has it."""
    if payload.type not in PayloadType._value2member_map_:
        return f"unknown {payload.type}{' (critical)' if payload.critical else ''}"
    name = get_name(PayloadType, payload.type)
    details = _describe_body(decode_payload(payload) if body is None else body)
    return f"{name}({details})" if details else name


def _describe_body(body: Body) -> str:
    match body:
        case MalformedPayload():
            return "?"
        case KeyExchange(method, _):
            return get_key_exchange_name(method)
        case Identification():
            return shorten_text(format_identity(body.type, body.data) or "?")
        case ParsedCertificate():
            return describe_certificate(body)
        case CertificateRequest(_, authorities):
            return "" if authorities is None else str(authorities)
        case Authentication():
            return shorten_text(get_authentication_name(body))
        case Notify():
            return describe_notify(body)
        case Delete():
            return describe_delete(get_name(ProtocolId, body.protocol), len(body.spis), body.protocol == ProtocolId.IKE)
        case VendorId(data, name):
            return describe_vendor_id(data, name)
        case TrafficSelectorPayload(selectors):
            return join_texts([selector.describe() for selector in selectors[:_MAX_SELECTORS]], len(selectors))
        case Configuration():
            return _describe_configuration(body)
        case EapMessage():
            return describe_eap(body)
        case SkPayload(_, number, total) if number is not None:
            return f"{number}/{total}"
        case _:
            return ""


def describe_certificate(certificate: ParsedCertificate) -> str:
    """A short text for a certificate: X.509 CN=gw.example, ECDSA P-256; with a question mark if it is malformed."""
    if certificate.x509 is not None:
        return f"X.509 {shorten_text(certificate.x509.subject)}, {certificate.x509.key.name}"
    return shorten_text(certificate.name) + (", ?" if certificate.error is not None else "")


def _describe_configuration(configuration: Configuration) -> str:
    entries = configuration.entries
    texts = []
    for entry in entries[:_MAX_ATTRIBUTES]:
        value = entry.value
        texts.append(entry.name if value is None else f"{entry.name}={shorten_text(value)}")
    text = join_texts(texts, len(entries), " ")
    return f"{configuration.name}: {text}" if text else configuration.name


def describe_delete(protocol: str, count: int, ike_sa: bool) -> str:
    """A short text for a delete payload: "ESP 2 SPIs"; "IKE" for the IKE SA of the message."""
    if ike_sa and not count:
        return protocol
    return f"{protocol} {count} {'SPI' if count == 1 else 'SPIs'}"


def describe_vendor_id(data: bytes, name: str | None) -> str:
    """Name of a vendor ID, or else its first bytes in hex digits."""
    if name is not None:
        return shorten_text(name)
    digits = data.hex()
    return digits if len(digits) <= _MAX_DIGITS else f"{digits[:_MAX_DIGITS]}…"


def join_texts(texts: Sequence[str], total: int, separator: str = ", ") -> str:
    """Join texts; `total`: their number including omitted ones, which are shown as "3 more"."""
    more = total - len(texts)
    return separator.join([*map(shorten_text, texts), *([f"{more} more"] if more else [])])
