"""Reassembly of IP fragments, IPv4 and IPv6 alike (RFC 791, 3.2; RFC 8200, 4.5).

A large IKE_SA_INIT message or a certificate chain without RFC 7383 is sent in several IP fragments, whose bytes count
for the message. Fragments of ESP and other protocols are grouped too, since the first fragment determines the category
of all.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field
from msgspec.structs import replace

#: Age by capture timestamps at which an incomplete datagram is given up (Linux: 30 s).
TIMEOUT_NS: Final = 30_000_000_000
#: The same packet again within this time is a duplicate of the capture: the longest time in which a packet crosses a
#: machine that does not queue it. A fragment that comes later belongs to a new datagram with the same identification.
DUPLICATE_NS: Final = 1_000_000
#: The same fragment again within this time, without a complete second datagram, is a duplicate of the network: a link
#: that doubles packets and delays them unevenly. A sender retransmits after its timer only (at least 500 ms).
_DOUBLED_NS: Final = 200_000_000
#: Simultaneous incomplete datagrams; more occur in attacks or invalid data only.
_MAX_PENDING: Final = 4096
#: Bytes of the longest IP payload.
_MAX_PAYLOAD: Final = 65535

#: Source, destination, IP identification, protocol (-1 for IPv6, whose fragments may differ in it), TTL, tunnel.
Key = tuple[int, int, int, int, int, int]


class IpFragment(Struct, frozen=True):
    """An IP fragment and its frame."""

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
    resent: bool = False  # a duplicate of the network


def sort_fragments(fragments: Iterable[tuple[Key, int, IpFragment]]) -> list[tuple[Key, int, IpFragment]]:
    """Arguments of `IpReassembler.add` in the order of their packets: those of a batch come depth by depth."""
    return sorted(fragments, key=lambda part: part[2].number)


class FragmentedPacket(Struct):
    """Fragments of one IP datagram."""

    key: Key
    protocol: int
    fragments: list[IpFragment] = field(default_factory=list)  # in order of arrival
    size: int | None = None  # of the payload; None until the last fragment arrives
    repeats: "FragmentedPacket | None" = None  # the complete datagram that these fragments are duplicates of
    doubles: "FragmentedPacket | None" = None  # as `repeats`, while another datagram is still possible
    row: dict[str, npt.NDArray[np.generic]] | None = None  # of the frames table, if the datagram carries a message
    category: int = 0  # a PacketCategory, once the datagram is classified
    _at: dict[int, list[IpFragment]] = field(default_factory=dict)  # fragments by offset
    _sum: int = 0  # of their sizes on the wire

    def add(self, fragment: IpFragment) -> None:
        """Add a fragment."""
        self.fragments.append(fragment)
        self._at.setdefault(fragment.offset, []).append(fragment)
        self._sum += fragment.wire_size
        if not fragment.more:
            self.size = fragment.offset + fragment.wire_size

    def is_duplicate(self, fragment: IpFragment, within_ns: int = DUPLICATE_NS) -> bool:
        """Whether the fragment equals a fragment of this datagram that arrived at most this much earlier or later."""
        return any(
            abs(fragment.time_ns - earlier.time_ns) <= within_ns and earlier.payload == fragment.payload
            for earlier in self._at.get(fragment.offset, ())
        )

    @property
    def complete(self) -> bool:
        """Whether all fragments are there (the snapshot length may have truncated them)."""
        if self.size is None or self._sum < self.size:
            return False
        reached = 0
        for offset in sorted(self._at):
            if offset > reached:
                return False
            reached = max(reached, offset + max(fragment.wire_size for fragment in self._at[offset]))
        return reached >= self.size

    def payload(self) -> tuple[bytes, int]:
        """The bytes without a gap from the start, and the size of the payload on the wire.

        The size is that of the longest payload if the last fragment is missing. If fragments overlap, the fragment with
        the lower offset takes precedence.
        """
        known = bytearray()
        for fragment in sorted(self.fragments, key=lambda part: part.offset):
            if fragment.offset > len(known):
                break
            known += fragment.payload[len(known) - fragment.offset :]
            if len(fragment.payload) < fragment.wire_size:
                break
        size = _MAX_PAYLOAD if self.size is None else self.size
        return bytes(known[:size]), size

    @property
    def has_first(self) -> bool:
        """Whether the fragment with the transport header is there."""
        return any(fragment.offset == 0 for fragment in self.fragments)


class IpReassembler:
    """Groups fragments into datagrams. Returns complete datagrams at once, others after a timeout.

    Fragments are added in the order of their packets: earlier ones may be given up after each.
    """

    def __init__(self) -> None:
        self._pending: dict[Key, FragmentedPacket] = {}
        self._completed: dict[Key, FragmentedPacket] = {}  # recent datagrams, to recognise duplicate fragments

    def add(self, key: Key, protocol: int, fragment: IpFragment) -> Iterator[FragmentedPacket]:
        """Add a fragment, and return the datagrams that are finished."""
        yield from self._pop_expired(fragment.time_ns)
        self._forget_completed(fragment.time_ns)
        completed = self._completed.get(key)
        if completed is not None and completed.is_duplicate(fragment):
            yield FragmentedPacket(key, protocol, [replace(fragment, repeated=True)], completed.size, completed)
            return
        datagram = self._pending.get(key)
        doubled = completed is not None and completed.is_duplicate(fragment, _DOUBLED_NS)
        if datagram is not None and datagram.doubles is not None and not doubled:
            # this fragment belongs to another datagram with the same identification
            yield _resolve_doubles(self._pending.pop(key))
            datagram = None
        if datagram is not None and fragment.offset in datagram._at:
            if datagram.is_duplicate(fragment):
                datagram.fragments.append(replace(fragment, repeated=True))
                return
            if datagram.is_duplicate(fragment, _DOUBLED_NS):
                datagram.fragments.append(replace(fragment, resent=True))
                return
            # the identification is reused, so a fragment of the earlier datagram was lost
            yield _resolve_doubles(self._pending.pop(key))
            datagram = None
        if datagram is None:
            datagram = self._pending[key] = FragmentedPacket(key, protocol, doubles=completed if doubled else None)
        datagram.add(fragment)
        if fragment.offset == 0:
            datagram.protocol = protocol
        if datagram.complete:
            del self._pending[key]
            self._completed.pop(key, None)
            self._completed[key] = datagram
            yield datagram
        elif len(self._pending) > _MAX_PENDING:
            yield _resolve_doubles(self._pending.pop(next(iter(self._pending))))

    @property
    def pending_ends(self) -> set[tuple[int, int]]:
        """Address codes of source and destination of the incomplete datagrams."""
        return {(key[0], key[1]) for key in self._pending}

    def expire(self, now_ns: int) -> Iterator[FragmentedPacket]:
        """The datagrams that are given up at this time."""
        return self._pop_expired(now_ns)

    def finish(self) -> Iterator[FragmentedPacket]:
        """The incomplete datagrams at the end of the capture."""
        yield from map(_resolve_doubles, self._pending.values())
        self._pending.clear()

    def _pop_expired(self, now_ns: int) -> Iterator[FragmentedPacket]:
        # the oldest datagram is first, since dictionaries keep the order of insertion
        while self._pending:
            key, datagram = next(iter(self._pending.items()))
            if now_ns - datagram.fragments[0].time_ns <= TIMEOUT_NS:
                return
            del self._pending[key]
            yield _resolve_doubles(datagram)

    def _forget_completed(self, now_ns: int) -> None:
        while self._completed:
            key, datagram = next(iter(self._completed.items()))
            if now_ns - datagram.fragments[-1].time_ns <= _DOUBLED_NS and len(self._completed) <= _MAX_PENDING:
                return
            del self._completed[key]


def _resolve_doubles(incomplete: FragmentedPacket) -> FragmentedPacket:
    """Mark the fragments of an incomplete datagram as duplicates if they may repeat a complete one."""
    if incomplete.doubles is None:
        return incomplete
    fragments = [replace(fragment, resent=True) for fragment in incomplete.fragments]
    return FragmentedPacket(incomplete.key, incomplete.protocol, fragments, incomplete.doubles.size, incomplete.doubles)
