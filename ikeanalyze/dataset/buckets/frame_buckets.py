"""Writes the frames and clear messages of a capture to buckets on disk, and reads a bucket.

A bucket has three files: rows of fixed width (the columns of `buffers.LAYOUT` and the place among all rows), the bytes
of its clear messages one after the other, and datagram and size of each of these.
"""

import errno
import pickle
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from ikeanalyze.analysis.grouping import HASH_MULTIPLIER, find_group_starts
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt32Array, UInt64Array
from ikeanalyze.capture.buffers import LAYOUT, FrameRows, MessageBytes, MessageStore
from ikeanalyze.capture.decode.classify import Encapsulation, Protocol, find_phase1_fragments
from ikeanalyze.capture.decode.incomplete_datagrams import share_digests
from ikeanalyze.capture.frames import CaptureFrames, FrameStorage
from ikeanalyze.capture.traffic import CombinedFrames
from ikeanalyze.wire.ikev2.message import parse_init
from ikeanalyze.wire.registries.ikev2 import ExchangeType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: The bucket of what cannot be split by initiators' SPIs.
COMMON: Final = 0

_ROW: Final = np.dtype([*LAYOUT.items(), ("sequence", np.uint64)])
_ENTRY: Final = np.dtype([("datagram", np.uint32), ("size", np.uint32)])
#: Rows that are written at once.
_ROWS_AT_ONCE: Final = 1 << 17
#: Bytes of messages that are written at once.
_BYTES_AT_ONCE: Final = 16 << 20
#: Room after the last message, which vectorised reads may touch.
_HEAP_PADDING: Final = 1 << 16
#: Free disk space that is left to others.
_RESERVE: Final = 128 << 20
#: Types of the notifies that connect two IKE SAs (RFC 5685, 3), as they are in a message.
_REDIRECTS: Final = frozenset({int(NotifyType.REDIRECT), int(NotifyType.REDIRECTED_FROM)})
_REDIRECT_BYTES: Final = re.compile(b"|".join(re.escape(kind.to_bytes(2, "big")) for kind in sorted(_REDIRECTS)))


class BucketSpaceError(Exception):
    """The disk has not enough space for the buckets: one line."""


@dataclass(frozen=True, slots=True)
class BucketContents:
    """The frames of a bucket."""

    traffic: CombinedFrames  # datagrams are numbered from 0 in the order of their first frames
    datagrams: UInt64Array  # a number of each that orders the datagrams of all buckets in the same way, rising
    sequence: UInt64Array  # place of each frame among all that were written


