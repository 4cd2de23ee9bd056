"""IKE_AUTH: authentication of both sides, with EAP if required (RFC 7296, sections 1.2, 2.15 and 2.16)."""

import datetime as dt
import hmac
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Final, TypeVar

from ikeanalyze.crypto import certificate_chain
from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.auth import shared_key_auth, signed_octets
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
from ikeanalyze.replay.responses import format_notify_type
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.encode import Payload as Body
from ikeanalyze.wire.ikev2.encode import encode_authentication, encode_identification
from ikeanalyze.wire.ikev2.payloads import (
    Authentication,
    Certificate,
    Identification,
    parse_authentication,
    parse_certificate,
    parse_identification,
    parse_notify,
)
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.eap import EapType
from ikeanalyze.wire.registries.ikev2 import AuthMethod, CertEncoding, IdType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Key types: the report's words for signatures start with them.
_KEY_TYPES: Final = ("rsa", "ecdsa", "ed25519", "ed448")
_SPI_BYTES: Final = 4  # of a Child SA
#: Errors after which the responder has no IKE SA, whatever else the response has (RFC 7296, section 2.21.2).
_NO_IKE_SA: Final = frozenset(
    {NotifyType.AUTHENTICATION_FAILED, NotifyType.INVALID_SYNTAX, NotifyType.UNSUPPORTED_CRITICAL_PAYLOAD}
)
_Value = TypeVar("_Value")


class InitiatorAuth(Enum):
    """How the initiator authenticates."""

    PSK = "psk"
    SIGNATURE = "signature"
    EAP = "eap"


def choose_auth(shape: HandshakeShape, credentials: Credentials) -> InitiatorAuth:
    """Return how we authenticate: like the recorded initiator, or if unknown, as the credentials allow.

    Raises:
        CannotReplayError: the credentials are not sufficient.
    """
    word = shape.auth_initiator
    kind = _parse_auth_word(word)
    if word is None or "auth_initiator" in shape.guessed:
        return _choose_by_credentials(shape, credentials, kind)
    if kind is None:
        raise CannotReplayError(f"the recorded initiator authenticates with {word}, which is not supported")
    _check_credentials(kind, credentials, shape)
    key_type = get_key_type(credentials.key)
    if kind is InitiatorAuth.SIGNATURE and _parse_key_type(word) != key_type:
        raise CannotReplayError(
            f"the recorded initiator signs with {word}, but the key of the credentials is of type {key_type}"
        )
    return kind


def _parse_auth_word(word: str | None) -> InitiatorAuth | None:
    """Parse the report's word for an authentication method; None: not supported, such as several ones (RFC 4739)."""
    if word is None or "+" in word:
        return None
    if word in (InitiatorAuth.PSK.value, InitiatorAuth.EAP.value):
        return InitiatorAuth(word)
    return None if _parse_key_type(word) is None else InitiatorAuth.SIGNATURE


def _parse_key_type(word: str) -> str | None:
    """Return the key type of a word such as ecdsa-256."""
    return next((key_type for key_type in _KEY_TYPES if word.startswith(key_type)), None)


def choose_identity(
    kind: InitiatorAuth, shape: HandshakeShape, credentials: Credentials, address: Identification
) -> Identification:
    """Return our identity: of the credentials, else the recorded one, else derived from the credentials."""
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
    """Return our AUTH payload over our signed octets, with PSK or signature. Raises `RefusedError`."""
    if kind is InitiatorAuth.PSK and credentials.psk is not None:
        return make_shared_key_auth(prf, credentials.psk, octets)
    if credentials.key is None:
        raise RefusedError("the credentials have no key to sign with")
    try:
        return sign_octets(credentials.key, octets, hash_algorithms)
    except NoSuitableSignatureError as problem:
        raise RefusedError(str(problem)) from None


def make_shared_key_auth(prf: PrfAlgorithm, secret: bytes, octets: bytes) -> Authentication:
    """Return an AUTH payload with a shared secret: PSK, MSK, or SK_p after EAP without a key."""
    return Authentication(AuthMethod.SHARED_KEY, shared_key_auth(prf, secret, octets))


