import hashlib
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.x509.certificates import check_certificate, decode_certificate
from tests.wire.opened import opened

MADE = Path(__file__).parent / "certificates"
#: FIPS 204, table 2: bytes of public key and signature.
ML_DSA = {44: (1312, 2420), 65: (1952, 3309), 87: (2592, 4627)}
RSA = rsa.generate_private_key(65537, 2048)


def certificate(key, digest):
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CH"),
            x509.NameAttribute(NameOID.COMMON_NAME, "gw.example"),
        ]
    )
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), 0x1234)
        .not_valid_before(datetime(2026, 1, 1))
        .not_valid_after(datetime(2027, 1, 1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("gw.example")]), critical=False)
    )
    return builder.sign(key, digest)


@pytest.mark.parametrize(
    ("key", "digest", "name"),
    [
        (RSA, hashes.SHA256(), "RSA-2048"),
        (ec.generate_private_key(ec.SECP256R1()), hashes.SHA256(), "ECDSA P-256"),
        (ec.generate_private_key(ec.BrainpoolP384R1()), hashes.SHA384(), "ECDSA brainpoolP384r1"),
        (ed25519.Ed25519PrivateKey.generate(), None, "Ed25519"),
        (ed448.Ed448PrivateKey.generate(), None, "Ed448"),
    ],
)
def test_certificates_are_decoded_as_by_cryptography(key, digest, name):
    made = certificate(key, digest)
    data = made.public_bytes(serialization.Encoding.DER)
    view = decode_certificate(Certificate(4, data))
    read = view.x509
    assert view.error is None
    assert (read.subject, read.issuer) == (made.subject.rfc4514_string(), made.issuer.rfc4514_string())
    assert (int(read.serial, 16), read.key.name) == (0x1234, name)
    assert read.signature.oid == made.signature_algorithm_oid.dotted_string
    assert read.signature_bytes == len(made.signature)
    assert read.key_bytes + read.signature_bytes + read.other_bytes == len(data) == view.size
    times = made.not_valid_before_utc.timestamp(), made.not_valid_after_utc.timestamp()
    assert (read.valid_from, read.valid_until) == times
    assert view.name == f"X.509 CN=gw.example,C=CH, {name}"
    assert check_certificate(Certificate(4, data)) is None


@pytest.mark.parametrize("level", ML_DSA)
def test_ml_dsa(level):
    data = (MADE / f"mldsa{level}.der").read_bytes()
    read = decode_certificate(Certificate(4, data)).x509
    assert (read.key.name, read.signature.name) == (f"ML-DSA-{level}", f"ML-DSA-{level}")
    assert (read.key_bytes, read.signature_bytes) == ML_DSA[level]
    assert read.other_bytes == len(data) - sum(ML_DSA[level])
    assert read.subject == read.issuer == f"CN=mldsa{level}.example,O=ikeanalyze,C=CH"
    assert check_certificate(Certificate(4, data)) is None


def test_recorded_certificates():
    # behind the generic header and the encoding; the daemon's log: CN=ini, ECDSA with P-384
    result = set()
    for message in opened("loss20-classic"):
        at = message.inside.find(b"\x30\x82")
        if message.exchange_type == 35 and at > 0:
            size = int.from_bytes(message.inside[at + 2 : at + 4], "big") + 4
            result.add(decode_certificate(Certificate(4, message.inside[at : at + size])).name)
    assert result == {"X.509 CN=ini, ECDSA P-384", "X.509 CN=res, ECDSA P-384"}


def test_raw_keys_are_named_with_type_and_size():
    spki, pkcs1 = (
        RSA.public_key().public_bytes(serialization.Encoding.DER, form)
        for form in (serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1)
    )
    assert decode_certificate(Certificate(15, spki)).name == "Raw Public Key RSA-2048"
    assert decode_certificate(Certificate(11, pkcs1)).name == "Raw RSA Key RSA-2048"


def test_hash_and_url():
    digest = hashlib.sha1(b"certificate").digest()
    view = decode_certificate(Certificate(12, digest + b"http://x.example/c.der\x07"))
    assert (view.digest, view.url) == (digest, "http://x.example/c.der\\x07")
    assert view.name == "Hash and URL of X.509 certificate http://x.example/c.der\\x07"
    assert decode_certificate(Certificate(13, digest[:19])).error is not None


def test_other_encodings_have_their_name():
    view = decode_certificate(Certificate(7, b"crl"))
    assert (view.name, view.error) == ("Certificate Revocation List (CRL)", None)
    assert check_certificate(Certificate(7, b"crl")) is None


def test_unknown_algorithms_have_their_number():
    data = (
        (MADE / "mldsa65.der")
        .read_bytes()
        .replace(bytes.fromhex("608648016503040312"), bytes.fromhex("608648016503047f12"))
    )
    read = decode_certificate(Certificate(4, data)).x509
    assert (read.key.name, read.signature.name) == ("2.16.840.1.101.3.4.127.18", "2.16.840.1.101.3.4.127.18")
    assert read.key_bytes == 1952
    assert check_certificate(Certificate(4, data)) is None


def test_truncated_certificates_have_an_error():
    data = certificate(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.DER
    )
    for size in range(0, len(data), 7):
        assert decode_certificate(Certificate(4, data[:size])).error is not None
        assert check_certificate(Certificate(4, data[:size])) is not None


def test_problems_of_strict_decoding_are_one_line():
    made = certificate(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    data = made.public_bytes(serialization.Encoding.DER)
    point = made.public_key().public_bytes(serialization.Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    # a version that there is not; a point that is not on the curve
    for bad in (
        data.replace(b"\x02\x01\x02", b"\x02\x01\x07", 1),
        data.replace(point, point[:-1] + bytes([point[-1] ^ 1])),
    ):
        problem = check_certificate(Certificate(4, bad))
        assert problem is not None
        assert problem.isprintable()
        assert len(problem) < 200
        assert decode_certificate(Certificate(4, bad)).name == "X.509 CN=gw.example,C=CH, ECDSA P-256"


@given(st.binary(max_size=80), st.integers(0, 255))
def test_random_bytes_have_a_printable_name(data, encoding):
    assert decode_certificate(Certificate(encoding, data)).name.isprintable()
