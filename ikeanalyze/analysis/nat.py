"""Who is behind a NAT, by the NAT detection hashes of IKE_SA_INIT (RFC 7296, 2.23).

Each side sends the SHA-1 of the SPIs with the address and port that it believes to send from and to send to. A hash that does not fit what the
capture saw tells that an address was changed on the way (or that a side forces UDP encapsulation by a false hash, which its peer
cannot tell from a NAT either).
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.wire.ikev2 import InitView

_SOURCE: Final = 16388
_DESTINATION: Final = 16389
_SIZE: Final = 20
_SPIS: Final = 16


class HashPlaces:
    """Where in messages of one form the NAT detection hashes stand."""

    __slots__ = ("_destinations", "_sources")

    def __init__(self, view: InitView, sample: bytes) -> None:
        self._sources = _places(view, sample, _SOURCE)
        self._destinations = _places(view, sample, _DESTINATION)

    def sender_differs(self, messages: npt.NDArray[np.uint8], seen: Sequence[bytes]) -> npt.NDArray[np.int8]:
        """Whether the sender is not where each message says: 1, 0, or -1 where it says nothing. (n,)

        `messages` has a row of bytes for each, `seen` its source address and port.
        """
        return _differs(messages, self._sources, seen)

    def receiver_differs(self, messages: npt.NDArray[np.uint8], seen: Sequence[bytes]) -> npt.NDArray[np.int8]:
        """The same of the receiver."""
        return _differs(messages, self._destinations, seen)


def _places(view: InitView, sample: bytes, kind: int) -> tuple[int, ...]:
    hashes = [data for notify, data in view.notifies if notify == kind and len(data) == _SIZE]
    return tuple(sample.index(data) for data in hashes)


def _differs(messages: npt.NDArray[np.uint8], places: tuple[int, ...], seen: Sequence[bytes]) -> npt.NDArray[np.int8]:
    count = len(messages)
    if not places:
        return np.full(count, -1, np.int8)
    spis = messages[:, :_SPIS].tobytes()
    starts = range(0, count * _SPIS, _SPIS)
    sha1 = hashlib.sha1
    digests = [sha1(spis[at : at + _SPIS] + end).digest() for at, end in zip(starts, seen, strict=True)]
    expected = np.frombuffer(b"".join(digests), np.uint8).reshape(count, _SIZE)
    # a host with several addresses sends a hash for each
    fits = np.zeros(count, np.bool_)
    for place in places:
        fits |= (messages[:, place : place + _SIZE] == expected).all(axis=1)
    return (~fits).astype(np.int8)


def describe(initiator: npt.NDArray[np.int8], responder: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    """Index into WORDS for each handshake, from what is known of both its sides: 1, 0 or -1 each."""
    word = np.maximum(initiator, 0) + 2 * np.maximum(responder, 0)
    return np.where((initiator < 0) & (responder < 0), len(WORDS) - 1, word).astype(np.int8)


#: The words of the handshakes table.
WORDS: Final = ("none", "initiator", "responder", "both", None)
