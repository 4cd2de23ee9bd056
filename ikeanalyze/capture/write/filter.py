"""Copies selected packets of a capture to a new capture of the same format.

The file header and the selected records of a pcap file are copied byte for byte; of a pcapng file, the sections,
interfaces and selected packets. Other blocks of a pcapng file (names, interface statistics, secrets) are dropped,
because they may refer to packets that were not selected.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.formats import pcapng_blocks
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.reader import CaptureReader, FileSegment, open_capture
from ikeanalyze.io.atomic_write import open_output

_PCAP_HEADER: Final = 24


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Result of `write_selected_packets`."""

    packets: int  # written
    bytes: int  # of the file
    missing: int  # selected packets that the source lacks, because it changed or is damaged


def write_selected_packets(path: str, out: str | BinaryIO, numbers: Collection[int]) -> FilterResult:
    """Write the packets with these numbers, from 1, to a path or a stream. A file is created when it is complete.

    Raises:
        CaptureError: the source cannot be read, or is also the output.
        OSError: the output cannot be written.
    """
    wanted = np.unique(np.fromiter(numbers, np.int64, len(numbers)))
    with open_capture(path) as reader:
        if isinstance(out, str) and reader.source.is_file(out):
            raise CaptureError(f"{out}: is the capture itself. Name another file")
        with open_output(out) as stream:
            size = written = 0
            for data, packets in _copy_selected(reader, wanted):
                stream.write(data)
                size += len(data)
                written += packets
    return FilterResult(written, size, len(wanted) - written)


def _copy_selected(reader: CaptureReader, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[memoryview | bytes, int]]:
    """The data to be written, and the number of packets in it."""
    first = 1  # number of the segment's first packet
    copy = _SelectedRecords() if reader.format == "pcap" else _SelectedBlocks(reader)
    for segment in reader.iterate_segments():
        end = first + len(segment.batch)
        rows = wanted[slice(*np.searchsorted(wanted, [first, end]))] - first
        yield from copy(segment, rows.tolist())
        first = end
        if not len(wanted) or end > wanted[-1]:
            return


class _SelectedRecords:
    """Copies the header and the selected records of a pcap file."""

    def __init__(self) -> None:
        self._start = _PCAP_HEADER  # offset of the first record in the next segment

    def __call__(self, segment: FileSegment, rows: list[int]) -> Iterator[tuple[memoryview, int]]:
        whole, batch = memoryview(segment.buffer), segment.batch
        start, self._start = self._start, 0
        if start:
            yield whole[:start], 0
        for row in rows:
            # a record begins at the end of the previous one: the size of record headers varies
            begin = start if row == 0 else int(batch.offset[row - 1] + batch.captured[row - 1])
            yield whole[begin : int(batch.offset[row] + batch.captured[row])], 1


class _SelectedBlocks:
    """Copies the sections, interfaces and selected packets of a pcapng file."""

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader
        self._interfaces = 0
        self._order = "<"

    def __call__(self, segment: FileSegment, rows: list[int]) -> Iterator[tuple[memoryview | bytes, int]]:
        known, self._interfaces = self._interfaces, len(self._reader.interfaces)
        if not rows and known == self._interfaces and not pcapng_blocks.may_have_section(segment.buffer, segment.stop):
            return
        whole, row, chosen = memoryview(segment.buffer), -1, set(rows)
        for block_type, at, size, order in pcapng_blocks.iterate_blocks(segment.buffer, segment.stop, self._order):
            block = whole[at : at + size]
            if block_type == pcapng_blocks.SECTION:
                self._order = order
                yield pcapng_blocks.reopen_section_header(bytes(block), order, None), 0
            elif block_type == pcapng_blocks.INTERFACE:
                yield block, 0
            elif block_type in pcapng_blocks.PACKET_BLOCKS:
                row += 1
                if row in chosen:
                    yield block, 1
