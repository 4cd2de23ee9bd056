"""The key schedule against what charon logged: secrets and nonces in, SKEYSEED and keys out."""

import hashlib
import hmac
from dataclasses import astuple

import pytest
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC

from ikeanalyze.crypto.algorithms import PRF, IkeSuite
from ikeanalyze.crypto.key_schedule import (
    SessionKeys,
    mix_in_ppk,
    session_keys,
    skeyseed,
    skeyseed_after_additional,
    skeyseed_of_rekeying,
)
from ikeanalyze.wire.registries.ikev2_transforms import Encryption, Integrity, Prf
from tests.keys.dumps import excerpt, log, logged_keys
from tests.wire.recorded import ike_messages

SHA256, SHA384 = PRF[Prf.HMAC_SHA2_256], PRF[Prf.HMAC_SHA2_384]
CBC_128 = IkeSuite(Encryption.AES_CBC, 128, Integrity.HMAC_SHA2_256_128)
CBC_256 = IkeSuite(Encryption.AES_CBC, 256, Integrity.HMAC_SHA2_256_128)
GCM_256 = IkeSuite(Encryption.AES_GCM_16, 256, 0)
FOLLOWUP = IkeSuite(Encryption.AES_CBC, 256, Integrity.HMAC_SHA2_384_192)
# of the handshake logs, the proposal that the log says was selected
RECORDED = {
    "psk-classic": (CBC_128, SHA256),
    "eap-md5-radius": (CBC_128, SHA256),
    "invalid-ke": (CBC_256, SHA256),
    "loss20-classic": (GCM_256, SHA384),
    "pq-mlkem768-psk": (GCM_256, SHA384),
}


def as_logged(values: dict[str, bytes]) -> SessionKeys:
    names = ("Sk_d", "Sk_ai", "Sk_ar", "Sk_ei", "Sk_er", "Sk_pi", "Sk_pr")
    return SessionKeys(*(values.get(f"{name} secret", b"") for name in names))


def spis(name: str) -> set[tuple[bytes, bytes]]:
    return {(message[:8], message[8:16]) for message in ike_messages(name)}


@pytest.mark.parametrize("name", RECORDED)
def test_first_keys_are_those_of_the_log(name):
    suite, algorithm = RECORDED[name]
    checked = 0
    for logged in logged_keys(log(name)):
        nonces, half = logged["nonces"], len(logged["nonces"]) // 2
        seed = skeyseed(algorithm, logged["key exchange secret"], nonces[:half], nonces[half:])
        if seed != logged["SKEYSEED"]:
            assert name == "pq-mlkem768-psk"  # the keys after its additional key exchange
            continue
        keys = [session_keys(algorithm, suite, seed, nonces, *pair) for pair in spis(name)]
        assert as_logged(logged) in keys
        checked += 1
    assert checked == (25 if name == "loss20-classic" else 1)


def test_keys_after_an_additional_key_exchange():
    before, after = logged_keys(log("pq-mlkem768-psk"))
    seed = skeyseed_after_additional(SHA384, before["Sk_d secret"], after["key exchange secret"], after["nonces"])
    assert seed == after["SKEYSEED"]
    (pair,) = (pair for pair in spis("pq-mlkem768-psk") if any(pair[1]))
    assert session_keys(SHA384, GCM_256, seed, after["nonces"], *pair) == as_logged(after)


def test_two_additional_key_exchanges_and_two_rekeyings_with_followups():
    pairs = spis("pq-followup-ke")
    first, second, third, replaced, replaced_again = logged_keys(excerpt("pq-followup-ke"))
    for before, after in ((first, second), (second, third)):
        seed = skeyseed_after_additional(SHA384, before["Sk_d secret"], after["key exchange secret"], after["nonces"])
        assert seed == after["SKEYSEED"]
    for before, after in ((third, replaced), (replaced, replaced_again)):
        additional = after["additional key exchange secret"]  # two ML-KEM secrets of 32 bytes, one after the other
        assert len(additional) == 64
        secrets = [after["key exchange secret"], additional[:32], additional[32:]]
        assert skeyseed_of_rekeying(SHA384, before["Sk_d secret"], secrets, after["nonces"]) == after["SKEYSEED"]
    for logged in (first, second, third, replaced, replaced_again):
        result = [session_keys(SHA384, FOLLOWUP, logged["SKEYSEED"], logged["nonces"], *pair) for pair in pairs]
        assert as_logged(logged) in result


def test_rekeying_without_additional_key_exchanges():
    # RFC 7296, section 2.18: prf(SK_d (old), g^ir (new) | Ni | Nr)
    expected = hmac.digest(b"old SK_d", b"secret" + b"nonces", hashlib.sha256)
    assert skeyseed_of_rekeying(SHA256, b"old SK_d", [b"secret"], b"nonces") == expected


def test_prfs_of_aes_take_half_of_each_nonce():
    # RFC 7296, section 2.14: the first 64 bits of Ni and of Nr
    nonce_i, nonce_r = bytes(range(32)), bytes(range(100, 120))
    expected = CMAC(AES(nonce_i[:8] + nonce_r[:8]))
    expected.update(b"secret")
    assert skeyseed(PRF[Prf.AES128_CMAC], b"secret", nonce_i, nonce_r) == expected.finalize()


def test_key_lengths_follow_from_the_suite():
    algorithm = PRF[Prf.AES128_XCBC]
    keys = session_keys(
        algorithm, IkeSuite(Encryption.AES_CTR, 192, Integrity.AES_XCBC_96), bytes(16), b"n", b"i", b"r"
    )
    assert [len(key) for key in astuple(keys)] == [16, 16, 16, 28, 28, 16, 16]
    keys = session_keys(SHA256, IkeSuite(Encryption.CHACHA20_POLY1305, None, 0), bytes(32), b"n", b"i", b"r")
    assert [len(key) for key in astuple(keys)] == [32, 0, 0, 36, 36, 32, 32]


@pytest.mark.parametrize(
    ("suite", "reason"),
    [
        (IkeSuite(Encryption.AES_CBC, None, 12), "keys for AES-CBC is not known"),
        (IkeSuite(Encryption.AES_CBC, 100, 12), "AES-CBC with 100 bits"),
        (IkeSuite(Encryption.IDEA, 128, 12), "IDEA with 128 bits"),
        (IkeSuite(Encryption.AES_CBC, 128, 99), "keys for 99"),
    ],
)
def test_suites_without_key_lengths_raise(suite, reason):
    with pytest.raises(ValueError, match=reason):
        session_keys(SHA256, suite, bytes(32), b"n", b"i", b"r")


def test_a_ppk_changes_sk_d_and_sk_p():
    # RFC 8784, section 3: SK_d = prf+ (PPK, SK_d'), and SK_pi and SK_pr alike. One block of prf+ is enough.
    keys = SessionKeys(*(bytes([count]) * 32 for count in range(7)))
    mixed = mix_in_ppk(SHA256, keys, b"a post-quantum preshared key")
    for name in ("sk_d", "sk_pi", "sk_pr"):
        old = getattr(keys, name)
        expected = hmac.digest(b"a post-quantum preshared key", old + b"\x01", hashlib.sha256)
        assert getattr(mixed, name) == expected
    for name in ("sk_ai", "sk_ar", "sk_ei", "sk_er"):
        assert getattr(mixed, name) == getattr(keys, name)


def test_the_repr_has_no_secret():
    keys = SessionKeys(*(bytes([count + 65]) * 8 for count in range(7)))
    assert repr(keys) == "SessionKeys()"
