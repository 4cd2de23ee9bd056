"""The kept frames of one capture, or of many small ones as if they were one: what the analysis begins with.

A step of the analysis costs some dozens of calls of numpy and polars, whether it is given ten frames or ten
thousand. So small captures go through it together. What keeps them apart is in their addresses
(`network.CAPTURE_BIT`) and in their units, which are numbered through all of them.
"""

import builtins
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes
from ikeanalyze.capture.decode.ip import CAPTURE_BIT, MOST_CAPTURES, AddressBook
from ikeanalyze.capture.frames import CaptureFrames

_ROW: Final = sum(np.dtype(dtype).itemsize for dtype in LAYOUT.values())


@dataclass(slots=True)
class CombinedFrames:
    """Frames of one capture behind those of another; in each as in `CaptureFrames`."""

    columns: Columns
    clear: MessageBytes
    sealed: MessageBytes
    addresses: list[builtins.bytes]  # IPv6 addresses of the address codes
    last_ns: Int64Array  # of each capture: the time of its last packet, 0 without packets


def single_capture(capture: CaptureFrames) -> CombinedFrames:
    """One capture."""
    last_ns = np.array([capture.last_ns or 0], np.int64)
    return CombinedFrames(capture.columns, capture.clear, capture.sealed, capture.addresses, last_ns)


class CombinedFramesBuilder:
    """Collects captures."""

    def __init__(self) -> None:
        self._rows = FrameRows(LAYOUT)
        self._clear, self._sealed = MessageBytes(), MessageBytes()
        self._book = AddressBook()
        self._last_ns: list[int] = []
        self._units = 0

    def __len__(self) -> int:
        return len(self._last_ns)

    def add(self, capture: CaptureFrames) -> None:
        """Copy what is kept of a capture."""
        assert len(self) < MOST_CAPTURES
        columns = capture.columns
        count = len(columns["unit"])
        if count:
            number = np.uint64(len(self) << CAPTURE_BIT)
            codes = self._book.translation(capture.addresses)
            first = np.uint32(self._units)
            self._rows.append(
                count,
                {
                    **columns,
                    "unit": columns["unit"] + first,
                    "source": codes(columns["source"]) | number,
                    "destination": codes(columns["destination"]) | number,
                },
            )
            for store, own in ((self._clear, capture.clear), (self._sealed, capture.sealed)):
                units, begin, size = own.entries()
                store.add(units + first, own.heap, begin, begin + size)
            self._units += int(columns["unit"].max()) + 1
        self._last_ns.append(capture.last_ns or 0)

    def build(self) -> CombinedFrames:
        """All of them."""
        last_ns = np.array(self._last_ns, np.int64)
        return CombinedFrames(self._rows.columns(), self._clear, self._sealed, self._book.ipv6, last_ns)


def retained_size(capture: CaptureFrames) -> int:
    """Memory that a capture's frames take, and the bytes of its messages."""
    messages = sum(int(store.entries()[2].sum()) for store in (capture.clear, capture.sealed))
    return len(capture.columns["unit"]) * _ROW + messages
