"""Ciphers of IKE messages, one object for each key.

Nothing here knows of messages: IVs, ciphertexts and associated data come from `sealed`. cryptography has
neither CTR nor CCM for Camellia, and pycryptodome has no Camellia; both modes are built here from the block cipher.
"""

from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import Camellia, TripleDES
from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm, Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR, ECB, GCM

from ikeanalyze.crypto.algorithms import CipherMode, CipherPrimitive, EncryptionAlgorithm

_BLOCK: Final = 16
_FULL_ICV: Final = 16
_FIRST_COUNT: Final = (1).to_bytes(4, "big")  # RFC 3686, section 4: the counter starts at one


class PlainCipher(Protocol):
    """Encrypts without authenticating."""

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        """Plaintext with padding; `data` is a multiple of the algorithm's block."""

    def encrypt(self, iv: bytes, data: bytes) -> bytes:
        """Ciphertext of `data`, which is padded."""


class AeadCipher(Protocol):
    """Encrypts and authenticates in one."""

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        """Plaintext with padding of ciphertext and ICV; None if the ICV is wrong."""

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        """Ciphertext and ICV of `data`."""


def make_cipher(algorithm: EncryptionAlgorithm, key: bytes) -> PlainCipher:
    """A cipher that is no AEAD, with SK_e of the algorithm's length, salt and all."""
    if algorithm.mode is CipherMode.NULL:
        return _Null()
    size = len(key) - algorithm.salt
    block = _block_cipher(algorithm.primitive, key[:size])
    if algorithm.mode is CipherMode.CBC:
        return _Cbc(block)
    if algorithm.primitive is CipherPrimitive.AES:
        return _AesCtr(block, key[size:])
    return _BlockCtr(block, key[size:])


def make_cbc_cipher(primitive: CipherPrimitive, key: bytes) -> PlainCipher:
    """CBC over any block cipher, with a key that it takes."""
    return _Cbc(_block_cipher(primitive, key))


def make_aead_cipher(algorithm: EncryptionAlgorithm, key: bytes) -> AeadCipher:
    """An AEAD cipher, with SK_e of the algorithm's length, salt and all."""
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
    return BlockCcm(_block_cipher(algorithm.primitive, key), salt, algorithm.icv)


def _block_cipher(primitive: CipherPrimitive, key: bytes) -> BlockCipherAlgorithm:
    if primitive is CipherPrimitive.AES:
        return AES(key)
    if primitive is CipherPrimitive.CAMELLIA:
        return Camellia(key)
    return TripleDES(key * 3 if primitive is CipherPrimitive.DES else key)  # three times the same key: once


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


class _AesCtr:
    """RFC 5930: the counter block is nonce, IV, and a count from one."""

    __slots__ = ("_block", "_nonce")

    def __init__(self, block: BlockCipherAlgorithm, nonce: bytes) -> None:
        self._block = block
        self._nonce = nonce

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        return Cipher(self._block, CTR(self._nonce + iv + _FIRST_COUNT)).encryptor().update(data)

    encrypt = decrypt


class _BlockCtr:
    """The same counter block (RFC 5529, section 2.2) over a cipher that the library has no CTR for."""

    __slots__ = ("_block", "_nonce")

    def __init__(self, block: BlockCipherAlgorithm, nonce: bytes) -> None:
        self._block = block
        self._nonce = nonce

    def decrypt(self, iv: bytes, data: bytes) -> bytes:
        return _with_counters(self._block, self._nonce + iv, 4, 1, data)

    encrypt = decrypt


def _with_counters(block: BlockCipherAlgorithm, prefix: bytes, size: int, first: int, data: bytes) -> bytes:
    """`data` XOR the encrypted counter blocks: `prefix`, and a count of `size` bytes from `first` on."""
    count = -(-len(data) // _BLOCK)
    counters = b"".join(prefix + number.to_bytes(size, "big") for number in range(first, first + count))
    stream = Cipher(block, ECB()).encryptor().update(counters)[: len(data)]
    mixed = int.from_bytes(stream, "big") ^ int.from_bytes(data, "big")
    return mixed.to_bytes(len(data), "big")


class _LibraryAead:
    """What the library does in one call. One object serves all messages of a key: making it costs as much as
    using it.
    """

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
    """GCM with an ICV of 8 or 12 bytes, which the library's one call refuses."""

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
    """CCM (RFC 3610) over a block cipher that the library has no CCM for."""

    __slots__ = ("_block", "_icv", "_salt")

    def __init__(self, block: BlockCipherAlgorithm, salt: bytes, icv: int) -> None:
        self._block = block
        self._salt = salt
        self._icv = icv

    def decrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes | None:
        """See `AeadCipher`."""
        nonce = self._salt + iv
        plaintext = self._encrypted(nonce, 1, data[: -self._icv])
        return plaintext if self._mac(nonce, plaintext, associated) == data[-self._icv :] else None

    def encrypt(self, iv: bytes, data: bytes, associated: bytes) -> bytes:
        """See `AeadCipher`."""
        nonce = self._salt + iv
        return self._encrypted(nonce, 1, data) + self._mac(nonce, data, associated)

    def _encrypted(self, nonce: bytes, first: int, data: bytes) -> bytes:
        size = 15 - len(nonce)  # bytes of a length, and of a count: L
        return _with_counters(self._block, bytes([size - 1]) + nonce, size, first, data)

    def _mac(self, nonce: bytes, data: bytes, associated: bytes) -> bytes:
        """Sections 2.2 and 2.3: CBC-MAC over flags, nonce and lengths, associated data, message; encrypted."""
        size = 15 - len(nonce)
        flags = (64 if associated else 0) | (self._icv - 2) // 2 << 3 | (size - 1)
        blocks = bytes([flags]) + nonce + len(data).to_bytes(size, "big")
        if associated:
            short = len(associated) < 0xFF00
            length = len(associated).to_bytes(2, "big") if short else _long_length(associated)
            blocks += _zero_filled(length + associated)
        blocks += _zero_filled(data)
        tag = Cipher(self._block, CBC(bytes(_BLOCK))).encryptor().update(blocks)[-_BLOCK:]
        return self._encrypted(nonce, 0, tag[: self._icv])


def _long_length(associated: bytes) -> bytes:
    return b"\xff\xfe" + len(associated).to_bytes(4, "big")


def _zero_filled(data: bytes) -> bytes:
    return data + bytes(-len(data) % _BLOCK)
