"""Whether a signature in an AUTH payload is that of a captured certificate's key (RFC 7296, section 2.15; RFC 7427).

Nothing is said of whether the certificate is to be trusted: its chain, its dates and its names are not looked at.

AUTH payloads made with a private key (RFC 7296, section 2.15; RFC 4754; RFC 7427; RFC 8420); `signatures` verifies them.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
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

_HASHES: Final[Mapping[str, type[hashes.HashAlgorithm]]] = MappingProxyType(
    {
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
)
#: Hashes that a signature of method 1 may be of; SHA-1 is what it is nearly always (RFC 7296, section 3.8).
_RSA_HASHES: Final = ("SHA1", "SHA2-256", "SHA2-384", "SHA2-512")

#: Curve, hash and bytes of each of the two numbers, by method (RFC 4754, sections 3 and 7).
_ECDSA: Final[Mapping[int, tuple[str, str, int]]] = MappingProxyType(
    {
        AuthMethod.ECDSA_256: ("secp256r1", "SHA2-256", 32),
        AuthMethod.ECDSA_384: ("secp384r1", "SHA2-384", 48),
        AuthMethod.ECDSA_521: ("secp521r1", "SHA2-512", 66),
    }
)
#: Parts of the parameters of RSASSA-PSS (RFC 4055, section 3.1), and their defaults.
_PSS_HASH, _PSS_MGF, _PSS_SALT = 0xA0, 0xA1, 0xA2
_PSS_DEFAULT_HASH: Final = "SHA1"
_PSS_DEFAULT_SALT: Final = 20
_LONGEST_SALT: Final = 1024  # bytes

_ANOTHER: Final = "the signature is not that of the certificate's key over what it has to sign"


class UnverifiableSignatureError(ValueError):  # noqa: N818 - often no error: the capture or the library lacks something
    """Whether a signature fits cannot be told, and why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def check_signature(authentication: Authentication, certificate: Certificate, octets: bytes) -> str | None:
    """What is wrong with a signature; None: it is that of the certificate's key.

    `certificate`: X.509, a raw public key (RFC 7670) or a raw RSA key. `octets`: `authentication.signed_octets` of the
    same side. Raises `UnverifiableSignatureError` if that cannot be told: another method, an encoding that has no key in it,
    an algorithm that the library does not know.
    """
    if authentication.method == AuthMethod.RSA:
        return _rsa(_public_key(certificate), authentication.data, octets)
    if authentication.method in _ECDSA:
        return _ecdsa(_public_key(certificate), authentication, octets)
    if authentication.method == AuthMethod.DIGITAL_SIGNATURE:
        return _digital_signature(certificate, authentication.data, octets)
    raise UnverifiableSignatureError(
        f"signatures of method {get_auth_method_name(authentication.method)} cannot be verified"
    )


def _public_key(certificate: Certificate) -> Any:
    """The library's object for the key in a CERT payload."""
    encoding, data = certificate.encoding, certificate.data
    if encoding not in (
        CertEncoding.X509_SIGNATURE,
        CertEncoding.RAW_PUBLIC_KEY,
        CertEncoding.RAW_RSA_KEY,
    ):
        name = get_name(CertEncoding, encoding)
        raise UnverifiableSignatureError(f"the CERT payload ({name}) has no public key in it")
    try:
        if encoding == CertEncoding.X509_SIGNATURE:
            return x509.load_der_x509_certificate(data).public_key()
        return load_der_public_key(data)
    except UnsupportedAlgorithm:
        view = decode_certificate(certificate).key
        name = "this public key" if view is None else view.name
        raise UnverifiableSignatureError(f"cryptography {cryptography.__version__} lacks {name}") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # its panics are no Exception
        raise UnverifiableSignatureError(
            f"the key of the CERT payload cannot be read ({type(problem).__name__})"
        ) from None


def _rsa(key: Any, signature: bytes, octets: bytes) -> str | None:
    if not isinstance(key, rsa.RSAPublicKey):
        return _not_of("RSA", key)
    wrong = _ANOTHER
    for name in _RSA_HASHES:
        found = _verified(key, signature, octets, padding.PKCS1v15(), _HASHES[name]())
        if found is None:
            return None
        wrong = found
    return wrong


def _ecdsa(key: Any, authentication: Authentication, octets: bytes) -> str | None:
    """The two numbers stand one behind the other (RFC 4754, section 7)."""
    curve, name, size = _ECDSA[authentication.method]
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != curve:
        return _not_of(get_auth_method_name(authentication.method), key)
    data = authentication.data
    if len(data) != 2 * size:
        return f"the signature has {len(data)} bytes instead of {2 * size}"
    r, s = int.from_bytes(data[:size]), int.from_bytes(data[size:])
    return _verified(key, encode_dss_signature(r, s), octets, ec.ECDSA(_HASHES[name]()))


