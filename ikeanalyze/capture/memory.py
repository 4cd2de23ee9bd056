"""How the C library's allocator is told to keep what it has.

Every batch makes and drops the same arrays of some hundred kilobytes. glibc gives such memory back to the system at once, and each
new array is then filled with zeroed pages again: half of the time of reading a large capture goes into that.
"""

import ctypes
from functools import cache

_TRIM_THRESHOLD = -1
_TOP_PAD = -2
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8


@cache
def tune_malloc() -> None:
    """Ask glibc's malloc (mallopt(3)) to reuse freed memory; other C libraries are left alone."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 256 << 20)
    # what one thread frees, another can use only if they have one heap; no two of them allocate often enough to wait
    mallopt(_ARENA_MAX, 1)


def release_free_memory() -> None:
    """Give what is free to the system, for allocators of others (polars has its own)."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
