"""Formats distinguished names and general names of X.509 as text (RFC 4514; RFC 5280, section 4.2.1.6).

cryptography.x509 is not used because it rejects names with invalid strings and leaves unprintable characters in them.
"""

from typing import Final

from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries.oids import NAME_PARTS
from ikeanalyze.wire.text import escape_peer_text, format_address
from ikeanalyze.wire.x509.der import SEQUENCE, SET, DerElement, parse_element, read_element, read_oid

#: Encodings by tag: UTF8String, NumericString, PrintableString, TeletexString, IA5String, VisibleString,
#: UniversalString, BMPString. Strings that should be ASCII are decoded as UTF-8.
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x12: "utf-8",
    0x13: "utf-8",
    0x14: "latin-1",
    0x16: "utf-8",
    0x1A: "utf-8",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED: Final = frozenset('",+;<>\\')

#: Tags of general names.
_RFC822, _DNS, _DIRECTORY, _URI, _ADDRESS = 0x81, 0x82, 0xA4, 0x86, 0x87


def format_distinguished_name(data: bytes) -> str:
    """Format a DER distinguished name as in RFC 4514, section 2: the last part first.

    Unknown types are dotted, values that are not text begin with "#". Unprintable characters are escaped too.

    Raises:
        WireError: the data are not a distinguished name.
    """
    return format_distinguished_name_content(parse_element(data, SEQUENCE).content)


def format_distinguished_name_content(content: bytes) -> str:
    """Format the content of a distinguished name without its tag and length; raises as above."""
    cursor = Cursor(content)
    parts = []
    while cursor.remaining():
        parts.append(_format_relative_name(read_element(cursor, SET).content))
    return ",".join(reversed(parts))


def _format_relative_name(content: bytes) -> str:
    cursor = Cursor(content)
    parts = []
    while cursor.remaining():
        pair = read_element(cursor, SEQUENCE).content
        inner = Cursor(pair)
        kind = read_oid(inner)
        value = _format_value(read_element(inner), pair)
        parts.append(f"{NAME_PARTS.get(kind, kind)}={value}")
    return "+".join(parts)


def _format_value(element: DerElement, pair: bytes) -> str:
    encoding = _ENCODINGS.get(element.tag)
    if encoding is None:
        # including tag and length
        return f"#{Cursor(pair, element.offset).read_remaining().hex()}"
    text = element.content.decode(encoding, "replace")
    last_index = len(text) - 1
    return "".join(_escape(character, index == 0, index == last_index) for index, character in enumerate(text))


def _escape(character: str, first: bool, last: bool) -> str:
    if character in _ESCAPED or (character == " " and (first or last)) or (character == "#" and first):
        return f"\\{character}"
    if character.isprintable():
        return character
    # surrogates, which UTF-16 and UTF-32 can contain, are invalid in UTF-8
    return "".join(f"\\{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def format_general_name(data: bytes) -> str:
    """Format a DER general name: address, host name, URI or distinguished name; "#" and hex digits for other kinds.

    Raises:
        WireError: the data are not a general name.
    """
    element = parse_element(data)
    if element.tag in (_RFC822, _DNS, _URI):
        return escape_peer_text(element.content)
    if element.tag == _DIRECTORY:
        return format_distinguished_name(element.content)
    address = format_address(element.content) if element.tag == _ADDRESS else None
    return address or f"#{element.content.hex()}"
