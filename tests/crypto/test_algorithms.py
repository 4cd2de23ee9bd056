"""The sizes, against Wireshark's key table as its documentation has it (SK_e and SK_a in bytes)."""

import pytest

from ikeanalyze.crypto.algorithms import ENCRYPTION, INTEGRITY, PRF, find_prf
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity, Prf

# names as in Wireshark's table: SK_e
SK_E = {
    Encryption.NULL: (0,),
    Encryption.TRIPLE_DES: (24,),
    Encryption.AES_CBC: (16, 24, 32),
    Encryption.AES_CTR: (20, 28, 36),
    **dict.fromkeys((Encryption.AES_GCM_8, Encryption.AES_GCM_12, Encryption.AES_GCM_16), (20, 28, 36)),
    **dict.fromkeys((Encryption.AES_CCM_8, Encryption.AES_CCM_12, Encryption.AES_CCM_16), (19, 27, 35)),
}
SK_A = {
    Integrity.HMAC_MD5_96: 16,
    Integrity.HMAC_MD5_128: 16,
    Integrity.HMAC_SHA1_96: 20,
    Integrity.HMAC_SHA1_160: 20,
    Integrity.HMAC_SHA2_256_128: 32,
    Integrity.HMAC_SHA2_384_192: 48,
    Integrity.HMAC_SHA2_512_256: 64,
}


@pytest.mark.parametrize("number", SK_E)
def test_sizes_of_sk_e_are_those_of_wireshark(number):
    algorithm = ENCRYPTION[number]
    assert tuple(size + algorithm.salt for size in algorithm.key_sizes) == SK_E[number]


@pytest.mark.parametrize("number", SK_A)
def test_sizes_of_sk_a_are_those_of_wireshark(number):
    assert INTEGRITY[number].key == SK_A[number]


@pytest.mark.parametrize(
    ("number", "key_bits", "expected"),
    [
        (Encryption.AES_GCM_16, 256, 36),
        (Encryption.AES_CBC, 192, 24),
        (Encryption.CHACHA20_POLY1305, None, 36),  # RFC 7634: no attribute Key Length
        (Encryption.TRIPLE_DES, None, 24),
        (Encryption.DES, None, 8),
        (Encryption.CAST, 128, 16),  # RFC 2451, 2.1: 40 to 128 bits
        (Encryption.CAST, 136, None),
        (Encryption.BLOWFISH, 448, 56),  # 40 to 448 bits
        (Encryption.BLOWFISH, 32, None),
        (Encryption.BLOWFISH, None, None),
        (Encryption.AES_CBC, None, None),  # which of three?
        (Encryption.AES_CBC, 129, None),
        (Encryption.AES_CBC, 512, None),
        (Encryption.AES_CBC, 0, None),
        (Encryption.AES_CBC, 0xFFFF, None),
    ],
)
def test_key_bytes_follow_from_the_key_length(number, key_bits, expected):
    assert ENCRYPTION[number].get_key_bytes(key_bits) == expected


def test_algorithms_have_names():
    assert ENCRYPTION[Encryption.AES_GCM_16].name == "AES-GCM-16"
    assert {row.name for row in INTEGRITY.values()} >= {
        "HMAC-SHA2-256-128",
        "HMAC-SHA2-256-96",
        "AES-CMAC-96",
    }
    assert PRF[Prf.HMAC_SHA2_384].name == "HMAC-SHA2-384"


def test_prf_by_the_name_in_a_log():
    assert find_prf("PRF_HMAC_SHA2_384") is PRF[Prf.HMAC_SHA2_384]
    assert find_prf("PRF_AES128_XCBC") is PRF[Prf.AES128_XCBC]
    assert find_prf("PRF_HMAC_TIGER") is None
    assert find_prf("") is None
