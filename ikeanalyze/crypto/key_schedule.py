"""Derive the keys of an IKE SA: SKEYSEED and SK_*, also after additional key exchanges and rekeying, and with a PPK.

Pure functions, named after the formulas of the RFCs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, IkeSuite, PrfAlgorithm
from ikeanalyze.crypto.macs import prf, prf_plus
from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

_HALF_NONCE: Final = 8  # bytes


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The seven keys of an IKE SA (RFC 7296, section 2.14), in the order in which they are taken from prf+."""

    sk_d: bytes = field(repr=False)
    sk_ai: bytes = field(repr=False)  # empty with an AEAD cipher
    sk_ar: bytes = field(repr=False)
    sk_ei: bytes = field(repr=False)  # with the salt at the end where the cipher has one
    sk_er: bytes = field(repr=False)
    sk_pi: bytes = field(repr=False)
    sk_pr: bytes = field(repr=False)


def skeyseed(algorithm: PrfAlgorithm, secret: bytes, nonce_i: bytes, nonce_r: bytes) -> bytes:
    """Return SKEYSEED of a new IKE SA (RFC 7296, section 2.14). `secret`: g^ir of the first key exchange."""
    if algorithm.half_nonces:
        return prf(algorithm, nonce_i[:_HALF_NONCE] + nonce_r[:_HALF_NONCE], secret)
    return prf(algorithm, nonce_i + nonce_r, secret)


def skeyseed_after_additional(algorithm: PrfAlgorithm, sk_d: bytes, secret: bytes, nonces: bytes) -> bytes:
    """Return SKEYSEED(n) after an additional key exchange in IKE_INTERMEDIATE (RFC 9370, section 2.2.2).

    `sk_d`: SK_d(n-1). `secret`: SK(n), the secret of that key exchange. `nonces`: Ni | Nr of IKE_SA_INIT.
    """
    return prf(algorithm, sk_d, secret + nonces)


def skeyseed_of_rekeying(algorithm: PrfAlgorithm, sk_d: bytes, secrets: Sequence[bytes], nonces: bytes) -> bytes:
    """Return SKEYSEED of an IKE SA that replaces another (RFC 7296, section 2.18; RFC 9370, section 2.2.4).

    `algorithm` and `sk_d` are those of the IKE SA that is replaced. `secrets`: of the key exchange in
    CREATE_CHILD_SA, then of those in IKE_FOLLOWUP_KE. `nonces`: Ni | Nr of CREATE_CHILD_SA.
    """
    return prf(algorithm, sk_d, b"".join(secrets[:1]) + nonces + b"".join(secrets[1:]))


def skeyseed_of_resumption(algorithm: PrfAlgorithm, sk_d: bytes, nonces: bytes) -> bytes:
    """Return SKEYSEED of a resumed IKE SA (RFC 5723, section 5.1).

    `algorithm` and `sk_d` are those of the IKE SA that is resumed. `nonces`: Ni | Nr of IKE_SESSION_RESUME.
    """
    return prf(algorithm, sk_d, b"Resumption" + nonces)


def session_keys(
    algorithm: PrfAlgorithm, suite: IkeSuite, skeyseed: bytes, nonces: bytes, spi_i: bytes, spi_r: bytes
) -> SessionKeys:
    """Return SK_* from a SKEYSEED of any of these functions (RFC 7296, section 2.14). `nonces`: all of Ni | Nr.

    Raises:
        ValueError: the suite's algorithms or its key length are unknown.
    """
    encryption = ENCRYPTION.get(suite.encryption)
    size_e = None if encryption is None else encryption.get_key_bytes(suite.key_bits)
    if encryption is None or size_e is None:
        bits = "" if suite.key_bits is None else f" with {suite.key_bits} bits"
        raise ValueError(f"the length of keys for {get_name(Encryption, suite.encryption)}{bits} is not known")
    size_a = 0
    if not encryption.aead and suite.integrity != Integrity.NONE:
        integrity = INTEGRITY.get(suite.integrity)
        if integrity is None:
            raise ValueError(f"the length of keys for {get_name(Integrity, suite.integrity)} is not known")
        size_a = integrity.key
    sizes = (algorithm.size, size_a, size_a, size_e, size_e, algorithm.size, algorithm.size)
    stream = Cursor(prf_plus(algorithm, skeyseed, nonces + spi_i + spi_r, sum(sizes)))
    return SessionKeys(*map(stream.read_bytes, sizes))


def mix_in_ppk(algorithm: PrfAlgorithm, keys: SessionKeys, ppk: bytes) -> SessionKeys:
    """Return the keys after mixing in a post-quantum preshared key: SK_d, SK_pi, SK_pr change (RFC 8784, section 3)."""
    return replace(
        keys,
        sk_d=prf_plus(algorithm, ppk, keys.sk_d, algorithm.size),
        sk_pi=prf_plus(algorithm, ppk, keys.sk_pi, algorithm.size),
        sk_pr=prf_plus(algorithm, ppk, keys.sk_pr, algorithm.size),
    )
