"""A capture file of any format and compression, read forward in chunks, as batches of packet records."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np

from ikeanalyze.capture.formats import pcap, pcapng
from ikeanalyze.capture.formats.records import PADDING, CaptureDamage, CaptureError, CaptureNote, Interface, RecordBatch
from ikeanalyze.capture.formats.source import CaptureSource, open_source

#: Bytes read and walked at once. Smaller is not faster, larger falls out of the processor's cache.
CHUNK: Final = 4 << 20
#: Bytes that are made ready for a file of unknown size, which may be small.
_FIRST_CHUNK: Final = 64 << 10

#: Bytes in which a chain of records is looked for.
_GUESS: Final = 1 << 20

_BEHIND: Final = bytes(PADDING)
#: How files begin that people take for captures, and what to do with them.
_LOOKS_LIKE: Final = (
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


@dataclass(frozen=True, slots=True)
class FileSegment:
    """A piece of a capture file as it is: whole records or blocks, valid until the next one is asked for.

    One behind the other they are the file, as far as it can be read; the first begins with the file header.
    """

    buffer: bytearray  # the stretch stands at its beginning
    stop: int  # bytes of it
    batch: RecordBatch  # the packets in it, in file order; may be empty


class CaptureReader:
    """One pass over a capture; a context manager, which closes the file.

    Made by `open_capture`.
    """

    def __init__(
        self, source: CaptureSource, chunk: int, entered: "tuple[pcap.Pcap | pcapng.Pcapng, int] | None" = None
    ) -> None:
        """`entered`: the format, and the offset in the file of the record that the source begins with."""
        self.source: Final = source
        self.damage: CaptureDamage | None = None  #: where and why reading ended before the end of the capture
        self._chunk = max(chunk, pcapng.FILE_HEADER)
        known = source.size if source.compression is None else None
        self._make_buffer(min(self._chunk, _FIRST_CHUNK if known is None else max(known + 1, pcapng.FILE_HEADER)))
        self._base = 0  # offset in the file of the buffer's first byte
        self._start = self._end = 0  # what is in the buffer and has not been walked over
        self._at_end = False
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
        """What `RecordBatch.interface` counts from 0; a pcapng file adds to it while it is read."""
        return self._format.interfaces

    @property
    def notes(self) -> list[CaptureNote]:
        """What the user should know of packets read so far; grows while reading."""
        return self._format.notes

    def iterate_batches(self) -> Iterator[RecordBatch]:
        """The packets in file order, once; no batch is empty, and each is valid until the next is asked for.

        Never raises for what is in the file: iteration ends early and `damage` says where and why.
        """
        for stretch in self.iterate_segments():
            if len(stretch.batch):
                yield stretch.batch

    def iterate_segments(self) -> Iterator[FileSegment]:
        """The file in pieces, once, with the packets in each: what has no packets in it is there too.

        Ends as `batches` does.
        """
        while True:
            self._fill(self._capacity)
            walked = self._format.walk(self._buffer, self._view, self._start, self._end)
            rest = self._buffer[walked.stop : self._end]
            if walked.stop:
                self._buffer[walked.stop : walked.stop + PADDING] = _BEHIND
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
                self.damage = self._damage_at_end()
                return

    def guess_record(self, offset: int) -> int | None:
        """Where the first record from this offset on seems to begin; None: there is no telling.

        Only plain pcap files can be entered anywhere.
        """
        if not isinstance(self._format, pcap.Pcap) or self.source.compression or not self.source.size:
            return None
        found = self._format.guess(self.source.peek(offset, _GUESS))
        return None if found is None else offset + found

    def place(self, batch: RecordBatch, offset: int) -> int | None:
        """Which packet of the batch just read has its record at this offset of the file; their number: a
        later one may.

        None: no record begins there.
        """
        assert isinstance(self._format, pcap.Pcap)
        frame = offset - self._base + self._format.header_size
        place = int(np.searchsorted(batch.offset, frame))
        if place < len(batch):
            return place if batch.offset[place] == frame else None
        last = int(batch.offset[-1] + batch.captured[-1])
        return place if last <= frame - self._format.header_size else None

    def open_at(self, offset: int) -> "CaptureReader":
        """Another reader of the same plain file, for the packets from this offset on.

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
        """Read until that many bytes stand in the buffer, or to the end."""
        with memoryview(self._buffer) as target:
            while not self._at_end and self._end < min(wanted, self._capacity):
                count = self.source.read_into(target[self._end : self._capacity])
                self._end += count
                self._at_end = count == 0
        if self._at_end:
            self._buffer[self._end : self._end + PADDING] = _BEHIND

    def _damage_at_end(self) -> CaptureDamage | None:
        cut = self._format.describe_truncation(self._buffer, 0, self._end) if self._end else None
        if self.source.damage:
            return CaptureDamage(self._base, f"{self.source.damage}, {cut}" if cut else self.source.damage)
        return CaptureDamage(self._base, f"the file ends {cut}") if cut else None

    def _recognise(self) -> pcap.Pcap | pcapng.Pcapng:
        """Read as much as tells the format, and what the file header says; records are what comes next."""
        self._fill(pcapng.FILE_HEADER)
        head = bytes(self._buffer[: min(self._end, 64)])
        if pcap.is_pcap(head):
            if len(head) < pcap.FILE_HEADER:
                raise self._error(f"ends inside the file header, after {len(head)} bytes")
            try:
                found = pcap.Pcap(head)
            except ValueError as error:
                raise self._error(f"is {error}") from None
            self._start = pcap.FILE_HEADER
            return found
        if pcapng.is_pcapng(head):
            if len(head) < pcapng.FILE_HEADER:
                raise self._error(f"ends inside the file header, after {len(head)} bytes")
            return self._recognise_pcapng(head)
        if not head:
            raise self._error("has nothing in it")
        raise self._error(f"is no pcap or pcapng capture{_resembles(head)}")

    def _recognise_pcapng(self, head: bytes) -> pcapng.Pcapng:
        try:
            size = pcapng.get_section_header_size(head)
        except ValueError as error:
            raise self._error(f"is no capture that can be read: {error}") from None
        if size > self._capacity:
            rest = self._buffer[: self._end]
            self._make_buffer(size)
            self._buffer[: self._end] = rest
        self._fill(size)
        if self._end < size:
            raise self._error(f"ends inside the file header, after {self._end} of {size} bytes")
        found = pcapng.Pcapng()
        wrong = found.walk(self._buffer, self._view, 0, size).wrong
        if wrong:
            raise self._error(f"is no capture that can be read: {wrong}")
        self._start = size
        return found

    def _error(self, what: str) -> CaptureError:
        why = f" ({self.source.damage})" if self.source.damage else ""
        return CaptureError(f"{self.source.name}: {what}{why}")


def open_capture(path: str | os.PathLike[str], *, chunk: int = CHUNK) -> CaptureReader:
    """Open a pcap or pcapng capture, plain or compressed with gzip or zstd; "-" is standard input.

    `chunk` is the bytes that are read and walked at once.

    Raises:
        CaptureError: the file cannot be opened, is empty, is no capture, or ends inside its file header.

    """
    source = open_source(path)
    try:
        return CaptureReader(source, chunk)
    except CaptureError:
        source.close()
        raise


def _resembles(head: bytes) -> str:
    for start, what in _LOOKS_LIKE:
        if head.startswith(start):
            return f"; it looks like {what}" if what.startswith("a ") else f"; it is {what}"
    if all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        return "; it looks like text"
    return ""
