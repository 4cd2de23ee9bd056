"""How both sides of a re-enacted handshake prove who they are (RFC 7296, sections 2.15 and 2.16)."""

import datetime as dt
import hmac
from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final

from ikeanalyze.crypto.algorithms import PrfAlgorithm
from ikeanalyze.crypto.auth import shared_key_auth
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
from ikeanalyze.replay.eap import METHODS
from ikeanalyze.replay.shape import HandshakeShape
from ikeanalyze.replay.steps import CannotReplayError, RefusedError
from ikeanalyze.wire.identification import format_identity
from ikeanalyze.wire.ikev2.auth_methods import get_authentication_name
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate, Identification
from ikeanalyze.wire.registries.eap import EapType
from ikeanalyze.wire.registries.ikev2 import AuthMethod, CertEncoding, IdType

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
