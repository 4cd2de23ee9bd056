"""The configuration payload: what a client asks of its gateway and gets (RFC 7296, section 3.15)."""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.identification import get_prefix_length
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ConfigurationAttribute as Attribute
from ikeanalyze.wire.registries.ikev2 import ConfigurationType
from ikeanalyze.wire.text import escape_peer_text, format_address

_HEAD: Final = Struct(">B3x")
_ENTRY: Final = Struct(">HH")
#: The reserved bit before the attribute type.
_TYPE: Final = 0x7FFF

_ADDRESSES: Final = frozenset(
    {
        Attribute.INTERNAL_IP4_ADDRESS, Attribute.INTERNAL_IP4_NETMASK, Attribute.INTERNAL_IP4_DNS,
        Attribute.INTERNAL_IP4_NBNS, Attribute.INTERNAL_IP4_DHCP, Attribute.P_CSCF_IP4_ADDRESS,
        Attribute.INTERNAL_IP6_DNS, Attribute.INTERNAL_IP6_DHCP, Attribute.P_CSCF_IP6_ADDRESS,
    }
)  # fmt: skip
#: An address and the length of a prefix in one byte.
_PREFIXED: Final = frozenset(
    {Attribute.INTERNAL_IP6_ADDRESS, Attribute.INTERNAL_IP6_SUBNET, Attribute.INTERNAL_IP6_PREFIX}
)
_TEXTS: Final = frozenset({Attribute.APPLICATION_VERSION, Attribute.INTERNAL_DNS_DOMAIN})
#: Sizes that RFC 7296, section 3.15.1, RFC 5739 and RFC 7651 allow where there is a value.
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
_IPV4: Final = 4
_IPV6: Final = 16


@dataclass(frozen=True, slots=True)
class ConfigurationEntry:
    """One attribute (RFC 7296, section 3.15.1)."""

    type: int
    data: bytes  # empty: asked for, with no wish for a value

    @property
    def name(self) -> str:
        """INTERNAL_IP4_ADDRESS; the number of a type without a name."""
        return get_name(Attribute, self.type)

    @property
    def fits(self) -> bool:
        """The value has a size that its type may have."""
        size = _SIZES.get(self.type)
        return not self.data or size is None or len(self.data) == size

    @property
    def value(self) -> str | None:
        """The value as text, fit to be shown; None if there is none or it does not fit the type.

        Hex digits for types without a rule.
        """
        data = self.data
        if not data or not self.fits:
            return None
        if self.type in _ADDRESSES:
            return format_address(data)
        if self.type in _PREFIXED:
            return f"{format_address(data[:_IPV6])}/{data[_IPV6]}"
        if self.type == Attribute.INTERNAL_IP4_SUBNET:
            bits = get_prefix_length(data[_IPV4:])
            return f"{format_address(data[:_IPV4])}/{format_address(data[_IPV4:]) if bits is None else bits}"
        if self.type in _TEXTS:
            return escape_peer_text(data)
        if self.type == Attribute.SUPPORTED_ATTRIBUTES:
            cursor = Cursor(data)
            kinds = (cursor.get_uint16() & _TYPE for _ in range(len(data) // 2))
            return "+".join(get_name(Attribute, kind) for kind in kinds)
        if self.type == Attribute.TIMEOUT_PERIOD_FOR_LIVENESS_CHECK:
            return f"{int.from_bytes(data, 'big')} s"
        return data.hex()


@dataclass(frozen=True, slots=True)
class Configuration:
    """What could be read of a CP payload."""

    type: int | None  # 1 request, 2 reply, 3 set, 4 acknowledgement; None: not even that is there
    entries: tuple[ConfigurationEntry, ...]  # in the sender's order
    error: str | None  # why reading ended before the end; None: all was read

    @property
    def name(self) -> str:
        """REQUEST, REPLY, SET or ACK; the number of another type."""
        return "" if self.type is None else get_name(ConfigurationType, self.type).removeprefix("CFG_")


def parse_configuration(body: bytes) -> Configuration:
    """Attributes of a CP payload (RFC 7296, section 3.15); `body` is what follows its generic header. Never
    raises. Offsets in the error are of `body`.
    """
    cursor = Cursor(body)
    kind = None
    entries: list[ConfigurationEntry] = []
    try:
        (kind,) = cursor.unpack(_HEAD)
        while cursor.remaining():
            attribute, size = cursor.unpack(_ENTRY)
            entries.append(ConfigurationEntry(attribute & _TYPE, cursor.get_bytes(size)))
    except WireError as error:
        return Configuration(kind, tuple(entries), str(error))
    return Configuration(kind, tuple(entries), None)
