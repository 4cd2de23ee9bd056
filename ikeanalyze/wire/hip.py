"""HIP packets (RFC 7401): the fixed header and which parameters follow."""

from dataclasses import dataclass
from struct import Struct
from typing import Final

from ikeanalyze.wire.cursor import Cursor, WireError

#: Next header, header length, packet type, version, checksum, controls, sender's HIT, receiver's HIT.
_HEADER: Final = Struct(">BBBBHH16s16s")
_PARAMETER: Final = Struct(">HH")
_UNIT: Final = 8


@dataclass(frozen=True, slots=True)
class HipView:
    """Contents of a HIP packet (RFC 7401, section 5.1)."""

    next_header: int  # 59: nothing follows
    length: int  # bytes of the whole packet, as it says
    packet_type: int  # 1 I1, 2 R1, 3 I2, 4 R2, 16 UPDATE ...
    version: int  # 1 or 2
    checksum: int
    controls: int
    sender_hit: bytes  # 16 bytes
    receiver_hit: bytes  # 16 bytes; zeros in opportunistic mode
    parameters: tuple[tuple[int, int], ...]  # type and bytes of content, in order (RFC 7401, section 5.2.1)
    error: str | None  # why reading ended before the end; None: all was read


def read_hip(data: bytes) -> HipView | None:
    """Read a HIP packet from its header on; None if not even that is there. Never raises."""
    try:
        following, units, kind, version, checksum, controls, sender, receiver = Cursor(data).unpack(_HEADER)
    except WireError:
        return None
    length = (units + 1) * _UNIT
    parameters: list[tuple[int, int]] = []
    error = None
    cursor = Cursor(data, _HEADER.size, length)
    try:
        while cursor.remaining() > 0:
            number, size = cursor.unpack(_PARAMETER)
            # padded so that type, length and contents fill a multiple of 8 bytes
            cursor.skip(-(-(size + _PARAMETER.size) // _UNIT) * _UNIT - _PARAMETER.size)
            parameters.append((number, size))
        if length > len(data):
            error = f"the packet has {length} bytes by its header, {len(data)} are there"
    except WireError as problem:
        error = str(problem)
    return HipView(
        following,
        length,
        kind & 0x7F,
        version >> 4,
        checksum,
        controls,
        sender,
        receiver,
        tuple(parameters),
        error,
    )
