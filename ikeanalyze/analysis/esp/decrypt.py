"""Decrypts ESP packets and measures their payload, padding (RFC 4303, sections 2.4 and 2.7) and dummy packets (2.6)."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from typing import Final, Self

from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.capture.esp import MAX_ESP_SAS
from ikeanalyze.crypto.esp import EspDecryptor, EspPayload
from ikeanalyze.keys.key_set import EspKey

_IPV4: Final = 4
_IPV6: Final = 41
_DUMMY: Final = 59  # no next header
_ANY: Final = ("", "*")
#: A wildcard for a complete octet or group.
_WILDCARD: Final = re.compile(r"(?<![^.:])\*(?![^.:])")
#: Source and destination (AddressBook codes) and SPI.
Sa = tuple[int, int, int]

#: Complete packets of an SA that are tried with all keys.
_MAX_TRIES: Final = 20


@dataclass(slots=True)
class EspPayloadStats:
    """Totals of the decrypted packets of an SA."""

    decrypted: int = 0  # packets that were decrypted, with a correct ICV
    undecrypted: int = 0  # packets that no key decrypts, or that the snapshot length truncates
    payload_bytes: int = 0  # tunnel mode: inner IP packets; transport mode: payload of IP
    padding_bytes: int = 0  # to the block size
    hiding_bytes: int = 0  # after an inner IP packet, to hide its size
    dummies: int = 0  # dummy packets (next header 59)
    sizes: Counter[int] = field(default_factory=Counter)  # packets by bytes of payload
    protocols: Counter[int] = field(default_factory=Counter)  # packets by next header

    def add(self, decrypted: EspPayload) -> None:
        """Count a packet."""
        size = _get_inner_size(decrypted)
        self.decrypted += 1
        self.payload_bytes += size
        self.padding_bytes += decrypted.padding
        self.hiding_bytes += len(decrypted.payload) - size
        self.dummies += decrypted.next_header == _DUMMY
        self.sizes[size] += 1
        self.protocols[decrypted.next_header] += 1


@dataclass(frozen=True, slots=True)
class _AddressPattern:
    """The addresses that a key is for: those that equal `value` in the bits of `mask`."""

    version: int  # of IP
    value: int
    mask: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse `10.0.0.1`, `10.0.0.0/8`, `10.0.*.1`, `10.*` or `2001:db8:*::1`; None: any address.

        Raises:
            ValueError: invalid address.
        """
        if text in _ANY:
            return None
        if "*" not in text:
            interface = ip_interface(text)
            return cls(interface.version, int(interface), int(interface.netmask))
        if ":" in text:
            # as in Wireshark, `*` may also be a single hexadecimal digit
            low = ip_address(text.replace("*", "0"))
            high = ip_address(_WILDCARD.sub("ffff", text).replace("*", "f"))
        else:
            text += ".*" * (3 - text.count(".") if text.endswith(".*") else 0)
            low, high = (ip_address(_WILDCARD.sub(octet, text)) for octet in ("0", "255"))
        all_bits = (1 << low.max_prefixlen) - 1
        return cls(low.version, int(low), all_bits ^ int(low) ^ int(high))

    def matches(self, text: str) -> bool:
        """Whether the key is for this address."""
        address = ip_address(text)
        return address.version == self.version and not (int(address) ^ self.value) & self.mask


@dataclass(frozen=True, slots=True)
class _UsableEspKey:
    """A key with its decryptor."""

    key: EspKey
    decryptor: EspDecryptor
    source: _AddressPattern | None  # None: any
    destination: _AddressPattern | None

    def applies_to(self, source: str, destination: str) -> bool:
        """Whether the key is for these addresses."""
        return (self.source is None or self.source.matches(source)) and (
            self.destination is None or self.destination.matches(destination)
        )


