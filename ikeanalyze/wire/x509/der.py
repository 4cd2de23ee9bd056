"""Parses DER (ITU-T X.690) for algorithm identifiers, names and certificates.

cryptography.x509 is not used here because it rejects a whole certificate that is truncated or has one invalid field.
All functions raise `WireError` for invalid DER.
"""

from typing import Final

from msgspec import Struct

from ikeanalyze.wire.cursor import Cursor, WireError

INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG_TAG: Final = 0x1F
_LONG_LENGTH: Final = 0x80
_MAX_LENGTH_BYTES: Final = 4
_MORE: Final = 0x80
#: Longest object identifier; those in use have less than half of it. Longer numbers would take unlimited time.
_MAX_OID_BYTES: Final = 64


class DerElement(Struct, frozen=True):
    """One value with its tag (X.690, section 8.1)."""

    tag: int  # class, constructed bit and number, as transmitted
    content: bytes
    offset: int  # of the tag, in bytes from the beginning of the data


def read_element(cursor: Cursor, expected: int | None = None) -> DerElement:
    """Read the next element. `expected`: its required tag."""
    offset = cursor.position
    tag = cursor.read_uint8()
    if tag & _LONG_TAG == _LONG_TAG:
        raise WireError(offset, "ASN.1 tag of more than one byte")
    length = cursor.read_uint8()
    if length & _LONG_LENGTH:
        count = length & ~_LONG_LENGTH
        if not 0 < count <= _MAX_LENGTH_BYTES:
            raise WireError(offset, f"ASN.1 length of {count} bytes")
        length = int.from_bytes(cursor.read_bytes(count), "big")
    content = cursor.read_bytes(length)
    if expected is not None and tag != expected:
        raise WireError(offset, f"ASN.1 tag {tag:#04x} instead of {expected:#04x}")
    return DerElement(tag, content, offset)


def parse_element(data: bytes, expected: int | None = None) -> DerElement:
    """Parse data that consist of one element; more data are an error."""
    cursor = Cursor(data)
    element = read_element(cursor, expected)
    if cursor.remaining():
        raise cursor.make_error(f"{cursor.remaining()} bytes follow the ASN.1 value")
    return element


def read_oid(cursor: Cursor) -> str:
    """Read an object identifier and return it in dotted form (X.690, section 8.19)."""
    element = read_element(cursor, OBJECT_IDENTIFIER)
    content = element.content
    if not content or len(content) > _MAX_OID_BYTES or content[-1] & _MORE:
        raise WireError(element.offset, "invalid object identifier")
    numbers = []
    value = 0
    for byte in content:
        value = value << 7 | byte & ~_MORE
        if not byte & _MORE:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
