"""Tasks done by processes of this machine.

They are new processes, not forked ones: polars has threads. Each looks whether the process that started it still lives, and
ends with it, so a batch that is killed leaves nobody behind who reads on.
"""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikeanalyze.dataset.task import Task, Written


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class Processes:
    """Does tasks in processes of this machine."""

    def __init__(self, count: int) -> None:
        self.width = count  #: tasks that are done at the same time
        self._others = set(multiprocessing.active_children())
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, task: "Task") -> "Future[Written]":
        """Begin a task; the future raises what `lost` knows if its process ends before it is done."""
        if self._pool is not None:
            try:
                return self._pool.submit(_perform, task)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
        threads = max(1, processors() // self.width)
        self._pool = ProcessPoolExecutor(self.width, multiprocessing.get_context("spawn"), _begin, (threads,))
        return self._pool.submit(_perform, task)

    def lost(self, error: BaseException) -> bool:
        """Whether the error says that a process ended. Those beside it are given up then, whatever they were doing."""
        return isinstance(error, BrokenProcessPool)

    def waiting(self) -> str | None:
        """Why nothing goes on, if that is so."""
        return None

    def close(self) -> None:
        """End the processes at once, whatever they are doing."""
        for child in set(multiprocessing.active_children()) - self._others:
            child.kill()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _begin(threads: int) -> None:
    """What a new process does first, before polars is loaded and makes its threads."""
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _perform(task: "Task") -> "Written":
    from ikeanalyze.dataset.task import perform

    return perform(task)
