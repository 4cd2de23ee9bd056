"""IKE_AUTH from the initiator's side: one exchange, or with EAP as many as it takes (RFC 7296, sections 1.2, 2.15 and 2.16).

How both sides of a re-enacted handshake prove who they are (RFC 7296, sections 2.15 and 2.16).
"""

import datetime as dt
import hmac
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Final, TypeVar

from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.auth import shared_key_auth, signed_octets
from ikeanalyze.crypto.certificate_chain import (
    check_certificate_chain,
    check_identity,
    format_distinguished_name,
    names_equal,
)
from ikeanalyze.crypto.mschapv2 import Md4MissingError, require_md4
from ikeanalyze.crypto.signatures import (
    NoSuitableSignatureError,
    UnverifiableSignatureError,
    check_signature,
    sign_octets,
)
from ikeanalyze.replay.credentials import Credentials, get_certificate_subject, get_key_type, parse_identity
from ikeanalyze.replay.handshake_shape import HandshakeShape
from ikeanalyze.replay.initiator.eap_peer import METHODS, EapPeer
from ikeanalyze.replay.initiator.interface import CannotReplayError, RefusedError
from ikeanalyze.replay.initiator.negotiation import InitAcceptance, get_first_error, list_error_notifies
from ikeanalyze.replay.initiator.request_payloads import build_auth_payloads
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from ikeanalyze.replay.initiator.states import InitiatorEvent
from ikeanalyze.replay.responses import get_notify_name
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.encode import Payload as Body
from ikeanalyze.wire.ikev2.encode import encode_authentication, encode_identification
from ikeanalyze.wire.ikev2.notify import parse_notify
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    Certificate,
    Identification,
    parse_authentication,
    parse_certificate,
    parse_identification,
)
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.eap import EapType
from ikeanalyze.wire.registries.ikev2 import AuthMethod, CertEncoding, IdType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Words of the report for signatures with a key of each kind.
_FAMILIES: Final = ("rsa", "ecdsa", "ed25519", "ed448")


class InitiatorAuth(Enum):
    """How the initiator authenticates."""

    PSK = "psk"
    SIGNATURE = "signature"
    EAP = "eap"


def choose_auth(shape: HandshakeShape, credentials: Credentials) -> InitiatorAuth:
    """How we authenticate: as the recorded initiator did, or where that is not known as the credentials allow.

    Raises `CannotReplayError` if the credentials lack what that takes.
    """
    word = shape.auth_initiator
    kind = _meant(word)
    if word is None or "auth_initiator" in shape.guessed:
        return _by_credentials(shape, credentials, kind)
    if kind is None:
        raise CannotReplayError(f"the recorded initiator authenticates with {word}, which cannot be re-enacted")
    _required(kind, credentials, shape)
    own = get_key_type(credentials.key)
    if kind is InitiatorAuth.SIGNATURE and _family(word) != own:
        raise CannotReplayError(f"the recorded initiator signs with {word}, the key of the credentials is for {own}")
    return kind


def _meant(word: str | None) -> InitiatorAuth | None:
    """What the report's word for an authentication means; None: nothing that we do."""
    if word in (InitiatorAuth.PSK.value, InitiatorAuth.EAP.value):
        return InitiatorAuth(word)
    return None if word is None or _family(word) is None else InitiatorAuth.SIGNATURE


def _family(word: str) -> str | None:
    """The kind of key that a word such as ecdsa-256 names."""
    return next((family for family in _FAMILIES if word.startswith(family)), None)


def choose_identity(
    kind: InitiatorAuth, shape: HandshakeShape, credentials: Credentials, address: Identification
) -> Identification:
    """Who we say that we are: the credentials' word, else the recorded one, else what the credentials imply."""
    known = credentials.local_identity or shape.identity_i
    if known is not None:
        return known
    if kind is InitiatorAuth.SIGNATURE:
        return get_certificate_subject(credentials.certificates[0])
    if kind is InitiatorAuth.EAP and credentials.eap_identity:
        return parse_identity(credentials.eap_identity)
    return address


