"""The compiled core (core/, in Rust): faster replacements of some functions, with equal results, where it is installed.

The Python functions are the definition, and used without it. Each tests `core.compiled` when it is called.
"""

import os
from typing import Final

from ikeanalyze.machine import count_processors, tune_malloc

#: Set to 0, this environment variable leaves the core out.
SWITCH: Final = "IKEANALYZE_CORE"
#: Number of the interface, equal to that in core/src/lib.rs: a core of other sources is not used.
INTERFACE: Final = 21

#: Bytes of the smallest capture that the core reads as a file, in threads.
MIN_FILE_BYTES = 8 << 20
#: Bytes of the blocks of a file that the threads take in turns.
BLOCK_BYTES = 4 << 20
#: Bytes of packets that the core hands back at once, before Python decodes them.
REST_BYTES = 32 << 20
_MAX_THREADS: Final = 4
#: Bytes that are read before it is known whether they are needed: about as many as while modules are imported.
_EARLY_BYTES: Final = 256 << 20

__all__ = [
    "BLOCK_BYTES",
    "INTERFACE",
    "MIN_FILE_BYTES",
    "REST_BYTES",
    "SWITCH",
    "begin_reading",
    "compiled",
    "count_threads",
    "discard_reading",
    "problem",
]

try:
    import ikeanalyze._core as compiled

    problem = None  #: why the core is not in use; None: it is
except ImportError as error:
    problem = "not built" if isinstance(error, ModuleNotFoundError) else f"cannot be loaded: {error}"
else:
    if os.environ.get(SWITCH) == "0":
        problem = f"left out, because {SWITCH} is 0"
    elif compiled.INTERFACE != INTERFACE:
        problem = "built from other sources"
if problem is not None:
    compiled = None  # type: ignore[assignment]  # so that callers test for None, and have the types of its functions


def count_threads() -> int:
    """Threads of the core that read a file."""
    return min(count_processors(), _MAX_THREADS)


def begin_reading(path: str) -> bool:
    """Begin to read a capture in another thread, as a report without keys and further ports does.

    Modules can be imported meanwhile. `capture.frames.read_frames` takes what was read if it reads the same in the same
    way, and discards it otherwise. Returns whether the core reads the file, which must be a large pcap file.
    """
    if compiled is None or not os.path.isfile(path) or os.path.getsize(path) < MIN_FILE_BYTES:
        return False
    tune_malloc()
    return compiled.begin_reading(path, count_threads(), BLOCK_BYTES, REST_BYTES, _EARLY_BYTES)


def discard_reading() -> None:
    """End a reading that has begun, and that nobody has taken."""
    if compiled is not None:
        compiled.discard_reading()
