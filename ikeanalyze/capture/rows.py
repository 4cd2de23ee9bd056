"""The rows of the frames table while a capture is read: all columns, growing together."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.datagrams import HEADER_COLUMNS
from ikeanalyze.capture.kept import shared_bytes

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
            layout,
            {name: shared_bytes(room * np.dtype(dtype).itemsize).view(dtype) for name, dtype in layout.items()},
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