def make_auth_payload(
    kind: InitiatorAuth,
    credentials: Credentials,
    prf: PrfAlgorithm,
    octets: bytes,
    hash_algorithms: Collection[int] | None,
) -> Authentication:
    """Our AUTH payload, with a pre-shared key or a signature, over our signed octets. Raises `RefusedError`."""
    if kind is InitiatorAuth.PSK and credentials.psk is not None:
        return make_shared_key_auth(prf, credentials.psk, octets)
    if credentials.key is None:
        raise RefusedError("the credentials have no key to sign with")
    try:
        return sign_octets(credentials.key, octets, hash_algorithms)
    except NoSuitableSignatureError as problem:
        raise RefusedError(str(problem)) from None


def make_shared_key_auth(prf: PrfAlgorithm, secret: bytes, octets: bytes) -> Authentication:
    """An AUTH payload made with a secret that both sides have: PSK, MSK, or SK_p after an EAP method without key."""
    return Authentication(AuthMethod.SHARED_KEY, shared_key_auth(prf, secret, octets))


def verify_shared_key_auth(prf: PrfAlgorithm, secret: bytes, octets: bytes, authentication: Authentication) -> None:
    """Raise `RefusedError` if an AUTH payload was not made with this secret over these octets."""
    if authentication.method != AuthMethod.SHARED_KEY:
        raise RefusedError(
            f"the responder's AUTH is {get_authentication_name(authentication)} instead of a shared key's"
        )
    if not hmac.compare_digest(authentication.data, shared_key_auth(prf, secret, octets)):
        raise RefusedError("AUTH does not verify: the responder has another secret")


def verify_expected_identity(credentials: Credentials, identity: Identification) -> None:
    """Raise `RefusedError` if the responder is not who the credentials say that it has to be."""
    wanted = credentials.remote_identity
    if wanted is None or wanted == identity:
        return
    named = identity.type == wanted.type == IdType.ID_DER_ASN1_DN
    if not named or not names_equal(identity.data, wanted.data):
        # a distinguished name in the order in which it is to be written
        text = format_distinguished_name(identity.data) if named else format_identity(identity.type, identity.data)
        text = text or identity.data.hex()
        raise RefusedError(f"the responder is {text}, which is not remote.identity of the credentials")


def verify_responder(
    authentication: Authentication,
    certificates: Sequence[Certificate],
    identity: Identification,
    credentials: Credentials,
    prf: PrfAlgorithm,
    octets: bytes,
    time: dt.datetime | None = None,
) -> str:
    """Check the responder's own AUTH payload; what it is: PSK, ECDSA with SHA2-384. Raises `RefusedError`.

    `certificates`: of its CERT payloads, its own first. `octets`: its signed octets. `time`: another than now.
    """
    if authentication.method == AuthMethod.SHARED_KEY:
        if credentials.psk is None:
            raise RefusedError("the responder authenticates with a PSK, and the credentials have none")
        verify_shared_key_auth(prf, credentials.psk, octets, authentication)
        return get_authentication_name(authentication)
    chain = [certificate for certificate in certificates if certificate.encoding == CertEncoding.X509_SIGNATURE]
    if not chain:
        raise RefusedError("the responder signs, but sends no X.509 certificate")
    try:
        wrong = check_signature(authentication, chain[0], octets)
    except UnverifiableSignatureError as problem:
        wrong = problem.reason
    if wrong is not None:
        raise RefusedError(f"AUTH does not verify: {wrong}")
    wrong = check_certificate_chain([certificate.data for certificate in chain], credentials.authorities, time)
    if wrong is not None:
        raise RefusedError(f"the responder's certificate is not trusted: {wrong}")
    wrong = check_identity(chain[0].data, identity)
    if wrong is not None:
        raise RefusedError(f"the responder says who it is, but {wrong}")
    return get_authentication_name(authentication)


def _by_credentials(shape: HandshakeShape, credentials: Credentials, guess: InitiatorAuth | None) -> InitiatorAuth:
    """Without keys for the capture: the guess if the credentials can do it, else what they can."""
    kinds = {
        InitiatorAuth.PSK: credentials.psk is not None,
        InitiatorAuth.SIGNATURE: credentials.key is not None,
        InitiatorAuth.EAP: credentials.eap_password is not None,
    }
    possible = [kind for kind, there in kinds.items() if there]
    if not possible:
        raise CannotReplayError("the credentials have neither local.psk, local.key nor [eap]")
    chosen = guess if guess in possible else possible[0]
    return _required(chosen, credentials, shape)


