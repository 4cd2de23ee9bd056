"""EAP-SIM, EAP-AKA and EAP-AKA' (RFC 4186, RFC 4187, RFC 9048): subtype and attributes.

`parse_sim_aka` keeps only the sizes of challenges, responses and authentication codes. `read_attributes` and
`encode_sim_aka` are for a peer, which needs the values.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import SimAkaAttribute, SimAkaClientError, SimAkaNotification, SimAkaSubtype
from ikeanalyze.wire.text import escape_peer_text

#: Subtype, reserved.
_HEADER: Final = Struct(">Bxx")
#: Type, length.
_ATTRIBUTE: Final = Struct(">BB")
#: Bytes of a unit of the length of an attribute.
_UNIT: Final = 4
#: Attributes whose value is the length of a text, then the text and padding.
_TEXT_TYPES: Final = frozenset({SimAkaAttribute.AT_IDENTITY, SimAkaAttribute.AT_KDF_INPUT})
_NUMBER_TYPES: Final = frozenset(
    {
        SimAkaAttribute.AT_NOTIFICATION, SimAkaAttribute.AT_CLIENT_ERROR_CODE, SimAkaAttribute.AT_KDF,
        SimAkaAttribute.AT_SELECTED_VERSION,
    }
)  # fmt: skip
#: Attributes in a description; a hostile packet can hold thousands.
_MAX_ATTRIBUTES: Final = 12


class SimAkaEntry(msgspec.Struct, frozen=True):
    """One attribute (RFC 4187, section 8.1)."""

    type: int
    value_bytes: int  # after type and length, including padding
    value: int | str | None  # number (AT_NOTIFICATION ...) or text (AT_IDENTITY, AT_KDF_INPUT); None: not kept

    @property
    def name(self) -> str:
        """Name of the type, such as AT_RAND; its number if it has no name."""
        return get_name(SimAkaAttribute, self.type)

    def describe(self) -> str:
        """The name, with the value if it is a number: AT_RAND, AT_NOTIFICATION success, AT_KDF 1."""
        if not isinstance(self.value, int):
            return self.name
        match self.type:
            case SimAkaAttribute.AT_NOTIFICATION:
                value = get_name(SimAkaNotification, self.value)
            case SimAkaAttribute.AT_CLIENT_ERROR_CODE:
                value = get_name(SimAkaClientError, self.value)
            case _:
                value = str(self.value)
        return f"{self.name} {value}"


class SimAka(msgspec.Struct, frozen=True):
    """Data of a packet of EAP-SIM, EAP-AKA or EAP-AKA'."""

    subtype: int  # 1 AKA challenge, 5 identity, 10 SIM start, 11 SIM challenge ...
    attributes: tuple[SimAkaEntry, ...]

    def describe(self) -> str:
        """Subtype and attributes: Challenge (AT_RAND, AT_AUTN, AT_MAC)."""
        name = get_name(SimAkaSubtype, self.subtype)
        names = [entry.describe() for entry in self.attributes[:_MAX_ATTRIBUTES]]
        if len(self.attributes) > _MAX_ATTRIBUTES:
            names.append(f"{len(self.attributes) - _MAX_ATTRIBUTES} more")
        return f"{name} ({', '.join(names)})" if names else name


def parse_sim_aka(cursor: Cursor) -> SimAka:
    """Parse the data of a packet from its subtype on (RFC 4187, section 8.1).

    Raises:
        WireError: the data are truncated or an attribute has a length of 0.
    """
    (subtype,) = cursor.unpack(_HEADER)
    entries = [SimAkaEntry(kind, size, _parse_value(kind, cursor)) for kind, size in _iterate_attributes(cursor)]
    return SimAka(subtype, tuple(entries))


def read_attributes(data: bytes) -> tuple[int, dict[int, bytes]]:
    """Return the subtype of a packet's data, and the values by attribute type, from the byte after the length.

    Of a repeated attribute, the last value counts. Values include reserved bytes and padding.

    Raises:
        WireError: the data are truncated or an attribute has a length of 0.
    """
    cursor = Cursor(data)
    (subtype,) = cursor.unpack(_HEADER)
    return subtype, {kind: cursor.read_remaining() for kind, _ in _iterate_attributes(cursor)}


def clear_mac(data: bytes) -> bytes:
    """Return a packet's data with zeros as the value of AT_MAC, over which the MAC is computed (RFC 4187, 10.15).

    Raises:
        WireError: as `read_attributes`.
    """
    cursor = Cursor(data, _HEADER.size)
    for kind, size in _iterate_attributes(cursor):
        if kind == SimAkaAttribute.AT_MAC:
            data = data[: cursor.position] + bytes(size) + data[cursor.position + size :]
    return data


def encode_sim_aka(subtype: int, attributes: Iterable[tuple[int, bytes]]) -> bytes:
    """Return a packet's data from its subtype on. Values are padded with zeros to the unit of the length."""
    encoded = _HEADER.pack(subtype)
    for kind, value in attributes:
        units = -(-(_ATTRIBUTE.size + len(value)) // _UNIT)
        encoded += _ATTRIBUTE.pack(kind, units) + value.ljust(units * _UNIT - _ATTRIBUTE.size, b"\0")
    return encoded


def _iterate_attributes(cursor: Cursor) -> Iterator[tuple[int, int]]:
    """Yield type and size of each attribute; the cursor is restricted to its value meanwhile."""
    while cursor.remaining():
        offset = cursor.position
        kind, units = cursor.unpack(_ATTRIBUTE)
        if not units:
            raise WireError(offset, f"attribute {kind} has a length of 0")
        size = units * _UNIT - _ATTRIBUTE.size
        with cursor.restrict_to(size):
            yield kind, size


def _parse_value(kind: int, cursor: Cursor) -> int | str | None:
    if kind in _NUMBER_TYPES:
        return cursor.read_uint16()
    if kind in _TEXT_TYPES:
        return escape_peer_text(cursor.read_bytes(cursor.read_uint16()))
    return None
