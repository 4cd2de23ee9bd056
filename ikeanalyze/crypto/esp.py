"""Decrypt ESP packets with the keys of Wireshark's esp_sa table (RFC 4303, sections 2 and 3.4.4).

A packet carries only the lower half of an extended sequence number (section 2.2.1), but its ICV covers both halves. So
several upper halves are tried: that of the last packet of the SA, the next one, for packets after 2^32 - 1, and the one
before, for packets that were overtaken there.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ikeanalyze.crypto.algorithms import ENCRYPTION, HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity

_HEADER: Final = 8  # SPI and sequence number
_UPPER_BYTES: Final = 4  # of an extended sequence number
_UPPERS: Final = 1 << 32
_FIRST_UPPERS: Final = 4  # tried on the first packet, which may be number 17 billion of its SA
_IMPLICIT_IV: Final = "IIV"  # RFC 8750: the sequence number is the IV

#: Supported encryption algorithms of esp_sa.
ESP_ENCRYPTION: Final[Mapping[str, int]] = {
    "NULL": Encryption.NULL,
    "TripleDES-CBC [RFC2451]": Encryption.TRIPLE_DES,
    "TripleDes-CBC [RFC2451]": Encryption.TRIPLE_DES,  # in older versions
    "AES-CBC [RFC3602]": Encryption.AES_CBC,
    "AES-CTR [RFC3686]": Encryption.AES_CTR,
    "AES-GCM [RFC4106]": Encryption.AES_GCM_16,  # since 3.0 for old files only: the length of the ICV is missing
    **{f"AES-GCM with {icv} octet ICV [RFC4106]": Encryption[f"AES_GCM_{icv}"] for icv in (8, 12, 16)},
    "AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]": Encryption.AES_GCM_16,
    "ChaCha20 with Poly1305 [RFC7634]": Encryption.CHACHA20_POLY1305,
    "ChaCha20 with Poly1305 and IIV [RFC7634 & RFC8750]": Encryption.CHACHA20_POLY1305,
}
#: Supported integrity algorithms of esp_sa.
ESP_INTEGRITY: Final[Mapping[str, int]] = {
    "HMAC-SHA-1-96 [RFC2404]": Integrity.HMAC_SHA1_96,
    "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]": HMAC_SHA2_256_96,
    "HMAC-SHA-256-128 [RFC4868]": Integrity.HMAC_SHA2_256_128,
    "HMAC-SHA-384-192 [RFC4868]": Integrity.HMAC_SHA2_384_192,
    "HMAC-SHA-512-256 [RFC4868]": Integrity.HMAC_SHA2_512_256,
    "HMAC-MD5-96 [RFC2403]": Integrity.HMAC_MD5_96,
}


class EspKeyError(ValueError):
    """The key cannot decrypt packets; the message names the algorithm, not the key."""


@dataclass(frozen=True, slots=True)
class EspPayload:
    """The content of an ESP packet."""

    payload: bytes  # without padding and the bytes after it, but with the TFC padding of RFC 4303, section 2.7
    padding: int  # bytes
    next_header: int  # protocol of the payload: 4 and 41 in tunnel mode
    upper: int | None = None  # upper half of the extended sequence number; None: sequence numbers have 32 bits


class EspDecryptor:
    """Decrypts the packets of one SA.

    Raises:
        EspKeyError: the algorithm is not supported, or a wrong key could not be detected.
    """

    def __init__(self, encryption: str, encryption_key: bytes, integrity: str, integrity_key: bytes) -> None:
        """The algorithms have the names of Wireshark's esp_sa table."""
        # loads cryptography, which the readers of key files do not need
        from ikeanalyze.crypto.ciphers import make_aead_cipher, make_cipher
        from ikeanalyze.crypto.macs import make_icv

        cipher = ENCRYPTION.get(ESP_ENCRYPTION.get(encryption, -1))
        if cipher is None:
            raise EspKeyError(f"{encryption} is not supported")
        self._implicit = _IMPLICIT_IV in encryption
        self._iv = 0 if self._implicit else cipher.iv
        try:
            if cipher.aead:
                self._aead = make_aead_cipher(cipher, encryption_key)
                self._icv_bytes = cipher.icv
                self._icv = None
                return
            mac = INTEGRITY.get(ESP_INTEGRITY.get(integrity, -1))
            if mac is None:
                raise EspKeyError(f"{integrity} cannot be checked, so a wrong key would not be detected")
            self._icv_bytes = mac.icv
            self._icv = make_icv(mac, integrity_key)
            self._plain = make_cipher(cipher, encryption_key)
        except EspKeyError:
            raise
        except ValueError:
            raise EspKeyError(f"{encryption} does not take a key of {len(encryption_key)} bytes") from None

    def decrypt(self, packet: bytes, near: int | None = None) -> EspPayload | None:
        """Decrypt a packet, from its SPI to its ICV; None if the key is wrong. Never raises.

        `near`: `EspPayload.upper` of the last packet of the SA, None for the first.
        """
        if len(packet) < _HEADER + self._iv + self._icv_bytes + 2:
            return None
        for upper in _upper_halves(near):
            try:
                plaintext = self._decrypt(packet, upper)
            except ValueError:  # not whole blocks
                return None
            if plaintext is not None:
                break
        else:
            return None
        if len(plaintext) < 2 or plaintext[-2] > len(plaintext) - 2:
            return None
        padding = plaintext[-2]
        return EspPayload(plaintext[: len(plaintext) - 2 - padding], padding, plaintext[-1], upper)

    def _decrypt(self, packet: bytes, upper: int | None) -> bytes | None:
        """Plaintext including padding and next header; None if the ICV is invalid."""
        high = b"" if upper is None else upper.to_bytes(_UPPER_BYTES)
        iv_end = _HEADER + self._iv
        if self._icv is not None:
            end = len(packet) - self._icv_bytes
            if packet[end:] != self._icv(packet[:end] + high):
                return None
            return self._plain.decrypt(packet[_HEADER:iv_end], packet[iv_end:end])
        sequence = packet[4:_HEADER]
        # RFC 8750, section 4: 64 bits, whatever sequence numbers are in use
        iv = (high or bytes(_UPPER_BYTES)) + sequence if self._implicit else packet[_HEADER:iv_end]
        return self._aead.decrypt(iv, packet[iv_end:], packet[:4] + high + sequence)


def _upper_halves(near: int | None) -> Iterator[int | None]:
    """Upper halves to try, likeliest first; None stands for sequence numbers of 32 bits, which hold for a whole SA."""
    if near is None:
        yield from (None, *range(_FIRST_UPPERS))
        return
    yield near
    if near + 1 < _UPPERS:
        yield near + 1
    if near:
        yield near - 1
