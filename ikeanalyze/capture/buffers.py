"""Growing buffers for the frames and messages of a capture."""

import mmap
import os
import weakref
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ikeanalyze import core
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array
from ikeanalyze.capture.decode.classify import HEADER_COLUMNS, find_phase1_fragments

#: Linux's MAP_NORESERVE, which the mmap module has since Python 3.12.
_NO_RESERVE: Final = 0x4000
#: A table with a place for every datagram is faster than a search up to this number of places for each datagram that is
#: stored or searched for.
_MAX_SPARSITY: Final = 4
#: What a store without messages has, which is not written to. Each of many small captures has two of them. The heap is
#: as large as the first one with messages, so that a header can be read at any offset that is in use.
_NO_BYTES: Final[UInt8Array] = np.zeros(1 << 16, np.uint8)
_NO_BYTES.setflags(write=False)
_NO_DATAGRAMS: Final[UInt32Array] = np.zeros(0, np.uint32)
_NO_NUMBERS: Final[Int64Array] = np.zeros(0, np.int64)


def shared_bytes(size: int) -> UInt8Array:
    """Zeros in memory that is shared with forked processes; unwritten pages take no memory."""
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, max(size, 1), flags=flags), np.uint8)[:size]


class MessageBytes(Mapping[int, bytes]):
    """Message bytes by datagram, stored contiguously in one buffer."""

    def __init__(self, heap: UInt8Array | None = None, at: int = 0) -> None:
        """`heap` is filled from `at` on and must be large enough; None: a new buffer, which grows."""
        self.heap = _NO_BYTES if heap is None else heap
        self.share: float | None = None  # of the capture that has been read; None: unknown
        self.in_file: FileMessages | None = None  # further messages, which `heap`, `entries` and `places` do not have
        self._at = at
        self._parts: list[tuple[UInt32Array, Int64Array, Int64Array]] = []
        self._datagrams, self._begin, self._size = _NO_DATAGRAMS, _NO_NUMBERS, _NO_NUMBERS

    def add(self, datagrams: UInt32Array, buffer: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
        """Store the bytes from `begin` to `end` of a buffer for each datagram, replacing its earlier bytes."""
        if not len(datagrams):
            return
        size = end - begin
        stop = self._at + int(size.sum())
        if stop > len(self.heap) or self.heap is _NO_BYTES:
            self._grow(stop)
        if core.compiled is not None:
            core.compiled.copy_ranges(self.heap, self._at, buffer, begin, end)
        else:
            # joined first: to assign each to its place in the heap takes twice as long
            source = buffer.data
            messages = b"".join([source[low:high] for low, high in zip(begin.tolist(), end.tolist(), strict=True)])
            self.heap[self._at : stop] = np.frombuffer(messages, np.uint8)
        self._parts.append((datagrams, self._at + np.cumsum(size) - size, size))
        self._at = stop

    def take(self, datagrams: UInt32Array, heap: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
        """Store messages as `add` does; the first buffer is kept instead of copied, and must not be used elsewhere.

        `heap` has PADDING bytes after the messages.
        """
        if len(datagrams) and self.heap is _NO_BYTES:
            self.heap, self._at = heap, int(end.max())
            self._parts.append((datagrams, begin, end - begin))
        else:
            self.add(datagrams, heap, begin, end)

    def entries(self) -> tuple[UInt32Array, Int64Array, Int64Array]:
        """The datagrams in ascending order, the offset of each in the heap, and its size in bytes. (n,) each"""
        if self._parts:
            parts = [(self._datagrams, self._begin, self._size)] if len(self._datagrams) else []
            parts += self._parts
            if len(parts) > 1:
                datagrams, begin, size = (np.concatenate(column) for column in zip(*parts, strict=True))
            else:
                ((datagrams, begin, size),) = parts
            self._parts.clear()
            if (datagrams[1:] > datagrams[:-1]).all():
                self._datagrams, self._begin, self._size = datagrams, begin, size
                return datagrams, begin, size
            order = np.argsort(datagrams, kind="stable")
            datagrams, begin, size = datagrams[order], begin[order], size[order]
            last = np.ones(len(datagrams), np.bool_)
            last[:-1] = datagrams[1:] != datagrams[:-1]
            self._datagrams, self._begin, self._size = datagrams[last], begin[last], size[last]
        return self._datagrams, self._begin, self._size

    @property
    def stored_bytes(self) -> int:
        """The bytes of all messages."""
        return int(self.entries()[2].sum())

    def add_existing(self, datagrams: UInt32Array, begin: Int64Array, size: Int64Array) -> None:
        """Add messages that another process has stored in the same heap."""
        self._parts.append((datagrams, begin, size))

    def places(self, datagrams: npt.NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
        """The offset of each datagram in the heap, and its size in bytes (0 for unknown datagrams). (n,) each"""
        known, begin, size = self.entries()
        if not len(known) or not len(datagrams):
            return np.zeros(len(datagrams), np.int64), np.zeros(len(datagrams), np.int64)
        last = max(int(known[-1]), int(datagrams.max()))
        if last < _MAX_SPARSITY * (len(known) + len(datagrams)):
            # a table of all datagrams is filled and read in less time than the datagrams are searched for
            table = np.full(last + 1, len(known), np.int32)
            table[known] = np.arange(len(known), dtype=np.int32)
            place = table[datagrams]
            return np.append(begin, 0)[place], np.append(size, 0)[place]
        place = np.minimum(np.searchsorted(known, datagrams), len(known) - 1)
        exists = known[place] == datagrams
        return np.where(exists, begin[place], 0), np.where(exists, size[place], 0)

    def renumber(self, number: Int64Array) -> None:
        """Give each datagram another number: `number[datagram]`."""
        datagrams, begin, size = self.entries()
        datagrams = number[datagrams].astype(np.uint32)
        order = np.argsort(datagrams)
        self._datagrams, self._begin, self._size = datagrams[order], begin[order], size[order]
        if self.in_file is not None:
            self.in_file.renumber(number)

    def load(self) -> None:
        """Copy the messages that are in the file into memory."""
        if self.in_file is not None:
            rest, self.in_file = self.in_file, None
            for datagram, data in rest.items():
                size = np.array([len(data)])
                self.add(np.array([datagram], np.uint32), np.frombuffer(data, np.uint8), np.zeros(1, np.int64), size)

    def keep(self, datagrams: UInt32Array) -> None:
        """Free the memory of all messages except those of these datagrams."""
        if self.in_file is not None:
            self.in_file.keep(datagrams)
        known, begin, size = self.entries()
        chosen = np.isin(known, datagrams)
        heap, self.heap, self._at = self.heap, _NO_BYTES, 0
        self._datagrams, self._begin, self._size = known[:0], begin[:0], size[:0]
        if chosen.any():
            low = begin[chosen]
            self.add(known[chosen], heap, low, low + size[chosen])

    def clear(self) -> None:
        """Remove all messages and free their memory."""
        self.keep(np.zeros(0, np.uint32))

    def __getitem__(self, datagram: int) -> bytes:
        known, begin, size = self.entries()
        place = int(np.searchsorted(known, np.uint32(datagram)))
        if place == len(known) or known[place] != datagram:
            if self.in_file is not None:
                return self.in_file[datagram]
            raise KeyError(datagram)
        return self._read(int(begin[place]), int(size[place]))

    def __iter__(self) -> Iterator[int]:
        return chain(self.entries()[0].tolist(), self.in_file or ())

    def __len__(self) -> int:
        return len(self.entries()[0]) + len(self.in_file or ())

    def _read(self, at: int, size: int) -> bytes:
        return self.heap[at : at + size].tobytes()

    def _grow(self, needed: int) -> None:
        heap = np.empty(_choose_capacity(needed, len(self.heap), self.share), np.uint8)
        heap[: self._at] = self.heap[: self._at]
        self.heap = heap


class FileMessages(MessageBytes):
    """Messages of an uncompressed capture file, which are read from it when they are needed."""

    def __init__(self, descriptor: int) -> None:
        """`descriptor`: the descriptor of the open file; it is duplicated."""
        super().__init__(np.empty(0, np.uint8))
        self._descriptor = os.dup(descriptor)
        weakref.finalize(self, os.close, self._descriptor)

    def keep(self, datagrams: UInt32Array) -> None:
        """Forget all messages except those of these datagrams."""
        known, begin, size = self.entries()
        chosen = np.isin(known, datagrams)
        self._datagrams, self._begin, self._size = known[chosen], begin[chosen], size[chosen]

    def _read(self, at: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, at)


class MessageReadings(Protocol):
    """Keeps what the core has read in messages, so that their bytes need not be kept in memory."""

    samples: list[bytes]  # a message of each form

    def add(
        self,
        datagrams: UInt32Array,
        form: Int64Array,
        sender_differs: npt.NDArray[np.int8],
        receiver_differs: npt.NDArray[np.int8],
    ) -> None:
        """Add messages, with the columns of `analysis.exchanges.init_messages.InitMessages`. (messages,) each"""

    def renumber(self, number: Int64Array) -> None:
        """Give each datagram another number: `number[datagram]`."""


class MessageStore:
    """The stored messages of a capture: all that are in clear, and the encrypted messages of some IKE SAs.

    Fragments of IKEv1's phase 1 can be either, so they are stored among both.
    """

    def __init__(
        self,
        spis: Collection[int] | None = (),
        clear: MessageBytes | None = None,
        encrypted: MessageBytes | None = None,
    ) -> None:
        """`spis`: initiators' SPIs of the IKE SAs whose encrypted messages are stored; None: those of all IKE SAs."""
        self.clear = MessageBytes() if clear is None else clear
        self.encrypted = MessageBytes() if encrypted is None else encrypted
        self._spis = spis

    def add(
        self,
        datagrams: UInt32Array,
        buffer: UInt8Array,
        begin: Int64Array,
        end: Int64Array,
        clear: BoolArray,
        header: Mapping[str, Any],
    ) -> None:
        """Store messages; `clear` marks those that can be read without keys."""
        readable = clear | find_phase1_fragments(header)
        self.clear.add(datagrams[readable], buffer, begin[readable], end[readable])
        if self._spis is None:
            wanted = ~clear
        elif self._spis:
            wanted = ~clear & np.isin(header["spi_i"], np.fromiter(self._spis, np.uint64))
        else:
            return
        self.encrypted.add(datagrams[wanted], buffer, begin[wanted], end[wanted])


Columns = dict[str, npt.NDArray[Any]]

#: Columns of a kept frame, with those of the message header.
LAYOUT: Final[dict[str, type[np.generic]]] = {
    "number": np.uint32,
    "time_ns": np.int64,
    "interface": np.uint32,
    "bytes": np.uint32,
    "captured": np.uint32,
    "encapsulation": np.uint8,
    "source": np.uint64,
    "source_port": np.uint16,
    "destination": np.uint64,
    "destination_port": np.uint16,
    "tunnel": np.uint32,  # number in the TunnelBook; 0: none
    "ttl": np.uint8,
    "ip_id": np.uint32,
    "ip_fragment": np.bool_,
    "capture_duplicate": np.bool_,
    "resent": np.bool_,  # a TCP retransmission or doubled IP fragment: earlier frames of its datagram have the same bytes
    "digest": np.uint64,
    "datagram": np.uint32,
    **HEADER_COLUMNS,
}

#: Enough for a capture of a few handshakes. More would cost page faults in each of many small captures.
_INITIAL_ROWS: Final = 64


#: From this number of rows on, columns are copied in several threads: the rows of a worker process, when it has ended.
#: Most of the time is that of new pages of memory.
_MANY_ROWS: Final = 1 << 17


class FrameRows:
    """Columns of one length that grow together.

    Concatenating parts at the end would need twice the memory. Instead, the capacity for the whole capture is estimated
    from the share of it that has been read, since memory that is not written to costs nothing. A column whose rows all
    have one value is that value, repeated without memory and not to be written to.
    """

    def __init__(self, layout: Mapping[str, type[np.generic]], columns: Columns | None = None) -> None:
        """`columns` provide the initial memory."""
        self.share: float | None = None  # of the capture that has been read; None: unknown
        self._layout = layout
        self._columns: Columns = columns or {}  # without memory, empty until there are rows
        self._capacity = min((len(column) for column in self._columns.values()), default=0)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, count: int, part: Mapping[str, Any], *, take: bool = False) -> None:
        """Add `count` rows; each column is an array of this length or a single value.

        `take`: arrays, which have the byte order of this machine, may be kept, because they belong to nothing else.
        """
        if not count:
            return
        if take and not self._columns:
            self._columns = {name: _take(part[name], count, dtype) for name, dtype in self._layout.items()}
            self._capacity = self._count = count
            return
        stop = self._count + count
        if stop > self._capacity:
            self._grow(stop, part)
        rows = slice(self._count, stop)
        if count < _MANY_ROWS:
            for name in self._columns:
                self._copy(name, rows, part)
        else:
            with ThreadPoolExecutor() as pool:
                list(pool.map(self._copy, self._columns, repeat(rows), repeat(part)))
        self._count = stop

    def _copy(self, name: str, rows: slice, part: Mapping[str, Any]) -> None:
        column, values = self._columns[name], part[name]
        if is_repeated(column):
            if not isinstance(values, np.ndarray) and values == column[0]:
                return
            repeated, column = column, np.empty(len(column), column.dtype)
            column[: rows.start] = repeated[0]
            self._columns[name] = column
        column[rows] = values

    @staticmethod
    def shared(layout: Mapping[str, type[np.generic]], capacity: int) -> "FrameRows":
        """Up to `capacity` rows, in memory that is shared with forked processes."""
        return FrameRows(
            layout,
            {name: shared_bytes(capacity * np.dtype(dtype).itemsize).view(dtype) for name, dtype in layout.items()},
        )

    def columns(self, *, whole: bool = False) -> Columns:
        """The columns so far; `whole`: with their unused capacity."""
        if not self._columns:
            return {name: np.empty(0, dtype) for name, dtype in self._layout.items()}
        if whole or self._count == self._capacity:
            return dict(self._columns)
        return {name: column[: self._count] for name, column in self._columns.items()}

    def _grow(self, needed: int, part: Mapping[str, Any]) -> None:
        """Make room for `needed` rows, of which `part` are the next."""
        self._capacity = _choose_capacity(needed, max(self._capacity, _INITIAL_ROWS // 2), self.share)
        for name, dtype in self._layout.items():
            column = self._columns.get(name)
            if column is None and not isinstance(part[name], np.ndarray):
                self._columns[name] = _repeat(part[name], self._capacity, dtype)
                continue
            if column is not None and is_repeated(column):
                self._columns[name] = np.broadcast_to(column[0], self._capacity)
                continue
            grown = np.empty(self._capacity, dtype)
            if column is not None:
                grown[: self._count] = column[: self._count]
            self._columns[name] = grown


def is_repeated(column: npt.NDArray[Any]) -> bool:
    """Whether a column is one value, repeated without memory."""
    return column.strides == (0,)


def _repeat(value: Any, count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    single = np.array(value, dtype)
    single.flags.writeable = False
    return np.ndarray((count,), dtype, single, strides=(0,))  # as np.broadcast_to, which takes several times as long


def _take(values: Any, count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """The array itself if it has the type of its column; `count` times the value if it is a single one."""
    if isinstance(values, np.ndarray) and values.dtype.type is dtype:
        return values
    return np.array(values, dtype) if isinstance(values, np.ndarray) else _repeat(values, count, dtype)


def _choose_capacity(needed: int, current: int, share: float | None) -> int:
    """At least twice the current capacity, and enough for the whole capture if the share read so far is known."""
    return max(needed, 2 * current, int(needed / share * 1.1) if share else 0)
