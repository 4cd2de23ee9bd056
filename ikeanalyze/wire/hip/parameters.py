"""What is in HIP parameters (RFC 7401, section 5.2, and its companions), one value per kind.

Public values, host identities, puzzles and check values are as they are on the wire; of what is encrypted only the size
is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Final

from ikeanalyze.wire.cursor import Cursor
from ikeanalyze.wire.registries import Registry, get_name
from ikeanalyze.wire.registries.hip import (
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

#: Entries of a list that a summary names; a hostile packet has room for thousands.
_SHOWN: Final = 8
_ESP_INFO: Final = Struct(">2xHII")
_PUZZLE: Final = Struct(">BB2s")
_SOLUTION: Final = Struct(">Bx2s")
_DIFFIE_HELLMAN: Final = Struct(">BH")
_HOST_ID: Final = Struct(">HHH")
_HOST_ID_V1: Final = Struct(">HH3xB")  # a DNSKEY record follows the lengths: flags, protocol, algorithm
_NOTIFICATION: Final = Struct(">2xH")
_LOCATOR: Final = Struct(">BBBBI")
_RELAYED: Final = Struct(">HBx16s")
_CERT: Final = Struct(">BBBB")
_WORD: Final = 4
_ADDRESS: Final = 16
_MAPPED: Final = bytes(10) + b"\xff\xff"
#: A puzzle's lifetime is 2 to the power of the field less this, in seconds.
_LIFETIME_BIAS: Final = 32
_FQDN, _NAI = 1, 2


@dataclass(frozen=True, slots=True)
class EspInfo:
    """ESP_INFO (RFC 7402, section 5.1.1)."""

    keymat_index: int  # where in the keying material the ESP keys begin, bytes
    old_spi: int  # 0: a new SA; equal to the new one: only an address changes
    new_spi: int  # for packets to the sender of this parameter

    def describe(self) -> str:
        """Fit for a summary."""
        old = f"{self.old_spi:08x} to " if self.old_spi else ""
        return f"{old}{self.new_spi:08x}"


@dataclass(frozen=True, slots=True)
class HipNumber:
    """R1_COUNTER (RFC 7401, section 5.2.3) or SEQ (5.2.16): one number."""

    value: int

    def describe(self) -> str:
        """Fit for a summary."""
        return str(self.value)


@dataclass(frozen=True, slots=True)
class HipPuzzle:
    """PUZZLE (RFC 7401, section 5.2.4)."""

    difficulty: int  # K: bits of the hash that must be zero
    lifetime_s: float  # how long the responder takes its solution
    opaque: bytes  # 2 bytes, returned in SOLUTION
    random: bytes  # I; as long as the responder's hash, 8 bytes in HIPv1

    def describe(self) -> str:
        """Fit for a summary."""
        return f"K {self.difficulty}"


@dataclass(frozen=True, slots=True)
class HipSolution:
    """SOLUTION (RFC 7401, section 5.2.5)."""

    difficulty: int  # K of the puzzle
    opaque: bytes  # 2 bytes of the puzzle
    random: bytes  # I of the puzzle
    solution: bytes  # J, as long

    def describe(self) -> str:
        """Fit for a summary."""
        return f"K {self.difficulty}"


@dataclass(frozen=True, slots=True)
class HipAlgorithmList:
    """A list of numbers: DH_GROUP_LIST, HIP_CIPHER, HIT_SUITE_LIST, ESP_TRANSFORM, ACK ..., the preferred one first."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]  # of these; the number where there is none

    def describe(self) -> str:
        """Fit for a summary."""
        more = [f"{len(self.names) - _SHOWN} more"] if len(self.names) > _SHOWN else []
        return ", ".join([*self.names[:_SHOWN], *more])


@dataclass(frozen=True, slots=True)
class DiffieHellman:
    """DIFFIE_HELLMAN (RFC 7401, section 5.2.7); of HIPv1's two public values the first."""

    group: int
    public: bytes

    @property
    def name(self) -> str:
        """The group as IKEv2 calls it."""
        return get_name(DhGroup, self.group)

    def describe(self) -> str:
        """Fit for a summary."""
        return self.name


@dataclass(frozen=True, slots=True)
class HostId:
    """HOST_ID (RFC 7401, section 5.2.9; in HIPv1 RFC 5201, section 5.2.8)."""

    algorithm: int
    identity: bytes  # the public key as the algorithm writes it, in version 1 without flags, protocol and algorithm
    curve: str | None  # of ECDSA
    domain: str | None  # host name or network access identifier; None: there is none, or of another type

    @property
    def name(self) -> str:
        """RSA, ECDSA P-256."""
        name = get_name(HostAlgorithm, self.algorithm)
        return f"{name} {self.curve}" if self.curve else name

    def describe(self) -> str:
        """Fit for a summary."""
        return f"{self.name}, {shorten_text(self.domain)}" if self.domain else self.name


