"""Decoded messages before their payloads are parsed, as columns of many messages.

Of a decrypted message only the IKE header and the plaintext are kept: nothing else is needed, unless clear payloads
precede the encrypted one.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array
from ikeanalyze.capture.buffers import MessageBytes
from ikeanalyze.crypto.sk_payload import DecryptedMessage
from ikeanalyze.keys.key_set import KeySet
from ikeanalyze.wire.header import HEADER, NEXT_PAYLOAD_OFFSET
from ikeanalyze.wire.payload_chain import ENCRYPTED_TYPES

#: Bytes after the messages, which are zero, so that the fields of a header can be read at any offset.
MARGIN_BYTES: Final = HEADER.size


class MessageRecord(NamedTuple):
    """One message, decrypted by Python or reassembled; a named tuple, because a capture has many."""

    message: int  # row of Messages
    row: int  # of the last datagram that was used
    data: bytes  # as sent; of a fragmented message of IKEv2 the first fragment
    datagrams: tuple[int, ...]  # rows of the datagrams that were used, each fragment once, by fragment number
    decrypted: DecryptedMessage | None = None  # None: a clear message
    position: int = -1  # as in RecordColumns
    keys: KeySet | None = None  # None: clear message or IKEv1


class RecordColumns(Struct, frozen=True):
    """One row for each message. (messages,) each"""

    message: Int64Array  # row of Messages
    row: Int64Array  # of the last datagram that was used
    begin: Int64Array  # offset in the heap: of a clear message, or of the header and plaintext of a decrypted one
    size: Int64Array  # bytes there
    first_part: Int64Array  # index into the parts
    parts: Int64Array  # number of datagrams that were used
    encrypted: BoolArray
    first: UInt8Array  # type of the first decrypted payload
    verified: BoolArray  # the ICV is correct
    position: Int64Array  # of the key set in the chain of the IKE SA; -1: the key set does not name the IKE SA
    keys: Int64Array  # index into the key sets; -1: clear message or IKEv1
    outer: Int64Array  # index into the outer messages; -1: only the encrypted payload follows the header

    def __len__(self) -> int:
        return len(self.message)

    def select(self, rows: Int64Array) -> "RecordColumns":
        """Select messages, in this order."""
        return RecordColumns(*(getattr(self, name)[rows] for name in self.__struct_fields__))


class MessageRecords(Struct, frozen=True):
    """Messages, and what their columns refer to."""

    columns: RecordColumns
    heap: UInt8Array
    parts: Int64Array  # rows of datagrams, those of each message by fragment number
    key_sets: Sequence[KeySet | None]
    outer: Sequence[bytes]  # messages as sent, of a fragmented one the first fragment
    used: int | None = None  # bytes of the heap that are in use, the others are free; None: all

    def __len__(self) -> int:
        return len(self.columns)


def make_records(records: Sequence[MessageRecord]) -> MessageRecords:
    """The columns of messages that are objects."""
    texts: list[bytes] = []
    outer: list[bytes] = []
    outer_of = np.full(len(records), -1)
    for index, record in enumerate(records):
        if record.decrypted is None:
            texts.append(record.data)
        else:
            texts.append(record.data[: HEADER.size] + record.decrypted.plaintext)
            if record.data[NEXT_PAYLOAD_OFFSET] not in ENCRYPTED_TYPES:
                outer_of[index] = len(outer)
                outer.append(record.data)
    decrypted = [record.decrypted for record in records]
    size = np.array(list(map(len, texts)), np.int64)
    parts = np.array([len(record.datagrams) for record in records], np.int64)
    return MessageRecords(
        RecordColumns(
            message=np.array([record.message for record in records], np.int64),
            row=np.array([record.row for record in records], np.int64),
            begin=np.cumsum(size) - size,
            size=size,
            first_part=np.cumsum(parts) - parts,
            parts=parts,
            encrypted=np.array([item is not None for item in decrypted], np.bool_),
            first=np.array([0 if item is None else item.first for item in decrypted], np.uint8),
            verified=np.array([item is not None and item.verified for item in decrypted], np.bool_),
            position=np.array([record.position for record in records], np.int64),
            keys=np.array([-1 if record.keys is None else index for index, record in enumerate(records)], np.int64),
            outer=outer_of,
        ),
        heap=np.frombuffer(b"".join(texts), np.uint8),
        parts=np.array([row for record in records for row in record.datagrams], np.int64),
        key_sets=[record.keys for record in records],
        outer=outer,
    )


#: No messages.
NO_RECORDS: Final = make_records([])


def make_clear_records(
    message: Int64Array, row: Int64Array, source: UInt8Array, begin: Int64Array, size: Int64Array
) -> MessageRecords:
    """The columns of clear messages, whose bytes are in `source`, each in one datagram. (messages,) each"""
    count = len(row)
    store = MessageBytes(np.empty(int(size.sum()), np.uint8))
    store.add(np.arange(count, dtype=np.uint32), source, begin, begin + size)
    unknown = np.full(count, -1)
    return MessageRecords(
        RecordColumns(
            message=message,
            row=row,
            begin=np.cumsum(size) - size,
            size=size,
            first_part=np.arange(count),
            parts=np.ones(count, np.int64),
            encrypted=np.zeros(count, np.bool_),
            first=np.zeros(count, np.uint8),
            verified=np.zeros(count, np.bool_),
            position=unknown,
            keys=unknown,
            outer=unknown,
        ),
        heap=store.heap,
        parts=row,
        key_sets=(),
        outer=(),
    )


def join_records(groups: Sequence[MessageRecords]) -> MessageRecords:
    """All messages of several groups."""
    outer: list[bytes] = []
    heap, begins = _join_heaps(groups)
    parts = keys = 0
    columns: list[RecordColumns] = []
    for group, begin in zip(groups, begins, strict=True):
        shifts = {"begin": begin, "first_part": parts, "keys": keys, "outer": len(outer)}
        shifted = {name: getattr(group.columns, name) for name in RecordColumns.__struct_fields__}
        for name, shift in shifts.items():
            shifted[name] = np.where(shifted[name] < 0, -1, shifted[name] + shift)
        columns.append(RecordColumns(**shifted))
        outer += group.outer
        parts, keys = parts + len(group.parts), keys + len(group.key_sets)
    return MessageRecords(
        RecordColumns(
            *(np.concatenate([getattr(part, name) for part in columns]) for name in RecordColumns.__struct_fields__)
        ),
        heap=heap,
        parts=np.concatenate([group.parts for group in groups]),
        key_sets=_join_key_sets([group.key_sets for group in groups if group.key_sets]),
        outer=outer,
    )


def _join_heaps(groups: Sequence[MessageRecords]) -> tuple[UInt8Array, list[int]]:
    """A heap with the bytes of all groups, and where those of each group begin.

    It is the heap of the first group if that has room: copying gigabytes takes seconds.
    """
    sizes = [len(group.heap) if group.used is None else group.used for group in groups]
    ends = list(accumulate(sizes))
    first = groups[0]
    if first.used is not None and len(first.heap) >= ends[-1] + MARGIN_BYTES:
        heap, done = first.heap[: ends[-1] + MARGIN_BYTES], 1
    else:
        heap, done = np.empty(ends[-1] + MARGIN_BYTES, np.uint8), 0
    begins = [end - size for end, size in zip(ends, sizes, strict=True)]
    for group, begin, end in list(zip(groups, begins, ends, strict=True))[done:]:
        heap[begin:end] = group.heap[: end - begin]
    heap[ends[-1] :] = 0
    return heap, begins


def _join_key_sets(parts: Sequence[Sequence[KeySet | None]]) -> Sequence[KeySet | None]:
    """The key sets of all parts; those of a table do not become objects if it is the only part."""
    return parts[0] if len(parts) == 1 else [keys for part in parts for keys in part]
