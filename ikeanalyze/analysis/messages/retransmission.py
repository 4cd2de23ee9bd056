"""Classify datagrams as first transmissions and retransmissions of IKE messages.

A *slot* is a position in the exchanges of one IKE SA: sender, request or response, exchange type, message ID. RFC 7296,
sections 2.1 and 2.2, allows one message per slot, and a retransmission must have the same bytes. The datagrams of one
slot are classified in order of time:

1. Without IKE fragmentation, each distinct content is a message of its own, called a *body*: IKE_SA_INIT repeated after
   COOKIE or INVALID_KE_PAYLOAD; in IKEv1, where all of main mode has message ID 0, its successive messages. The same
   content again is the next *transmission* of that body, however late it comes.
2. With IKE fragmentation (RFC 7383), all fragments of a message are one transmission, even if the capture lacks some.
   When a fragment number comes a second time, a second transmission has begun. Earlier fragments may belong to either
   transmission; the second begins after the longest pause between the two, because a sender sends all fragments at once
   and repeats them after a timer. A transmission that is complete and in order ends with its last fragment.
3. A fragment number that comes again with other bytes begins another body, unless the total has changed. Then the
   sender has fragmented the same message again, into smaller pieces (RFC 7383, section 2.5.1) or for the first time,
   and this is a transmission of the same body. Fragments with the same total belong together, also if they arrive
   between others. In IKEv1 another total is another body, because a slot has several messages and only some of them
   need fragments.
4. A datagram that lacks IP fragments was sent, and belongs to its transmission. It did not arrive, because IP delivers
   only whole datagrams. So it makes no message complete.

One transmission of a message needs either its unfragmented form or all fragments of one total. The receiver discards
its fragments when one with a larger total arrives, and ignores those with a smaller total (RFC 7383, section 2.6). So
the needed form is the one that becomes complete first at the capture point; if none does, the one of which the capture
has the largest part. A datagram is a *first copy* if it belongs to this form and is the first one with its fragment
number that arrived, or the first one that was sent if none arrived. The bytes sent divided by the bytes of the first
copies are the blow-up.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array


@dataclass(frozen=True, slots=True)
class DatagramTransmission:
    """The classification of one datagram of a slot."""

    body: int  # index of the message among those of the slot, from 0
    transmission: int  # from 1
    first_copy: bool


@dataclass(frozen=True, slots=True)
class SlotDatagram:
    """The fields of a datagram that the rules use."""

    time_ns: int
    fragment: int  # fragment number (RFC 7383); 0: not fragmented
    total: int  # fragments of the message; 0: not fragmented, or unknown
    digest: int  # of the content
    arrived: bool = True  # the capture has all its IP fragments


def classify_slot(datagrams: list[SlotDatagram], *, ikev1: bool = False) -> list[DatagramTransmission]:
    """Apply the rules to the datagrams of one slot, in order of time."""
    if any(datagram.fragment for datagram in datagrams):
        return _classify_fragmented(datagrams, ikev1)
    bodies: dict[int, int] = {}
    transmissions: dict[int, int] = {}
    result = []
    for datagram in datagrams:
        body = bodies.setdefault(datagram.digest, len(bodies))
        transmissions[body] = transmissions.get(body, 0) + 1
        result.append(DatagramTransmission(body, transmissions[body], transmissions[body] == 1))
    return result


def _classify_fragmented(datagrams: list[SlotDatagram], ikev1: bool) -> list[DatagramTransmission]:
    """Rules 2 and 3: find where transmissions begin, by fragment number alone, and then the body of each."""
    bodies: list[list[int]] = []  # indexes of the datagrams of each
    place: dict[int, tuple[int, int]] = {}  # body and transmission of each datagram
    transmission = 0
    digests: dict[tuple[int, int], int] = {}  # of the body's fragments, by total and fragment number
    for indexes in _find_transmissions(datagrams, ikev1):
        fragments = [datagrams[index] for index in indexes]
        changed = any(digests.get((part.total, part.fragment), part.digest) != part.digest for part in fragments)
        changed |= ikev1 and indexes[0] > 0 and _is_refragmented(datagrams[indexes[0] - 1], fragments[0])
        if not bodies or changed:
            bodies.append([])
            transmission, digests = 0, {}
        transmission += 1
        bodies[-1] += indexes
        place.update((index, (len(bodies) - 1, transmission)) for index in indexes)
        digests.update(((part.total, part.fragment), part.digest) for part in fragments)
    first_copies = {index for body in bodies for index in _find_first_copies(datagrams, sorted(body), ikev1)}
    return [DatagramTransmission(*place[index], index in first_copies) for index in range(len(datagrams))]


def _find_transmissions(datagrams: list[SlotDatagram], ikev1: bool) -> list[list[int]]:
    """The indexes of the datagrams of each transmission, in order of the first one."""
    by_total: dict[int, list[int]] = {}
    for index, datagram in enumerate(datagrams):
        by_total.setdefault(0 if ikev1 else datagram.total, []).append(index)
    transmissions = []
    for indexes in by_total.values():
        starts = _find_transmission_starts([datagrams[index] for index in indexes])
        transmissions += [indexes[start:end] for start, end in zip(starts, [*starts[1:], len(indexes)], strict=True)]
    return sorted(transmissions)


def _find_first_copies(datagrams: list[SlotDatagram], body: list[int], ikev1: bool) -> Collection[int]:
    """The indexes of the datagrams that one transmission of a body needs; `body`: of all its datagrams, in order."""
    forms: dict[int, dict[int, int]] = {}  # by total: the index of each fragment number that arrived
    lost: dict[int, dict[int, int]] = {}  # as above: of each that did not arrive
    largest = 0
    for index in body:
        fragment, total = datagrams[index].fragment, 0 if ikev1 else datagrams[index].total
        if fragment and total < largest:
            continue  # the receiver ignores it
        form = forms.setdefault(total, {})
        if not datagrams[index].arrived:
            lost.setdefault(total, {}).setdefault(fragment, index)
            continue
        largest = max(largest, total)
        form.setdefault(fragment, index)
        if not ikev1 and len(form) == (total if fragment else 1):  # never where the total is unknown (0)
            return form.values()
    needed = max(forms, key=lambda total: (len(forms[total]) / max(total, 1), total))
    return {**lost.get(needed, {}), **forms[needed]}.values()


def _find_transmission_starts(datagrams: list[SlotDatagram]) -> list[int]:
    """The index of the first datagram of each transmission (rule 2), among datagrams of one total."""
    starts = [0]
    last_index = {datagrams[0].fragment: 0}  # of each fragment number, in this transmission or an earlier one
    pauses = [0, *(later.time_ns - earlier.time_ns for earlier, later in pairwise(datagrams))]
    # The indexes that follow a longer pause than all after them, in order: the first one that may begin a transmission
    # follows the longest pause. Looking through all pauses would take a time that is quadratic in hostile captures.
    longest: deque[int] = deque()
    for index in range(1, len(datagrams)):
        while longest and pauses[longest[-1]] <= pauses[index]:
            longest.pop()
        longest.append(index)
        datagram = datagrams[index]
        last = last_index.get(datagram.fragment, -1)
        if _is_refragmented(datagrams[index - 1], datagram):
            starts.append(index)
        elif last >= starts[-1]:
            earliest = index if _is_whole(datagrams, starts[-1], index) else last + 1
            while longest[0] < earliest:
                longest.popleft()
            starts.append(longest[0])
        last_index[datagram.fragment] = index
    return starts


def _is_whole(datagrams: list[SlotDatagram], start: int, end: int) -> bool:
    """Whether the datagrams from `start` to before `end` are a transmission that is complete and in order."""
    return end - start == datagrams[start].total and all(
        datagrams[index].fragment == index - start + 1 for index in range(start, end)
    )


def _is_refragmented(previous: SlotDatagram, datagram: SlotDatagram) -> bool:
    """Whether the two come from different fragmentations; an unknown total (0) fits any."""
    if (previous.fragment == 0) != (datagram.fragment == 0):
        return True
    return bool(previous.total and datagram.total) and previous.total != datagram.total


def classify_transmissions(
    slot: Int64Array,
    time_ns: Int64Array,
    fragment: Int64Array,
    total: Int64Array,
    digest: UInt64Array,
    ikev1: BoolArray,
    arrived: BoolArray | None = None,
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """`classify_slot` for all slots at once: body, transmission and first copy of each datagram. (n,) each

    The datagrams are ordered by slot and time; `arrived`: None if all did. Slots without repetition, slots without
    fragments, and slots in which all fragments come again in order are classified in columns; only the others one by
    one.
    """
    count = len(slot)
    body = np.zeros(count, np.int64)
    transmission = np.ones(count, np.int64)
    first_copy = np.ones(count, np.bool_)
    # without repetition, the fragment numbers of a slot rise and have one total
    repeats = (fragment[1:] <= fragment[:-1]) | (total[1:] != total[:-1]) | (fragment[:-1] == 0)
    repeats &= slot[1:] == slot[:-1]
    if not repeats.any():
        return body, transmission, first_copy
    new = find_group_starts(slot)
    group = np.cumsum(new) - 1
    start = np.flatnonzero(new)
    end = np.append(start[1:], count)
    repeated = np.zeros(len(start), np.bool_)
    repeated[group[1:][repeats]] = True
    has_fragments = np.maximum.reduceat(fragment, start) > 0

    rows = np.flatnonzero((repeated & ~has_fragments)[group])
    if len(rows):
        body[rows], transmission[rows] = _classify_unfragmented_columns(slot[rows], digest[rows])
        first_copy[rows] = transmission[rows] == 1

    remaining = repeated & has_fragments
    rows = np.flatnonzero(remaining[group])
    if len(rows):
        cycle, regular = _find_fragment_cycles(group[rows], fragment[rows], total[rows], digest[rows])
        if arrived is not None:
            all_arrived = np.logical_and.reduceat(arrived, start)
            regular &= all_arrived[group[rows]]
        transmission[rows[regular]] = cycle[regular] + 1
        first_copy[rows[regular]] = cycle[regular] == 0
        remaining[group[rows[regular]]] = False
    for low, high in zip(start[remaining].tolist(), end[remaining].tolist(), strict=True):
        own = [column[low:high].tolist() for column in (time_ns, fragment, total, digest)]
        own.append([True] * (high - low) if arrived is None else arrived[low:high].tolist())
        datagrams = [SlotDatagram(*values) for values in zip(*own, strict=True)]
        classified = classify_slot(datagrams, ikev1=bool(ikev1[low]))
        body[low:high] = [datagram.body for datagram in classified]
        transmission[low:high] = [datagram.transmission for datagram in classified]
        first_copy[low:high] = [datagram.first_copy for datagram in classified]
    return body, transmission, first_copy


def _find_fragment_cycles(
    slot: Int64Array, fragment: Int64Array, total: Int64Array, digest: UInt64Array
) -> tuple[Int64Array, BoolArray]:
    """Rules 2 and 3 for slots in which all fragments come in order, again and again, with the same bytes.

    Returns the cycle of each datagram, from 0, and whether its slot is of this kind. (n,) each
    """
    index = np.arange(len(slot))
    new = find_group_starts(slot)
    start, group = np.flatnonzero(new), np.cumsum(new) - 1
    period = np.maximum(total[start], 1)[group]
    cycle, position = np.divmod(index - start[group], period)
    same = (cycle == 0) | (digest == digest[np.maximum(index - period, 0)])
    fits = (total == period) & (fragment == position + 1) & same
    return cycle, np.logical_and.reduceat(fits, start)[group]


def _classify_unfragmented_columns(slot: Int64Array, digest: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Rule 1 for slots without fragments, ordered by slot and time: body and transmission. (n,) each"""
    count = len(slot)
    order = np.lexsort((digest, slot))  # stable: equal contents stay in order of time
    new = find_group_starts(slot[order], digest[order])
    run, start = np.cumsum(new) - 1, np.flatnonzero(new)
    transmission = np.empty(count, np.int64)
    transmission[order] = np.arange(count) - start[run] + 1
    # bodies are numbered in the order in which they first appear in their slot
    first = order[start]
    by_appearance = np.argsort(first, kind="stable")
    new_slot = find_group_starts(slot[first[by_appearance]])
    number = np.empty(len(first), np.int64)
    number[by_appearance] = np.arange(len(first)) - np.flatnonzero(new_slot)[np.cumsum(new_slot) - 1]
    body = np.empty(count, np.int64)
    body[order] = number[run]
    return body, transmission