class BucketFolder:
    """The files of the buckets of one capture: the common one and `count` others."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count

    @property
    def indices(self) -> list[int]:
        """The buckets with frames, and the common one."""
        return [index for index in range(self.count + 1) if index == COMMON or self._get_rows_path(index).exists()]

    def get_file(self, index: int, kind: str) -> Path:
        """The path of a file of a bucket."""
        return self.path / f"{index:05}.{kind}"

    def _get_rows_path(self, index: int) -> Path:
        return self.get_file(index, "rows")

    def append(self, index: int, kind: str, data: bytes | memoryview) -> None:
        """Append to a file of a bucket. Raises `BucketSpaceError` if the disk is full."""
        try:
            with open(self.get_file(index, kind), "ab") as file:
                file.write(data)
        except OSError as error:
            raise self.make_error(error) from None

    @contextmanager
    def create(self, index: int, kind: str) -> Iterator[BinaryIO]:
        """Create a file of a bucket. Raises `BucketSpaceError` if the disk is full."""
        try:
            with open(self.get_file(index, kind), "wb") as file:
                yield file
        except OSError as error:
            raise self.make_error(error) from None

    def find_files(self, kind: str) -> list[Path]:
        """The files of this kind, of all buckets in order."""
        return sorted(self.path.glob(f"?????.{kind}"))

    def make_error(self, error: OSError) -> Exception:
        """The error to raise for an error of the operating system."""
        return make_space_error(self.path) if error.errno in (errno.ENOSPC, errno.EDQUOT) else error

    def write_table(self, rows: pl.DataFrame, path: Path, compression: Literal["lz4", "uncompressed"] = "lz4") -> None:
        """Write a table as an Arrow file. Raises `BucketSpaceError` if the disk is full."""
        try:
            rows.write_ipc(path, compression=compression)
        except OSError as error:
            raise self.make_error(error) from None
        except pl.exceptions.ComputeError as error:  # how polars reports a full disk
            raise self.make_error(OSError(errno.ENOSPC, str(error))) from None

    def check_space(self, needed: int = 0) -> None:
        """Raise `BucketSpaceError` unless the disk has this many bytes, and some for others."""
        if shutil.disk_usage(self.path).free < needed + _RESERVE:
            raise make_space_error(self.path, needed)

    def measure(self) -> int:
        """Bytes of all buckets."""
        return sum(file.stat().st_size for file in self.path.glob("?????.*"))

    def write_capture(self, capture: CaptureFrames) -> None:
        """Write what the analysis of each bucket needs of the whole capture."""
        with open(self.path / "capture", "wb") as file:
            shared = (capture.addresses, capture.tunnels, capture.last_ns or 0, capture.incomplete, capture.icmp_errors)
            pickle.dump(shared, file)

    def read(self, index: int) -> BucketContents:
        """Read a bucket."""
        with open(self.path / "capture", "rb") as file:
            addresses, tunnels, last_ns, incomplete, icmp_errors = pickle.load(file)
        rows = self._read_rows(index)
        if not _is_in_order(rows):
            rows = rows[np.lexsort((rows["sequence"], rows["number"]))]
        # copies: the numbers of a single row would be contiguous, but not aligned, as the core needs them
        columns: dict[str, npt.NDArray[Any]] = {name: rows[name].copy() for name in LAYOUT}
        sequence = rows["sequence"].copy()
        del rows
        datagrams, first, datagram = np.unique(columns["datagram"], return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty(len(datagrams), np.uint32)
        rank[order] = np.arange(len(datagrams))
        columns["datagram"] = rank[datagram]
        clear = self._read_messages(index, datagrams, rank)
        numbers = np.fromiter(incomplete, np.uint32, len(incomplete))
        lacking_datagrams = set(rank[np.isin(datagrams, numbers)].tolist())
        first = first[order]
        places = columns["number"][first].astype(np.uint64) << np.uint64(32) | sequence[first] & np.uint64(0xFFFFFFFF)
        share_digests(columns, lacking_datagrams, clear)
        traffic = CombinedFrames(
            columns,
            clear,
            MessageBytes(),
            addresses,
            tunnels,
            np.array([last_ns], np.int64),
            lacking_datagrams,
            icmp_errors=icmp_errors,
        )
        return BucketContents(traffic, places, sequence)

    def _read_rows(self, index: int) -> npt.NDArray[Any]:
        path = self._get_rows_path(index)
        return np.fromfile(path, _ROW) if path.exists() else np.zeros(0, _ROW)

    def _read_entries(self, index: int) -> npt.NDArray[Any]:
        path = self.get_file(index, "entries")
        return np.fromfile(path, _ENTRY) if path.exists() else np.zeros(0, _ENTRY)

    def _read_messages(self, index: int, datagrams: UInt32Array, rank: UInt32Array) -> MessageBytes:
        """The messages of these datagrams of the capture; in the bucket, `rank` are their numbers."""
        entries = self._read_entries(index)
        size = entries["size"].astype(np.int64)
        begin = np.cumsum(size) - size
        total = int(size.sum())
        heap = np.zeros(total + _HEAP_PADDING, np.uint8)
        if total:
            with open(self.get_file(index, "messages"), "rb") as file:
                file.readinto(heap[:total].data)
        messages = MessageBytes(heap, total)
        if len(datagrams):
            place = np.searchsorted(datagrams, entries["datagram"]).clip(max=len(datagrams) - 1)
            known = datagrams[place] == entries["datagram"]
            messages.add_existing(rank[place[known]], begin[known], size[known])
        return messages

    def move_to_common(self, spis: Collection[int]) -> None:
        """Move the frames and messages of initiators' SPIs to the common bucket."""
        wanted = np.fromiter(spis, np.uint64, len(spis))
        for index in self.indices:
            if index == COMMON:
                continue
            rows = self._read_rows(index)
            moved = np.isin(rows["spi_i"], wanted)
            if not moved.any():
                continue
            entries = self._read_entries(index)
            datagrams = np.unique(rows["datagram"][moved])
            of_moved = np.isin(entries["datagram"], datagrams)
            messages = self.get_file(index, "messages")
            data = np.fromfile(messages, np.uint8) if messages.exists() else np.zeros(0, np.uint8)
            of_bytes = np.repeat(of_moved, entries["size"])
            parts = (("rows", rows, moved), ("entries", entries, of_moved), ("messages", data, of_bytes))
            for kind, values, chosen in parts:
                self.append(COMMON, kind, values[chosen].tobytes())
                path = self.get_file(index, kind)
                path.unlink(missing_ok=True)
                if (~chosen).any():
                    self.append(index, kind, values[~chosen].tobytes())


