"""What this process has of the machine: its processors, and settings of the C library's memory allocator.

It imports no numpy, because a large capture begins to be read before numpy is imported.
"""

import ctypes
import os
from collections.abc import Callable
from functools import cache

_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


def count_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def tune_malloc() -> None:
    """Make glibc's malloc reuse freed memory (mallopt(3)); no effect on other C libraries.

    Every batch allocates and frees the same arrays of some hundred kilobytes. By default glibc returns such memory to
    the system at once, and zeroing the pages again takes half of the time of reading a large capture.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # the maximum
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 256 << 20)
    # one heap lets a thread reuse the memory that another has freed; contention is rare
    mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Return free memory to the system, for other allocators (polars has its own)."""
    trim = _find_malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _find_malloc_trim() -> Callable[[int], object] | None:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return trim
