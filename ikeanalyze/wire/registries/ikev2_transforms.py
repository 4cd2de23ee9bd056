"""IKEv2 transform types and transform IDs, with the short names that the output uses."""

from collections.abc import Mapping
from typing import Final

from ikeanalyze.wire.registries import DashedRegistry, Registry


class TransformType(Registry):
    """Transform types (RFC 7296, section 3.3.2; RFC 9370, section 2.2.1; RFC 9827; RFC 9838)."""

    ENCR = 1
    PRF = 2
    INTEG = 3
    KE = 4
    SN = 5
    ADDKE1 = 6
    ADDKE2 = 7
    ADDKE3 = 8
    ADDKE4 = 9
    ADDKE5 = 10
    ADDKE6 = 11
    ADDKE7 = 12
    KWA = 13
    GCAUTH = 14


class TransformAttribute(DashedRegistry):
    """Transform attribute types (RFC 7296, section 3.3.5; RFC 9838)."""

    KEY_LENGTH = 14
    SIGNATURE_ALGORITHM_IDENTIFIER = 18


class Encryption(DashedRegistry):
    """Transform type 1, IANA's ENCR_... (RFC 7296, section 3.3.2, and others)."""

    DES_IV64 = 1
    DES = 2
    TRIPLE_DES = 3, "3DES"
    RC5 = 4
    IDEA = 5
    CAST = 6
    BLOWFISH = 7
    TRIPLE_IDEA = 8, "3IDEA"
    DES_IV32 = 9
    NULL = 11
    AES_CBC = 12
    AES_CTR = 13
    AES_CCM_8 = 14
    AES_CCM_12 = 15
    AES_CCM_16 = 16
    AES_GCM_8 = 18
    AES_GCM_12 = 19
    AES_GCM_16 = 20
    NULL_AUTH_AES_GMAC = 21
    CAMELLIA_CBC = 23
    CAMELLIA_CTR = 24
    CAMELLIA_CCM_8 = 25
    CAMELLIA_CCM_12 = 26
    CAMELLIA_CCM_16 = 27
    CHACHA20_POLY1305 = 28
    AES_CCM_8_IIV = 29  # implicit IV, ESP only: RFC 8750
    AES_GCM_16_IIV = 30
    CHACHA20_POLY1305_IIV = 31
    KUZNYECHIK_MGM_KTREE = 32  # RFC 9227
    MAGMA_MGM_KTREE = 33
    KUZNYECHIK_MGM_MAC_KTREE = 34
    MAGMA_MGM_MAC_KTREE = 35


class Prf(DashedRegistry):
    """Transform type 2, IANA's PRF_... (RFC 7296, section 3.3.2, and others)."""

    HMAC_MD5 = 1
    HMAC_SHA1 = 2
    HMAC_TIGER = 3
    AES128_XCBC = 4
    HMAC_SHA2_256 = 5
    HMAC_SHA2_384 = 6
    HMAC_SHA2_512 = 7
    AES128_CMAC = 8
    HMAC_STREEBOG_512 = 9  # RFC 9385


class Integrity(DashedRegistry):
    """Transform type 3, IANA's AUTH_... (RFC 7296, section 3.3.2, and others)."""

    NONE = 0
    HMAC_MD5_96 = 1
    HMAC_SHA1_96 = 2
    DES_MAC = 3
    KPDK_MD5 = 4
    AES_XCBC_96 = 5
    HMAC_MD5_128 = 6
    HMAC_SHA1_160 = 7
    AES_CMAC_96 = 8
    AES_128_GMAC = 9
    AES_192_GMAC = 10
    AES_256_GMAC = 11
    HMAC_SHA2_256_128 = 12
    HMAC_SHA2_384_192 = 13
    HMAC_SHA2_512_256 = 14


class KeyExchangeMethod(DashedRegistry):
    """Transform types 4 and 6 to 12, and the KE payload (RFC 7296, section 3.4; RFC 9370, section 2.2.1)."""

    NONE = 0
    MODP_768 = 1
    MODP_1024 = 2
    MODP_1536 = 5
    MODP_2048 = 14
    MODP_3072 = 15
    MODP_4096 = 16
    MODP_6144 = 17
    MODP_8192 = 18
    ECP_256 = 19
    ECP_384 = 20
    ECP_521 = 21
    MODP_1024_160 = 22  # with the size of the prime order subgroup: RFC 5114
    MODP_2048_224 = 23
    MODP_2048_256 = 24
    ECP_192 = 25
    ECP_224 = 26
    BRAINPOOL_P224R1 = 27
    BRAINPOOL_P256R1 = 28
    BRAINPOOL_P384R1 = 29
    BRAINPOOL_P512R1 = 30
    X25519 = 31  # RFC 8031
    X448 = 32
    GOST3410_2012_256 = 33  # RFC 9385
    GOST3410_2012_512 = 34
    ML_KEM_512 = 35  # draft-ietf-ipsecme-ikev2-mlkem
    ML_KEM_768 = 36
    ML_KEM_1024 = 37


class SequenceNumbers(Registry):
    """Transform type 5, formerly extended sequence numbers (RFC 7296, section 3.3.2; RFC 9827)."""

    NO_ESN = 0, "NO-ESN"
    ESN = 1
    UNSPECIFIED = 2, "UNSPECIFIED-32"  # 32 bits, ignored by the receiver


class KeyWrap(DashedRegistry):
    """Transform type 13 (RFC 9838)."""

    KW_5649_128 = 1
    KW_5649_192 = 2
    KW_5649_256 = 3
    KW_ARX = 4


class GroupControllerAuthentication(DashedRegistry):
    """Transform type 14 (RFC 9838)."""

    IMPLICIT = 1
    DIGITAL_SIGNATURE = 2


#: Registry of transform IDs, by transform type.
TRANSFORM_IDS: Final[Mapping[int, type[Registry]]] = {
    TransformType.ENCR: Encryption,
    TransformType.PRF: Prf,
    TransformType.INTEG: Integrity,
    TransformType.KE: KeyExchangeMethod,
    TransformType.SN: SequenceNumbers,
    **dict.fromkeys(range(TransformType.ADDKE1, TransformType.ADDKE7 + 1), KeyExchangeMethod),
    TransformType.KWA: KeyWrap,
    TransformType.GCAUTH: GroupControllerAuthentication,
}