def make_space_error(path: Path, needed: int = 0) -> BucketSpaceError:
    """The error for a full disk."""
    amount = f" (about {needed >> 20:,} MiB)" if needed else ""
    return BucketSpaceError(f"{path.parent}: not enough space for the parts of a large capture{amount}")


def _is_in_order(rows: npt.NDArray[Any]) -> bool:
    number, sequence = rows["number"], rows["sequence"]
    late = number[1:] < number[:-1]
    late |= (number[1:] == number[:-1]) & (sequence[1:] < sequence[:-1])
    return not bool(late.any())


def choose_buckets(header: Mapping[str, npt.NDArray[Any]], count: int) -> Int64Array:
    """The bucket of each message from the columns of its header. (n,)"""
    spi = header["spi_i"].astype(np.uint64, copy=False)
    bucket = ((spi * HASH_MULTIPLIER) >> np.uint64(33)) % np.uint64(count) + np.uint64(1)
    is_common = (header["protocol"] > Protocol.IKEV1) | (spi == 0)
    return np.where(is_common, COMMON, bucket.astype(np.int64))


class BucketWriter:
    """Receives frames and messages from the collector, and writes them to buckets."""

    def __init__(self, folder: BucketFolder) -> None:
        self.rows = _BucketRows(folder)
        self.messages = _BucketMessages(folder)

    @property
    def storage(self) -> FrameStorage:
        """The storage for `read_frames`."""
        return FrameStorage(self.rows, self.messages)

    def finish(self) -> None:
        """Write what is left."""
        self.rows.flush()
        self.messages.flush()


class _BucketRows(FrameRows):
    """Rows that are written to their buckets when there are enough of them."""

    def __init__(self, folder: BucketFolder) -> None:
        super().__init__(LAYOUT, {name: np.empty(_ROWS_AT_ONCE, dtype) for name, dtype in LAYOUT.items()})
        self.part_starts: list[int] = []  # numbers of frames that divide the table into parts of `_ROWS_AT_ONCE` rows
        self.several_frames = False  # whether datagrams may consist of several frames
        self._folder = folder
        self._written = 0

    def append(self, count: int, part: Mapping[str, Any], *, take: bool = False) -> None:
        """Add `count` rows; each column is an array of this length or a single value."""
        if len(self) and len(self) + count > _ROWS_AT_ONCE:
            self.flush()
        super().append(count, part, take=take)

    def flush(self) -> None:
        """Write all rows."""
        count = len(self)
        if not count:
            return
        self._folder.check_space()
        columns = self.columns()
        bucket = choose_buckets(columns, self._folder.count)
        order = np.argsort(bucket, kind="stable")
        rows = np.empty(count, _ROW)
        for name, column in columns.items():
            rows[name] = column[order]
        rows["sequence"] = self._written + order
        for index, chosen in _split(bucket[order], rows):
            self._folder.append(index, "rows", chosen.data.cast("B"))
        self.several_frames |= bool(columns["ip_fragment"].any())
        self.several_frames |= bool((columns["encapsulation"] == Encapsulation.TCP_4500).any())
        self.part_starts.append(int(columns["number"][-1]))
        self._written += count
        self._count = 0