@dataclass(frozen=True, slots=True)
class HipNotification:
    """NOTIFICATION (RFC 7401, section 5.2.19)."""

    type: int
    data_bytes: int

    @property
    def name(self) -> str:
        """BLOCKED_BY_POLICY; the number of a type without a name."""
        return get_name(HipNotifyType, self.type)

    def describe(self) -> str:
        """Fit for a summary."""
        return self.name


@dataclass(frozen=True, slots=True)
class HipSignature:
    """HIP_SIGNATURE, HIP_SIGNATURE_2 (RFC 7401, sections 5.2.14 and 5.2.15)."""

    algorithm: int
    signature: bytes

    def describe(self) -> str:
        """Fit for a summary."""
        return get_name(HostAlgorithm, self.algorithm)


@dataclass(frozen=True, slots=True)
class Locator:
    """One entry of LOCATOR_SET (RFC 8046, section 4)."""

    traffic: int  # 0 all, 1 signalling, 2 data
    type: int  # 0 an address, 1 an SPI and an address, 2 (RFC 5770, section 5.7) a transport address
    preferred: bool
    lifetime_s: int
    address: str | None  # None: of a type without a rule


@dataclass(frozen=True, slots=True)
class Locators:
    """LOCATOR_SET (RFC 8046, section 4)."""

    locators: tuple[Locator, ...]

    def describe(self) -> str:
        """Fit for a summary."""
        return ", ".join(one.address or "?" for one in self.locators[:_SHOWN])


@dataclass(frozen=True, slots=True)
class Addresses:
    """FROM and VIA_RVS (RFC 8004, section 4.2); REG_FROM, RELAY_FROM and RELAY_TO (RFC 5770) with a port."""

    addresses: tuple[str, ...]
    port: int | None  # None: the parameter has none
    protocol: int | None  # IP protocol: 17, or 139 without UDP

    def describe(self) -> str:
        """Fit for a summary."""
        port = "" if self.port is None else f" port {self.port}"
        return ", ".join(self.addresses[:_SHOWN]) + port


@dataclass(frozen=True, slots=True)
class HipCertificate:
    """CERT (RFC 8002, section 2)."""

    group: int
    count: int  # certificates in the group
    id: int  # which of them, from 1
    type: int  # 1 X.509 v3, 2 SPKI, 3 and 4 their hash and URL, 5 a distinguished name
    certificate: bytes

    def describe(self) -> str:
        """Fit for a summary."""
        return f"{self.id}/{self.count}"


@dataclass(frozen=True, slots=True)
class UnparsedParameter:
    """Everything else: check values, echoes, what is encrypted, parameters without a rule."""

    bytes: int

    def describe(self) -> str:
        """Nothing: a parameter's size is told elsewhere."""
        return ""


Value = (
    EspInfo | HipNumber | HipPuzzle | HipSolution | HipAlgorithmList | DiffieHellman | HostId | HipNotification | HipSignature | Locators
    | Addresses | HipCertificate | UnparsedParameter
)  # fmt: skip


def parse_parameter(kind: int, content: bytes, version: int) -> Value:
    """The contents of a parameter of this type in a packet of this version of HIP.

    Raises:
        WireError: they are too short for their fields.
    """
    cursor = Cursor(content)
    reader = _READERS.get(kind)
    return UnparsedParameter(len(content)) if reader is None else reader(cursor, version)


def _esp_info(cursor: Cursor, _version: int) -> Value:
    return EspInfo(*cursor.unpack(_ESP_INFO))


def _r1_counter(cursor: Cursor, _version: int) -> Value:
    cursor.skip(_WORD)
    return HipNumber(cursor.get_uint64())


def _seq(cursor: Cursor, _version: int) -> Value:
    return HipNumber(cursor.get_uint32())


def _puzzle(cursor: Cursor, _version: int) -> Value:
    difficulty, lifetime, opaque = cursor.unpack(_PUZZLE)
    return HipPuzzle(difficulty, 2.0 ** (lifetime - _LIFETIME_BIAS), opaque, cursor.get_remaining())


def _solution(cursor: Cursor, _version: int) -> Value:
    difficulty, opaque = cursor.unpack(_SOLUTION)
    half = cursor.remaining() // 2
    return HipSolution(difficulty, opaque, cursor.get_bytes(half), cursor.get_remaining())


def _list(
    registry: type[Registry] | None, size: int, skipped: int = 0, shift: int = 0
) -> Callable[[Cursor, int], Value]:
    """A list of numbers of `size` bytes behind some reserved bytes; `shift`: low bits that are no part of a number."""

    def read(cursor: Cursor, _version: int) -> Value:
        cursor.skip(skipped)
        numbers = []
        while cursor.remaining():
            numbers.append(int.from_bytes(cursor.get_bytes(size), "big") >> shift)
        names = (str(one) if registry is None else get_name(registry, one) for one in numbers)
        return HipAlgorithmList(tuple(numbers), tuple(names))

    return read


