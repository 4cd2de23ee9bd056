"""Parses the data of EAP packets by method (RFC 3748, section 5), and describes them.

Keeps identities, but only the sizes of passwords, hashes and responses to challenges.
"""

import re
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.aka import SimAka, parse_sim_aka
from ikeanalyze.wire.eap.packet import EapPacket, parse_eap_header
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import SIM_AKA_METHODS, TLS_METHODS, EapCode, EapType, MsChapOperation
from ikeanalyze.wire.text import escape_peer_text, shorten_text

_HEADER_BYTES: Final = 4
_EXPANDED_BYTES: Final = 8
#: Type and vendor, type of the vendor (RFC 3748, section 5.7).
_EXPANDED: Final = Struct(">II")
_VENDOR_MASK: Final = 0xFFFFFF
#: Operation, identifier, length.
_MSCHAP: Final = Struct(">BBH")
_MSCHAP_ERROR: Final = re.compile(r"\bE=(\d{1,9})\b")
_MSCHAP_TEXT: Final = re.compile(r"\bM=(.*)", re.DOTALL)

_LENGTH_INCLUDED, _MORE_FRAGMENTS, _START, _OUTER_TLV = 0x80, 0x40, 0x20, 0x10
_VERSION_MASK: Final = 0x07


class EapIdentity(msgspec.Struct, frozen=True):
    """Identity (RFC 3748, section 5.1)."""

    text: str | None  # response: the peer's identity; request: a prompt; None: empty


class EapNotification(msgspec.Struct, frozen=True):
    """Notification (RFC 3748, section 5.2)."""

    text: str


class EapNak(msgspec.Struct, frozen=True):
    """Nak, legacy or expanded (RFC 3748, section 5.3)."""

    methods: tuple[str, ...]  # methods that the peer proposes instead


class EapMd5Challenge(msgspec.Struct, frozen=True):
    """MD5-Challenge (RFC 3748, section 5.4): the request has a challenge, the response its digest."""

    value_bytes: int
    name: str | None  # of the sending system


class EapToken(msgspec.Struct, frozen=True):
    """One-time password or generic token card (RFC 3748, sections 5.5 and 5.6)."""

    prompt: str | None  # of a request; None: a response, which is a password
    value_bytes: int


class EapMsChapV2(msgspec.Struct, frozen=True):
    """EAP-MSCHAPv2 (draft-kamath-pppext-eap-mschapv2)."""

    operation: int  # 1 challenge, 2 response, 3 success, 4 failure, 7 change of password
    name: str | None  # challenge: of the sending system; response: of the user
    error: int | None  # of a failure: 691 authentication failed, 648 password expired ...
    message: str | None  # of a success or failure, for the user


class EapTlsPacket(msgspec.Struct, frozen=True):
    """One packet of a method that uses TLS (RFC 5216, section 3.1)."""

    start: bool
    more: bool  # fragments of the same TLS message follow
    total_bytes: int | None  # of the complete TLS message; None: absent
    bytes: int  # of the TLS message in this packet
    version: int | None  # of PEAP, TTLS, FAST and TEAP; None: EAP-TLS

    @property
    def acknowledgement(self) -> bool:
        """The packet is empty: it acknowledges the previous fragment or message."""
        return not (self.start or self.more or self.bytes or self.total_bytes)


class UnparsedEapMethod(msgspec.Struct, frozen=True):
    """A method that is not parsed."""

    bytes: int  # of its data


EapContent = (
    EapIdentity
    | EapNotification
    | EapNak
    | EapMd5Challenge
    | EapToken
    | EapMsChapV2
    | EapTlsPacket
    | SimAka
    | UnparsedEapMethod
)


class EapMessage(msgspec.Struct, frozen=True):
    """An EAP packet and the data of its method."""

    packet: EapPacket
    content: EapContent | None  # None: a success, a failure, or malformed
    error: str | None  # the malformed part; None: parsing succeeded


def parse_eap_message(data: bytes) -> EapMessage | None:
    """Parse an EAP packet; None if the header is truncated. Never raises: `error` is set if the packet is malformed.

    Bytes after the length in the header do not belong to the packet.
    """
    packet = parse_eap_header(data)
    if packet is None:
        return None
    error = None
    if packet.length > len(data):
        error = f"the EAP header announces {packet.length} bytes, the packet has {len(data)}"
    elif packet.length < _HEADER_BYTES:
        error = f"the EAP packet has a length of {packet.length}, less than its 4-byte header"
    elif packet.length < len(data):
        error = f"{len(data) - packet.length} bytes follow the EAP packet"
    if packet.code not in (EapCode.REQUEST, EapCode.RESPONSE):
        if packet.code not in EapCode._value2member_map_:
            error = error or f"unknown EAP code {packet.code}"
        return EapMessage(packet, None, error)
    cursor = Cursor(data, _HEADER_BYTES, packet.length)
    try:
        expanded = cursor.read_uint8() == EapType.EXPANDED
        if expanded:
            cursor.skip(_EXPANDED_BYTES - 1)
        return EapMessage(packet, _parse_content(packet, cursor, expanded), error)
    except WireError as problem:
        return EapMessage(packet, None, error or f"{_get_type_name(packet)}: {problem}")


