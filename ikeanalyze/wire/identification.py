"""Formats identities of IKEv2 (RFC 7296, section 3.5) and IKEv1 (RFC 2407, section 4.6.2) as text."""

from collections.abc import Mapping
from typing import Final

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.registries.ikev1 import Ikev1IdType
from ikeanalyze.wire.registries.ikev2 import IdType
from ikeanalyze.wire.text import escape_peer_text, format_address
from ikeanalyze.wire.x509.names import format_distinguished_name, format_general_name

_FC_NAME_BYTES: Final = 8
#: Bytes of one address, by type. IKEv2 has the same numbers as IKEv1, except for 12 (a list in IKEv1) and 13.
_ADDRESSES: Final[Mapping[int, int]] = {Ikev1IdType.ID_IPV4_ADDR: 4, Ikev1IdType.ID_IPV6_ADDR: 16}
_SUBNETS: Final[Mapping[int, int]] = {Ikev1IdType.ID_IPV4_ADDR_SUBNET: 4, Ikev1IdType.ID_IPV6_ADDR_SUBNET: 16}
_RANGES: Final[Mapping[int, int]] = {Ikev1IdType.ID_IPV4_ADDR_RANGE: 4, Ikev1IdType.ID_IPV6_ADDR_RANGE: 16}


def format_identity(kind: int, data: bytes) -> str | None:
    """Format an identity of type `kind` as printable text; None if the data are invalid for the type.

    Subnets are formatted as 10.0.0.0/24, ranges as 10.0.0.1-10.0.0.9, distinguished names as in RFC 4514, key IDs and
    unknown types as hex digits, and ID_NULL, which has no data, as "NULL".
    """
    if kind in _ADDRESSES:
        return format_address(data) if len(data) == _ADDRESSES[kind] else None
    if kind in _SUBNETS or kind in _RANGES:
        return _format_address_pair(kind, data)
    if kind in (IdType.ID_FQDN, IdType.ID_RFC822_ADDR):
        return escape_peer_text(data)
    if kind in (IdType.ID_DER_ASN1_DN, IdType.ID_DER_ASN1_GN):
        try:
            return format_distinguished_name(data) if kind == IdType.ID_DER_ASN1_DN else format_general_name(data)
        except WireError:
            return None
    if kind == IdType.ID_FC_NAME and len(data) == _FC_NAME_BYTES:
        return data.hex(":")
    if kind == IdType.ID_NULL:
        return None if data else "NULL"
    return data.hex()


def _format_address_pair(kind: int, data: bytes) -> str | None:
    size = _SUBNETS.get(kind) or _RANGES[kind]
    if len(data) != 2 * size:
        return None
    first, second = data[:size], data[size:]
    if kind in _SUBNETS:
        bits = get_prefix_length(second)
        return f"{format_address(first)}/{format_address(second) if bits is None else bits}"
    return f"{format_address(first)}-{format_address(second)}"


def get_prefix_length(mask: bytes) -> int | None:
    """Prefix length of a netmask in bits, such as 24 for 255.255.255.0; None if the netmask is not a prefix."""
    host_mask = int.from_bytes(mask, "big") ^ (1 << 8 * len(mask)) - 1
    return None if host_mask & (host_mask + 1) else 8 * len(mask) - host_mask.bit_length()
