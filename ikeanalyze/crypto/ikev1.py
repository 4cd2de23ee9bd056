"""Decrypt IKEv1 messages with the encryption key of phase 1 (RFC 2409, appendix B).

All ciphers use CBC without an ICV. The IV of a message is the last ciphertext block before it in the same exchange. The
first IV is a hash: in phase 1 of both public values, in later exchanges of phase 1's last block and the message ID.
Messages may be lost, repeated or missing in the capture, so all blocks that can be the IV are tried, newest first. A
wrong IV damages the first block, which has the header of the first payload, so the plaintext must be a chain of
payloads.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import chain
from typing import Final

from cryptography.hazmat.primitives import hashes

from ikeanalyze.crypto.algorithms import (
    BLOWFISH_KEY_SIZES,
    CAST_KEY_SIZES,
    CipherPrimitive,
    MacAlgorithm,
    format_key_sizes,
)
from ikeanalyze.crypto.ciphers import make_cbc_cipher
from ikeanalyze.crypto.macs import HASHES
from ikeanalyze.crypto.sk_payload import DecryptedMessage, UnusableKeyError
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.header import HEADER, parse_header
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType, Ikev1PayloadType
from ikeanalyze.wire.registries.ikev1_phase1 import Phase1Encryption, Phase1Hash

#: Cipher, allowed bytes of a key, bytes of a block, by phase 1 attribute.
_CIPHERS: Final[dict[int, tuple[CipherPrimitive, tuple[int, ...], int]]] = {
    Phase1Encryption.DES_CBC: (CipherPrimitive.DES, (8,), 8),
    Phase1Encryption.BLOWFISH_CBC: (CipherPrimitive.BLOWFISH, BLOWFISH_KEY_SIZES, 8),
    Phase1Encryption.CAST_CBC: (CipherPrimitive.CAST, CAST_KEY_SIZES, 8),
    Phase1Encryption.TRIPLE_DES_CBC: (CipherPrimitive.TRIPLE_DES, (24,), 8),
    Phase1Encryption.AES_CBC: (CipherPrimitive.AES, (16, 24, 32), 16),
    Phase1Encryption.CAMELLIA_CBC: (CipherPrimitive.CAMELLIA, (16, 24, 32), 16),
}
#: Hash, also of the PRF, by phase 1 attribute.
_HASHES: Final[dict[int, MacAlgorithm]] = {
    Phase1Hash.MD5: MacAlgorithm.MD5,
    Phase1Hash.SHA1: MacAlgorithm.SHA1,
    Phase1Hash.SHA2_256: MacAlgorithm.SHA2_256,
    Phase1Hash.SHA2_384: MacAlgorithm.SHA2_384,
    Phase1Hash.SHA2_512: MacAlgorithm.SHA2_512,
}
_IKEV1: Final = 1
_PHASE_1: Final = frozenset({Ikev1ExchangeType.MAIN_MODE, Ikev1ExchangeType.AGGRESSIVE_MODE})
#: Types of the payloads of a chain; proposals and transforms are inside SA.
_PAYLOAD_TYPES: Final = frozenset(Ikev1PayloadType) - {
    Ikev1PayloadType.NONE,
    Ikev1PayloadType.PROPOSAL,
    Ikev1PayloadType.TRANSFORM,
}
#: Blocks of an exchange, and exchanges, that are kept.
_MAX_BLOCKS: Final = 16
_MAX_EXCHANGES: Final = 1024


class Phase1Decryptor:
    """Decrypts the messages of one IKEv1 IKE SA and keeps the state of its exchanges."""

    __slots__ = ("_block", "_cipher", "_exchanges", "_hash", "_hash_size", "_phase1")

    def __init__(self, key: bytes, encryption: int, hash_algorithm: int, public_i: bytes, public_r: bytes) -> None:
        """`encryption`, `hash_algorithm`: attributes of phase 1; `public_i`, `public_r`: bodies of both KE payloads.

        Raises:
            UnusableKeyError: the algorithms are unknown, or the key has the wrong length.
        """
        row = _CIPHERS.get(encryption)
        if row is None:
            raise UnusableKeyError(f"encryption algorithm {get_name(Phase1Encryption, encryption)} is not supported")
        mac = _HASHES.get(hash_algorithm)
        if mac is None:
            raise UnusableKeyError(f"hash algorithm {get_name(Phase1Hash, hash_algorithm)} is not known")
        primitive, sizes, self._block = row
        if len(key) not in sizes:
            name = get_name(Phase1Encryption, encryption)
            raise UnusableKeyError(f"the key has {len(key)} bytes, {name} takes {format_key_sizes(sizes)}")
        self._cipher = make_cbc_cipher(primitive, key)
        self._hash = HASHES[mac]
        self._hash_size = self._hash.digest_size
        self._phase1 = [self._derive_iv(public_i + public_r)]
        self._exchanges: OrderedDict[int, list[bytes]] = OrderedDict()

    def decrypt(self, message: bytes) -> DecryptedMessage | None:
        """Decrypt a complete message, reassembled from its fragments; `verified` of the result is always False.

        Messages must come in the order of the capture. None if the key is wrong or the message is not encrypted. Never
        raises.
        """
        try:
            header = parse_header(message)
        except WireError:
            return None
        ciphertext = message[HEADER.size : header.length]
        if (
            header.major_version != _IKEV1
            or not header.encrypted
            or header.length > len(message)
            or not ciphertext
            or len(ciphertext) % self._block
        ):
            return None
        phase1 = header.message_id == 0 and header.exchange_type in _PHASE_1
        blocks, ivs = self._phase1, reversed(self._phase1)
        candidates: Iterable[bytes] = ivs
        if not phase1:
            blocks = self._get_exchange_blocks(header.message_id)
            suffix = header.message_id.to_bytes(4, "big")
            candidates = chain(reversed(blocks), (self._derive_iv(block + suffix) for block in ivs))
        decrypted = self._try_ivs(ciphertext, list(candidates), header.exchange_type, header.next_payload)
        last = ciphertext[-self._block :]
        if last not in blocks:
            blocks.append(last)
            # Keep the first block: in phase 1 it is the initial IV.
            del blocks[1 : len(blocks) - _MAX_BLOCKS + 1]
        return decrypted

    def _get_exchange_blocks(self, message_id: int) -> list[bytes]:
        blocks = self._exchanges.setdefault(message_id, [])
        self._exchanges.move_to_end(message_id)
        if len(self._exchanges) > _MAX_EXCHANGES:
            self._exchanges.popitem(last=False)
        return blocks

    def _derive_iv(self, data: bytes) -> bytes:
        digest = hashes.Hash(self._hash)
        digest.update(data)
        return digest.finalize()[: self._block]

    def _try_ivs(
        self, ciphertext: bytes, ivs: Iterable[bytes], exchange_type: int, first: int
    ) -> DecryptedMessage | None:
        # The IV affects only the first block, so one decryption serves all IVs.
        block = self._block
        raw = self._cipher.decrypt(bytes(block), ciphertext)
        for iv in ivs:
            head = bytes(a ^ b for a, b in zip(raw[:block], iv, strict=True))
            plaintext = head + raw[block:]
            end = self._find_chain_end(plaintext, exchange_type, first)
            if end is not None:
                return DecryptedMessage(plaintext[:end], first, False)
        return None

    def _find_chain_end(self, plaintext: bytes, exchange_type: int, first: int) -> int | None:
        """Length of the chain of payloads before the padding; None if it is invalid.

        Main mode begins with the identification (RFC 2409, section 5), exchanges after phase 1 with a hash.
        """
        if exchange_type not in _PHASE_1 and first != Ikev1PayloadType.HASH:
            return None
        if exchange_type == Ikev1ExchangeType.MAIN_MODE and first != Ikev1PayloadType.ID:
            return None
        cursor, payload_type = Cursor(plaintext), first
        try:
            while payload_type != Ikev1PayloadType.NONE:
                if payload_type not in _PAYLOAD_TYPES:
                    return None
                following, reserved, size = cursor.unpack(PAYLOAD_HEADER)
                if reserved or (
                    payload_type == Ikev1PayloadType.HASH and size != PAYLOAD_HEADER.size + self._hash_size
                ):
                    return None
                cursor.skip(size - PAYLOAD_HEADER.size)
                payload_type = following
        except WireError:
            return None
        is_padded = self._is_padding(plaintext[cursor.position :])
        return cursor.position if cursor.position > 0 and is_padded else None

    def _is_padding(self, padding: bytes) -> bool:
        """Whether these bytes can be padding.

        RFC 2409, appendix B, fills the last block with zeros. racoon, and with it iOS, macOS and old Android, can add
        blocks of random bytes; the last byte is the length of the padding, with or without that byte itself.
        """
        return len(padding) <= self._block or (len(padding) - padding[-1]) % 256 in (0, 1)
