"""Reads a capture file of any supported format and compression in chunks, as batches of packet records."""

import os
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

import numpy as np
from msgspec import Struct

from ikeanalyze.capture.formats import pcap, pcapng
from ikeanalyze.capture.formats.records import PADDING, CaptureDamage, CaptureError, CaptureNote, Interface, RecordBatch
from ikeanalyze.capture.formats.source import CaptureSource, open_source

#: Bytes read and decoded at once. Smaller is not faster, larger exceeds the processor's cache.
CHUNK: Final = 4 << 20
#: Initial buffer size for a file of unknown size, which may be small.
_INITIAL_BYTES: Final = 64 << 10
#: Bytes that are searched for a sequence of records.
_SEARCH_BYTES: Final = 1 << 20
_PADDING: Final = bytes(PADDING)

#: First bytes of files that are mistaken for captures, and a hint for each.
_OTHER_FORMATS: Final = (
    *(
        (start, "an Ixia capture: convert it with editcap")
        for start in (b"\x1c\0\1\xac", b"\xac\1\0\x1c", b"\x1c\0\1\xab", b"\xab\1\0\x1c")
    ),
    (b"snoop\0\0\0", "a snoop capture: convert it with editcap"),
    (b"GMBU", "a Network Monitor capture: convert it with editcap"),
    (b"RTSS", "a Network Monitor capture: convert it with editcap"),
    (b"TRSNIFF data", "a Sniffer capture: convert it with editcap"),
    (b"\x1f\x8b", "compressed twice: decompress it once"),
    (b"\xfd7zXZ\0", "compressed with xz: decompress it first"),
    (b"BZh", "compressed with bzip2: decompress it first"),
    (b"\x04\x22\x4d\x18", "compressed with lz4: decompress it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive: unpack it first"),
    (b"\x7fELF", "a program"),
    (b"PAR1", "a Parquet file"),
)


class FileSegment(Struct, frozen=True):
    """Complete records or blocks of a capture file, valid until the next segment is read.

    The segments are contiguous, and the first begins with the file header.
    """

    buffer: bytearray  # begins with the segment
    stop: int  # bytes of the segment
    batch: RecordBatch  # its packets in file order; may be empty


