"""The PRFs of IKEv2, and prf+ (RFC 7296, section 2.13)."""

from typing import Final

from ikeanalyze.keys.algorithms import MacAlgorithm, PrfAlgorithm
from ikeanalyze.keys.integrity import make_mac

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
