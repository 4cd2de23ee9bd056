"""Find frames that the capture contains twice although the wire carried them once.

A router, a bridge, the "any" device or a mirror port shows the same packet on its way in and on its way out; a merged
capture shows it at both hosts. These rules distinguish such a second sighting from a retransmission, which has the same
content too:

- **Within a millisecond** (retransmission timers are a hundred times longer): the same IP identification. Without an
  identification (IPv6, and IPv4 stacks that send 0): another TTL or another interface.
- **A mirror port** shows every frame twice within a millisecond, with one TTL on one interface. Without an
  identification, such a response may also be the answer to a second request, but a request is never repeated so soon.
  So a request that is there twice was sent once. If most requests between two hosts are there twice, their responses
  are treated in the same way: each has as many copies as the requests.
- **Below the retransmission timer**: the same IP identification on another interface, as in a capture merged from two
  points. Each sighting has one copy on each other interface.
- **Within seconds** (a router that shapes traffic or first resolves its neighbour's address): the same IP
  identification, or none, and a lower TTL, which only a router makes. Each sighting has one copy of each lower TTL, so
  that two transmissions that were seen on both sides count as two.

A gateway shows the same packet in a tunnel and outside of it. Equal packets in two tunnels are of different hosts.

The time for n frames is proportional to n, also if all have the same content.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from ikeanalyze import core
from ikeanalyze.analysis.grouping import (
    HASH_MULTIPLIER,
    find_equal_rows,
    find_group_starts,
    group_order,
    number_within_captures,
)
from ikeanalyze.analysis.messages.capture_facts import WHOLE_CAPTURE, CaptureFacts, CaptureWarning, Rows, SharedFact
from ikeanalyze.analysis.messages.tunnels import separate_tunnels
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array, sort_distinct
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import NO_IDENT, get_capture_numbers
from ikeanalyze.capture.decode.ip_reassembly import DUPLICATE_NS
from ikeanalyze.wire.header import FLAG_RESPONSE
from ikeanalyze.wire.registries.hip import HipPacketType
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.radius import CLIENT_REQUESTS

#: The shortest first retransmission timer of common daemons (libreswan).
TIMER_NS: Final = 500_000_000
#: The longest time that a router is assumed to queue a packet.
HELD_NS: Final = 10_000_000_000
#: HIP packets whose sender starts an exchange.
_HIP_REQUESTS: Final = (HipPacketType.I1, HipPacketType.I2)
#: In place of the number of a tunnel.
_ANY_TUNNEL: Final = -1
#: Fewer messages than these may all be there twice because each was retransmitted.
_MIN_DOUBLED: Final = 4


_Place = tuple[int, ...]
_CountByHosts = dict[tuple[int, int, int], int]


class DuplicateFrames(Struct):
    """Frames that repeat an earlier frame of the capture."""

    mask: BoolArray  # of the frames
    #: Rows of second sightings, each with the row of the first: one of each datagram.
    pairs: list[tuple[int, int]] = field(default_factory=list)
    repeated: int = 0  # frames with the content of an earlier frame, retransmissions included
    #: Datagrams that a server changed when it relayed them, each with the datagram that it received.
    relayed: Mapping[int, int] = field(default_factory=dict)


class _Sighting(NamedTuple):
    """A frame among those of one content and IP identification."""

    row: int
    time_ns: int
    ttl: int
    interface: int
    source: int
    source_port: int
    destination: int
    destination_port: int
    tunnel: int

    @property
    def place(self) -> _Place:
        """Where the capture has seen the frame."""
        return self.ttl, self.interface, self.tunnel


class _FirstSighting(Struct):
    """A first sighting, and its copies so far."""

    sighting: _Sighting
    mirrored: int = 0  # copies with the same TTL and interface
    ttls: set[int] = field(default_factory=set)  # of its copies
    interfaces: set[int] = field(default_factory=set)  # of its copies


def find_duplicates(columns: Columns, facts: CaptureFacts = WHOLE_CAPTURE) -> DuplicateFrames:
    """Find the frames that are later sightings of another frame.

    The IP fragments of a datagram are judged together, by the first one.
    """
    known = columns["capture_duplicate"].astype(np.bool_)
    digest = _number_contents(columns)
    repeated, candidates = _find_candidates(columns, digest)
    candidates = candidates[~known[candidates]]
    candidates = candidates[np.unique(columns["datagram"][candidates], return_index=True)[1]]
    is_request = _find_requests(columns, candidates)
    pairs: list[tuple[int, int]] = []
    for contents in _iterate_contents(columns, digest, candidates[is_request]):
        pairs += contents.match_copies(lambda _: None)
    copies = _count_mirrored_copies(columns, pairs, facts)
    for contents in _iterate_contents(columns, digest, candidates[~is_request]):
        pairs += contents.match_copies(lambda sighting: copies.get(_get_hosts(sighting), 0))
    if pairs:
        known = known | np.isin(columns["datagram"], columns["datagram"][[row for row, _ in pairs]])
    return DuplicateFrames(known, pairs, repeated)


def _number_contents(columns: Columns) -> UInt64Array:
    """Numbers that are equal for frames of one content in one capture, and not in two tunnels."""
    digest = number_within_captures(columns["digest"], columns["source"])
    scope = separate_tunnels(columns)
    if scope is None:
        return digest
    inside = np.flatnonzero(scope)
    order = inside[np.lexsort((scope[inside], digest[inside]))]
    is_other = (digest[order][1:] == digest[order][:-1]) & (scope[order][1:] != scope[order][:-1])
    several = sort_distinct(digest[order][1:][is_other])
    rows = inside[np.isin(digest[inside], several)]
    result: UInt64Array = digest.copy()
    result[rows] ^= scope[rows].astype(np.uint64) * HASH_MULTIPLIER
    return result


def find_doubled_captures(
    columns: Columns, duplicates: DuplicateFrames, facts: CaptureFacts = WHOLE_CAPTURE
) -> list[tuple[int, bool]]:
    """Numbers of the captures that contain every datagram at least twice, and whether the copies were recognised."""
    several = bool(len(columns["source"])) and bool(get_capture_numbers(columns["source"][-1:])[0])
    counts = _count_contents(columns, duplicates, several=several)
    shared = facts.share(SharedFact.DOUBLED, lambda: counts)
    if shared is not None:
        counts = {name: shared[name].sum(keepdims=True) for name in counts}
    numbers = np.flatnonzero((counts["contents"] >= _MIN_DOUBLED) & (counts["once"] == 0))
    recognised = 2 * counts["copies"] >= counts["datagrams"]
    return [(number, bool(recognised[number])) for number in numbers.tolist()]


def warn_of_doubled_captures(
    columns: Columns, duplicates: DuplicateFrames, facts: CaptureFacts = WHOLE_CAPTURE
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture that contains every message at least twice."""
    warnings: list[tuple[int, CaptureWarning]] = []
    for number, recognised in find_doubled_captures(columns, duplicates, facts):
        text = (
            "the capture has every message at least twice, as a mirror port or a capture of several interfaces does: "
        )
        if recognised:
            text += "the copies are not counted"
        else:
            text += "these look like retransmissions and are counted. Read a capture of one point instead"
        warnings.append((number, (None, text)))
    return warnings


