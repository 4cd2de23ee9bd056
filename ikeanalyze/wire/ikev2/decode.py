"""Decodes a payload of IKEv2 of any type: `decode_payload` returns one value for each payload."""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.methods import EapMessage, parse_eap_message
from ikeanalyze.wire.ikev2.configuration import Configuration, parse_configuration
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    CertificateRequest,
    Delete,
    Identification,
    KeyExchange,
    Notify,
    parse_authentication,
    parse_certificate,
    parse_certificate_request,
    parse_delete,
    parse_identification,
    parse_key_exchange,
    parse_notify,
)
from ikeanalyze.wire.ikev2.proposals import SecurityAssociation, parse_sa
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelectorPayload, parse_traffic_selectors
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev2 import PayloadType
from ikeanalyze.wire.registries.vendor_ids import get_vendor_name
from ikeanalyze.wire.x509.certificates import ParsedCertificate, decode_certificate

_FRAGMENT: Final = Struct(">HH")


class Nonce(msgspec.Struct, frozen=True):
    """Ni or Nr payload (RFC 7296, section 3.9)."""

    data: bytes


class VendorId(msgspec.Struct, frozen=True):
    """Vendor ID payload (RFC 7296, section 3.12)."""

    data: bytes
    name: str | None  # of a product or an extension; None: unknown


class SkPayload(msgspec.Struct, frozen=True):
    """SK or SKF payload (RFC 7296, section 3.14; RFC 7383, section 2.5), not decrypted."""

    bytes: int  # of IV, ciphertext and ICV
    number: int | None  # of the fragment, from 1; None: SK
    total: int | None  # fragments of the message


class UnparsedPayload(msgspec.Struct, frozen=True):
    """A payload that is not parsed: of group key management (RFC 9838), a puzzle solution (RFC 8019), a secure password
    method (RFC 6467), or of an unassigned type.
    """

    bytes: int  # of the body


class MalformedPayload(msgspec.Struct, frozen=True):
    """A payload that is too short for its fields."""

    error: str  # with the offset in the body


Body = (
    SecurityAssociation | KeyExchange | Identification | ParsedCertificate | CertificateRequest | Authentication
    | Nonce | Notify | Delete | VendorId | TrafficSelectorPayload | Configuration | EapMessage | SkPayload
    | UnparsedPayload | MalformedPayload
)  # fmt: skip


def _parse_eap(body: bytes) -> Body:
    return parse_eap_message(body) or MalformedPayload(f"{len(body)} bytes are not an EAP packet")


def _parse_skf(body: bytes) -> Body:
    cursor = Cursor(body)
    number, total = cursor.unpack(_FRAGMENT)
    return SkPayload(cursor.remaining(), number, total)


_PARSERS: Final[Mapping[int, Callable[[bytes], Body]]] = {
    PayloadType.SA: parse_sa,
    PayloadType.KE: parse_key_exchange,
    PayloadType.IDI: parse_identification,
    PayloadType.IDR: parse_identification,
    PayloadType.CERT: lambda body: decode_certificate(parse_certificate(body)),
    PayloadType.CERTREQ: parse_certificate_request,
    PayloadType.AUTH: parse_authentication,
    PayloadType.NONCE: Nonce,
    PayloadType.NOTIFY: parse_notify,
    PayloadType.DELETE: parse_delete,
    PayloadType.VENDOR_ID: lambda body: VendorId(body, get_vendor_name(body)),
    PayloadType.TSI: parse_traffic_selectors,
    PayloadType.TSR: parse_traffic_selectors,
    PayloadType.SK: lambda body: SkPayload(len(body), None, None),
    PayloadType.CP: parse_configuration,
    PayloadType.EAP: _parse_eap,
    PayloadType.IDG: parse_identification,  # RFC 9838: as IDi
    PayloadType.SKF: _parse_skf,
}


def decode_payload(payload: Payload) -> Body:
    """Decode the body of a payload. Never raises.

    Returns `MalformedPayload` if the body is too short for its fields, `UnparsedPayload` for types that are not parsed.
    """
    parser = _PARSERS.get(payload.type)
    if parser is None:
        return UnparsedPayload(len(payload.body))
    try:
        return parser(payload.body)
    except WireError as problem:
        return MalformedPayload(str(problem))
