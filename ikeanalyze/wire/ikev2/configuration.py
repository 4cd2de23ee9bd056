"""Parses the configuration payload: a client's requests and its gateway's replies (RFC 7296, section 3.15)."""

from collections.abc import Mapping
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.identification import format_subnet
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ConfigurationAttribute as Attribute
from ikeanalyze.wire.registries.ikev2 import ConfigurationType
from ikeanalyze.wire.text import escape_peer_text, format_address

_HEADER: Final = Struct(">B3x")
#: Type, length.
_ATTRIBUTE: Final = Struct(">HH")
#: The type of an attribute without the reserved bit (RFC 7296, section 3.15.1).
ATTRIBUTE_TYPE_MASK: Final = 0x7FFF

_TEXT_TYPES: Final = frozenset({Attribute.APPLICATION_VERSION, Attribute.INTERNAL_DNS_DOMAIN})
#: Valid sizes of non-empty values: addresses (4 or 16 bytes), IPv4 subnets with netmask (8), IPv6 addresses with the
#: length of a prefix (17), and seconds (RFC 7296, section 3.15.1; RFC 5739; RFC 7651).
_SIZES: Final[Mapping[int, int]] = {
    Attribute.INTERNAL_IP4_ADDRESS: 4,
    Attribute.INTERNAL_IP4_NETMASK: 4,
    Attribute.INTERNAL_IP4_DNS: 4,
    Attribute.INTERNAL_IP4_NBNS: 4,
    Attribute.INTERNAL_IP4_DHCP: 4,
    Attribute.INTERNAL_IP6_ADDRESS: 17,
    Attribute.INTERNAL_IP6_DNS: 16,
    Attribute.INTERNAL_IP6_DHCP: 16,
    Attribute.INTERNAL_IP4_SUBNET: 8,
    Attribute.INTERNAL_IP6_SUBNET: 17,
    Attribute.INTERNAL_IP6_PREFIX: 17,
    Attribute.P_CSCF_IP4_ADDRESS: 4,
    Attribute.P_CSCF_IP6_ADDRESS: 16,
    Attribute.TIMEOUT_PERIOD_FOR_LIVENESS_CHECK: 4,
}


class ConfigurationEntry(msgspec.Struct, frozen=True):
    """One attribute (RFC 7296, section 3.15.1)."""

    type: int
    data: bytes  # empty: requested without a preferred value

    @property
    def name(self) -> str:
        """Name of the type, such as INTERNAL_IP4_ADDRESS; its number if it has no name."""
        return get_name(Attribute, self.type)

    @property
    def fits(self) -> bool:
        """Whether the type allows values of this size."""
        size = _SIZES.get(self.type)
        return not self.data or size is None or len(self.data) == size

    @property
    def value(self) -> str | None:
        """The value as printable text (hex digits for other types); None if it is empty or its size is invalid."""
        data = self.data
        if not data or not self.fits:
            return None
        if self.type in _TEXT_TYPES:
            return escape_peer_text(data)
        if self.type == Attribute.SUPPORTED_ATTRIBUTES:
            cursor = Cursor(data)
            kinds = (cursor.read_uint16() & ATTRIBUTE_TYPE_MASK for _ in range(len(data) // 2))
            return "+".join(get_name(Attribute, kind) for kind in kinds)
        if self.type == Attribute.TIMEOUT_PERIOD_FOR_LIVENESS_CHECK:
            return f"{int.from_bytes(data, 'big')} s"
        match _SIZES.get(self.type):
            case 4 | 16:
                return format_address(data)
            case 8:
                return format_subnet(data[:4], data[4:])
            case 17:
                return f"{format_address(data[:16])}/{data[16]}"
            case _:
                return data.hex()


class Configuration(msgspec.Struct, frozen=True):
    """Contents of a CP payload."""

    type: int | None  # 1 request, 2 reply, 3 set, 4 acknowledgement; None: truncated before it
    entries: tuple[ConfigurationEntry, ...]  # in the sender's order
    error: str | None  # why parsing stopped early; None: everything was parsed

    @property
    def name(self) -> str:
        """REQUEST, REPLY, SET or ACK; the number of another type."""
        return "" if self.type is None else get_name(ConfigurationType, self.type).removeprefix("CFG_")


def parse_configuration(body: bytes) -> Configuration:
    """Parse a CP payload (RFC 7296, section 3.15); `body` follows its generic header. Never raises.

    Offsets in the error count from the beginning of `body`.
    """
    cursor = Cursor(body)
    kind = None
    entries: list[ConfigurationEntry] = []
    try:
        (kind,) = cursor.unpack(_HEADER)
        while cursor.remaining():
            attribute, size = cursor.unpack(_ATTRIBUTE)
            entries.append(ConfigurationEntry(attribute & ATTRIBUTE_TYPE_MASK, cursor.read_bytes(size)))
    except WireError as error:
        return Configuration(kind, tuple(entries), str(error))
    return Configuration(kind, tuple(entries), None)