def _parse_content(packet: EapPacket, cursor: Cursor, expanded: bool) -> EapContent:
    response = packet.code == EapCode.RESPONSE
    kind = None if packet.vendor else packet.type
    if kind == EapType.IDENTITY:
        return EapIdentity(_read_text(cursor))
    if kind == EapType.NOTIFICATION:
        return EapNotification(_read_text(cursor) or "")
    if kind == EapType.NAK:
        return EapNak(_parse_expanded_nak(cursor) if expanded else _parse_nak(cursor))
    if kind == EapType.MD5:
        value = cursor.read_bytes(cursor.read_uint8())
        return EapMd5Challenge(len(value), _read_text(cursor))
    if kind in (EapType.GTC, EapType.OTP):
        size = cursor.remaining()
        return EapToken(None if response else _read_text(cursor), size)
    if kind == EapType.MSCHAPV2:
        return _parse_mschap(cursor, response)
    if kind in TLS_METHODS:
        return _parse_tls(cursor, None if kind == EapType.TLS else _VERSION_MASK, kind == EapType.TEAP)
    if kind in SIM_AKA_METHODS:
        return parse_sim_aka(cursor)
    return UnparsedEapMethod(cursor.remaining())


def _read_text(cursor: Cursor) -> str | None:
    data = cursor.read_remaining()
    return escape_peer_text(data) if data else None


def _parse_nak(cursor: Cursor) -> tuple[str, ...]:
    return tuple(get_name(EapType, kind) for kind in cursor.read_remaining() if kind)


def _parse_expanded_nak(cursor: Cursor) -> tuple[str, ...]:
    methods = []
    while cursor.remaining():
        type_and_vendor, kind = cursor.unpack(_EXPANDED)
        vendor = type_and_vendor & _VENDOR_MASK
        if vendor:
            methods.append(f"EAP-expanded-{vendor}-{kind}")
        elif kind:
            methods.append(get_name(EapType, kind))
    return tuple(methods)


def _parse_mschap(cursor: Cursor, response: bool) -> EapMsChapV2:
    if response and cursor.remaining() == 1:
        # the response to a success or a failure has only the operation
        return EapMsChapV2(cursor.read_uint8(), None, None, None)
    operation, _, _ = cursor.unpack(_MSCHAP)
    if operation in (MsChapOperation.CHALLENGE, MsChapOperation.RESPONSE):
        cursor.skip(cursor.read_uint8())
        return EapMsChapV2(operation, _read_text(cursor), None, None)
    if operation not in (MsChapOperation.SUCCESS, MsChapOperation.FAILURE):
        return EapMsChapV2(operation, None, None, None)
    text = _read_text(cursor) or ""
    error, message = _MSCHAP_ERROR.search(text), _MSCHAP_TEXT.search(text)
    failed = operation == MsChapOperation.FAILURE and error is not None
    return EapMsChapV2(operation, None, int(error[1]) if failed and error else None, message[1] if message else None)


def _parse_tls(cursor: Cursor, version_mask: int | None, has_outer_tlvs: bool) -> EapTlsPacket:
    flags = cursor.read_uint8()
    total = cursor.read_uint32() if flags & _LENGTH_INCLUDED else None
    # only TEAP: the length of TLVs after the TLS message (RFC 7170, section 4.1)
    tlv_bytes = cursor.read_uint32() if has_outer_tlvs and flags & _OUTER_TLV else 0
    size = cursor.remaining() - tlv_bytes
    if size < 0:
        raise cursor.make_error(f"{tlv_bytes} bytes of outer TLVs announced, {cursor.remaining()} left")
    return EapTlsPacket(
        bool(flags & _START),
        bool(flags & _MORE_FRAGMENTS),
        total,
        size,
        None if version_mask is None else flags & version_mask,
    )


def _get_type_name(packet: EapPacket) -> str:
    if packet.type is None:
        return "no type"
    if packet.vendor:
        return f"expanded {packet.vendor}-{packet.type}"
    if packet.type == EapType.MD5:
        return "MD5-Challenge"
    return get_name(EapType, packet.type).removeprefix("EAP-")


def describe_eap(message: EapMessage) -> str:
    """A short text for an EAP packet: "Response MD5-Challenge", "Request TLS start", "Success"."""
    packet = message.packet
    code = get_name(EapCode, packet.code)
    if packet.code not in (EapCode.REQUEST, EapCode.RESPONSE):
        return code
    details = _describe_content(message.content, packet.code == EapCode.RESPONSE)
    return " ".join(filter(None, (code, _get_type_name(packet), details)))


def _describe_content(content: EapContent | None, response: bool) -> str:
    match content:
        case EapIdentity(text) if text and response:
            return shorten_text(text)
        case EapNotification(text):
            return shorten_text(text)
        case EapNak(methods):
            return f"for {shorten_text(', '.join(methods))}" if methods else "for none"
        case EapMsChapV2(operation, _, error, _):
            name = get_name(MsChapOperation, operation)
            return name if error is None else f"{name} {error}"
        case EapTlsPacket():
            if content.acknowledgement:
                return "acknowledgement"
            if content.start:
                return "start"
            more = "+" if content.more else ""
            return f"{content.bytes}{more} bytes"
        case SimAka():
            return content.describe()
        case _:
            return ""
