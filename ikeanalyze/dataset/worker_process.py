"""A process of this machine that works for another one, and ends with it."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def follow_parent(threads: int) -> None:
    """Let this new process end with its parent, and leave Ctrl-C to that; `threads` are those of polars."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
