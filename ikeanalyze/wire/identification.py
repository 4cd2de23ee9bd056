"""Who a peer says it is: identities of IKEv2 and IKEv1 as text (RFC 7296, section 3.5; RFC 2407, section 4.6.2)."""

from typing import Final

from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.text import escape_peer_text, format_address
from ikeanalyze.wire.x509.names import format_distinguished_name, format_general_name

# numbers of both versions, but for 12 (IKEv1: a list) and 13 (IKEv2 alone)
_IPV4, _FQDN, _MAIL, _IPV4_SUBNET, _IPV6, _IPV6_SUBNET, _IPV4_RANGE, _IPV6_RANGE = range(1, 9)
_DN, _GENERAL_NAME, _KEY_ID, _FC_NAME, _NULL = range(9, 14)
_FC_BYTES: Final = 8

#: Bytes of one address, by type.
_ADDRESSES: Final = {_IPV4: 4, _IPV6: 16}
_SUBNETS: Final = {_IPV4_SUBNET: 4, _IPV6_SUBNET: 16}
_RANGES: Final = {_IPV4_RANGE: 4, _IPV6_RANGE: 16}


def format_identity(kind: int, data: bytes) -> str | None:
    """An identity as text, fit to be shown; None if the data do not fit the type.

    Addresses, subnets as 10.0.0.0/24 and ranges as 10.0.0.1-10.0.0.9; names as they are; distinguished names
    as in RFC 4514; key IDs and types without a rule in hex digits; "NULL" for the type that has no data.
    """
    if kind in _ADDRESSES:
        return format_address(data) if len(data) == _ADDRESSES[kind] else None
    if kind in _SUBNETS or kind in _RANGES:
        return _pair_text(kind, data)
    if kind in (_FQDN, _MAIL):
        return escape_peer_text(data)
    if kind in (_DN, _GENERAL_NAME):
        try:
            return format_distinguished_name(data) if kind == _DN else format_general_name(data)
        except WireError:
            return None
    if kind == _FC_NAME and len(data) == _FC_BYTES:
        return data.hex(":")
    if kind == _NULL:
        return None if data else "NULL"
    return data.hex()


def _pair_text(kind: int, data: bytes) -> str | None:
    size = _SUBNETS.get(kind) or _RANGES[kind]
    if len(data) != 2 * size:
        return None
    first, second = data[:size], data[size:]
    if kind in _SUBNETS:
        bits = get_prefix_length(second)
        return f"{format_address(first)}/{format_address(second) if bits is None else bits}"
    return f"{format_address(first)}-{format_address(second)}"


def get_prefix_length(mask: bytes) -> int | None:
    """Bits of the prefix that a netmask leaves, as 24 for 255.255.255.0; None if it is no prefix."""
    host = int.from_bytes(mask, "big") ^ (1 << 8 * len(mask)) - 1
    return None if host & (host + 1) else 8 * len(mask) - host.bit_length()
