"""Find frames that were captured twice because the capture was taken on several interfaces.

A router, a bridge or the "any" device shows the same packet on its way in and on its way out. What tells such
a second sighting from a retransmission, which has the same content too:

- within a millisecond (retransmission timers are a hundred times longer): the same IP identification; where
  there is none (IPv6, and IPv4 from stacks that leave it 0), another TTL or another interface, because a
  responder that answers two queued requests at once does send the same bytes twice within microseconds;
- within some seconds (a router that shapes traffic or first asks for its neighbour's address): the same IP
  identification and a lower TTL, which only a router makes. Each sighting with a higher TTL has one such
  echo, so that of two transmissions seen on both sides two are left.

A gateway shows the same packet in a tunnel and outside of it. Equal packets in two tunnels are of different hosts.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.analysis.grouping import group_order, number_within_captures
from ikeanalyze.analysis.messages.datagrams import RESPONSE
from ikeanalyze.analysis.messages.tunnels import separate_tunnels
from ikeanalyze.capture.arrays import BoolArray, UInt32Array
from ikeanalyze.capture.buffers import Columns
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.capture.decode.ip import NO_IDENT
from ikeanalyze.wire.registries.ikev2 import ExchangeType

#: The longest time in which a packet crosses a machine that does not queue it.
WITHIN_NS: Final = 1_000_000
#: The longest time that a router is assumed to queue a packet.
HELD_NS: Final = 10_000_000_000
#: In place of the number of a tunnel.
_ANY_TUNNEL: Final = -1


@dataclass(slots=True)
class DuplicateFrames:
    """Frames that repeat an earlier frame of the capture."""

    mask: BoolArray  # of the frames
    #: Rows of second sightings, each with the row of the first: one of each datagram.
    pairs: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class _FirstSighting:
    """A first sighting and the TTLs of its later ones."""

    row: int
    echoes: set[int] = field(default_factory=set)


def find_duplicates(columns: Columns) -> DuplicateFrames:
    """Find the frames that are later sightings of another frame.

    The IP fragments of a datagram are judged together, by the first one.
    """
    known = columns["capture_duplicate"].astype(np.bool_)
    time, datagrams, ttl = columns["time_ns"], columns["unit"], columns["ttl"]
    scope = separate_tunnels(columns)
    digest = number_within_captures(columns["digest"], columns["source"])
    order = group_order(digest)
    content = digest[order]
    same = np.flatnonzero(content[1:] == content[:-1])
    earlier_rows, later_rows = order[same], order[same + 1]
    apart = np.abs(time[later_rows] - time[earlier_rows])
    same = same[(apart <= WITHIN_NS) | ((apart <= HELD_NS) & (ttl[later_rows] != ttl[earlier_rows]))]
    if not len(same):
        return DuplicateFrames(known)
    # duplicates, fragments of one datagram, answers to queued requests: all frames of these contents are looked at, in
    # order
    candidates = np.flatnonzero(np.isin(digest, np.unique(content[same])))
    judged: set[int] = set()
    seen: dict[tuple[int, int, int, int], list[_FirstSighting]] = {}
    pairs: list[tuple[int, int]] = []
    names = ("ip_id", "ike_bytes", "fragment", "time_ns", "ttl", "interface")
    looked_at = [column[candidates].tolist() for column in (datagrams, digest, *map(columns.__getitem__, names))]
    for row, datagram, *key, now, life, interface in zip(candidates.tolist(), *looked_at, strict=True):
        if datagram in judged or known[row]:
            continue
        judged.add(datagram)
        has_ident = key[1] not in (0, NO_IDENT)
        earlier = seen.setdefault((key[0], key[1], key[2], key[3]), [])
        while earlier and now - int(time[earlier[0].row]) > HELD_NS:
            earlier.pop(0)
        for first in earlier:
            if scope is not None and not _may_be_same_path(columns["tunnel"], scope, row, first.row):
                continue
            near = now - int(time[first.row]) <= WITHIN_NS
            elsewhere = life != int(ttl[first.row]) or interface != int(columns["interface"][first.row])
            elsewhere |= bool(columns["tunnel"][row] != columns["tunnel"][first.row])
            echo = life < int(ttl[first.row]) and life not in first.echoes
            if (near and (has_ident or elsewhere)) or echo:
                first.echoes.add(life)
                pairs.append((row, first.row))
                break
        else:
            earlier.append(_FirstSighting(row))
    if pairs:
        known = known | np.isin(datagrams, datagrams[[row for row, _ in pairs]])
    return DuplicateFrames(known, pairs)


def _may_be_same_path(tunnel: UInt32Array, scope: UInt32Array, row: int, other: int) -> bool:
    """Whether one packet can be seen in both frames: in one tunnel, or in a tunnel and outside of tunnels."""
    return bool(scope[row] == scope[other] or not tunnel[row] or not tunnel[other])


def find_translated_endpoints(columns: Columns, duplicates: DuplicateFrames) -> dict[int, int]:
    """Endpoints of initiators that a NAT translated within the capture: each with the one that stands for both.

    An endpoint is `address << 16 | port`. Only IKE_SA_INIT is used: SPIs identify later messages.
    """
    same: dict[int, int] = {}

    def representative(end: int) -> int:
        while end in same:
            end = same[end]
        return end

    response = (columns["flags"] & RESPONSE) != 0
    for row, first in duplicates.pairs:
        if columns["exchange_type"][row] != ExchangeType.IKE_SA_INIT or columns["protocol"][row] != Protocol.IKEV2:
            continue
        side = "destination" if response[row] else "source"
        ends = [int(columns[side][at]) << 16 | int(columns[f"{side}_port"][at]) for at in (row, first)]
        lower, higher = sorted(map(representative, ends))
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
        sighting = (int(time[row]), int(columns["unit"][row]))
        for place in {int(tunnel[row]), _ANY_TUNNEL} if several else {_ANY_TUNNEL}:
            originals.setdefault((int(digest[row]), place), []).append(sighting)
    for row in np.flatnonzero(duplicate).tolist():
        datagram = int(columns["unit"][row])
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
