"""Runs tasks in processes of this machine.

The processes are forked if that is safe, which it is before this process loads polars, because polars has threads:
`LocalWorkers.fork`. They then need not load again what this process has loaded. Otherwise they are spawned. Each ends
with the process that started it, so a batch that is killed leaves no processes running.

Progress is reported through shared memory, one number per task. It needs no lock: a process that is killed while it
holds a lock would block all others.
"""

import multiprocessing
import os
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any, Final

from ikeanalyze.capture.parallel import can_fork_reader
from ikeanalyze.dataset.worker_process import follow_parent
from ikeanalyze.machine import count_processors

if TYPE_CHECKING:
    from ikeanalyze.dataset.batch.task import BatchTask, TaskResult

#: Tasks that `dispatch` submits per process.
_SLOTS_PER_PROCESS: Final = 2
_SPAWN: Final = multiprocessing.get_context("spawn")
#: Times that the processes may end before any of them began a task.
_MAX_FAILED_STARTS: Final = 3

#: In a worker process: the bytes read by each task, and one number, 1 after the first process has begun a task.
_read: Any = None
_begun: Any = None


class LocalWorkers:
    """Runs tasks in processes of this machine."""

    def __init__(self, count: int) -> None:
        self.width = count  #: number of tasks that run at the same time
        self._others = set(multiprocessing.active_children())
        self._pool: ProcessPoolExecutor | None = None
        # by slot: its task, and the bytes that the task has read
        self._slots: list[Future[TaskResult] | None] = [None] * (_SLOTS_PER_PROCESS * count)
        self._read: Any = _SPAWN.RawArray("q", len(self._slots))
        self._begun: Any = _SPAWN.RawArray("b", 1)
        self._failed_starts = 0

    def fork(self) -> None:
        """Start the processes as copies of this one, if that is safe; they load polars while this process goes on.

        Otherwise, `submit` will spawn them.
        """
        if not can_fork_reader():
            return
        _load_shared_modules()
        self._pool = self._make_pool(multiprocessing.get_context("fork"))
        self._pool.submit(os.getpid)  # starts the processes

    def submit(self, task: "BatchTask") -> "Future[TaskResult]":
        """Begin a task; if its process ends early, the future raises an error for which `is_worker_loss` is true.

        Raises:
            TaskError: the processes cannot be started.
        """
        if self._pool is not None:
            try:
                return self._start(self._pool, task)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._check_start()
        self._pool = self._make_pool(_SPAWN)
        return self._start(self._pool, task)

    def _make_pool(self, context: BaseContext) -> ProcessPoolExecutor:
        threads = max(1, count_processors() // self.width)
        return ProcessPoolExecutor(self.width, context, _set_up_process, (threads, self._read, self._begun))

    def _check_start(self) -> None:
        """Raise `TaskError` if the processes have ended several times, and never began a task."""
        self._failed_starts += 1
        if self._begun[0] or self._failed_starts < _MAX_FAILED_STARTS:
            return
        from ikeanalyze.dataset.batch.task import TaskError  # loads polars

        raise TaskError(
            f"the worker processes ended {self._failed_starts} times before they read anything, see the messages above. "
            "A Python script that starts a batch must do so under `if __name__ == '__main__':`"
        )

    def _start(self, pool: ProcessPoolExecutor, task: "BatchTask") -> "Future[TaskResult]":
        slot = next(i for i, future in enumerate(self._slots) if future is None or future.done())
        self._read[slot] = 0
        future = self._slots[slot] = pool.submit(_run, task, slot)
        return future

    def is_worker_loss(self, error: BaseException) -> bool:
        """Whether the error means that a process ended. The tasks of all other processes are lost too then."""
        return isinstance(error, BrokenProcessPool)

    def get_stall_reason(self) -> str | None:
        """None: local processes always make progress."""
        return None

    def bytes_read(self) -> int:
        """Bytes that running tasks have read of captures that are read alone; others are too small to matter."""
        read = zip(self._slots, self._read, strict=True)
        return sum(count for future, count in read if future is not None and not future.done())

    def close(self) -> None:
        """Kill the processes."""
        for child in set(multiprocessing.active_children()) - self._others:
            child.kill()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _load_shared_modules() -> None:
    """Load what processes need to read captures, except for modules that load polars."""
    # polars loads the first two
    import importlib.metadata  # noqa: F401

    import numpy.ma  # noqa: F401

    import ikeanalyze.analysis.handshakes.handshakes
    import ikeanalyze.analysis.messages.duplicates
    import ikeanalyze.analysis.read
    import ikeanalyze.dataset.manifest  # noqa: F401


def _set_up_process(threads: int, read: Any, begun: Any) -> None:
    """Initialise a new process, before polars is loaded and starts its threads."""
    global _read, _begun
    _read, _begun = read, begun
    follow_parent(threads)
    with suppress(ImportError):  # the first task raises it again
        import ikeanalyze.dataset.batch.task  # noqa: F401


def _run(task: "BatchTask", slot: int) -> "TaskResult":
    _begun[0] = 1
    # here, because polars reads POLARS_MAX_THREADS, which `_set_up_process` sets, when it is loaded
    from ikeanalyze.dataset.batch.task import run_task

    def progress(done: int, _: int | None) -> None:
        _read[slot] = done

    return run_task(task, progress)
