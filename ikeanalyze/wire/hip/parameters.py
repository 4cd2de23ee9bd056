"""Parses the contents of HIP parameters (RFC 7401, section 5.2, and its companions).

Public values, host identities, puzzles and signatures are kept as transmitted; of encrypted parameters only the size.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

import msgspec

from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.hip_parameters import (
    DhGroup,
    EcdsaCurve,
    HipCipher,
    HipEspSuite,
    HipNotifyType,
    HipParameterType,
    HipTransform,
    HitSuite,
    HostAlgorithm,
    NatMode,
    Registration,
)
from ikeanalyze.wire.text import escape_peer_text, format_address, shorten_text

#: Entries of a list in a description; a hostile packet can hold thousands.
_MAX_ENTRIES: Final = 8
_ESP_INFO: Final = Struct(">2xHII")
_R1_COUNTER: Final = Struct(">4xQ")
_PUZZLE: Final = Struct(">BB2s")
_SOLUTION: Final = Struct(">Bx2s")
_DIFFIE_HELLMAN: Final = Struct(">BH")
_HOST_ID: Final = Struct(">HHH")
_HOST_ID_V1: Final = Struct(">HH3xB")  # a DNSKEY record follows the lengths: flags, protocol, algorithm
_NOTIFICATION: Final = Struct(">2xH")
_LOCATOR: Final = Struct(">BBBBI")
_RELAYED: Final = Struct(">HBx16s")
_CERT: Final = Struct(">BBBB")
_WORD_BYTES: Final = 4
_ADDRESS_BYTES: Final = 16
_IPV4_MAPPED: Final = bytes(10) + b"\xff\xff"
#: The lifetime of a puzzle in seconds is 2 to the power of the field minus this.
_LIFETIME_BIAS: Final = 32
#: Types of the domain identifier of a host identity that are text: host name, network access identifier.
_TEXT_DOMAIN_TYPES: Final = (1, 2)


class EspInfo(msgspec.Struct, frozen=True):
    """ESP_INFO (RFC 7402, section 5.1.1)."""

    keymat_index: int  # offset of the ESP keys in the keying material, bytes
    old_spi: int  # 0: a new SA; equal to the new SPI: only an address changes
    new_spi: int  # for packets to the sender of this parameter


class HipNumber(msgspec.Struct, frozen=True):
    """R1_COUNTER (RFC 7401, section 5.2.3) or SEQ (5.2.16): one number."""

    value: int


class HipPuzzle(msgspec.Struct, frozen=True):
    """PUZZLE (RFC 7401, section 5.2.4)."""

    difficulty: int  # K: bits of the hash that must be zero
    lifetime_s: float  # how long the responder accepts a solution
    opaque: bytes  # 2 bytes, returned in SOLUTION
    random: bytes  # I; as long as the responder's hash, 8 bytes in HIPv1


class HipSolution(msgspec.Struct, frozen=True):
    """SOLUTION (RFC 7401, section 5.2.5)."""

    difficulty: int  # K of the puzzle
    opaque: bytes  # 2 bytes of the puzzle
    random: bytes  # I of the puzzle
    solution: bytes  # J, as long as I


class HipAlgorithmList(msgspec.Struct, frozen=True):
    """A list of numbers: DH_GROUP_LIST, HIP_CIPHER, HIT_SUITE_LIST, ESP_TRANSFORM, ACK ..., the preferred one first."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]  # names of the numbers


class DiffieHellman(msgspec.Struct, frozen=True):
    """DIFFIE_HELLMAN (RFC 7401, section 5.2.7); the first of two public values in HIPv1."""

    group: int
    public: bytes

    @property
    def name(self) -> str:
        """Name of the group, the same as in IKEv2."""
        return get_name(DhGroup, self.group)


class HostId(msgspec.Struct, frozen=True):
    """HOST_ID (RFC 7401, section 5.2.9; in HIPv1 RFC 5201, section 5.2.8)."""

    algorithm: int
    identity: bytes  # public key in the algorithm's format, in HIPv1 without flags, protocol and algorithm
    curve: str | None  # of ECDSA; None: another algorithm
    domain: str | None  # host name or network access identifier; None: absent, or of another type

    @property
    def name(self) -> str:
        """Name of the algorithm with the curve: RSA, ECDSA P-256."""
        name = get_name(HostAlgorithm, self.algorithm)
        return f"{name} {self.curve}" if self.curve else name


class HipNotification(msgspec.Struct, frozen=True):
    """NOTIFICATION (RFC 7401, section 5.2.19)."""

    type: int
    data_bytes: int

    @property
    def name(self) -> str:
        """Name of the type, such as BLOCKED_BY_POLICY; its number if it has no name."""
        return get_name(HipNotifyType, self.type)


class HipSignature(msgspec.Struct, frozen=True):
    """HIP_SIGNATURE, HIP_SIGNATURE_2 (RFC 7401, sections 5.2.14 and 5.2.15)."""

    algorithm: int
    signature: bytes


