"""HIP packets: the header, the parameters, and what is wrong with them (RFC 7401, RFC 5201, draft-ietf-hip-dex)."""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Final, TypeVar

from ikeanalyze.wire.cursor import Cursor, WireError
from ikeanalyze.wire.hip.parameters import Value, parse_parameter
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.hip import HipPacketType, HipParameterType

#: Next header, header length, packet type, version, checksum, controls, sender's HIT, receiver's HIT.
_HEADER: Final = Struct(">BBBBHH16s16s")
_PARAMETER: Final = Struct(">HH")
_UNIT: Final = 8
_HIP: Final = 139
_CRITICAL: Final = 1
#: Types behind which the order of the numbers says nothing (RFC 7401, section 5.2.1).
_UNORDERED: Final = range(2048, 4096)

_Body = TypeVar("_Body")


@dataclass(frozen=True, slots=True)
class HipParameter:
    """One parameter (RFC 7401, section 5.2.1)."""

    type: int
    bytes: int  # of its contents, without type, length and padding
    value: Value | None  # None: the contents are too short for their fields
    error: str | None  # why so

    @property
    def critical(self) -> bool:
        """Whoever does not know the type must refuse the packet."""
        return bool(self.type & _CRITICAL)

    @property
    def known(self) -> bool:
        """The type has a name."""
        return self.type in HipParameterType._value2member_map_

    def describe(self) -> str:
        """PUZZLE(K 10); a type without a name is shown as its number: unknown 4242."""
        if not self.known:
            return f"unknown {self.type}{' (critical)' if self.critical else ''}"
        name = get_name(HipParameterType, self.type)
        said = "?" if self.value is None else self.value.describe()
        return f"{name}({said})" if said else name


@dataclass(frozen=True, slots=True)
class HipPacket:
    """Contents of a HIP packet (RFC 7401, section 5.1)."""

    next_header: int  # 59: nothing follows
    length: int  # bytes of the whole packet, as it says
    packet_type: int  # 1 I1, 2 R1, 3 I2, 4 R2, 16 UPDATE ...
    version: int  # 1 or 2
    checksum: int  # 0 inside UDP (RFC 5770, section 5.1)
    controls: int
    sender_hit: bytes  # 16 bytes
    receiver_hit: bytes  # 16 bytes; zeros in opportunistic mode
    parameters: tuple[HipParameter, ...]  # in order
    error: str | None  # why reading ended before the end; None: all was read
    stray_padding: bool  # some padding is not zero

    def first(self, kind: type[_Body]) -> _Body | None:
        """The first parameter's value of a class of `hip_parameters`; None: there is none."""
        return next((parameter.value for parameter in self.parameters if isinstance(parameter.value, kind)), None)

    def value(self, number: int) -> Value | None:
        """The value of the first parameter of a type; None: there is none, or it is malformed."""
        return next((one.value for one in self.parameters if one.type == number), None)

    def has(self, *numbers: int) -> bool:
        """Whether there is a parameter of one of these types."""
        return any(one.type in numbers for one in self.parameters)

    def describe(self) -> list[str]:
        """Each parameter in a few words, in order: PUZZLE(K 10), DIFFIE_HELLMAN(ECP-256), HOST_ID(RSA), HIP_SIGNATURE_2(RSA)."""
        return [one.describe() for one in self.parameters]


def parse_hip(data: bytes) -> HipPacket | None:
    """Read a HIP packet from its header on; None if not even that is there. Never raises."""
    try:
        following, units, kind, version, checksum, controls, sender, receiver = Cursor(data).unpack(_HEADER)
    except WireError:
        return None
    length = (units + 1) * _UNIT
    parameters: list[HipParameter] = []
    error = None
    stray = False
    cursor = Cursor(data, _HEADER.size, length)
    try:
        while cursor.remaining() > 0:
            number, size = cursor.unpack(_PARAMETER)
            content = cursor.get_bytes(size)
            parameters.append(_parameter(number, content, version >> 4))
            # type, length, contents and padding fill a multiple of 8 bytes
            stray |= any(cursor.get_bytes(-(size + _PARAMETER.size) % _UNIT))
        if length > len(data):
            error = f"the packet has {length} bytes by its header, {len(data)} are there"
    except WireError as problem:
        error = str(problem)
    return HipPacket(
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
        stray,
    )


def _parameter(number: int, content: bytes, version: int) -> HipParameter:
    try:
        return HipParameter(number, len(content), parse_parameter(number, content, version), None)
    except WireError as problem:
        return HipParameter(number, len(content), None, str(problem))


_P = HipParameterType
#: What each packet must have (RFC 7401, sections 5.3.1 to 5.3.8), each with what may stand in its place: the names of
#: RFC 5201, and in HIP DEX a MAC where BEX has MAC and signature.
_REQUIRED: Final[Mapping[int, tuple[tuple[int, ...], ...]]] = MappingProxyType(
    {
        HipPacketType.R1: ((_P.PUZZLE,), (_P.HIP_CIPHER, _P.HIP_TRANSFORM), (_P.HOST_ID,)),
        HipPacketType.I2: (
            (_P.SOLUTION,),
            (_P.HIP_CIPHER, _P.HIP_TRANSFORM),
            (_P.HIP_MAC, _P.HIP_MAC_3),
        ),
        HipPacketType.R2: ((_P.HIP_MAC_2, _P.HIP_MAC, _P.HIP_MAC_3),),
        HipPacketType.UPDATE: ((_P.SEQ, _P.ACK), (_P.HIP_MAC, _P.HIP_MAC_3)),
        HipPacketType.NOTIFY: ((_P.NOTIFICATION,),),
        HipPacketType.CLOSE: ((_P.ECHO_REQUEST_SIGNED,), (_P.HIP_MAC, _P.HIP_MAC_3)),
        HipPacketType.CLOSE_ACK: ((_P.ECHO_RESPONSE_SIGNED,), (_P.HIP_MAC, _P.HIP_MAC_3)),
    }
)


def inspect_hip(view: HipPacket) -> list[str]:
    """What is wrong with a packet, in the order of its parts; of one that is cut, only what is there is judged."""
    findings = []
    if view.error is not None:
        findings.append(view.error)
    before = 0
    for one in view.parameters:
        name = get_name(HipParameterType, one.type)
        if one.error is not None:
            findings.append(f"{name}: {one.error}")
        if not one.known and one.critical:
            findings.append(f"parameter {one.type} is critical and not known")
        if one.type not in _UNORDERED:
            if one.type < before:
                findings.append(f"{name} stands behind {get_name(HipParameterType, before)}, out of order")
            before = max(before, one.type)
    if view.stray_padding:
        findings.append("padding that is not zero")
    if view.error is None:
        for some in _REQUIRED.get(view.packet_type, ()):
            if not view.has(*some):
                findings.append(f"{get_name(HipPacketType, view.packet_type)} without {get_name(_P, some[0])}")
    return findings


def is_checksum_valid(data: bytes, source: bytes, destination: bytes) -> bool:
    """Whether the checksum of a packet outside UDP is right (RFC 7401, section 5.1.1).

    `source` and `destination` are the packed addresses, 4 bytes each or 16: they give the pseudo-header (RFC 8200,
    section 8.1; for IPv4 RFC 793, section 3.1).
    """
    words = (source, destination, _HIP.to_bytes(2, "big"), len(data).to_bytes(4, "big"), data)
    joined = b"".join(words)
    joined += bytes(len(joined) % 2)
    # the ones' complement sum of 16-bit words is the remainder modulo 65535
    return int.from_bytes(joined, "big") % 0xFFFF == 0
