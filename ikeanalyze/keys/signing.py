"""AUTH payloads made with a private key (RFC 7296, section 2.15; RFC 4754; RFC 7427; RFC 8420); `signatures` verifies them."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from ikeanalyze.wire.ikev2.payloads import Authentication
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import AuthMethod, HashAlgorithm

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
