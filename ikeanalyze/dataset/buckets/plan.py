"""Decides whether a capture is analysed in buckets, and in how many. polars is not loaded here."""

import math
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

#: Share of the machine's memory that the analysis of one capture takes by default.
_DEFAULT_SHARE: Final = 4
#: Bytes of memory of a process with all libraries that analyses a whole capture, and of one that analyses buckets.
_WHOLE_PROCESS_BYTES: Final = 110 << 20
_PROCESS_BYTES: Final = 144 << 20
#: Bytes that the analysis takes of a byte of the capture if all packets are IKE; measured: 0.45 to 0.55.
_BYTES_PER_BYTE: Final = 0.65
#: The numbers and facts of all buckets take at most this part of the capture's size.
_SIZE_OF_SHARED: Final = 32
#: Least memory for a bucket, whatever the limit: more buckets would only be slower.
_MIN_BUCKET_BYTES: Final = 48 << 20
_MAX_BUCKETS: Final = 4096
#: Compressed captures of IKE, whose messages are mostly random numbers, become about this much larger.
_DECOMPRESSED: Final = 3
_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")


class BucketPlan(Struct, frozen=True):
    """How a capture is divided."""

    buckets: int  # besides the common one
    jobs: int  # buckets that are analysed at the same time


def measure_memory() -> int:
    """Bytes of memory of this machine, or of the control group that this process is in."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # "max": no limit
        memory = min(memory, int(_CGROUP.read_text()))
    return memory


def measure_captures(paths: Sequence[str]) -> int | None:
    """Bytes of captures, of compressed ones about as many as they have decompressed; None: not files."""
    total = 0
    for path in paths:
        try:
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                return None
            with open(path, "rb") as file:
                compressed = file.read(4).startswith(_COMPRESSED)
        except OSError:
            return None  # the reader reports the error
        total += status.st_size * (_DECOMPRESSED if compressed else 1)
    return total


def plan_buckets(size: int, jobs: int, max_memory: int | None) -> BucketPlan | None:
    """How to divide a capture of this size in bytes; None: not at all.

    `max_memory` is the memory in bytes that all processes may take together; None: a quarter of the machine's.
    """
    limit = measure_memory() // _DEFAULT_SHARE if max_memory is None else max_memory
    if _WHOLE_PROCESS_BYTES + _BYTES_PER_BYTE * size <= limit:
        return None
    # several processes are started by this one, which merges their rows
    jobs = max(1, min(jobs, (limit - _PROCESS_BYTES) // (_PROCESS_BYTES + _MIN_BUCKET_BYTES)))
    available = limit - size // _SIZE_OF_SHARED - (_PROCESS_BYTES if jobs > 1 else 0)
    of_bucket = max(available // jobs - _PROCESS_BYTES, _MIN_BUCKET_BYTES)
    buckets = math.ceil(_BYTES_PER_BYTE * size / of_bucket)
    return BucketPlan(min(-(-buckets // jobs) * jobs, _MAX_BUCKETS), jobs)