class EspPacketDecryptor:
    """Decrypts packets with the keys that fit.

    `unusable` has a line for each unusable key, without secrets.
    """

    def __init__(self, keys: Sequence[EspKey]) -> None:
        self.unusable: list[str] = []
        self.stats: dict[Sa, EspPayloadStats] = {}
        self._keys = [usable for key in keys if (usable := self._prepare(key)) is not None]
        self._fitting: dict[Sa, EspDecryptor] = {}
        self._upper: dict[Sa, int] = {}  # upper half of the last extended sequence number
        self._tried: Counter[Sa] = Counter()  # packets that were tried with all keys

    def add(self, sa: Sa, packet: bytes | None, ipv6: Sequence[bytes]) -> None:
        """Decrypt a packet, SPI to ICV (None: incomplete). `ipv6`: IPv6 addresses of the address codes."""
        stats = self.stats.get(sa)
        if stats is None:
            if len(self.stats) >= MAX_ESP_SAS:
                return
            stats = self.stats[sa] = EspPayloadStats()
        decrypted = None
        if packet is not None:
            decryptor = self._fitting.get(sa)
            if decryptor is not None:
                decrypted = decryptor.decrypt(packet, self._upper.get(sa))
            elif self._tried[sa] < _MAX_TRIES:
                self._tried[sa] += 1
                decrypted = self._try_keys(sa, packet, ipv6)
        if decrypted is None:
            stats.undecrypted += 1
        else:
            stats.add(decrypted)
            if decrypted.upper is not None:
                self._upper[sa] = decrypted.upper

    def find_misplaced_keys(self, ipv6: Sequence[bytes]) -> list[str]:
        """A line, without secrets, for each key whose SPI occurs only between other addresses."""
        lines = []
        addresses: dict[int | None, list[tuple[str, str]]] = {}
        for sa in self.stats:
            addresses.setdefault(sa[2], []).append(_format_ends(sa, ipv6))
        for usable in self._keys:
            ends = addresses.get(usable.key.spi, [])
            if ends and not any(usable.applies_to(*pair) for pair in ends):
                seen = " to ".join(ends[0])
                lines.append(
                    f"{_format_origin(usable.key)}: the SPI {usable.key.spi:08x} is in the capture, but not between "
                    f"these addresses (it is from {seen})"
                )
        return lines

    def _prepare(self, key: EspKey) -> _UsableEspKey | None:
        try:
            decryptor = EspDecryptor(key.encryption, key.encryption_key, key.integrity, key.integrity_key)
        except ValueError as error:
            self.unusable.append(f"{_format_origin(key)}: {error}")
            return None
        try:
            source, destination = (_AddressPattern.parse(text) for text in (key.source, key.destination))
        except ValueError:
            self.unusable.append(
                f"{_format_origin(key)}: {key.source!r} and {key.destination!r} are not both addresses; "
                "use addresses such as 192.0.2.1, 192.0.2.*, 2001:db8::1 or *"
            )
            return None
        return _UsableEspKey(key, decryptor, source, destination)

    def _try_keys(self, sa: Sa, packet: bytes, ipv6: Sequence[bytes]) -> EspPayload | None:
        ends = _format_ends(sa, ipv6)
        for usable in self._keys:
            if usable.key.spi in (None, sa[2]) and usable.applies_to(*ends):
                decrypted = usable.decryptor.decrypt(packet)
                if decrypted is not None:
                    self._fitting[sa] = usable.decryptor
                    return decrypted
        return None


def _format_ends(sa: Sa, ipv6: Sequence[bytes]) -> tuple[str, str]:
    """Source and destination as text."""
    return format_address_code(sa[0], ipv6), format_address_code(sa[1], ipv6)


def _format_origin(key: EspKey) -> str:
    line = key.origin.line
    return key.origin.path if line is None else f"{key.origin.path}, line {line}"


def collect_key_spis(keys: Sequence[EspKey]) -> frozenset[int] | None:
    """SPIs of the SAs that the keys are for; None: any."""
    spis = [key.spi for key in keys]
    return None if None in spis else frozenset(spi for spi in spis if spi is not None)


def _get_inner_size(decrypted: EspPayload) -> int:
    """Bytes of an inner IP packet by its header, otherwise of the payload."""
    payload = decrypted.payload
    if decrypted.next_header == _IPV4 and len(payload) >= 20 and payload[0] >> 4 == 4:
        return min(int.from_bytes(payload[2:4]), len(payload))
    if decrypted.next_header == _IPV6 and len(payload) >= 40 and payload[0] >> 4 == 6:
        return min(40 + int.from_bytes(payload[4:6]), len(payload))
    return len(payload)