class Locator(msgspec.Struct, frozen=True):
    """One entry of LOCATOR_SET (RFC 8046, section 4)."""

    traffic: int  # 0 all, 1 signalling, 2 data
    type: int  # 0 an address, 1 an SPI and an address, 2 (RFC 5770, section 5.7) a transport address
    preferred: bool
    lifetime_s: int
    address: str | None  # None: shorter than an address


class Locators(msgspec.Struct, frozen=True):
    """LOCATOR_SET (RFC 8046, section 4)."""

    locators: tuple[Locator, ...]


class HipAddresses(msgspec.Struct, frozen=True):
    """FROM and VIA_RVS (RFC 8004, section 4.2); REG_FROM, RELAY_FROM and RELAY_TO (RFC 5770) with a port."""

    addresses: tuple[str, ...]
    port: int | None  # None: not part of the parameter
    protocol: int | None  # IP protocol: 17 (UDP) or 139 (HIP); None: not part of the parameter


class HipCertificate(msgspec.Struct, frozen=True):
    """CERT (RFC 8002, section 2)."""

    group: int
    count: int  # certificates in the group
    id: int  # which of them, from 1
    type: int  # of X.509 v3: 1 the certificate, 3 its hash and URL, 5 its LDAP URL, 7 its distinguished name
    certificate: bytes


class UnparsedParameter(msgspec.Struct, frozen=True):
    """A parameter that is not parsed: MACs, echoes, encrypted and unknown parameters."""

    bytes: int


HipValue = (
    EspInfo | HipNumber | HipPuzzle | HipSolution | HipAlgorithmList | DiffieHellman | HostId | HipNotification
    | HipSignature | Locators | HipAddresses | HipCertificate | UnparsedParameter
)  # fmt: skip


def describe_value(value: HipValue) -> str:
    """A short text for the contents of a parameter: K 10, ECP-256; empty for those that are not parsed."""
    match value:
        case EspInfo(_, old_spi, new_spi):
            return f"{old_spi:08x} to {new_spi:08x}" if old_spi else f"{new_spi:08x}"
        case HipNumber(number):
            return str(number)
        case HipPuzzle(difficulty) | HipSolution(difficulty):
            return f"K {difficulty}"
        case HipAlgorithmList(_, names):
            more = [f"{len(names) - _MAX_ENTRIES} more"] if len(names) > _MAX_ENTRIES else []
            return ", ".join([*names[:_MAX_ENTRIES], *more])
        case DiffieHellman() | HipNotification():
            return value.name
        case HostId(domain=domain):
            return f"{value.name}, {shorten_text(domain)}" if domain else value.name
        case HipSignature(algorithm):
            return get_name(HostAlgorithm, algorithm)
        case Locators(locators):
            return ", ".join(locator.address or "?" for locator in locators[:_MAX_ENTRIES])
        case HipAddresses(addresses, port):
            return ", ".join(addresses[:_MAX_ENTRIES]) + ("" if port is None else f" port {port}")
        case HipCertificate(_, count, number):
            return f"{number}/{count}"
        case UnparsedParameter():
            return ""


def parse_parameter(kind: int, content: bytes, version: int) -> HipValue:
    """Parse the contents of a parameter of type `kind` in a packet of this version of HIP.

    Raises:
        WireError: the contents are too short for their fields.
    """
    cursor = Cursor(content)
    parser = _PARSERS.get(kind)
    return UnparsedParameter(len(content)) if parser is None else parser(cursor, version)


def _parse_puzzle(cursor: Cursor, _version: int) -> HipValue:
    difficulty, lifetime, opaque = cursor.unpack(_PUZZLE)
    return HipPuzzle(difficulty, 2.0 ** (lifetime - _LIFETIME_BIAS), opaque, cursor.read_remaining())


def _parse_solution(cursor: Cursor, _version: int) -> HipValue:
    difficulty, opaque = cursor.unpack(_SOLUTION)
    half = cursor.remaining() // 2
    return HipSolution(difficulty, opaque, cursor.read_bytes(half), cursor.read_remaining())


def _list_parser(
    registry: type[Registry] | None, size: int, skipped: int = 0, shift: int = 0
) -> Callable[[Cursor, int], HipValue]:
    """Parser of a list of `size`-byte numbers after `skipped` reserved bytes; `shift`: unused low bits of a number."""

    def parse(cursor: Cursor, _version: int) -> HipValue:
        cursor.skip(skipped)
        numbers = []
        while cursor.remaining():
            numbers.append(int.from_bytes(cursor.read_bytes(size), "big") >> shift)
        names = (str(number) if registry is None else get_name(registry, number) for number in numbers)
        return HipAlgorithmList(tuple(numbers), tuple(names))

    return parse


def _parse_esp_transform(cursor: Cursor, version: int) -> HipValue:
    return _list_parser(HipTransform if version == 1 else HipEspSuite, 2, skipped=2)(cursor, version)


def _parse_diffie_hellman(cursor: Cursor, _version: int) -> HipValue:
    group, size = cursor.unpack(_DIFFIE_HELLMAN)
    return DiffieHellman(group, cursor.read_bytes(size))


