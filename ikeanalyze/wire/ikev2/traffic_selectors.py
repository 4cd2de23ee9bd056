"""Parses traffic selectors, which describe the packets that a Child SA protects (RFC 7296, section 3.13)."""

from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import TrafficSelectorType
from ikeanalyze.wire.text import escape_peer_text, format_address

#: Number of traffic selectors.
_COUNT: Final = Struct(">B3x")
#: Type, IP protocol (unused by some types), length.
_SELECTOR: Final = Struct(">BBH")
_PORTS: Final = Struct(">HH")
#: Start and end address, start and end R_CTL, start and end type (RFC 4595, section 4.4).
_FIBRE_CHANNEL: Final = Struct(">x3sx3sBBBB")

#: Bytes of each address, by type of the selector.
ADDRESS_BYTES: Final[dict[int, int]] = {
    TrafficSelectorType.TS_IPV4_ADDR_RANGE: 4,
    TrafficSelectorType.TS_IPV6_ADDR_RANGE: 16,
}
_PROTOCOLS: Final = {0: "any", 1: "icmp", 6: "tcp", 17: "udp", 50: "esp", 58: "icmpv6", 132: "sctp"}
#: Protocols with a type and a code instead of ports (RFC 7296, section 3.13.1).
_ICMP: Final = frozenset({1, 58})
_ALL_PORTS: Final = (0, 65535)
#: First port above last port: packets without visible ports, such as later IP fragments.
_OPAQUE_PORTS: Final = (65535, 0)


class TrafficSelector(msgspec.Struct, frozen=True):
    """One selector (RFC 7296, section 3.13.1; RFC 4595; RFC 9478)."""

    type: int
    protocol: int  # IP protocol; 0: any, or not part of the type
    ports: tuple[int, int] | None  # first and last; ICMP: 256 * type + code; None: not part of the type
    start: bytes  # first address: 4 or 16 bytes, 3 for Fibre Channel; empty for other types
    end: bytes  # last address
    rest: bytes  # remaining data: the security label, or the body of an unknown type

    def describe(self) -> str:
        """10.0.0.0/24 or 10.0.0.1-10.0.0.9, with protocol and ports unless all are included: ::/0[tcp/80]."""
        if self.type == TrafficSelectorType.TS_SECLABEL:
            # in practice, labels end with a zero byte
            return f"label {escape_peer_text(self.rest.rstrip(bytes(1)))}"
        if not self.start:
            return f"{get_name(TrafficSelectorType, self.type)} {self.rest.hex()}"
        return f"{self._describe_addresses()}{self._describe_ports()}"

    def _describe_addresses(self) -> str:
        if self.type == TrafficSelectorType.TS_FC_ADDR_RANGE:
            return f"FC {self.start.hex()}-{self.end.hex()}"
        first, last = int.from_bytes(self.start, "big"), int.from_bytes(self.end, "big")
        size = last - first + 1
        if size > 0 and size & (size - 1) == 0 and first % size == 0:
            return f"{format_address(self.start)}/{8 * len(self.start) - size.bit_length() + 1}"
        return f"{format_address(self.start)}-{format_address(self.end)}"

    def _describe_ports(self) -> str:
        if self.ports is None or (not self.protocol and self.ports == _ALL_PORTS):
            return ""
        protocol = _PROTOCOLS.get(self.protocol, str(self.protocol))
        if self.ports == _ALL_PORTS:
            return f"[{protocol}]"
        if self.ports == _OPAQUE_PORTS:
            return f"[{protocol}/opaque]"
        first, last = self.ports
        if self.protocol in _ICMP:
            ends = [f"{number >> 8}({number & 0xFF})" for number in (first, last)]
        else:
            ends = [str(first), str(last)]
        return f"[{protocol}/{ends[0] if first == last else '-'.join(ends)}]"


class TrafficSelectorPayload(msgspec.Struct, frozen=True):
    """Contents of a TSi or TSr payload."""

    selectors: tuple[TrafficSelector, ...]  # in the sender's order
    announced: int | None  # their number in the payload's header; None: truncated before it
    error: str | None  # why parsing stopped early; None: everything was parsed


def parse_traffic_selectors(body: bytes) -> TrafficSelectorPayload:
    """Parse a TSi or TSr payload (RFC 7296, section 3.13); `body` follows its generic header. Never raises.

    Lengths delimit the selectors; the count is ignored. Offsets in the error count from the beginning of `body`.
    """
    cursor = Cursor(body)
    selectors: list[TrafficSelector] = []
    announced = None
    try:
        (announced,) = cursor.unpack(_COUNT)
        while cursor.remaining():
            selectors.append(_parse_selector(cursor))
    except WireError as error:
        return TrafficSelectorPayload(tuple(selectors), announced, str(error))
    return TrafficSelectorPayload(tuple(selectors), announced, None)


def _parse_selector(cursor: Cursor) -> TrafficSelector:
    offset = cursor.position
    kind, protocol, length = cursor.unpack(_SELECTOR)
    if length < _SELECTOR.size:
        raise WireError(offset, f"traffic selector has a length of {length}, less than its 4-byte header")
    with cursor.restrict_to(length - _SELECTOR.size):
        size = ADDRESS_BYTES.get(kind)
        if size is not None:
            first, last = cursor.unpack(_PORTS)
            start, end = cursor.read_bytes(size), cursor.read_bytes(size)
            return TrafficSelector(kind, protocol, (first, last), start, end, cursor.read_remaining())
        if kind == TrafficSelectorType.TS_FC_ADDR_RANGE:
            start, end, *_ = cursor.unpack(_FIBRE_CHANNEL)
            return TrafficSelector(kind, 0, None, start, end, cursor.read_remaining())
        return TrafficSelector(kind, 0, None, b"", b"", cursor.read_remaining())
