"""What is inside of ESP packets whose keys are known: how large the payload is, and what was added to it.

RFC 4303: padding (section 2.4), padding that hides sizes (2.7), dummy packets (2.6).
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_interface
from typing import Final, Self

from ikeanalyze.capture.esp import MAX_ESP_SAS
from ikeanalyze.capture.frames import format_address_code
from ikeanalyze.crypto.esp import EspDecryptor, EspPayload
from ikeanalyze.keys.key_set import EspKey

_IPV4: Final = 4
_IPV6: Final = 41
_DUMMY: Final = 59  # no next header
_ANY: Final = ("", "*")
#: An octet or a group that is a wildcard as a whole.
_WHOLE: Final = re.compile(r"(?<![^.:])\*(?![^.:])")
#: Source and destination (AddressBook codes) and SPI.
Sa = tuple[int, int, int]

#: Whole packets that no key opens before an SA is given up.
_PATIENCE: Final = 20


@dataclass(slots=True)
class EspPayloadStats:
    """What the packets of an SA have inside, as far as keys open them."""

    opened: int = 0  # packets, their ICV verified
    closed: int = 0  # packets that no key fits, or that are cut by the snapshot length
    payload_bytes: int = 0  # in tunnel mode inner IP packets, else what IP carries
    padding_bytes: int = 0  # up to a whole block
    hiding_bytes: int = 0  # behind an inner IP packet, to hide its size
    dummies: int = 0  # packets without content
    sizes: Counter[int] = field(default_factory=Counter)  # packets by bytes of payload
    protocols: Counter[int] = field(default_factory=Counter)  # packets by next header

    def add(self, inside: EspPayload) -> None:
        """Count a packet."""
        size = _inner_size(inside)
        self.opened += 1
        self.payload_bytes += size
        self.padding_bytes += inside.padding
        self.hiding_bytes += len(inside.payload) - size
        self.dummies += inside.next_header == _DUMMY
        self.sizes[size] += 1
        self.protocols[inside.next_header] += 1


@dataclass(frozen=True, slots=True)
class _AddressPattern:
    """Addresses that a key is for: those that are like one where bits are set in a mask."""

    version: int  # of IP
    value: int
    mask: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """As a key has them: `10.0.0.1`, `10.0.*.1`, `10.*`, `2001:db8:*::1`, with a prefix length too; None: any.

        Raises:
            ValueError: it is nothing of this.
        """
        if text in _ANY:
            return None
        if "*" not in text:
            one = ip_interface(text)
            return cls(one.version, int(one), int(one.netmask))
        if ":" in text:
            # Wireshark takes single hexadecimal digits too
            low = ip_address(text.replace("*", "0"))
            high = ip_address(_WHOLE.sub("ffff", text).replace("*", "f"))
        else:
            text += ".*" * (3 - text.count(".") if text.endswith(".*") else 0)
            low, high = (ip_address(_WHOLE.sub(octet, text)) for octet in ("0", "255"))
        every = (1 << low.max_prefixlen) - 1
        return cls(low.version, int(low), every ^ int(low) ^ int(high))

    def matches(self, text: str) -> bool:
        """Whether this is one of them."""
        one = ip_address(text)
        return one.version == self.version and not (int(one) ^ self.value) & self.mask


@dataclass(frozen=True, slots=True)
class _UsableEspKey:
    """A key, made ready once."""

    key: EspKey
    opener: EspDecryptor
    source: _AddressPattern | None  # None: any
    destination: _AddressPattern | None

    def applies_to(self, source: str, destination: str) -> bool:
        """Whether it is for these addresses."""
        return (self.source is None or self.source.matches(source)) and (
            self.destination is None or self.destination.matches(destination)
        )


class EspPacketDecryptor:
    """Takes packets and opens them with the keys that fit.

    `unusable` has why keys are of no use, one line each, without secrets.
    """

    def __init__(self, keys: Sequence[EspKey]) -> None:
        self.unusable: list[str] = []
        self.insides: dict[Sa, EspPayloadStats] = {}
        self._keys = [usable for key in keys if (usable := self._usable(key)) is not None]
        self._fitting: dict[Sa, EspDecryptor] = {}
        self._upper: dict[Sa, int] = {}  # of the last packet; without SAs whose sequence numbers have 32 bits
        self._tried: Counter[Sa] = Counter()  # packets that keys were tried with

    def add(self, sa: Sa, packet: bytes | None, ipv6: Sequence[bytes]) -> None:
        """Take a packet, from its SPI to its ICV; None: it is not whole. `ipv6`: addresses of the AddressBook."""
        insides = self.insides.get(sa)
        if insides is None:
            if len(self.insides) >= MAX_ESP_SAS:
                return
            insides = self.insides[sa] = EspPayloadStats()
        inside = None
        if packet is not None:
            opener = self._fitting.get(sa)
            if opener is not None:
                inside = opener.open(packet, self._upper.get(sa))
            elif self._tried[sa] < _PATIENCE:
                self._tried[sa] += 1
                inside = self._try(sa, packet, ipv6)
        if inside is None:
            insides.closed += 1
        else:
            insides.add(inside)
            if inside.upper is not None:
                self._upper[sa] = inside.upper

    def find_misplaced_keys(self, ipv6: Sequence[bytes]) -> list[str]:
        """Keys whose SPI came up, but between other addresses only; one line each, without secrets."""
        found = []
        between: dict[int | None, list[tuple[str, str]]] = {}
        for sa in self.insides:
            between.setdefault(sa[2], []).append(_ends(sa, ipv6))
        for usable in self._keys:
            ends = between.get(usable.key.spi, [])
            if ends and not any(usable.applies_to(*pair) for pair in ends):
                seen = " to ".join(ends[0])
                found.append(
                    f"{_place(usable.key)}: the SPI {usable.key.spi:08x} is in the capture, but not between these addresses "
                    f"(it is from {seen})"
                )
        return found

    def _usable(self, key: EspKey) -> _UsableEspKey | None:
        try:
            opener = EspDecryptor(key.encryption, key.encryption_key, key.integrity, key.integrity_key)
        except ValueError as error:
            self.unusable.append(f"{_place(key)}: {error}")
            return None
        try:
            return _UsableEspKey(key, opener, _AddressPattern.parse(key.source), _AddressPattern.parse(key.destination))
        except ValueError:
            self.unusable.append(
                f"{_place(key)}: {key.source!r} and {key.destination!r} are not both addresses; "
                "one looks like 192.0.2.1, 192.0.2.*, 2001:db8::1 or *"
            )
            return None

    def _try(self, sa: Sa, packet: bytes, ipv6: Sequence[bytes]) -> EspPayload | None:
        ends = _ends(sa, ipv6)
        for usable in self._keys:
            if usable.key.spi in (None, sa[2]) and usable.applies_to(*ends):
                inside = usable.opener.open(packet)
                if inside is not None:
                    self._fitting[sa] = usable.opener
                    return inside
        return None


def _ends(sa: Sa, ipv6: Sequence[bytes]) -> tuple[str, str]:
    """Source and destination as text."""
    return format_address_code(sa[0], ipv6), format_address_code(sa[1], ipv6)


def _place(key: EspKey) -> str:
    line = key.origin.line
    return key.origin.path if line is None else f"{key.origin.path}, line {line}"


def collect_key_spis(keys: Sequence[EspKey]) -> frozenset[int] | None:
    """SPIs of the SAs that there may be keys of; None: any."""
    spis = [key.spi for key in keys]
    return None if None in spis else frozenset(spi for spi in spis if spi is not None)


def _inner_size(inside: EspPayload) -> int:
    """Bytes of an inner IP packet by its own header, else of the payload."""
    payload = inside.payload
    if inside.next_header == _IPV4 and len(payload) >= 20 and payload[0] >> 4 == 4:
        return min(int.from_bytes(payload[2:4]), len(payload))
    if inside.next_header == _IPV6 and len(payload) >= 40 and payload[0] >> 4 == 6:
        return min(40 + int.from_bytes(payload[4:6]), len(payload))
    return len(payload)
