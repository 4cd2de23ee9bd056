"""Who is behind a NAT, by the NAT detection hashes of IKE_SA_INIT (RFC 7296, 2.23).

Each side sends the SHA-1 of the SPIs with the address and port that it believes to send from and to send to. A hash that does not fit what the
capture saw tells that an address was changed on the way (or that a side forces UDP encapsulation by a false hash, which its peer
cannot tell from a NAT either).
"""

import hashlib
from typing import Final

from ikeanalyze.wire.ikev2 import InitView

_SOURCE: Final = 16388
_DESTINATION: Final = 16389
_SIZE: Final = 20


class HashPlaces:
    """Where in messages of one form the NAT detection hashes stand."""

    __slots__ = ("_destinations", "_sources")

    def __init__(self, view: InitView, sample: bytes) -> None:
        self._sources = _places(view, sample, _SOURCE)
        self._destinations = _places(view, sample, _DESTINATION)

    def differs(self, message: bytes, source: bytes, destination: bytes) -> tuple[bool | None, bool | None]:
        """Whether the sender, and the receiver, is not where the message says; None: it does not say.

        `source` and `destination` are the address (4 or 16 bytes) and port (2 bytes) that the message was seen with.
        """
        spis = message[:16]
        return _differs(message, self._sources, spis + source), _differs(message, self._destinations, spis + destination)


def _places(view: InitView, sample: bytes, kind: int) -> tuple[int, ...]:
    hashes = [data for notify, data in view.notifies if notify == kind and len(data) == _SIZE]
    return tuple(sample.index(data) for data in hashes)


def _differs(message: bytes, places: tuple[int, ...], seen: bytes) -> bool | None:
    if not places:
        return None
    # no security hangs on it: the protocol has it so
    digest = hashlib.sha1(seen, usedforsecurity=False).digest()
    # a host with several addresses sends a hash for each
    return all(message[place : place + _SIZE] != digest for place in places)


def describe(initiator: bool | None, responder: bool | None) -> str | None:
    """The word of the handshakes table."""
    if initiator is None and responder is None:
        return None
    names = {(True, True): "both", (True, False): "initiator", (False, True): "responder", (False, False): "none"}
    return names[bool(initiator), bool(responder)]
