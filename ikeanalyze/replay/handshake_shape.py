"""The shape of a recorded handshake: what the initiator re-enacts.

Proposals and notifies of IKE_SA_INIT are never encrypted. The contents of IKE_AUTH need keys; without keys the shape
has defaults, which `guessed` lists.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import structs

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, collect_ike_sas
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.responses import format_notify_type
from ikeanalyze.replay.transport.target import NAT_PORT
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.ikev2.payloads import Identification, parse_authentication, parse_identification, parse_notify
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue, parse_sa
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelector, parse_traffic_selectors
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId, TrafficSelectorType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity, TransformAttribute, TransformType

_Value = TypeVar("_Value")

#: Notifies that we send again, because we support them or they have no consequences; others are reported.
_INIT_NOTIFIES: Final = (
    NotifyType.IKEV2_FRAGMENTATION_SUPPORTED,
    NotifyType.SIGNATURE_HASH_ALGORITHMS,
    NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED,
    NotifyType.REDIRECT_SUPPORTED,
)
_AUTH_NOTIFIES: Final = (
    NotifyType.USE_TRANSPORT_MODE,
    NotifyType.ESP_TFC_PADDING_NOT_SUPPORTED,
    NotifyType.NON_FIRST_FRAGMENTS_ALSO,
    NotifyType.MOBIKE_SUPPORTED,
    NotifyType.NO_ADDITIONAL_ADDRESSES,
    NotifyType.MULTIPLE_AUTH_SUPPORTED,
    NotifyType.EAP_ONLY_AUTHENTICATION,
    NotifyType.IKEV2_MESSAGE_ID_SYNC_SUPPORTED,
)
#: Notifies that are new in each handshake.
_NEW_NOTIFIES: Final = (NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP, NotifyType.COOKIE)
#: IKE message size for strongSwan's default IP packet size of 1,280 bytes, with IPv4 and port 4500.
DEFAULT_FRAGMENT_SIZE: Final = 1248
_NONCE_BYTES: Final = 32
#: RSA signatures use PKCS #1 v1.5 instead of PSS.
_PSS: Final = "RSASSA-PSS"
_PKCS1: Final = "RSASSA-PKCS1-v1_5"
_MAX_COUNT: Final = 255  # of transforms, proposals, traffic selectors: their number is one byte


def make_transform(kind: int, number: int, bits: int | None = None) -> Transform:
    """Return a transform of a type; `bits`: the key length, if the algorithm needs it."""
    attributes = () if bits is None else (TransformAttributeValue(TransformAttribute.KEY_LENGTH, bits),)
    return Transform(kind, number, attributes)


_AES_GCM: Final = make_transform(TransformType.ENCR, Encryption.AES_GCM_16, 256)
_AES_CBC: Final = make_transform(TransformType.ENCR, Encryption.AES_CBC, 256)
_HMAC: Final = make_transform(TransformType.INTEG, Integrity.HMAC_SHA2_256_128)
_32_BIT_SEQUENCE_NUMBERS: Final = make_transform(TransformType.SN, 0)
#: Default proposals, with AEAD and without, that most responders support.
DEFAULT_ESP: Final = (
    Proposal(1, ProtocolId.ESP, b"", (_AES_GCM, _32_BIT_SEQUENCE_NUMBERS)),
    Proposal(2, ProtocolId.ESP, b"", (_AES_CBC, _HMAC, _32_BIT_SEQUENCE_NUMBERS)),
)
#: Traffic selectors for all addresses; the responder narrows them (RFC 7296, section 2.9).
ALL_ADDRESSES: Final = tuple(
    TrafficSelector(kind, 0, (0, 0xFFFF), bytes(size), b"\xff" * size, b"")
    for kind, size in ((TrafficSelectorType.TS_IPV4_ADDR_RANGE, 4), (TrafficSelectorType.TS_IPV6_ADDR_RANGE, 16))
)


@dataclass(frozen=True, slots=True)
class HandshakeShape:
    """What a recorded initiator offered and requested."""

    proposals: tuple[Proposal, ...]  # for the IKE SA, in order of preference
    key_exchange: int  # method of the first KE payload
    nonce_bytes: int = _NONCE_BYTES
    notifies: tuple[tuple[int, bytes], ...] = ()  # type and data, of IKE_SA_INIT, without `_NEW_NOTIFIES`
    fragment_size: int | None = None  # largest unfragmented IKE message; None: no IKE fragmentation
    floats: bool = False  # switches to port 4500 after IKE_SA_INIT even without NAT
    esp_proposals: tuple[Proposal, ...] = DEFAULT_ESP  # empty: an IKE SA without Child SA (RFC 6023)
    selectors_i: tuple[TrafficSelector, ...] = ALL_ADDRESSES
    selectors_r: tuple[TrafficSelector, ...] = ALL_ADDRESSES
    configuration: bytes | None = None  # body of the CP payload; None: no CP payload
    auth_notifies: tuple[tuple[int, bytes], ...] = ()  # of the first IKE_AUTH request
    identity_i: Identification | None = None
    identity_r: Identification | None = None  # requested in IDr; None: no IDr
    auth_initiator: str | None = None  # the report's word: psk, rsa, ecdsa-256, eap; None: unknown
    eap: str | None = None  # EAP-MD5, EAP-MSCHAPv2; None: any that the responder requests
    asks_certificates: bool = False  # sends CERTREQ even without trusted authorities
    guessed: tuple[str, ...] = ()  # names of fields with defaults, unknown from the capture
    left_out: tuple[str, ...] = ()  # recorded but not re-enacted

    @property
    def additional(self) -> bool:
        """Whether additional key exchanges are offered (RFC 9370)."""
        kinds = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)
        transforms = (transform for proposal in self.proposals for transform in proposal.transforms)
        return any(transform.type in kinds and transform.id for transform in transforms)


#: Descriptions of the fields in `HandshakeShape.guessed`.
FIELD_NAMES: Final = MappingProxyType(
    {
        "fragment_size": "fragment size",
        "auth_initiator": "authentication of the initiator",
        "identity_i": "identity of the initiator",
        "identity_r": "requested identity of the responder",
        "esp_proposals": "ESP proposals",
        "selectors_i": "traffic selectors of the initiator",
        "selectors_r": "traffic selectors of the responder",
    }
)


def read_shape(
    path: str | Path,
    handshake: int | None = None,
    *,
    keys: str | Path | Sequence[str | Path | KeyFile] = (),
    ports: Sequence[int] = (),
) -> tuple[int, HandshakeShape]:
    """Read the shape of a handshake in a capture; return its number in the report and the shape.

    `handshake`: that number; None: the first that can be re-enacted. `keys`, `ports`: as in `ReadOptions`.

    Raises:
        CannotReplayError: the capture cannot be read, or lacks the handshake.
    """
    sas: list[IkeSaRecord] = []
    options = ReadOptions(
        ports=ports,
        keys=keys,
        payloads=True,
        payloads_of=handshake,
        on_contents=lambda conversation, encrypted, contents: sas.extend(
            collect_ike_sas(conversation, encrypted, contents, ())
        ),
    )
    analysis = read_captures(path, options)
    if not analysis.captures:
        reason = analysis.skipped[-1].reason if analysis.skipped else "empty"
        raise CannotReplayError(f"{path}: {reason}")
    usable = {sa.handshake + 1: sa for sa in sas if sa.version == Protocol.IKEV2 and _list_init_requests(sa)}
    if handshake is None and usable:
        handshake = min(usable)
    if handshake is None or handshake not in usable:
        which = "no IKEv2 handshake" if handshake is None else f"no IKEv2 handshake {handshake}"
        raise CannotReplayError(f"{path}: {which} with an IKE_SA_INIT request in the capture")
    return handshake, extract_shape(usable[handshake], analysis)


def extract_shape(sa: IkeSaRecord, analysis: Analysis) -> HandshakeShape:
    """Return the shape of one IKE SA of a capture that was read alone, with decoded messages.

    Raises:
        CannotReplayError: its IKE_SA_INIT request has no proposal or no key exchange.
    """
    init = parse_init(_list_init_requests(sa)[0])
    offered = init.proposals
    number = sa.handshake + 1
    if not offered or init.ke_method is None:
        raise CannotReplayError(f"handshake {number}: its IKE_SA_INIT request has no proposal or no key exchange")
    fragment_size, floats, guessed = _read_sizes(number, init.notifies, analysis)
    row = analysis.handshakes.row(sa.handshake, named=True)
    if row["auth_guessed"] or row["auth_initiator"] is None:
        guessed.append("auth_initiator")
    shape = HandshakeShape(
        proposals=offered,
        key_exchange=init.ke_method,
        nonce_bytes=len(init.nonce or bytes(_NONCE_BYTES)),
        notifies=tuple(notify for notify in init.notifies if notify[0] in _INIT_NOTIFIES),
        fragment_size=fragment_size,
        floats=floats,
        auth_initiator=row["auth_initiator"],
        eap=row["auth_eap"],
        left_out=_name_notifies(kind for kind, _ in init.notifies if kind not in _INIT_NOTIFIES + _NEW_NOTIFIES),
    )
    auth_request = next((message.content for message in sa.messages if _is_first_auth_request(message.content)), None)
    if auth_request is None:
        guessed += ["identity_i", "identity_r", "esp_proposals", "selectors_i", "selectors_r"]
        return replace(shape, guessed=tuple(guessed))
    return replace(_add_auth_request(shape, auth_request), guessed=tuple(guessed))


def _list_init_requests(sa: IkeSaRecord) -> list[bytes]:
    """Return the IKE_SA_INIT requests in order."""
    return [
        message.message
        for message in sa.messages
        if message.content.exchange_type == ExchangeType.IKE_SA_INIT and not message.content.response
    ]


def _is_first_auth_request(content: DecodedMessage) -> bool:
    """Whether this is the first IKE_AUTH request, with the initiator's identity."""
    return (
        content.exchange_type == ExchangeType.IKE_AUTH
        and content.from_initiator
        and not content.response
        and bool(content.get_bodies(PayloadType.IDI))
    )


