"""Decodes and describes the data of IKEv2 notifies. Types that are missing here have no data, or unspecified data."""

from collections.abc import Callable, Container, Mapping
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.auth_methods import SignatureAlgorithm, get_auth_method_name, parse_algorithm
from ikeanalyze.wire.ikev2.payloads import Notify
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, parse_attributes
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.ikev2 import HashAlgorithm, PayloadType, PpkIdType, SecurePasswordMethod
from ikeanalyze.wire.registries.ikev2_notifies import (
    GatewayIdentity,
    IpcompTransform,
    NotifyType,
    PrivateNotifyType,
    RohcAttribute,
)
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod, Prf
from ikeanalyze.wire.text import escape_peer_text, format_address, shorten_text

_IPCOMP: Final = Struct(">HB")
_PUZZLE: Final = Struct(">HB")
_MESSAGE_IDS: Final = Struct(">4sII")
_PORTS: Final = Struct(">HH")
#: Type and length of a gateway's identity.
_GATEWAY: Final = Struct(">BB")
_PPK_CONFIRMATION_BYTES: Final = 8
#: Length and authentication method of an announcement.
_ANNOUNCEMENT: Final = Struct(">BB")
_CONGESTION_CONTROL, _DONT_FRAGMENT = 0x02, 0x01
_HASH_BYTES: Final = 20
#: Bytes of a cookie (RFC 7296, section 2.6; RFC 4555, section 4.2) and of a token (RFC 6290, section 4.1).
COOKIE_BYTES: Final = range(1, 65)
_COOKIE2_BYTES: Final = range(8, 65)
_TOKEN_BYTES: Final = range(16, 129)
#: Bytes of each address in NO_NATS_ALLOWED, by bytes of its data.
_ADDRESS_BYTES: Final = {12: 4, 36: 16}
#: Seconds of the units of a GPRS timer 3, by number (3GPP TS 24.008, section 10.5.7.4a); unit 7: deactivated.
_TIMER_UNITS: Final = (600, 3600, 36000, 2, 30, 60, 1152000)


class Redirect(msgspec.Struct, frozen=True):
    """Data of REDIRECT and REDIRECTED_FROM (RFC 5685, sections 7.2 and 7.3)."""

    gateway_type: int
    gateway: str  # address or name; hex digits if the type is unknown
    nonce: bytes  # the initiator's nonce, in responses to IKE_SA_INIT; otherwise empty


class Ipcomp(msgspec.Struct, frozen=True):
    """IPCOMP_SUPPORTED (RFC 7296, section 2.22)."""

    cpi: int  # compression parameter index
    transform: int


class NoNatsAllowed(msgspec.Struct, frozen=True):
    """NO_NATS_ALLOWED (RFC 4555, section 4.2): addresses and ports of the packet as sent."""

    source: str
    destination: str
    source_port: int
    destination_port: int


class ResumptionTicket(msgspec.Struct, frozen=True):
    """TICKET_LT_OPAQUE (RFC 5723, section 7): a ticket to resume the IKE SA."""

    lifetime: int  # seconds
    ticket: bytes  # opaque to the client


class MessageIdSync(msgspec.Struct, frozen=True):
    """IKEV2_MESSAGE_ID_SYNC (RFC 6311): message IDs after a failover in a cluster."""

    nonce: bytes
    send: int  # message ID of the sender's next request
    receive: int  # message ID of the next request that the sender expects


class PuzzleChallenge(msgspec.Struct, frozen=True):
    """PUZZLE (RFC 8019, section 8.1)."""

    prf: int
    difficulty: int  # number of trailing zero bits that a solution needs
    cookie: bytes


class PpkIdentity(msgspec.Struct, frozen=True):
    """PPK_IDENTITY (RFC 8784, section 5.1) and PPK_IDENTITY_KEY (RFC 9867)."""

    type: int
    identity: bytes
    confirmation: bytes | None  # of PPK_IDENTITY_KEY: 8 bytes that prove knowledge of the key


class AuthAnnouncement(msgspec.Struct, frozen=True):
    """One method in SUPPORTED_AUTH_METHODS (RFC 9593, section 3.2)."""

    method: int
    link: int | None  # CERTREQ payload that the method applies to, from 1; 0: all; None: absent
    algorithm: SignatureAlgorithm | None  # of methods that need one

    @property
    def name(self) -> str:
        """Short name of the algorithm, or else of the method."""
        return get_auth_method_name(self.method) if self.algorithm is None else self.algorithm.name


