"""Certificates: whose, with which key and signature, and where their bytes go (RFC 5280; RFC 7296, section 3.6).

The outline is read here, so that a key or signature that no library knows yet has its name and size all the same.
Whether it is a sound certificate is asked of `cryptography`, by `check_certificate`.
"""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.auth_methods import SignatureAlgorithm, read_algorithm
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import CertEncoding
from ikeanalyze.wire.registries.oids import CURVES, EC_KEY, KEYS, RSA_KEY
from ikeanalyze.wire.text import escape_peer_text, shorten_text
from ikeanalyze.wire.x509.der import BIT_STRING, INTEGER, SEQUENCE, DerElement, parse_element, read_element, read_oid
from ikeanalyze.wire.x509.names import format_distinguished_name_content

#: Encodings that are one X.509 certificate, of IKEv1 too (5: for key exchange).
_X509: Final = frozenset({CertEncoding.X509_SIGNATURE, 5})
_HASH_BYTES: Final = 20
#: The version of a certificate, before its serial number.
_VERSION: Final = 0xA0
#: Certificates up to this size are kept read; the hosts of a testbed send the same few again and again.
_KEPT_BYTES: Final = 16384
_KEPT: Final = 128


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key (RFC 5280, section 4.1.2.7)."""

    oid: str  # of the algorithm, dotted
    algorithm: str | None  # RSA, ECDSA, Ed25519, ML-DSA-65 ...; None: not known
    bits: int | None  # of an RSA modulus
    curve: str | None  # of ECDSA: P-256, dotted where it has no name; None: another algorithm, or not named

    @property
    def name(self) -> str:
        """RSA-2048, ECDSA P-256, Ed25519, ML-DSA-65; the dotted identifier where it is not known."""
        name = self.algorithm or self.oid
        if self.bits is not None:
            return f"{name}-{self.bits}"
        return name if self.curve is None else f"{name} {self.curve}"


@dataclass(frozen=True, slots=True)
class CertificateOutline:
    """The outline of an X.509 certificate (RFC 5280, section 4.1)."""

    subject: str  # as in RFC 4514; empty: it has none
    issuer: str
    serial: str  # hex digits
    key: PublicKey
    signature: SignatureAlgorithm
    key_bytes: int  # of the public key itself
    signature_bytes: int  # of the signature itself
    other_bytes: int  # names, dates, extensions and all that frames them: the three add up to the certificate


@dataclass(frozen=True, slots=True)
class ParsedCertificate:
    """What a CERT payload holds (RFC 7296, section 3.6)."""

    encoding: int
    size: int  # bytes of the data
    x509: CertificateOutline | None  # of an X.509 certificate that could be read
    key: PublicKey | None  # of that certificate or a raw key
    digest: bytes | None  # of hash and URL: SHA-1 of what is there
    url: str | None
    error: str | None  # what could not be read; None: nothing, or an encoding without a rule

    @property
    def name(self) -> str:
        """X.509 CN=gw.example, ECDSA P-256; other encodings by their name."""
        if self.x509 is not None:
            return f"X.509 {self.x509.subject}, {self.x509.key.name}"
        if self.encoding in _X509:
            return "X.509"
        name = get_name(CertEncoding, self.encoding)
        if self.url is not None:
            return f"{name} {self.url}"
        return name if self.key is None else f"{name} {self.key.name}"


def decode_certificate(certificate: Certificate) -> ParsedCertificate:
    """Read a certificate. Never raises: `error` says what could not be read."""
    if len(certificate.data) <= _KEPT_BYTES:
        return _kept(certificate.encoding, certificate.data)
    return _read(certificate.encoding, certificate.data)


def _read(encoding: int, data: bytes) -> ParsedCertificate:
    x509 = key = digest = url = error = None
    try:
        if encoding in _X509:
            x509 = _x509(data)
            key = x509.key
        elif encoding == CertEncoding.RAW_PUBLIC_KEY:
            key, _ = _public_key(parse_element(data, SEQUENCE))
        elif encoding == CertEncoding.RAW_RSA_KEY:
            key = PublicKey(RSA_KEY, "RSA", _rsa_bits(data), None)
        elif encoding in (CertEncoding.HASH_AND_URL, CertEncoding.HASH_AND_URL_BUNDLE):
            cursor = Cursor(data)
            digest, url = cursor.get_bytes(_HASH_BYTES), escape_peer_text(cursor.get_remaining())
    except WireError as problem:
        error = str(problem)
    return ParsedCertificate(encoding, len(data), x509, key, digest, url, error)


_kept = lru_cache(maxsize=_KEPT)(_read)


def _x509(data: bytes) -> CertificateOutline:
    outer = Cursor(parse_element(data, SEQUENCE).content)
    inner = Cursor(read_element(outer, SEQUENCE).content)
    signature = read_algorithm(read_element(outer, SEQUENCE).content)
    signature_bytes = len(_bits(read_element(outer, BIT_STRING)))
    first = read_element(inner)
    serial = read_element(inner, INTEGER) if first.tag == _VERSION else first
    read_element(inner, SEQUENCE)  # the signature algorithm once more
    issuer = format_distinguished_name_content(read_element(inner, SEQUENCE).content)
    read_element(inner, SEQUENCE)  # validity
    subject = format_distinguished_name_content(read_element(inner, SEQUENCE).content)
    key, key_bytes = _public_key(read_element(inner, SEQUENCE))
    return CertificateOutline(
        subject,
        issuer,
        serial.content.hex(),
        key,
        signature,
        key_bytes,
        signature_bytes,
        len(data) - key_bytes - signature_bytes,
    )


def _public_key(element: DerElement) -> tuple[PublicKey, int]:
    """A SubjectPublicKeyInfo, and the bytes of the key in it."""
    cursor = Cursor(element.content)
    algorithm = Cursor(read_element(cursor, SEQUENCE).content)
    data = _bits(read_element(cursor, BIT_STRING))
    oid = read_oid(algorithm)
    if oid == RSA_KEY:
        return PublicKey(oid, "RSA", _rsa_bits(data), None), len(data)
    if oid == EC_KEY:
        return PublicKey(oid, "ECDSA", None, _curve(algorithm)), len(data)
    return PublicKey(oid, KEYS.get(oid), None, None), len(data)


def _curve(parameters: Cursor) -> str | None:
    try:
        oid = read_oid(parameters)
    except WireError:
        # its parameters are spelt out, or left to the issuer's certificate
        return None
    return CURVES.get(oid, oid)


def _rsa_bits(key: bytes) -> int:
    """Bits of the modulus of an RSAPublicKey (RFC 8017, appendix A.1.1)."""
    modulus = read_element(Cursor(parse_element(key, SEQUENCE).content), INTEGER)
    return int.from_bytes(modulus.content, "big").bit_length()


def _bits(element: DerElement) -> bytes:
    """Bytes of a bit string, behind the number of bits that are unused in its last one."""
    cursor = Cursor(element.content)
    cursor.skip(1)
    return cursor.get_remaining()


def check_certificate(certificate: Certificate) -> str | None:
    """What a strict reader says against an X.509 certificate; None: nothing, or it is another encoding.

    A key whose algorithm the library does not know is no fault.
    """
    if certificate.encoding not in _X509:
        return None
    # 30 ms, and only those pay them who look at a certificate
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = x509.load_der_x509_certificate(certificate.data)
            _ = loaded.subject, loaded.issuer, loaded.extensions
            loaded.public_key()
    except UnsupportedAlgorithm:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # its panics are no Exception
        return f"{type(problem).__name__}: {shorten_text(escape_peer_text(str(problem).encode()), 120)}"
    return None
