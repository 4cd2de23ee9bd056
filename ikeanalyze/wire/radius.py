"""Parses the attributes of RADIUS packets (RFC 2865) that the analysis needs, never user names or passwords."""

from collections.abc import Mapping
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries.radius import RadiusAttribute
from ikeanalyze.wire.text import format_address

#: Code, identifier, length, authenticator.
_HEADER: Final = Struct(">BBH16s")
_ATTRIBUTE: Final = Struct(">BB")

_ADDRESS_BYTES: Final[Mapping[int, int]] = {RadiusAttribute.NAS_IP_ADDRESS: 4, RadiusAttribute.NAS_IPV6_ADDRESS: 16}


class RadiusPacket(msgspec.Struct, frozen=True):
    """Contents of a RADIUS packet (RFC 2865, section 3)."""

    code: int  # 1 Access-Request, 2 -Accept, 3 -Reject, 11 -Challenge; 0: the header is truncated
    identifier: int  # the same in a request and its response
    length: int  # bytes of the packet according to its header
    authenticator: bytes  # 16 bytes
    eap_message: bytes | None  # the joined EAP-Message attributes (RFC 3579, section 3.1)
    state: bytes | None  # the next request must return it (RFC 2865, section 5.24)
    calling_station_id: str | None  # the peer, as the NAS names it
    called_station_id: str | None  # the side of the NAS that the peer contacted
    nas_ip: str | None  # address in NAS-IP-Address or NAS-IPv6-Address
    proxied: bool  # it has a Proxy-State, which only proxies add (RFC 2865, section 5.33)
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_radius(data: bytes) -> RadiusPacket:
    """Parse a RADIUS packet. Never raises: `error` is set if something is missing.

    Bytes after the length in the header are padding (RFC 2865, section 3).
    """
    try:
        code, identifier, length, authenticator = Cursor(data).unpack(_HEADER)
    except WireError as problem:
        return RadiusPacket(0, 0, 0, b"", None, None, None, None, None, False, str(problem))
    eap: list[bytes] = []
    texts: dict[int, str] = {}
    state = nas_ip = error = None
    proxied = False
    cursor = Cursor(data, _HEADER.size, length)
    try:
        while cursor.remaining() > 0:
            kind, value = _parse_attribute(cursor)
            if kind == RadiusAttribute.EAP_MESSAGE:
                eap.append(value)
            elif kind == RadiusAttribute.STATE:
                state = value
            elif kind == RadiusAttribute.PROXY_STATE:
                proxied = True
            elif kind in (RadiusAttribute.CALLED_STATION_ID, RadiusAttribute.CALLING_STATION_ID):
                texts[kind] = value.decode("utf-8", "backslashreplace")
            elif _ADDRESS_BYTES.get(kind) == len(value):
                nas_ip = nas_ip or format_address(value)
        if length > len(data):
            error = f"the header announces {length} bytes, the packet has {len(data)}"
    except WireError as problem:
        error = str(problem)
    return RadiusPacket(
        code,
        identifier,
        length,
        authenticator,
        b"".join(eap) if eap else None,
        state,
        texts.get(RadiusAttribute.CALLING_STATION_ID),
        texts.get(RadiusAttribute.CALLED_STATION_ID),
        nas_ip,
        proxied,
        error,
    )


def _parse_attribute(cursor: Cursor) -> tuple[int, bytes]:
    """Type and value of the next attribute (RFC 2865, section 5)."""
    offset = cursor.position
    kind, length = cursor.unpack(_ATTRIBUTE)
    if length < _ATTRIBUTE.size:
        raise WireError(offset, f"attribute {kind} has a length of {length}, less than its 2-byte header")
    return kind, cursor.read_bytes(length - _ATTRIBUTE.size)
