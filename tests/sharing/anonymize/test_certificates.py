"""Certificates have other names and keys, and are still certificates of the same kind and size for `cryptography`."""

import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from ikeanalyze.sharing.anonymize.certificates import rewrite_der
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from tests.sharing.anonymize.copies import KEY

PSEUDONYMS = Pseudonyms(KEY)
KEYS = {
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def make_certificate(key):
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Example Works"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "gw.example.org"),
        ]
    )
    names = [
        x509.DNSName("gw.example.org"),
        x509.IPAddress(ipaddress.ip_address("192.0.2.1")),
        x509.RFC822Name("a@b.example"),
    ]
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), 1234567890123456789)
        .not_valid_before(dt.datetime(2026, 3, 17, 12, 34, 56))
        .not_valid_after(dt.datetime(2031, 3, 17, 12, 34, 56))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(True, 1), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())


@pytest.mark.parametrize("name", KEYS)
def test_a_certificate_of_the_same_kind_and_size(name):
    original = make_certificate(KEYS[name]())
    data = original.public_bytes(Encoding.DER)
    mapped = rewrite_der(data, PSEUDONYMS)
    assert len(mapped) == len(data)
    copy = x509.load_der_x509_certificate(mapped)
    assert copy.signature_algorithm_oid == original.signature_algorithm_oid
    assert type(copy.public_key()) is type(original.public_key())
    assert getattr(copy.public_key(), "key_size", None) == getattr(original.public_key(), "key_size", None)
    assert copy.public_key() != original.public_key()
    assert [extension.oid for extension in copy.extensions] == [extension.oid for extension in original.extensions]
    for secret in (b"example", b"Example", b"\xc0\0\2\1", data[-32:], original.serial_number.to_bytes(8, "big")):
        assert secret not in mapped


def test_related_values_stay_related():
    """Issuer and subject, name and alternative name, identifiers of subject and authority; year and month stay."""
    original = make_certificate(KEYS["P-256"]())
    copy = x509.load_der_x509_certificate(rewrite_der(original.public_bytes(Encoding.DER), PSEUDONYMS))
    assert copy.issuer == copy.subject != original.subject
    names = copy.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    (common,) = copy.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    assert names.get_values_for_type(x509.DNSName) == [common.value]
    assert names.get_values_for_type(x509.IPAddress)[0].packed == PSEUDONYMS.map_address(b"\xc0\0\2\1")
    subject = copy.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = copy.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    assert subject.digest == authority.key_identifier
    assert copy.not_valid_before_utc.isoformat() == "2026-03-01T00:00:00+00:00"


def test_what_is_not_der_is_overwritten():
    data = make_certificate(KEYS["P-256"]()).public_bytes(Encoding.DER)
    for size in (0, 1, 5, 100, len(data) - 1):
        mapped = rewrite_der(data[:size], PSEUDONYMS)
        assert len(mapped) == size
        assert b"example" not in mapped
    assert b"secret" not in rewrite_der(b"secret", PSEUDONYMS)