def verify_shared_key_auth(prf: PrfAlgorithm, secret: bytes, octets: bytes, authentication: Authentication) -> None:
    """Raise `RefusedError` if an AUTH payload was not made with this secret over these octets."""
    if authentication.method != AuthMethod.SHARED_KEY:
        raise RefusedError(
            f"the responder authenticates with {get_authentication_name(authentication)} instead of a shared key"
        )
    if not hmac.compare_digest(authentication.data, shared_key_auth(prf, secret, octets)):
        raise RefusedError("AUTH does not verify: the responder has a different secret")


def verify_expected_identity(credentials: Credentials, identity: Identification) -> None:
    """Raise `RefusedError` if the identity is not the responder's identity of the credentials."""
    expected = credentials.remote_identity
    if expected is None or expected == identity:
        return
    text = format_identity(identity.type, identity.data)
    if identity.type == expected.type == IdType.ID_DER_ASN1_DN:
        if certificate_chain.names_equal(identity.data, expected.data):
            return
        text = certificate_chain.format_distinguished_name(identity.data)  # in the order of the credentials file
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
    """Verify the responder's AUTH payload and return its method, such as ECDSA with SHA2-384.

    Args:
        authentication: the AUTH payload.
        certificates: the certificates in the CERT payloads, the responder's own first.
        identity: the responder's identity.
        credentials: the PSK, or the trusted authorities.
        prf: the negotiated PRF.
        octets: the responder's signed octets.
        time: certificates must be valid then; None: now.

    Raises:
        RefusedError: the authentication is not valid.
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
        problem = check_signature(authentication, chain[0], octets)
    except UnverifiableSignatureError as error:
        problem = str(error)
    if problem is not None:
        raise RefusedError(f"AUTH does not verify: {problem}")
    encoded = [certificate.data for certificate in chain]
    problem = certificate_chain.check_certificate_chain(encoded, credentials.authorities, time)
    if problem is not None:
        raise RefusedError(f"the responder's certificate is not trusted: {problem}")
    problem = certificate_chain.check_identity(encoded[0], identity)
    if problem is not None:
        raise RefusedError(f"the responder's identity does not match: {problem}")
    return get_authentication_name(authentication)


def _choose_by_credentials(
    shape: HandshakeShape, credentials: Credentials, guess: InitiatorAuth | None
) -> InitiatorAuth:
    """Return the guessed method if the credentials allow it, else the first that they allow."""
    missing = _list_missing_credentials(credentials)
    possible = [kind for kind in InitiatorAuth if kind not in missing]
    if not possible:
        raise CannotReplayError("the credentials have neither local.psk, local.key nor [eap]")
    chosen = guess if guess in possible else possible[0]
    return _check_credentials(chosen, credentials, shape)


def _list_missing_credentials(credentials: Credentials) -> dict[InitiatorAuth, str]:
    """Return the missing keys of the credentials file by the method that needs them."""
    needed = {
        InitiatorAuth.PSK: (credentials.psk, "local.psk"),
        InitiatorAuth.SIGNATURE: (credentials.key, "local.certificate and local.key"),
        InitiatorAuth.EAP: (credentials.eap_password or credentials.milenage, "[eap]"),
    }
    return {kind: keys for kind, (value, keys) in needed.items() if value is None}


def _check_credentials(kind: InitiatorAuth, credentials: Credentials, shape: HandshakeShape) -> InitiatorAuth:
    if missing := _list_missing_credentials(credentials).get(kind):
        raise CannotReplayError(
            f"the initiator authenticates with {shape.auth_initiator}, and the credentials lack {missing}"
        )
    if kind is InitiatorAuth.EAP:
        _check_eap(shape.eap, credentials)
    return kind


def _check_eap(method: str | None, credentials: Credentials) -> None:
    """Raise `CannotReplayError` if we cannot use the recorded EAP method. None: not known, any is used."""
    if method is not None and method not in METHODS.values():
        known = ", ".join(METHODS.values())
        raise CannotReplayError(f"the recorded initiator uses {method}; only {known} are supported")
    is_aka = method == EapType.AKA.label
    if method is not None and (credentials.milenage if is_aka else credentials.eap_password) is None:
        missing = "eap.ki" if is_aka else "eap.password"
        raise CannotReplayError(f"the recorded initiator uses {method}, and the credentials lack {missing}")
    if method == EapType.MSCHAPV2.label or (method is None and credentials.eap_password is not None):
        try:
            require_md4()
        except Md4MissingError as problem:
            raise CannotReplayError(str(problem)) from None


class IkeAuthExchange:
    """Authentication of both sides, from the first IKE_AUTH request to the last response."""

    def __init__(
        self,
        shape: HandshakeShape,
        credentials: Credentials,
        address: str,
        random_bytes: Callable[[int], bytes],
        time: dt.datetime | None = None,
    ) -> None:
        """Choose how to authenticate.

        `address`: ours, the identity of last resort. `time`: certificates must be valid then; None: now. Raises
        `CannotReplayError`.
        """
        self._kind = choose_auth(shape, credentials)
        self._shape, self._credentials = shape, credentials
        self._address = address
        self._randomness = random_bytes
        self._time = time
        self._eap: EapPeer | None = None
        self._eap_done = False
        self._octets_i = self._octets_r = b""
        self.own_method: str | None = None  # None: not authenticated yet, also of the peer
        self.peer_method: str | None = None
        self.child_error: str | None = None  # why the first Child SA failed; None: it did not, or was not requested
        self.done = False  # both sides are authenticated
        self.rejected_auth = False  # we rejected the AUTH payload of a responder, which may have an IKE SA

    def begin(
        self,
        sa_keys: IkeSaKeys,
        negotiated: InitAcceptance,
        init_messages: tuple[bytes, bytes],
        nonce: bytes,
        message_id: int,
    ) -> list[Body]:
        """Return the payloads of the first IKE_AUTH request.

        `negotiated`: parameters of the IKE SA. `init_messages`: the last IKE_SA_INIT request and its response. `nonce`:
        ours. `message_id`: of this request. Raises `RefusedError` if the responder does not support our signatures.
        """
        self._sa_keys = sa_keys
        init_request, self._init_response = init_messages
        self._nonce, self._int_auth = nonce, sa_keys.combined_int_auth(message_id)
        identity = choose_identity(self._kind, self._shape, self._credentials, parse_identity(self._address))
        _, body = encode_identification(PayloadType.IDI, identity.type, identity.data)
        prf, sk_pi = sa_keys.prf, sa_keys.keys.sk_pi
        self._octets_i = signed_octets(prf, init_request, negotiated.nonce, sk_pi, body, self._int_auth)
        authentication = None
        if self._kind is not InitiatorAuth.EAP:
            hash_algorithms = negotiated.hash_algorithms
            authentication = make_auth_payload(self._kind, self._credentials, prf, self._octets_i, hash_algorithms)
            self.own_method = get_authentication_name(authentication)
        spi = b"\1" + self._randomness(_SPI_BYTES - 1)  # values up to 255 are reserved (RFC 4303, section 2.1)
        return build_auth_payloads(self._shape, self._credentials, identity, authentication, spi)

    def handle_response(self, payloads: Sequence[Payload]) -> tuple[InitiatorEvent, list[Body]]:
        """Process a response; return its meaning and the payloads of the next request, empty at the end.

        Raises:
            RefusedError: the responder refuses, or its authentication fails.
            WireError: invalid payloads.
        """
        response = _AuthResponse(payloads)
        if response.fatal_error is not None:
            raise RefusedError(response.fatal_error)
        try:
            if self._eap is None:
                return self._handle_first(response)
            if self._eap_done:
                return self._handle_final(response, self._eap)
            return self._handle_eap(response, self._eap)
        except RefusedError:
            self.rejected_auth = response.authentication is not None
            raise

    def _handle_first(self, response: "_AuthResponse") -> tuple[InitiatorEvent, list[Body]]:
        """Process identity and AUTH of the responder. Without AUTH, EAP must authenticate it (RFC 5998)."""
        body = response.require(response.identity_body, "the responder sends no identity")
        identity = parse_identification(body)
        verify_expected_identity(self._credentials, identity)
        prf, sk_pr = self._sa_keys.prf, self._sa_keys.keys.sk_pr
        self._octets_r = octets = signed_octets(prf, self._init_response, self._nonce, sk_pr, body, self._int_auth)
        if response.authentication is not None:
            certificates = response.all(PayloadType.CERT, parse_certificate)
            self.peer_method = verify_responder(
                response.authentication, certificates, identity, self._credentials, prf, octets, self._time
            )
        if self._kind is InitiatorAuth.EAP:
            self._eap = EapPeer(
                self._credentials.eap_identity or "",
                self._credentials.eap_password,
                self._shape.eap,
                self._randomness,
                milenage=self._credentials.milenage,
            )
            return self._handle_eap(response, self._eap)
        response.require(response.authentication, "the responder does not authenticate itself")
        return self._finish(response)

    def _handle_eap(self, response: "_AuthResponse", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        request = response.require(response.eap, "the responder does not start or continue EAP")
        try:
            packet = eap.respond(request)
        except RefusedError as problem:
            raise RefusedError(response.error or str(problem)) from None
        if packet is not None:
            return InitiatorEvent.EAP_REQUEST, [(PayloadType.EAP, packet)]
        if self.peer_method is None and eap.key is None:
            raise RefusedError(f"the responder has not authenticated itself, and {eap.method} does not derive a key")
        self._eap_done = True
        self.own_method = eap.method
        secret = eap.key or self._sa_keys.keys.sk_pi
        auth = make_shared_key_auth(self._sa_keys.prf, secret, self._octets_i)
        return InitiatorEvent.EAP_SUCCESS, [encode_authentication(auth.method, auth.data)]

    def _handle_final(self, response: "_AuthResponse", eap: EapPeer) -> tuple[InitiatorEvent, list[Body]]:
        """Verify the responder's AUTH payload after EAP."""
        authentication = response.require(response.authentication, "the responder sends no AUTH after EAP")
        secret = eap.key or self._sa_keys.keys.sk_pr
        verify_shared_key_auth(self._sa_keys.prf, secret, self._octets_r, authentication)
        self.peer_method = self.peer_method or eap.method
        return self._finish(response)

    def _finish(self, response: "_AuthResponse") -> tuple[InitiatorEvent, list[Body]]:
        if NotifyType.ANOTHER_AUTH_FOLLOWS in response.notifies:
            raise RefusedError("the responder requests several authentications (RFC 4739)")
        self.done = True
        self.child_error = response.error
        if response.error is None and self._shape.esp_proposals and not response.child:
            self.child_error = "the response has neither an SA payload nor an error"
        return InitiatorEvent.AUTHENTICATED, []


