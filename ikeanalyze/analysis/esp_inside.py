"""What is inside of ESP packets whose keys are known: how large the payload is, and what was added to it.

RFC 4303: padding (section 2.4), padding that hides sizes (2.7), dummy packets (2.6).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.analysis.esp_traffic import MOST_SAS
from ikeanalyze.capture.frames import address_text
from ikeanalyze.keys.esp_packets import EspOpener, Inside
from ikeanalyze.keys.keyset import EspKey

_IPV4: Final = 4
_IPV6: Final = 41
_DUMMY: Final = 59  # no next header
_ANY: Final = ("", "*")
#: Source and destination (AddressBook codes) and SPI.
Sa = tuple[int, int, int]

#: Packets that no key opens before an SA is given up.
_PATIENCE: Final = 20


@dataclass(slots=True)
class Insides:
    """What the packets of an SA have inside, as far as keys open them."""

    opened: int = 0  # packets, their ICV verified
    closed: int = 0  # packets that no key fits, or that are cut by the snapshot length
    payload_bytes: int = 0  # in tunnel mode inner IP packets, else what IP carries
    padding_bytes: int = 0  # up to a whole block
    hiding_bytes: int = 0  # behind an inner IP packet, to hide its size
    dummies: int = 0  # packets without content
    sizes: Counter[int] = field(default_factory=Counter)  # packets by bytes of payload
    protocols: Counter[int] = field(default_factory=Counter)  # packets by next header

    def add(self, inside: Inside) -> None:
        """Count a packet."""
        size = _inner_size(inside)
        self.opened += 1
        self.payload_bytes += size
        self.padding_bytes += inside.padding
        self.hiding_bytes += len(inside.payload) - size
        self.dummies += inside.next_header == _DUMMY
        self.sizes[size] += 1
        self.protocols[inside.next_header] += 1


class Opened:
    """Takes packets and opens them with the keys that fit.

    `unusable` has why keys are of no use, one line each, without secrets.
    """

    def __init__(self, keys: Sequence[EspKey]) -> None:
        self.unusable: list[str] = []
        self.insides: dict[Sa, Insides] = {}
        self._keys = [(key, opener) for key in keys if (opener := self._opener(key)) is not None]
        self._fitting: dict[Sa, EspOpener] = {}

    def add(self, sa: Sa, packet: bytes | None, ipv6: Sequence[bytes]) -> None:
        """Take a packet, from its SPI to its ICV; None: it is not whole. `ipv6`: addresses of the AddressBook."""
        insides = self.insides.get(sa)
        if insides is None:
            if len(self.insides) >= MOST_SAS:
                return
            insides = self.insides[sa] = Insides()
        inside = None
        if packet is not None:
            opener = self._fitting.get(sa)
            if opener is not None:
                inside = opener.open(packet)
            elif insides.closed < _PATIENCE:
                inside = self._try(sa, packet, ipv6)
        if inside is None:
            insides.closed += 1
        else:
            insides.add(inside)

    def _opener(self, key: EspKey) -> EspOpener | None:
        try:
            return EspOpener(key)
        except ValueError as error:
            place = (
                key.origin.path if key.origin.line is None else f"{key.origin.path}, line {key.origin.line}"
            )
            self.unusable.append(f"{place}: {error}")
            return None

    def _try(self, sa: Sa, packet: bytes, ipv6: Sequence[bytes]) -> Inside | None:
        source, destination = (address_text(code, ipv6) for code in sa[:2])
        for key, opener in self._keys:
            fits = key.spi in (None, sa[2]) and key.source in (*_ANY, source)
            if fits and key.destination in (*_ANY, destination):
                inside = opener.open(packet)
                if inside is not None:
                    self._fitting[sa] = opener
                    return inside
        return None


def wanted_spis(keys: Sequence[EspKey]) -> frozenset[int] | None:
    """SPIs of the SAs that there may be keys of; None: any."""
    spis = [key.spi for key in keys]
    return None if None in spis else frozenset(spi for spi in spis if spi is not None)


def _inner_size(inside: Inside) -> int:
    """Bytes of an inner IP packet by its own header, else of the payload."""
    payload = inside.payload
    if inside.next_header == _IPV4 and len(payload) >= 20 and payload[0] >> 4 == 4:
        return min(int.from_bytes(payload[2:4]), len(payload))
    if inside.next_header == _IPV6 and len(payload) >= 40 and payload[0] >> 4 == 6:
        return min(40 + int.from_bytes(payload[4:6]), len(payload))
    return len(payload)
