"""PRFs against the vectors of the RFCs; prf+ against keys that charon derived."""

import hashlib
import hmac

import pytest

from ikeanalyze.crypto.algorithms import PRF
from ikeanalyze.crypto.macs import prf, prf_plus
from ikeanalyze.wire.registries.ikev2_transforms import Prf
from tests.keys.dumps import excerpt, logged_keys

TWENTY = bytes(range(20))
SIXTEEN = bytes(range(16))
LONG_KEY = b"\xaa" * 131
LONG_DATA = b"Test Using Larger Than Block-Size Key - Hash Key First"

VECTORS = [
    # RFC 2202, cases 1 and 2
    (Prf.HMAC_MD5, b"\x0b" * 16, b"Hi There", "9294727a3638bb1c13f48ef8158bfc9d"),
    (Prf.HMAC_MD5, b"Jefe", b"what do ya want for nothing?", "750c783e6ab0b503eaa86e310a5db738"),
    (Prf.HMAC_SHA1, b"Jefe", b"what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
    # RFC 4231, case 6
    (Prf.HMAC_SHA2_256, LONG_KEY, LONG_DATA, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"),
    (
        Prf.HMAC_SHA2_384, LONG_KEY, LONG_DATA,
        "4ece084485813e9088d2c63a041bc5b44f9ef1012a2b588f3cd11f05033ac4c60c2ef6ab4030fe8296248df163f44952",
    ),
    (
        Prf.HMAC_SHA2_512, LONG_KEY, LONG_DATA,
        "80b24263c7c1a3ebb71493c1dd7be8b49b46d1f41b4aeec1121b013783f8f352"
        "6b56d037e05f2598bd0fd2215d6a1e5295e64f73f63f0aec8b915a985d786598",
    ),
    # RFC 4434, section 3
    (Prf.AES128_XCBC, SIXTEEN, TWENTY, "47f51b4564966215b8985c63055ed308"),
    (Prf.AES128_XCBC, SIXTEEN[:10], TWENTY, "0fa087af7d866e7653434e602fdde835"),
    (Prf.AES128_XCBC, SIXTEEN + b"\xed\xcb", TWENTY, "8cd3c93ae598a9803006ffb67c40e9e4"),
    # RFC 4615, section 4
    (Prf.AES128_CMAC, SIXTEEN + b"\xed\xcb", TWENTY, "84a348a4a45d235babfffc0d2b4da09a"),
    (Prf.AES128_CMAC, SIXTEEN, TWENTY, "980ae87b5f4c9c5214f5b6a8455e4c2d"),
    (Prf.AES128_CMAC, SIXTEEN[:10], TWENTY, "290d9e112edb09ee141fcf64c0b72f3d"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "key", "data", "expected"), VECTORS)
def test_prfs_agree_with_the_vectors(number, key, data, expected):
    value = prf(PRF[number], key, data)
    assert value.hex() == expected
    assert len(value) == PRF[number].size


def test_every_algorithm_has_a_vector():
    assert {number for number, *_ in VECTORS} == set(PRF)


def test_prf_plus_is_what_the_daemon_took_its_keys_from():
    # pq-followup-ke.pcap, the IKE SA's first keys: 304 bytes, seven blocks of HMAC-SHA2-384
    (first, *_) = logged_keys(excerpt("pq-followup-ke"))
    spis = bytes.fromhex("e0a86a74bf34f5a9 9f49e7efa29434b9")
    stream = prf_plus(PRF[Prf.HMAC_SHA2_384], first["SKEYSEED"], first["nonces"] + spis, 304)
    order = ("Sk_d", "Sk_ai", "Sk_ar", "Sk_ei", "Sk_er", "Sk_pi", "Sk_pr")
    assert stream == b"".join(first[f"{name} secret"] for name in order)


def test_prf_plus_chains_its_blocks():
    first = hmac.digest(b"key", b"seed\x01", hashlib.sha256)
    second = hmac.digest(b"key", first + b"seed\x02", hashlib.sha256)
    assert prf_plus(PRF[Prf.HMAC_SHA2_256], b"key", b"seed", 40) == (first + second)[:40]
    assert prf_plus(PRF[Prf.HMAC_SHA2_256], b"key", b"seed", 0) == b""


def test_prf_plus_is_limited_to_255_blocks():
    algorithm = PRF[Prf.AES128_CMAC]
    assert len(prf_plus(algorithm, SIXTEEN, b"seed", 255 * 16)) == 255 * 16
    with pytest.raises(ValueError, match="4080"):
        prf_plus(algorithm, SIXTEEN, b"seed", 255 * 16 + 1)
