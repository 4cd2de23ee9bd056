"""Algorithms that protect IKE messages, their sizes of keys, salts, IVs, blocks and ICVs, and those of a proposal.

An algorithm that is missing from these tables is not an error, but its messages cannot be decrypted or checked.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec import Struct

from ikeanalyze.wire.ikev2.proposals import Proposal
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity, Prf, TransformType

#: Truncated to 96 bits as in a draft before RFC 4868. IANA never assigned it, but Wireshark's key table supports it,
#: and strongSwan under this private-use number.
HMAC_SHA2_256_96: Final = 1027


#: Allowed bytes of keys of ciphers with a variable key length (RFC 2451, section 2.1).
CAST_KEY_SIZES: Final = tuple(range(5, 17))
BLOWFISH_KEY_SIZES: Final = tuple(range(5, 57))


class CipherPrimitive(Enum):
    """Block or stream cipher."""

    AES = "AES"
    CAMELLIA = "Camellia"
    TRIPLE_DES = "3DES"
    DES = "DES"
    CAST = "CAST"
    BLOWFISH = "Blowfish"
    CHACHA20 = "ChaCha20"
    NULL = "NULL"


class CipherMode(Enum):
    """Mode of operation of a cipher."""

    CBC = "CBC"
    CTR = "CTR"
    GCM = "GCM"
    CCM = "CCM"
    POLY1305 = "Poly1305"
    NULL = "NULL"


class MacAlgorithm(Enum):
    """MAC of an integrity algorithm or PRF."""

    MD5 = "HMAC-MD5"
    SHA1 = "HMAC-SHA1"
    SHA2_256 = "HMAC-SHA2-256"
    SHA2_384 = "HMAC-SHA2-384"
    SHA2_512 = "HMAC-SHA2-512"
    AES_XCBC = "AES-XCBC"
    AES_CMAC = "AES-CMAC"


def format_key_sizes(sizes: Sequence[int]) -> str:
    """Format the allowed bytes of a key: "16 or 24 or 32"; "5 to 16" if all sizes between two are allowed."""
    if len(sizes) > 1 and len(sizes) == sizes[-1] - sizes[0] + 1:
        return f"{sizes[0]} to {sizes[-1]}"
    return " or ".join(map(str, sizes))


class EncryptionAlgorithm(Struct, frozen=True):
    """A transform of type 1."""

    transform: int  # transform ID
    primitive: CipherPrimitive
    mode: CipherMode
    key_sizes: tuple[int, ...]  # allowed bytes of a key, without the salt
    salt: int  # bytes of salt (or of RFC 5930's nonce) at the end of SK_e
    iv: int  # bytes of the IV before the ciphertext
    block: int  # bytes; plaintext, padding and pad length together are a multiple of it
    icv: int  # bytes of the ICV of an AEAD cipher; 0: a transform of type 3 authenticates the message

    @property
    def aead(self) -> bool:
        """Whether it encrypts and authenticates (RFC 5282)."""
        return self.icv > 0

    @property
    def encrypts(self) -> bool:
        """Whether it has keys: not NULL."""
        return 0 not in self.key_sizes

    @property
    def name(self) -> str:
        """Name for messages: AES-GCM-16."""
        return Encryption(self.transform).label

    def get_key_bytes(self, key_bits: int | None) -> int | None:
        """Return the bytes of SK_ei and SK_er, including the salt; `key_bits`: the attribute Key Length.

        None if the cipher does not allow this length, or if the length is missing and the cipher has several.
        """
        if key_bits is None:
            size = self.key_sizes[0] if len(self.key_sizes) == 1 else None
        else:
            size = key_bits // 8 if key_bits % 8 == 0 else None
        return size + self.salt if size is not None and size in self.key_sizes else None


class IntegrityAlgorithm(Struct, frozen=True):
    """A transform of type 3."""

    transform: int  # transform ID; `HMAC_SHA2_256_96` is not assigned by IANA
    mac: MacAlgorithm
    key: int  # bytes of SK_ai and of SK_ar
    icv: int  # bytes of the truncated MAC

    @property
    def name(self) -> str:
        """Name for messages: HMAC-SHA2-256-128."""
        return get_integrity_name(self.transform) or ""


class PrfAlgorithm(Struct, frozen=True):
    """A transform of type 2."""

    transform: int  # transform ID
    mac: MacAlgorithm
    size: int  # bytes of output and of the keys derived for it
    half_nonces: bool  # the key of SKEYSEED is only the first 8 bytes of each nonce (RFC 7296, section 2.14)

    @property
    def name(self) -> str:
        """Name for messages: HMAC-SHA2-256."""
        return Prf(self.transform).label


class IkeSuite(Struct, frozen=True):
    """The negotiated algorithms that protect the messages of an IKE SA."""

    encryption: int  # transform ID (type 1)
    key_bits: int | None  # attribute Key Length; None: missing in the proposal
    integrity: int  # transform ID (type 3); 0 with an AEAD cipher


def _index_encryption() -> dict[int, EncryptionAlgorithm]:
    aes, camellia = CipherPrimitive.AES, CipherPrimitive.CAMELLIA
    sizes = (16, 24, 32)
    rows = [
        EncryptionAlgorithm(Encryption.DES, CipherPrimitive.DES, CipherMode.CBC, (8,), 0, 8, 8, 0),  # RFC 2405
        EncryptionAlgorithm(Encryption.CAST, CipherPrimitive.CAST, CipherMode.CBC, CAST_KEY_SIZES, 0, 8, 8, 0),
        EncryptionAlgorithm(
            Encryption.BLOWFISH, CipherPrimitive.BLOWFISH, CipherMode.CBC, BLOWFISH_KEY_SIZES, 0, 8, 8, 0
        ),
        EncryptionAlgorithm(Encryption.TRIPLE_DES, CipherPrimitive.TRIPLE_DES, CipherMode.CBC, (24,), 0, 8, 8, 0),
        EncryptionAlgorithm(Encryption.NULL, CipherPrimitive.NULL, CipherMode.NULL, (0,), 0, 0, 1, 0),
        EncryptionAlgorithm(Encryption.AES_CBC, aes, CipherMode.CBC, sizes, 0, 16, 16, 0),  # RFC 3602
        EncryptionAlgorithm(Encryption.AES_CTR, aes, CipherMode.CTR, sizes, 4, 8, 1, 0),  # RFC 5930
        EncryptionAlgorithm(Encryption.AES_CCM_8, aes, CipherMode.CCM, sizes, 3, 8, 1, 8),  # RFC 5282
        EncryptionAlgorithm(Encryption.AES_CCM_12, aes, CipherMode.CCM, sizes, 3, 8, 1, 12),
        EncryptionAlgorithm(Encryption.AES_CCM_16, aes, CipherMode.CCM, sizes, 3, 8, 1, 16),
        EncryptionAlgorithm(Encryption.AES_GCM_8, aes, CipherMode.GCM, sizes, 4, 8, 1, 8),  # RFC 5282
        EncryptionAlgorithm(Encryption.AES_GCM_12, aes, CipherMode.GCM, sizes, 4, 8, 1, 12),
        EncryptionAlgorithm(Encryption.AES_GCM_16, aes, CipherMode.GCM, sizes, 4, 8, 1, 16),
        EncryptionAlgorithm(Encryption.CAMELLIA_CBC, camellia, CipherMode.CBC, sizes, 0, 16, 16, 0),  # RFC 5529
        EncryptionAlgorithm(Encryption.CAMELLIA_CTR, camellia, CipherMode.CTR, sizes, 4, 8, 1, 0),
        EncryptionAlgorithm(Encryption.CAMELLIA_CCM_8, camellia, CipherMode.CCM, sizes, 3, 8, 1, 8),
        EncryptionAlgorithm(Encryption.CAMELLIA_CCM_12, camellia, CipherMode.CCM, sizes, 3, 8, 1, 12),
        EncryptionAlgorithm(Encryption.CAMELLIA_CCM_16, camellia, CipherMode.CCM, sizes, 3, 8, 1, 16),
        EncryptionAlgorithm(  # RFC 7634
            Encryption.CHACHA20_POLY1305, CipherPrimitive.CHACHA20, CipherMode.POLY1305, (32,), 4, 8, 1, 16
        ),
    ]
    return {row.transform: row for row in rows}


#: Supported encryption algorithms by transform ID.
ENCRYPTION: Final[Mapping[int, EncryptionAlgorithm]] = _index_encryption()

#: Supported integrity algorithms by transform ID, without NONE.
INTEGRITY: Final[Mapping[int, IntegrityAlgorithm]] = {
    row.transform: row
    for row in (
        IntegrityAlgorithm(Integrity.HMAC_MD5_96, MacAlgorithm.MD5, 16, 12),  # RFC 2403
        IntegrityAlgorithm(Integrity.HMAC_SHA1_96, MacAlgorithm.SHA1, 20, 12),  # RFC 2404
        IntegrityAlgorithm(Integrity.AES_XCBC_96, MacAlgorithm.AES_XCBC, 16, 12),  # RFC 3566
        IntegrityAlgorithm(Integrity.HMAC_MD5_128, MacAlgorithm.MD5, 16, 16),  # RFC 4595
        IntegrityAlgorithm(Integrity.HMAC_SHA1_160, MacAlgorithm.SHA1, 20, 20),
        IntegrityAlgorithm(Integrity.AES_CMAC_96, MacAlgorithm.AES_CMAC, 16, 12),  # RFC 4494
        IntegrityAlgorithm(Integrity.HMAC_SHA2_256_128, MacAlgorithm.SHA2_256, 32, 16),  # RFC 4868
        IntegrityAlgorithm(Integrity.HMAC_SHA2_384_192, MacAlgorithm.SHA2_384, 48, 24),
        IntegrityAlgorithm(Integrity.HMAC_SHA2_512_256, MacAlgorithm.SHA2_512, 64, 32),
        IntegrityAlgorithm(HMAC_SHA2_256_96, MacAlgorithm.SHA2_256, 32, 12),
    )
}

#: Supported PRFs by transform ID.
PRF: Final[Mapping[int, PrfAlgorithm]] = {
    row.transform: row
    for row in (
        PrfAlgorithm(Prf.HMAC_MD5, MacAlgorithm.MD5, 16, False),  # RFC 2104
        PrfAlgorithm(Prf.HMAC_SHA1, MacAlgorithm.SHA1, 20, False),
        PrfAlgorithm(Prf.AES128_XCBC, MacAlgorithm.AES_XCBC, 16, True),  # RFC 4434
        PrfAlgorithm(Prf.HMAC_SHA2_256, MacAlgorithm.SHA2_256, 32, False),  # RFC 4868
        PrfAlgorithm(Prf.HMAC_SHA2_384, MacAlgorithm.SHA2_384, 48, False),
        PrfAlgorithm(Prf.HMAC_SHA2_512, MacAlgorithm.SHA2_512, 64, False),
        PrfAlgorithm(Prf.AES128_CMAC, MacAlgorithm.AES_CMAC, 16, True),  # RFC 4615
    )
}


def get_encryption_name(transform: int | None) -> str | None:
    """Return the name of an encryption algorithm for output, or its number if it has none."""
    return None if transform is None else get_name(Encryption, transform)


def get_integrity_name(transform: int | None) -> str | None:
    """Return the name of an integrity algorithm for output, or its number if it has none."""
    if transform == HMAC_SHA2_256_96:
        return "HMAC-SHA2-256-96"
    return None if transform is None else get_name(Integrity, transform)


def find_prf(name: str) -> PrfAlgorithm | None:
    """Return the PRF with an IANA name such as PRF_HMAC_SHA2_256, or None if it is not supported."""
    member = Prf.__members__.get(name.removeprefix("PRF_"))
    return None if member is None else PRF.get(member)


def get_suite(chosen: Proposal | None) -> IkeSuite | None:
    """Return the suite of a chosen proposal; None without a proposal or if it has no encryption algorithm."""
    if chosen is None:
        return None
    transforms = {transform.type: transform for transform in chosen.transforms}
    encryption = transforms.get(TransformType.ENCR)
    if encryption is None:
        return None
    integrity = transforms.get(TransformType.INTEG)
    return IkeSuite(encryption.id, encryption.key_bits, integrity.id if integrity else 0)


def get_prf(chosen: Proposal | None) -> PrfAlgorithm | None:
    """Return the PRF of a chosen proposal; None without a proposal or if its PRF is not supported."""
    for transform in chosen.transforms if chosen is not None else ():
        if transform.type == TransformType.PRF:
            return PRF.get(transform.id)
    return None
