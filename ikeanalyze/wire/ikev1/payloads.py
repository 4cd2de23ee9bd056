"""Payloads of IKEv1, one value each: identities, notifies, deletes, configuration (RFC 2408, section 3; RFC 2407,
section 4.6), as far as clear or decrypted messages are shown.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev1.message import Ikev1Fragment
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
#: DOI, protocol, SPI size, type.
_NOTIFY: Final = Struct(">IBBH")
#: DOI, protocol, SPI size, number of SPIs.
_DELETE: Final = Struct(">IBBH")
#: Type, identifier.
_TRANSACTION: Final = Struct(">BxH")
#: Identification type.
_ADDRESS: Final = Struct(">B3x")
#: Fragment ID, number, flags.
_FRAGMENT: Final = Struct(">HBB")
_LAST: Final = 0x01

#: XAuth attributes whose values are shown. All others, and so all that is a password or an answer, are not even kept.
_SHOWN: Final = frozenset({XauthAttribute.XAUTH_USER_NAME, XauthAttribute.XAUTH_DOMAIN, XauthAttribute.XAUTH_MESSAGE})


@dataclass(frozen=True, slots=True)
class Ikev1Identification:
    """ID payload (RFC 2407, section 4.6.2)."""

    type: int
    protocol: int  # IP protocol of the traffic; 0: any
    port: int  # 0: any
    data: bytes

    @property
    def text(self) -> str | None:
        """As text, fit to be shown; None if the data do not fit the type."""
        return format_identity(self.type, self.data)


@dataclass(frozen=True, slots=True)
class Ikev1Notify:
    """Notification payload (RFC 2408, section 3.14)."""

    doi: int
    protocol: int
    type: int
    spi: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class Ikev1Delete:
    """Delete payload (RFC 2408, section 3.15)."""

    protocol: int  # 1 ISAKMP, 2 AH, 3 ESP
    spis: tuple[bytes, ...]  # of ISAKMP: both cookies
    announced: int  # number of SPIs as the payload says, which must be that of `spis`


@dataclass(frozen=True, slots=True)
class Transaction:
    """Attributes payload of XAuth and mode configuration (draft-dukes-ike-mode-cfg, section 3.2)."""

    type: int  # 1 request, 2 reply, 3 set, 4 acknowledgement
    ident: int
    names: tuple[str, ...]  # of the attributes, in order
    texts: tuple[str | None, ...]  # their values, where they may be shown and are text


@dataclass(frozen=True, slots=True)
class Ikev1VendorId:
    """Vendor ID payload (RFC 2408, section 3.16)."""

    data: bytes
    name: str | None  # None: not known


@dataclass(frozen=True, slots=True)
class Address:
    """NAT-OA payload: an address before translation (RFC 3947, section 5.2)."""

    text: str | None


@dataclass(frozen=True, slots=True)
class UnparsedIkev1Payload:
    """A payload that tells by its type and size alone: KE, HASH, SIG, No, NAT-D, SA ..."""

    bytes: int


@dataclass(frozen=True, slots=True)
class MalformedIkev1Payload:
    """A payload that is too short for its fields."""

    error: str


Body1 = (
    Ikev1Identification | Ikev1Notify | Ikev1Delete | Transaction | ParsedCertificate | Ikev1VendorId | Address | Ikev1Fragment
    | UnparsedIkev1Payload | MalformedIkev1Payload
)  # fmt: skip


def decode_ikev1_payload(payload: Payload) -> Body1:
    """What a payload says. Never raises: `MalformedIkev1Payload` if it is too short for its fields.

    The SA payload is read by `ikev1_sa.read_phase1_sa` in phase 1 and by `ikev1_phase2.read_phase2_sa` in
    quick mode; the payload itself does not tell which it is of.
    """
    try:
        return _read(payload.type, payload.body)
    except WireError as problem:
        return MalformedIkev1Payload(str(problem))


def _read(kind: int, body: bytes) -> Body1:
    cursor = Cursor(body)
    match kind:
        case Ikev1PayloadType.ID:
            identification, protocol, port = cursor.unpack(_IDENTIFICATION)
            return Ikev1Identification(identification, protocol, port, cursor.get_remaining())
        case Ikev1PayloadType.CERT:
            return decode_certificate(Certificate(cursor.get_uint8(), cursor.get_remaining()))
        case Ikev1PayloadType.NOTIFY:
            doi, protocol, size, number = cursor.unpack(_NOTIFY)
            return Ikev1Notify(doi, protocol, number, cursor.get_bytes(size), cursor.get_remaining())
        case Ikev1PayloadType.DELETE:
            return _delete(cursor)
        case Ikev1PayloadType.ATTRIBUTES:
            return _transaction(cursor)
        case Ikev1PayloadType.VENDOR_ID:
            return Ikev1VendorId(body, get_vendor_name(body))
        case Ikev1PayloadType.NAT_OA | Ikev1PayloadType.NAT_OA_DRAFT:
            return Address(format_identity(cursor.unpack(_ADDRESS)[0], cursor.get_remaining()))
        case Ikev1PayloadType.FRAGMENT:
            ident, number, flags = cursor.unpack(_FRAGMENT)
            return Ikev1Fragment(ident, number, bool(flags & _LAST))
        case _:
            return UnparsedIkev1Payload(len(body))


def _delete(cursor: Cursor) -> Ikev1Delete:
    _, protocol, size, announced = cursor.unpack(_DELETE)
    count = cursor.remaining() // size if size else 0
    return Ikev1Delete(protocol, tuple(cursor.get_bytes(size) for _ in range(count)), announced)


def _transaction(cursor: Cursor) -> Transaction:
    kind, ident = cursor.unpack(_TRANSACTION)
    names, texts = [], []
    while cursor.remaining():
        attribute = parse_attribute(cursor)
        names.append(get_transaction_attribute_name(attribute.type))
        value = attribute.value
        shown = attribute.type in _SHOWN and isinstance(value, bytes) and value
        texts.append(escape_peer_text(value) if shown and isinstance(value, bytes) else None)
    return Transaction(kind, ident, tuple(names), tuple(texts))
