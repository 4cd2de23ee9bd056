"""RADIUS packets (RFC 2865) as far as the analysis needs them. User names and passwords are never kept."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.text import format_address

#: Code, identifier, length, authenticator.
_HEADER: Final = Struct(">BBH16s")
_ATTRIBUTE: Final = Struct(">BB")

_NAS_IP_ADDRESS, _STATE, _CALLED_STATION_ID, _CALLING_STATION_ID, _PROXY_STATE = 4, 24, 30, 31, 33
_EAP_MESSAGE, _NAS_IPV6_ADDRESS = 79, 95
_ADDRESS_SIZES: Final = {_NAS_IP_ADDRESS: 4, _NAS_IPV6_ADDRESS: 16}


@dataclass(frozen=True, slots=True)
class RadiusPacket:
    """Contents of a RADIUS packet (RFC 2865, section 3)."""

    code: int  # 1 Access-Request, 2 -Accept, 3 -Reject, 11 -Challenge; 0: there is not even a header
    identifier: int  # a response has that of its request
    length: int  # bytes of the packet, as it says
    authenticator: bytes  # 16 bytes
    eap_message: bytes | None  # the EAP-Message attributes put together (RFC 3579, section 3.1)
    state: bytes | None  # to be returned in the next request (RFC 2865, section 5.24)
    calling_station_id: str | None  # the peer, as the NAS names it
    called_station_id: str | None  # the NAS's side that the peer called
    nas_ip: str | None  # the NAS's address by NAS-IP-Address or NAS-IPv6-Address
    proxied: bool  # it has a Proxy-State, which proxies alone add (RFC 2865, section 5.33)
    error: str | None  # why reading ended before the end; None: all was read


def parse_radius(data: bytes) -> RadiusPacket:
    """Read a RADIUS packet. Never raises: what cannot be read is missing, and `error` says why.

    Bytes behind the packet's own length are padding (RFC 2865, section 3).
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
            kind, value = _attribute(cursor)
            if kind == _EAP_MESSAGE:
                eap.append(value)
            elif kind == _STATE:
                state = value
            elif kind == _PROXY_STATE:
                proxied = True
            elif kind in (_CALLED_STATION_ID, _CALLING_STATION_ID):
                texts[kind] = value.decode("utf-8", "backslashreplace")
            elif _ADDRESS_SIZES.get(kind) == len(value):
                nas_ip = nas_ip or format_address(value)
        if length > len(data):
            error = f"the packet has {length} bytes by its header, {len(data)} are there"
    except WireError as problem:
        error = str(problem)
    return RadiusPacket(
        code,
        identifier,
        length,
        authenticator,
        b"".join(eap) if eap else None,
        state,
        texts.get(_CALLING_STATION_ID),
        texts.get(_CALLED_STATION_ID),
        nas_ip,
        proxied,
        error,
    )


def _attribute(cursor: Cursor) -> tuple[int, bytes]:
    """Type and value of the next attribute (RFC 2865, section 5)."""
    offset = cursor.position
    kind, length = cursor.unpack(_ATTRIBUTE)
    if length < _ATTRIBUTE.size:
        raise WireError(offset, f"attribute {kind} has a length of {length}, its header alone has 2")
    return kind, cursor.get_bytes(length - _ATTRIBUTE.size)
