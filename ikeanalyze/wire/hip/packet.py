"""Parses and checks HIP packets (RFC 7401, RFC 5201, draft-ietf-hip-dex)."""

from collections.abc import Mapping
from struct import Struct
from typing import Final, TypeVar

import msgspec

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.hip.parameters import HipValue, describe_value, parse_parameter
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.hip_parameters import HipParameterType

#: Next header, header length, packet type, version, checksum, controls, sender's HIT, receiver's HIT.
_HEADER: Final = Struct(">BBBBHH16s16s")
#: Type, length.
_PARAMETER: Final = Struct(">HH")
#: Packets and parameters are multiples of this many bytes.
_UNIT: Final = 8
_HIP_IP_PROTOCOL: Final = 139
_CRITICAL: Final = 1
#: Types that may occur in any order (RFC 7401, section 5.2.1).
_UNORDERED_TYPES: Final = range(2048, 4096)

_ValueT = TypeVar("_ValueT")


class HipParameter(msgspec.Struct, frozen=True):
    """One parameter (RFC 7401, section 5.2.1)."""

    type: int
    bytes: int  # of the contents, without type, length and padding
    value: HipValue | None  # None: the contents are malformed
    error: str | None  # why the contents are malformed

    @property
    def critical(self) -> bool:
        """A receiver that does not support the type must reject the packet."""
        return bool(self.type & _CRITICAL)

    @property
    def known(self) -> bool:
        """The type has a name."""
        return self.type in HipParameterType._value2member_map_

    def describe(self) -> str:
        """A short text: PUZZLE(K 10), or the number of an unknown type: unknown 4242."""
        if not self.known:
            return f"unknown {self.type}{' (critical)' if self.critical else ''}"
        name = get_name(HipParameterType, self.type)
        details = "?" if self.value is None else describe_value(self.value)
        return f"{name}({details})" if details else name


class HipPacket(msgspec.Struct, frozen=True):
    """Contents of a HIP packet (RFC 7401, section 5.1)."""

    next_header: int  # 59: no next header
    length: int  # bytes of the packet according to its header
    packet_type: int  # 1 I1, 2 R1, 3 I2, 4 R2, 16 UPDATE ...
    version: int  # 1 or 2
    checksum: int  # 0 inside UDP (RFC 5770, section 5.1)
    controls: int
    sender_hit: bytes  # 16 bytes
    receiver_hit: bytes  # 16 bytes; zeros in opportunistic mode
    parameters: tuple[HipParameter, ...]  # in order
    error: str | None  # why parsing stopped early; None: everything was parsed
    stray_padding: bool  # some padding bytes are not zero

    def first(self, kind: type[_ValueT]) -> _ValueT | None:
        """The first value of a class of `hip.parameters`; None if the packet has no such value."""
        return next((parameter.value for parameter in self.parameters if isinstance(parameter.value, kind)), None)

    def value(self, number: int) -> HipValue | None:
        """The value of the first parameter of a type; None if it is absent or malformed."""
        return next((parameter.value for parameter in self.parameters if parameter.type == number), None)

    def has(self, *numbers: int) -> bool:
        """Whether the packet has a parameter of one of these types."""
        return any(parameter.type in numbers for parameter in self.parameters)

    def describe(self) -> list[str]:
        """A short text for each parameter, in order: PUZZLE(K 10), DIFFIE_HELLMAN(ECP-256), HOST_ID(RSA)."""
        return [parameter.describe() for parameter in self.parameters]


