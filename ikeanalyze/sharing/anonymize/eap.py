"""EAP and RADIUS packets with other identities and contents, of the same structure and size.

EAP keeps code, identifier, length, type and the fields that describe the conversation (flags of TLS, operations of
MSCHAPv2, types of attributes); identities become pseudonyms, all else pseudorandom bytes. RADIUS keeps the values of
attributes that describe a service, and replaces all others by the same rules.
"""

from struct import Struct
from typing import Final

from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms
from ikeanalyze.wire.registries.eap import SIM_AKA_METHODS, TLS_METHODS, EapCode, EapType
from ikeanalyze.wire.registries.radius import RadiusAttribute

_EAP_HEADER: Final = Struct(">BBH")
_LENGTH_INCLUDED: Final = 0x80
_MSCHAP_HEADER: Final = 4
_SIM_AKA_HEADER: Final = 3
_AT_IDENTITY: Final = 14

_RADIUS_HEADER: Final = 20
_CODE_TO_LENGTH: Final = 4
#: RADIUS attributes whose values stay (RFC 2865, RFC 2866, RFC 2869): numbers that describe the service, and netmasks.
_KEPT: Final = frozenset({5, 6, 7, 9, 10, 12, 13, 15, 16, 27, 28, 29, 37, 40, 41, 42, 43, 45, 46, 47, 48, 49, 51, 61})
#: Attributes with an address.
_ADDRESSES: Final = frozenset({4, 8, 14, 95, 98, 168})
#: Attributes with text for people or names.
_TEXTS: Final = frozenset({1, 11, 18, 22, 30, 31, 32, 34, 35, 44, 50, 60, 63, 66, 67, 77, 87, 88, 90, 91})
_VENDOR_SPECIFIC: Final = 26
_VENDOR_BYTES: Final = 4


def rewrite_eap(data: bytes, pseudonyms: Pseudonyms) -> bytes:
    """An EAP packet (RFC 3748), complete or truncated."""
    if len(data) <= _EAP_HEADER.size or data[0] not in (EapCode.REQUEST, EapCode.RESPONSE):
        return data[: _EAP_HEADER.size] + pseudonyms.map_bytes(data[_EAP_HEADER.size :])
    end = min(max(_EAP_HEADER.unpack_from(data)[2], _EAP_HEADER.size + 1), len(data))
    kind, content = data[4], data[5:end]
    if kind == EapType.IDENTITY:
        content = pseudonyms.map_text(content)
    elif kind == EapType.NAK:
        pass  # numbers of methods
    else:
        kept = _count_kept(kind, content)
        content = content[:kept] + _rewrite_method(kind, content[kept:], pseudonyms)
    return data[:5] + content + pseudonyms.map_bytes(data[end:])


def _count_kept(kind: int, content: bytes) -> int:
    """Bytes at the start of the data of a method that describe the conversation."""
    if kind in TLS_METHODS:
        return 5 if content[:1] and content[0] & _LENGTH_INCLUDED else 1
    if kind == EapType.EXPANDED:
        return 7  # vendor and its type
    if kind == EapType.MSCHAPV2:
        return _MSCHAP_HEADER + (content[0] in (1, 2) if content else 0)  # with the size of the challenge or response
    if kind == EapType.MD5:
        return 1  # size of the value
    return _SIM_AKA_HEADER if kind in SIM_AKA_METHODS else 0


def _rewrite_method(kind: int, content: bytes, pseudonyms: Pseudonyms) -> bytes:
    if kind not in SIM_AKA_METHODS:
        return pseudonyms.map_bytes(content)
    out, at = bytearray(), 0
    # attributes: type, length in words, then mostly a length in bytes or a reserved field (RFC 4187, 8.1)
    while at + 4 <= len(content) and content[at + 1]:
        size = 4 * content[at + 1]
        value = content[at + 4 : at + size]
        mapped = pseudonyms.map_text(value) if content[at] == _AT_IDENTITY else pseudonyms.map_bytes(value)
        out += content[at : at + 4] + mapped
        at += size
    return bytes(out) + pseudonyms.map_bytes(content[at:])


def rewrite_radius(data: bytes, pseudonyms: Pseudonyms) -> bytes:
    """A RADIUS packet (RFC 2865), complete or truncated. Authenticators become pseudorandom."""
    if len(data) < _RADIUS_HEADER:
        return data[:_CODE_TO_LENGTH] + pseudonyms.map_bytes(data[_CODE_TO_LENGTH:])
    end = min(max(int.from_bytes(data[2:4], "big"), _RADIUS_HEADER), len(data))
    out = bytearray(data[:_CODE_TO_LENGTH] + pseudonyms.map_bytes(data[_CODE_TO_LENGTH:_RADIUS_HEADER]))
    eap_at: list[tuple[int, int]] = []  # begin and end of the values of EAP-Message
    at = _RADIUS_HEADER
    while at + 2 <= end and data[at + 1] >= 2:
        stop = min(at + data[at + 1], end)
        out += data[at : at + 2]
        value = data[at + 2 : stop]
        if data[at] == RadiusAttribute.EAP_MESSAGE:
            eap_at.append((at + 2, stop))
            out += value
        else:
            out += _rewrite_attribute(data[at], value, pseudonyms)
        at = stop
    out += pseudonyms.map_bytes(data[at:])
    eap = rewrite_eap(b"".join(data[begin:stop] for begin, stop in eap_at), pseudonyms)
    for begin, stop in eap_at:
        out[begin:stop], eap = eap[: stop - begin], eap[stop - begin :]
    return bytes(out)


def _rewrite_attribute(kind: int, value: bytes, pseudonyms: Pseudonyms) -> bytes:
    if kind in _KEPT and len(value) == 4:
        return value
    if kind in _ADDRESSES and len(value) in (4, 16):
        return pseudonyms.map_address(value)
    if kind in _TEXTS:
        return pseudonyms.map_text(value)
    if kind != _VENDOR_SPECIFIC or len(value) < _VENDOR_BYTES + 2:
        return pseudonyms.map_bytes(value)
    # the vendor, and type and length of its first attribute (RFC 2865, 5.26)
    kept = _VENDOR_BYTES + 2
    return value[:kept] + pseudonyms.map_bytes(value[kept:])
