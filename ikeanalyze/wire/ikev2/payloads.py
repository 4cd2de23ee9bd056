"""Payloads of IKEv2 that are a few fields and data. A body is what follows the generic payload header.

All raise `WireError` if a body is too short for its fields.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor

_KEY_EXCHANGE: Final = Struct(">Hxx")
_KIND: Final = Struct(">B3x")
#: Protocol, SPI size, number of SPIs.
_DELETE: Final = Struct(">BBH")
_SHA1: Final = 20
#: Certificate encodings whose authorities are SHA-1 hashes: X.509 signature, hash and URL of a certificate,
#: of a bundle.
_HASHED: Final = frozenset({4, 12, 13})


@dataclass(frozen=True, slots=True)
class KeyExchange:
    """KE payload (RFC 7296, section 3.4; RFC 9370, section 2.2.2)."""

    method: int  # key exchange method, once called Diffie-Hellman group
    data: bytes  # public value, encapsulation key or ciphertext


@dataclass(frozen=True, slots=True)
class Identification:
    """IDi or IDr payload (RFC 7296, section 3.5)."""

    type: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Certificate:
    """CERT payload (RFC 7296, section 3.6)."""

    encoding: int
    data: bytes


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """CERTREQ payload (RFC 7296, section 3.7)."""

    encoding: int
    authorities: int | None  # hashes of trusted authorities' keys; None: the encoding has none


@dataclass(frozen=True, slots=True)
class Authentication:
    """AUTH payload (RFC 7296, section 3.8)."""

    method: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete payload (RFC 7296, section 3.11)."""

    protocol: int  # 1 IKE, 2 AH, 3 ESP
    spis: tuple[bytes, ...]  # empty for the IKE SA: it is that which the message belongs to
    announced: int  # number of SPIs as the payload says, which must be that of `spis`


def parse_key_exchange(body: bytes) -> KeyExchange:
    """KE payload (RFC 7296, section 3.4)."""
    cursor = Cursor(body)
    return KeyExchange(cursor.unpack(_KEY_EXCHANGE)[0], cursor.get_remaining())


def parse_identification(body: bytes) -> Identification:
    """IDi or IDr payload (RFC 7296, section 3.5)."""
    cursor = Cursor(body)
    return Identification(cursor.unpack(_KIND)[0], cursor.get_remaining())


def parse_certificate(body: bytes) -> Certificate:
    """CERT payload (RFC 7296, section 3.6)."""
    cursor = Cursor(body)
    return Certificate(cursor.get_uint8(), cursor.get_remaining())


def parse_certificate_request(body: bytes) -> CertificateRequest:
    """CERTREQ payload (RFC 7296, section 3.7)."""
    cursor = Cursor(body)
    encoding = cursor.get_uint8()
    return CertificateRequest(encoding, cursor.remaining() // _SHA1 if encoding in _HASHED else None)


def parse_authentication(body: bytes) -> Authentication:
    """AUTH payload (RFC 7296, section 3.8)."""
    cursor = Cursor(body)
    return Authentication(cursor.unpack(_KIND)[0], cursor.get_remaining())


def parse_delete(body: bytes) -> Delete:
    """Delete payload (RFC 7296, section 3.11); lengths decide how many SPIs there are."""
    cursor = Cursor(body)
    protocol, size, announced = cursor.unpack(_DELETE)
    count = cursor.remaining() // size if size else 0
    spis = tuple(cursor.get_bytes(size) for _ in range(count))
    if cursor.remaining():
        raise cursor.make_error(f"{cursor.remaining()} bytes are left behind {count} SPIs of {size} bytes")
    return Delete(protocol, spis, announced)
