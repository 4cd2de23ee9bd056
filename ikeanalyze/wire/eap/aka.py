"""EAP-SIM, EAP-AKA and EAP-AKA' (RFC 4186, RFC 4187, RFC 9048): subtype and attributes. Challenges, responses and
check values are not kept, only how long they are.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.eap import SimAkaAttribute, SimAkaClientError, SimAkaNotification, SimAkaSubtype
from ikeanalyze.wire.text import escape_peer_text

#: Subtype, reserved.
_HEAD: Final = Struct(">Bxx")
_ATTRIBUTE: Final = Struct(">BB")
#: Lengths of attributes count in these.
_UNIT: Final = 4
#: Length of the value without its padding, then the value.
_COUNTED_TEXTS: Final = frozenset({SimAkaAttribute.AT_IDENTITY, SimAkaAttribute.AT_KDF_INPUT})
_NUMBERS: Final = frozenset(
    {
        SimAkaAttribute.AT_NOTIFICATION, SimAkaAttribute.AT_CLIENT_ERROR_CODE, SimAkaAttribute.AT_KDF,
        SimAkaAttribute.AT_SELECTED_VERSION,
    }
)  # fmt: skip
#: Attributes that a summary names; a hostile packet has room for thousands.
_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class SimAkaEntry:
    """One attribute (RFC 4187, section 8.1)."""

    type: int
    value_bytes: int  # behind type and length, padding included
    value: int | str | None  # of AT_NOTIFICATION and the like a number, of AT_IDENTITY and AT_KDF_INPUT text; else None

    @property
    def name(self) -> str:
        """AT_RAND; the number of a type without a name."""
        return get_name(SimAkaAttribute, self.type)

    def describe(self) -> str:
        """AT_RAND; with its value where that is a number: AT_NOTIFICATION success, AT_KDF 1."""
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


@dataclass(frozen=True, slots=True)
class SimAka:
    """What such a packet says."""

    subtype: int  # 1 AKA challenge, 5 identity, 10 SIM start, 11 SIM challenge ...
    attributes: tuple[SimAkaEntry, ...]

    def describe(self) -> str:
        """Challenge (AT_RAND, AT_AUTN, AT_MAC)."""
        name = get_name(SimAkaSubtype, self.subtype)
        names = [entry.describe() for entry in self.attributes[:_SHOWN]]
        if len(self.attributes) > _SHOWN:
            names.append(f"{len(self.attributes) - _SHOWN} more")
        return f"{name} ({', '.join(names)})" if names else name


def parse_sim_aka(cursor: Cursor) -> SimAka:
    """The data of such a packet, from its subtype on (RFC 4187, section 8.1); `WireError` if it is cut."""
    (subtype,) = cursor.unpack(_HEAD)
    entries = []
    while cursor.remaining():
        offset = cursor.position
        kind, units = cursor.unpack(_ATTRIBUTE)
        if not units:
            raise WireError(offset, f"attribute {kind} has a length of 0, its header alone has 1")
        size = units * _UNIT - _ATTRIBUTE.size
        with cursor.restrict_to(size):
            entries.append(SimAkaEntry(kind, size, _value(kind, cursor)))
    return SimAka(subtype, tuple(entries))


def _value(kind: int, cursor: Cursor) -> int | str | None:
    if kind in _NUMBERS:
        return cursor.get_uint16()
    if kind in _COUNTED_TEXTS:
        return escape_peer_text(cursor.get_bytes(cursor.get_uint16()))
    return None
