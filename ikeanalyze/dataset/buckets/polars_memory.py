"""Settings with which polars takes little memory. They take effect only before polars is loaded, so it is not here."""

import os
from typing import Final

#: Each thread reads ahead while a table is written: with 16 threads that takes 180 MiB more than with two. Writing
#: takes one processor most of the time.
_THREADS: Final = "2"
#: The variable with the options of polars' allocator, jemalloc: if an option is there twice, the last one counts.
_ALLOCATOR: Final = "_RJEM_MALLOC_CONF"
#: The allocator keeps freed memory for each of four arenas a processor, for ten seconds. In one arena, the next bucket
#: reuses it; contention is rare. No delay at all takes a fifth more processor time.
_ALLOCATOR_OPTIONS: Final = "narenas:1,dirty_decay_ms:100,muzzy_decay_ms:0"
#: What polars writes into the variable when it is loaded, before the user's own options. A process that is started
#: from Python with polars, as from a notebook, inherits it.
OPTIONS_OF_POLARS: Final = "dirty_decay_ms:500,muzzy_decay_ms:1000"


def limit_polars_memory() -> None:
    """Change the settings of this process and those that it starts; the user's own take precedence."""
    os.environ.setdefault("POLARS_MAX_THREADS", _THREADS)
    own = os.environ.get(_ALLOCATOR, "").removeprefix(OPTIONS_OF_POLARS).removeprefix(",")
    os.environ[_ALLOCATOR] = ",".join(filter(None, (_ALLOCATOR_OPTIONS, own)))
