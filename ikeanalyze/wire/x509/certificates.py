"""Parses certificates: names, key, signature and their sizes (RFC 5280; RFC 7296, section 3.6).

This parser accepts algorithms that `cryptography` does not support; `check_certificate` validates certificates with
`cryptography`.
"""

import warnings
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from msgspec import Struct

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.ikev2.auth_methods import SignatureAlgorithm, read_algorithm
from ikeanalyze.wire.ikev2.payloads import Certificate
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import CertEncoding
from ikeanalyze.wire.registries.oids import CURVES, EC_KEY, KEYS, RSA_KEY
from ikeanalyze.wire.text import escape_peer_text, shorten_text
from ikeanalyze.wire.x509.der import BIT_STRING, INTEGER, SEQUENCE, DerElement, parse_element, read_element, read_oid
from ikeanalyze.wire.x509.names import format_distinguished_name_content

#: Encodings of one X.509 certificate, including IKEv1's (5: for key exchange).
_X509_ENCODINGS: Final = frozenset({CertEncoding.X509_SIGNATURE, 5})
_SHA1_BYTES: Final = 20
#: Forms of UTCTime and GeneralizedTime, by tag. Python's %y differs from RFC 5280 only for 1950 to 1968.
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
#: Tag of the optional version before the serial number.
_VERSION_TAG: Final = 0xA0
#: Largest certificate whose result is cached, and number of results; hosts of a testbed repeat their certificates.
_MAX_CACHED_BYTES: Final = 16384
_CACHE_SIZE: Final = 128


class PublicKey(Struct, frozen=True):
    """A public key (RFC 5280, section 4.1.2.7)."""

    oid: str  # of the algorithm, dotted
    algorithm: str | None  # RSA, ECDSA, Ed25519, ML-DSA-65 ...; None: unknown
    bits: int | None  # of an RSA modulus; None: another algorithm
    curve: str | None  # of ECDSA: P-256, dotted if it is unknown; None: another algorithm, or parameters without a name

    @property
    def name(self) -> str:
        """Name such as RSA-2048, ECDSA P-256 or ML-DSA-65; the dotted identifier of an unknown algorithm."""
        name = self.algorithm or self.oid
        if self.bits is not None:
            return f"{name}-{self.bits}"
        return name if self.curve is None else f"{name} {self.curve}"


class CertificateOutline(Struct, frozen=True):
    """The outline of an X.509 certificate (RFC 5280, section 4.1)."""

    subject: str  # as in RFC 4514; may be empty
    issuer: str
    serial: str  # hex digits
    key: PublicKey
    signature: SignatureAlgorithm
    key_bytes: int  # of the public key alone
    signature_bytes: int  # of the signature alone
    other_bytes: int  # of names, dates, extensions and encoding; the three sizes add up to the certificate
    valid_from: int | None  # seconds since 1970-01-01 UTC; None: not a valid time
    valid_until: int | None


class ParsedCertificate(Struct, frozen=True):
    """Contents of a CERT payload (RFC 7296, section 3.6)."""

    encoding: int
    size: int  # bytes of the data
    x509: CertificateOutline | None  # of a well-formed X.509 certificate
    key: PublicKey | None  # of that certificate or a raw key
    digest: bytes | None  # of hash and URL: SHA-1 of the data at the URL
    url: str | None
    error: str | None  # the malformed part; None: parsing succeeded, or the encoding is not supported

    @property
    def name(self) -> str:
        """X.509 CN=gw.example, ECDSA P-256; the name of other encodings."""
        if self.x509 is not None:
            return f"X.509 {self.x509.subject}, {self.x509.key.name}"
        if self.encoding in _X509_ENCODINGS:
            return "X.509"
        name = get_name(CertEncoding, self.encoding)
        if self.url is not None:
            return f"{name} {self.url}"
        return name if self.key is None else f"{name} {self.key.name}"


def decode_certificate(certificate: Certificate) -> ParsedCertificate:
    """Parse a certificate. Never raises: `error` is set if it is malformed."""
    if len(certificate.data) <= _MAX_CACHED_BYTES:
        return _parse_cached(certificate.encoding, certificate.data)
    return _parse(certificate.encoding, certificate.data)


