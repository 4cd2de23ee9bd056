"""Facts from the decrypted payloads of IKE_AUTH, for handshakes that it refused."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import find_ikev1_error
from ikeanalyze.analysis.handshakes.diagnosis.suspect import DecryptedFacts
from ikeanalyze.analysis.handshakes.outcome import EAP_FAILURE
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.eap.packet import parse_eap_header
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.notify_data import parse_redirect
from ikeanalyze.wire.ikev2.payloads import parse_certificate, parse_identification, parse_notify
from ikeanalyze.wire.ikev2.proposals import parse_sa
from ikeanalyze.wire.ikev2.traffic_selectors import parse_traffic_selectors
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.text import shorten_text
from ikeanalyze.wire.x509.certificates import CertificateOutline, decode_certificate

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage, DecodedMessages

_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SELECTORS: Final = 4


def collect_decrypted_facts(
    decoded: "DecodedMessages | None", state: AnalysisState, rows: Sequence[int]
) -> list[DecryptedFacts]:
    """The facts about the handshakes `rows`."""
    return [_collect(find_decrypted_messages(decoded, state, row), _get_time(state, row)) for row in rows]


def find_decrypted_messages(
    decoded: "DecodedMessages | None", state: AnalysisState, row: int
) -> "list[DecodedMessage]":
    """The decrypted messages of a handshake, in the order of their exchanges, requests first."""
    if decoded is None:
        return []
    low, high = np.searchsorted(state.messages.handshake, np.array([row, row + 1], np.int32)).tolist()
    places = np.unique(decoded.of_message[low:high])
    messages = [decoded.all[place] for place in places[places >= 0].tolist()]
    return sorted((message for message in messages if message.encrypted), key=lambda one: (one.exchange, one.response))


def _get_time(state: AnalysisState, row: int) -> int:
    """When a handshake began, in seconds since 1970."""
    low = int(np.searchsorted(state.messages.handshake, np.int32(row)))
    return int(state.messages.first_ns[low]) // _SECOND_NS


def _collect(messages: "list[DecodedMessage]", time: int) -> DecryptedFacts:
    auths = [message for message in messages if message.exchange_type == ExchangeType.IKE_AUTH]
    requests = [message for message in auths if not message.response]
    responses = [message for message in auths if message.response]
    return DecryptedFacts(
        initiator_identity=_find_identity(requests, PayloadType.IDI),
        wanted_identity=_find_identity(requests, PayloadType.IDR),
        responder_identity=_find_identity(responses, PayloadType.IDR),
        rejected_by=_find_rejecting_side(messages),
        refusing_exchange=_find_refusing_exchange(messages),
        eap_failed=_find_eap_failure(responses),
        certificate_problem=_find_certificate_problem(auths, time),
        selectors=describe_selectors(requests),
        child_offered=_describe_child_proposals(requests),
        redirect_gateway=_find_redirect_gateway(responses),
    )


def _find_identity(messages: "Iterable[DecodedMessage]", kind: PayloadType) -> str | None:
    for message in messages:
        for identity in message.parse_bodies(kind, parse_identification):
            return shorten_text(format_identity(identity.type, identity.data) or "?")
    return None


def _find_rejecting_side(messages: "Iterable[DecodedMessage]") -> Literal["initiator", "responder"] | None:
    for message in messages:
        if message.protocol == Protocol.IKEV1:
            if find_ikev1_error(message) == Ikev1NotifyType.AUTHENTICATION_FAILED.label:
                return "initiator" if message.from_initiator else "responder"
            continue
        for notify in message.parse_bodies(PayloadType.NOTIFY, parse_notify):
            if notify.type == NotifyType.AUTHENTICATION_FAILED:
                return "initiator" if message.from_initiator else "responder"
    return None


def _find_refusing_exchange(messages: "Iterable[DecodedMessage]") -> int | None:
    """The informational exchange of IKEv1 with an error notify."""
    for message in messages:
        if message.protocol == Protocol.IKEV1 and find_ikev1_error(message) is not None:
            return message.exchange
    return None


def _find_eap_failure(responses: "Iterable[DecodedMessage]") -> str | None:
    for message in responses:
        for body in message.get_bodies(PayloadType.EAP):
            packet = parse_eap_header(body)
            if packet is not None and packet.code == EapCode.FAILURE:
                return EAP_FAILURE
    return None


def _find_certificate_problem(messages: "Iterable[DecodedMessage]", time: int) -> str | None:
    """The first certificate that was not valid when the handshake began."""
    for message in messages:
        for certificate in message.parse_bodies(PayloadType.CERT, parse_certificate):
            outline = decode_certificate(certificate).x509
            problem = None if outline is None else _describe_validity(outline, time)
            if outline is not None and problem is not None:
                side = "initiator" if message.from_initiator else "responder"
                return f"the {side}'s certificate {shorten_text(outline.subject)} {problem}"
    return None


def _describe_validity(certificate: CertificateOutline, time: int) -> str | None:
    if certificate.valid_until is not None and time > certificate.valid_until:
        return f"expired on {_format(certificate.valid_until)}, {_format_span(time - certificate.valid_until)} before"
    if certificate.valid_from is not None and time < certificate.valid_from:
        return f"is not valid before {_format(certificate.valid_from)}, {_format_span(certificate.valid_from - time)} later"
    return None


def _format(time: int) -> str:
    return f"{_EPOCH + timedelta(seconds=time):%Y-%m-%d %H:%M:%S} UTC"


def _format_span(seconds: int) -> str:
    """A time in the largest unit that is contained twice in it."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:,} {unit}"
    return f"{seconds} s"


def describe_selectors(requests: "Iterable[DecodedMessage]") -> str | None:
    """The networks of the first request that has some: "10.1.0.0/16 to 10.2.0.0/16"; None: none has."""
    for message in requests:
        sides = []
        for kind in (PayloadType.TSI, PayloadType.TSR):
            for payload in message.parse_bodies(kind, parse_traffic_selectors):
                sides.append(" + ".join(one.describe() for one in payload.selectors[:_MAX_SELECTORS]))
        if len(sides) == 2:
            return " to ".join(map(shorten_text, sides))
    return None


def _describe_child_proposals(requests: "Iterable[DecodedMessage]") -> str | None:
    for message in requests:
        for body in message.get_bodies(PayloadType.SA):
            return " or ".join(proposal.describe() for proposal in parse_sa(body).proposals)
    return None


def _find_redirect_gateway(responses: "Iterable[DecodedMessage]") -> str | None:
    for message in responses:
        for notify in message.parse_bodies(PayloadType.NOTIFY, parse_notify):
            if notify.type == NotifyType.REDIRECT:
                try:
                    return shorten_text(parse_redirect(notify.data).gateway)
                except WireError:
                    return None
    return None
