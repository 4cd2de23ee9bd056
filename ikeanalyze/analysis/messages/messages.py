"""Group datagrams into messages: one row per transmission of an IKE message."""

from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze import core
from ikeanalyze.analysis.grouping import RowColumns, RowGroups, argsort_stable, find_group_starts
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.capture.arrays import (
    BoolArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt16Array,
    UInt32Array,
    UInt64Array,
    sort_distinct,
)
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType


class MessageColumns(RowColumns, frozen=True):
    """Columns of one length, ordered by slot, body and transmission (see `retransmission`), so by handshake first."""

    slot: Int64Array  # slots that differ in their last bit alone are the request and the response of one exchange
    handshake: Int32Array
    from_initiator: BoolArray
    initiator_asked: BoolArray  # the initiator sent the request of the exchange
    response: BoolArray
    protocol: UInt8Array
    exchange_type: UInt8Array
    next_payload: UInt8Array
    message_id: npt.NDArray[np.uint32]
    body: Int64Array  # from 0
    transmission: UInt32Array  # from 1
    first_ns: Int64Array
    last_ns: Int64Array
    first_frame: UInt32Array
    frames: UInt32Array
    bytes: Int64Array
    needed_bytes: Int64Array
    fragments: UInt16Array  # 0: not fragmented
    fragments_seen: UInt32Array  # that arrived; 0: not fragmented, or none arrived
    new_fragments: UInt32Array  # first copies among them
    ip_fragments: Int64Array
    digest: UInt64Array


#: Low bits of a turn, which have the transmission; the others have the body. There are at most 2**32 datagrams.
_TRANSMISSION_BITS: Final = 32
_HEADER_FIELDS: Final = ("protocol", "exchange_type", "next_payload", "message_id")


def group_messages(
    datagrams: Datagrams, association: SaAssociation, undelivered: BoolArray | None = None
) -> tuple[MessageColumns, Int32Array]:
    """Group IKE datagrams into messages; returns them and the row of the message of each datagram.

    `undelivered`: which datagrams lack IP fragments; None: none does. (datagrams,)
    """
    asked, response = _find_roles(datagrams, association)
    slot = _number_slots(datagrams, association, asked, response)
    # almost always each datagram is one frame, and sums over its frames are not needed
    several = bool((datagrams.frames > 1).any())
    arrived = ~undelivered if undelivered is not None and undelivered.any() else None
    if core.compiled is not None:
        columns = core.compiled.group_messages(
            slot, datagrams, association, asked, response, datagrams.is_ikev1, arrived, several
        )
        of_datagram: Int32Array = columns.pop("of_datagram")
        for name in ("body", "ip_fragments"):
            if not len(columns[name]):  # all are 0
                columns[name] = np.broadcast_to(np.int64(0), len(columns["slot"]))  # takes no memory
        return MessageColumns(**columns), of_datagram
    order, slot, turn, first_copy = _sort_by_transmission(datagrams, slot, arrived)
    totals = datagrams.fragments[order]
    new = find_group_starts(slot, turn)
    runs = RowGroups(new)
    start = runs.start
    message_of_datagram = np.empty(len(slot), np.int32)
    message_of_datagram[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)

    size = datagrams.bytes[order].astype(np.int64)
    fragment = datagrams.fragment[order]
    # the digest of a fragmented message combines those of its fragments, in any order
    part = datagrams.digest[order] * (2 * fragment.astype(np.uint64) + np.uint64(1))
    needed = np.where(first_copy, size, 0)
    if several:
        needed -= np.where(first_copy, datagrams.resent_bytes[order], 0)
    ip_fragments = datagrams.ip_fragments[order] if datagrams.ip_fragments.any() else None
    if ip_fragments is not None:
        _count_bytes_of_later_copies(needed, size, slot, turn >> _TRANSMISSION_BITS, fragment, totals, ip_fragments)
    head = order[start]
    fragmented = fragment[start] > 0
    seen, new_fragments = runs.size, first_copy.astype(np.int64)
    if arrived is not None:
        seen = runs.sum(arrived[order].astype(np.int64))
        new_fragments *= arrived[order]
    messages = MessageColumns(
        slot=slot[start],
        handshake=association.handshake[head],
        from_initiator=association.from_initiator[head],
        initiator_asked=asked[head],
        response=response[head],
        **{name: getattr(datagrams, name)[head] for name in _HEADER_FIELDS},
        body=turn[start] >> _TRANSMISSION_BITS,
        transmission=(turn[start] & ((1 << _TRANSMISSION_BITS) - 1)).astype(np.uint32),
        first_ns=datagrams.first_ns[head],  # datagrams are in order of time
        last_ns=runs.max(datagrams.last_ns[order]),
        first_frame=runs.min(datagrams.number[order]),
        frames=(runs.sum(datagrams.frames[order]) if several else runs.size).astype(np.uint32),
        bytes=runs.sum(size),
        needed_bytes=runs.sum(needed),
        fragments=runs.max(totals),
        fragments_seen=np.where(fragmented, seen, 0).astype(np.uint32),
        new_fragments=np.where(fragmented, runs.sum(new_fragments), 0).astype(np.uint32),
        ip_fragments=np.zeros(len(start), np.int64) if ip_fragments is None else runs.sum(ip_fragments),
        digest=runs.sum(part),
    )
    return messages, message_of_datagram


