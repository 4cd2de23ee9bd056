"""The sizes of X.509 certificates as `pki --issue` of strongSwan lays them out, and of post-quantum signatures."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, mldsa, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DATE: Final = datetime(2023, 5, 29, tzinfo=UTC)
_YEARS: Final = timedelta(days=1825)
_EXPONENT: Final = 65537
_SERIAL: Final = 0x36DA99E5A7AD4494  # 8 bytes, as pki draws them
_MlDsaKey = mldsa.MLDSA44PrivateKey | mldsa.MLDSA65PrivateKey | mldsa.MLDSA87PrivateKey
_ML_DSA: Final[Mapping[str, Callable[[], _MlDsaKey]]] = {
    "ml-dsa-44": mldsa.MLDSA44PrivateKey.generate,
    "ml-dsa-65": mldsa.MLDSA65PrivateKey.generate,
    "ml-dsa-87": mldsa.MLDSA87PrivateKey.generate,
}
_ECDSA_SIGNATURE: Final = 71  # bytes of most signatures on P-256, which have 70 to 72


def compute_certificate_bytes(
    *, key: str, address: str, authority_bits: int = 2048, suffix: str = "", pem: bool = False
) -> float:
    """Return the bytes of a host certificate: subject and alternative names are its address, the issuer is `CA`.

    Args:
        key: `rsa-BITS`, or `ecdsa-256`, of which the authority's key is one too.
        address: IPv4 or IPv6.
        authority_bits: of an RSA authority.
        suffix: of the names of issuer and subject.
        pem: the bytes of the PEM file, not of DER, which IKE sends.
    """
    kind, _, bits = key.partition("-")
    private = ec.generate_private_key(ec.SECP256R1()) if kind == "ecdsa" else _make_rsa_key(authority_bits)
    # the public key is never used, so that any number of this length will do
    public = (
        private.public_key() if kind == "ecdsa" else rsa.RSAPublicNumbers(_EXPONENT, 2 ** int(bits) - 1).public_key()
    )
    certificate = (
        x509.CertificateBuilder(issuer_name=_name("CA" + suffix), subject_name=_name(address + suffix))
        .public_key(public)
        .serial_number(_SERIAL)
        .not_valid_before(_DATE)
        .not_valid_after(_DATE + _YEARS)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key()), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(address), x509.IPAddress(ip_address(address))]), critical=False
        )
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    size = len(certificate.public_bytes(Encoding.DER))
    if kind == "ecdsa":
        size += _ECDSA_SIGNATURE - len(certificate.signature)
    return _count_pem(size) if pem else size


def measure_signature_bytes(*, algorithm: str, part: str) -> float:
    """Return the bytes of a public key or a signature that is made for this.

    Args:
        algorithm: `ml-dsa-44`, `ml-dsa-65` or `ml-dsa-87`.
        part: `public key` or `signature`.

    Raises:
        LookupError: another algorithm or part.
    """
    key = _ML_DSA[algorithm]()
    return {"public key": len(key.public_key().public_bytes_raw()), "signature": len(key.sign(b""))}[part]


@cache
def _make_rsa_key(bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(_EXPONENT, bits)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _count_pem(size: int) -> int:
    """Return the bytes of a PEM file (RFC 7468): Base64 in lines of 64 characters, between two lines."""
    characters = -(-size // 3) * 4
    return characters + -(-characters // 64) + len("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")
