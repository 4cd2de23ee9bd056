"""Message authentication codes for ICVs and PRFs, and prf+ (RFC 7296, section 2.13)."""

from collections.abc import Callable, Mapping
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hmac import HMAC

from ikeanalyze.crypto.algorithms import IntegrityAlgorithm, MacAlgorithm, PrfAlgorithm

#: Hashes of the HMACs.
HASHES: Final[Mapping[MacAlgorithm, hashes.HashAlgorithm]] = {
    MacAlgorithm.MD5: hashes.MD5(),
    MacAlgorithm.SHA1: hashes.SHA1(),
    MacAlgorithm.SHA2_256: hashes.SHA256(),
    MacAlgorithm.SHA2_384: hashes.SHA384(),
    MacAlgorithm.SHA2_512: hashes.SHA512(),
}
_BLOCK: Final = 16  # bytes of a block and of a key of the AES MACs
_MAX_PRF_PLUS_BLOCKS: Final = 255  # the counter is one byte


def make_mac(mac: MacAlgorithm, key: bytes) -> Callable[[bytes], bytes]:
    """Return a function that computes untruncated MACs with a key, which is set up once.

    Raises:
        ValueError: the key of an AES MAC has the wrong length.
    """
    if mac is MacAlgorithm.AES_XCBC:
        return _make_xcbc(key)
    keyed = CMAC(AES(key)) if mac is MacAlgorithm.AES_CMAC else HMAC(key, HASHES[mac])

    def compute(data: bytes) -> bytes:
        state = keyed.copy()
        state.update(data)
        return state.finalize()

    return compute


def make_icv(algorithm: IntegrityAlgorithm, key: bytes) -> Callable[[bytes], bytes]:
    """Return a function that computes ICVs with a key, truncated to the algorithm's length."""
    mac, size = make_mac(algorithm.mac, key), algorithm.icv
    return lambda data: mac(data)[:size]


def _make_xcbc(key: bytes) -> Callable[[bytes], bytes]:
    """RFC 3566, section 4: the MAC is the last block of CBC with a zero IV."""
    if len(key) != _BLOCK:
        raise ValueError("AES-XCBC takes keys of 16 bytes")
    ecb = Cipher(AES(key), ECB()).encryptor()
    k1, k2, k3 = (ecb.update(bytes([count] * _BLOCK)) for count in (1, 2, 3))
    chained = Cipher(AES(k1), CBC(bytes(_BLOCK)))

    def xcbc(data: bytes) -> bytes:
        start = max(len(data) - 1, 0) // _BLOCK * _BLOCK  # of the last block, which is never empty
        last, mask = data[start:], k2
        if len(last) < _BLOCK:
            last, mask = (last + b"\x80").ljust(_BLOCK, b"\0"), k3
        last = bytes(a ^ b for a, b in zip(last, mask, strict=True))
        return chained.encryptor().update(data[:start] + last)[-_BLOCK:]

    return xcbc


def prf(algorithm: PrfAlgorithm, key: bytes, data: bytes) -> bytes:
    """Return the PRF of a key and data, `algorithm.size` bytes. The key may have any length."""
    return make_mac(algorithm.mac, _fit_key(algorithm, key))(data)


def prf_plus(algorithm: PrfAlgorithm, key: bytes, seed: bytes, length: int) -> bytes:
    """Return the first `length` bytes of prf+(key, seed) (RFC 7296, section 2.13).

    Raises:
        ValueError: more than 255 times the size of the PRF's output.
    """
    if length > _MAX_PRF_PLUS_BLOCKS * algorithm.size:
        raise ValueError(f"prf+ gives {_MAX_PRF_PLUS_BLOCKS * algorithm.size} bytes at most, not {length}")
    mac = make_mac(algorithm.mac, _fit_key(algorithm, key))
    stream, block, count = b"", b"", 0
    while len(stream) < length:
        count += 1
        block = mac(block + seed + bytes([count]))
        stream += block
    return stream[:length]


def _fit_key(algorithm: PrfAlgorithm, key: bytes) -> bytes:
    """Pad or hash the key of an AES PRF to 16 bytes (RFC 4434, section 2; RFC 4615, section 3)."""
    if len(key) == _BLOCK or algorithm.mac not in (MacAlgorithm.AES_XCBC, MacAlgorithm.AES_CMAC):
        return key
    if algorithm.mac is MacAlgorithm.AES_XCBC and len(key) < _BLOCK:
        return key.ljust(_BLOCK, b"\0")
    return make_mac(algorithm.mac, bytes(_BLOCK))(key)
