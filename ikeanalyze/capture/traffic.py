"""Combines the frames of many small captures, so that they are analysed together.

A step of the analysis costs some dozens of calls of numpy and polars for ten frames or ten thousand, so combining small
captures is faster. The captures stay distinguishable by their addresses (`ip.CAPTURE_BIT`) and units, which are
numbered through all captures.
"""

import builtins
from typing import Final

import numpy as np
from msgspec import Struct

from ikeanalyze.capture.arrays import Int64Array
from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes, MessageReader
from ikeanalyze.capture.decode.ip import CAPTURE_BIT, MAX_CAPTURES, AddressBook
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.frames import CaptureFrames

_ROW_BYTES: Final = sum(np.dtype(dtype).itemsize for dtype in LAYOUT.values())


class CombinedFrames(Struct):
    """The frames of one or more captures in sequence, with the fields of `CaptureFrames`."""

    columns: Columns
    clear: MessageBytes
    sealed: MessageBytes
    addresses: list[builtins.bytes]  # IPv6 addresses of the address codes
    tunnels: list[str]  # name of each tunnel, from number 1 on
    last_ns: Int64Array  # time of the last packet of each capture; 0 for a capture without packets
    incomplete: set[int]
    reader: MessageReader | None = None


def single_capture(capture: CaptureFrames) -> CombinedFrames:
    """The frames of one capture as CombinedFrames."""
    last_ns = np.array([capture.last_ns or 0], np.int64)
    columns, addresses, tunnels = capture.columns, capture.addresses, capture.tunnels
    return CombinedFrames(
        columns, capture.clear, capture.sealed, addresses, tunnels, last_ns, capture.incomplete, capture.reader
    )


class CombinedFramesBuilder:
    """Builds CombinedFrames from captures."""

    def __init__(self) -> None:
        self._rows = FrameRows(LAYOUT)
        self._clear, self._sealed = MessageBytes(), MessageBytes()
        self._book = AddressBook()
        self._tunnels = TunnelBook()
        self._last_ns: list[int] = []
        self._incomplete: set[int] = set()
        self._units = 0

    def __len__(self) -> int:
        return len(self._last_ns)

    def add(self, capture: CaptureFrames) -> None:
        """Copy the frames and messages of a capture."""
        assert len(self) < MAX_CAPTURES
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
                    "tunnel": self._tunnels.translation(capture.tunnels)[columns["tunnel"]],
                },
            )
            capture.clear.load()
            for store, added in ((self._clear, capture.clear), (self._sealed, capture.sealed)):
                units, begin, size = added.entries()
                store.add(units + first, added.heap, begin, begin + size)
            self._incomplete.update(unit + self._units for unit in capture.incomplete)
            self._units += int(columns["unit"].max()) + 1
        self._last_ns.append(capture.last_ns or 0)

    def build(self) -> CombinedFrames:
        """The frames of all added captures."""
        last_ns = np.array(self._last_ns, np.int64)
        columns, addresses, tunnels = self._rows.columns(), self._book.ipv6, self._tunnels.names
        return CombinedFrames(columns, self._clear, self._sealed, addresses, tunnels, last_ns, self._incomplete)


def retained_size(capture: CaptureFrames) -> int:
    """Bytes of memory that the frames and messages of a capture take."""
    messages = sum(int(store.entries()[2].sum()) for store in (capture.clear, capture.sealed))
    return len(capture.columns["unit"]) * _ROW_BYTES + messages
