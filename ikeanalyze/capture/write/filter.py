"""Some packets of a capture, written as a capture of their own: as they are, with their times, in their order.

The format stays that of the source. Of a pcap file the file header and the chosen records are copied byte for byte; of
a pcapng file the sections, the interfaces and the chosen packets. What else a pcapng file has (names, statistics of the
interfaces, secrets) tells of packets that are not there, and is left out.
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

_SECTION: Final = pcapng_blocks.SECTION.to_bytes(4, "little")
_PACKETS: Final = (pcapng_blocks.ENHANCED_PACKET, pcapng_blocks.OBSOLETE_PACKET, pcapng_blocks.SIMPLE_PACKET)
_PCAP_HEADER: Final = 24


@dataclass(frozen=True, slots=True)
class FilterResult:
    """What came of it."""

    packets: int  # written
    bytes: int  # of the file
    missing: int  # packets that the source has no more, because it changed or is damaged before them


def write_selected_packets(path: str, out: str | BinaryIO, numbers: Collection[int]) -> FilterResult:
    """Write the packets of these numbers, counted from 1, to a path or a stream. A file appears when it is complete.

    Raises:
        CaptureError: the source cannot be read, or is the output as well.
        OSError: the output cannot be written.

    """
    wanted = np.unique(np.fromiter(numbers, np.int64, len(numbers)))
    with open_capture(path) as reader:
        if isinstance(out, str) and reader.source.is_file(out):
            raise CaptureError(f"{out}: is the capture itself. Name another file")
        with open_output(out) as stream:
            size = written = 0
            for piece, packets in _pieces(reader, wanted):
                stream.write(piece)
                size += len(piece)
                written += packets
    return FilterResult(written, size, len(wanted) - written)


def _pieces(reader: CaptureReader, wanted: npt.NDArray[np.int64]) -> Iterator[tuple[memoryview | bytes, int]]:
    """What is to be written, and how many packets are in it."""
    first = 1  # number of the first packet of the stretch
    copy = _SelectedRecords() if reader.format == "pcap" else _SelectedBlocks(reader)
    for stretch in reader.iterate_segments():
        end = first + len(stretch.batch)
        rows = wanted[slice(*np.searchsorted(wanted, [first, end]))] - first
        yield from copy(stretch, rows.tolist())
        first = end
        if not len(wanted) or end > wanted[-1]:
            return


class _SelectedRecords:
    """The records of a pcap file that are copied, behind its header."""

    def __init__(self) -> None:
        self._start = _PCAP_HEADER  # of the records, in the stretch that comes next

    def __call__(self, stretch: FileSegment, rows: list[int]) -> Iterator[tuple[memoryview, int]]:
        whole, batch = memoryview(stretch.buffer), stretch.batch
        start, self._start = self._start, 0
        if start:
            yield whole[:start], 0
        for row in rows:
            # a record begins where the one before ends: its header has one of two sizes
            begin = start if row == 0 else int(batch.offset[row - 1] + batch.captured[row - 1])
            yield whole[begin : int(batch.offset[row] + batch.captured[row])], 1


class _SelectedBlocks:
    """The blocks of a pcapng file that are copied."""

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader
        self._interfaces = 0
        self._order = "<"

    def __call__(self, stretch: FileSegment, rows: list[int]) -> Iterator[tuple[memoryview | bytes, int]]:
        known, self._interfaces = self._interfaces, len(self._reader.interfaces)
        if not rows and known == self._interfaces and stretch.buffer.find(_SECTION, 0, stretch.stop) < 0:
            return
        whole, row, chosen = memoryview(stretch.buffer), -1, set(rows)
        for kind, at, size, order in pcapng_blocks.iterate_blocks(stretch.buffer, stretch.stop, self._order):
            block = whole[at : at + size]
            if kind == pcapng_blocks.SECTION:
                self._order = order
                yield pcapng_blocks.reopen_section_header(bytes(block), order, None), 0
            elif kind == pcapng_blocks.INTERFACE:
                yield block, 0
            elif kind in _PACKETS:
                row += 1
                if row in chosen:
                    yield block, 1
