"""Verify and create the signatures of AUTH payloads (RFC 7296, section 2.15; RFC 4754; RFC 7427; RFC 8420; RFC 9881).

Verification covers the signature only: the certificate's chain, validity period and names are not checked.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

import cryptography
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import load_der_public_key

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.auth_methods import get_auth_method_name, parse_digital_signature
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import AuthMethod, CertEncoding, HashAlgorithm
from ikeanalyze.wire.registries.oids import HASHES
from ikeanalyze.wire.x509.certificates import decode_certificate
from ikeanalyze.wire.x509.der import INTEGER, SEQUENCE, parse_element, read_element, read_oid

_HASHES: Final[Mapping[str, type[hashes.HashAlgorithm]]] = {
    "MD5": hashes.MD5,
    "SHA1": hashes.SHA1,
    "SHA2-224": hashes.SHA224,
    "SHA2-256": hashes.SHA256,
    "SHA2-384": hashes.SHA384,
    "SHA2-512": hashes.SHA512,
    "SHA3-256": hashes.SHA3_256,
    "SHA3-384": hashes.SHA3_384,
    "SHA3-512": hashes.SHA3_512,
}
#: Hashes of signatures of method 1, most likely first (RFC 7296, section 3.8).
_RSA_HASHES: Final = ("SHA1", "SHA2-256", "SHA2-384", "SHA2-512")

#: Curve, hash, and bytes of each of the two numbers of a signature, by method (RFC 4754, sections 3 and 7).
_ECDSA: Final[Mapping[int, tuple[str, HashAlgorithm, int]]] = {
    AuthMethod.ECDSA_256: ("secp256r1", HashAlgorithm.SHA2_256, 32),
    AuthMethod.ECDSA_384: ("secp384r1", HashAlgorithm.SHA2_384, 48),
    AuthMethod.ECDSA_521: ("secp521r1", HashAlgorithm.SHA2_512, 66),
}
#: Tags of the parameters of RSASSA-PSS (RFC 4055, section 3.1), and their defaults.
_PSS_HASH, _PSS_MGF, _PSS_SALT = 0xA0, 0xA1, 0xA2
_PSS_DEFAULT_HASH: Final = "SHA1"
_PSS_DEFAULT_SALT: Final = 20
_MAX_SALT: Final = 1024  # bytes

#: AlgorithmIdentifiers of RSASSA-PKCS1-v1_5 and of ECDSA, by hash (RFC 7427, appendix A).
_IDENTIFIERS: Final[Mapping[int, tuple[bytes, bytes]]] = {
    HashAlgorithm.SHA1: (bytes.fromhex("300d06092a864886f70d0101050500"), bytes.fromhex("300906072a8648ce3d0401")),
    **{
        kind: (bytes.fromhex(f"300d06092a864886f70d0101{rsa}0500"), bytes.fromhex(f"300a06082a8648ce3d0403{ecdsa}"))
        for kind, rsa, ecdsa in (
            (HashAlgorithm.SHA2_256, "0b", "02"),
            (HashAlgorithm.SHA2_384, "0c", "03"),
            (HashAlgorithm.SHA2_512, "0d", "04"),
        )
    },
}
#: RFC 8410, section 3; used in IKEv2 by RFC 8420.
_ED25519_IDENTIFIER: Final = bytes.fromhex("300506032b6570")
_ED448_IDENTIFIER: Final = bytes.fromhex("300506032b6571")

#: Order of preference: for RSA keys, and for ECDSA keys after the hash of the curve's strength.
_PREFERRED: Final = (HashAlgorithm.SHA2_256, HashAlgorithm.SHA2_384, HashAlgorithm.SHA2_512, HashAlgorithm.SHA1)

_INVALID: Final = "the signature was not made with the certificate's key over the expected octets"

EdwardsKey = ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | EdwardsKey


class UnverifiableSignatureError(ValueError):
    """A signature cannot be verified; one clause."""


class NoSuitableSignatureError(ValueError):
    """The key cannot make a signature that the peer accepts; one clause without secrets."""


def check_signature(authentication: Authentication, certificate: Certificate, octets: bytes) -> str | None:
    """Verify a signature; returns the reason why it is invalid, None if it was made with the certificate's key.

    `certificate`: X.509, a raw public key (RFC 7670) or a raw RSA key. `octets`: `auth.signed_octets` of the same side.

    Raises:
        UnverifiableSignatureError: another authentication method, a CERT payload without a public key, or an algorithm
            that the library does not support.
    """
    if authentication.method == AuthMethod.RSA:
        return _check_rsa(_load_public_key(certificate), authentication.data, octets)
    if authentication.method in _ECDSA:
        return _check_ecdsa(_load_public_key(certificate), authentication, octets)
    if authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        return _check_digital_signature(certificate, authentication.data, octets)
    raise UnverifiableSignatureError(
        f"signatures of method {get_auth_method_name(authentication.method)} cannot be verified"
    )


def _load_public_key(certificate: Certificate) -> Any:
    encoding, data = certificate.encoding, certificate.data
    if encoding not in (CertEncoding.X509_SIGNATURE, CertEncoding.RAW_PUBLIC_KEY, CertEncoding.RAW_RSA_KEY):
        name = get_name(CertEncoding, encoding)
        raise UnverifiableSignatureError(f"the CERT payload ({name}) does not contain a public key")
    try:
        if encoding == CertEncoding.X509_SIGNATURE:
            return x509.load_der_x509_certificate(data).public_key()
        return load_der_public_key(data)
    except UnsupportedAlgorithm:
        key = decode_certificate(certificate).key
        name = "this public key" if key is None else key.name
        raise UnverifiableSignatureError(f"cryptography {cryptography.__version__} lacks {name}") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library's panics do not derive from Exception
        raise UnverifiableSignatureError(
            f"the key of the CERT payload cannot be read ({type(error).__name__})"
        ) from None


def _check_rsa(key: Any, signature: bytes, octets: bytes) -> str | None:
    if not isinstance(key, rsa.RSAPublicKey):
        return _describe_other_key("RSA", key)
    reason = None
    for name in _RSA_HASHES:
        reason = _verify(key, signature, octets, padding.PKCS1v15(), _HASHES[name]())
        if reason is None:
            return None
    return reason


def _check_ecdsa(key: Any, authentication: Authentication, octets: bytes) -> str | None:
    """Methods 9 to 11, whose signature is r | s (RFC 4754, section 7)."""
    curve, digest, size = _ECDSA[authentication.method]
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != curve:
        return _describe_other_key(get_auth_method_name(authentication.method), key)
    data = authentication.data
    if len(data) != 2 * size:
        return f"the signature has {len(data)} bytes instead of {2 * size}"
    r, s = int.from_bytes(data[:size]), int.from_bytes(data[size:])
    return _verify(key, encode_dss_signature(r, s), octets, ec.ECDSA(_make_hash(digest.label)))


def _check_digital_signature(certificate: Certificate, data: bytes, octets: bytes) -> str | None:
    try:
        parsed = parse_digital_signature(data)
    except WireError as error:
        return f"the AUTH payload has no algorithm identifier: {error}"
    algorithm, signature = parsed.algorithm, parsed.signature
    if algorithm.scheme is None:
        raise UnverifiableSignatureError(f"the signature algorithm {algorithm.oid} is not known")
    key = _load_public_key(certificate)
    if algorithm.scheme in ("RSASSA-PKCS1-v1_5", "RSASSA-PSS"):
        if not isinstance(key, rsa.RSAPublicKey):
            return _describe_other_key(algorithm.name, key)
        if algorithm.scheme == "RSASSA-PSS":
            return _check_pss(key, data, signature, octets)
        return _verify(key, signature, octets, padding.PKCS1v15(), _make_hash(algorithm.hash))
    if algorithm.scheme == "ECDSA":
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return _describe_other_key(algorithm.name, key)
        return _verify(key, signature, octets, ec.ECDSA(_make_hash(algorithm.hash)))
    # The others (RFC 8420: EdDSA; RFC 9881: ML-DSA) sign the octets themselves, and a key has one scheme only.
    decoded = decode_certificate(certificate).key
    if decoded is None or decoded.algorithm != algorithm.scheme:
        return _describe_other_key(algorithm.name, key)
    return _verify(key, signature, octets)


def _check_pss(key: rsa.RSAPublicKey, data: bytes, signature: bytes, octets: bytes) -> str | None:
    try:
        digest, mgf, salt = _parse_pss_parameters(data)
    except WireError as error:
        return f"the parameters of RSASSA-PSS cannot be read: {error}"
    return _verify(key, signature, octets, padding.PSS(padding.MGF1(_make_hash(mgf)), salt), _make_hash(digest))


def _parse_pss_parameters(data: bytes) -> tuple[str, str, int]:
    """Hash, hash of the mask generation function, and bytes of salt (RFC 4055, section 3.1)."""
    cursor = Cursor(data)
    algorithm = Cursor(parse_element(cursor.read_bytes(cursor.read_uint8()), SEQUENCE).content)
    read_oid(algorithm)
    digest, mask, salt = _PSS_DEFAULT_HASH, _PSS_DEFAULT_HASH, _PSS_DEFAULT_SALT
    if algorithm.remaining():
        parameters = Cursor(read_element(algorithm, SEQUENCE).content)
        while parameters.remaining():
            part = read_element(parameters)
            if part.tag == _PSS_HASH:
                digest = _parse_hash_name(part.content)
            elif part.tag == _PSS_MGF:
                function = Cursor(parse_element(part.content, SEQUENCE).content)
                read_oid(function)
                mask = _parse_hash_name(function.read_remaining())
            elif part.tag == _PSS_SALT:
                salt = int.from_bytes(parse_element(part.content, INTEGER).content)
                if salt > _MAX_SALT:
                    raise parameters.make_error(f"a salt of more than {_MAX_SALT} bytes")
    return digest, mask, salt


def _parse_hash_name(identifier: bytes) -> str:
    oid = read_oid(Cursor(parse_element(identifier, SEQUENCE).content))
    return HASHES.get(oid, oid)


def _make_hash(name: str | None) -> hashes.HashAlgorithm:
    if name is None or name not in _HASHES:
        raise UnverifiableSignatureError(f"signatures with the hash {name} cannot be verified")
    return _HASHES[name]()


def _verify(key: Any, signature: bytes, octets: bytes, *scheme: Any) -> str | None:
    """The reason why the signature is invalid. `scheme`: the further arguments of the key's `verify`."""
    try:
        key.verify(signature, octets, *scheme)
    except InvalidSignature:
        return _INVALID
    except UnsupportedAlgorithm:
        raise UnverifiableSignatureError(f"cryptography {cryptography.__version__} cannot verify it") from None
    except ValueError:  # the hash is longer than the key, or the key has no room for the salt
        return "the certificate's key cannot make such a signature"
    return None


