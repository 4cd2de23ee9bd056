"""Signatures of RFC 4754, of daemons, and made here with private keys of our own."""

from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, mldsa, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from ikeanalyze.crypto.signatures import UnverifiableSignatureError, check_signature
from ikeanalyze.wire.ikev2.payloads import Authentication, Certificate

OCTETS = b"message and nonce and MAC"
RSA_KEY = rsa.generate_private_key(65537, 2048)
PSS = "1.2.840.113549.1.1.10"


def raw(key) -> Certificate:
    """A raw public key (RFC 7670)."""
    return Certificate(15, key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def x509_of(key, digest) -> Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gw.example")])
    start = datetime(2026, 1, 1)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(1))
        .sign(key, digest)
    )
    return Certificate(4, built.public_bytes(Encoding.DER))


def der(tag: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return bytes([tag, len(body)]) + body


def oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytearray([40 * first + second])
    for number in rest:
        digits = [number & 0x7F]
        while number := number >> 7:
            digits.insert(0, number & 0x7F | 0x80)
        content += bytes(digits)
    return der(6, bytes(content))


def method_14(identifier: bytes, signature: bytes) -> Authentication:
    return Authentication(14, bytes([len(identifier)]) + identifier + signature)


def numbers(signature: bytes, size: int) -> bytes:
    return b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(signature))


def other(authentication: Authentication) -> Authentication:
    """With one bit of the signature changed."""
    return replace(authentication, data=authentication.data[:-1] + bytes([authentication.data[-1] ^ 1]))


def holds(authentication: Authentication, certificate: Certificate) -> None:
    """It fits, and does not with one bit changed anywhere."""
    assert check_signature(authentication, certificate, OCTETS) is None
    assert "not made with the certificate's key" in check_signature(authentication, certificate, OCTETS + b"x")
    assert check_signature(other(authentication), certificate, OCTETS) is not None


def test_the_vector_of_rfc_4754_verifies():
    x = 0x2442A5CC0ECD015FA3CA31DC8E2BBC70BF42D60CBCA20085E0822CB04235E970
    y = 0x6FC98BD7E50211A4A27102FA3549DF79EBCB4BF246B80945CDDFE7D509BBFD7D
    r = "CB28E0999B9C7715FD0A80D8E47A77079716CBBF917DD72E97566EA1C066957C"
    s = "86FA3BB4E26CAD5BF90B7F81899256CE7594BB1EA0C89212748BFF3B3D5B0315"
    key = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    certificate = Certificate(15, key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
    authentication = Authentication(9, bytes.fromhex(r + s))
    assert check_signature(authentication, certificate, b"abc") is None
    assert check_signature(authentication, certificate, b"abd") is not None


@pytest.mark.parametrize(
    ("method", "curve", "digest", "size"),
    [
        (9, ec.SECP256R1(), hashes.SHA256(), 32),
        (10, ec.SECP384R1(), hashes.SHA384(), 48),
        (11, ec.SECP521R1(), hashes.SHA512(), 66),
    ],
    ids=["P-256", "P-384", "P-521"],
)
def test_ecdsa_signatures_of_rfc_4754_verify(method, curve, digest, size):
    key = ec.generate_private_key(curve)
    signature = numbers(key.sign(OCTETS, ec.ECDSA(digest)), size)
    holds(Authentication(method, signature), x509_of(key, hashes.SHA256()))
    short = Authentication(method, signature[:-1])
    assert "bytes instead of" in check_signature(short, raw(key), OCTETS)
    assert "certificate's key is" in check_signature(Authentication(method, signature), raw(RSA_KEY), OCTETS)


@pytest.mark.parametrize("digest", [hashes.SHA1(), hashes.SHA256(), hashes.SHA512()], ids=lambda one: one.name)
def test_rsa_signatures_of_rfc_7296_verify(digest):
    signature = RSA_KEY.sign(OCTETS, padding.PKCS1v15(), digest)
    holds(Authentication(1, signature), x509_of(RSA_KEY, hashes.SHA256()))


def test_signatures_of_a_raw_rsa_key_verify():
    certificate = Certificate(11, RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.PKCS1))
    holds(Authentication(1, RSA_KEY.sign(OCTETS, padding.PKCS1v15(), hashes.SHA1())), certificate)


@pytest.mark.parametrize(("number", "digest"), [(5, hashes.SHA1()), (11, hashes.SHA256()), (13, hashes.SHA512())])
def test_rsa_signatures_of_rfc_7427_verify(number, digest):
    identifier = der(0x30, oid(f"1.2.840.113549.1.1.{number}"), b"\5\0")
    signature = RSA_KEY.sign(OCTETS, padding.PKCS1v15(), digest)
    holds(method_14(identifier, signature), raw(RSA_KEY))


