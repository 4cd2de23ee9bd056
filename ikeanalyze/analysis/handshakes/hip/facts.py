"""Extract the facts of a HIP base exchange for the report.

The responder offers in R1 and the initiator chooses in I2, the reverse of IKE. HIP DEX is recognised by what it
lacks: its R1 and I2 have host identities and no signature (draft-ietf-hip-dex); its hosts prove by a MAC that they hold
their static Diffie-Hellman keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from ikeanalyze.analysis.exchanges.hip_exchange_types import I1_R1, I2_R2, NOTIFY
from ikeanalyze.analysis.handshakes.auth_methods import AuthMethods, ChosenProposal, InitFacts
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.hip.packet import HipPacket, parse_hip
from ikeanalyze.wire.hip.parameters import DiffieHellman, HipAlgorithmList, HipNotification, HipSignature, HostId
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.hip_parameters import HipParameterType, HostAlgorithm

_P = HipParameterType
_OFFERS: Final = (
    _P.DH_GROUP_LIST,
    _P.DH_GROUP_LIST_DRAFT,
    _P.DIFFIE_HELLMAN,
    _P.HIP_CIPHER,
    _P.HIP_TRANSFORM,
    _P.ESP_TRANSFORM,
)
_ABILITIES: Final = (_P.NAT_TRAVERSAL_MODE, _P.HIT_SUITE_LIST, _P.REG_INFO, _P.REG_REQUEST, _P.TRANSPORT_FORMAT_LIST)
_SIGNATURES: Final = (_P.HIP_SIGNATURE, _P.HIP_SIGNATURE_2)
_FIRST_STATUS: Final = 16384  # of the notify message types (RFC 7401, section 5.2.19)
#: As IKE's methods are called; the others by their names.
_WORDS: Final[Mapping[int, str]] = MappingProxyType({HostAlgorithm.DSA: "dss"})
#: The hash that goes with a HIT suite (RFC 7401, section 3.2): of the key derivation, and of HIP_MAC.
_HASHES: Final = {1: "HMAC-SHA2-256", 2: "HMAC-SHA2-384", 3: "HMAC-SHA1"}
_CMAC: Final = "AES-CMAC"


@dataclass(frozen=True, slots=True)
class HipFacts:
    """What the packets of one handshake tell."""

    request: InitFacts  # as of an IKE_SA_INIT request: the offer and what the initiator supports
    response: InitFacts  # as of a response: the choice and what the responder supports
    auth: AuthMethods | None
    error: str | None  # an error notify received instead of R2


@dataclass(slots=True)
class _BaseExchangePackets:
    """Packets of one handshake, the last of each kind."""

    i1: HipPacket | None = None
    r1: HipPacket | None = None
    i2: HipPacket | None = None
    r2: bool = False
    error: str | None = None


def collect_hip_facts(state: AnalysisState) -> Mapping[int, HipFacts]:
    """Facts of the HIP handshakes of a capture, by row."""
    datagrams = state.datagrams
    exchange_types = (I1_R1, I2_R2, NOTIFY)
    rows = np.flatnonzero((datagrams.protocol == Protocol.HIP) & np.isin(datagrams.exchange_type, exchange_types))
    seen: dict[int, _BaseExchangePackets] = {}
    read: set[tuple[int, int]] = set()  # retransmissions tell nothing new
    columns = (state.association.handshake, datagrams.digest, datagrams.datagram, datagrams.exchange_type)
    values = (column[rows].tolist() for column in (*columns, datagrams.is_response))
    for handshake, digest, datagram, exchange_type, answers in zip(*values, strict=True):
        packets = seen.setdefault(handshake, _BaseExchangePackets())
        if exchange_type == I2_R2 and answers:
            packets.r2 = True
        elif (handshake, digest) not in read:
            read.add((handshake, digest))
            view = parse_hip(state.clear.get(datagram, b""))
            if view is not None:
                _add_packet(packets, view, exchange_type, answers)
    return {handshake: _make_facts(packets, state.hits[handshake][1]) for handshake, packets in seen.items()}


def _add_packet(seen: _BaseExchangePackets, view: HipPacket, exchange_type: int, answers: bool) -> None:
    if exchange_type == NOTIFY:
        notification = view.first(HipNotification)
        if notification is not None and notification.type < _FIRST_STATUS:
            seen.error = notification.name
    elif exchange_type == I2_R2:
        seen.i2 = view
    elif answers:
        seen.r1 = view
    else:
        seen.i1 = view


def _make_facts(seen: _BaseExchangePackets, responder: bytes) -> HipFacts:
    r1, i2 = seen.r1, seen.i2
    diet = any(_is_diet(view) for view in (r1, i2))
    chosen = None
    if i2 is not None:
        check = _CMAC if diet else _HASHES.get(_get_hit_suite(responder))
        chosen = ChosenProposal(
            encryption=_get_first_name(i2, _P.HIP_CIPHER) or _get_first_name(i2, _P.HIP_TRANSFORM),
            prf=check,
            integrity=check,
            key_exchange=_get_dh_group(i2, r1, diet),
        )
    auth = None
    if r1 is not None or i2 is not None:
        auth = AuthMethods(_get_auth_method(i2, diet), _get_auth_method(r1, diet), None, guessed=False)
    return HipFacts(
        request=InitFacts(
            _describe_parameters(r1, _OFFERS),
            None,
            _describe_parameters(seen.i1, _OFFERS) + _describe_parameters(i2, _ABILITIES),
            None,
            truncated=None,
        ),
        response=InitFacts((), chosen, _describe_parameters(r1, _ABILITIES), None, truncated=None),
        auth=auth,
        error=None if seen.r2 else seen.error,
    )


def _is_diet(view: HipPacket | None) -> bool:
    """A packet of HIP DEX that is there to its end, where BEX has its signature."""
    return view is not None and view.error is None and view.has(_P.HOST_ID) and not view.has(*_SIGNATURES)


def _get_hit_suite(hit: bytes) -> int:
    """The HIT suite of a HIT (RFC 7343, section 2: after the prefix 2001:20::/28); 0: a HIT of HIPv1, or no HIT."""
    return hit[3] & 0x0F if hit.startswith(b"\x20\x01\x00") and hit[3] >> 4 == 2 else 0


def _describe_parameters(view: HipPacket | None, parameter_types: tuple[HipParameterType, ...]) -> tuple[str, ...]:
    if view is None:
        return ()
    return tuple(parameter.describe() for parameter in view.parameters if parameter.type in parameter_types)


def _get_first_name(view: HipPacket, parameter_type: int) -> str | None:
    value = view.value(parameter_type)
    return value.names[0] if isinstance(value, HipAlgorithmList) and value.names else None


def _get_dh_group(i2: HipPacket, r1: HipPacket | None, diet: bool) -> str | None:
    """The Diffie-Hellman group; that of static keys is known if R1 names no other."""
    exchanged = i2.first(DiffieHellman)
    if exchanged is not None:
        return exchanged.name
    if not diet or r1 is None:
        return None
    listed = r1.value(_P.DH_GROUP_LIST) or r1.value(_P.DH_GROUP_LIST_DRAFT)
    return listed.names[0] if isinstance(listed, HipAlgorithmList) and len(listed.names) == 1 else None


def _get_auth_method(view: HipPacket | None, diet: bool) -> str | None:
    """How the sender of R1 or I2 proves its identity; in I2 the host identity may be encrypted."""
    if view is None:
        return None
    host, signature = view.first(HostId), view.first(HipSignature)
    if host is not None and host.curve is not None:
        return f"ecdsa-{host.curve.removeprefix('P-')}"
    algorithm = host.algorithm if host is not None else signature.algorithm if signature is not None else None
    if algorithm is None:
        return "ecdh" if diet else None
    return _WORDS.get(algorithm) or get_name(HostAlgorithm, algorithm).lower()