class Aggfrag(msgspec.Struct, frozen=True):
    """USE_AGGFRAG (RFC 9347, section 5.1)."""

    congestion_control: bool  # the sender requests congestion control information
    dont_fragment: bool  # the sender does not support fragmented packets


class BackoffTimer(msgspec.Struct, frozen=True):
    """BACKOFF_TIMER of 3GPP (TS 24.302, section 8.2.9.1)."""

    seconds: int | None  # None: deactivated


class DeviceIdentity(msgspec.Struct, frozen=True):
    """DEVICE_IDENTITY of 3GPP (TS 24.302, section 8.2.9.2)."""

    type: int  # 1 IMEI, 2 IMEISV
    digits: str  # empty: a request for the identity


NotifyValue = (
    int
    | bytes
    | str
    | tuple[int, ...]
    | tuple[TransformAttributeValue, ...]
    | tuple[AuthAnnouncement, ...]
    | Redirect
    | Ipcomp
    | NoNatsAllowed
    | ResumptionTicket
    | MessageIdSync
    | PuzzleChallenge
    | PpkIdentity
    | Aggfrag
    | BackoffTimer
    | DeviceIdentity
)


def parse_hash_algorithms(data: bytes) -> tuple[int, ...]:
    """Numbers in SIGNATURE_HASH_ALGORITHMS (RFC 7427, section 4); an odd last byte is ignored."""
    cursor = Cursor(data)
    return tuple(cursor.read_uint16() for _ in range(len(data) // 2))


def parse_redirect(data: bytes) -> Redirect:
    """Parse the data of REDIRECT or REDIRECTED_FROM (RFC 5685, section 7).

    Raises:
        WireError: they are too short.
    """
    cursor = Cursor(data)
    kind, size = cursor.unpack(_GATEWAY)
    identity = cursor.read_bytes(size)
    if kind in (GatewayIdentity.IPV4, GatewayIdentity.IPV6):
        gateway = format_address(identity) or identity.hex()
    elif kind == GatewayIdentity.FQDN:
        gateway = identity.decode("utf-8", "backslashreplace")
    else:
        gateway = identity.hex()
    return Redirect(kind, gateway, cursor.read_remaining())


def _check_size(data: bytes, sizes: Container[int]) -> bytes:
    if len(data) not in sizes:
        raise WireError(0, f"invalid size of {len(data)} bytes")
    return data


def _number(*sizes: int) -> Callable[[bytes], int]:
    return lambda data: int.from_bytes(_check_size(data, sizes), "big")


def _bytes(sizes: Container[int]) -> Callable[[bytes], bytes]:
    return lambda data: _check_size(data, sizes)


def _address(size: int) -> Callable[[bytes], str]:
    return lambda data: format_address(_check_size(data, (size,))) or ""


def _parse_no_nats_allowed(data: bytes) -> NoNatsAllowed:
    size = _ADDRESS_BYTES[len(_check_size(data, _ADDRESS_BYTES))]
    cursor = Cursor(data)
    source, destination = (format_address(cursor.read_bytes(size)) or "" for _ in range(2))
    return NoNatsAllowed(source, destination, *cursor.unpack(_PORTS))


def _parse_ticket(data: bytes) -> ResumptionTicket:
    cursor = Cursor(data)
    return ResumptionTicket(cursor.read_uint32(), cursor.read_remaining())


def _parse_message_ids(data: bytes) -> MessageIdSync:
    return MessageIdSync(*Cursor(_check_size(data, (_MESSAGE_IDS.size,))).unpack(_MESSAGE_IDS))


def _parse_puzzle(data: bytes) -> PuzzleChallenge:
    cursor = Cursor(data)
    prf, difficulty = cursor.unpack(_PUZZLE)
    return PuzzleChallenge(prf, difficulty, cursor.read_remaining())


def _parse_ppk_identity(data: bytes) -> PpkIdentity | None:
    if not data:
        return None  # the responder used the PPK that the initiator named (RFC 8784, section 3)
    cursor = Cursor(data)
    return PpkIdentity(cursor.read_uint8(), cursor.read_remaining(), None)


def _parse_ppk_identity_key(data: bytes) -> PpkIdentity:
    cursor = Cursor(data)
    kind = cursor.read_uint8()
    identity = cursor.read_bytes(cursor.remaining() - _PPK_CONFIRMATION_BYTES)
    return PpkIdentity(kind, identity, cursor.read_remaining())


def _parse_announcements(data: bytes) -> tuple[AuthAnnouncement, ...]:
    cursor = Cursor(data)
    announcements = []
    while cursor.remaining():
        offset = cursor.position
        size, method = cursor.unpack(_ANNOUNCEMENT)
        if size < _ANNOUNCEMENT.size:
            raise WireError(offset, f"announcement has a length of {size}, less than its 2-byte header")
        with cursor.restrict_to(size - _ANNOUNCEMENT.size):
            link = cursor.read_uint8() if cursor.remaining() else None
            algorithm = parse_algorithm(cursor.read_remaining()) if cursor.remaining() else None
        announcements.append(AuthAnnouncement(method, link, algorithm))
    return tuple(announcements)


def _parse_aggfrag(data: bytes) -> Aggfrag:
    flags = Cursor(data).read_uint8()
    return Aggfrag(bool(flags & _CONGESTION_CONTROL), bool(flags & _DONT_FRAGMENT))


def _parse_backoff_timer(data: bytes) -> BackoffTimer:
    cursor = Cursor(data)
    timer = Cursor(cursor.read_bytes(cursor.read_uint8())).read_uint8()
    unit, count = timer >> 5, timer & 0x1F
    return BackoffTimer(None if unit >= len(_TIMER_UNITS) else _TIMER_UNITS[unit] * count)


def _parse_device_identity(data: bytes) -> DeviceIdentity:
    cursor = Cursor(data)
    identity = Cursor(cursor.read_bytes(cursor.read_uint16()))
    kind = identity.read_uint8()
    # two digits per byte, the first one in the lower bits; 15 is padding
    digits = "".join(f"{byte & 0x0F:x}{byte >> 4:x}" for byte in identity.read_remaining())
    return DeviceIdentity(kind, digits.rstrip("f"))


_PARSERS: Final[Mapping[int, Callable[[bytes], NotifyValue | None]]] = {
    NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD: _number(1),  # RFC 7296, section 2.5
    NotifyType.INVALID_MESSAGE_ID: _number(4),  # RFC 7296, section 2.3
    NotifyType.INVALID_SPI: bytes,  # RFC 7296, section 1.5
    NotifyType.INVALID_KE_PAYLOAD: lambda data: Cursor(data).read_uint16(),  # RFC 7296, section 1.3
    NotifyType.SET_WINDOW_SIZE: _number(4),  # RFC 7296, section 2.3
    NotifyType.IPCOMP_SUPPORTED: lambda data: Ipcomp(*Cursor(data).unpack(_IPCOMP)),
    NotifyType.NAT_DETECTION_SOURCE_IP: _bytes((_HASH_BYTES,)),  # RFC 7296, section 2.23
    NotifyType.NAT_DETECTION_DESTINATION_IP: _bytes((_HASH_BYTES,)),
    NotifyType.COOKIE: _bytes(COOKIE_BYTES),
    NotifyType.ADDITIONAL_IP4_ADDRESS: _address(4),  # RFC 4555, section 4.2
    NotifyType.ADDITIONAL_IP6_ADDRESS: _address(16),
    NotifyType.COOKIE2: _bytes(_COOKIE2_BYTES),
    NotifyType.NO_NATS_ALLOWED: _parse_no_nats_allowed,
    NotifyType.AUTH_LIFETIME: _number(4),  # RFC 4478
    NotifyType.REDIRECT: parse_redirect,
    NotifyType.REDIRECTED_FROM: parse_redirect,
    NotifyType.TICKET_LT_OPAQUE: _parse_ticket,
    NotifyType.TICKET_OPAQUE: bytes,  # RFC 5723, section 7
    NotifyType.LINK_ID: bytes,  # RFC 5739
    NotifyType.ROHC_SUPPORTED: lambda data: parse_attributes(Cursor(data)),  # RFC 5857, section 2.1.2
    NotifyType.QUICK_CRASH_DETECTION: _bytes(_TOKEN_BYTES),  # RFC 6290
    NotifyType.IKEV2_MESSAGE_ID_SYNC: _parse_message_ids,
    NotifyType.IPSEC_REPLAY_COUNTER_SYNC: _number(4, 8),  # RFC 6311
    NotifyType.SECURE_PASSWORD_METHODS: parse_hash_algorithms,  # RFC 6467: the same format
    NotifyType.SIGNATURE_HASH_ALGORITHMS: parse_hash_algorithms,
    NotifyType.PUZZLE: _parse_puzzle,
    NotifyType.PPK_IDENTITY: _parse_ppk_identity,
    NotifyType.NO_PPK_AUTH: bytes,  # RFC 8784: authentication data, as in the AUTH payload
    NotifyType.ADDITIONAL_KEY_EXCHANGE: bytes,  # RFC 9370, section 2.2.4: a link to the previous exchange
    NotifyType.USE_AGGFRAG: _parse_aggfrag,
    NotifyType.SUPPORTED_AUTH_METHODS: _parse_announcements,
    NotifyType.SA_RESOURCE_INFO: bytes,  # RFC 9611
    NotifyType.PPK_IDENTITY_KEY: _parse_ppk_identity_key,
    PrivateNotifyType.BACKOFF_TIMER: _parse_backoff_timer,
    PrivateNotifyType.DEVICE_IDENTITY: _parse_device_identity,
}


def decode_notify_data(kind: int, data: bytes) -> NotifyValue | None:
    """Decode the data of a notify. Never raises: None for invalid data and for types without structured data.

    Returns a number, an address, opaque bytes (COOKIE, NAT_DETECTION_*_IP), a tuple of numbers
    (SIGNATURE_HASH_ALGORITHMS), or an instance of a class of this module.
    """
    parser = _PARSERS.get(kind)
    try:
        return None if parser is None else parser(data)
    except WireError:
        return None


def check_notify_data(kind: int, data: bytes) -> str | None:
    """Why the data of a notify are invalid; None if they are valid or the type is missing in this module."""
    parser = _PARSERS.get(kind)
    try:
        if parser is not None:
            parser(data)
    except WireError as problem:
        return str(problem)
    return None


def get_notify_name(kind: int) -> str:
    """Name of a type, such as ADDITIONAL_KEY_EXCHANGE, including 3GPP's private types; its number if it has no name."""
    return get_name(PrivateNotifyType if kind in PrivateNotifyType._value2member_map_ else NotifyType, kind)


def describe_notify(notify: Notify) -> str:
    """Name of a notify, with its data if they are short: INVALID_KE_PAYLOAD ML-KEM-768."""
    value = decode_notify_data(notify.type, notify.data)
    text = "" if value is None else _describe_value(notify.type, value)
    name = get_notify_name(notify.type)
    return f"{name} {shorten_text(text)}" if text else name


def _names(registry: type[Registry]) -> Callable[[NotifyValue], str]:
    def join(value: NotifyValue) -> str:
        numbers = value if isinstance(value, tuple) else (value,)
        return "+".join(get_name(registry, number) for number in numbers if isinstance(number, int))

    return join


_DESCRIBERS: Final[Mapping[int, Callable[[NotifyValue], str]]] = {
    NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD: _names(PayloadType),
    NotifyType.INVALID_KE_PAYLOAD: _names(KeyExchangeMethod),
    NotifyType.SECURE_PASSWORD_METHODS: _names(SecurePasswordMethod),
    NotifyType.SIGNATURE_HASH_ALGORITHMS: _names(HashAlgorithm),
    NotifyType.AUTH_LIFETIME: lambda seconds: f"{seconds!r} s",
}


def _describe_value(kind: int, value: NotifyValue) -> str:
    describe = _DESCRIBERS.get(kind)
    if describe is not None:
        return describe(value)
    match value:
        case bytes():
            # opaque: cookies, hashes, tokens
            return ""
        case int():
            return str(value)
        case str():
            return value
        case Redirect(_, gateway):
            return escape_peer_text(gateway.encode())
        case Ipcomp(_, transform):
            return get_name(IpcompTransform, transform)
        case NoNatsAllowed(source, destination, source_port, destination_port):
            return f"{source}[{source_port}] {destination}[{destination_port}]"
        case ResumptionTicket(lifetime, _):
            return f"{lifetime} s"
        case MessageIdSync(_, send, receive):
            return f"{send} {receive}"
        case PuzzleChallenge(prf, difficulty, _):
            return f"{get_name(Prf, prf)} {difficulty}"
        case PpkIdentity(ppk, identity, _):
            return escape_peer_text(identity) if ppk == PpkIdType.PPK_ID_FIXED else identity.hex()
        case Aggfrag(congestion_control, dont_fragment):
            flags = (("congestion control", congestion_control), ("no fragments", dont_fragment))
            return ", ".join(text for text, is_set in flags if is_set)
        case BackoffTimer(seconds):
            return "deactivated" if seconds is None else f"{seconds} s"
        case DeviceIdentity(_, digits):
            return digits
        case tuple():
            return "+".join(map(_describe_entry, value))


def _describe_entry(entry: int | TransformAttributeValue | AuthAnnouncement) -> str:
    if isinstance(entry, TransformAttributeValue):
        return get_name(RohcAttribute, entry.type)
    return entry.name if isinstance(entry, AuthAnnouncement) else str(entry)
