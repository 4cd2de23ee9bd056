"""Decodes payloads of IKEv1, one value each (RFC 2408, section 3; RFC 2407, section 4.6), except SA payloads."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev1.message import Ikev1Fragment, parse_ikev1_fragment_fields
from ikeanalyze.wire.ikev2.decode import MalformedPayload, UnparsedPayload, VendorId
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.ikev2.proposals import parse_attribute
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev1 import Ikev1PayloadType
from ikeanalyze.wire.registries.ikev1_phase2 import XauthAttribute, get_transaction_attribute_name
from ikeanalyze.wire.registries.vendor_ids import get_vendor_name
from ikeanalyze.wire.text import escape_peer_text
from ikeanalyze.wire.x509.certificates import ParsedCertificate, decode_certificate

#: Type, protocol, port.
_IDENTIFICATION: Final = Struct(">BBH")
#: DOI, protocol, SPI size, and the type of a notification or the number of deleted SPIs.
_PROTOCOL_AND_SPI: Final = Struct(">IBBH")
#: Type, identifier.
_TRANSACTION: Final = Struct(">BxH")
#: Identification type.
_ADDRESS: Final = Struct(">B3x")

#: XAuth attributes whose values are kept. The others may be passwords or responses to challenges.
_KEPT_ATTRIBUTES: Final = frozenset(
    {XauthAttribute.XAUTH_USER_NAME, XauthAttribute.XAUTH_DOMAIN, XauthAttribute.XAUTH_MESSAGE}
)


class Ikev1Identification(msgspec.Struct, frozen=True):
    """ID payload (RFC 2407, section 4.6.2)."""

    type: int
    protocol: int  # IP protocol of the traffic; 0: any
    port: int  # 0: any
    data: bytes

    @property
    def text(self) -> str | None:
        """The identity as printable text; None if the data are invalid for the type."""
        return format_identity(self.type, self.data)


class Ikev1Notify(msgspec.Struct, frozen=True):
    """Notification payload (RFC 2408, section 3.14)."""

    doi: int
    protocol: int
    type: int
    spi: bytes
    data: bytes


class Ikev1Delete(msgspec.Struct, frozen=True):
    """Delete payload (RFC 2408, section 3.15)."""

    protocol: int  # 1 ISAKMP, 2 AH, 3 ESP
    spis: tuple[bytes, ...]  # for ISAKMP: both cookies
    announced: int  # number of SPIs in the payload's header, must be the length of `spis`


class Transaction(msgspec.Struct, frozen=True):
    """Attributes payload of XAuth and mode configuration (draft-dukes-ike-mode-cfg, section 3.2)."""

    type: int  # 1 request, 2 reply, 3 set, 4 acknowledgement
    ident: int
    names: tuple[str, ...]  # of the attributes, in order
    texts: tuple[str | None, ...]  # their values; None: not kept, or not text


class NatOriginalAddress(msgspec.Struct, frozen=True):
    """NAT-OA payload: an address before its translation (RFC 3947, section 5.2)."""

    text: str | None  # None: invalid


Ikev1Body = (
    Ikev1Identification | Ikev1Notify | Ikev1Delete | Transaction | ParsedCertificate | VendorId
    | NatOriginalAddress | Ikev1Fragment | UnparsedPayload | MalformedPayload
)  # fmt: skip


def decode_ikev1_payload(payload: Payload) -> Ikev1Body:
    """Decode the body of a payload. Never raises.

    Returns `MalformedPayload` if the body is too short for its fields, `UnparsedPayload` for KE, HASH, SIG, SA ...
    """
    try:
        return _parse(payload.type, payload.body)
    except WireError as problem:
        return MalformedPayload(str(problem))


def _parse(kind: int, body: bytes) -> Ikev1Body:
    cursor = Cursor(body)
    match kind:
        case Ikev1PayloadType.ID:
            identification, protocol, port = cursor.unpack(_IDENTIFICATION)
            return Ikev1Identification(identification, protocol, port, cursor.read_remaining())
        case Ikev1PayloadType.CERT:
            return decode_certificate(Certificate(cursor.read_uint8(), cursor.read_remaining()))
        case Ikev1PayloadType.NOTIFY:
            doi, protocol, size, number = cursor.unpack(_PROTOCOL_AND_SPI)
            return Ikev1Notify(doi, protocol, number, cursor.read_bytes(size), cursor.read_remaining())
        case Ikev1PayloadType.DELETE:
            return _parse_delete(cursor)
        case Ikev1PayloadType.ATTRIBUTES:
            return _parse_transaction(cursor)
        case Ikev1PayloadType.VENDOR_ID:
            return VendorId(body, get_vendor_name(body))
        case Ikev1PayloadType.NAT_OA | Ikev1PayloadType.NAT_OA_DRAFT:
            return NatOriginalAddress(format_identity(cursor.unpack(_ADDRESS)[0], cursor.read_remaining()))
        case Ikev1PayloadType.FRAGMENT:
            return parse_ikev1_fragment_fields(cursor)
        case _:
            return UnparsedPayload(len(body))


def _parse_delete(cursor: Cursor) -> Ikev1Delete:
    _, protocol, size, announced = cursor.unpack(_PROTOCOL_AND_SPI)
    count = cursor.remaining() // size if size else 0
    return Ikev1Delete(protocol, tuple(cursor.read_bytes(size) for _ in range(count)), announced)


def _parse_transaction(cursor: Cursor) -> Transaction:
    kind, ident = cursor.unpack(_TRANSACTION)
    names, texts = [], []
    while cursor.remaining():
        attribute = parse_attribute(cursor)
        names.append(get_transaction_attribute_name(attribute.type))
        value = attribute.value if attribute.type in _KEPT_ATTRIBUTES else None
        texts.append(escape_peer_text(value) if isinstance(value, bytes) and value else None)
    return Transaction(kind, ident, tuple(names), tuple(texts))