def _parse(encoding: int, data: bytes) -> ParsedCertificate:
    x509 = key = digest = url = error = None
    try:
        if encoding in _X509_ENCODINGS:
            x509 = _parse_x509(data)
            key = x509.key
        elif encoding == CertEncoding.RAW_PUBLIC_KEY:
            key, _ = _parse_public_key(parse_element(data, SEQUENCE))
        elif encoding == CertEncoding.RAW_RSA_KEY:
            key = PublicKey(RSA_KEY, "RSA", _parse_rsa_bits(data), None)
        elif encoding in (CertEncoding.HASH_AND_URL, CertEncoding.HASH_AND_URL_BUNDLE):
            cursor = Cursor(data)
            digest, url = cursor.read_bytes(_SHA1_BYTES), escape_peer_text(cursor.read_remaining())
    except WireError as problem:
        error = str(problem)
    return ParsedCertificate(encoding, len(data), x509, key, digest, url, error)


_parse_cached = lru_cache(maxsize=_CACHE_SIZE)(_parse)


def _parse_x509(data: bytes) -> CertificateOutline:
    outer = Cursor(parse_element(data, SEQUENCE).content)
    inner = Cursor(read_element(outer, SEQUENCE).content)
    signature = read_algorithm(read_element(outer, SEQUENCE).content)
    signature_bytes = len(_parse_bit_string(read_element(outer, BIT_STRING)))
    first = read_element(inner)
    serial = read_element(inner, INTEGER) if first.tag == _VERSION_TAG else first
    read_element(inner, SEQUENCE)  # the signature algorithm again
    issuer = format_distinguished_name_content(read_element(inner, SEQUENCE).content)
    validity = Cursor(read_element(inner, SEQUENCE).content)
    subject = format_distinguished_name_content(read_element(inner, SEQUENCE).content)
    key, key_bytes = _parse_public_key(read_element(inner, SEQUENCE))
    return CertificateOutline(
        subject,
        issuer,
        serial.content.hex(),
        key,
        signature,
        key_bytes,
        signature_bytes,
        len(data) - key_bytes - signature_bytes,
        valid_from=_parse_time(validity),
        valid_until=_parse_time(validity),
    )


def _parse_time(validity: Cursor) -> int | None:
    """Read the next time (RFC 5280, section 4.1.2.5); None if it is malformed."""
    try:
        element = read_element(validity)
        form = _TIMES[element.tag]
        return int(datetime.strptime(element.content.decode("ascii"), form).replace(tzinfo=UTC).timestamp())
    except (WireError, KeyError, ValueError):  # the latter also for characters that are not ASCII
        return None


def _parse_public_key(element: DerElement) -> tuple[PublicKey, int]:
    """Parse a SubjectPublicKeyInfo; also return the size of its key in bytes."""
    cursor = Cursor(element.content)
    algorithm = Cursor(read_element(cursor, SEQUENCE).content)
    data = _parse_bit_string(read_element(cursor, BIT_STRING))
    oid = read_oid(algorithm)
    if oid == RSA_KEY:
        return PublicKey(oid, "RSA", _parse_rsa_bits(data), None), len(data)
    if oid == EC_KEY:
        return PublicKey(oid, "ECDSA", None, _parse_curve(algorithm)), len(data)
    return PublicKey(oid, KEYS.get(oid), None, None), len(data)


def _parse_curve(parameters: Cursor) -> str | None:
    try:
        oid = read_oid(parameters)
    except WireError:
        # explicit parameters, or those of the issuer's certificate
        return None
    return CURVES.get(oid, oid)


def _parse_rsa_bits(key: bytes) -> int:
    """Bits of the modulus of an RSAPublicKey (RFC 8017, appendix A.1.1)."""
    modulus = read_element(Cursor(parse_element(key, SEQUENCE).content), INTEGER)
    return int.from_bytes(modulus.content, "big").bit_length()


def _parse_bit_string(element: DerElement) -> bytes:
    """Bytes of a bit string, after the number of unused bits."""
    cursor = Cursor(element.content)
    cursor.skip(1)
    return cursor.read_remaining()


def check_certificate(certificate: Certificate) -> str | None:
    """Validate an X.509 certificate with `cryptography`; return its error, or None.

    Also None for other encodings and for keys of an algorithm that `cryptography` does not support.
    """
    if certificate.encoding not in _X509_ENCODINGS:
        return None
    # late: takes 30 ms, and most captures have no certificate to check
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = x509.load_der_x509_certificate(certificate.data)
            _ = parsed.subject, parsed.issuer, parsed.extensions
            parsed.public_key()
    except UnsupportedAlgorithm:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as problem:  # a panic of its Rust code is not an Exception
        return f"{type(problem).__name__}: {shorten_text(escape_peer_text(str(problem).encode()), 120)}"
    return None
