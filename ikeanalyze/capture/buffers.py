"""The rows of the frames table while a capture is read: all columns, growing together.

The bytes of messages that are looked into, one behind the other in one piece of memory.

How the C library's allocator is told to keep what it has.

Every batch makes and drops the same arrays of some hundred kilobytes. glibc gives such memory back to the system at once, and each
new array is then filled with zeroed pages again: half of the time of reading a large capture goes into that.
"""

import ctypes
import mmap
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array
from ikeanalyze.capture.decode.classify import HEADER_COLUMNS

#: Linux's MAP_NORESERVE, which Python's mmap names from 3.12 on.
_NO_RESERVE: Final = 0x4000
_INITIAL_BYTES: Final = 1 << 16


def shared_bytes(size: int) -> UInt8Array:
    """Zeros in memory that forked processes share with this one; pages that nothing is written to take none."""
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, max(size, 1), flags=flags), np.uint8)[:size]


class MessageBytes(Mapping[int, bytes]):
    """Messages by unit. What is looked up once is as fast as in a dict; a million need no object each."""

    def __init__(self, heap: UInt8Array | None = None, at: int = 0) -> None:
        """Without `heap` there is one that grows; a given one is filled from `at` on and must have room."""
        self.heap = np.empty(_INITIAL_BYTES, np.uint8) if heap is None else heap
        self.share: float | None = None  # of the capture that is here, as far as that is known
        self._at = at
        self._parts: list[tuple[UInt32Array, Int64Array, Int64Array]] = []
        self._units: UInt32Array = np.zeros(0, np.uint32)
        self._begin: Int64Array = np.zeros(0, np.int64)
        self._size: Int64Array = np.zeros(0, np.int64)

    def add(self, units: UInt32Array, buffer: UInt8Array, begin: Int64Array, end: Int64Array) -> None:
        """Keep the bytes from `begin` to `end` of a buffer for each unit, instead of what it had before."""
        size = end - begin
        stop = self._at + int(size.sum())
        if stop > len(self.heap):
            self._grow(stop)
        target, source, at = self.heap.data, buffer.data, self._at
        for low, high in zip(begin.tolist(), end.tolist(), strict=True):
            following = at + high - low
            target[at:following] = source[low:high]
            at = following
        self._parts.append((units, self._at + np.cumsum(size) - size, size))
        self._at = stop

    def entries(self) -> tuple[UInt32Array, Int64Array, Int64Array]:
        """Units in rising order, and where in the heap the bytes of each begin, and how many there are."""
        if self._parts:
            columns = zip((self._units, self._begin, self._size), *self._parts, strict=True)
            units, begin, size = (np.concatenate(column) for column in columns)
            self._parts.clear()
            order = np.argsort(units, kind="stable")
            units, begin, size = units[order], begin[order], size[order]
            last = np.ones(len(units), np.bool_)
            last[:-1] = units[1:] != units[:-1]
            self._units, self._begin, self._size = units[last], begin[last], size[last]
        return self._units, self._begin, self._size

    def add_existing(self, units: UInt32Array, begin: Int64Array, size: Int64Array) -> None:
        """Enter messages that somebody else has put into the same heap."""
        self._parts.append((units, begin, size))

    def places(self, units: npt.NDArray[np.integer]) -> tuple[Int64Array, Int64Array]:
        """Where in the heap the bytes of each unit begin, and how many there are (0: none kept). (n,) each"""
        known, begin, size = self.entries()
        if not len(known):
            return np.zeros(len(units), np.int64), np.zeros(len(units), np.int64)
        place = np.minimum(np.searchsorted(known, units), len(known) - 1)
        there = known[place] == units
        return np.where(there, begin[place], 0), np.where(there, size[place], 0)

    def keep(self, units: UInt32Array) -> None:
        """Free the memory of all messages but those of some units."""
        known, begin, size = self.entries()
        chosen = np.isin(known, units)
        heap, self.heap, self._at = self.heap, np.empty(_INITIAL_BYTES, np.uint8), 0
        self._units, self._begin, self._size = known[:0], begin[:0], size[:0]
        if chosen.any():
            low = begin[chosen]
            self.add(known[chosen], heap, low, low + size[chosen])

    def clear(self) -> None:
        """Free the memory; nothing is kept then."""
        self.keep(np.zeros(0, np.uint32))

    def __getitem__(self, unit: int) -> bytes:
        known, begin, size = self.entries()
        place = int(np.searchsorted(known, np.uint32(unit)))
        if place == len(known) or known[place] != unit:
            raise KeyError(unit)
        low = int(begin[place])
        return self.heap[low : low + int(size[place])].tobytes()

    def __iter__(self) -> Iterator[int]:
        return iter(self.entries()[0].tolist())

    def __len__(self) -> int:
        return len(self.entries()[0])

    def _grow(self, needed: int) -> None:
        room = max(needed, 2 * len(self.heap))
        if self.share:
            room = max(room, int(needed / self.share * 1.1))
        heap = np.empty(room, np.uint8)
        heap[: self._at] = self.heap[: self._at]
        self.heap = heap