def _count_contents(columns: Columns, duplicates: DuplicateFrames, *, several: bool) -> dict[str, Int64Array]:
    """Contents, those of them that are there once, copies and datagrams of each capture. (captures,) each"""
    source, count = columns["source"], len(columns["digest"])
    if not count or (2 * duplicates.repeated < count and not several):
        # if half of the frames are not repeated, some contents are there once
        nothing = np.zeros(1, np.int64)
        return {"contents": nothing, "once": nothing + count, "copies": nothing, "datagrams": nothing}
    rows = np.lexsort((columns["time_ns"], columns["datagram"]))
    rows = rows[find_group_starts(columns["datagram"][rows])]
    digest = number_within_captures(columns["digest"], source)[rows]
    order = np.lexsort((columns["time_ns"][rows], digest))
    rows, digest = rows[order], digest[order]
    start = np.flatnonzero(find_group_starts(digest))
    size = np.diff(np.append(start, len(rows)))
    first, second = rows[start], rows[np.minimum(start + 1, len(rows) - 1)]
    doubled = (size % 2 == 0) & (columns["time_ns"][second] - columns["time_ns"][first] < TIMER_NS)
    doubled &= ~_are_sent_twice(columns, first, second)
    capture = get_capture_numbers(source[rows]).astype(np.int64)
    captures = int(capture.max()) + 1
    return {
        "contents": np.bincount(capture[start], minlength=captures),
        "once": np.bincount(capture[start][~doubled], minlength=captures),
        "copies": np.bincount(capture, duplicates.mask[rows], minlength=captures).astype(np.int64),
        "datagrams": np.bincount(capture, minlength=captures),
    }


