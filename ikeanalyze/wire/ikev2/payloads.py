"""Parses the payloads of IKEv2 that consist of a few fields and data.

Every function takes the body of a payload, which follows the generic payload header, and raises `WireError` if the body
is too short for its fields.
"""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries.ikev2 import CertEncoding

_METHOD: Final = Struct(">Hxx")
#: A type or method, and three reserved bytes.
_BYTE_AND_RESERVED: Final = Struct(">B3x")
#: Protocol, SPI size, and the type of a notify or the number of deleted SPIs.
_PROTOCOL_AND_SPI: Final = Struct(">BBH")
_PORT: Final = Struct(">H")
_SHA1_BYTES: Final = 20
#: Bytes of a nonce (RFC 7296, section 3.9).
NONCE_BYTES: Final = range(16, 257)
#: Certificate encodings whose authorities are SHA-1 hashes.
_HASHED_ENCODINGS: Final = frozenset(
    {CertEncoding.X509_SIGNATURE, CertEncoding.HASH_AND_URL, CertEncoding.HASH_AND_URL_BUNDLE}
)


class KeyExchange(msgspec.Struct, frozen=True):
    """KE payload (RFC 7296, section 3.4; RFC 9370, section 2.2.2)."""

    method: int  # key exchange method, formerly Diffie-Hellman group
    data: bytes  # public value, encapsulation key or ciphertext


class Identification(msgspec.Struct, frozen=True):
    """IDi or IDr payload (RFC 7296, section 3.5)."""

    type: int
    data: bytes


class Certificate(msgspec.Struct, frozen=True):
    """CERT payload (RFC 7296, section 3.6)."""

    encoding: int
    data: bytes


class CertificateRequest(msgspec.Struct, frozen=True):
    """CERTREQ payload (RFC 7296, section 3.7)."""

    encoding: int
    authorities: int | None  # number of hashes of trusted authorities' keys; None: the encoding does not use hashes


class Authentication(msgspec.Struct, frozen=True):
    """AUTH payload (RFC 7296, section 3.8)."""

    method: int
    data: bytes


class Notify(msgspec.Struct, frozen=True):
    """Notify payload (RFC 7296, section 3.10)."""

    type: int
    data: bytes
    protocol: int  # of the SPI: 1 IKE, 2 AH, 3 ESP; 0: no SPI
    spi: bytes  # of the SA that the notify concerns; usually empty


class Delete(msgspec.Struct, frozen=True):
    """Delete payload (RFC 7296, section 3.11)."""

    protocol: int  # 1 IKE, 2 AH, 3 ESP
    spis: tuple[bytes, ...]  # empty for the IKE SA, which is the one of the message
    announced: int  # number of SPIs in the payload's header, must be the length of `spis`


def parse_key_exchange(body: bytes) -> KeyExchange:
    """Parse a KE payload (RFC 7296, section 3.4)."""
    cursor = Cursor(body)
    return KeyExchange(cursor.unpack(_METHOD)[0], cursor.read_remaining())


def parse_identification(body: bytes) -> Identification:
    """Parse an IDi or IDr payload (RFC 7296, section 3.5)."""
    cursor = Cursor(body)
    return Identification(cursor.unpack(_BYTE_AND_RESERVED)[0], cursor.read_remaining())


def parse_certificate(body: bytes) -> Certificate:
    """Parse a CERT payload (RFC 7296, section 3.6)."""
    cursor = Cursor(body)
    return Certificate(cursor.read_uint8(), cursor.read_remaining())


def parse_certificate_request(body: bytes) -> CertificateRequest:
    """Parse a CERTREQ payload (RFC 7296, section 3.7)."""
    cursor = Cursor(body)
    encoding = cursor.read_uint8()
    return CertificateRequest(encoding, cursor.remaining() // _SHA1_BYTES if encoding in _HASHED_ENCODINGS else None)


def parse_authentication(body: bytes) -> Authentication:
    """Parse an AUTH payload (RFC 7296, section 3.8)."""
    cursor = Cursor(body)
    return Authentication(cursor.unpack(_BYTE_AND_RESERVED)[0], cursor.read_remaining())


def parse_notify(body: bytes) -> Notify:
    """Parse a notify payload (RFC 7296, section 3.10)."""
    return Notify(*parse_notify_fields(body))


def parse_notify_fields(body: bytes) -> tuple[int, bytes, int, bytes]:
    """The fields of `Notify` without the object, for loops over many messages."""
    cursor = Cursor(body)
    protocol, spi_size, kind = cursor.unpack(_PROTOCOL_AND_SPI)
    spi = cursor.read_bytes(spi_size) if spi_size else b""
    return kind, cursor.read_remaining(), protocol, spi


def parse_delete(body: bytes) -> Delete:
    """Parse a delete payload (RFC 7296, section 3.11); the number of SPIs follows from the lengths.

    Raises:
        WireError: bytes are missing, or the SPIs do not fill the payload.
    """
    cursor = Cursor(body)
    protocol, size, announced = cursor.unpack(_PROTOCOL_AND_SPI)
    count = cursor.remaining() // size if size else 0
    spis = tuple(cursor.read_bytes(size) for _ in range(count))
    if cursor.remaining():
        raise cursor.make_error(f"{cursor.remaining()} bytes follow {count} SPIs of {size} bytes")
    return Delete(protocol, spis, announced)


def compute_nat_detection_hash(spi_i: bytes, spi_r: bytes, address: bytes, port: int) -> bytes:
    """Data of NAT_DETECTION_*_IP for an address (4 or 16 bytes) and port (RFC 7296, section 2.23): SHA-1."""
    # late: slow to import, and few captures need it
    import hashlib

    # RFC 7296 requires SHA-1 here; it does not protect anything
    return hashlib.sha1(spi_i + spi_r + address + _PORT.pack(port), usedforsecurity=False).digest()
