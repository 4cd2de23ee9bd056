"""Ciphers of IKE and ESP, one object for each key. IVs, ciphertexts and associated data come from the callers.

cryptography has neither CTR nor CCM for Camellia, and pycryptodome lacks Camellia, so both modes are implemented here.
"""

from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import CAST5, Blowfish, Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR, ECB, GCM

from ikeanalyze.crypto.algorithms import CipherMode, CipherPrimitive, EncryptionAlgorithm

_BLOCK: Final = 16
_FULL_ICV: Final = 16
_INITIAL_COUNTER: Final = (1).to_bytes(4, "big")  # RFC 3686, section 4: the counter starts at one


class PlainCipher(Protocol):
    """A cipher without authentication."""

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        """Return the padded plaintext; `data` is a multiple of the algorithm's block."""

    def encrypt(self, iv: bytes, data: bytes) -> bytes:
        """Return the ciphertext of padded `data`."""


class AeadCipher(Protocol):
    """A cipher with authentication."""

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        """Return the padded plaintext of ciphertext and ICV; None if the ICV is invalid."""

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        """Return ciphertext and ICV of padded `data`."""


def make_cipher(algorithm: EncryptionAlgorithm, key: bytes) -> PlainCipher:
    """Return a cipher that is not AEAD. `key`: SK_e of the algorithm's length, including the salt."""
    if algorithm.mode is CipherMode.NULL:
        return _Null()
    size = len(key) - algorithm.salt
    block = _make_block_cipher(algorithm.primitive, key[:size])
    if algorithm.mode is CipherMode.CBC:
        return _Cbc(block)
    return _Ctr(block, key[size:])


def make_cbc_cipher(primitive: CipherPrimitive, key: bytes) -> PlainCipher:
    """Return CBC over any block cipher."""
    return _Cbc(_make_block_cipher(primitive, key))


def make_aead_cipher(algorithm: EncryptionAlgorithm, key: bytes) -> AeadCipher:
    """Return an AEAD cipher. `key`: SK_e of the algorithm's length, including the salt."""
    size = len(key) - algorithm.salt
    key, salt = key[:size], key[size:]
    if algorithm.mode is CipherMode.GCM and algorithm.icv < _FULL_ICV:
        return _ShortGcm(AES(key), salt, algorithm.icv)
    if algorithm.mode is CipherMode.GCM:
        return _LibraryAead(AESGCM(key), salt)
    if algorithm.mode is CipherMode.POLY1305:
        return _LibraryAead(ChaCha20Poly1305(key), salt)
    if algorithm.primitive is CipherPrimitive.AES:
        return _LibraryAead(AESCCM(key, tag_length=algorithm.icv), salt)
    return BlockCcm(_make_block_cipher(algorithm.primitive, key), salt, algorithm.icv)


def _make_block_cipher(primitive: CipherPrimitive, key: bytes) -> BlockCipherAlgorithm:
    if primitive is CipherPrimitive.AES:
        return AES(key)
    if primitive is CipherPrimitive.CAMELLIA:
        return Camellia(key)
    if primitive is CipherPrimitive.CAST:
        return CAST5(key)
    if primitive is CipherPrimitive.BLOWFISH:
        return Blowfish(key)
    return TripleDES(key * 3 if primitive is CipherPrimitive.DES else key)  # DES is 3DES with three equal keys


class _Null:
    """RFC 2410."""

    __slots__ = ()

    def decrypt(self, iv: bytes, data: bytes) -> bytes:  # noqa: ARG002
        return data

    def encrypt(self, iv: bytes, data: bytes) -> bytes:  # noqa: ARG002
        return data


class _Cbc:
    __slots__ = ("_block",)

    def __init__(self, block: BlockCipherAlgorithm) -> None:
        self._block = block

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        return Cipher(self._block, CBC(iv)).decryptor().update(data)

    def encrypt(self, iv: bytes, data: bytes) -> bytes:
        return Cipher(self._block, CBC(iv)).encryptor().update(data)


class _Ctr:
    """The counter block is nonce, IV, and a counter from one (RFC 5930; RFC 5529, section 2.2)."""

    __slots__ = ("_block", "_nonce")

    def __init__(self, block: BlockCipherAlgorithm, nonce: bytes) -> None:
        self._block = block
        self._nonce = nonce

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        if isinstance(self._block, AES):
            return Cipher(self._block, CTR(self._nonce + iv + _INITIAL_COUNTER)).encryptor().update(data)
        return _xor_counter_stream(self._block, self._nonce + iv, 4, 1, data)

    encrypt = decrypt


