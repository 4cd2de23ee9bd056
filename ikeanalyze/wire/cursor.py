"""The one place that reads bytes: every parser of this room goes through `Cursor`, which owns the bounds
checks.
"""

from struct import Struct
from types import TracebackType
from typing import Any, Final

_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")
_UINT64: Final = Struct(">Q")


class WireError(ValueError):
    """The bytes are not what the protocol says, or end too early.

    `offset` is where, counted from the beginning of what the cursor was made of.
    """

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"{what} (at byte {offset})")
        self.offset = offset


class Cursor:
    """Reads big-endian values one after another; a read past the end raises `WireError` and moves nothing."""

    __slots__ = ("_data", "_end", "_position")

    def __init__(self, data: bytes | memoryview, start: int = 0, end: int | None = None) -> None:
        self._data = bytes(data)
        self._position = start
        size = len(data)
        self._end = size if end is None or end > size else max(end, start)

    @property
    def position(self) -> int:
        """Bytes from the beginning of the data to the next read."""
        return self._position

    def remaining(self) -> int:
        """Bytes left to read; of the restricted area inside `restrict_to`."""
        return self._end - self._position

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Read a fixed structure."""
        start = self._position
        stop = start + layout.size
        if stop > self._end:
            raise self._short(layout.size)
        self._position = stop
        return layout.unpack_from(self._data, start)

    def get_uint8(self) -> int:
        """Read one byte as a number."""
        start = self._position
        if start >= self._end:
            raise self._short(1)
        self._position = start + 1
        return self._data[start]

    def get_uint16(self) -> int:
        """Read two bytes as a number."""
        value: int = self.unpack(_UINT16)[0]
        return value

    def get_uint32(self) -> int:
        """Read four bytes as a number."""
        value: int = self.unpack(_UINT32)[0]
        return value

    def get_uint64(self) -> int:
        """Read eight bytes as a number."""
        value: int = self.unpack(_UINT64)[0]
        return value

    def get_bytes(self, count: int) -> bytes:
        """Read `count` bytes."""
        start = self._position
        stop = start + count
        if count < 0 or stop > self._end:
            raise self._short(count)
        self._position = stop
        return self._data[start:stop]

    def get_remaining(self) -> bytes:
        """Read all that is left."""
        return self.get_bytes(self._end - self._position)

    def skip(self, count: int) -> None:
        """Pass over `count` bytes."""
        stop = self._position + count
        if count < 0 or stop > self._end:
            raise self._short(count)
        self._position = stop

    def restrict_to(self, length: int) -> "_Restriction":
        """Context manager: inside it, the data ends after `length` more bytes; after it, reading goes on
        behind them.

        What was left unread of them is passed over: a later version of a protocol may have put more there.
        """
        if length < 0 or length > self._end - self._position:
            raise self._short(length)
        return _Restriction(self, self._position + length)

    def make_error(self, what: str) -> WireError:
        """Error at this position, for the caller to raise."""
        return WireError(self._position, what)

    def _short(self, count: int) -> WireError:
        if count < 0:
            return WireError(self._position, f"a length of {count} is not possible")
        return WireError(self._position, f"{count} bytes are needed, {self._end - self._position} are left")


class _Restriction:
    __slots__ = ("_cursor", "_end", "_outer")

    def __init__(self, cursor: Cursor, end: int) -> None:
        self._cursor = cursor
        self._end = end
        self._outer = cursor._end

    def __enter__(self) -> None:
        self._cursor._end = self._end

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cursor._end = self._outer
        if kind is None:
            self._cursor._position = self._end
