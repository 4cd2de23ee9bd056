"""Parses the header of EAP packets (RFC 3748), and finds the method of an EAP conversation."""

from collections.abc import Iterable
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries.eap import EapCode, EapType

_HEADER: Final = Struct(">BBH")
#: Type 254, vendor and vendor type (RFC 3748, section 5.7).
_EXPANDED: Final = Struct(">II")
_VENDOR_MASK: Final = 0xFFFFFF


class EapPacket(msgspec.Struct, frozen=True):
    """Header of an EAP packet (RFC 3748, section 4)."""

    code: int  # 1 request, 2 response, 3 success, 4 failure
    identifier: int
    length: int  # bytes of the packet according to its header
    type: int | None  # of a request or response; for an expanded type, the vendor's type; None: no type
    vendor: int  # of an expanded type: SMI private enterprise number; otherwise 0

    @property
    def method(self) -> str | None:
        """Method of the packet, such as EAP-TLS; None for identity, Nak, success and the like."""
        if self.vendor:
            return f"EAP-expanded-{self.vendor}-{self.type}"
        if self.type is None or self.type <= EapType.NAK or self.type == EapType.EXPANDED:
            return None
        return EapType(self.type).label if self.type in EapType._value2member_map_ else f"EAP-{self.type}"

    @property
    def nak(self) -> bool:
        """The peer rejects the method of the request (RFC 3748, section 5.3)."""
        return self.code == EapCode.RESPONSE and self.vendor == 0 and self.type == EapType.NAK


def parse_eap_header(data: bytes) -> EapPacket | None:
    """Parse header and type of an EAP packet; None if the header is truncated. Never raises."""
    cursor = Cursor(data)
    try:
        code, identifier, length = cursor.unpack(_HEADER)
    except WireError:
        return None
    kind, vendor = None, 0
    if code in (EapCode.REQUEST, EapCode.RESPONSE):
        try:
            kind = cursor.read_uint8()
            if kind == EapType.EXPANDED:
                type_and_vendor, kind = Cursor(data, _HEADER.size).unpack(_EXPANDED)
                vendor = type_and_vendor & _VENDOR_MASK
        except WireError:
            pass
    return EapPacket(code, identifier, length, kind, vendor)


def get_eap_method(messages: Iterable[bytes]) -> str | None:
    """Method of an EAP conversation, whose packets are given in order: the last one proposed and not rejected.

    None if only an identity was requested, or if every method was rejected. Repeated packets have no effect.
    """
    proposed: list[tuple[int, str]] = []
    rejected: set[tuple[int, str]] = set()
    for message in messages:
        packet = parse_eap_header(message)
        if packet is None:
            continue
        method = packet.method
        if packet.nak:
            rejected.update(entry for entry in proposed if entry[0] == packet.identifier)
            proposed = [entry for entry in proposed if entry[0] != packet.identifier]
        elif method is not None:
            entry = packet.identifier, method
            if entry not in rejected and entry not in proposed:
                proposed.append(entry)
    return proposed[-1][1] if proposed else None
