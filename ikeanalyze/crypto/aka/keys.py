"""Keys and message authentication codes of EAP-AKA (RFC 4187, section 7 and appendix A)."""

import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

#: Bytes of the value of AT_MAC.
MAC_BYTES: Final = 16
_KEY: Final = 16
_MSK: Final = 64
_SHA1_BYTES: Final = 20
_SHA1_BLOCK: Final = 64
_WORD: Final = 0xFFFFFFFF
#: The initial state of SHA-1, the value t of FIPS 186-2's function G.
_SHA1_STATE: Final = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
_ROUND: Final = 20  # steps with the same function and constant


@dataclass(frozen=True, slots=True)
class AkaKeys:
    """Keys of an EAP-AKA full authentication."""

    k_encr: bytes = field(repr=False)  # for AT_ENCR_DATA, 16 bytes
    k_aut: bytes = field(repr=False)  # for AT_MAC, 16 bytes
    msk: bytes = field(repr=False)  # 64 bytes
    emsk: bytes = field(repr=False)  # 64 bytes


def derive_aka_keys(identity: bytes, ik: bytes, ck: bytes) -> AkaKeys:
    """Derive the keys of a full authentication (RFC 4187, section 7).

    `identity`: of the last AT_IDENTITY, or if there was none, of the EAP-Response/Identity. `ik`, `ck`: 16 bytes each.
    """
    master = hashlib.sha1(identity + ik + ck, usedforsecurity=False).digest()
    stream = generate_fips_186_2(master, 2 * (_KEY + _MSK))
    return AkaKeys(
        stream[:_KEY], stream[_KEY : 2 * _KEY], stream[2 * _KEY : 2 * _KEY + _MSK], stream[2 * _KEY + _MSK :]
    )


def compute_aka_mac(k_aut: bytes, packet: bytes) -> bytes:
    """Return the value of AT_MAC for an EAP packet in which it is zero, 16 bytes (RFC 4187, section 10.15)."""
    return hmac.digest(k_aut, packet, "sha1")[:MAC_BYTES]


def compute_checkcode(identity_packets: bytes) -> bytes:
    """Return the value of AT_CHECKCODE for the concatenated AKA-Identity packets (section 10.13); none: empty."""
    return hashlib.sha1(identity_packets, usedforsecurity=False).digest() if identity_packets else b""


def generate_fips_186_2(key: bytes, size: int) -> bytes:
    """Return `size` bytes of FIPS 186-2's generator with b = 160 and without XSEED (RFC 4187, appendix A).

    `key`: XKEY, 20 bytes.
    """
    state, modulus = int.from_bytes(key), 1 << 8 * _SHA1_BYTES
    stream = b""
    while len(stream) < size:
        word = _compress(state.to_bytes(_SHA1_BYTES))
        state = (1 + state + int.from_bytes(word)) % modulus
        stream += word
    return stream[:size]


def _compress(value: bytes) -> bytes:
    """FIPS 186-2's G: the compression function of SHA-1 for a value padded with zeros.

    hashlib does not offer it: it always appends SHA-1's own padding with the length.
    """
    words = list(struct.unpack(">16I", value.ljust(_SHA1_BLOCK, b"\0")))
    for place in range(16, 4 * _ROUND):
        words.append(_rotate(words[place - 3] ^ words[place - 8] ^ words[place - 14] ^ words[place - 16], 1))
    a, b, c, d, e = _SHA1_STATE
    for place, word in enumerate(words):
        mixed, constant = _mix(place // _ROUND, b, c, d)
        a, b, c, d, e = (_rotate(a, 5) + mixed + e + constant + word) & _WORD, a, _rotate(b, 30), c, d
    sums = (left + right for left, right in zip(_SHA1_STATE, (a, b, c, d, e), strict=True))
    return struct.pack(">5I", *(value & _WORD for value in sums))


def _mix(number: int, b: int, c: int, d: int) -> tuple[int, int]:
    """Function and constant of a round of SHA-1, counted from 0 (FIPS 180-4, sections 4.1.1 and 4.2.1)."""
    match number:
        case 0:
            return b & c | ~b & _WORD & d, 0x5A827999
        case 1:
            return b ^ c ^ d, 0x6ED9EBA1
        case 2:
            return b & c | b & d | c & d, 0x8F1BBCDC
        case _:
            return b ^ c ^ d, 0xCA62C1D6


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> 32 - count) & _WORD