class _BucketMessages(MessageStore):
    """Messages that are written to their buckets when there are enough of them."""

    def __init__(self, folder: BucketFolder) -> None:
        super().__init__(())
        self.redirected: set[int] = set()  # initiators' SPIs of IKE SAs that a REDIRECT may connect
        self._folder = folder
        self._pending: list[tuple[Int64Array, npt.NDArray[Any], bytes]] = []
        self._bytes = 0

    def add(
        self,
        datagrams: UInt32Array,
        buffer: UInt8Array,
        begin: Int64Array,
        end: Int64Array,
        clear: BoolArray,
        header: Mapping[str, Any],
    ) -> None:
        """Store the messages that can be read without keys, which `clear` marks."""
        readable = np.flatnonzero(clear | find_phase1_fragments(header))
        if not len(readable):
            return
        self.redirected |= find_redirected_spis(
            buffer, begin[readable], end[readable], {name: column[readable] for name, column in header.items()}
        )
        bucket = choose_buckets(header, self._folder.count)[readable]
        order = np.argsort(bucket, kind="stable")
        readable, bucket = readable[order], bucket[order]
        entries = np.empty(len(readable), _ENTRY)
        entries["datagram"], entries["size"] = datagrams[readable], (end - begin)[readable]
        data = _join(buffer, begin[readable], end[readable])
        self._pending.append((bucket, entries, data))
        self._bytes += len(data)
        if self._bytes > _BYTES_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write all messages."""
        self._folder.check_space()
        parts: dict[int, tuple[list[npt.NDArray[Any]], list[memoryview]]] = {}
        for bucket, entries, data in self._pending:
            stop = np.cumsum(entries["size"], dtype=np.int64)
            begin = 0
            for index, chosen in _split(bucket, np.arange(len(bucket))):
                end = int(stop[chosen[-1]])
                of_bucket = parts.setdefault(index, ([], []))
                of_bucket[0].append(entries[chosen])
                of_bucket[1].append(memoryview(data)[begin:end])
                begin = end
        for index, (entries_of, messages) in parts.items():
            self._folder.append(index, "entries", np.concatenate(entries_of).tobytes())
            self._folder.append(index, "messages", b"".join(messages))
        self._pending.clear()
        self._bytes = 0


def find_redirected_spis(
    buffer: UInt8Array, begin: Int64Array, end: Int64Array, header: Mapping[str, npt.NDArray[Any]]
) -> set[int]:
    """The initiators' SPIs of IKE SAs that a REDIRECT may connect: those whose IKE_SA_INIT has a notify of RFC 5685.

    Args:
        buffer: has the messages.
        begin: offset of each message. (n,)
        end: after its last captured byte. (n,)
        header: the columns of their headers.
    """
    init = (header["protocol"] == Protocol.IKEV2) & (header["exchange_type"] == ExchangeType.IKE_SA_INIT)
    begin, end, spi_i = begin[init], end[init], header["spi_i"][init]
    data = _join(buffer, begin, end)
    places = np.array([match.start() for match in _REDIRECT_BYTES.finditer(data)], np.int64)
    owners = np.unique(np.searchsorted(np.cumsum(end - begin), places, side="right"))
    redirected: set[int] = set()
    for row in owners.tolist():
        view = parse_init(buffer[begin[row] : end[row]].tobytes())
        if any(kind in _REDIRECTS for kind in view.notify_types):
            redirected.add(int(spi_i[row]))
    return redirected


def _join(buffer: UInt8Array, begin: Int64Array, end: Int64Array) -> bytes:
    """The bytes of the messages in the buffer, one after the other."""
    view = buffer.data
    return b"".join([view[low:high] for low, high in zip(begin.tolist(), end.tolist(), strict=True)])


def _split(bucket: Int64Array, rows: npt.NDArray[Any]) -> Iterable[tuple[int, npt.NDArray[Any]]]:
    """The rows of each bucket; both are in order of the buckets."""
    start = np.flatnonzero(find_group_starts(bucket))
    end = np.append(start[1:], len(bucket))
    for low, high in zip(start.tolist(), end.tolist(), strict=True):
        yield int(bucket[low]), rows[low:high]
