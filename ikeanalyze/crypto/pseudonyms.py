"""Pseudonyms under a secret key: addresses that keep their common prefixes, and bytes that keep their length.

Addresses: Crypto-PAn (J. Xu, J. Fan, M. Ammar, S. Moon: Prefix-preserving IP address anonymization, ICNP 2002), for
IPv6 with 128 bits in place of 32. Two addresses with the same first n bits get pseudonyms with the same first n bits,
and only those. Other bytes: the counter mode KDF of NIST SP 800-108 with HMAC-SHA-256.
"""

from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.kbkdf import KBKDFHMAC, CounterLocation, Mode
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

_CURVES: Final = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
_BLOCK: Final = 16
_BITS: Final = 8 * _BLOCK
#: Bytes of the key of `PrefixPreservingMap`: an AES key, and the secret from which the padding is made.
PREFIX_KEY_BYTES: Final = 32


class PrefixPreservingMap:
    """Crypto-PAn: maps addresses one to one, and keeps common prefixes."""

    def __init__(self, key: bytes) -> None:
        """`key` has 32 bytes; `ValueError` if it has not."""
        if len(key) != PREFIX_KEY_BYTES:
            raise ValueError(f"the key has {len(key)} bytes, not {PREFIX_KEY_BYTES}")
        # ECB: each block is the input of a pseudorandom function on its own, as the paper defines it
        self._cipher = Cipher(algorithms.AES(key[:_BLOCK]), modes.ECB())
        self._pad = int.from_bytes(self._encrypt(key[_BLOCK:]), "big")
        self._known: dict[bytes, bytes] = {}

    def map_address(self, address: bytes) -> bytes:
        """The pseudonym of an address of 4 or 16 bytes, or of up to 16 other bytes."""
        known = self._known.get(address)
        if known is None:
            known = self._known[address] = self._map(address)
        return known

    def _map(self, address: bytes) -> bytes:
        bits = 8 * len(address)
        number = int.from_bytes(address, "big") << _BITS - bits
        blocks = bytearray()
        for length in range(bits):
            mask = ((1 << length) - 1) << _BITS - length
            blocks += ((number & mask) | (self._pad & ~mask & ((1 << _BITS) - 1))).to_bytes(_BLOCK, "big")
        encrypted = self._encrypt(bytes(blocks))
        flips = 0
        for at in range(0, len(encrypted), _BLOCK):
            flips = flips << 1 | encrypted[at] >> 7
        return (int.from_bytes(address, "big") ^ flips).to_bytes(len(address), "big")

    def _encrypt(self, blocks: bytes) -> bytes:
        encryptor = self._cipher.encryptor()
        return encryptor.update(blocks) + encryptor.finalize()


def derive_pseudorandom_bytes(key: bytes, label: bytes, content: bytes, size: int) -> bytes:
    """`size` bytes that depend on the key, the label and the content, and show nothing of them."""
    if not size:
        return b""
    return KBKDFHMAC(
        algorithm=SHA256(),
        mode=Mode.CounterMode,
        length=size,
        rlen=4,
        llen=4,
        location=CounterLocation.BeforeFixed,
        label=label,
        context=content,
        fixed=None,
    ).derive(key)


def derive_curve_point(curve: str, seed: bytes) -> bytes | None:
    """An uncompressed point (SEC 1, 2.3.3) on P-256, P-384 or P-521 that depends on the seed; None: another curve."""
    if curve not in _CURVES:
        return None
    # 31 bytes are below the order of all three; any private key does, because nothing is signed with it
    scalar = int.from_bytes(derive_pseudorandom_bytes(seed, b"curve point", b"", 31), "big") + 1
    private = ec.derive_private_key(scalar, _CURVES[curve])
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
