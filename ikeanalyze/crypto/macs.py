"""Message authentication codes: for the ICV of messages, and under the PRFs.

The PRFs of IKEv2, and prf+ (RFC 7296, section 2.13).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, ECB
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hmac import HMAC

from ikeanalyze.crypto.algorithms import IntegrityAlgorithm, MacAlgorithm, PrfAlgorithm

#: By what HMACs are made of.
HASHES: Final[Mapping[MacAlgorithm, hashes.HashAlgorithm]] = MappingProxyType(
    {
        MacAlgorithm.MD5: hashes.MD5(),
        MacAlgorithm.SHA1: hashes.SHA1(),
        MacAlgorithm.SHA2_256: hashes.SHA256(),
        MacAlgorithm.SHA2_384: hashes.SHA384(),
        MacAlgorithm.SHA2_512: hashes.SHA512(),
    }
)
_BLOCK: Final = 16


def make_mac(mac: MacAlgorithm, key: bytes) -> Callable[[bytes], bytes]:
    """The whole MAC of any bytes under one key; the key is prepared once. `ValueError` if a key of AES is no key."""
    if mac is MacAlgorithm.AES_XCBC:
        return _xcbc(key)
    if mac is MacAlgorithm.AES_CMAC:
        return _cmac(key)
    keyed = HMAC(key, HASHES[mac])

    def hmac(data: bytes) -> bytes:
        this = keyed.copy()
        this.update(data)
        return this.finalize()

    return hmac


def make_icv(algorithm: IntegrityAlgorithm, key: bytes) -> Callable[[bytes], bytes]:
    """The ICV of a message's bytes, as long as it is sent."""
    mac, size = make_mac(algorithm.mac, key), algorithm.icv

    def icv(data: bytes) -> bytes:
        return mac(data)[:size]

    return icv


def _cmac(key: bytes) -> Callable[[bytes], bytes]:
    """RFC 4493."""
    keyed = CMAC(AES(key))

    def cmac(data: bytes) -> bytes:
        this = keyed.copy()
        this.update(data)
        return this.finalize()

    return cmac


def _xcbc(key: bytes) -> Callable[[bytes], bytes]:
    """RFC 3566, section 4. One run of CBC from an IV of zeros does it: its last block is the MAC."""
    if len(key) != _BLOCK:
        raise ValueError("AES-XCBC takes keys of 16 bytes")
    ecb = Cipher(AES(key), ECB()).encryptor()
    k1, k2, k3 = (ecb.update(bytes([count] * _BLOCK)) for count in (1, 2, 3))
    chained = Cipher(AES(k1), CBC(bytes(_BLOCK)))

    def xcbc(data: bytes) -> bytes:
        whole = max(len(data) - 1, 0) // _BLOCK * _BLOCK  # bytes before the last block, which is never empty
        last, mask = data[whole:], k2
        if len(last) < _BLOCK:
            last, mask = (last + b"\x80").ljust(_BLOCK, b"\0"), k3
        last = bytes(a ^ b for a, b in zip(last, mask, strict=True))
        return chained.encryptor().update(data[:whole] + last)[-_BLOCK:]

    return xcbc


pass

_AES_KEY: Final = 16
_MOST_BLOCKS: Final = 255  # the counter is one byte


def prf(algorithm: PrfAlgorithm, key: bytes, data: bytes) -> bytes:
    """The PRF of a key, which may have any length, and data: as many bytes as the algorithm gives."""
    return make_mac(algorithm.mac, _fitted(algorithm, key))(data)


def prf_plus(algorithm: PrfAlgorithm, key: bytes, seed: bytes, length: int) -> bytes:
    """The first `length` bytes of the stream that is made of a key and a seed. `ValueError` for more than 255 times the PRF's output."""
    if length > _MOST_BLOCKS * algorithm.size:
        raise ValueError(f"prf+ gives {_MOST_BLOCKS * algorithm.size} bytes at most, not {length}")
    mac = make_mac(algorithm.mac, _fitted(algorithm, key))
    stream, block, count = b"", b"", 0
    while len(stream) < length:
        count += 1
        block = mac(block + seed + bytes([count]))
        stream += block
    return stream[:length]


def _fitted(algorithm: PrfAlgorithm, key: bytes) -> bytes:
    """A key of AES's length out of one of any (RFC 4434, section 2; RFC 4615, section 3)."""
    if len(key) == _AES_KEY or algorithm.mac not in (MacAlgorithm.AES_XCBC, MacAlgorithm.AES_CMAC):
        return key
    if algorithm.mac is MacAlgorithm.AES_XCBC and len(key) < _AES_KEY:
        return key.ljust(_AES_KEY, b"\0")
    return make_mac(algorithm.mac, bytes(_AES_KEY))(key)