class MessageStore:
    """What is kept of a capture's messages: the bytes of those that are clear, and on demand of others."""

    def __init__(
        self, spis: Collection[int] | None = (), clear: MessageBytes | None = None, sealed: MessageBytes | None = None
    ) -> None:
        """`spis`: initiators' SPIs of the IKE SAs whose encrypted messages are kept too; None: of all."""
        self.clear = MessageBytes() if clear is None else clear
        self.sealed = MessageBytes() if sealed is None else sealed
        self._spis = spis

    def set_progress(self, share: float | None) -> None:
        """Say how much of the capture has been read, as far as that is known."""
        self.clear.share = self.sealed.share = share

    def add(
        self,
        units: UInt32Array,
        buffer: UInt8Array,
        begin: Int64Array,
        end: Int64Array,
        clear: BoolArray,
        header: Mapping[str, Any],
    ) -> None:
        """Take messages, of which the `clear` ones can be read without keys."""
        self.clear.add(units[clear], buffer, begin[clear], end[clear])
        if self._spis is None:
            wanted = ~clear
        elif self._spis:
            wanted = ~clear & np.isin(header["spi_i"], np.fromiter(self._spis, np.uint64))
        else:
            return
        self.sealed.add(units[wanted], buffer, begin[wanted], end[wanted])



Columns = dict[str, npt.NDArray[Any]]

#: Columns of a kept frame, beside HEADER_COLUMNS.
_FRAME_COLUMNS: Final[dict[str, type[np.generic]]] = {
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
    "ttl": np.uint8,
    "ip_id": np.uint32,
    "ip_fragment": np.bool_,
    "capture_duplicate": np.bool_,
    "resent": np.bool_,  # by TCP, or doubled IP fragments: nothing in it that earlier frames of its unit have not
    "digest": np.uint64,
    "unit": np.uint32,
}

#: All columns.
LAYOUT: Final = {**_FRAME_COLUMNS, **HEADER_COLUMNS}

_INITIAL_ROWS: Final = 1024


class FrameRows:
    """Columns of one length, to which rows are added.

    A list of parts, joined at the end, would need twice the memory, and new memory costs most. So the room for the
    whole capture is estimated from the share of it that has been read: memory that is not written to costs nothing.
    """

    def __init__(self, layout: Mapping[str, type[np.generic]], columns: Columns | None = None) -> None:
        """`columns`: memory to begin with."""
        self.share: float | None = None  # of the capture that is here, as far as that is known
        self._columns = columns or {name: np.empty(_INITIAL_ROWS, dtype) for name, dtype in layout.items()}
        self._room = min(len(column) for column in self._columns.values())
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, count: int, part: Mapping[str, Any]) -> None:
        """Add rows: an array of `count` values for each column, or one value for all of them."""
        stop = self._count + count
        if stop > self._room:
            self._grow(stop)
        for name, column in self._columns.items():
            column[self._count : stop] = part[name]
        self._count = stop

    @staticmethod
    def shared(layout: Mapping[str, type[np.generic]], room: int) -> "FrameRows":
        """Up to `room` rows, in memory that a forked process has in common with this one."""
        return FrameRows(
            layout, {name: shared_bytes(room * np.dtype(dtype).itemsize).view(dtype) for name, dtype in layout.items()}
        )

    def columns(self, *, whole: bool = False) -> Columns:
        """The columns so far; `whole`: with the room behind them."""
        return {name: column[: None if whole else self._count] for name, column in self._columns.items()}

    def _grow(self, needed: int) -> None:
        room = max(needed, 2 * self._room)
        if self.share:
            room = max(room, int(needed / self.share * 1.1))
        for name, column in self._columns.items():
            grown = np.empty(room, column.dtype)
            grown[: self._count] = column[: self._count]
            self._columns[name] = grown
        self._room = room


_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


@cache
def tune_malloc() -> None:
    """Ask glibc's malloc (mallopt(3)) to reuse freed memory; other C libraries are left alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 256 << 20)
    # what one thread frees, another can use only if they have one heap; no two of them allocate often enough to wait
    mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Give what is free to the system, for allocators of others (polars has its own)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
