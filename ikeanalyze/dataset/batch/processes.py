"""Runs tasks in processes of this machine.

They are new processes, not forked ones: polars has threads. Each looks whether the process that started it still lives, and
ends with it, so a batch that is killed leaves nobody behind who reads on.

How far each task is stands in memory that they share with us, a number for each task under way. Nothing is locked for that:
a process that is killed with a lock would hold up all others.
"""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ikeanalyze.dataset.batch.task import BatchTask, TaskResult

#: Tasks that `dispatch` has under way for each process.
_PLACES: Final = 2
_CONTEXT: Final = multiprocessing.get_context("spawn")

#: In a process of ours: where it says how far it is.
_read: Any = None


def count_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class LocalWorkers:
    """Does tasks in processes of this machine."""

    def __init__(self, count: int) -> None:
        self.width = count  #: tasks that are done at the same time
        self._others = set(multiprocessing.active_children())
        self._pool: ProcessPoolExecutor | None = None
        # by place: the task that has it, and how many bytes that has read
        self._places: list[Future[TaskResult] | None] = [None] * (_PLACES * count)
        self._read: Any = _CONTEXT.RawArray("q", len(self._places))

    def submit(self, task: "BatchTask") -> "Future[TaskResult]":
        """Begin a task; the future raises what `lost` knows if its process ends before it is done."""
        if self._pool is not None:
            try:
                return self._begun(self._pool, task)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
        threads = max(1, count_processors() // self.width)
        self._pool = ProcessPoolExecutor(self.width, _CONTEXT, _begin, (threads, self._read))
        return self._begun(self._pool, task)

    def _begun(self, pool: ProcessPoolExecutor, task: "BatchTask") -> "Future[TaskResult]":
        place = next(i for i, future in enumerate(self._places) if future is None or future.done())
        self._read[place] = 0
        future = self._places[place] = pool.submit(_perform, task, place)
        return future

    def is_worker_loss(self, error: BaseException) -> bool:
        """Whether the error says that a process ended. Those beside it are given up then, whatever they were doing."""
        return isinstance(error, BrokenProcessPool)

    def get_stall_reason(self) -> str | None:
        """Why nothing goes on, if that is so."""
        return None

    def bytes_read(self) -> int:
        """Bytes that tasks under way have read of captures that are read alone: the others take no time to speak of."""
        read = zip(self._places, self._read, strict=True)
        return sum(count for future, count in read if future is not None and not future.done())

    def close(self) -> None:
        """End the processes at once, whatever they are doing."""
        for child in set(multiprocessing.active_children()) - self._others:
            child.kill()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _begin(threads: int, read: Any) -> None:
    """What a new process does first, before polars is loaded and makes its threads."""
    global _read
    _read = read
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _perform(task: "BatchTask", place: int) -> "TaskResult":
    # here, because polars reads POLARS_MAX_THREADS, which `_begin` sets, when it is loaded
    from ikeanalyze.dataset.batch.task import run_task

    def progress(done: int, _: int | None) -> None:
        _read[place] = done

    return run_task(task, progress)