def _parse_host_id(cursor: Cursor, version: int) -> HipValue:
    curve = None
    if version == 1:
        size, domain, algorithm = cursor.unpack(_HOST_ID_V1)
        identity = cursor.read_bytes(size - _WORD_BYTES)
    else:
        size, domain, algorithm = cursor.unpack(_HOST_ID)
        identity = cursor.read_bytes(size)
        if algorithm == HostAlgorithm.ECDSA:
            curve = get_name(EcdsaCurve, Cursor(identity).read_uint16())
    kind, length = domain >> 12, domain & 0xFFF
    text = cursor.read_bytes(length)
    return HostId(algorithm, identity, curve, escape_peer_text(text) if kind in _TEXT_DOMAIN_TYPES else None)


def _parse_notification(cursor: Cursor, _version: int) -> HipValue:
    (kind,) = cursor.unpack(_NOTIFICATION)
    return HipNotification(kind, cursor.remaining())


def _parse_signature(cursor: Cursor, version: int) -> HipValue:
    algorithm = cursor.read_uint8() if version == 1 else cursor.read_uint16()
    return HipSignature(algorithm, cursor.read_remaining())


def _parse_locators(cursor: Cursor, _version: int) -> HipValue:
    locators = []
    while cursor.remaining():
        traffic, kind, words, flags, lifetime = cursor.unpack(_LOCATOR)
        data = cursor.read_bytes(words * _WORD_BYTES)
        # an SPI or ports may precede the address
        address = _format_address(data[-_ADDRESS_BYTES:]) if len(data) >= _ADDRESS_BYTES else None
        locators.append(Locator(traffic, kind, bool(flags & 1), lifetime, address))
    return Locators(tuple(locators))


def _parse_relayed(cursor: Cursor, _version: int) -> HipValue:
    port, protocol, address = cursor.unpack(_RELAYED)
    return HipAddresses((_format_address(address),), port, protocol)


def _parse_addresses(cursor: Cursor, _version: int) -> HipValue:
    addresses = []
    while cursor.remaining():
        addresses.append(_format_address(cursor.read_bytes(_ADDRESS_BYTES)))
    return HipAddresses(tuple(addresses), None, None)


def _parse_cert(cursor: Cursor, _version: int) -> HipValue:
    group, count, number, kind = cursor.unpack(_CERT)
    return HipCertificate(group, count, number, kind, cursor.read_remaining())


def _format_address(packed: bytes) -> str:
    """Format an IPv6 address; HIP encodes IPv4 addresses as IPv4-mapped IPv6 addresses."""
    return format_address(packed[-4:] if packed.startswith(_IPV4_MAPPED) else packed) or ""


_P = HipParameterType
_PARSERS: Final[Mapping[int, Callable[[Cursor, int], HipValue]]] = {
    _P.ESP_INFO: lambda cursor, _version: EspInfo(*cursor.unpack(_ESP_INFO)),
    _P.R1_COUNTER: lambda cursor, _version: HipNumber(*cursor.unpack(_R1_COUNTER)),
    _P.R1_COUNTER_V1: lambda cursor, _version: HipNumber(*cursor.unpack(_R1_COUNTER)),
    _P.LOCATOR_SET: _parse_locators,
    _P.PUZZLE: _parse_puzzle,
    _P.SOLUTION: _parse_solution,
    _P.SEQ: lambda cursor, _version: HipNumber(cursor.read_uint32()),
    _P.ACK: _list_parser(None, 4),
    _P.DH_GROUP_LIST: _list_parser(DhGroup, 1),
    _P.DH_GROUP_LIST_DRAFT: _list_parser(DhGroup, 1),
    _P.DIFFIE_HELLMAN: _parse_diffie_hellman,
    _P.HIP_TRANSFORM: _list_parser(HipTransform, 2),
    _P.HIP_CIPHER: _list_parser(HipCipher, 2),
    _P.NAT_TRAVERSAL_MODE: _list_parser(NatMode, 2, skipped=2),
    _P.HOST_ID: _parse_host_id,
    _P.HIT_SUITE_LIST: _list_parser(HitSuite, 1, shift=4),
    _P.CERT: _parse_cert,
    _P.NOTIFICATION: _parse_notification,
    _P.REG_INFO: _list_parser(Registration, 1, skipped=2),
    _P.REG_REQUEST: _list_parser(Registration, 1, skipped=1),
    _P.REG_RESPONSE: _list_parser(Registration, 1, skipped=1),
    _P.REG_FAILED: _list_parser(Registration, 1, skipped=1),
    _P.REG_FROM: _parse_relayed,
    _P.TRANSPORT_FORMAT_LIST: _list_parser(HipParameterType, 2),
    _P.ESP_TRANSFORM: _parse_esp_transform,
    _P.HIP_SIGNATURE: _parse_signature,
    _P.HIP_SIGNATURE_2: _parse_signature,
    _P.RELAY_FROM: _parse_relayed,
    _P.RELAY_TO: _parse_relayed,
    _P.FROM: _parse_addresses,
    _P.VIA_RVS: _parse_addresses,
}