def _are_sent_twice(columns: Columns, first: Int64Array, second: Int64Array) -> BoolArray:
    """Whether pairs of frames of one content are certainly two packets, and not two sightings of one. (pairs,)

    A copy has the identification of its packet, which only a router or another device on the way may have changed: such
    a copy has another TTL, or is on another interface.
    """
    idents = columns["ip_id"][first], columns["ip_id"][second]
    other = idents[0] != idents[1]
    for ident in idents:
        other &= (ident != 0) & (ident != NO_IDENT)
    for name in ("ttl", "interface"):
        other &= columns[name][first] == columns[name][second]
    return np.asarray(other)


def _find_candidates(columns: Columns, digest: UInt64Array) -> tuple[int, Int64Array]:
    """How many frames repeat the content of another; and the frames that may be sightings of the same frame.

    The latter are all frames of such a content, in order of time. (k,)
    """
    time, ttl, interface = columns["time_ns"], columns["ttl"], np.ascontiguousarray(columns["interface"])
    if core.compiled is not None:
        return core.compiled.find_candidates(digest, time, ttl, interface)
    # almost every content is that of one frame: only the others are sorted
    equal = find_equal_rows(digest)
    several = np.zeros(len(digest), np.bool_)
    several[equal[equal != np.arange(len(digest))]] = True
    frames = np.flatnonzero(several[equal])
    order = frames[group_order(digest[frames])]
    content = digest[order]
    same = np.flatnonzero(content[1:] == content[:-1])
    repeated = len(same)
    if (time[order[same + 1]] < time[order[same]]).any():  # packets out of order
        order = frames[np.lexsort((time[frames], digest[frames]))]
        content = digest[order]
        same = np.flatnonzero(content[1:] == content[:-1])
    earlier, later = order[same], order[same + 1]
    apart = time[later] - time[earlier]
    near = (apart <= DUPLICATE_NS) | ((apart <= HELD_NS) & (ttl[later] != ttl[earlier]))
    same = same[near | ((apart < TIMER_NS) & (interface[later] != interface[earlier]))]
    if not len(same):
        return repeated, np.zeros(0, np.int64)
    rows = np.flatnonzero(np.isin(digest, sort_distinct(content[same])))
    return repeated, rows[np.argsort(time[rows], kind="stable")]


def _find_requests(columns: Columns, rows: Int64Array) -> BoolArray:
    """Which frames are certainly requests. (rows,)"""
    protocol, kind = columns["protocol"][rows], columns["exchange_type"][rows]
    result: BoolArray = (protocol == Protocol.IKEV2) & ((columns["flags"][rows] & FLAG_RESPONSE) == 0)
    # IKEv1 has no flag, but only the first message of phase 1 has no SPI of the responder
    result |= (protocol == Protocol.IKEV1) & (columns["spi_r"][rows] == 0)
    result |= (protocol == Protocol.RADIUS) & np.isin(kind, CLIENT_REQUESTS)
    result |= (protocol == Protocol.HIP) & np.isin(kind, _HIP_REQUESTS)
    return result


def _iterate_contents(columns: Columns, digest: UInt64Array, rows: Int64Array) -> "Iterator[_ContentSightings]":
    """The frames of each content and IP identification of which there are several, in order of time."""
    keys = [digest[rows], *(columns[name][rows] for name in ("ip_id", "ike_bytes", "fragment"))]
    order = np.lexsort((columns["time_ns"][rows], *keys))
    start = np.flatnonzero(find_group_starts(*(key[order] for key in keys)))
    end = np.append(start[1:], len(rows))
    names = ("time_ns", "ttl", "interface", "source", "source_port", "destination", "destination_port", "tunnel")
    rows = rows[order]
    ident = columns["ip_id"]
    several = end - start > 1
    for low, high in zip(start[several].tolist(), end[several].tolist(), strict=True):
        own = rows[low:high]
        values = [own.tolist(), *(columns[name][own].tolist() for name in names)]
        identified = int(ident[own[0]]) not in (0, NO_IDENT)
        yield _ContentSightings([_Sighting(*row) for row in zip(*values, strict=True)], identified)


