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
    if (size := _SUBNETS.get(kind)) is not None:
        return format_subnet(data[:size], data[size:]) if len(data) == 2 * size else None
    if (size := _RANGES.get(kind)) is not None:
        return f"{format_address(data[:size])}-{format_address(data[size:])}" if len(data) == 2 * size else None
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


def format_subnet(address: bytes, mask: bytes) -> str:
    """Format a subnet as 10.0.0.0/24, or with its netmask if that is not a prefix."""
    host_mask = int.from_bytes(mask, "big") ^ (1 << 8 * len(mask)) - 1
    is_prefix = not host_mask & (host_mask + 1)
    length = 8 * len(mask) - host_mask.bit_length()
    return f"{format_address(address)}/{length if is_prefix else format_address(mask)}"