def _describe_other_key(name: str, key: Any) -> str:
    key_type = type(key).__name__.lstrip("_").removesuffix("PublicKey")
    curve = f" {key.curve.name}" if isinstance(key, ec.EllipticCurvePublicKey) else ""
    return f"the signature is {name}, but the certificate's key is {key_type}{curve}"


def sign_octets(key: SigningKey, octets: bytes, hash_algorithms: Collection[int] | None) -> Authentication:
    """Return the AUTH payload over a side's signed octets.

    `hash_algorithms`: those that the peer announced in SIGNATURE_HASH_ALGORITHMS; None: it sent no such notify, which
    leaves methods 1 and 9 to 11.

    Raises:
        NoSuitableSignatureError: no method fits this key, or the peer supports none of its hashes.
    """
    if hash_algorithms is None:
        return _sign_without_negotiation(key, octets)
    if isinstance(key, EdwardsKey):
        # The octets themselves are signed, by Ed448 with an empty context (RFC 8420, section 2).
        _choose_hash((HashAlgorithm.IDENTITY,), hash_algorithms)
        identifier = _ED448_IDENTIFIER if isinstance(key, ed448.Ed448PrivateKey) else _ED25519_IDENTIFIER
        signature = key.sign(octets)
    elif isinstance(key, rsa.RSAPrivateKey):
        digest = _choose_hash(_PREFERRED, hash_algorithms)
        identifier = _IDENTIFIERS[digest][0]
        signature = key.sign(octets, padding.PKCS1v15(), _make_hash(digest.label))
    else:
        digest = _choose_hash((_find_ecdsa_method(key)[1], *_PREFERRED), hash_algorithms)
        identifier = _IDENTIFIERS[digest][1]
        signature = key.sign(octets, ec.ECDSA(_make_hash(digest.label)))
    return Authentication(AuthMethod.DIGITAL_SIGNATURE, bytes([len(identifier)]) + identifier + signature)


