"""What the data of notifies say, type by type, each by its RFC.

Read with `ikev2_notify.decode_notify`; types that are not here have no data, or data without a rule.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.auth_methods import SignatureAlgorithm, get_auth_method_name, parse_algorithm
from ikeanalyze.wire.ikev2.proposals import TransformAttributeValue, parse_attribute
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.ikev2 import HashAlgorithm, PayloadType, PpkIdType, SecurePasswordMethod
from ikeanalyze.wire.registries.ikev2_notifies import (
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
#: Type and length of a gateway's identity, and the types.
_GATEWAY: Final = Struct(">BB")
_IPV4, _IPV6, _FQDN = 1, 2, 3
_PPK_CONFIRMATION: Final = 8
#: Length and authentication method of an announcement.
_ANNOUNCEMENT: Final = Struct(">BB")
_CONGESTION_CONTROL, _DONT_FRAGMENT = 0x02, 0x01
_HASH_BYTES: Final = 20
#: Bytes of a cookie (RFC 7296, section 2.6; RFC 4555, section 4.2) and of a token (RFC 6290, section 4.1).
_COOKIE_BYTES: Final = range(1, 65)
_COOKIE2_BYTES: Final = range(8, 65)
_TOKEN_BYTES: Final = range(16, 129)
#: Bytes of NO_NATS_ALLOWED's data, by those of an address.
_ADDRESS_BYTES: Final = {12: 4, 36: 16}
#: Seconds of the units of a GPRS timer 3, by number (3GPP TS 24.008, section 10.5.7.4a); 7: not running.
_TIMER_UNITS: Final = (600, 3600, 36000, 2, 30, 60, 1152000)


@dataclass(frozen=True, slots=True)
class Redirect:
    """Data of REDIRECT and REDIRECTED_FROM (RFC 5685, sections 7.2 and 7.3)."""

    gateway_type: int
    gateway: str  # address or name; hex digits where its type is not known
    nonce: bytes  # the initiator's nonce, in answers to IKE_SA_INIT; else empty


@dataclass(frozen=True, slots=True)
class Ipcomp:
    """IPCOMP_SUPPORTED (RFC 7296, section 2.22)."""

    cpi: int  # compression parameter index
    transform: int


@dataclass(frozen=True, slots=True)
class NoNatsAllowed:
    """NO_NATS_ALLOWED (RFC 4555, section 4.2): where the sender sent the packet."""

    source: str
    destination: str
    source_port: int
    destination_port: int


@dataclass(frozen=True, slots=True)
class ResumptionTicket:
    """TICKET_LT_OPAQUE (RFC 5723, section 7): a ticket to resume the IKE SA with."""

    lifetime: int  # seconds
    ticket: bytes  # means something to the gateway alone


@dataclass(frozen=True, slots=True)
class MessageIdSync:
    """IKEV2_MESSAGE_ID_SYNC (RFC 6311): where a cluster's new member goes on."""

    nonce: bytes
    send: int  # message ID of the next request that the sender sends
    receive: int  # of the next that it expects


@dataclass(frozen=True, slots=True)
class PuzzleChallenge:
    """PUZZLE (RFC 8019, section 8.1)."""

    prf: int
    difficulty: int  # zero bits that a solution needs at the end
    cookie: bytes


@dataclass(frozen=True, slots=True)
class PpkIdentity:
    """PPK_IDENTITY (RFC 8784, section 5.1) and PPK_IDENTITY_KEY (RFC 9867)."""

    type: int
    identity: bytes
    confirmation: bytes | None  # of PPK_IDENTITY_KEY: 8 bytes that prove knowledge of the key; else None


@dataclass(frozen=True, slots=True)
class AuthAnnouncement:
    """One method in SUPPORTED_AUTH_METHODS (RFC 9593, section 3.2)."""

    method: int
    link: int | None  # of the CERTREQ payload's authorities that it is for, from 1; 0 all; None: not said
    algorithm: SignatureAlgorithm | None  # where the method needs one

    @property
    def name(self) -> str:
        """Short name of the method, or of its algorithm."""
        return get_auth_method_name(self.method) if self.algorithm is None else self.algorithm.name