def parse_hip(data: bytes) -> HipPacket | None:
    """Parse a HIP packet; None if the header is truncated. Never raises: `error` is set if something is missing."""
    try:
        next_header, units, kind, version, checksum, controls, sender, receiver = Cursor(data).unpack(_HEADER)
    except WireError:
        return None
    length = (units + 1) * _UNIT
    parameters: list[HipParameter] = []
    error = None
    stray_padding = False
    cursor = Cursor(data, _HEADER.size, length)
    try:
        while cursor.remaining() > 0:
            number, size = cursor.unpack(_PARAMETER)
            content = cursor.read_bytes(size)
            parameters.append(_parse_parameter(number, content, version >> 4))
            # type, length, contents and padding fill a multiple of 8 bytes
            stray_padding |= any(cursor.read_bytes(-(size + _PARAMETER.size) % _UNIT))
        if length > len(data):
            error = f"the header announces {length} bytes, the packet has {len(data)}"
    except WireError as problem:
        error = str(problem)
    return HipPacket(
        next_header,
        length,
        kind & 0x7F,
        version >> 4,
        checksum,
        controls,
        sender,
        receiver,
        tuple(parameters),
        error,
        stray_padding,
    )


def _parse_parameter(number: int, content: bytes, version: int) -> HipParameter:
    try:
        return HipParameter(number, len(content), parse_parameter(number, content, version), None)
    except WireError as problem:
        return HipParameter(number, len(content), None, str(problem))


_P = HipParameterType
#: Required parameters by packet type, each with its alternatives (RFC 7401, sections 5.3.1 to 5.3.8): those of
#: RFC 5201, and of HIP DEX, which has a MAC in place of MAC and signature.
_REQUIRED: Final[Mapping[int, tuple[tuple[int, ...], ...]]] = {
    HipPacketType.R1: ((_P.PUZZLE,), (_P.HIP_CIPHER, _P.HIP_TRANSFORM), (_P.HOST_ID,)),
    HipPacketType.I2: ((_P.SOLUTION,), (_P.HIP_CIPHER, _P.HIP_TRANSFORM), (_P.HIP_MAC, _P.HIP_MAC_3)),
    HipPacketType.R2: ((_P.HIP_MAC_2, _P.HIP_MAC, _P.HIP_MAC_3),),
    HipPacketType.UPDATE: ((_P.SEQ, _P.ACK), (_P.HIP_MAC, _P.HIP_MAC_3)),
    HipPacketType.NOTIFY: ((_P.NOTIFICATION,),),
    HipPacketType.CLOSE: ((_P.ECHO_REQUEST_SIGNED,), (_P.HIP_MAC, _P.HIP_MAC_3)),
    HipPacketType.CLOSE_ACK: ((_P.ECHO_RESPONSE_SIGNED,), (_P.HIP_MAC, _P.HIP_MAC_3)),
}


def check_hip_packet(packet: HipPacket) -> list[str]:
    """Check a packet and return the findings; missing parameters are reported only if the packet is complete."""
    findings = []
    if packet.error is not None:
        findings.append(packet.error)
    highest = 0
    for parameter in packet.parameters:
        name = get_name(HipParameterType, parameter.type)
        if parameter.error is not None:
            findings.append(f"{name}: {parameter.error}")
        if not parameter.known and parameter.critical:
            findings.append(f"unknown parameter {parameter.type} is critical")
        if parameter.type not in _UNORDERED_TYPES:
            if parameter.type < highest:
                findings.append(f"{name} follows {get_name(HipParameterType, highest)}, out of order")
            highest = max(highest, parameter.type)
    if packet.stray_padding:
        findings.append("padding that is not zero")
    if packet.error is None:
        for alternatives in _REQUIRED.get(packet.packet_type, ()):
            if not packet.has(*alternatives):
                findings.append(
                    f"{get_name(HipPacketType, packet.packet_type)} without {get_name(_P, alternatives[0])}"
                )
    return findings


def is_checksum_valid(data: bytes, source: bytes, destination: bytes) -> bool:
    """Whether the checksum of a packet without UDP encapsulation is valid (RFC 7401, section 5.1.1).

    `source` and `destination` are the addresses of the pseudo-header, 4 or 16 bytes each (RFC 8200, section 8.1; for
    IPv4 RFC 793, section 3.1).
    """
    joined = b"".join((source, destination, _HIP_IP_PROTOCOL.to_bytes(2, "big"), len(data).to_bytes(4, "big"), data))
    joined += bytes(len(joined) % 2)
    # the ones' complement sum of 16-bit words is the remainder modulo 65535
    return int.from_bytes(joined, "big") % 0xFFFF == 0