class _AuthResponse:
    """A parsed IKE_AUTH response. Raises `WireError` if it is invalid."""

    def __init__(self, payloads: Sequence[Payload]) -> None:
        self._payloads = payloads
        self.identity_body = self._get_body(PayloadType.IDR)
        self.eap = self._get_body(PayloadType.EAP)
        auth = self._get_body(PayloadType.AUTH)
        self.authentication: Authentication | None = None if auth is None else parse_authentication(auth)
        self.notifies = [notify.type for notify in self.all(PayloadType.NOTIFY, parse_notify)]
        self.error = get_first_error(payloads)
        fatal_errors = [kind for kind in list_error_notifies(payloads) if kind in _NO_IKE_SA]
        self.fatal_error = format_notify_type(fatal_errors[0]) if fatal_errors else None
        self.child = self._get_body(PayloadType.SA) is not None

    def all(self, kind: PayloadType, parse: Callable[[bytes], _Value]) -> list[_Value]:
        """Parse all payloads of a type."""
        return [parse(payload.body) for payload in self._payloads if payload.type == kind]

    def require(self, value: _Value | None, problem: str) -> _Value:
        """Return `value`; if it is None, raise `RefusedError` with the response's error notify, else with `problem`."""
        if value is None:
            raise RefusedError(self.error or problem)
        return value

    def _get_body(self, kind: PayloadType) -> bytes | None:
        return next((payload.body for payload in self._payloads if payload.type == kind), None)