def _read_sizes(
    handshake: int, notifies: Sequence[tuple[int, bytes]], analysis: Analysis
) -> tuple[int | None, bool, list[str]]:
    """Return the largest unfragmented message, whether port 4500 is used, and which of these is guessed.

    Without fragments, the largest unfragmented message is a lower bound.
    """
    # late: polars must not be loaded before the reader process forks
    import polars as pl

    requests = analysis.messages.filter(handshake=handshake, sender="initiator", kind="request", set_up=True).select(
        "message", "type"
    )
    frames = analysis.frames.join(requests, on="message").filter(pl.col("exchange_type") != ExchangeType.IKE_SA_INIT)
    floats = bool((frames["destination_port"] == NAT_PORT).any())
    if not any(kind == NotifyType.IKEV2_FRAGMENTATION_SUPPORTED for kind, _ in notifies):
        return None, floats, []
    fragments = frames.filter(pl.col("fragment").is_not_null())
    largest = fragments["ike_bytes"].max() if len(fragments) else None
    if isinstance(largest, int):
        return largest, floats, []
    usable = frames["ike_bytes"].max() if len(frames) else None
    return max(DEFAULT_FRAGMENT_SIZE, usable if isinstance(usable, int) else 0), floats, ["fragment_size"]


def _add_auth_request(shape: HandshakeShape, auth_request: DecodedMessage) -> HandshakeShape:
    """Add the contents of the first IKE_AUTH request, without invalid payloads."""
    parsed_notifies = _parse_valid(parse_notify, auth_request.get_bodies(PayloadType.NOTIFY))
    notifies = [(notify.type, notify.data) for notify in parsed_notifies]
    initiator, responder = (
        next(iter(_parse_valid(parse_identification, auth_request.get_bodies(kind))), None)
        for kind in (PayloadType.IDI, PayloadType.IDR)
    )
    sa_bodies = auth_request.get_bodies(PayloadType.SA)
    proposals = [proposal for body in sa_bodies for proposal in parse_sa(body).proposals]
    esp = [proposal for proposal in proposals if proposal.protocol == ProtocolId.ESP]
    esp = [proposal for proposal in esp if len(proposal.transforms) <= _MAX_COUNT][:_MAX_COUNT]
    selectors_i, selectors_r = (
        tuple(
            selector
            for body in auth_request.get_bodies(kind)
            for selector in parse_traffic_selectors(body).selectors
            if selector.type in (TrafficSelectorType.TS_IPV4_ADDR_RANGE, TrafficSelectorType.TS_IPV6_ADDR_RANGE)
        )
        for kind in (PayloadType.TSI, PayloadType.TSR)
    )
    return replace(
        shape,
        # numbers count from 1 without a gap (RFC 7296, section 3.3.1)
        esp_proposals=tuple(structs.replace(proposal, number=number) for number, proposal in enumerate(esp, 1))
        or (DEFAULT_ESP if sa_bodies else ()),
        selectors_i=selectors_i[:_MAX_COUNT] or ALL_ADDRESSES,
        selectors_r=selectors_r[:_MAX_COUNT] or ALL_ADDRESSES,
        configuration=next(iter(auth_request.get_bodies(PayloadType.CP)), None),
        auth_notifies=tuple(notify for notify in notifies if notify[0] in _AUTH_NOTIFIES),
        identity_i=initiator,
        identity_r=responder,
        asks_certificates=bool(auth_request.get_bodies(PayloadType.CERTREQ)),
        left_out=(
            *shape.left_out,
            *_name_notifies(kind for kind, _ in notifies if kind not in _AUTH_NOTIFIES),
            *_list_changed_signatures(auth_request),
        ),
    )


def _list_changed_signatures(auth_request: DecodedMessage) -> tuple[str, ...]:
    """Report PSS signatures, because we sign with RSA keys by PKCS #1 v1.5."""
    names = map(get_authentication_name, _parse_valid(parse_authentication, auth_request.get_bodies(PayloadType.AUTH)))
    return tuple(f"{name} (RSA keys sign with {_PKCS1})" for name in names if name.startswith(_PSS))


def _parse_valid(parse: Callable[[bytes], _Value], bodies: Sequence[bytes]) -> list[_Value]:
    values = []
    for body in bodies:
        with suppress(WireError):
            values.append(parse(body))
    return values


def _name_notifies(kinds: Iterable[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(format_notify_type, kinds)))
