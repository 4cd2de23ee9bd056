"""Groups of captures that are read together, because the fixed cost of a read is then paid once per group.

Loads little, so that a command can count the tasks of a batch before it loads polars.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Capture = TypeVar("Capture")

#: A group is full with this number of captures or bytes. Captures of at least that many bytes are read alone.
_MAX_CAPTURES: Final = 256
_MAX_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class CaptureGroup(Generic[Capture]):
    """Captures that are read together."""

    captures: tuple[Capture, ...]
    bytes: int  # of their files


def group_captures(wanted: Sequence[tuple[Capture, int]]) -> Iterator[CaptureGroup[Capture]]:
    """Split captures (with the bytes of their files) into groups, in their order."""
    small: list[Capture] = []
    size = 0
    for capture, count in wanted:
        if count >= _MAX_BYTES:
            yield CaptureGroup((capture,), count)
            continue
        small.append(capture)
        size += count
        if len(small) >= _MAX_CAPTURES or size >= _MAX_BYTES:
            yield CaptureGroup(tuple(small), size)
            small, size = [], 0
    if small:
        yield CaptureGroup(tuple(small), size)