def pss_parameters(hash_oid: str, salt: int) -> bytes:
    digest = der(0x30, oid(hash_oid), b"\5\0")
    mask = der(0x30, oid("1.2.840.113549.1.1.8"), digest)
    return der(0x30, der(0xA0, digest), der(0xA1, mask), der(0xA2, der(2, bytes([salt]))))


def test_pss_signatures_verify_with_the_salt_length_of_the_parameters():
    scheme = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
    signature = RSA_KEY.sign(OCTETS, scheme, hashes.SHA256())
    sha256 = "2.16.840.1.101.3.4.2.1"
    holds(method_14(der(0x30, oid(PSS), pss_parameters(sha256, 32)), signature), raw(RSA_KEY))
    # the salt is as long as the parameters say, or the signature is none
    wrong = method_14(der(0x30, oid(PSS), pss_parameters(sha256, 20)), signature)
    assert check_signature(wrong, raw(RSA_KEY), OCTETS) is not None


def test_pss_with_default_parameters():
    scheme = padding.PSS(padding.MGF1(hashes.SHA1()), 20)
    signature = RSA_KEY.sign(OCTETS, scheme, hashes.SHA1())
    holds(method_14(der(0x30, oid(PSS), der(0x30)), signature), raw(RSA_KEY))


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP521R1()], ids=lambda one: one.name)
def test_ecdsa_signatures_of_rfc_7427_verify(curve):
    key = ec.generate_private_key(curve)
    authentication = method_14(der(0x30, oid("1.2.840.10045.4.3.3")), key.sign(OCTETS, ec.ECDSA(hashes.SHA384())))
    holds(authentication, raw(key))
    assert "certificate's key is RSA" in check_signature(authentication, raw(RSA_KEY), OCTETS)


@pytest.mark.parametrize(
    ("dotted", "key"),
    [
        ("1.3.101.112", ed25519.Ed25519PrivateKey.generate()),
        ("1.3.101.113", ed448.Ed448PrivateKey.generate()),
        ("2.16.840.1.101.3.4.3.17", mldsa.MLDSA44PrivateKey.generate()),
        ("2.16.840.1.101.3.4.3.18", mldsa.MLDSA65PrivateKey.generate()),
        ("2.16.840.1.101.3.4.3.19", mldsa.MLDSA87PrivateKey.generate()),
    ],
    ids=["Ed25519", "Ed448", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"],
)
def test_what_signs_the_octets_themselves(dotted, key):
    authentication = method_14(der(0x30, oid(dotted)), key.sign(OCTETS))
    holds(authentication, x509_of(key, None))
    assert "the certificate's key is RSA" in check_signature(authentication, raw(RSA_KEY), OCTETS)


@pytest.mark.parametrize(
    ("authentication", "certificate", "what"),
    [
        (Authentication(3, b"x"), raw(RSA_KEY), "method DSS"),
        (Authentication(14, der(0x30, oid("1.2.3.4"))), raw(RSA_KEY), None),
        (method_14(der(0x30, oid("1.2.3.4")), b"x"), raw(RSA_KEY), "1.2.3.4 is not known"),
        (Authentication(1, b"x"), Certificate(12, bytes(20) + b"http://x"), "does not contain a public key"),
        (Authentication(1, b"x"), Certificate(4, b"no certificate"), "cannot be read"),
        (Authentication(1, b"x"), Certificate(4, b""), "cannot be read"),
        (Authentication(1, b"x"), Certificate(15, bytes(40)), "cannot be read"),
    ],
)
def test_unverifiable_signatures_have_a_reason(authentication, certificate, what):
    if what is None:  # no length before the identifier
        assert "has no algorithm identifier" in check_signature(authentication, certificate, OCTETS)
        return
    with pytest.raises(UnverifiableSignatureError, match=what):
        check_signature(authentication, certificate, OCTETS)


@pytest.mark.parametrize("data", [b"", b"\0", b"\x02\x30\x00", b"\xff" * 40, bytes(200)])
def test_hostile_authentication_data(data):
    for method in (1, 9, 14):
        for certificate in (raw(RSA_KEY), raw(ec.generate_private_key(ec.SECP256R1()))):
            assert check_signature(Authentication(method, data), certificate, OCTETS) is not None


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        (der(0x30, der(0xA2, der(2, b"\x7f" * 8))), "a salt of more than"),
        (der(0x30, der(0xA1, der(0x30))), "parameters of RSASSA-PSS"),
        (der(0x30, der(0xA0, b"")), "no algorithm identifier"),
        (der(4, b""), "no algorithm identifier"),
    ],
)
def test_pss_parameters_that_are_hostile(parameters, what):
    authentication = method_14(der(0x30, oid(PSS), parameters), bytes(256))
    assert what in check_signature(authentication, raw(RSA_KEY), OCTETS)
