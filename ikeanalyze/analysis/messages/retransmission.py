"""The rules of retransmission, and nothing else.

A *slot* is a place in the conversation of one IKE SA: sender, request or response, exchange type, message ID. RFC 7296,
2.1 and 2.2 allow one message in each; a retransmission must have the same bytes. So, within the datagrams of one slot, in order of time:

1. Not fragmented: each different content is a message of its own (a *body*: IKE_SA_INIT again after COOKIE or
   INVALID_KE_PAYLOAD; in IKEv1, where all of main mode has message ID 0, its successive messages). The same
   content again is the next *transmission* of that body, however late it comes.
2. Fragmented (RFC 7383): all fragments of a message are one transmission, even when the capture lacks some.
   When a fragment number comes a second time, a second transmission has begun. Where it began, if fragments
   before it may belong to either, is at the longest pause between the two: a sender sends its fragments at
   once, and repeats them after a timer. A transmission that is complete and in order leaves nothing to ask.
3. A fragment number that comes again with other bytes begins another body, unless the total has changed: then
   the sender has cut the same message anew, into smaller pieces (RFC 7383, 2.5.1) or for the first time, and
   that is a transmission. (Not in IKEv1, where a slot has several messages and only some of them need
   fragments: there it is another body.)

A datagram is a *first copy* if no earlier datagram of its body had the same fragment number: the bytes of first
copies are what one transmission of each message needs, and what is sent divided by that is the blow-up.
"""

from dataclasses import dataclass

import numpy as np

from ikeanalyze.analysis.grouping import find_group_starts
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt64Array


@dataclass(frozen=True, slots=True)
class DatagramTransmission:
    """What one datagram of a slot is."""

    body: int  # from 0: which of the slot's messages
    transmission: int  # from 1
    first_copy: bool


@dataclass(frozen=True, slots=True)
class SlotDatagram:
    """One datagram of a slot, as the rules look at it."""

    time_ns: int
    fragment: int  # RFC 7383 number, 0: not fragmented
    total: int
    digest: int


def classify_slot(datagrams: list[SlotDatagram], *, ikev1: bool = False) -> list[DatagramTransmission]:
    """Apply the rules to the datagrams of one slot, in order of time."""
    if all(datagram.fragment == 0 for datagram in datagrams):
        return _whole(datagrams)
    return _fragmented(datagrams, ikev1)


def _whole(datagrams: list[SlotDatagram]) -> list[DatagramTransmission]:
    bodies: dict[int, int] = {}
    sent: dict[int, int] = {}
    result = []
    for datagram in datagrams:
        body = bodies.setdefault(datagram.digest, len(bodies))
        sent[body] = sent.get(body, 0) + 1
        result.append(DatagramTransmission(body, sent[body], sent[body] == 1))
    return result


def _recut(before: SlotDatagram, datagram: SlotDatagram) -> bool:
    """The two are not of one cut. The total is 0 where the protocol does not tell it."""
    if (before.fragment == 0) != (datagram.fragment == 0):
        return True
    return bool(before.total and datagram.total) and before.total != datagram.total


def _fragmented(datagrams: list[SlotDatagram], ikev1: bool) -> list[DatagramTransmission]:
    # first where transmissions begin, by number alone; then which body each of them is
    starts = [0]
    place: dict[int, int] = {datagrams[0].fragment: 0}
    for index in range(1, len(datagrams)):
        datagram = datagrams[index]
        if _recut(datagrams[index - 1], datagram):
            starts.append(index)
            place = {}
        elif datagram.fragment in place:
            earliest = place[datagram.fragment] + 1
            before = datagrams[starts[-1] : index]
            if [one.fragment for one in before] == list(range(1, before[0].total + 1)):
                earliest = index  # complete and in order: it ends here
            begin = max(
                range(earliest, index + 1), key=lambda at: (datagrams[at].time_ns - datagrams[at - 1].time_ns, at)
            )
            starts.append(begin)
            place = {datagrams[at].fragment: at for at in range(begin, index)}
        place[datagram.fragment] = index
    ends = [*starts[1:], len(datagrams)]

    result: list[DatagramTransmission] = []
    body = transmission = 0
    contents: dict[tuple[int, int], int] = {}
    copied: set[int] = set()
    for turn, (start, end) in enumerate(zip(starts, ends, strict=True)):
        part = datagrams[start:end]
        changed = any(
            contents.get((datagram.total, datagram.fragment), datagram.digest) != datagram.digest for datagram in part
        )
        changed |= ikev1 and turn > 0 and _recut(datagrams[start - 1], part[0])
        if turn == 0 or changed:
            body += turn > 0
            transmission = 1
            contents, copied = {}, set()
        else:
            transmission += 1
        recut = bool(contents) and part[0].total not in {total for total, _ in contents}
        for datagram in part:
            contents[datagram.total, datagram.fragment] = datagram.digest
            # one transmission in either cut is enough, so a second cut needs nothing
            result.append(DatagramTransmission(body, transmission, not recut and datagram.fragment not in copied))
            copied.add(datagram.fragment)
    return result


