"""Distinguished names: from a text as strongSwan writes them, and whether two are the same name.

strongSwan writes the parts in the order in which they are encoded, C=CH, O=Lab, CN=gw; RFC 4514, which our reports
follow, has the last one first. A text says not which of the two it means, so here it is always strongSwan's order.
"""

import re
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

#: strongSwan's words for attributes that RFC 4514 has no word for.
_WORDS: Final = {
    "E": NameOID.EMAIL_ADDRESS,
    "SN": NameOID.SERIAL_NUMBER,
    "S": NameOID.SURNAME,
    "G": NameOID.GIVEN_NAME,
    "T": NameOID.TITLE,
}
#: A comma that parts attributes, and the spaces around it; those that are escaped belong to a value.
_COMMA: Final = re.compile(r"(\\.)| *, *", re.DOTALL)


def encode_distinguished_name(text: str) -> x509.Name:
    """A distinguished name from "C=CH, O=Lab, CN=gw"; escapes are those of RFC 4514. `ValueError` if it is none."""
    plain = _COMMA.sub(lambda found: found[1] or ",", text.strip(" "))
    return x509.Name(reversed(x509.Name.from_rfc4514_string(plain, _WORDS).rdns))


def format_distinguished_name(data: bytes) -> str | None:
    """A DER distinguished name as `encode_distinguished_name` takes it; None if it is none."""
    name = _name(data)
    if name is None:
        return None
    words = {kind: word for word, kind in _WORDS.items()}
    return ", ".join(part.rfc4514_string(words) for part in name.rdns)


def names_equal(one: bytes, other: bytes) -> bool:
    """Whether two DER names have the same attributes in the same order, of whatever string types (RFC 5280, section 7.1).

    Upper and lower case count, which is stricter than the RFC.
    """
    if one == other:
        return True
    first, second = _name(one), _name(other)
    return first is not None and first == second


def _name(data: bytes) -> x509.Name | None:
    try:
        return x509.Name.from_bytes(data)
    except ValueError:
        return None
