"""The sizes against keys and signatures that `cryptography` makes, and against the formulas of the standards."""

from datetime import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, mldsa, mlkem
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from ikeanalyze.model.prediction.what_if.algorithm_sizes import KEMS, SIGNATURES
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.x509.certificates import decode_certificate


@pytest.mark.parametrize(("name", "key_type"), [("768", mlkem.MLKEM768PrivateKey), ("1024", mlkem.MLKEM1024PrivateKey)])
def test_ml_kem(name, key_type):
    public = key_type.generate().public_key()
    _secret, ciphertext = public.encapsulate()
    sizes = KEMS[f"ml-kem-{name}"]
    assert (len(public.public_bytes_raw()), len(ciphertext)) == (sizes.encapsulation_key, sizes.ciphertext)


@pytest.mark.parametrize(("name", "rank", "du", "dv"), [("512", 2, 10, 4), ("768", 3, 10, 4), ("1024", 4, 11, 5)])
def test_ml_kem_by_the_formulas(name, rank, du, dv):
    # FIPS 203, algorithms 13 and 14 with the parameters of table 2: 384 k + 32, and 32 (du k + dv)
    sizes = KEMS[f"ml-kem-{name}"]
    assert (sizes.encapsulation_key, sizes.ciphertext) == (384 * rank + 32, 32 * (du * rank + dv))


@pytest.mark.parametrize("level", [44, 65, 87])
def test_ml_dsa(level):
    key = getattr(mldsa, f"MLDSA{level}PrivateKey").generate()
    sizes = SIGNATURES[f"ml-dsa-{level}"]
    assert len(key.public_key().public_bytes_raw()) == sizes.public_key
    assert len(key.sign(b"message")) == sizes.signature


@pytest.mark.parametrize(
    ("name", "n", "h", "d", "a", "k"),
    [
        ("128s", 16, 63, 7, 12, 14),
        ("128f", 16, 66, 22, 6, 33),
        ("192s", 24, 63, 7, 14, 17),
        ("192f", 24, 66, 22, 8, 33),
        ("256s", 32, 64, 8, 14, 22),
        ("256f", 32, 68, 17, 9, 35),
    ],
)
@pytest.mark.parametrize("digest", ["sha2", "shake"])
def test_slh_dsa_by_the_formulas(digest, name, n, h, d, a, k):
    # FIPS 205, table 2 and section 9.2: R, k FORS values with a nodes each, h nodes and d WOTS+ signatures (w = 16: 2 n
    # digits of the message, three of the checksum)
    sizes = SIGNATURES[f"slh-dsa-{digest}-{name}"]
    assert sizes.public_key == 2 * n
    assert sizes.signature == n * (1 + k * (1 + a) + h + d * (2 * n + 3))


@pytest.mark.parametrize(("name", "n", "n1", "n2"), [(1, 17669, 46, 384), (3, 35851, 56, 640), (5, 57637, 90, 640)])
def test_hqc_by_the_formulas(name, n, n1, n2):
    # specification of 22 August 2025: a seed of 32 bytes and a vector of n bits; vectors of n and n1 n2 bits and a salt
    sizes = KEMS[f"hqc-{name}"]
    assert sizes.encapsulation_key == 32 + -(-n // 8)
    assert sizes.ciphertext == -(-n // 8) + n1 * n2 // 8 + 16


@pytest.mark.parametrize("level", [44, 65, 87])
def test_certificates_of_another_algorithm_differ_by_key_and_signature(level):
    def make(key, algorithm):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway.example")])
        builder = x509.CertificateBuilder(
            name, name, key.public_key(), 1000, datetime(2026, 1, 1), datetime(2027, 1, 1)
        )
        return builder.sign(key, algorithm).public_bytes(serialization.Encoding.DER)

    from cryptography.hazmat.primitives import serialization

    before = make(ec.generate_private_key(ec.SECP256R1()), SHA256())
    after = make(getattr(mldsa, f"MLDSA{level}PrivateKey").generate(), None)
    sizes = SIGNATURES[f"ml-dsa-{level}"]
    other = decode_certificate(Certificate(4, before)).x509.other_bytes
    # names of algorithms and lengths are encoded in a few bytes more or less
    assert other + sizes.public_key + sizes.signature == pytest.approx(len(after), abs=20)
