"""ICVs against the vectors of the RFCs."""

import pytest

from ikeanalyze.crypto.algorithms import HMAC_SHA2_256_96, INTEGRITY
from ikeanalyze.crypto.macs import make_icv, make_mac
from ikeanalyze.wire.registries.ikev2_transforms import Integrity

HI = b"Hi There"
JEFE = b"what do ya want for nothing?"
XCBC_KEY = bytes(range(16))
CMAC_KEY = bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c")
CMAC_DATA = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)

VECTORS = [
    # RFC 2202, cases 1 and 5 (truncated)
    (Integrity.HMAC_MD5_128, b"\x0b" * 16, HI, "9294727a3638bb1c13f48ef8158bfc9d"),
    (Integrity.HMAC_MD5_96, b"\x0c" * 16, b"Test With Truncation", "56461ef2342edc00f9bab995"),
    (Integrity.HMAC_SHA1_160, b"\x0b" * 20, HI, "b617318655057264e28bc0b6fb378c8ef146be00"),
    (Integrity.HMAC_SHA1_96, b"\x0c" * 20, b"Test With Truncation", "4c1a03424b55e07fe7f27be1"),
    # RFC 4868, section 2.7.2
    (Integrity.HMAC_SHA2_256_128, b"\x0b" * 32, HI, "198a607eb44bfbc69903a0f1cf2bbdc5"),
    (HMAC_SHA2_256_96, b"\x0b" * 32, HI, "198a607eb44bfbc69903a0f1"),
    (Integrity.HMAC_SHA2_256_128, b"Jefe" * 8, JEFE, "167f928588c5cc2eef8e3093caa0e87c"),
    (Integrity.HMAC_SHA2_384_192, b"\x0b" * 48, HI, "b6a8d5636f5c6a7224f9977dcf7ee6c7fb6d0c48cbdee973"),
    (
        Integrity.HMAC_SHA2_512_256, b"\x0b" * 64, HI,
        "637edc6e01dce7e6742a99451aae82df23da3e92439e590e43e761b33e910fb8",
    ),
    # RFC 3566, section 4.6
    (Integrity.AES_XCBC_96, XCBC_KEY, b"", "75f0251d528ac01c4573dfd5"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(range(3)), "5b376580ae2f19afe7219cee"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(range(16)), "d2a246fa349b68a79998a439"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(range(20)), "47f51b4564966215b8985c63"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(range(32)), "f54f0ec8d2b9f3d36807734b"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(range(32)) + b"\x20\x21", "becbb3bccdb518a30677d548"),
    (Integrity.AES_XCBC_96, XCBC_KEY, bytes(1000), "f0dafee895db30253761103b"),
    # RFC 4494, section 4
    (Integrity.AES_CMAC_96, CMAC_KEY, b"", "bb1d6929e95937287fa37d12"),
    (Integrity.AES_CMAC_96, CMAC_KEY, CMAC_DATA[:16], "070a16b46b4d4144f79bdd9d"),
    (Integrity.AES_CMAC_96, CMAC_KEY, CMAC_DATA[:40], "dfa66747de9ae63030ca3261"),
    (Integrity.AES_CMAC_96, CMAC_KEY, CMAC_DATA, "51f0bebf7e3b9d92fc497417"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "key", "data", "expected"), VECTORS)
def test_icvs_agree_with_the_vectors(number, key, data, expected):
    algorithm = INTEGRITY[number]
    assert len(key) == algorithm.key
    icv = make_icv(algorithm, key)
    assert icv(data).hex() == expected
    assert icv(data).hex() == expected  # the prepared key is as it was


def test_every_algorithm_has_a_vector():
    assert {number for number, *_ in VECTORS} == set(INTEGRITY)


def test_keys_that_are_none_of_aes():
    for number in (Integrity.AES_XCBC_96, Integrity.AES_CMAC_96):
        with pytest.raises(ValueError, match=r"16|key size"):
            make_mac(INTEGRITY[number].mac, b"short")
