"""Certificate chains for the lab, made for each case."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ikeanalyze.lab.scenario.settings import CertificateFault

Hash = hashes.SHA256 | hashes.SHA384 | hashes.SHA512
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_CURVES: Final = {256: ec.SECP256R1(), 384: ec.SECP384R1(), 521: ec.SECP521R1()}
_HASHES: Final[dict[int, Hash]] = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}
#: The commonest lengths of a DER-encoded ECDSA signature in bytes. A bit of each of its two numbers decides about a
#: further byte, so that certificates of equal contents would differ by up to two bytes (RFC 3279, 2.2.3).
_ECDSA_SIGNATURE_BYTES: Final = {256: 71, 384: 103, 521: 139}
#: Of serial numbers; the first byte may not be zero (RFC 5280, 4.1.2.2).
_SERIAL_BYTES: Final = 20
#: Days from now on which certificates begin and end to be valid.
_VALIDITY: Final[Mapping[CertificateFault, tuple[int, int]]] = {
    "valid": (-1, 3650),
    "untrusted": (-1, 3650),
    "expired": (-30, -1),
    "not-yet-valid": (1, 3650),
}


@dataclass(frozen=True, slots=True)
class CertificateChain:
    """A certificate and its issuers in PEM."""

    key: str = field(repr=False)  # private key of the end entity, PKCS #8
    certificates: tuple[str, ...]  # that of the end entity first, the root last

    @property
    def end(self) -> str:
        """The end entity's certificate."""
        return self.certificates[0]

    @property
    def intermediates(self) -> tuple[str, ...]:
        """The certificates of the intermediate authorities."""
        return self.certificates[1:-1]

    @property
    def root(self) -> str:
        """The root certificate, which the peer trusts."""
        return self.certificates[-1]


def encode_pkcs12(chain: CertificateChain, name: str, password: str) -> bytes:
    """Encode key and certificates as PKCS #12 (RFC 7292), the only key format of NSS. `name` is the NSS nickname."""
    certificates = [x509.load_pem_x509_certificate(pem.encode()) for pem in chain.certificates]
    key = serialization.load_pem_private_key(chain.key.encode(), None)
    assert isinstance(key, PrivateKey)
    encryption = serialization.BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(name.encode(), key, certificates[0], certificates[1:], encryption)


def make_certificate_chain(
    kind: str,
    bits: int,
    length: int,
    name: str,
    *,
    authority_bits: int | None = None,
    fault: CertificateFault = "valid",
) -> CertificateChain:
    """Make a chain of `length` certificates (2: end entity and root) with keys of the same type.

    `kind` is "rsa" or "ecdsa", `bits` the size of the end entity's key, `authority_bits` that of the others (None: the
    same), `name` the common and alternative name of the end entity, which has the `fault`. With "untrusted", the root
    returned is another one with the same name, which did not sign the others.
    """
    authority_bits = authority_bits or bits
    certificates: list[str] = []
    subjects = [_make_name(f"{name} authority {depth}") for depth in range(length - 1)] + [_make_name(name)]
    issuer, issuer_key = subjects[0], (key := _generate_key(kind, authority_bits))  # the root signs itself
    digest = _HASHES.get(authority_bits, hashes.SHA256())
    for depth, subject in enumerate(subjects):
        end = name if depth == length - 1 else None
        key = _generate_key(kind, bits if end else authority_bits) if depth else key
        days = _VALIDITY[fault if end else "valid"]
        certificate = _sign_certificate(subject, key, issuer, issuer_key, digest, end=end, days=days)
        certificates.insert(0, certificate.public_bytes(serialization.Encoding.PEM).decode())
        issuer, issuer_key = subject, key
    if fault == "untrusted":
        other = make_certificate_chain(kind, bits, length, name, authority_bits=authority_bits)
        certificates[-1] = other.root
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return CertificateChain(pem.decode(), tuple(certificates))


def _generate_key(kind: str, bits: int) -> PrivateKey:
    if kind == "ecdsa":
        return ec.generate_private_key(_CURVES[bits])
    return rsa.generate_private_key(65537, bits)


def _make_name(common: str) -> x509.Name:
    attributes = ((NameOID.ORGANIZATION_NAME, "ikeanalyze lab"), (NameOID.COMMON_NAME, common))
    return x509.Name([x509.NameAttribute(*attribute) for attribute in attributes])


def _sign_certificate(
    subject: x509.Name,
    key: PrivateKey,
    issuer: x509.Name,
    issuer_key: PrivateKey,
    digest: Hash,
    *,
    end: str | None,
    days: tuple[int, int],
) -> x509.Certificate:
    """`end`: alternative name of the end entity; None: an authority. `days`: valid from and until, from now."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(now + dt.timedelta(days=days[0]))
        .not_valid_after(now + dt.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=end is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    if end is None:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True)
    else:
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(end)]), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return _sign_with_usual_size(builder, issuer_key, digest)


def _sign_with_usual_size(builder: x509.CertificateBuilder, issuer_key: PrivateKey, digest: Hash) -> x509.Certificate:
    """Sign with a random serial number. The size depends on the contents alone, so that runs can be compared."""
    while True:
        serial = x509.random_serial_number()
        if (serial.bit_length() + 7) // 8 < _SERIAL_BYTES:
            continue
        certificate = builder.serial_number(serial).sign(issuer_key, digest)
        is_ecdsa = isinstance(issuer_key, ec.EllipticCurvePrivateKey)
        if not is_ecdsa or len(certificate.signature) == _ECDSA_SIGNATURE_BYTES[issuer_key.key_size]:
            return certificate