class _ContentSightings:
    """The frames of one content and IP identification."""

    def __init__(self, sightings: Sequence[_Sighting], identified: bool) -> None:
        """`identified`: the frames have an IP identification."""
        self._sightings = sightings
        self._identified = identified
        self._first: list[_FirstSighting] = []
        # the latest two first sightings at different places, and the latest one at each place of each pair of ports
        self._latest: list[_FirstSighting] = []
        self._by_path: dict[_Place, _FirstSighting] = {}
        # by TTL, and by interface: how many first sightings have a copy there already, or can no longer have one
        self._settled_ttl: dict[int, int] = {}
        self._settled_interface: dict[int, int] = {}

    def match_copies(self, mirrored: Callable[[_Sighting], int | None]) -> list[tuple[int, int]]:
        """The rows of copies, each with the row of the first sighting.

        `mirrored` returns how many copies a mirror port makes of a frame; None: any number.
        """
        pairs = []
        for sighting in self._sightings:
            first = self._find_near(sighting, mirrored) or self._find_delayed(sighting)
            if first is None:
                self._add(sighting)
            else:
                first.ttls.add(sighting.ttl)
                first.interfaces.add(sighting.interface)
                pairs.append((sighting.row, first.sighting.row))
        return pairs

    def _add(self, sighting: _Sighting) -> None:
        first = _FirstSighting(sighting)
        self._first.append(first)
        if not self._identified:
            elsewhere = [other for other in self._latest if other.sighting.place != sighting.place]
            self._latest = [*elsewhere[-1:], first]
            self._by_path[sighting[2:]] = first

    def _find_near(self, sighting: _Sighting, mirrored: Callable[[_Sighting], int | None]) -> _FirstSighting | None:
        """The first sighting less than a millisecond ago."""
        if self._identified:
            return self._first[-1] if self._first and _is_near(sighting, self._first[-1]) else None
        for other in self._latest:
            if other.sighting.place != sighting.place and _is_near(sighting, other):
                return other
        twin = self._by_path.get(sighting[2:])
        if twin is None or not _is_near(sighting, twin):
            return None
        most = mirrored(sighting)
        if most is not None and twin.mirrored >= most:
            return None
        twin.mirrored += 1
        return twin

    def _find_delayed(self, sighting: _Sighting) -> _FirstSighting | None:
        """The oldest first sighting of which this may be the copy behind a router or at another point."""

        def routed(first: _FirstSighting) -> bool:
            return first.sighting.ttl > sighting.ttl and sighting.ttl not in first.ttls

        def recorded(first: _FirstSighting) -> bool:
            return sighting.interface != first.sighting.interface and sighting.interface not in first.interfaces

        first = self._find_open(self._settled_ttl, sighting.ttl, sighting.time_ns - HELD_NS, routed)
        if first is None and self._identified:
            since = sighting.time_ns - TIMER_NS + 1
            first = self._find_open(self._settled_interface, sighting.interface, since, recorded)
        return first

    def _find_open(
        self, settled: dict[int, int], key: int, since_ns: int, fits: Callable[[_FirstSighting], bool]
    ) -> _FirstSighting | None:
        """The oldest first sighting since this time that fits; those before it are not looked at again."""
        place = settled.get(key, 0)
        while place < len(self._first):
            first = self._first[place]
            if first.sighting.time_ns >= since_ns and fits(first):
                break
            place += 1
        settled[key] = place
        return self._first[place] if place < len(self._first) else None


def _is_near(sighting: _Sighting, first: _FirstSighting) -> bool:
    return sighting.time_ns - first.sighting.time_ns <= DUPLICATE_NS


def _get_hosts(sighting: _Sighting) -> tuple[int, int, int]:
    """Both hosts, and the interface."""
    a, b = sorted((sighting.source, sighting.destination))
    return a, b, sighting.interface