@dataclass(frozen=True, slots=True)
class Aggfrag:
    """USE_AGGFRAG (RFC 9347, section 5.1)."""

    congestion_control: bool  # the sender wants the information for it
    dont_fragment: bool  # the sender cannot take fragments


@dataclass(frozen=True, slots=True)
class BackoffTimer:
    """BACKOFF_TIMER of 3GPP (TS 24.302, section 8.2.9.1)."""

    seconds: int | None  # None: deactivated


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """DEVICE_IDENTITY of 3GPP (TS 24.302, section 8.2.9.2)."""

    type: int  # 1 IMEI, 2 IMEISV
    digits: str  # empty: it is asked for


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


# ---- readers: all raise WireError for data that do not fit


def parse_hash_algorithms(data: bytes) -> tuple[int, ...]:
    """Numbers in SIGNATURE_HASH_ALGORITHMS (RFC 7427, section 4); an odd last byte is passed over."""
    cursor = Cursor(data)
    return tuple(cursor.get_uint16() for _ in range(len(data) // 2))


def parse_redirect(data: bytes) -> Redirect:
    """Data of REDIRECT or REDIRECTED_FROM (RFC 5685, section 7); `WireError` if they are too short."""
    cursor = Cursor(data)
    kind, size = cursor.unpack(_GATEWAY)
    identity = cursor.get_bytes(size)
    return Redirect(kind, _gateway(kind, identity), cursor.get_remaining())


def _gateway(kind: int, identity: bytes) -> str:
    if kind in (_IPV4, _IPV6):
        return format_address(identity) or identity.hex()
    if kind == _FQDN:
        return identity.decode("utf-8", "backslashreplace")
    return identity.hex()


def _number(size: int) -> Callable[[bytes], int]:
    def read(data: bytes) -> int:
        return int.from_bytes(_sized(data, (size,)), "big")

    return read


def _bytes(sizes: range | tuple[int, ...] | None = None) -> Callable[[bytes], bytes]:
    def read(data: bytes) -> bytes:
        return data if sizes is None else _sized(data, sizes)

    return read


def _sized(data: bytes, sizes: range | tuple[int, ...]) -> bytes:
    if len(data) not in sizes:
        raise WireError(0, f"{len(data)} bytes do not fit")
    return data


def _address(size: int) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        return format_address(_sized(data, (size,))) or ""

    return read


def _invalid_ke(data: bytes) -> int:
    return Cursor(data).get_uint16()


def _ipcomp(data: bytes) -> Ipcomp:
    return Ipcomp(*Cursor(data).unpack(_IPCOMP))


def _path(data: bytes) -> NoNatsAllowed:
    size = _ADDRESS_BYTES[len(_sized(data, tuple(_ADDRESS_BYTES)))]
    cursor = Cursor(data)
    source, destination = (format_address(cursor.get_bytes(size)) or "" for _ in range(2))
    return NoNatsAllowed(source, destination, *cursor.unpack(_PORTS))


def _ticket(data: bytes) -> ResumptionTicket:
    cursor = Cursor(data)
    return ResumptionTicket(cursor.get_uint32(), cursor.get_remaining())


def _message_ids(data: bytes) -> MessageIdSync:
    return MessageIdSync(*Cursor(_sized(data, (_MESSAGE_IDS.size,))).unpack(_MESSAGE_IDS))


def _puzzle(data: bytes) -> PuzzleChallenge:
    cursor = Cursor(data)
    prf, difficulty = cursor.unpack(_PUZZLE)
    return PuzzleChallenge(prf, difficulty, cursor.get_remaining())


def _ppk_identity(data: bytes) -> PpkIdentity:
    cursor = Cursor(data)
    return PpkIdentity(cursor.get_uint8(), cursor.get_remaining(), None)


def _ppk_identity_key(data: bytes) -> PpkIdentity:
    cursor = Cursor(data)
    kind = cursor.get_uint8()
    identity = cursor.get_bytes(cursor.remaining() - _PPK_CONFIRMATION)
    return PpkIdentity(kind, identity, cursor.get_remaining())


def _rohc(data: bytes) -> tuple[TransformAttributeValue, ...]:
    cursor = Cursor(data)
    found = []
    while cursor.remaining():
        found.append(parse_attribute(cursor))
    return tuple(found)


def _announcements(data: bytes) -> tuple[AuthAnnouncement, ...]:
    cursor = Cursor(data)
    found = []
    while cursor.remaining():
        offset = cursor.position
        size, method = cursor.unpack(_ANNOUNCEMENT)
        if size < _ANNOUNCEMENT.size:
            raise WireError(offset, f"an announcement with a length of {size}, its header alone has 2")
        with cursor.restrict_to(size - _ANNOUNCEMENT.size):
            link = cursor.get_uint8() if cursor.remaining() else None
            algorithm = parse_algorithm(cursor.get_remaining()) if cursor.remaining() else None
        found.append(AuthAnnouncement(method, link, algorithm))
    return tuple(found)


def _aggfrag(data: bytes) -> Aggfrag:
    flags = Cursor(data).get_uint8()
    return Aggfrag(bool(flags & _CONGESTION_CONTROL), bool(flags & _DONT_FRAGMENT))


def _backoff_timer(data: bytes) -> BackoffTimer:
    cursor = Cursor(data)
    timer = Cursor(cursor.get_bytes(cursor.get_uint8())).get_uint8()
    unit, count = timer >> 5, timer & 0x1F
    return BackoffTimer(None if unit >= len(_TIMER_UNITS) else _TIMER_UNITS[unit] * count)


def _device_identity(data: bytes) -> DeviceIdentity:
    cursor = Cursor(data)
    identity = Cursor(cursor.get_bytes(cursor.get_uint16()))
    kind = identity.get_uint8()
    # two digits a byte, the first one in the lower bits; 15 fills an odd one up
    digits = "".join(f"{byte & 0x0F:x}{byte >> 4:x}" for byte in identity.get_remaining())
    return DeviceIdentity(kind, digits.rstrip("f"))


_READERS: Final[Mapping[int, Callable[[bytes], NotifyValue]]] = MappingProxyType(
    {
        NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD: _number(1),  # RFC 7296, section 2.5
        NotifyType.INVALID_MESSAGE_ID: _number(4),  # RFC 7296, section 2.3
        NotifyType.INVALID_SPI: _bytes(),  # RFC 7296, section 1.5
        NotifyType.INVALID_KE_PAYLOAD: _invalid_ke,  # RFC 7296, section 1.3
        NotifyType.SET_WINDOW_SIZE: _number(4),  # RFC 7296, section 2.3
        NotifyType.IPCOMP_SUPPORTED: _ipcomp,
        NotifyType.NAT_DETECTION_SOURCE_IP: _bytes((_HASH_BYTES,)),  # RFC 7296, section 2.23
        NotifyType.NAT_DETECTION_DESTINATION_IP: _bytes((_HASH_BYTES,)),
        NotifyType.COOKIE: _bytes(_COOKIE_BYTES),
        NotifyType.ADDITIONAL_IP4_ADDRESS: _address(4),  # RFC 4555, section 4.2
        NotifyType.ADDITIONAL_IP6_ADDRESS: _address(16),
        NotifyType.COOKIE2: _bytes(_COOKIE2_BYTES),
        NotifyType.NO_NATS_ALLOWED: _path,
        NotifyType.AUTH_LIFETIME: _number(4),  # RFC 4478
        NotifyType.REDIRECT: parse_redirect,
        NotifyType.REDIRECTED_FROM: parse_redirect,
        NotifyType.TICKET_LT_OPAQUE: _ticket,
        NotifyType.TICKET_OPAQUE: _bytes(),  # RFC 5723, section 7
        NotifyType.LINK_ID: _bytes(),  # RFC 5739
        NotifyType.ROHC_SUPPORTED: _rohc,  # RFC 5857, section 2.1.2
        NotifyType.QUICK_CRASH_DETECTION: _bytes(_TOKEN_BYTES),  # RFC 6290
        NotifyType.IKEV2_MESSAGE_ID_SYNC: _message_ids,
        NotifyType.IPSEC_REPLAY_COUNTER_SYNC: lambda data: int.from_bytes(_sized(data, (4, 8)), "big"),  # RFC 6311
        NotifyType.SECURE_PASSWORD_METHODS: parse_hash_algorithms,  # RFC 6467: numbers of two bytes alike
        NotifyType.SIGNATURE_HASH_ALGORITHMS: parse_hash_algorithms,
        NotifyType.PUZZLE: _puzzle,
        NotifyType.PPK_IDENTITY: _ppk_identity,
        NotifyType.NO_PPK_AUTH: _bytes(),  # RFC 8784: authentication data of the AUTH payload's method
        NotifyType.ADDITIONAL_KEY_EXCHANGE: _bytes(),  # RFC 9370, section 2.2.4: a link to the exchange before
        NotifyType.USE_AGGFRAG: _aggfrag,
        NotifyType.SUPPORTED_AUTH_METHODS: _announcements,
        NotifyType.SA_RESOURCE_INFO: _bytes(),  # RFC 9611
        NotifyType.PPK_IDENTITY_KEY: _ppk_identity_key,
        PrivateNotifyType.BACKOFF_TIMER: _backoff_timer,
        PrivateNotifyType.DEVICE_IDENTITY: _device_identity,
    }
)


def decode_notify_data(kind: int, data: bytes) -> NotifyValue | None:
    """What a notify's data says; None for data that do not fit the type, and for types without a rule."""
    reader = _READERS.get(kind)
    try:
        return None if reader is None else reader(data)
    except WireError:
        return None


def validation_error(kind: int, data: bytes) -> str | None:
    """Why the data of a notify do not fit its type; None: they do, or the type has no rule."""
    reader = _READERS.get(kind)
    try:
        if reader is not None:
            reader(data)
    except WireError as problem:
        return str(problem)
    return None


# ---- in words


def get_notify_name(kind: int) -> str:
    """ADDITIONAL_KEY_EXCHANGE; 3GPP's private types by name too, others by number."""
    return get_name(PrivateNotifyType if kind in PrivateNotifyType._value2member_map_ else NotifyType, kind)


def describe_notify_data(kind: int, data: bytes) -> str:
    """Name of a notify, with what its data says where that is short: INVALID_KE_PAYLOAD ML-KEM-768."""
    value = decode_notify_data(kind, data)
    said = "" if value is None else _said(kind, value)
    return f"{get_notify_name(kind)}{said and f' {shorten_text(said)}'}"


def _names(registry: type[Registry]) -> Callable[[NotifyValue], str]:
    def join(value: NotifyValue) -> str:
        numbers = value if isinstance(value, tuple) else (value,)
        return "+".join(get_name(registry, number) for number in numbers if isinstance(number, int))

    return join


_IN_WORDS: Final[Mapping[int, Callable[[NotifyValue], str]]] = MappingProxyType(
    {
        NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD: _names(PayloadType),
        NotifyType.INVALID_KE_PAYLOAD: _names(KeyExchangeMethod),
        NotifyType.SECURE_PASSWORD_METHODS: _names(SecurePasswordMethod),
        NotifyType.SIGNATURE_HASH_ALGORITHMS: _names(HashAlgorithm),
        NotifyType.AUTH_LIFETIME: lambda seconds: f"{seconds!r} s",
    }
)


def _said(kind: int, value: NotifyValue) -> str:
    in_words = _IN_WORDS.get(kind)
    if in_words is not None:
        return in_words(value)
    match value:
        case bytes():
            # cookies, hashes, tokens: telling of their name alone
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
            wanted = (("congestion control", congestion_control), ("no fragments", dont_fragment))
            return ", ".join(text for text, set_ in wanted if set_)
        case BackoffTimer(seconds):
            return "deactivated" if seconds is None else f"{seconds} s"
        case DeviceIdentity(_, digits):
            return digits
        case tuple():
            return "+".join(
                get_name(RohcAttribute, entry.type)
                if isinstance(entry, TransformAttributeValue)
                else entry.name
                if isinstance(entry, AuthAnnouncement)
                else str(entry)
                for entry in value
            )