def _digital_signature(certificate: Certificate, data: bytes, octets: bytes) -> str | None:
    try:
        parsed = parse_digital_signature(data)
    except WireError as problem:
        return f"the AUTH payload has no algorithm identifier: {problem}"
    algorithm = parsed.algorithm
    if algorithm.scheme is None:
        raise UnverifiableSignatureError(f"the signature algorithm {algorithm.oid} is not known")
    key = _public_key(certificate)
    match algorithm.scheme:
        case "RSASSA-PKCS1-v1_5":
            if not isinstance(key, rsa.RSAPublicKey):
                return _not_of(algorithm.name, key)
            return _verified(key, parsed.signature, octets, padding.PKCS1v15(), _hash(algorithm.hash))
        case "RSASSA-PSS":
            if not isinstance(key, rsa.RSAPublicKey):
                return _not_of(algorithm.name, key)
            return _pss(key, data, parsed.signature, octets)
        case "ECDSA":
            if not isinstance(key, ec.EllipticCurvePublicKey):
                return _not_of(algorithm.name, key)
            return _verified(key, parsed.signature, octets, ec.ECDSA(_hash(algorithm.hash)))
    # The others (RFC 8420: EdDSA; RFC 9881: ML-DSA) sign the octets themselves, and have one key for one scheme.
    view = decode_certificate(certificate).key
    if view is None or view.algorithm != algorithm.scheme:
        return _not_of(algorithm.name, key)
    return _verified(key, parsed.signature, octets)


def _pss(key: rsa.RSAPublicKey, data: bytes, signature: bytes, octets: bytes) -> str | None:
    try:
        name, mgf, salt = _pss_parameters(data)
    except WireError as problem:
        return f"the parameters of RSASSA-PSS cannot be read: {problem}"
    scheme = padding.PSS(padding.MGF1(_hash(mgf)), salt)
    return _verified(key, signature, octets, scheme, _hash(name))


def _pss_parameters(data: bytes) -> tuple[str, str, int]:
    """Hash, hash of the mask generation function, and bytes of salt (RFC 4055, section 3.1)."""
    cursor = Cursor(data)
    algorithm = Cursor(parse_element(cursor.get_bytes(cursor.get_uint8()), SEQUENCE).content)
    read_oid(algorithm)
    digest, mask, salt = _PSS_DEFAULT_HASH, _PSS_DEFAULT_HASH, _PSS_DEFAULT_SALT
    if algorithm.remaining():
        parameters = Cursor(read_element(algorithm, SEQUENCE).content)
        while parameters.remaining():
            part = read_element(parameters)
            if part.tag == _PSS_HASH:
                digest = _hash_name(part.content)
            elif part.tag == _PSS_MGF:
                function = Cursor(parse_element(part.content, SEQUENCE).content)
                read_oid(function)
                mask = _hash_name(function.get_remaining())
            elif part.tag == _PSS_SALT:
                salt = int.from_bytes(parse_element(part.content, INTEGER).content)
                if salt > _LONGEST_SALT:
                    raise parameters.make_error(f"a salt of more than {_LONGEST_SALT} bytes")
    return digest, mask, salt


def _hash_name(identifier: bytes) -> str:
    oid = read_oid(Cursor(parse_element(identifier, SEQUENCE).content))
    return HASHES.get(oid, oid)


def _hash(name: str | None) -> hashes.HashAlgorithm:
    found = None if name is None else _HASHES.get(name)
    if found is None:
        raise UnverifiableSignatureError(f"signatures with the hash {name} cannot be verified")
    return found()


def _verified(key: Any, signature: bytes, octets: bytes, *how: Any) -> str | None:
    try:
        key.verify(signature, octets, *how)
    except InvalidSignature:
        return _ANOTHER
    except UnsupportedAlgorithm:
        raise UnverifiableSignatureError(f"cryptography {cryptography.__version__} cannot verify it") from None
    except ValueError:  # a hash that is longer than the key, a salt that has no room in it
        return "the certificate's key cannot have made such a signature"
    return None


def _not_of(name: str, key: Any) -> str:
    kind = type(key).__name__.lstrip("_").removesuffix("PublicKey")
    curve = f" {key.curve.name}" if isinstance(key, ec.EllipticCurvePublicKey) else ""
    return f"the signature is {name}, but the certificate's key is {kind}{curve}"


EdwardsKey = ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | EdwardsKey

_SIGNING_HASHES: Final[Mapping[int, hashes.HashAlgorithm]] = MappingProxyType(
    {
        HashAlgorithm.SHA1: hashes.SHA1(),
        HashAlgorithm.SHA2_256: hashes.SHA256(),
        HashAlgorithm.SHA2_384: hashes.SHA384(),
        HashAlgorithm.SHA2_512: hashes.SHA512(),
    }
)
#: AlgorithmIdentifiers as RFC 7427, appendix A, spells them.
_RSA_IDENTIFIERS: Final[Mapping[int, bytes]] = MappingProxyType(
    {
        HashAlgorithm.SHA1: bytes.fromhex("300d06092a864886f70d0101050500"),
        HashAlgorithm.SHA2_256: bytes.fromhex("300d06092a864886f70d01010b0500"),
        HashAlgorithm.SHA2_384: bytes.fromhex("300d06092a864886f70d01010c0500"),
        HashAlgorithm.SHA2_512: bytes.fromhex("300d06092a864886f70d01010d0500"),
    }
)
_ECDSA_IDENTIFIERS: Final[Mapping[int, bytes]] = MappingProxyType(
    {
        HashAlgorithm.SHA1: bytes.fromhex("300906072a8648ce3d0401"),
        HashAlgorithm.SHA2_256: bytes.fromhex("300a06082a8648ce3d040302"),
        HashAlgorithm.SHA2_384: bytes.fromhex("300a06082a8648ce3d040303"),
        HashAlgorithm.SHA2_512: bytes.fromhex("300a06082a8648ce3d040304"),
    }
)
#: RFC 8410, section 3; RFC 8420 takes them into IKEv2.
_ED25519_IDENTIFIER: Final = bytes.fromhex("300506032b6570")
_ED448_IDENTIFIER: Final = bytes.fromhex("300506032b6571")

