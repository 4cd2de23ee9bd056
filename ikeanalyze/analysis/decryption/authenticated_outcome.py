"""What the contents of a handshake prove: how it ended and how the peers authenticated.

IKEv2 (RFC 7296, sections 1.2, 2.15, 2.16 and 2.21; RFC 5998):

1. failed: the last IKE_AUTH response has an error notify, or EAP's failure, and no AUTH payload; or the initiator refuses
   the responder by AUTHENTICATION_FAILED in an INFORMATIONAL request.
2. established: the last IKE_AUTH response has an AUTH payload and no EAP payload. An error notify beside it is about
   the first CHILD_SA alone, but for those by which the IKE SA is not created: then failed.
3. not done: there is neither, so IKE_AUTH was to go on.

IKEv1 (RFC 2409, section 5): a quick mode whose three messages are readable proves phase 1. What comes before that can fail
it: an error notify in an encrypted informational message, or XAuth's status (draft-beaulieu-ike-xauth-02, section 3.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage
from ikeanalyze.analysis.handshakes.auth_methods import FIRST_STATUS, AuthMethods
from ikeanalyze.analysis.handshakes.outcome import Outcome
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.eap.packet import get_eap_method, parse_eap_header
from ikeanalyze.wire.ikev1.payloads import Ikev1Notify, decode_ikev1_payload
from ikeanalyze.wire.ikev2.auth_methods import parse_digital_signature
from ikeanalyze.wire.ikev2.notify import parse_notify
from ikeanalyze.wire.ikev2.payloads import Authentication, parse_authentication, parse_certificate
from ikeanalyze.wire.ikev2.proposals import parse_attribute
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries import ikev1 as ikev1_registry
from ikeanalyze.wire.registries.eap import EapCode
from ikeanalyze.wire.registries.ikev1_phase2 import TransactionType, XauthAttribute
from ikeanalyze.wire.registries.ikev2 import AuthMethod, ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType
from ikeanalyze.wire.x509.certificates import ParsedCertificate, decode_certificate

_QUICK_MODE_MESSAGES: Final = 3
#: In an IKE_AUTH response, whatever stands beside them (RFC 7296, 2.21.2).
_FATAL: Final = frozenset(
    get_name(NotifyType, kind)
    for kind in (
        NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD,
        NotifyType.INVALID_SYNTAX,
        NotifyType.AUTHENTICATION_FAILED,
    )
)
#: Reasons that are no notifies.
_EAP_FAILURE: Final = "EAP failure"
_XAUTH_FAILURE: Final = "XAUTH_STATUS failure"
_AUTHS: Final = frozenset({ExchangeType.IKE_AUTH, ExchangeType.GSA_AUTH})
#: Methods whose number says all, in the report's words.
_WORDS: Final = {
    AuthMethod.RSA: "rsa",
    AuthMethod.SHARED_KEY: "psk",
    AuthMethod.DSS: "dss",
    AuthMethod.ECDSA_256: "ecdsa-256",
    AuthMethod.ECDSA_384: "ecdsa-384",
    AuthMethod.ECDSA_521: "ecdsa-521",
    AuthMethod.SECURE_PASSWORD: "gspm",
    AuthMethod.NULL: "null",
}
#: Schemes of signatures (RFC 7427) in the report's words; the others are their own in small letters.
_SCHEMES: Final = {"RSASSA-PKCS1-v1_5": "rsa", "RSASSA-PSS": "rsa"}
_CURVES: Final = {"P-256": "256", "P-384": "384", "P-521": "521"}


@dataclass(frozen=True, slots=True)
class DecryptedOutcome:
    """What is read and not assumed."""

    outcome: Outcome | None  # None: the contents do not settle it
    reason: str | None  # error notify, or the failure of EAP or XAuth
    undone: bool  # all IKE_AUTH responses are readable, and none of them ends the handshake
    auth: AuthMethods | None
    child_error: str | None  # why there is an IKE SA but no first CHILD_SA


def outcome_from_payloads(contents: Sequence[DecodedMessage]) -> DecryptedOutcome:
    """The proof of one handshake's contents, which are in order of their exchanges."""
    if any(content.protocol == Protocol.IKEV1 for content in contents):
        return _prove_ikev1(contents)
    rounds = [one for one in contents if one.exchange_type in _AUTHS and one.encrypted]
    responses = [one for one in rounds if one.response]
    auth = _methods(rounds)
    refusal = _refusal(contents)
    if not responses:
        return DecryptedOutcome(None if refusal is None else Outcome.FAILED, refusal, False, auth, None)
    last = responses[-1]
    error = _error(last)
    ended = bool(last.get_bodies(PayloadType.AUTH)) and not last.get_bodies(PayloadType.EAP)
    if refusal is not None:
        return DecryptedOutcome(Outcome.FAILED, refusal, False, auth, None)
    if ended and error not in _FATAL:
        return DecryptedOutcome(Outcome.ESTABLISHED, None, False, auth, error)
    if error is None and any(_failed(body) for body in last.get_bodies(PayloadType.EAP)):
        error = _EAP_FAILURE
    if error is not None:
        return DecryptedOutcome(Outcome.FAILED, error, False, auth, None)
    return DecryptedOutcome(None, None, True, auth, None)


