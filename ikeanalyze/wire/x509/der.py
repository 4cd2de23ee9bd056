"""DER (ITU-T X.690) as far as algorithm identifiers, names and the outline of a certificate need it.

Read by hand and not with cryptography.x509, which refuses the whole of a certificate that is cut or has one bad field.
All raise `WireError` where the bytes are not DER.
"""

from dataclasses import dataclass
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError

INTEGER: Final = 0x02
BIT_STRING: Final = 0x03
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31

_LONG_TAG: Final = 0x1F
_LONG_LENGTH: Final = 0x80
_LENGTH_BYTES: Final = 4
_MORE: Final = 0x80
#: Bytes of the longest object identifier that is read: none in use has half of them, and numbers without bound
#: would take time without bound.
_LONGEST_OID: Final = 64


@dataclass(frozen=True, slots=True)
class DerElement:
    """One value with its tag (X.690, section 8.1)."""

    tag: int  # class, constructed bit and number, as on the wire
    content: bytes
    offset: int  # of the tag, in bytes from the beginning of the data


def read_element(cursor: Cursor, expected: int | None = None) -> DerElement:
    """Next element. `expected`: the tag that it has to have."""
    offset = cursor.position
    tag = cursor.get_uint8()
    if tag & _LONG_TAG == _LONG_TAG:
        raise WireError(offset, "an ASN.1 tag of more than one byte")
    length = cursor.get_uint8()
    if length & _LONG_LENGTH:
        count = length & ~_LONG_LENGTH
        if not 0 < count <= _LENGTH_BYTES:
            raise WireError(offset, f"an ASN.1 length in {count} bytes")
        length = int.from_bytes(cursor.get_bytes(count), "big")
    content = cursor.get_bytes(length)
    if expected is not None and tag != expected:
        raise WireError(offset, f"ASN.1 tag {expected:#04x} is expected, not {tag:#04x}")
    return DerElement(tag, content, offset)


def parse_element(data: bytes, expected: int | None = None) -> DerElement:
    """The one element that the data are; bytes behind it are an error."""
    cursor = Cursor(data)
    element = read_element(cursor, expected)
    if cursor.remaining():
        raise cursor.make_error(f"{cursor.remaining()} bytes follow the ASN.1 value")
    return element


def read_oid(cursor: Cursor) -> str:
    """Next element, an object identifier, in dotted form (X.690, section 8.19)."""
    element = read_element(cursor, OBJECT_IDENTIFIER)
    content = element.content
    if not content or len(content) > _LONGEST_OID or content[-1] & _MORE:
        raise WireError(element.offset, "no object identifier")
    numbers = []
    value = 0
    for byte in content:
        value = value << 7 | byte & ~_MORE
        if not byte & _MORE:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))
