"""Determines from decrypted messages how a handshake ended and how the peers authenticated.

IKEv2 (RFC 7296, sections 1.2, 2.15, 2.16 and 2.21; RFC 4739; RFC 5998):

1. Failed: the last IKE_AUTH response has an error notify or EAP-Failure and no AUTH payload; or the initiator rejects
   the responder with AUTHENTICATION_FAILED in an INFORMATIONAL request. The error notify is the reason if there are
   both: without an AUTH payload there is nothing that the initiator could have rejected. Or the last IKE_INTERMEDIATE
   response has an error notify (RFC 9242, section 3.4), and no IKE_AUTH exchange follows.
2. Established: the last IKE_AUTH response has an AUTH payload and no EAP payload, and neither it nor its request has
   ANOTHER_AUTH_FOLLOWS. A response with the Child SA ends IKE_AUTH in any case: it has no AUTH payload if the initiator
   authenticates itself more often than the responder. An error notify in the same message only concerns the first Child
   SA, except those that prevent the IKE SA: then failed. So does REDIRECT in place of the Child SA (RFC 5685,
   section 6).
3. Unfinished: neither, so IKE_AUTH should have continued.

IKEv1 (RFC 2409, section 5): a quick mode with decrypted messages of both sides proves that the IKE SA is established:
each side accepted phase 1, and XAuth if there was one, before it sent its message. Without such a quick mode it has
failed if there is an error notify in an encrypted informational message, or if the XAUTH status is failure
(draft-beaulieu-ike-xauth-02, section 3.2). Otherwise an error notify concerns something else, such as a quick mode for
other networks.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.handshakes.auth_methods import AuthMethods
from ikeanalyze.analysis.handshakes.outcome import EAP_FAILURE, XAUTH_FAILURE, Outcome
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.packet import get_eap_method, parse_eap_header
from ikeanalyze.wire.ikev2.auth_methods import parse_digital_signature
from ikeanalyze.wire.ikev2.payloads import Authentication, parse_authentication, parse_certificate, parse_notify
from ikeanalyze.wire.ikev2.proposals import parse_attribute
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev2 import AUTH_EXCHANGES, AuthMethod, ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import FIRST_STATUS, NotifyType
from ikeanalyze.wire.x509.certificates import ParsedCertificate, decode_certificate

#: Error notifies in an IKE_AUTH response that prevent the IKE SA (RFC 7296, section 2.21.2).
_FATAL: Final = frozenset(
    get_name(NotifyType, notify_type)
    for notify_type in (
        NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD,
        NotifyType.INVALID_SYNTAX,
        NotifyType.AUTHENTICATION_FAILED,
    )
)
#: Names of the methods that need no further data.
_METHOD_NAMES: Final = {
    AuthMethod.RSA: "rsa",
    AuthMethod.SHARED_KEY: "psk",
    AuthMethod.DSS: "dss",
    AuthMethod.ECDSA_256: "ecdsa-256",
    AuthMethod.ECDSA_384: "ecdsa-384",
    AuthMethod.ECDSA_521: "ecdsa-521",
    AuthMethod.SECURE_PASSWORD: "gspm",
    AuthMethod.NULL: "null",
}
#: Names of signature schemes (RFC 7427) that are not the scheme in lower case.
_SCHEME_NAMES: Final = {"RSASSA-PKCS1-v1_5": "rsa", "RSASSA-PSS": "rsa"}
_EAP: Final = "eap"
_CURVES: Final = {"P-256": "256", "P-384": "384", "P-521": "521"}


class DecryptedOutcome(Struct, frozen=True):
    """Outcome and authentication methods as decrypted, not guessed."""

    outcome: Outcome | None  # None: unknown
    reason: str | None  # error notify, or failure of EAP or XAUTH
    undone: bool  # all IKE_AUTH responses are decrypted, and none ends the handshake (rule 3)
    auth: AuthMethods | None
    #: Error notify about the first Child SA, or REDIRECT in its place, although the IKE SA was established.
    child_error: str | None
    before_auth: bool = False  # failed in IKE_INTERMEDIATE: an IKE_AUTH exchange, decrypted or not, shows otherwise


def outcome_from_payloads(contents: Sequence[DecodedMessage]) -> DecryptedOutcome:
    """The outcome of one handshake; `contents` are its messages in the order of their exchanges."""
    if any(content.protocol == Protocol.IKEV1 for content in contents):
        return _get_ikev1_outcome(contents)
    auths = [content for content in contents if content.exchange_type in AUTH_EXCHANGES and content.encrypted]
    responses = [content for content in auths if content.response]
    auth = _get_auth_methods(auths)
    rejection = _find_rejection(contents)
    if not responses:
        if rejection is None and (refusal := _find_refused_intermediate(contents)) is not None:
            return DecryptedOutcome(Outcome.FAILED, refusal, False, auth, None, before_auth=True)
        return DecryptedOutcome(None if rejection is None else Outcome.FAILED, rejection, False, auth, None)
    last = responses[-1]
    error = _find_error_notify(last)
    ended = not last.get_bodies(PayloadType.EAP) and (
        bool(last.get_bodies(PayloadType.SA))
        or (bool(last.get_bodies(PayloadType.AUTH)) and not _announces_another_auth(auths, last.message_id))
    )
    if error is not None and not ended:
        return DecryptedOutcome(Outcome.FAILED, error, False, auth, None)
    if rejection is not None:
        return DecryptedOutcome(Outcome.FAILED, rejection, False, auth, None)
    if ended and error not in _FATAL:
        return DecryptedOutcome(Outcome.ESTABLISHED, None, False, auth, error or _find_redirect(last))
    if error is None and any(_is_eap_failure(body) for body in last.get_bodies(PayloadType.EAP)):
        error = EAP_FAILURE
    if error is not None:
        return DecryptedOutcome(Outcome.FAILED, error, False, auth, None)
    return DecryptedOutcome(None, None, True, auth, None)


def collect_certificates(contents: Sequence[DecodedMessage]) -> list[tuple[bool, ParsedCertificate]]:
    """The certificates of the set-up, in order, each with whether the initiator sent it."""
    return [
        (content.from_initiator, certificate)
        for content in contents
        if content.set_up and content.protocol == Protocol.IKEV2
        for certificate in content.parse_bodies(
            PayloadType.CERT, lambda body: decode_certificate(parse_certificate(body))
        )
    ]


def _find_error_notify(content: DecodedMessage) -> str | None:
    """The name of the first error notify."""
    types = (notify.type for notify in content.parse_bodies(PayloadType.NOTIFY, parse_notify))
    return next((get_name(NotifyType, notify_type) for notify_type in types if notify_type < FIRST_STATUS), None)


def _announces_another_auth(auths: Sequence[DecodedMessage], message_id: int) -> bool:
    """Whether a message of an IKE_AUTH exchange announces that its sender authenticates itself again (RFC 4739)."""
    return any(
        notify.type == NotifyType.ANOTHER_AUTH_FOLLOWS
        for content in auths
        if content.message_id == message_id
        for notify in content.parse_bodies(PayloadType.NOTIFY, parse_notify)
    )


def _find_redirect(content: DecodedMessage) -> str | None:
    """The name of REDIRECT, if the response has it and no Child SA (RFC 5685, section 6)."""
    if content.get_bodies(PayloadType.SA):
        return None
    types = (notify.type for notify in content.parse_bodies(PayloadType.NOTIFY, parse_notify))
    return NotifyType.REDIRECT.label if NotifyType.REDIRECT in types else None


def _is_eap_failure(eap: bytes) -> bool:
    """Whether the responder ends IKE_AUTH with this EAP packet (RFC 7296, section 2.16)."""
    packet = parse_eap_header(eap)
    return packet is not None and packet.code == EapCode.FAILURE


def _find_rejection(contents: Sequence[DecodedMessage]) -> str | None:
    """The initiator's AUTHENTICATION_FAILED in reply to the responder's AUTH payload (RFC 7296, section 2.21.2)."""
    name = NotifyType.AUTHENTICATION_FAILED.label
    for content in contents:
        if (
            content.exchange_type == ExchangeType.INFORMATIONAL
            and content.from_initiator
            and not content.response
            and content.encrypted
            and _find_error_notify(content) == name
        ):
            return name
    return None


def _find_refused_intermediate(contents: Sequence[DecodedMessage]) -> str | None:
    """The error notify of the last IKE_INTERMEDIATE response."""
    responses = [
        content
        for content in contents
        if content.exchange_type == ExchangeType.IKE_INTERMEDIATE and content.response and content.encrypted
    ]
    return _find_error_notify(responses[-1]) if responses else None


def _get_auth_methods(auths: Sequence[DecodedMessage]) -> AuthMethods | None:
    """The methods of each side, joined by "+" if it authenticates itself several times (RFC 4739)."""
    eap = [body for content in auths for body in content.get_bodies(PayloadType.EAP)]
    initiator, responder = (_list_methods(auths, bool(eap), from_initiator=side) for side in (True, False))
    if not initiator and not responder:
        return None
    return AuthMethods(
        "+".join(initiator) or None,
        "+".join(responder) or None,
        get_eap_method(eap) if eap else None,
        guessed=False,
    )


def _list_methods(auths: Sequence[DecodedMessage], has_eap: bool, *, from_initiator: bool) -> list[str]:
    """The method of each authentication of one side.

    Each begins with the side's identity, and has its AUTH payload in the same message. If that is missing, it is EAP
    (RFC 5998 for the responder), and the AUTH payload that follows uses the key of the EAP method.
    """
    identity = PayloadType.IDI if from_initiator else PayloadType.IDR
    sent = [content for content in auths if content.from_initiator == from_initiator]
    sent_auth = any(content.get_bodies(PayloadType.AUTH) for content in sent)
    certificates = collect_certificates(sent)
    methods: list[str] = []
    for content in sent:
        begins = bool(content.get_bodies(identity))
        authentication = next(content.parse_bodies(PayloadType.AUTH, parse_authentication), None)
        if authentication is not None and (begins or not has_eap):
            own = (parsed for _, parsed in (*collect_certificates([content]), *certificates) if parsed.key is not None)
            methods.append(_get_method_name(authentication, next(own, None)))
        elif begins and has_eap and authentication is None and (from_initiator or sent_auth):
            methods.append(_EAP)
    if from_initiator and has_eap and _EAP not in methods:  # the capture lacks the message that begins it
        methods.append(_EAP)
    return methods


def _get_method_name(authentication: Authentication, certificate: ParsedCertificate | None) -> str:
    """The method of an AUTH payload: psk, rsa, ecdsa-256, ed25519, ml-dsa-65."""
    if authentication.method in _METHOD_NAMES:
        return _METHOD_NAMES[AuthMethod(authentication.method)]
    if authentication.method != AuthMethod.DIGITAL_SIGNATURE:
        return str(authentication.method)
    try:
        algorithm = parse_digital_signature(authentication.data).algorithm
    except WireError:
        return "signature"
    if algorithm.scheme is None:
        return algorithm.oid
    name = _SCHEME_NAMES.get(algorithm.scheme, algorithm.scheme.lower())
    key = certificate.key if certificate is not None else None
    if name == "ecdsa" and key is not None and key.curve is not None:
        # the algorithm of the signature names the hash; only the key has the curve
        return f"ecdsa-{_CURVES.get(key.curve, key.curve)}"
    return name


def _get_ikev1_outcome(contents: Sequence[DecodedMessage]) -> DecryptedOutcome:
    quick: dict[int, set[bool]] = {}  # by message ID: the sides whose messages were decrypted
    failure: str | None = None
    for content in contents:
        if not content.encrypted:
            continue
        failure = failure or _find_ikev1_failure(content)
        if content.exchange_type == ikev1_registry.Ikev1ExchangeType.QUICK_MODE:
            sides = quick.setdefault(content.message_id, set())
            sides.add(content.from_initiator)
            if len(sides) == 2:
                return DecryptedOutcome(Outcome.ESTABLISHED, None, False, None, None)
    return DecryptedOutcome(None if failure is None else Outcome.FAILED, failure, False, None, None)


def _find_ikev1_failure(content: DecodedMessage) -> str | None:
    """The reason if this message ends the handshake, unless a quick mode proves that it was not the end."""
    error = find_ikev1_error(content)
    if error is not None:
        return error
    attributes = content.get_bodies(ikev1_registry.Ikev1PayloadType.ATTRIBUTES)
    return XAUTH_FAILURE if any(map(_is_xauth_failure, attributes)) else None


def find_ikev1_error(content: DecodedMessage) -> str | None:
    """The name of the first error notify in an Informational message of IKEv1."""
    # few captures have IKEv1
    from ikeanalyze.wire.ikev1.payloads import Ikev1Notify, decode_ikev1_payload
    from ikeanalyze.wire.registries.ikev1_notifies import Ikev1NotifyType

    if content.exchange_type != ikev1_registry.Ikev1ExchangeType.INFORMATIONAL:
        return None
    for payload in content.payloads:
        body = decode_ikev1_payload(payload)
        if isinstance(body, Ikev1Notify) and body.type < FIRST_STATUS:
            return get_name(Ikev1NotifyType, body.type)
    return None


def _is_xauth_failure(body: bytes) -> bool:
    """Whether an attributes payload sets XAUTH_STATUS to 0, failure."""
    from ikeanalyze.wire.registries.ikev1_phase2 import TransactionType, XauthAttribute

    cursor = Cursor(body)
    try:
        transaction_type = cursor.read_uint8()
        cursor.skip(3)  # reserved, identifier
        while transaction_type == TransactionType.SET and cursor.remaining():
            attribute = parse_attribute(cursor)
            if attribute.type == XauthAttribute.XAUTH_STATUS:
                return attribute.value == 0
    except WireError:
        pass
    return False