def collect_certificates(contents: Sequence[DecodedMessage]) -> list[tuple[bool, ParsedCertificate]]:
    """The certificates of the set-up, each with whether the initiator sent it, in order."""
    found = []
    for content in contents:
        if content.set_up and content.protocol == Protocol.IKEV2:
            for body in content.get_bodies(PayloadType.CERT):
                try:
                    found.append((content.from_initiator, decode_certificate(parse_certificate(body))))
                except WireError:
                    continue
    return found


def _error(content: DecodedMessage) -> str | None:
    """The first error notify."""
    for body in content.get_bodies(PayloadType.NOTIFY):
        try:
            kind = parse_notify(body).type
        except WireError:
            continue
        if kind < FIRST_STATUS:
            return get_name(NotifyType, kind)
    return None


def _failed(eap: bytes) -> bool:
    """The responder ends the exchange by that (RFC 7296, section 2.16)."""
    packet = parse_eap_header(eap)
    return packet is not None and packet.code == EapCode.FAILURE


def _refusal(contents: Sequence[DecodedMessage]) -> str | None:
    """The initiator's, once it has seen what the responder authenticates itself with (RFC 7296, 2.21.2)."""
    name = NotifyType.AUTHENTICATION_FAILED.label
    for content in contents:
        if (
            content.exchange_type == ExchangeType.INFORMATIONAL
            and content.from_initiator
            and not content.response
            and content.encrypted
            and _error(content) == name
        ):
            return name
    return None


def _methods(rounds: Sequence[DecodedMessage]) -> AuthMethods | None:
    """How each side authenticated, by its first AUTH payload."""
    eap = [body for content in rounds for body in content.get_bodies(PayloadType.EAP)]
    words: dict[bool, str] = {}
    keys = {side: view for side, view in reversed(collect_certificates(rounds)) if view.key is not None}
    for content in rounds:
        for body in content.get_bodies(PayloadType.AUTH):
            try:
                authentication = parse_authentication(body)
            except WireError:
                continue
            side = content.from_initiator
            words.setdefault(side, _word(authentication, keys.get(side)))
    initiator, responder = words.get(True), words.get(False)
    if eap:
        initiator = "eap"
        # the AUTH payload that ends EAP is made with the method's key; the responder's own is in its first message, which
        # says who it is. With EAP alone, there is none before the method has made a key (RFC 5998)
        first = next((one for one in rounds if one.response and one.get_bodies(PayloadType.IDR)), None)
        if first is None:
            responder = None
        elif not first.get_bodies(PayloadType.AUTH):
            responder = "eap" if responder is not None else None
    if initiator is None and responder is None:
        return None
    return AuthMethods(initiator, responder, get_eap_method(eap) if eap else None, guessed=False)


def _word(authentication: Authentication, certificate: ParsedCertificate | None) -> str:
    """The report's word for an AUTH payload: psk, rsa, ecdsa-256, ed25519, ml-dsa-65."""
    word = _WORDS.get(AuthMethod(authentication.method)) if authentication.method in set(AuthMethod) else None
    if word is not None:
        return word
    if authentication.method != AuthMethod.DIGITAL_SIGNATURE:
        return str(authentication.method)
    try:
        algorithm = parse_digital_signature(authentication.data).algorithm
    except WireError:
        return "signature"
    if algorithm.scheme is None:
        return algorithm.oid
    word = _SCHEMES.get(algorithm.scheme, algorithm.scheme.lower())
    key = certificate.key if certificate is not None else None
    if word == "ecdsa" and key is not None and key.curve is not None:
        # the signature names a hash; the curve is that of the key
        return f"ecdsa-{_CURVES.get(key.curve, key.curve)}"
    return word


def _prove_ikev1(contents: Sequence[DecodedMessage]) -> DecryptedOutcome:
    quick: dict[int, set[tuple[bool, bytes]]] = {}
    for content in contents:
        if not content.encrypted:
            continue
        reason = _ikev1_failure(content)
        if reason is not None:
            return DecryptedOutcome(Outcome.FAILED, reason, False, None, None)
        if content.exchange_type == ikev1_registry.Ikev1ExchangeType.QUICK_MODE:
            messages = quick.setdefault(content.message_id, set())
            messages.add((content.from_initiator, content.plaintext))
            if len(messages) == _QUICK_MODE_MESSAGES:
                return DecryptedOutcome(Outcome.ESTABLISHED, None, False, None, None)
    return DecryptedOutcome(None, None, False, None, None)


def _ikev1_failure(content: DecodedMessage) -> str | None:
    """Why the sender of one message ends it all."""
    for payload in content.payloads:
        body = decode_ikev1_payload(payload)
        if (
            content.exchange_type == ikev1_registry.Ikev1ExchangeType.INFORMATIONAL
            and isinstance(body, Ikev1Notify)
            and body.type < FIRST_STATUS
        ):
            return get_name(ikev1_registry.Ikev1NotifyType, body.type)
        if payload.type == ikev1_registry.Ikev1PayloadType.ATTRIBUTES and _xauth_failed(payload.body):
            return _XAUTH_FAILURE
    return None


def _xauth_failed(body: bytes) -> bool:
    """Whether an attributes payload sets the status to failure, which is 0."""
    cursor = Cursor(body)
    try:
        kind = cursor.get_uint8()
        cursor.skip(3)  # reserved, identifier
        while kind == TransactionType.SET and cursor.remaining():
            attribute = parse_attribute(cursor)
            if attribute.type == XauthAttribute.XAUTH_STATUS:
                return attribute.value == 0
    except WireError:
        pass
    return False