class CaptureReader:
    """Reads a capture once, from start to end; a context manager that closes the file. Created by `open_capture`."""

    def __init__(
        self,
        source: CaptureSource,
        chunk: int,
        entered: "tuple[pcap.Pcap | pcapng.Pcapng, int] | None" = None,
        *,
        eager: bool = False,
    ) -> None:
        """`entered`: the format, and the file offset of the record that the source begins with; None: file header.

        `eager`: return records as soon as their bytes arrive, instead of waiting for a whole chunk.
        """
        self.source: Final = source
        self.damage: CaptureDamage | None = None  #: where and why reading stopped early
        self._chunk = max(chunk, pcapng.FILE_HEADER)
        size = source.size if source.compression is None else None
        self._make_buffer(min(self._chunk, _INITIAL_BYTES if size is None else max(size + 1, pcapng.FILE_HEADER)))
        self._base = 0  # file offset of the buffer's first byte
        self._start = self._end = 0  # the unread bytes in the buffer
        self._at_end = False
        self._eager = eager
        if entered is not None:
            self._format, self._base = entered
        else:
            self._format = self._recognise()

    @property
    def format(self) -> str:
        """The file format: "pcap" or "pcapng"."""
        return self._format.name

    @property
    def interfaces(self) -> list[Interface]:
        """The interfaces, by `RecordBatch.interface`; those of a pcapng file are added while it is read."""
        return self._format.interfaces

    @property
    def notes(self) -> list[CaptureNote]:
        """Notes about the packets read so far."""
        return self._format.notes

    def iterate_batches(self) -> Iterator[RecordBatch]:
        """The packets in file order, in batches that are not empty; each is valid until the next is read.

        Damage raises no error: iteration stops and `damage` is set.
        """
        for segment in self.iterate_segments():
            if len(segment.batch):
                yield segment.batch

    def iterate_segments(self) -> Iterator[FileSegment]:
        """The whole file in segments, including those without packets; stops as `iterate_batches` does."""
        waits = not self._eager  # the first records may have arrived together with the file header
        while True:
            if waits:
                self._fill(self._end + 1 if self._eager else self._capacity)
            waits = True
            walked = self._format.walk(self._buffer, self._view, self._start, self._end)
            rest = self._buffer[walked.stop : self._end]
            if walked.stop:
                self._buffer[walked.stop : walked.stop + PADDING] = _PADDING
                yield FileSegment(self._buffer, walked.stop, walked.batch)
            offset = self._base + walked.stop
            if walked.wrong:
                self.damage = CaptureDamage(offset, walked.wrong)
                return
            if max(walked.needed, self._chunk) > self._capacity and not self._at_end:
                self._make_buffer(max(walked.needed, self._chunk))
            self._buffer[: len(rest)] = rest
            self._base, self._start, self._end = offset, 0, len(rest)
            if self._at_end:
                self.damage = self._find_damage_at_end()
                return

    @property
    def position(self) -> int:
        """The file offset of the next record or block."""
        return self._base + self._start

    @property
    def plain_pcap(self) -> pcap.Pcap | None:
        """The format of an uncompressed pcap file; None: of another format, compressed, or not a regular file."""
        is_plain = isinstance(self._format, pcap.Pcap) and not self.source.compression and self.source.size
        return self._format if is_plain and isinstance(self._format, pcap.Pcap) else None

    @property
    def unmarked_header_bytes(self) -> int:
        """Bytes at the end of each record header that nothing in the file header tells of."""
        return self._format.header_size - self._format.marked_header_size if isinstance(self._format, pcap.Pcap) else 0

    def skip_to(self, offset: int) -> None:
        """Continue an uncompressed file at this offset, where a record begins."""
        self.source.seek(offset)
        self._base, self._start, self._end, self._at_end = offset, 0, 0, False

    def guess_record(self, offset: int) -> int | None:
        """The probable offset of the first record at or after `offset`; None: unknown, as in all but plain pcap."""
        plain = self.plain_pcap
        if plain is None:
            return None
        position = plain.guess(self.source.peek(offset, _SEARCH_BYTES))
        return None if position is None else offset + position

    def find_packet_at(self, batch: RecordBatch, offset: int) -> int | None:
        """The index of the packet of the current batch whose record begins at this file offset.

        The length of the batch if the offset is after the batch; None if no record begins there.
        """
        assert isinstance(self._format, pcap.Pcap)
        frame = offset - self._base + self._format.header_size
        index = int(np.searchsorted(batch.offset, frame))
        if index < len(batch):
            return index if batch.offset[index] == frame else None
        last = int(batch.offset[-1] + batch.captured[-1])
        return index if last <= frame - self._format.header_size else None

    def open_at(self, offset: int) -> "CaptureReader":
        """Another reader of the same uncompressed file, for the packets from this offset on.

        Raises:
            OSError: the file cannot be opened again.
        """
        return CaptureReader(self.source.reopen(offset), self._chunk, (self._format, offset))

    def close(self) -> None:
        """Close the file, unless it is standard input."""
        self.source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _make_buffer(self, capacity: int) -> None:
        self._capacity = capacity
        self._buffer = bytearray(capacity + PADDING)
        self._view = np.frombuffer(self._buffer, np.uint8)

    def _fill(self, wanted: int) -> None:
        """Read until `wanted` bytes are in the buffer, or to the end of the file."""
        with memoryview(self._buffer) as target:
            while not self._at_end and self._end < min(wanted, self._capacity):
                count = self.source.read_into(target[self._end : self._capacity])
                self._end += count
                self._at_end = count == 0
        if self._at_end:
            self._buffer[self._end : self._end + PADDING] = _PADDING

    def _find_damage_at_end(self) -> CaptureDamage | None:
        place = self._format.describe_truncation(self._buffer, 0, self._end) if self._end else None
        if self.source.damage:
            return CaptureDamage(self._base, f"{self.source.damage}, {place}" if place else self.source.damage)
        return CaptureDamage(self._base, f"the file ends {place}") if place else None

    def _recognise(self) -> pcap.Pcap | pcapng.Pcapng:
        """Recognise the format and read the file header."""
        self._fill(pcapng.FILE_HEADER)
        head = bytes(self._buffer[: min(self._end, 64)])
        if pcap.is_pcap(head):
            if len(head) < pcap.FILE_HEADER:
                raise self._make_error(f"ends inside the file header, after {len(head)} bytes")
            try:
                capture = pcap.Pcap(head)
            except ValueError as error:
                raise self._make_error(str(error)) from None
            self._start = pcap.FILE_HEADER
            if not self._eager:  # which does not wait for records
                self._fill(min(self._capacity, _INITIAL_BYTES))
                # neither less nor more than that: how much is read at once must not decide
                head = bytes(self._buffer[: min(self._end, _INITIAL_BYTES)])
                head += self.source.read_ahead(_INITIAL_BYTES - len(head))
                capture.choose_variant(head[self._start :])
            return capture
        if pcapng.is_pcapng(head):
            if len(head) < pcapng.FILE_HEADER:
                raise self._make_error(f"ends inside the file header, after {len(head)} bytes")
            return self._recognise_pcapng(head)
        if not head:
            raise self._make_error("the file is empty")
        raise self._make_error(f"not a pcap or pcapng file{_describe_other_format(head)}")

    def _recognise_pcapng(self, head: bytes) -> pcapng.Pcapng:
        try:
            size = pcapng.get_section_header_size(head)
        except ValueError as error:
            raise self._make_error(f"not a valid pcapng file: {error}") from None
        if size > self._capacity:
            rest = self._buffer[: self._end]
            self._make_buffer(size)
            self._buffer[: self._end] = rest
        self._fill(size)
        if self._end < size:
            raise self._make_error(f"ends inside the file header, after {self._end} of {size} bytes")
        capture = pcapng.Pcapng()
        error_text = capture.walk(self._buffer, self._view, 0, size).wrong
        if error_text:
            raise self._make_error(f"not a valid pcapng file: {error_text}")
        self._start = size
        return capture

    def _make_error(self, text: str) -> CaptureError:
        reason = f" ({self.source.damage})" if self.source.damage else ""
        return CaptureError(f"{self.source.name}: {text}{reason}")


def open_capture(path: str | os.PathLike[str], *, chunk: int = CHUNK) -> CaptureReader:
    """Open a pcap or pcapng capture, plain or compressed with gzip or zstd; "-" is standard input.

    `chunk` is the number of bytes that are read and decoded at once.

    Raises:
        CaptureError: the file cannot be opened, is empty, is not a capture, or ends inside its file header.
    """
    source = open_source(path)
    try:
        return CaptureReader(source, chunk)
    except CaptureError:
        source.close()
        raise


def _describe_other_format(head: bytes) -> str:
    for start, description in _OTHER_FORMATS:
        if head.startswith(start):
            return (
                f"; it looks like {description}" if description.startswith(("a ", "an ")) else f"; it is {description}"
            )
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return "; it looks like text"
    return ""