_esp_suites = _list(HipEspSuite, 2, skipped=2)
_esp_suites_v1 = _list(HipTransform, 2, skipped=2)


def _esp_transform(cursor: Cursor, version: int) -> Value:
    return (_esp_suites_v1 if version == 1 else _esp_suites)(cursor, version)


def _diffie_hellman(cursor: Cursor, _version: int) -> Value:
    group, size = cursor.unpack(_DIFFIE_HELLMAN)
    return DiffieHellman(group, cursor.get_bytes(size))


def _host_id(cursor: Cursor, version: int) -> Value:
    curve = None
    if version == 1:
        size, domain, algorithm = cursor.unpack(_HOST_ID_V1)
        identity = cursor.get_bytes(size - _WORD)
    else:
        size, domain, algorithm = cursor.unpack(_HOST_ID)
        identity = cursor.get_bytes(size)
        if algorithm == HostAlgorithm.ECDSA:
            curve = get_name(EcdsaCurve, Cursor(identity).get_uint16())
    kind, length = domain >> 12, domain & 0xFFF
    text = cursor.get_bytes(length)
    return HostId(algorithm, identity, curve, escape_peer_text(text) if kind in (_FQDN, _NAI) else None)


def _notification(cursor: Cursor, _version: int) -> Value:
    (kind,) = cursor.unpack(_NOTIFICATION)
    return HipNotification(kind, cursor.remaining())


def _signature(cursor: Cursor, version: int) -> Value:
    algorithm = cursor.get_uint8() if version == 1 else cursor.get_uint16()
    return HipSignature(algorithm, cursor.get_remaining())


def _locators(cursor: Cursor, _version: int) -> Value:
    found = []
    while cursor.remaining():
        traffic, kind, words, flags, lifetime = cursor.unpack(_LOCATOR)
        data = cursor.get_bytes(words * _WORD)
        # whatever stands before it, the address is the last part
        address = _address(data[-_ADDRESS:]) if len(data) >= _ADDRESS else None
        found.append(Locator(traffic, kind, bool(flags & 1), lifetime, address))
    return Locators(tuple(found))


def _relayed(cursor: Cursor, _version: int) -> Value:
    port, protocol, address = cursor.unpack(_RELAYED)
    return Addresses((_address(address),), port, protocol)


def _addresses(cursor: Cursor, _version: int) -> Value:
    found = []
    while cursor.remaining():
        found.append(_address(cursor.get_bytes(_ADDRESS)))
    return Addresses(tuple(found), None, None)


def _address(packed: bytes) -> str:
    """HIP writes an IPv4 address as an IPv4-mapped IPv6 address."""
    return format_address(packed[-4:] if packed.startswith(_MAPPED) else packed) or ""


def _cert(cursor: Cursor, _version: int) -> Value:
    group, count, number, kind = cursor.unpack(_CERT)
    return HipCertificate(group, count, number, kind, cursor.get_remaining())


_P = HipParameterType
_READERS: Final[Mapping[int, Callable[[Cursor, int], Value]]] = MappingProxyType(
    {
        _P.ESP_INFO: _esp_info,
        _P.R1_COUNTER: _r1_counter,
        _P.R1_COUNTER_V1: _r1_counter,
        _P.LOCATOR_SET: _locators,
        _P.PUZZLE: _puzzle,
        _P.SOLUTION: _solution,
        _P.SEQ: _seq,
        _P.ACK: _list(None, 4),
        _P.DH_GROUP_LIST: _list(DhGroup, 1),
        _P.DH_GROUP_LIST_DRAFT: _list(DhGroup, 1),
        _P.DIFFIE_HELLMAN: _diffie_hellman,
        _P.HIP_TRANSFORM: _list(HipTransform, 2),
        _P.HIP_CIPHER: _list(HipCipher, 2),
        _P.NAT_TRAVERSAL_MODE: _list(NatMode, 2, skipped=2),
        _P.HOST_ID: _host_id,
        _P.HIT_SUITE_LIST: _list(HitSuite, 1, shift=4),
        _P.CERT: _cert,
        _P.NOTIFICATION: _notification,
        _P.REG_INFO: _list(Registration, 1, skipped=2),
        _P.REG_REQUEST: _list(Registration, 1, skipped=1),
        _P.REG_RESPONSE: _list(Registration, 1, skipped=1),
        _P.REG_FAILED: _list(Registration, 1, skipped=1),
        _P.REG_FROM: _relayed,
        _P.TRANSPORT_FORMAT_LIST: _list(HipParameterType, 2),
        _P.ESP_TRANSFORM: _esp_transform,
        _P.HIP_SIGNATURE: _signature,
        _P.HIP_SIGNATURE_2: _signature,
        _P.RELAY_FROM: _relayed,
        _P.RELAY_TO: _relayed,
        _P.FROM: _addresses,
        _P.VIA_RVS: _addresses,
    }
)
