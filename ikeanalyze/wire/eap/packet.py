"""EAP packets (RFC 3748): the header, and which method a conversation ran. What a method says in a packet is read by
`eap_methods`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries.eap import EapCode, EapType

_HEADER: Final = Struct(">BBH")
#: Type 254, vendor and vendor type (RFC 3748, section 5.7).
_EXPANDED: Final = Struct(">II")
_VENDOR: Final = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class EapPacket:
    """Header of an EAP packet (RFC 3748, section 4)."""

    code: int  # 1 request, 2 response, 3 success, 4 failure
    identifier: int
    length: int  # bytes of the whole packet, as it says
    type: int | None  # of a request or response; of an expanded type of vendor 0, that type; None: it has none
    vendor: int  # of an expanded type: SMI network management private enterprise code; else 0

    @property
    def method(self) -> str | None:
        """The method that the packet belongs to, as EAP-TLS; None: identity, Nak, success and the like."""
        if self.type is None or (self.vendor == 0 and (self.type <= EapType.NAK or self.type == EapType.EXPANDED)):
            return None
        if self.vendor:
            return f"EAP-expanded-{self.vendor}-{self.type}"
        member = EapType._value2member_map_.get(self.type)
        return f"EAP-{self.type}" if member is None else EapType(self.type).label

    @property
    def nak(self) -> bool:
        """The peer refuses the method that the request asked for (RFC 3748, section 5.3)."""
        return self.code == EapCode.RESPONSE and self.vendor == 0 and self.type == EapType.NAK


def parse_eap_header(data: bytes) -> EapPacket | None:
    """Header and type of an EAP packet; None if not even the header is there. Never raises."""
    cursor = Cursor(data)
    try:
        code, identifier, length = cursor.unpack(_HEADER)
    except WireError:
        return None
    kind, vendor = None, 0
    if code in (EapCode.REQUEST, EapCode.RESPONSE):
        try:
            kind = cursor.get_uint8()
            if kind == EapType.EXPANDED:
                typed, kind = Cursor(data, _HEADER.size).unpack(_EXPANDED)
                vendor = typed & _VENDOR
        except WireError:
            pass
    return EapPacket(code, identifier, length, kind, vendor)


def get_eap_method(messages: Iterable[bytes]) -> str | None:
    """The method that an EAP conversation ran, given its packets in order: the last one proposed and not
    refused.

    None if there was none: only an identity was asked for, or every method was refused. Repeated packets
    change nothing.
    """
    proposed: list[tuple[int, str]] = []
    refused: set[tuple[int, str]] = set()
    for message in messages:
        packet = parse_eap_header(message)
        if packet is None:
            continue
        method = packet.method
        if packet.nak:
            gone = [entry for entry in proposed if entry[0] == packet.identifier]
            refused.update(gone)
            proposed = [entry for entry in proposed if entry[0] != packet.identifier]
        elif method is not None:
            entry = packet.identifier, method
            if entry not in refused and entry not in proposed:
                proposed.append(entry)
    return proposed[-1][1] if proposed else None