def _required(kind: InitiatorAuth, credentials: Credentials, shape: HandshakeShape) -> InitiatorAuth:
    lacking = {
        InitiatorAuth.PSK: credentials.psk is None and "local.psk",
        InitiatorAuth.SIGNATURE: credentials.key is None and "local.certificate and local.key",
        InitiatorAuth.EAP: credentials.eap_password is None and "[eap]",
    }[kind]
    if lacking:
        raise CannotReplayError(
            f"the recorded initiator authenticates with {shape.auth_initiator}, and the credentials lack {lacking}"
        )
    if kind is InitiatorAuth.EAP:
        if shape.eap is not None and shape.eap not in METHODS.values():
            known = " and ".join(METHODS.values())
            raise CannotReplayError(f"the recorded initiator uses {shape.eap}; {known} can be re-enacted")
        if shape.eap != EapType.MD5.label:
            try:
                require_md4()
            except Md4MissingError as problem:
                raise CannotReplayError(str(problem)) from None
    return kind


pass

_SPI: Final = 4  # bytes, of a CHILD_SA
#: Errors by which a responder says that it has no IKE SA, whatever stands beside them (RFC 7296, section 2.21.2).
_NO_IKE_SA: Final = frozenset(
    {NotifyType.AUTHENTICATION_FAILED, NotifyType.INVALID_SYNTAX, NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD}
)
_Value = TypeVar("_Value")