def _sort_by_transmission(
    datagrams: Datagrams, slot: Int64Array, arrived: BoolArray | None
) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
    """The order of the datagrams by slot, body and transmission; and in that order slot, turn and first copy of each.

    A turn is the body in the high bits and the transmission in the low `_TRANSMISSION_BITS`. (n,) each
    """
    from ikeanalyze.analysis.messages.retransmission import classify_transmissions  # not with the core

    order = argsort_stable(slot)
    slot = slot[order]
    body, transmission, first_copy = classify_transmissions(
        slot,
        datagrams.first_ns[order],
        datagrams.fragment[order].astype(np.int64),
        datagrams.fragments[order].astype(np.int64),
        datagrams.digest[order],
        datagrams.is_ikev1[order],
        None if arrived is None else arrived[order],
    )
    turn = body << _TRANSMISSION_BITS
    turn |= transmission
    del body, transmission  # a million numbers each
    moved = np.flatnonzero((slot[1:] == slot[:-1]) & (turn[1:] < turn[:-1])) + 1
    if len(moved):
        rows = np.flatnonzero(np.isin(slot, slot[moved]))
        sorted_rows = rows[np.lexsort((turn[rows], slot[rows]))]
        for column in (order, turn, first_copy):
            column[rows] = column[sorted_rows]
    return order, slot, turn, first_copy


def _count_bytes_of_later_copies(
    needed: Int64Array,
    size: Int64Array,
    slot: Int64Array,
    body: Int64Array,
    fragment: npt.NDArray[np.uint16],
    total: UInt16Array,
    ip_fragments: Int64Array,
) -> None:
    """Count the bytes that a later copy has in addition to a first copy with lost IP fragments, in place."""
    rows = np.flatnonzero((ip_fragments > 0) & (needed == 0))
    if not len(rows):
        return
    largest: dict[tuple[int, int, int, int], int] = {}  # only of the form that is needed
    for row in np.flatnonzero(np.isin(slot, slot[rows])).tolist():
        place = int(slot[row]), int(body[row]), int(fragment[row]), int(total[row])
        previous = largest.get(place)
        if previous is None and not needed[row]:
            continue
        if previous is not None and ip_fragments[row]:
            needed[row] = max(int(size[row]) - previous, 0)
        largest[place] = max(int(size[row]), previous or 0)


def _find_roles(datagrams: Datagrams, association: SaAssociation) -> tuple[BoolArray, BoolArray]:
    """Whose exchange each datagram belongs to (True: the initiator's), and whether it is the response in it.

    IKEv2 has flags, of which that of the initiator may be wrong (see `association`). IKEv1 has none: there, who speaks
    first in an exchange asks, and the other answers; informational messages are never answered (RFC 2408, 4.8).
    """
    response = datagrams.is_response.copy()
    asked = association.from_initiator ^ response
    ikev1_rows = np.flatnonzero(datagrams.is_ikev1)
    if len(ikev1_rows):
        sender = association.from_initiator[ikev1_rows]
        asked[ikev1_rows] = sender
        response[ikev1_rows] = False
        spoken = ikev1_rows[datagrams.exchange_type[ikev1_rows] != int(Ikev1ExchangeType.INFORMATIONAL)]
        exchange = (
            association.handshake[spoken].astype(np.int64) << 40
            | datagrams.exchange_type[spoken].astype(np.int64) << 32
        )
        exchange |= datagrams.message_id[spoken]
        _, first, inverse = np.unique(exchange, return_index=True, return_inverse=True)
        asked[spoken] = association.from_initiator[spoken[first]][inverse]
        response[spoken] = asked[spoken] != association.from_initiator[spoken]
    return asked, response


def _number_slots(
    datagrams: Datagrams, association: SaAssociation, asked: BoolArray, response: BoolArray
) -> Int64Array:
    """Number the slots by handshake, message ID, exchange type, requesting side and response. (n,)"""
    message_id: npt.NDArray[np.integer] = datagrams.message_id
    if len(message_id) and message_id.max() >= 1 << 16:
        # IKEv1 chooses random 32-bit numbers
        message_id = np.unique(message_id, return_inverse=True)[1].astype(np.int64)
    width = int(message_id.max()).bit_length() if len(message_id) else 0
    # in place: columns have millions of rows, and new memory for each step takes longer than the steps
    slot = association.handshake.astype(np.int64)
    for bits, column in ((width, message_id), (8, datagrams.exchange_type), (1, ~asked), (1, response)):
        slot <<= bits
        slot |= column
    return slot


def find_incomplete_messages(messages: MessageColumns) -> Int64Array:
    """Rows of the first transmissions of messages whose transmissions together lack fragments (RFC 7383).

    A fragment that lacks IP fragments did not arrive.
    """
    # mostly the first transmission has all
    lacking = messages.new_fragments < messages.fragments
    lacking &= (messages.transmission == 1) | (messages.needed_bytes > 0)
    if not lacking.any():
        return np.zeros(0, np.int64)
    rows = np.flatnonzero(np.isin(messages.slot, sort_distinct(messages.slot[lacking])))
    start = np.flatnonzero(find_group_starts(messages.slot[rows], messages.body[rows]))
    seen = np.add.reduceat(messages.new_fragments[rows], start)
    # of the form that one transmission needs, which is not always that of the first transmission
    total = np.maximum.reduceat(np.where(messages.needed_bytes[rows] > 0, messages.fragments[rows], 0), start)
    incomplete: Int64Array = rows[start][seen < total]
    return incomplete
