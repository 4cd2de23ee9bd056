"""Reads values from bytes with bounds checks; every parser of this package uses `Cursor`."""

from struct import Struct
from types import TracebackType
from typing import Any, Final

_UINT16: Final = Struct(">H")
_UINT32: Final = Struct(">I")


class WireError(ValueError):
    """The data violate the protocol or are truncated.

    `offset` is the byte offset in the data of the cursor, in bytes.
    """

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"{problem} (at byte {offset})")
        self.offset = offset


class Cursor:
    """Reads consecutive big-endian values; a read past the end raises `WireError` and keeps the position."""

    __slots__ = ("_data", "_end", "_position")

    def __init__(self, data: bytes | memoryview, start: int = 0, end: int | None = None) -> None:
        self._data = bytes(data)
        self._position = start
        size = len(data)
        self._end = size if end is None or end > size else max(end, start)

    @property
    def position(self) -> int:
        """Offset of the next read in the data, in bytes."""
        return self._position

    def remaining(self) -> int:
        """Number of bytes left, up to the end of the restriction inside `restrict_to`."""
        return self._end - self._position

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Read the fields of a structure."""
        start = self._position
        stop = start + layout.size
        if stop > self._end:
            raise self._make_short_read_error(layout.size)
        self._position = stop
        return layout.unpack_from(self._data, start)

    def read_uint8(self) -> int:
        """Read an unsigned 8-bit number."""
        start = self._position
        if start >= self._end:
            raise self._make_short_read_error(1)
        self._position = start + 1
        return self._data[start]

    def read_uint16(self) -> int:
        """Read an unsigned 16-bit number."""
        value: int = self.unpack(_UINT16)[0]
        return value

    def read_uint32(self) -> int:
        """Read an unsigned 32-bit number."""
        value: int = self.unpack(_UINT32)[0]
        return value

    def read_bytes(self, count: int) -> bytes:
        """Read `count` bytes."""
        start = self._position
        stop = start + count
        if count < 0 or stop > self._end:
            raise self._make_short_read_error(count)
        self._position = stop
        return self._data[start:stop]

    def read_remaining(self) -> bytes:
        """Read all remaining bytes."""
        return self.read_bytes(self._end - self._position)

    def skip(self, count: int) -> None:
        """Skip `count` bytes."""
        stop = self._position + count
        if count < 0 or stop > self._end:
            raise self._make_short_read_error(count)
        self._position = stop

    def restrict_to(self, length: int) -> "_Restriction":
        """Context manager that limits reads to the next `length` bytes, and skips those left unread at its end.

        Unread bytes are not an error: a later version of a protocol may have added fields.
        """
        if length < 0 or length > self._end - self._position:
            raise self._make_short_read_error(length)
        return _Restriction(self, self._position + length)

    def make_error(self, problem: str) -> WireError:
        """Return an error at this position, which the caller raises."""
        return WireError(self._position, problem)

    def _make_short_read_error(self, count: int) -> WireError:
        if count < 0:
            return WireError(self._position, f"invalid length of {count}")
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
