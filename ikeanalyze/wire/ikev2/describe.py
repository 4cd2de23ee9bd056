"""Payloads of IKEv2 in a few words each, as a daemon's log lists them: `IDi(gw.example) AUTH(PSK) TSi(10.0.0.0/24)`."""

from collections.abc import Iterable, Sequence
from typing import Final

from ikeanalyze.wire.eap.methods import EapMessage, describe_eap
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.configuration import Configuration
from ikeanalyze.wire.ikev2.decode import Body, MalformedPayload, SkPayload, VendorId, decode_payload
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.notify import Notify, describe_notify
from ikeanalyze.wire.ikev2.payloads import Authentication, CertificateRequest, Delete, Identification, KeyExchange
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload
from ikeanalyze.wire.payload_chain import Payload, PayloadChain
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import PayloadType, ProtocolId
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate

#: Entries of a list that are shown; a hostile payload has room for thousands.
_SHOWN: Final = 4
_SHOWN_ATTRIBUTES: Final = 8
#: Hex digits of an unknown vendor ID that are shown.
_SHOWN_DIGITS: Final = 16
_ID_NULL: Final = 13
_IKE: Final = 1


def describe_payloads(chain: PayloadChain | Iterable[Payload]) -> list[str]:
    """Each payload in a few words, in order: SA, KE(ML-KEM-768), No, N(COOKIE), SKF(2/3). Never raises.

    Everything that a peer chose is escaped and shortened, fit for a terminal. A payload that is too short for
    its fields has a question mark: KE(?).
    """
    payloads = chain.payloads if isinstance(chain, PayloadChain) else chain
    return [describe_payload(payload) for payload in payloads]


def describe_payload(payload: Payload, body: Body | None = None) -> str:
    """One payload in a few words; `body`: what `decode_payload` gave for it, where it is at hand."""
    if payload.type not in PayloadType._value2member_map_:
        return f"unknown {payload.type}{' (critical)' if payload.critical else ''}"
    name = get_name(PayloadType, payload.type)
    said = _said(decode_payload(payload) if body is None else body)
    return f"{name}({said})" if said else name


def _said(body: Body) -> str:
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
            return describe_delete(get_name(ProtocolId, body.protocol), len(body.spis), body.protocol == _IKE)
        case VendorId(data, name):
            return describe_vendor_id(data, name)
        case TrafficSelectorPayload(selectors):
            return join_texts([selector.describe() for selector in selectors[:_SHOWN]], len(selectors))
        case Configuration():
            return _configuration(body)
        case EapMessage():
            return describe_eap(body)
        case SkPayload(_, number, total) if number is not None:
            return f"{number}/{total}"
        case _:
            return ""


def describe_certificate(view: ParsedCertificate) -> str:
    """X.509 CN=gw.example, ECDSA P-256; a question mark for what could not be read."""
    if view.x509 is None:
        return shorten_text(view.name) if view.error is None else f"{shorten_text(view.name)}, ?"
    return f"X.509 {shorten_text(view.x509.subject)}, {view.x509.key.name}"


def _configuration(configuration: Configuration) -> str:
    entries = configuration.entries
    texts = []
    for entry in entries[:_SHOWN_ATTRIBUTES]:
        value = entry.value
        texts.append(entry.name if value is None else f"{entry.name}={shorten_text(value)}")
    text = join_texts(texts, len(entries), " ")
    return f"{configuration.name}: {text}" if text else configuration.name


def describe_delete(protocol: str, count: int, whole: bool) -> str:
    """ESP 2 SPIs; IKE alone where the SA goes that the message belongs to."""
    if whole and not count:
        return protocol
    return f"{protocol} {count} {'SPI' if count == 1 else 'SPIs'}"


def describe_vendor_id(data: bytes, name: str | None) -> str:
    """Name of a vendor ID, else how it begins."""
    if name is not None:
        return shorten_text(name)
    digits = data.hex()
    return digits if len(digits) <= _SHOWN_DIGITS else f"{digits[:_SHOWN_DIGITS]}…"


def join_texts(texts: Sequence[str], total: int, between: str = ", ") -> str:
    """Texts in a row; `total`: how many there are, those left out included."""
    more = total - len(texts)
    return between.join([*map(shorten_text, texts), *([f"{more} more"] if more else [])])
