import pytest

from ikeanalyze.keys.charon.algorithm_names import get_shared_secret_size, parse_proposal


@pytest.mark.parametrize(
    ("text", "encryption", "bits", "integrity", "prf"),
    [
        # recorded
        ("AES_CBC_128/HMAC_SHA2_256_128/PRF_HMAC_SHA2_256/ECP_256", 12, 128, 12, "PRF_HMAC_SHA2_256"),
        ("AES_CBC_128/HMAC_SHA1_96/PRF_HMAC_SHA1/MODP_8192", 12, 128, 2, "PRF_HMAC_SHA1"),
        ("AES_GCM_16_256/PRF_HMAC_SHA2_384/ECP_384/KE1_ML_KEM_768", 20, 256, 0, "PRF_HMAC_SHA2_384"),
        # IANA's numbers, by hand
        ("3DES_CBC/HMAC_MD5_96/PRF_HMAC_MD5/MODP_1024", 3, None, 1, "PRF_HMAC_MD5"),
        ("AES_GCM_8_128/PRF_HMAC_SHA1/MODP_2048", 18, 128, 0, "PRF_HMAC_SHA1"),
        ("AES_CCM_12_192/PRF_AES128_XCBC/ECP_256", 15, 192, 0, "PRF_AES128_XCBC"),
        ("AES_CTR_256/AES_XCBC_96/PRF_AES128_CMAC/ECP_256", 13, 256, 5, "PRF_AES128_CMAC"),
        ("CAMELLIA_CBC_256/AES_CMAC_96/PRF_HMAC_SHA2_512/ECP_521", 23, 256, 8, "PRF_HMAC_SHA2_512"),
        ("CHACHA20_POLY1305/PRF_HMAC_SHA2_256/CURVE_25519", 28, None, 0, "PRF_HMAC_SHA2_256"),
        ("CHACHA20_POLY1305_256/PRF_HMAC_SHA2_256/CURVE_25519", 28, 256, 0, "PRF_HMAC_SHA2_256"),
        ("NULL/HMAC_SHA2_512_256/PRF_HMAC_SHA2_256/ECP_256", 11, None, 14, "PRF_HMAC_SHA2_256"),
        ("AES_CBC_256/HMAC_SHA2_384_192/PRF_HMAC_SHA2_384/ECP_384", 12, 256, 13, "PRF_HMAC_SHA2_384"),
        ("NEW_CIPHER_128/NEW_MAC/PRF_NEW/ECP_256", None, None, None, "PRF_NEW"),
        ("", None, None, None, None),
    ],
)
def test_proposals_of_the_log_are_parsed(text, encryption, bits, integrity, prf):
    proposal = parse_proposal(text)
    assert (proposal.encryption, proposal.key_bits, proposal.integrity, proposal.prf) == (
        encryption,
        bits,
        integrity,
        prf,
    )


def test_additional_key_exchanges():
    text = "AES_CBC_256/HMAC_SHA2_384_192/PRF_HMAC_SHA2_384/ECP_384/KE1_ML_KEM_1024/KE2_ML_KEM_768"
    proposal = parse_proposal(text)
    assert proposal.additional == ("ML_KEM_1024", "ML_KEM_768")
    assert proposal.split_secrets(b"") == ()
    assert proposal.split_secrets(b"a" * 32 + b"b" * 32) == (b"a" * 32, b"b" * 32)
    assert proposal.split_secrets(b"a" * 32) == (b"a" * 32,)
    assert proposal.split_secrets(b"a" * 65) == (b"a" * 65,)  # of other lengths: undivided
    assert parse_proposal("KE1_NEW/KE2_ML_KEM_768").split_secrets(b"a" * 64) == (b"a" * 64,)


@pytest.mark.parametrize(
    ("method", "size"),
    [
        ("MODP_2048", 256),
        ("MODP_2048_256", 256),
        ("ECP_521", 66),
        ("CURVE_448", 56),
        ("ML_KEM_512", 32),
        ("NEW", None),
    ],
)
def test_shared_secrets_have_the_size_of_their_method(method, size):
    assert get_shared_secret_size(method) == size


@pytest.mark.parametrize(
    ("text", "e", "a", "fits"),
    [
        ("AES_CBC_128/HMAC_SHA2_256_128", 16, 32, True),
        ("AES_CBC_128/HMAC_SHA2_256_128", 32, 32, False),
        ("AES_CBC_128/HMAC_SHA2_256_128", 16, 20, False),
        ("AES_GCM_16_256", 36, 0, True),
        ("AES_GCM_16_256", 36, 32, False),
        ("AES_GCM_16_256", 32, 0, False),
        ("CHACHA20_POLY1305", 36, 0, True),
        ("NULL/HMAC_SHA1_96", 0, 20, True),
        ("NEW/HMAC_SHA1_96", 5, 20, True),
    ],
)
def test_whether_keys_are_of_a_proposal(text, e, a, fits):
    assert parse_proposal(text).matches_key_lengths(bytes(e), bytes(a)) is fits
