"""Encrypted messages and their key files, made with the library `cryptography` and none of the tested code.

RFC 7296, 3.14 (SK), RFC 7383, 2.5 (SKF), RFC 5282 (AES-GCM, AES-CCM), RFC 5930 (AES-CTR), RFC 7634 (ChaCha20-Poly1305).
"""

import hmac
import json
import struct
from dataclasses import dataclass, field
from random import Random

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from tests.craft import Handshake, ike


def _gcm(icv):
    def encrypt(key, iv, plaintext, associated):
        ciphertext = AESGCM(key[:-4]).encrypt(key[-4:] + iv, plaintext, associated)
        return ciphertext[: len(plaintext) + icv]  # a shorter tag is the beginning of the longer one

    return encrypt


def _ccm(icv):
    return lambda key, iv, plaintext, associated: AESCCM(key[:-3], tag_length=icv).encrypt(
        key[-3:] + iv, plaintext, associated
    )


def _chacha(key, iv, plaintext, associated):
    return ChaCha20Poly1305(key[:-4]).encrypt(key[-4:] + iv, plaintext, associated)


def _cbc(key, iv, plaintext, associated):
    encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return encryptor.update(plaintext) + encryptor.finalize()


def _ctr(key, iv, plaintext, associated):
    encryptor = Cipher(algorithms.AES(key[:-4]), modes.CTR(key[-4:] + iv + bytes([0, 0, 0, 1]))).encryptor()
    return encryptor.update(plaintext) + encryptor.finalize()


#: By name in key files: transform ID, bytes of SK_e, bytes of the IV, block size, function, whether it is AEAD.
CIPHERS = {
    "AES-GCM-8": (18, 20, 8, 1, _gcm(8), True),
    "AES-GCM-12": (19, 28, 8, 1, _gcm(12), True),
    "AES-GCM-16": (20, 36, 8, 1, _gcm(16), True),
    "AES-CCM-8": (14, 19, 8, 1, _ccm(8), True),
    "AES-CCM-12": (15, 27, 8, 1, _ccm(12), True),
    "AES-CCM-16": (16, 35, 8, 1, _ccm(16), True),
    "CHACHA20-POLY1305": (28, 36, 8, 1, _chacha, True),
    "AES-CBC": (12, 32, 16, 16, _cbc, False),
    "AES-CTR": (13, 20, 8, 1, _ctr, False),
}


@dataclass
class EncryptedSa:
    """An IKE SA with encrypted messages, and the key sets of its epochs."""

    rng: Random
    cipher: str = "AES-GCM-16"
    handshake: Handshake | None = None
    sets: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self):
        if self.handshake is None:
            self.handshake = Handshake(self.rng, switch=False)
        self.number, self.key_size, self.iv, self.block, self._encrypt, self.aead = CIPHERS[self.cipher]

    def proposal(self, *more):
        """The proposal that IKE_SA_INIT negotiates."""
        transforms = [ike.Transform(ike.ENCR, self.number, 8 * (self.key_size & ~7) if self.number != 28 else None)]
        if not self.aead:
            transforms.append(ike.Transform(ike.INTEG, ike.AUTH_HMAC_SHA2_256_128))
        return ike.Proposal([*transforms, ike.Transform(ike.PRF, 5), ike.Transform(ike.DH, ike.CURVE25519), *more])

    def next_epoch(self):
        """Choose new keys."""
        names = ["sk_ei", "sk_er"] if self.aead else ["sk_ei", "sk_er", "sk_ai", "sk_ar"]
        keys = {name: self.rng.randbytes(self.key_size if name < "sk_e" or "e" in name[3] else 32) for name in names}
        self.keys = keys
        self.sets.append(
            {
                "spi_i": self.handshake.spi_i.hex(),
                "spi_r": self.handshake.spi_r.hex(),
                "encryption": self.cipher,
                "integrity": "NONE" if self.aead else "HMAC-SHA2-256-128",
                "sk_ai": "",
                "sk_ar": "",
                **{name: key.hex() for name, key in keys.items()},
            }
        )

    def key_file(self, *others):
        """A key file of ikeanalyze, also with the key sets of other IKE SAs."""
        return json.dumps(
            {"schema": "ikeanalyze.keys/1", "key_sets": [*self.sets, *(k for o in others for k in o.sets)]}
        )

    def _protect(self, head, plaintext, from_initiator):
        """Encrypt a message; `head`: the message up to the IV, with the final lengths."""
        side = "i" if from_initiator else "r"
        iv = self.rng.randbytes(self.iv)
        body = iv + self._encrypt(self.keys[f"sk_e{side}"], iv, plaintext, head)
        if not self.aead:
            body += hmac.digest(self.keys[f"sk_a{side}"], head + body, "sha256")[:16]
        return head + body

    def _message(self, kind, flags, ident, first, chain, fragment=None):
        padding = -(len(chain) + 1) % self.block
        plaintext = chain + bytes(padding) + bytes([padding])
        icv = {"8": 8, "12": 12}.get(self.cipher.rpartition("-")[2], 16)
        numbers = b"" if fragment is None else struct.pack(">HH", *fragment)
        size = 4 + len(numbers) + self.iv + len(plaintext) + icv
        outer = ike.SK if fragment is None else ike.SKF
        head = ike.ike_header(self.handshake.spi_i, self.handshake.spi_r, outer, kind, flags, ident, 28 + size)
        head += struct.pack(">BBH", first, 0, size) + numbers
        return self._protect(head, plaintext, bool(flags & ike.INITIATOR))

    def message(self, kind, payloads, ident, *, response=False, from_initiator=None):
        """One message with SK."""
        return self.fragments(kind, payloads, ident, response=response, from_initiator=from_initiator, count=None)[0]

    def fragments(self, kind, payloads, ident, *, count, response=False, from_initiator=None):
        """A message in `count` fragments; None: with SK."""
        sender = not response if from_initiator is None else from_initiator
        flags = ike.INITIATOR * sender | ike.RESPONSE * response
        first, chain = ike.chain(payloads)
        if count is None:
            return [self._message(kind, flags, ident, first, chain)]
        step = -(-len(chain) // count)
        parts = [chain[at * step : (at + 1) * step] for at in range(count)]
        return [
            self._message(kind, flags, ident, first if number == 1 else 0, part, (number, count))
            for number, part in enumerate(parts, 1)
        ]
