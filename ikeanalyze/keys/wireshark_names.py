"""Names of algorithms in Wireshark's key tables, and how many bytes a key of each has.

The same in all versions from 3.2 to 4.6. ESP's newer names are those of 4.6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ikeanalyze.keys.algorithms import HMAC_SHA2_256_96
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity


@dataclass(frozen=True, slots=True)
class EncryptionName:
    """A value of the column "Encryption algorithm"."""

    transform: int  # transform ID (type 1)
    key: int  # bytes of SK_ei and SK_er, with the salt
    aead: bool  # the table then wants no integrity algorithm


@dataclass(frozen=True, slots=True)
class IntegrityName:
    """A value of the column "Integrity algorithm"."""

    transform: int | None  # transform ID (type 3); None: there is an ICV that is not checked
    key: int  # bytes of SK_ai and SK_ar
    unchecked_icv: int | None = None  # bytes of the ICV that is not checked


def _encryption() -> dict[str, EncryptionName]:
    names = {
        "NULL [RFC2410]": EncryptionName(Encryption.NULL, 0, False),
        "3DES [RFC2451]": EncryptionName(Encryption.TRIPLE_DES, 24, False),
    }
    gcm = {8: Encryption.AES_GCM_8, 12: Encryption.AES_GCM_12, 16: Encryption.AES_GCM_16}
    ccm = {8: Encryption.AES_CCM_8, 12: Encryption.AES_CCM_12, 16: Encryption.AES_CCM_16}
    for bits in (128, 192, 256):
        size = bits // 8
        names[f"AES-CBC-{bits} [RFC3602]"] = EncryptionName(Encryption.AES_CBC, size, False)
        names[f"AES-CTR-{bits} [RFC5930]"] = EncryptionName(Encryption.AES_CTR, size + 4, False)
        for icv in (8, 12, 16):
            suffix = f"{bits} with {icv} octet ICV [RFC5282]"
            names[f"AES-GCM-{suffix}"] = EncryptionName(gcm[icv], size + 4, True)
            names[f"AES-CCM-{suffix}"] = EncryptionName(ccm[icv], size + 3, True)
    return names


def _integrity() -> dict[str, IntegrityName]:
    names = {
        "NONE [RFC4306]": IntegrityName(Integrity.NONE, 0),
        "HMAC_MD5_96 [RFC2403]": IntegrityName(Integrity.HMAC_MD5_96, 16),
        "HMAC_MD5_128 [RFC4595]": IntegrityName(Integrity.HMAC_MD5_128, 16),
        "HMAC_SHA1_96 [RFC2404]": IntegrityName(Integrity.HMAC_SHA1_96, 20),
        "HMAC_SHA1_160 [RFC4595]": IntegrityName(Integrity.HMAC_SHA1_160, 20),
        "HMAC_SHA2_256_96 [draft-ietf-ipsec-ciph-sha-256-00]": IntegrityName(HMAC_SHA2_256_96, 32),
        "HMAC_SHA2_256_128 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_256_128, 32),
        "HMAC_SHA2_384_192 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_384_192, 48),
        "HMAC_SHA2_512_256 [RFC4868]": IntegrityName(Integrity.HMAC_SHA2_512_256, 64),
    }
    for bits in (64, 96, 128, 160, 192, 256):
        names[f"ANY {bits}-bits of Authentication [No Checking]"] = IntegrityName(None, 0, bits // 8)
    return names


#: Encryption algorithms of ikev2_decryption_table.
IKE_ENCRYPTION: Final[Mapping[str, EncryptionName]] = MappingProxyType(_encryption())

#: Integrity algorithms of ikev2_decryption_table.
IKE_INTEGRITY: Final[Mapping[str, IntegrityName]] = MappingProxyType(_integrity())

#: What strongSwan 5.9.8 writes though Wireshark does not take it.
IKE_ENCRYPTION_MISNAMED: Final[Mapping[str, str]] = MappingProxyType({"TripleDes-CBC": "3DES [RFC2451]"})

#: Encryption algorithms of esp_sa, and the bytes that a key may have, a salt with them; none: any.
ESP_ENCRYPTION: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "NULL": (),
        "TripleDES-CBC [RFC2451]": (24,),
        "TripleDes-CBC [RFC2451]": (24,),  # so in older versions
        "AES-CBC [RFC3602]": (16, 24, 32),
        "AES-CTR [RFC3686]": (20, 28, 36),
        "DES-CBC [RFC2405]": (8,),
        "CAST5-CBC [RFC2144]": (),
        "BLOWFISH-CBC [RFC2451]": (),
        "TWOFISH-CBC": (16, 24, 32),
        "AES-GCM [RFC4106]": (
            20,
            28,
            36,
        ),  # since 3.0 for old files only: it does not say how long the ICV is
        "AES-GCM with 8 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with 12 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with 16 octet ICV [RFC4106]": (20, 28, 36),
        "AES-GCM with IIV and 16 octet ICV [RFC4106 & RFC8750]": (20, 28, 36),
        "ChaCha20 with Poly1305 [RFC7634]": (36,),
        "ChaCha20 with Poly1305 and IIV [RFC7634 & RFC8750]": (36,),
    }
)

#: Integrity algorithms of esp_sa, and the bytes of a key; none: any.
ESP_INTEGRITY: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType(
    {
        "NULL": (),
        "HMAC-SHA-1-96 [RFC2404]": (20,),
        "HMAC-SHA-256-96 [draft-ietf-ipsec-ciph-sha-256-00]": (32,),
        "HMAC-SHA-256-128 [RFC4868]": (32,),
        "HMAC-SHA-384-192 [RFC4868]": (48,),
        "HMAC-SHA-512-256 [RFC4868]": (64,),
        "HMAC-MD5-96 [RFC2403]": (16,),
        "MAC-RIPEMD-160-96 [RFC2857]": (20,),
        **{f"ANY {bits} bit authentication [no checking]": () for bits in (64, 96, 128, 192, 256)},
    }
)


def get_wireshark_encryption_name(transform: int, key: int) -> str | None:
    """Wireshark's name of an encryption algorithm with keys of so many bytes; None: it knows no such."""
    for name, known in IKE_ENCRYPTION.items():
        if (known.transform, known.key) == (transform, key):
            return name
    return None


def get_wireshark_integrity_name(transform: int | None, unchecked_icv: int | None) -> str | None:
    """Wireshark's name of an integrity algorithm; None: it knows no such."""
    for name, known in IKE_INTEGRITY.items():
        if unchecked_icv is not None:
            if known.unchecked_icv == unchecked_icv:
                return name
        elif known.transform is not None and known.transform == transform:
            return name
    return None
