"""Reassembly of IP fragments, IPv4 and IPv6 alike (RFC 791, 3.2; RFC 8200, 4.5).

A large IKE_SA_INIT or a certificate chain without RFC 7383 comes in several IP fragments; each is a frame on
the wire, and its bytes belong to the message. ESP is fragmented too, and every packet must be accounted for:
so all fragments go through here, and come out as groups of which the first fragment tells what they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt

#: How long the fragments of one datagram are waited for, in capture time (Linux: 30 s).
TIMEOUT_NS: Final = 30_000_000_000
#: The same fragment again within this time is the capture's doing; later it is a new datagram with the same
#: identification.
DUPLICATE_NS: Final = 1_000_000
#: The same fragment again within this time, but not all of its datagram behind the whole of it, is the network's doing: a link
#: that doubles packets and delays them unevenly. A sender repeats a message after its timer only (the fastest: 500 ms).
TWICE_NS: Final = 200_000_000
#: Datagrams waited for at the same time; more than that is an attack or garbage.
_MOST_PENDING: Final = 4096
#: Bytes of the payload of the longest IP datagram.
_MOST_BYTES: Final = 65535

#: Source, destination, IP identification, protocol (IPv6: of the first header behind the fragment header, so
#: left out), TTL.
Key = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class IpFragment:
    """One IP fragment and the frame that it came in."""

    number: int  # of the packet in its capture
    time_ns: int
    interface: int
    length: int  # of the frame on the wire
    captured: int
    ttl: int
    offset: int  # of its payload in the datagram
    more: bool
    payload: bytes  # as captured
    wire_size: int  # of its payload on the wire
    repeated: bool = False  # a duplicate of the capture
    resent: bool = False  # the network doubled it


@dataclass(slots=True)
class FragmentedPacket:
    """Fragments of one IP datagram."""

    key: Key
    protocol: int
    fragments: list[IpFragment] = field(default_factory=list)  # in order of arrival
    size: int | None = None  # of the whole, once the last fragment is there
    #: The datagram that these are fragments of, seen again: by the capture, or doubled.
    repeats: "FragmentedPacket | None" = None
    doubles: "FragmentedPacket | None" = (
        None  # the datagram, complete before, of which all these may be doubled fragments
    )
    row: dict[str, npt.NDArray[np.generic]] | None = None  # of the frames table, if it carries a message
    category: int = 0  # what it was counted as, once that is known
    _at: dict[int, list[IpFragment]] = field(default_factory=dict)  # fragments by offset
    _sum: int = 0  # of their sizes on the wire

    def add(self, fragment: IpFragment) -> None:
        """Take one more fragment."""
        self.fragments.append(fragment)
        self._at.setdefault(fragment.offset, []).append(fragment)
        self._sum += fragment.wire_size
        if not fragment.more:
            self.size = fragment.offset + fragment.wire_size

    def has(self, offset: int) -> bool:
        """A fragment with this offset is there."""
        return offset in self._at

    def is_duplicate(self, fragment: IpFragment, within_ns: int = DUPLICATE_NS) -> bool:
        """The fragment is one of these, seen a second time: by the capture, or with more time between them sent twice."""
        return any(
            abs(fragment.time_ns - earlier.time_ns) <= within_ns and earlier.payload == fragment.payload
            for earlier in self._at.get(fragment.offset, ())
        )

    @property
    def complete(self) -> bool:
        """No byte is missing (on the wire; the snapshot length may still have cut some off)."""
        if self.size is None or self._sum < self.size:
            return False
        reached = 0
        for offset in sorted(self._at):
            if offset > reached:
                return False
            reached = max(reached, offset + max(fragment.wire_size for fragment in self._at[offset]))
        return reached >= self.size

    def payload(self) -> tuple[bytes, int]:
        """The bytes from the first one on, as far as they are known, and how many there were on the wire.

        Where the last fragment is missing, that is as many as a datagram can have. Where fragments overlap,
        the one that begins first is believed.
        """
        known = bytearray()
        for fragment in sorted(self.fragments, key=lambda part: part.offset):
            if fragment.offset > len(known):
                break
            known += fragment.payload[len(known) - fragment.offset :]
            if len(fragment.payload) < fragment.wire_size:
                break
        size = _MOST_BYTES if self.size is None else self.size
        return bytes(known[:size]), size

    @property
    def has_first(self) -> bool:
        """The fragment with the transport header is there."""
        return any(fragment.offset == 0 for fragment in self.fragments)


class IpReassembler:
    """Fragments in, datagrams out: complete ones at once, the others when their time is over."""

    def __init__(self) -> None:
        self._pending: dict[Key, FragmentedPacket] = {}
        self._done: dict[Key, FragmentedPacket] = {}  # lately completed, to recognise the capture's duplicates

    def add(self, key: Key, protocol: int, fragment: IpFragment) -> Iterator[FragmentedPacket]:
        """Take a fragment; give the datagrams that are settled by it."""
        yield from self._expire(fragment.time_ns)
        self._forget(fragment.time_ns)
        done = self._done.get(key)
        if done is not None and done.is_duplicate(fragment):
            yield FragmentedPacket(key, protocol, [replace(fragment, repeated=True)], done.size, done)
            return
        datagram = self._pending.get(key)
        twice = done is not None and done.is_duplicate(fragment, TWICE_NS)
        if datagram is not None and datagram.doubles is not None and not twice:
            # what else has this identification now is another datagram
            yield _settled(self._pending.pop(key))
            datagram = None
        if datagram is not None and datagram.has(fragment.offset):
            if datagram.is_duplicate(fragment):
                datagram.fragments.append(replace(fragment, repeated=True))
                return
            if datagram.is_duplicate(fragment, TWICE_NS):
                datagram.fragments.append(replace(fragment, resent=True))
                return
            # the identification is used again, so the earlier datagram lost a fragment
            yield _settled(self._pending.pop(key))
            datagram = None
        if datagram is None:
            datagram = self._pending[key] = FragmentedPacket(key, protocol, doubles=done if twice else None)
        datagram.add(fragment)
        if fragment.offset == 0:
            datagram.protocol = protocol
        if datagram.complete:
            del self._pending[key]
            self._done.pop(key, None)
            self._done[key] = datagram
            yield datagram
        elif len(self._pending) > _MOST_PENDING:
            yield _settled(self._pending.pop(next(iter(self._pending))))

    def finish(self) -> Iterator[FragmentedPacket]:
        """Give what is still incomplete at the end of the capture."""
        yield from map(_settled, self._pending.values())
        self._pending.clear()

    def _expire(self, now_ns: int) -> Iterator[FragmentedPacket]:
        # dictionaries keep the order of arrival: the oldest datagram is the first one
        while self._pending:
            key, datagram = next(iter(self._pending.items()))
            if now_ns - datagram.fragments[0].time_ns <= TIMEOUT_NS:
                return
            del self._pending[key]
            yield _settled(datagram)

    def _forget(self, now_ns: int) -> None:
        while self._done:
            key, datagram = next(iter(self._done.items()))
            if now_ns - datagram.fragments[-1].time_ns <= TWICE_NS and len(self._done) <= _MOST_PENDING:
                return
            del self._done[key]


def _settled(incomplete: FragmentedPacket) -> FragmentedPacket:
    """A datagram that nothing more is waited for: where all of it are doubled fragments of another one, these."""
    if incomplete.doubles is None:
        return incomplete
    again = [replace(fragment, resent=True) for fragment in incomplete.fragments]
    return FragmentedPacket(incomplete.key, incomplete.protocol, again, incomplete.doubles.size, incomplete.doubles)