def _xor_counter_stream(block: BlockCipherAlgorithm, prefix: bytes, size: int, first: int, data: bytes) -> bytes:
    """`data` XOR the encrypted counter blocks: `prefix`, and a counter of `size` bytes from `first` on."""
    count = -(-len(data) // _BLOCK)
    counters = b"".join(prefix + number.to_bytes(size, "big") for number in range(first, first + count))
    stream = Cipher(block, ECB()).encryptor().update(counters)[: len(data)]
    mixed = int.from_bytes(stream, "big") ^ int.from_bytes(data, "big")
    return mixed.to_bytes(len(data), "big")


class _LibraryAead:
    """An AEAD cipher of the library, one object for all messages of a key: creating it costs as much as using it."""

    __slots__ = ("_cipher", "_salt")

    def __init__(self, cipher: AESGCM | AESCCM | ChaCha20Poly1305, salt: bytes) -> None:
        self._cipher = cipher
        self._salt = salt

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(self._salt + iv, data, associated)
        except InvalidTag:
            return None

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        return self._cipher.encrypt(self._salt + iv, data, associated)


class _ShortGcm:
    """GCM with an ICV of 8 or 12 bytes, which `AESGCM` does not support."""

    __slots__ = ("_block", "_icv", "_salt")

    def __init__(self, block: AES, salt: bytes, icv: int) -> None:
        self._block = block
        self._salt = salt
        self._icv = icv

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        mode = GCM(self._salt + iv, data[-self._icv :], min_tag_length=self._icv)
        decryptor = Cipher(self._block, mode).decryptor()
        decryptor.authenticate_additional_data(associated)
        plaintext = decryptor.update(data[: -self._icv])
        try:
            return plaintext + decryptor.finalize()
        except InvalidTag:
            return None

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        encryptor = Cipher(self._block, GCM(self._salt + iv)).encryptor()
        encryptor.authenticate_additional_data(associated)
        ciphertext = encryptor.update(data) + encryptor.finalize()
        return ciphertext + encryptor.tag[: self._icv]


class BlockCcm:
    """CCM (RFC 3610) over a block cipher for which the library lacks CCM."""

    __slots__ = ("_block", "_icv", "_salt")

    def __init__(self, block: BlockCipherAlgorithm, salt: bytes, icv: int) -> None:
        self._block = block
        self._salt = salt
        self._icv = icv

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        """See `AeadCipher`."""
        nonce = self._salt + iv
        plaintext = self._encrypt_counter(nonce, 1, data[: -self._icv])
        return plaintext if self._compute_mac(nonce, plaintext, associated) == data[-self._icv :] else None

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        """See `AeadCipher`."""
        nonce = self._salt + iv
        return self._encrypt_counter(nonce, 1, data) + self._compute_mac(nonce, data, associated)

    def _encrypt_counter(self, nonce: bytes, first: int, data: bytes) -> bytes:
        size = 15 - len(nonce)  # L: bytes of the length and of the counter
        return _xor_counter_stream(self._block, bytes([size - 1]) + nonce, size, first, data)

    def _compute_mac(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        """Sections 2.2 and 2.3: CBC-MAC over flags, nonce and lengths, associated data, message; encrypted."""
        size = 15 - len(nonce)
        flags = (64 if associated else 0) | (self._icv - 2) // 2 << 3 | (size - 1)
        blocks = bytes([flags]) + nonce + len(data).to_bytes(size, "big")
        if associated:
            short = len(associated) < 0xFF00
            length = len(associated).to_bytes(2) if short else b"\xff\xfe" + len(associated).to_bytes(4)
            blocks += _pad_with_zeros(length + associated)
        blocks += _pad_with_zeros(data)
        tag = Cipher(self._block, CBC(bytes(_BLOCK))).encryptor().update(blocks)[-_BLOCK:]
        return self._encrypt_counter(nonce, 0, tag[: self._icv])


def _pad_with_zeros(data: bytes) -> bytes:
    return data + bytes(-len(data) % _BLOCK)
