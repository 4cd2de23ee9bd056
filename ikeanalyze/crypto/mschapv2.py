"""Compute the response, the server's proof and the MSK of EAP-MSCHAPv2 from a password (RFC 2759, section 8; RFC 3079).

Its hashes and ciphers are broken and must not be relied on. MD4 comes from pycryptodome, because `cryptography` lacks
it; DES is 3DES with the same key three times.
"""

import hashlib
from types import ModuleType
from typing import Final

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.modes import ECB

#: RFC 2759, section 8.7.
_MAGIC1: Final = b"Magic server to client signing constant"
_MAGIC2: Final = b"Pad to make it do more than one iteration"
#: RFC 3079, section 3.4; the client sends with the second key and receives with the third.
_MASTER: Final = b"This is the MPPE Master Key"
_CLIENT_SENDS: Final = b"On the client side, this is the send key; on the server side, it is the receive key."
_CLIENT_RECEIVES: Final = b"On the client side, this is the receive key; on the server side, it is the send key."
_PAD1: Final = bytes(40)
_PAD2: Final = b"\xf2" * 40
_KEY: Final = 16
_DES_BLOCKS: Final = 3
_HASH: Final = 21  # bytes of the password's hash padded with zeros: three DES keys of 7 bytes
_MSK: Final = 64


class Md4MissingError(RuntimeError):
    """pycryptodome, which provides MD4, is not installed; one line for the user."""

    def __init__(self) -> None:
        super().__init__("EAP-MSCHAPv2 needs MD4 from pycryptodome: pip install pycryptodome")


def require_md4() -> ModuleType:
    """Return the module of MD4. Raises `Md4MissingError` if it is not available."""
    try:
        from Crypto.Hash import MD4  # optional dependency
    except ImportError:
        raise Md4MissingError from None
    return MD4


def password_hash(password: str) -> bytes:
    """Return NtPasswordHash (RFC 2759, section 8.3), 16 bytes. Raises `Md4MissingError`."""
    return bytes(require_md4().new(password.encode("utf-16-le")).digest())


def challenge_hash(peer_challenge: bytes, challenge: bytes, user: str) -> bytes:
    """Return ChallengeHash (section 8.2), 8 bytes. `user`: without a domain before a backslash."""
    return _sha1(peer_challenge + challenge + _name(user))[:8]


def nt_response(challenge: bytes, peer_challenge: bytes, user: str, password: str) -> bytes:
    """Return GenerateNTResponse (section 8.1), 24 bytes. The challenges have 16 bytes each."""
    block = challenge_hash(peer_challenge, challenge, user)
    padded = password_hash(password).ljust(_HASH, b"\0")
    return b"".join(_des(padded[7 * part : 7 * part + 7], block) for part in range(_DES_BLOCKS))


def authenticator_response(challenge: bytes, peer_challenge: bytes, user: str, password: str, response: bytes) -> str:
    """Return GenerateAuthenticatorResponse (section 8.7): S= and 40 hex digits, the server's proof of the password.

    `challenge` and `peer_challenge` are the 16 bytes of each side, `response` the peer's 24 bytes.
    """
    digest = _sha1(_hash_of_hash(password) + response + _MAGIC1)
    return f"S={_sha1(digest + challenge_hash(peer_challenge, challenge, user) + _MAGIC2).hex().upper()}"


def master_session_key(password: str, response: bytes) -> bytes:
    """Return the MSK, 64 bytes: the client's master send and receive keys (RFC 3079, section 3.4), and zeros."""
    master = _sha1(_hash_of_hash(password) + response + _MASTER)[:_KEY]
    keys = (_sha1(master + _PAD1 + magic + _PAD2)[:_KEY] for magic in (_CLIENT_SENDS, _CLIENT_RECEIVES))
    return b"".join(keys).ljust(_MSK, b"\0")


def _hash_of_hash(password: str) -> bytes:
    """HashNtPasswordHash (RFC 2759, section 8.4)."""
    return bytes(require_md4().new(password_hash(password)).digest())


def _name(user: str) -> bytes:
    return user.rpartition("\\")[2].encode()


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _des(key: bytes, block: bytes) -> bytes:
    """DES of one block. The 56 bits of the key are spread over 8 bytes, whose lowest bit is an ignored parity bit."""
    bits = int.from_bytes(key)
    spread = bytes(bits >> 49 - 7 * place << 1 & 0xFE for place in range(8))
    return Cipher(TripleDES(spread * 3), ECB()).encryptor().update(block)
