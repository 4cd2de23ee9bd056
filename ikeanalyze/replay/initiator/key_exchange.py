"""Key exchanges of an initiator: fresh keys, the data of the KE payload, and the shared secret.

The cryptography library computes everything; this module encodes the KE payload: RFC 7296, section 3.4 and RFC 3526
(MODP), RFC 5903 (ECP), RFC 8031 (X25519, X448), draft-ietf-ipsecme-ikev2-mlkem (ML-KEM).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final

import cryptography
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, mlkem, x448, x25519
from cryptography.utils import CryptographyDeprecationWarning

from ikeanalyze.replay.initiator.interface import RefusedError
from ikeanalyze.wire.ikev2.key_exchange import check_key_exchange, get_key_exchange_name
from ikeanalyze.wire.ikev2.payloads import KeyExchange
from ikeanalyze.wire.registries.ikev2_transforms import KeyExchangeMethod

GENERATOR: Final = 2  # of all MODP groups

_MODP_2048: Final = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
    "15728E5A8AACAA68FFFFFFFFFFFFFFFF",
    16,
)
_MODP_3072: Final = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
    "15728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7"
    "ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200C"
    "BBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A93AD2CAFFFFFFFFFFFFFFFF",
    16,
)
_MODP_4096: Final = int(
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD"
    "EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED"
    "EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F"
    "83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B"
    "E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510"
    "15728E5A8AAAC42DAD33170D04507A33A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7"
    "ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864D87602733EC86A64521F2B18177B200C"
    "BBE117577A615D6C770988C0BAD946E208E24FA074E5AB3143DB5BFCE0FD108E4B82D120A92108011A723C12A787E6D7"
    "88719A10BDBA5B2699C327186AF4E23C1A946834B6150BDA2583E9CA2AD44CE8DBBBC2DB04DE8EF92E8EFC141FBECAA6"
    "287C59474E6BC05D99B2964FA090C3A2233BA186515BE7ED1F612970CEE2D7AFB81BDD762170481CD0069127D5B05AA9"
    "93B4EA988D8FDDC186FFB7DC90A6C08F4DF435C934063199FFFFFFFFFFFFFFFF",
    16,
)

#: Primes of the MODP groups 14 to 16 (RFC 3526, sections 3 to 5), which the cryptography library lacks. The
#: prime of n bits is 2^n - 2^(n-64) - 1 + 2^64 (floor(2^(n-130) pi) + c), with c from the RFC; a test checks this.
PRIMES: Final[Mapping[int, int]] = MappingProxyType(
    {
        KeyExchangeMethod.MODP_2048: _MODP_2048,
        KeyExchangeMethod.MODP_3072: _MODP_3072,
        KeyExchangeMethod.MODP_4096: _MODP_4096,
    }
)

_UNCOMPRESSED: Final = b"\x04"  # first byte of an encoded point (SEC 1, section 2.3.3); the KE payload omits it

_CURVES: Final[Mapping[int, ec.EllipticCurve]] = MappingProxyType(
    {
        KeyExchangeMethod.ECP_256: ec.SECP256R1(),
        KeyExchangeMethod.ECP_384: ec.SECP384R1(),
        KeyExchangeMethod.ECP_521: ec.SECP521R1(),
    }
)


@dataclass(frozen=True, slots=True)
class InitiatorKeyExchange:
    """The initiator's half of a key exchange."""

    method: int
    data: bytes  # of our KE payload: public value, or encapsulation key
    _derive: Callable[[bytes], bytes] = field(repr=False)  # the secret from the peer's data; raises `ValueError`

    def compute_secret(self, peer: KeyExchange) -> bytes:
        """Return the shared secret: g^ir of RFC 7296, section 2.14, or SK(n) of RFC 9370, section 2.2.2.

        Raises:
            RefusedError: the data of the peer is invalid.
        """
        problems = check_key_exchange(peer, response=True, negotiated=self.method)
        if problems:
            raise RefusedError("; ".join(problems))
        try:
            return self._derive(peer.data)
        except ValueError:
            raise RefusedError(f"invalid {get_key_exchange_name(self.method)} data in the KE payload") from None


