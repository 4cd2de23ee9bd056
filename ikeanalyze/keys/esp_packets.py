"""Opening ESP packets with the keys of Wireshark's esp_sa table (RFC 4303, sections 2 and 3.4.4).

Extended sequence numbers are tried with an upper half of 0, which is right for the first four billion packets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ikeanalyze.keys.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.keys.ciphers import aead_cipher, plain_cipher
from ikeanalyze.keys.integrity import keyed_icv
from ikeanalyze.keys.keyset import EspKey
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

_HEADER: Final = 8  # SPI and sequence number
_UPPER: Final = bytes(4)  # of an extended sequence number
_IMPLICIT: Final = "IIV"  # RFC 8750: the sequence number is the IV

_GCM: Final = {8: Encryption.AES_GCM_8, 12: Encryption.AES_GCM_12, 16: Encryption.AES_GCM_16}
_ENCRYPTION: Final[Mapping[str, int]] = MappingProxyType(
    {
        "NULL": Encryption.NULL,
        "TripleDES-CBC [RFC2451]": Encryption.TRIPLE_DES,
        "TripleDes-CBC [RFC2451]": Encryption.TRIPLE_DES,
        "AES-CBC [RFC3602]": Encryption.AES_CBC,
        "AES-CTR [RFC3686]": Encryption.AES_CTR,
        "AES-GCM [RFC4106]": Encryption.AES_GCM_16,
        **{f"AES-GCM with {icv} octet ICV [RFC4106]": kind for icv, kind in _GCM.items()},
        "AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]": Encryption.AES_GCM_16,
        "ChaCha20 with Poly1305 [RFC7634]": Encryption.CHACHA20_POLY1305,
        "ChaCha20 with Poly1305 and IIV [RFC7634 & RFC8750]": Encryption.CHACHA20_POLY1305,
    }
)
_INTEGRITY: Final[Mapping[str, int]] = MappingProxyType(
    {
        "HMAC-SHA-1-96 [RFC2404]": Integrity.HMAC_SHA1_96,
        "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]": HMAC_SHA2_256_96,
        "HMAC-SHA-256-128 [RFC4868]": Integrity.HMAC_SHA2_256_128,
        "HMAC-SHA-384-192 [RFC4868]": Integrity.HMAC_SHA2_384_192,
        "HMAC-SHA-512-256 [RFC4868]": Integrity.HMAC_SHA2_512_256,
        "HMAC-MD5-96 [RFC2403]": Integrity.HMAC_MD5_96,
    }
)


class EspKeyError(ValueError):
    """Packets cannot be opened with such a key; the text names the algorithm and no key."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What was in an ESP packet."""

    payload: bytes  # without padding and what stands behind it; with the padding of RFC 4303, section 2.7
    padding: int  # bytes
    next_header: int  # protocol of the payload: 4 and 41 in tunnel mode


class EspOpener:
    """Opens the packets of one SA.

    Raises:
        EspKeyError: the algorithm is not supported, or nothing would tell whether the key is right.
    """

    def __init__(self, key: EspKey) -> None:
        encryption = ENCRYPTION.get(_ENCRYPTION.get(key.encryption, -1))
        if encryption is None:
            raise EspKeyError(f"{key.encryption} is not supported")
        self._implicit = _IMPLICIT in key.encryption
        self._iv = 0 if self._implicit else encryption.iv
        try:
            if encryption.aead:
                self._aead = aead_cipher(encryption, key.encryption_key)
                self._icv_bytes = encryption.icv
                self._icv = None
                return
            integrity = INTEGRITY.get(_INTEGRITY.get(key.integrity, -1))
            if integrity is None:
                raise EspKeyError(f"{key.integrity} cannot be checked, so nothing tells if the key is right")
            self._icv_bytes = integrity.icv
            self._icv = keyed_icv(integrity, key.integrity_key)
            self._plain = plain_cipher(encryption, key.encryption_key)
        except EspKeyError:
            raise
        except ValueError:
            raise EspKeyError(
                f"a key of {len(key.encryption_key)} bytes is none of {key.encryption}"
            ) from None

    def open(self, packet: bytes) -> Inside | None:
        """What is in a packet, from its SPI to its ICV; None: the key does not fit. Never raises."""
        if len(packet) < _HEADER + self._iv + self._icv_bytes + 2:
            return None
        try:
            plaintext = self._decrypted(packet)
        except ValueError:  # no whole blocks
            return None
        if plaintext is None or len(plaintext) < 2 or plaintext[-2] > len(plaintext) - 2:
            return None
        padding = plaintext[-2]
        return Inside(plaintext[: len(plaintext) - 2 - padding], padding, plaintext[-1])

    def _decrypted(self, packet: bytes) -> bytes | None:
        behind_iv = _HEADER + self._iv
        if self._icv is not None:
            end = len(packet) - self._icv_bytes
            if packet[end:] not in (self._icv(packet[:end]), self._icv(packet[:end] + _UPPER)):
                return None
            return self._plain.decrypt(packet[_HEADER:behind_iv], packet[behind_iv:end])
        sequence = packet[4:_HEADER]
        iv = _UPPER + sequence if self._implicit else packet[_HEADER:behind_iv]
        for associated in (packet[:_HEADER], packet[:4] + _UPPER + sequence):
            plaintext = self._aead.open(iv, packet[behind_iv:], associated)
            if plaintext is not None:
                return plaintext
        return None
