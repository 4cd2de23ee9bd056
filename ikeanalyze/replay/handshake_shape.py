"""What of a recorded handshake is re-enacted, and where it comes from.

IKE_SA_INIT is in clear, so its proposals and abilities are always known. What stands in IKE_AUTH is known with keys
alone; without them there are defaults, and `guessed` names them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.analysis.verification.ike_sas import IkeSaRecord, collect_ike_sas
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.keys.detect import KeyFile
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.responses import get_notify_name
from ikeanalyze.replay.transport.target import NAT_PORT
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.ikev2.notify import parse_notify
from ikeanalyze.wire.ikev2.payloads import Identification, parse_authentication, parse_identification
from ikeanalyze.wire.ikev2.proposals import Proposal, Transform, TransformAttributeValue, parse_sa
from ikeanalyze.wire.ikev2.traffic_selectors import TrafficSelector, parse_traffic_selectors
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId, TrafficSelectorType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity, TransformAttribute, TransformType

_Value = TypeVar("_Value")

#: Notifies that are said again, because we do what they announce or they commit to nothing; others are left out and named.
_INIT_NOTIFIES: Final = frozenset(
    {
        NotifyType.IKEV2_FRAGMENTATION_SUPPORTED,
        NotifyType.SIGNATURE_HASH_ALGORITHMS,
        NotifyType.INTERMEDIATE_EXCHANGE_SUPPORTED,
        NotifyType.REDIRECT_SUPPORTED,
    }
)
_AUTH_NOTIFIES: Final = frozenset(
    {
        NotifyType.USE_TRANSPORT_MODE,
        NotifyType.ESP_TFC_PADDING_NOT_SUPPORTED,
        NotifyType.NON_FIRST_FRAGMENTS_ALSO,
        NotifyType.MOBIKE_SUPPORTED,
        NotifyType.NO_ADDITIONAL_ADDRESSES,
        NotifyType.MULTIPLE_AUTH_SUPPORTED,
        NotifyType.EAP_ONLY_AUTHENTICATION,
        NotifyType.IKEV2_MESSAGE_ID_SYNC_SUPPORTED,
    }
)
#: Made anew for each handshake, or answers to what the recorded responder asked for.
_MADE_ANEW: Final = frozenset(
    {NotifyType.NAT_DETECTION_SOURCE_IP, NotifyType.NAT_DETECTION_DESTINATION_IP, NotifyType.COOKIE}
)
#: Bytes of an IKE message that fit into strongSwan's default of 1,280 bytes for an IP packet, IPv4, on port 4500.
_USUAL_FRAGMENT: Final = 1248
_NONCE: Final = 32
#: What RSA keys are not used for, and what instead.
_NOT_OURS: Final = "RSASSA-PSS"
_OURS: Final = "RSASSA-PKCS1-v1_5"
_MOST: Final = 255  # transforms, proposals, traffic selectors: their number is one byte


def _transform(kind: TransformType, number: int, bits: int | None = None) -> Transform:
    attributes = () if bits is None else (TransformAttributeValue(TransformAttribute.KEY_LENGTH, bits),)
    return Transform(kind, number, attributes)


#: Two proposals that nearly every responder knows, of AEAD and not.
USUAL_ESP: Final = (
    Proposal(
        1,
        ProtocolId.ESP,
        b"",
        (_transform(TransformType.ENCR, Encryption.AES_GCM_16, 256), _transform(TransformType.SN, 0)),
    ),
    Proposal(
        2,
        ProtocolId.ESP,
        b"",
        (
            _transform(TransformType.ENCR, Encryption.AES_CBC, 256),
            _transform(TransformType.INTEG, Integrity.HMAC_SHA2_256_128),
            _transform(TransformType.SN, 0),
        ),
    ),
)
#: All addresses of IPv4 and IPv6: the responder narrows them down (RFC 7296, section 2.9).
EVERYTHING: Final = tuple(
    TrafficSelector(kind, 0, (0, 0xFFFF), bytes(size), b"\xff" * size, b"")
    for kind, size in (
        (TrafficSelectorType.TS_IPV4_ADDR_RANGE, 4),
        (TrafficSelectorType.TS_IPV6_ADDR_RANGE, 16),
    )
)


@dataclass(frozen=True, slots=True)
class HandshakeShape:
    """A handshake as its initiator wants it. Sizes are bytes."""

    proposals: tuple[Proposal, ...]  # for the IKE SA, in order of preference
    key_exchange: int  # method of the first KE payload
    nonce_bytes: int = _NONCE
    notifies: tuple[tuple[int, bytes], ...] = ()  # type and data, of IKE_SA_INIT, without those made anew
    fragment_size: int | None = None  # largest IKE message that is not cut; None: no IKE fragmentation
    floats: bool = False  # goes over to port 4500 after IKE_SA_INIT, be there a NAT or not
    esp_proposals: tuple[Proposal, ...] = USUAL_ESP  # none: an IKE SA without CHILD_SA (RFC 6023)
    selectors_i: tuple[TrafficSelector, ...] = EVERYTHING
    selectors_r: tuple[TrafficSelector, ...] = EVERYTHING
    configuration: bytes | None = None  # body of the CP payload; None: there was none
    auth_notifies: tuple[tuple[int, bytes], ...] = ()  # of the first IKE_AUTH request
    identity_i: Identification | None = None
    identity_r: Identification | None = None  # that was asked for; None: none
    auth_initiator: str | None = None  # the report's word: psk, rsa, ecdsa-256, eap; None: credentials decide
    auth_responder: str | None = None
    eap: str | None = None  # EAP-MD5, EAP-MSCHAPv2; None: whatever the responder asks for
    asks_certificates: bool = False  # sends CERTREQ; with trusted authorities it does so anyway
    guessed: tuple[str, ...] = ()  # names of fields that are defaults, because the capture does not tell
    left_out: tuple[str, ...] = ()  # what was recorded and is not done again

    @property
    def additional(self) -> bool:
        """Whether additional key exchanges are offered (RFC 9370)."""
        kinds = range(TransformType.ADDKE1, TransformType.ADDKE7 + 1)
        return any(
            transform.type in kinds and transform.id for proposal in self.proposals for transform in proposal.transforms
        )


#: What `HandshakeShape.guessed` may name, in words.
WORDS: Final = MappingProxyType(
    {
        "fragment_size": "fragment size",
        "auth_initiator": "authentication of the initiator",
        "identity_i": "identity of the initiator",
        "identity_r": "identity of the responder that is asked for",
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
    """The shape of a handshake in a capture, and its number as the report counts.

    `handshake`: that number; None: the first that can be re-enacted. `keys`, `ports`: as in `analysis.read.read`.
    Raises `CannotReplayError` if the capture cannot be read or has no such handshake.
    """
    sas: list[IkeSaRecord] = []
    options = ReadOptions(
        ports=ports,
        keys=keys,
        payloads=True,
        looked=lambda conversation, sealed, contents: sas.extend(collect_ike_sas(conversation, sealed, contents, ())),
    )
    analysis = read_captures(path, options)
    if not analysis.captures:
        why = analysis.skipped[-1].reason if analysis.skipped else "nothing could be read"
        raise CannotReplayError(f"{path}: {why}")
    whole = {sa.handshake + 1: sa for sa in sas if sa.version == Protocol.IKEV2 and _requests(sa)}
    if handshake is None and whole:
        handshake = min(whole)
    if handshake is None or handshake not in whole:
        which = "no handshake" if handshake is None else f"handshake {handshake} is none"
        raise CannotReplayError(f"{path}: {which} of IKEv2 with an IKE_SA_INIT request in the capture")
    return handshake, extract_shape(whole[handshake], analysis)


def extract_shape(sa: IkeSaRecord, analysis: Analysis) -> HandshakeShape:
    """The shape of one IKE SA of a capture that was read alone, with the messages of `sa` looked into."""
    init = parse_init(_requests(sa)[0])
    offered = init.proposals
    if not offered or init.ke_method is None:
        raise CannotReplayError(
            f"handshake {sa.handshake + 1}: its IKE_SA_INIT request has no proposal or no key exchange"
        )
    fragment_size, floats, guessed = _sizes(sa.handshake + 1, init.notifies, analysis)
    row = analysis.handshakes.row(sa.handshake, named=True)
    if row["auth_guessed"] or row["auth_initiator"] is None:
        guessed.append("auth_initiator")
    shape = HandshakeShape(
        proposals=offered,
        key_exchange=init.ke_method,
        nonce_bytes=len(init.nonce or bytes(_NONCE)),
        notifies=tuple(notify for notify in init.notifies if notify[0] in _INIT_NOTIFIES),
        fragment_size=fragment_size,
        floats=floats,
        auth_initiator=row["auth_initiator"],
        auth_responder=row["auth_responder"],
        eap=row["auth_eap"],
        left_out=_names(kind for kind, _ in init.notifies if kind not in _INIT_NOTIFIES | _MADE_ANEW),
    )
    first = next((message.content for message in sa.messages if _begins_auth(message.content)), None)
    if first is None:
        guessed += ["identity_i", "identity_r", "esp_proposals", "selectors_i", "selectors_r"]
        return replace(shape, guessed=tuple(guessed))
    return replace(_with_auth(shape, first), guessed=tuple(guessed))


def _requests(sa: IkeSaRecord) -> list[bytes]:
    """The IKE_SA_INIT requests, in order."""
    return [
        message.message
        for message in sa.messages
        if message.content.exchange_type == ExchangeType.IKE_SA_INIT and not message.content.response
    ]


def _begins_auth(content: DecodedMessage) -> bool:
    """The first IKE_AUTH request: the one that says who the initiator is."""
    return (
        content.exchange_type == ExchangeType.IKE_AUTH
        and content.from_initiator
        and not content.response
        and bool(content.get_bodies(PayloadType.IDI))
    )


def _sizes(
    handshake: int, notifies: Sequence[tuple[int, bytes]], analysis: "Analysis"
) -> tuple[int | None, bool, list[str]]:
    """Largest message that is not cut, whether port 4500 is used, and which of these is guessed.

    Fragments tell the first; without any, what was sent whole is a lower bound.
    """
    # here, so that the process that reads a large capture is forked without polars
    import polars as pl

    requests = analysis.messages.filter(handshake=handshake, sender="initiator", kind="request", set_up=True).select(
        "message", "type"
    )
    frames = analysis.frames.join(requests, on="message").filter(pl.col("exchange_type") != ExchangeType.IKE_SA_INIT)
    floats = bool((frames["destination_port"] == NAT_PORT).any())
    if not any(kind == NotifyType.IKEV2_FRAGMENTATION_SUPPORTED for kind, _ in notifies):
        return None, floats, []
    cut = frames.filter(pl.col("fragment").is_not_null())
    largest = cut["ike_bytes"].max() if len(cut) else None
    if isinstance(largest, int):
        return largest, floats, []
    whole = frames["ike_bytes"].max() if len(frames) else None
    return max(_USUAL_FRAGMENT, whole if isinstance(whole, int) else 0), floats, ["fragment_size"]


def _with_auth(shape: HandshakeShape, first: DecodedMessage) -> HandshakeShape:
    """What the first IKE_AUTH request adds. Payloads that make no sense count as if they were not there."""
    notifies = [(notify.type, notify.data) for notify in _parsed(parse_notify, first.get_bodies(PayloadType.NOTIFY))]
    initiator, responder = (
        next(iter(_parsed(parse_identification, first.get_bodies(kind))), None)
        for kind in (PayloadType.IDI, PayloadType.IDR)
    )
    security = first.get_bodies(PayloadType.SA)
    esp = [
        proposal for body in security for proposal in parse_sa(body).proposals if proposal.protocol == ProtocolId.ESP
    ]
    esp = [proposal for proposal in esp if len(proposal.transforms) <= _MOST][:_MOST]
    selectors_i, selectors_r = (
        tuple(
            selector
            for body in first.get_bodies(kind)
            for selector in parse_traffic_selectors(body).selectors
            if selector.type in (TrafficSelectorType.TS_IPV4_ADDR_RANGE, TrafficSelectorType.TS_IPV6_ADDR_RANGE)
        )
        for kind in (PayloadType.TSI, PayloadType.TSR)
    )
    return replace(
        shape,
        # counted from 1 without a gap (RFC 7296, section 3.3.1)
        esp_proposals=tuple(replace(proposal, number=number) for number, proposal in enumerate(esp, 1))
        or (USUAL_ESP if security else ()),
        selectors_i=selectors_i[:_MOST] or EVERYTHING,
        selectors_r=selectors_r[:_MOST] or EVERYTHING,
        configuration=next(iter(first.get_bodies(PayloadType.CP)), None),
        auth_notifies=tuple(notify for notify in notifies if notify[0] in _AUTH_NOTIFIES),
        identity_i=initiator,
        identity_r=responder,
        asks_certificates=bool(first.get_bodies(PayloadType.CERTREQ)),
        left_out=(
            *shape.left_out,
            *_names(kind for kind, _ in notifies if kind not in _AUTH_NOTIFIES),
            *_signatures(first),
        ),
    )


def _signatures(first: DecodedMessage) -> tuple[str, ...]:
    """The initiator's signature, where ours will be another: RSA keys sign by PKCS #1 v1.5 (`keys.signing`)."""
    names = map(get_authentication_name, _parsed(parse_authentication, first.get_bodies(PayloadType.AUTH)))
    return tuple(f"{name} (RSA keys sign with {_OURS})" for name in names if name.startswith(_NOT_OURS))


def _parsed(parse: Callable[[bytes], _Value], bodies: Sequence[bytes]) -> list[_Value]:
    values = []
    for body in bodies:
        with suppress(WireError):
            values.append(parse(body))
    return values


def _names(kinds: Iterable[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(get_notify_name, kinds)))
