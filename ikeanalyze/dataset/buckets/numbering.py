"""Numbers the rows of all buckets as if the capture were analysed as a whole.

Handshakes are in order of their first datagrams, exchanges in order of their handshakes, messages in order of time and,
at the same time, of their handshakes. Within a bucket the order is the same. So each bucket writes what decides the
order of its rows; with that of all buckets each row gets its id, before any table is built.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.analysis.tables.row_ids import FROM_THE_START, MessageRowIds, RowNumbering
from ikeanalyze.capture.arrays import Int64Array, UInt32Array
from ikeanalyze.dataset.buckets.frame_buckets import BucketContents, BucketFolder
from ikeanalyze.machine import release_free_memory

#: Messages that are numbered at once.
_MESSAGES_AT_ONCE: Final = 1 << 19
#: One of this many messages of a bucket is used to find the times that divide all messages.
_SAMPLED: Final = 1 << 12
#: A file with the ids of the messages of a bucket.
_MESSAGE_IDS: Final = "message_ids"
#: Comes after all handshakes: RADIUS messages follow those of IKE of the same time.
_AFTER_ALL: Final = np.iinfo(np.int64).max


class UnorderedBucketError(Exception):
    """The handshakes of a bucket are not in order of their first datagrams: a REDIRECT led to an older one."""


@dataclass(frozen=True, slots=True)
class RowTotals:
    """Rows of the whole capture."""

    handshakes: int
    exchanges: int
    messages: int


class SurveyNumbering(RowNumbering, frozen=True, kw_only=True):
    """Numbers the rows of one bucket, and writes what decides their order."""

    folder: BucketFolder
    index: int
    contents: BucketContents

    def number_messages(self, state: AnalysisState, radius: Datagrams) -> MessageRowIds:
        """Number the messages of this bucket from 0."""
        ids = RowNumbering.number_messages(self, state, radius)
        handshake = np.concatenate([state.messages.handshake, np.full(len(radius), -1)])
        first_ns = np.concatenate([state.messages.first_ns, radius.first_ns])
        self._write(state, first_ns[ids.order], handshake[ids.order])
        return ids

    def _write(self, state: AnalysisState, message_ns: Int64Array, message_handshake: Int64Array) -> None:
        """Write times and handshakes of the messages in order (-1: RADIUS), and the first datagrams of handshakes."""
        datagrams, association = state.datagrams, state.association
        heads = np.zeros(association.count, np.int64)
        heads[association.handshake[::-1]] = np.arange(len(datagrams))[::-1]
        handshakes: dict[str, Int64Array] = {
            "first_ns": datagrams.first_ns[heads],
            # handshakes of the same time have the order of their datagrams in the capture, or of their frames
            "datagram": self.contents.datagrams[datagrams.datagram[heads]].astype(np.int64),
            "number": datagrams.number[heads].astype(np.int64),
            "exchanges": np.bincount(state.exchanges.handshake, minlength=association.count),
        }
        for name, column in handshakes.items():
            _save(self.folder, self.index, f"handshake_{name}.npy", column)
        _save(self.folder, self.index, "message_ns.npy", message_ns)
        _save(self.folder, self.index, "message_handshake.npy", message_handshake)


def number_rows(folder: BucketFolder, *, by_datagram: bool) -> RowTotals:
    """Number the rows of all buckets; each bucket gets a file with its ids.

    `by_datagram`: handshakes of the same time have the order of their datagrams, not of their frames.

    Raises:
        UnorderedBucketError: the order of a bucket does not fit that of the capture.
    """
    indices = folder.indices
    stop = np.cumsum([len(part) for part in _load_handshakes(folder, indices, "first_ns")])
    # one column after the other: those of all handshakes are in memory
    first_ns = np.concatenate(_load_handshakes(folder, indices, "first_ns"))
    order = np.lexsort(
        (np.concatenate(_load_handshakes(folder, indices, "datagram" if by_datagram else "number")), first_ns)
    )
    del first_ns
    handshake = np.empty(len(order), np.uint32)
    handshake[order] = np.arange(len(order), dtype=np.uint32)
    ranks = np.split(handshake, stop[:-1])
    if any((rank[1:] < rank[:-1]).any() for rank in ranks):
        raise UnorderedBucketError
    exchanges = np.concatenate(_load_handshakes(folder, indices, "exchanges"))
    before = np.empty(len(order), np.int64)  # exchanges of earlier handshakes
    before[order] = np.cumsum(exchanges[order]) - exchanges[order]
    counts = np.split(exchanges, stop[:-1])
    for index, rank, own_before, own in zip(indices, ranks, np.split(before, stop[:-1]), counts, strict=True):
        start = np.cumsum(own) - own
        exchange = np.repeat(own_before - start, own) + np.arange(int(own.sum()))
        _save(folder, index, "handshake_ids.npy", rank.astype(np.int64) + FROM_THE_START.handshake)
        _save(folder, index, "exchange_ids.npy", exchange + FROM_THE_START.exchange)
    totals = RowTotals(len(order), int(exchanges.sum()), _number_messages(folder, indices, ranks))
    release_free_memory()
    return totals


def _load_handshakes(folder: BucketFolder, indices: Sequence[int], column: str) -> list[Int64Array]:
    """A column of the handshakes of each bucket."""
    files = (folder.get_file(index, f"handshake_{column}.npy") for index in indices)
    return [np.load(file) for file in files]


def _save(folder: BucketFolder, index: int, kind: str, values: Int64Array) -> None:
    with folder.create(index, kind) as file:
        np.save(file, values)


def _number_messages(folder: BucketFolder, indices: Sequence[int], ranks: Sequence[UInt32Array]) -> int:
    """Number the messages slice by slice in order of time; return how many there are."""
    sample = np.sort(np.concatenate([_map(folder, index, "message_ns")[::_SAMPLED] for index in indices]))
    edges = np.unique(sample[_MESSAGES_AT_ONCE // _SAMPLED :: _MESSAGES_AT_ONCE // _SAMPLED])
    begin = [0] * len(indices)
    count = 0
    for edge in [*edges.tolist(), None]:
        # mapped again for each slice: pages that were read would count as memory of this process
        times = [_map(folder, index, "message_ns") for index in indices]
        end = [len(part) if edge is None else int(np.searchsorted(part, edge)) for part in times]
        spans = [slice(low, high) for low, high in zip(begin, end, strict=True)]
        when = np.concatenate([part[span] for part, span in zip(times, spans, strict=True)])
        handshakes = []
        for index, span, rank in zip(indices, spans, ranks, strict=True):
            local = _map(folder, index, "message_handshake")[span]
            known = local >= 0
            handshake = np.full(len(local), _AFTER_ALL, np.int64)
            handshake[known] = rank[local[known]]
            handshakes.append(handshake)
        # messages of one handshake are in order within their bucket
        order = np.lexsort((np.concatenate(handshakes), when))
        number = np.empty(len(order), np.uint32)
        number[order] = np.arange(count + FROM_THE_START.message, count + FROM_THE_START.message + len(order))
        at = 0
        for index, span in zip(indices, spans, strict=True):
            length = span.stop - span.start
            folder.append(index, _MESSAGE_IDS, number[at : at + length].tobytes())
            at += length
        count += len(order)
        begin = end
    return count


def _map(folder: BucketFolder, index: int, kind: str) -> Int64Array:
    """An array of a bucket that stays on disk."""
    values: Int64Array = np.load(folder.get_file(index, f"{kind}.npy"), mmap_mode="r")
    return values


class BucketNumbering(RowNumbering, frozen=True, kw_only=True):
    """The ids that `number_rows` gave to the rows of a bucket."""

    folder: BucketFolder
    index: int

    def _load(self, kind: str) -> Int64Array:
        ids: Int64Array = np.load(self.folder.get_file(self.index, kind)).astype(np.int64)
        return ids

    def number_handshakes(self, state: AnalysisState) -> Int64Array:
        """The ids of the handshakes. (handshakes,)"""
        ids = self._load("handshake_ids.npy")
        assert len(ids) == state.association.count
        return ids

    def number_exchanges(self, state: AnalysisState) -> Int64Array:
        """The ids of the exchanges. (exchanges,)"""
        ids = self._load("exchange_ids.npy")
        assert len(ids) == len(state.exchanges)
        return ids

    def number_messages(self, state: AnalysisState, radius: Datagrams) -> MessageRowIds:
        """The ids of the messages and of the RADIUS datagrams."""
        own = RowNumbering.number_messages(self, state, radius)
        ids = np.fromfile(self.folder.get_file(self.index, _MESSAGE_IDS), np.uint32)
        assert len(ids) == len(own.order)
        of_row = np.empty(len(ids), np.uint32)
        of_row[own.order] = ids
        return MessageRowIds(own.order, of_row, own.capture)