@cache
def explain_unsupported(method: int) -> str | None:
    """Return why a key exchange method cannot be used, in one clause; None: it can be used.

    Generates a key, because only this shows which methods the library was built with.
    """
    if method == KeyExchangeMethod.ML_KEM_512:
        remedy = "record or choose a proposal with ML-KEM-768 or ML-KEM-1024"
        return f"the cryptography library does not implement ML-KEM-512: {remedy}"
    if method not in _STARTERS:
        return f"key exchange method {get_key_exchange_name(method)} is not supported"
    try:
        _STARTERS[method](method)
    except UnsupportedAlgorithm:
        return f"cryptography {cryptography.__version__} on this machine lacks {get_key_exchange_name(method)}"
    return None


def start_key_exchange(method: int) -> InitiatorKeyExchange:
    """Generate a key pair for a key exchange method. Raises `RefusedError` if the method is not supported."""
    reason = explain_unsupported(method)
    if reason is not None:
        raise RefusedError(reason)
    return _STARTERS[method](method)


def _start_x25519(method: int) -> InitiatorKeyExchange:
    key, parse_public = x25519.X25519PrivateKey.generate(), x25519.X25519PublicKey.from_public_bytes
    data = key.public_key().public_bytes_raw()
    return InitiatorKeyExchange(method, data, lambda peer: key.exchange(parse_public(peer)))


def _start_x448(method: int) -> InitiatorKeyExchange:
    key, parse_public = x448.X448PrivateKey.generate(), x448.X448PublicKey.from_public_bytes
    data = key.public_key().public_bytes_raw()
    return InitiatorKeyExchange(method, data, lambda peer: key.exchange(parse_public(peer)))


def _start_ecp(method: int) -> InitiatorKeyExchange:
    """KE data is both coordinates; the secret is the x-coordinate (RFC 5903, section 7)."""
    curve = _CURVES[method]
    key = ec.generate_private_key(curve)
    numbers = key.public_key().public_numbers()
    size = (curve.key_size + 7) // 8

    def derive(peer: bytes) -> bytes:
        point = ec.EllipticCurvePublicKey.from_encoded_point(curve, _UNCOMPRESSED + peer)
        return key.exchange(ec.ECDH(), point)

    return InitiatorKeyExchange(method, numbers.x.to_bytes(size) + numbers.y.to_bytes(size), derive)


@contextmanager
def _ignore_deprecation() -> Iterator[None]:
    """Silence the library, which deprecates MODP groups: the recorded handshake uses one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CryptographyDeprecationWarning)
        yield


def _start_modp(method: int) -> InitiatorKeyExchange:
    """Public value and secret have the length of the prime (RFC 7296, sections 2.14 and 3.4)."""
    try:
        from cryptography.hazmat.primitives.asymmetric import dh
    except ImportError:  # later versions of the library will not have it
        raise UnsupportedAlgorithm("finite fields") from None
    prime = PRIMES[method]
    size = (prime.bit_length() + 7) // 8
    with _ignore_deprecation():
        group = dh.DHParameterNumbers(prime, GENERATOR)
        key = group.parameters().generate_private_key()

    def derive(peer: bytes) -> bytes:
        value = int.from_bytes(peer)
        if not 1 < value < prime - 1:  # a weak value (RFC 6989, section 2.1)
            raise ValueError
        with _ignore_deprecation():
            return key.exchange(dh.DHPublicNumbers(value, group).public_key()).rjust(size, b"\0")

    return InitiatorKeyExchange(method, key.public_key().public_numbers().y.to_bytes(size), derive)


def _start_mlkem(method: int) -> InitiatorKeyExchange:
    """The initiator sends the encapsulation key, the responder the ciphertext."""
    is_768 = method == KeyExchangeMethod.ML_KEM_768
    key = mlkem.MLKEM768PrivateKey.generate() if is_768 else mlkem.MLKEM1024PrivateKey.generate()
    return InitiatorKeyExchange(method, key.public_key().public_bytes_raw(), key.decapsulate)


#: For each method, the function that generates a key pair.
_STARTERS: Final[Mapping[int, Callable[[int], InitiatorKeyExchange]]] = MappingProxyType(
    {
        **dict.fromkeys(PRIMES, _start_modp),
        **dict.fromkeys(_CURVES, _start_ecp),
        KeyExchangeMethod.X25519: _start_x25519,
        KeyExchangeMethod.X448: _start_x448,
        KeyExchangeMethod.ML_KEM_768: _start_mlkem,
        KeyExchangeMethod.ML_KEM_1024: _start_mlkem,
    }
)