class IkeAuthExchange:
    """The proofs of both sides, from the first IKE_AUTH request to the last response."""

    own_method: str | None  # how we proved who we are, how the responder did; None: not yet
    peer_method: str | None
    child_error: str | None  # why there is no first CHILD_SA; None: there is one, or none was asked for
    done: bool  # both sides are authenticated
    refused: bool  # we refuse a responder that may think that the IKE SA stands

    def __init__(
        self,
        shape: HandshakeShape,
        credentials: Credentials,
        address: str,
        randomness: Callable[[int], bytes],
        time: dt.datetime | None = None,
    ) -> None:
        """`address`: our own, which is our identity if nothing else is known. `time`: by which certificates have to be valid; None: now.

        Raises `CannotReplayError`.
        """
        self._kind = choose_auth(shape, credentials)
        self._shape = shape
        self._credentials = credentials
        self._address = address
        self._randomness = randomness
        self._time = time
        self._eap: EapPeer | None = None
        self._eap_done = False
        self._octets_i = self._octets_r = b""
        self.own_method = self.peer_method = self.child_error = None
        self.done = self.refused = False

    def begin(
        self,
        protection: IkeSaKeys,
        accepted: InitAcceptance,
        init: tuple[bytes, bytes],
        nonce: bytes,
        message_id: int,
    ) -> list[Body]:
        """Payloads of the first IKE_AUTH request.

        `init`: the last IKE_SA_INIT request and its response. `nonce`: ours. `message_id`: of this request. Raises
        `RefusedError` if the responder does not take what we can sign.
        """
        self._protection = protection
        self._peer_octets_of = init[1], nonce, protection.combined_int_auth(message_id)
        identity = choose_identity(self._kind, self._shape, self._credentials, parse_identity(self._address))
        _, body = encode_identification(PayloadType.IDI, identity.type, identity.data)
        self._octets_i = signed_octets(
            protection.prf, init[0], accepted.nonce, protection.keys.sk_pi, body, self._peer_octets_of[2]
        )
        authentication = None
        if self._kind is not InitiatorAuth.EAP:
            authentication = make_auth_payload(
                self._kind, self._credentials, protection.prf, self._octets_i, accepted.hash_algorithms
            )
            self.own_method = get_authentication_name(authentication)
        spi = b"\1" + self._randomness(_SPI - 1)  # values up to 255 are reserved (RFC 4303, section 2.1)
        return build_auth_payloads(self._shape, self._credentials, identity, authentication, spi)

    def take(self, payloads: Sequence[Payload]) -> tuple[InitiatorEvent, list[Body]]:
        """The next response: what it means, and the payloads of the next request; none when all is proven.

        Raises `RefusedError`, and `WireError` for payloads that cannot be read.
        """
        response = _Response(payloads)
        if response.ended is not None:
            raise RefusedError(response.ended)
        try:
            if self._eap is None:
                return self._first(response)
            if self._eap_done:
                return self._last(response, self._eap)
            return self._round(response, self._eap)
        except RefusedError:
            self.refused = response.authentication is not None
            raise

    def _first(self, response: "_Response") -> tuple[InitiatorEvent, list[Body]]:
        """With the responder's identity, and its own proof. Without one there has to be EAP that gives one (RFC 5998)."""
        response.require(response.identity_body is not None, "the responder does not say who it is")
        assert response.identity_body is not None
        identity = parse_identification(response.identity_body)
        verify_expected_identity(self._credentials, identity)
        protection = self._protection
        init, nonce, combined = self._peer_octets_of
        self._octets_r = signed_octets(
            protection.prf, init, nonce, protection.keys.sk_pr, response.identity_body, combined
        )
        if response.authentication is not None:
            self.peer_method = verify_responder(
                response.authentication,
                response.all(PayloadType.CERT, parse_certificate),
                identity,
                self._credentials,
                protection.prf,
                self._octets_r,
                self._time,
            )
        if self._kind is InitiatorAuth.EAP:
            user, password = self._credentials.eap_identity, self._credentials.eap_password
            self._eap = EapPeer(user or "", password or "", self._shape.eap, self._randomness)
            return self._round(response, self._eap)
        response.require(response.authentication is not None, "the responder does not authenticate itself")
        return self._proven(response)

    def _round(self, response: "_Response", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        response.require(response.eap is not None, "the responder does not begin or go on with EAP")
        assert response.eap is not None
        try:
            answer = eap.respond(response.eap)
        except RefusedError as problem:
            raise RefusedError(response.error or str(problem)) from None
        if answer is not None:
            return InitiatorEvent.EAP_REQUEST, [(PayloadType.EAP, answer)]
        if self.peer_method is None and eap.key is None:
            raise RefusedError(f"the responder has not authenticated itself, and {eap.method} makes no key")
        self._eap_done = True
        self.own_method = eap.method
        secret = eap.key or self._protection.keys.sk_pi
        own = make_shared_key_auth(self._protection.prf, secret, self._octets_i)
        return InitiatorEvent.EAP_SUCCESS, [encode_authentication(own.method, own.data)]

    def _last(self, response: "_Response", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        """The responder's proof that it knows what came of EAP."""
        authentication = response.authentication
        response.require(authentication is not None, "the responder sends no AUTH after EAP")
        assert authentication is not None
        secret = eap.key or self._protection.keys.sk_pr
        verify_shared_key_auth(self._protection.prf, secret, self._octets_r, authentication)
        self.peer_method = self.peer_method or eap.method
        return self._proven(response)

    def _proven(self, response: "_Response") -> tuple[InitiatorEvent, list[Body]]:
        if NotifyType.ANOTHER_AUTH_FOLLOWS in response.notifies:
            raise RefusedError("the responder wants to authenticate more than once (RFC 4739)")
        self.done = True
        self.child_error = response.error
        if response.error is None and self._shape.esp_proposals and not response.child:
            self.child_error = "the response has neither an SA payload nor an error"
        return InitiatorEvent.AUTHENTICATED, []


class _Response:
    """An IKE_AUTH response, taken apart. Raises `WireError` where that fails."""

    def __init__(self, payloads: Sequence[Payload]) -> None:
        self._payloads = payloads
        self.identity_body = self._first(PayloadType.IDR)
        self.eap = self._first(PayloadType.EAP)
        auth = self._first(PayloadType.AUTH)
        self.authentication: Authentication | None = None if auth is None else parse_authentication(auth)
        self.notifies = [notify.type for notify in self.all(PayloadType.NOTIFY, parse_notify)]
        self.error = get_first_error(payloads)
        self.ended = next((get_notify_name(kind) for kind in list_error_notifies(payloads) if kind in _NO_IKE_SA), None)
        self.child = self._first(PayloadType.SA) is not None

    def all(self, kind: PayloadType, parse: Callable[[bytes], _Value]) -> list[_Value]:
        """The payloads of a type, read."""
        return [parse(payload.body) for payload in self._payloads if payload.type == kind]

    def require(self, there: bool, lacking: str) -> None:
        """Refuse a response that lacks something, with its error notify as the reason if it has one."""
        if not there:
            raise RefusedError(self.error or lacking)

    def _first(self, kind: PayloadType) -> bytes | None:
        return next((payload.body for payload in self._payloads if payload.type == kind), None)