def _sign_without_negotiation(key: SigningKey, octets: bytes) -> Authentication:
    """Methods 1 and 9 to 11, each with a fixed hash; that of RSA is SHA-1 (RFC 7296, section 3.8)."""
    if isinstance(key, rsa.RSAPrivateKey):
        return Authentication(AuthMethod.RSA, key.sign(octets, padding.PKCS1v15(), hashes.SHA1()))
    if isinstance(key, EdwardsKey):
        name = "Ed448" if isinstance(key, ed448.Ed448PrivateKey) else "Ed25519"
        raise NoSuitableSignatureError(f"an {name} key needs SIGNATURE_HASH_ALGORITHMS, which the peer does not send")
    method, digest, size = _find_ecdsa_method(key)
    r, s = decode_dss_signature(key.sign(octets, ec.ECDSA(_make_hash(digest.label))))
    return Authentication(method, r.to_bytes(size) + s.to_bytes(size))


def _find_ecdsa_method(key: ec.EllipticCurvePrivateKey) -> tuple[int, HashAlgorithm, int]:
    for method, (curve, digest, size) in _ECDSA.items():
        if curve == key.curve.name:
            return method, digest, size
    raise NoSuitableSignatureError(f"keys on the curve {key.curve.name} are not used for AUTH payloads")


def _choose_hash(preferred: Collection[HashAlgorithm], offered: Collection[int]) -> HashAlgorithm:
    for algorithm in preferred:
        if algorithm in offered:
            return algorithm
    peer_hashes = ", ".join(get_name(HashAlgorithm, algorithm) for algorithm in offered) or "none"
    key_hashes = ", ".join(dict.fromkeys(algorithm.label for algorithm in preferred))
    raise NoSuitableSignatureError(
        f"the peer accepts signatures with {peer_hashes}, but the key can only make those with {key_hashes}"
    )
