"""Settings with which polars takes little memory. They take effect only before polars is loaded, so it is not here."""

import os
from typing import Final

_SETTINGS: Final = {
    # Each thread reads ahead while a table is written: with 16 threads that takes 180 MiB more than with two. Writing
    # takes one processor most of the time.
    "POLARS_MAX_THREADS": "2",
    # Its allocator, jemalloc, keeps freed memory for each of four arenas a processor, for ten seconds. In one arena,
    # the next bucket reuses it; contention is rare. No delay at all takes a fifth more processor time.
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0",
}


def limit_polars_memory() -> None:
    """Change the settings of this process and those that it starts; the user's own take precedence."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
