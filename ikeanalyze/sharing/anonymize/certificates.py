"""Certificates and distinguished names with other names, keys and signatures, of the same structure and size.

Object identifiers, booleans, small numbers, and year and month of the validity identify no person and stay. All other
values are replaced, also those in extensions that are not known. Public keys remain keys of their algorithm and size.
"""

from typing import Final

from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries.oids import CURVES, EC_KEY
from ikeanalyze.wire.x509.der import (
    BIT_STRING,
    INTEGER,
    OBJECT_IDENTIFIER,
    SEQUENCE,
    DerElement,
    read_element,
    read_oid,
)

_BOOLEAN: Final = 0x01
_OCTET_STRING: Final = 0x04
_NULL: Final = 0x05
_ENUMERATED: Final = 0x0A
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
#: UTF8String, NumericString, PrintableString, TeletexString, IA5String, VisibleString, GeneralString,
#: UniversalString, BMPString.
_STRINGS: Final = frozenset({0x0C, 0x12, 0x13, 0x14, 0x16, 0x1A, 0x1B, 0x1C, 0x1E})
_CONSTRUCTED: Final = 0x20
_CONTEXT: Final = 0x80
#: iPAddress in a subject alternative name (RFC 5280, 4.2.1.6).
_IP_ADDRESS: Final = 0x87
_ADDRESS_BYTES: Final = (4, 16)
#: Numbers of up to one byte (versions, path lengths), and the usual exponents of RSA.
_EXPONENTS: Final = (b"\x03", b"\x01\x00\x01")
#: Bit strings of up to this many bytes are flags, such as the usage of a key.
_FLAGS_BYTES: Final = 3
_FIRST_OF_MONTH: Final = b"01000000Z"


def rewrite_der(data: bytes, pseudonyms: Pseudonyms) -> bytes:
    """DER data with the same structure and size; pseudorandom bytes if they are not valid DER."""
    try:
        return _rewrite(data, pseudonyms)
    except (WireError, RecursionError):
        return pseudonyms.map_bytes(data)


def _rewrite(data: bytes, pseudonyms: Pseudonyms) -> bytes:
    cursor = Cursor(data)
    out = bytearray()
    curve = _find_curve(data)
    while cursor.remaining():
        element = read_element(cursor)
        out += data[element.offset : cursor.position - len(element.content)]
        if curve is not None and element.tag == BIT_STRING:
            out += element.content[:1] + pseudonyms.map_curve_point(curve, element.content[1:])
        elif element.tag & _CONSTRUCTED:
            out += _rewrite(element.content, pseudonyms)
        else:
            out += _rewrite_value(element, pseudonyms)
    return bytes(out)


def _find_curve(data: bytes) -> str | None:
    """The curve if data are the contents of a SubjectPublicKeyInfo of an elliptic curve (RFC 5480, 2)."""
    try:
        algorithm = Cursor(read_element(Cursor(data), SEQUENCE).content)
        if read_oid(algorithm) == EC_KEY:
            return CURVES.get(read_oid(algorithm))
    except WireError:
        pass
    return None


def _rewrite_value(element: DerElement, pseudonyms: Pseudonyms) -> bytes:
    tag, content = element.tag, element.content
    if tag in (_BOOLEAN, _NULL, OBJECT_IDENTIFIER, _ENUMERATED):
        return content
    if tag == INTEGER:
        return _rewrite_number(content, pseudonyms)
    if tag == BIT_STRING:
        if len(content) <= _FLAGS_BYTES:
            return content
        return content[:1] + _rewrite_wrapped(content[1:], pseudonyms)
    if tag == _OCTET_STRING:
        return _rewrite_wrapped(content, pseudonyms)
    if tag in (_UTC_TIME, _GENERALIZED_TIME):
        return _rewrite_time(content, 4 if tag == _UTC_TIME else 6, pseudonyms)
    if tag == _IP_ADDRESS and len(content) in _ADDRESS_BYTES:
        return pseudonyms.map_address(content)
    if tag in _STRINGS or (tag & _CONTEXT and _is_printable(content)):
        return pseudonyms.map_text(content)
    return pseudonyms.map_bytes(content)


def _rewrite_number(content: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A number with as many bits and the same sign; odd, as the modulus of RSA must be."""
    if len(content) <= 1 or content in _EXPONENTS:
        return content
    if content[0] & 0x80:  # a negative serial number
        mapped = pseudonyms.map_bytes(content)
        return bytes([mapped[0] | 0x80]) + mapped[1:]
    bits = int.from_bytes(content, "big").bit_length()
    if bits <= 1:
        return content
    number = int.from_bytes(pseudonyms.map_bytes(content), "big") % (1 << bits - 1) | 1 << bits - 1 | 1
    return number.to_bytes(len(content), "big")


def _rewrite_wrapped(content: bytes, pseudonyms: Pseudonyms) -> bytes:
    """The contents of a bit string or octet string, which may be DER again."""
    try:
        return _rewrite(content, pseudonyms) if content[:1] and _is_der(content) else pseudonyms.map_bytes(content)
    except WireError:
        return pseudonyms.map_bytes(content)


def _is_der(content: bytes) -> bool:
    cursor = Cursor(content)
    try:
        read_element(cursor)
    except WireError:
        return False
    return not cursor.remaining()


def _rewrite_time(content: bytes, month_end: int, pseudonyms: Pseudonyms) -> bytes:
    if len(content) != month_end + len(_FIRST_OF_MONTH) or not content[:month_end].isdigit():
        return pseudonyms.map_text(content)
    return content[:month_end] + _FIRST_OF_MONTH


def _is_printable(content: bytes) -> bool:
    return all(32 <= byte < 127 for byte in content)