def classify_transmissions(
    slot: Int64Array,
    time_ns: Int64Array,
    fragment: Int64Array,
    total: Int64Array,
    digest: UInt64Array,
    ikev1: BoolArray,
) -> tuple[Int64Array, Int64Array, BoolArray]:
    """`classify_slot` for all slots at once: body, transmission and first copy of each datagram. (n,) each

    The datagrams are ordered by slot and time. A slot in which nothing is repeated needs no rules; slots without fragments,
    and those in which all fragments of a message come again, are done in columns; only the others are looked at one by one.
    """
    count = len(slot)
    body = np.zeros(count, np.int64)
    transmission = np.ones(count, np.int64)
    first_copy = np.ones(count, np.bool_)
    if not count:
        return body, transmission, first_copy
    # plain sailing: the fragment numbers of a slot rise, and have one total
    repeats = (fragment[1:] <= fragment[:-1]) | (total[1:] != total[:-1]) | (fragment[:-1] == 0)
    repeats &= slot[1:] == slot[:-1]
    if not repeats.any():
        return body, transmission, first_copy
    begins = find_group_starts(slot)
    place = np.cumsum(begins) - 1
    start = np.flatnonzero(begins)
    size = np.diff(np.append(start, count))
    repeated = np.zeros(len(start), np.bool_)
    repeated[place[1:][repeats]] = True
    has_fragments = np.maximum.reduceat(fragment, start) > 0

    rows = np.flatnonzero((repeated & ~has_fragments)[place])
    if len(rows):
        body[rows], transmission[rows] = _whole_columns(slot[rows], digest[rows])
        first_copy[rows] = transmission[rows] == 1

    cut = repeated & has_fragments
    rows = np.flatnonzero(cut[place])
    if len(rows):
        round_, settled = _repeated_whole(place[rows], fragment[rows], total[rows], digest[rows])
        transmission[rows[settled]] = round_[settled] + 1
        first_copy[rows[settled]] = round_[settled] == 0
        cut[place[rows[settled]]] = False
    groups = np.flatnonzero(cut)
    for low, high in zip(start[groups].tolist(), (start + size)[groups].tolist(), strict=True):
        columns = (column[low:high].tolist() for column in (time_ns, fragment, total, digest))
        found = classify_slot(
            [SlotDatagram(*datagram) for datagram in zip(*columns, strict=True)], ikev1=bool(ikev1[low])
        )
        body[low:high] = [turn.body for turn in found]
        transmission[low:high] = [turn.transmission for turn in found]
        first_copy[low:high] = [turn.first_copy for turn in found]
    return body, transmission, first_copy


def _repeated_whole(
    slot: Int64Array, fragment: Int64Array, total: Int64Array, digest: UInt64Array
) -> tuple[Int64Array, BoolArray]:
    """Rules 2 and 3 for slots in which all fragments come in their order, again and again, with the same bytes.

    Gives the round that each datagram belongs to, from 0, and whether its slot is such a one.
    """
    count = len(slot)
    begins = find_group_starts(slot)
    start, place = np.flatnonzero(begins), np.cumsum(begins) - 1
    index = np.arange(count) - start[place]
    period = np.maximum(total[start], 1)[place]
    round_, position = np.divmod(index, period)
    before = np.maximum(np.arange(count) - period, 0)
    fits = (total == period) & (fragment == position + 1) & ((round_ == 0) | (digest == digest[before]))
    return round_, np.logical_and.reduceat(fits, start)[place]


def _whole_columns(slot: Int64Array, digest: UInt64Array) -> tuple[Int64Array, Int64Array]:
    """Rule 1 for slots without fragments, ordered by slot and time: body and transmission."""
    count = len(slot)
    order = np.lexsort((digest, slot))  # stable: equal contents stay in order of time
    new = np.concatenate([[True], (slot[order][1:] != slot[order][:-1]) | (digest[order][1:] != digest[order][:-1])])
    run = np.cumsum(new) - 1
    begin = np.flatnonzero(new)
    transmission = np.empty(count, np.int64)
    transmission[order] = np.arange(count) - begin[run] + 1
    # bodies are numbered in the order in which they first appear in their slot
    first = order[begin]
    by_appearance = np.argsort(first, kind="stable")
    slots = slot[first[by_appearance]]
    beginning = np.concatenate([[True], slots[1:] != slots[:-1]])
    ordinal = np.arange(len(first)) - np.flatnonzero(beginning)[np.cumsum(beginning) - 1]
    number = np.empty(len(first), np.int64)
    number[by_appearance] = ordinal
    body = np.empty(count, np.int64)
    body[order] = number[run]
    return body, transmission