def _count_mirrored_copies(
    columns: Columns, pairs: Sequence[tuple[int, int]], facts: CaptureFacts
) -> dict[tuple[int, int, int], int]:
    """How often a mirror port copies a frame, by hosts and interface; `pairs` are those of requests.

    Only hosts of which most requests were copied with the same TTL, on the same interface and within a millisecond: a
    few copies may be a link's that duplicates packets.
    """
    later, first = np.array(pairs, np.int64).reshape(-1, 2).T
    same = columns["time_ns"][later] - columns["time_ns"][first] <= DUPLICATE_NS
    for name in ("ttl", "interface", "source", "source_port", "destination", "destination_port", "tunnel"):
        same &= columns[name][later] == columns[name][first]
    copied = _complete_counts(facts, SharedFact.COPIED_REQUESTS, _count_by_hosts(columns, later[same]))
    if not copied:
        return {}
    requests = np.flatnonzero(_find_requests(columns, np.arange(len(columns["datagram"]))))
    _, heads = np.unique(columns["datagram"][requests], return_index=True)
    heads = requests[heads]
    sent = _count_by_hosts(columns, heads[~np.isin(columns["datagram"][heads], columns["datagram"][later])])
    sent = _complete_counts(facts, SharedFact.SENT_REQUESTS, {hosts: sent[hosts] for hosts in copied if hosts in sent})
    return {
        hosts: -(-count // sent[hosts]) for hosts, count in copied.items() if hosts in sent and 2 * count > sent[hosts]
    }


def _count_by_hosts(columns: Columns, rows: Int64Array) -> dict[tuple[int, int, int], int]:
    """The number of these frames by both hosts and interface."""
    source, destination = columns["source"][rows], columns["destination"][rows]
    hosts = [np.minimum(source, destination), np.maximum(source, destination), columns["interface"][rows]]
    order = np.lexsort(hosts)
    start = np.flatnonzero(find_group_starts(*(column[order] for column in hosts)))
    count = np.diff(np.append(start, len(rows)))
    keys = zip(*(column[order[start]].tolist() for column in hosts), strict=True)
    return dict(zip(keys, count.tolist(), strict=True))


def _complete_counts(facts: CaptureFacts, fact: SharedFact, counts: _CountByHosts) -> _CountByHosts:
    """The counts of the whole capture from those of this part."""
    names = ("first", "second", "interface")

    def rows() -> Rows:
        columns = zip(*counts, strict=True) if counts else ((),) * len(names)
        keys = {name: np.array(column, np.uint64) for name, column in zip(names, columns, strict=True)}
        return {**keys, "count": np.array(list(counts.values()), np.int64)}

    shared = facts.share(fact, rows)
    if shared is None:
        return counts
    result: _CountByHosts = {}
    for first, second, interface, count in zip(*(shared[name].tolist() for name in (*names, "count")), strict=True):
        hosts = (first, second, interface)
        result[hosts] = result.get(hosts, 0) + count
    return result


def find_translated_endpoints(
    columns: Columns, duplicates: DuplicateFrames, facts: CaptureFacts = WHOLE_CAPTURE
) -> dict[int, int]:
    """Endpoints of initiators that a NAT translated within the capture: each with the one that stands for
    both.

    An endpoint is `address << 16 | port`. Only IKE_SA_INIT is used: SPIs identify later messages.
    """
    same: dict[int, int] = {}

    def representative(end: int) -> int:
        while end in same:
            end = same[end]
        return end

    response = (columns["flags"] & FLAG_RESPONSE) != 0
    ends: set[tuple[int, int]] = set()
    for row, first in duplicates.pairs:
        if columns["exchange_type"][row] != ExchangeType.IKE_SA_INIT or columns["protocol"][row] != Protocol.IKEV2:
            continue
        side = "destination" if response[row] else "source"
        end, other = (int(columns[side][at]) << 16 | int(columns[f"{side}_port"][at]) for at in (row, first))
        if end != other:
            ends.add((end, other))
    shared = facts.share(
        SharedFact.TRANSLATED,
        lambda: {
            "end": np.array([end for end, _ in ends], np.uint64),
            "other": np.array([other for _, other in ends], np.uint64),
        },
    )
    if shared is not None:
        ends = set(zip(shared["end"].tolist(), shared["other"].tolist(), strict=True))
    for pair in ends:
        lower, higher = sorted(map(representative, pair))
        if lower != higher:
            same[higher] = lower
    return {end: representative(end) for end in list(same)}


def relabel_duplicates(
    columns: Mapping[str, npt.NDArray[Any]],
    duplicate: BoolArray,
    message: npt.NDArray[np.int32],
    handshake: npt.NDArray[np.int32],
) -> None:
    """Assign duplicates to the message and handshake of the frame that they repeat, in place."""
    time, digest = columns["time_ns"], number_within_captures(columns["digest"], columns["source"])
    tunnel = columns["tunnel"]
    several = bool(tunnel.any())
    originals: dict[tuple[int, int], list[tuple[int, int]]] = {}
    rows = np.flatnonzero(np.isin(digest, digest[duplicate]) & ~duplicate)
    for row in rows[np.argsort(time[rows], kind="stable")].tolist():
        sighting = (int(time[row]), int(columns["datagram"][row]))
        for place in {int(tunnel[row]), _ANY_TUNNEL} if several else {_ANY_TUNNEL}:
            originals.setdefault((int(digest[row]), place), []).append(sighting)
    for row in np.flatnonzero(duplicate).tolist():
        datagram = int(columns["datagram"][row])
        # a duplicated IP fragment may belong to a datagram that is assigned already
        if message[datagram] < 0 and handshake[datagram] < 0:
            content = int(digest[row])
            same = originals.get((content, int(tunnel[row]))) or originals.get((content, _ANY_TUNNEL), [])
            when = int(time[row])
            place = bisect_left(same, (when, 0))
            around = same[max(place - 1, 0) : place + 1]
            if around:
                _, original = min(around, key=lambda sighting: abs(sighting[0] - when))
                message[datagram], handshake[datagram] = message[original], handshake[original]