#: By curve: the hash of its strength, the method of RFC 4754, bytes of each number of a signature.
_CURVES: Final[Mapping[str, tuple[HashAlgorithm, AuthMethod, int]]] = MappingProxyType(
    {
        "secp256r1": (HashAlgorithm.SHA2_256, AuthMethod.ECDSA_256, 32),
        "secp384r1": (HashAlgorithm.SHA2_384, AuthMethod.ECDSA_384, 48),
        "secp521r1": (HashAlgorithm.SHA2_512, AuthMethod.ECDSA_521, 66),
    }
)
#: After the hash of a curve's strength, and for RSA keys from the beginning.
_PREFERRED: Final = (
    HashAlgorithm.SHA2_256,
    HashAlgorithm.SHA2_384,
    HashAlgorithm.SHA2_512,
    HashAlgorithm.SHA1,
)


class NoSuitableSignatureError(ValueError):
    """The key has no signature that the peer takes; one clause, without a secret."""


def sign_octets(key: SigningKey, octets: bytes, hash_algorithms: Collection[int] | None) -> Authentication:
    """The AUTH payload of a side's signed octets.

    `hash_algorithms`: what the peer announced in SIGNATURE_HASH_ALGORITHMS; None: it did not, so that one of the old
    methods has to do. Raises `NoSuitableSignatureError` where there is none for this key, or no hash that both have.
    """
    if hash_algorithms is None:
        return _old(key, octets)
    if isinstance(key, EdwardsKey):
        # the octets themselves are signed, by Ed448 with an empty context (RFC 8420, section 2)
        _choose((HashAlgorithm.IDENTITY,), hash_algorithms)
        is_ed448 = isinstance(key, ed448.Ed448PrivateKey)
        identifier = _ED448_IDENTIFIER if is_ed448 else _ED25519_IDENTIFIER
        signature = key.sign(octets)
    elif isinstance(key, rsa.RSAPrivateKey):
        digest = _choose(_PREFERRED, hash_algorithms)
        identifier = _RSA_IDENTIFIERS[digest]
        signature = key.sign(octets, padding.PKCS1v15(), _SIGNING_HASHES[digest])
    else:
        digest = _choose((_curve(key)[0], *_PREFERRED), hash_algorithms)
        identifier = _ECDSA_IDENTIFIERS[digest]
        signature = key.sign(octets, ec.ECDSA(_SIGNING_HASHES[digest]))
    return Authentication(AuthMethod.DIGITAL_SIGNATURE, bytes([len(identifier)]) + identifier + signature)


def _old(key: SigningKey, octets: bytes) -> Authentication:
    """Methods 1 and 9 to 11: the hash goes with the method, RSA's is SHA-1 (RFC 7296, section 3.8)."""
    if isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(octets, padding.PKCS1v15(), hashes.SHA1())
        return Authentication(AuthMethod.RSA, signature)
    if isinstance(key, EdwardsKey):
        name = "Ed448" if isinstance(key, ed448.Ed448PrivateKey) else "Ed25519"
        raise NoSuitableSignatureError(f"an {name} key needs SIGNATURE_HASH_ALGORITHMS, which the peer does not send")
    digest, method, size = _curve(key)
    r, s = decode_dss_signature(key.sign(octets, ec.ECDSA(_SIGNING_HASHES[digest])))
    return Authentication(method, r.to_bytes(size) + s.to_bytes(size))


def _curve(key: ec.EllipticCurvePrivateKey) -> tuple[HashAlgorithm, AuthMethod, int]:
    found = _CURVES.get(key.curve.name)
    if found is None:
        raise NoSuitableSignatureError(f"keys on the curve {key.curve.name} are not used for AUTH payloads")
    return found


def _choose(wanted: Collection[HashAlgorithm], offered: Collection[int]) -> HashAlgorithm:
    for algorithm in wanted:
        if algorithm in offered:
            return algorithm
    theirs = ", ".join(get_name(HashAlgorithm, algorithm) for algorithm in offered) or "none"
    ours = ", ".join(dict.fromkeys(algorithm.label for algorithm in wanted))
    raise NoSuitableSignatureError(f"the peer takes signatures with {theirs}, the key makes those with {ours}")
