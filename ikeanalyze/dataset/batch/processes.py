"""Runs tasks in processes of this machine.

The processes are spawned, not forked, because polars has threads. Each ends with the process that started it, so a
batch that is killed leaves no processes running.

Progress is reported through shared memory, one number per task. It needs no lock: a process that is killed while it
holds a lock would block all others.
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

#: Tasks that `dispatch` submits per process.
_SLOTS_PER_PROCESS: Final = 2
_CONTEXT: Final = multiprocessing.get_context("spawn")

#: In a worker process: the bytes read by each task.
_read: Any = None


def count_processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class LocalWorkers:
    """Runs tasks in processes of this machine."""

    def __init__(self, count: int) -> None:
        self.width = count  #: number of tasks that run at the same time
        self._others = set(multiprocessing.active_children())
        self._pool: ProcessPoolExecutor | None = None
        # by slot: its task, and the bytes that the task has read
        self._slots: list[Future[TaskResult] | None] = [None] * (_SLOTS_PER_PROCESS * count)
        self._read: Any = _CONTEXT.RawArray("q", len(self._slots))

    def submit(self, task: "BatchTask") -> "Future[TaskResult]":
        """Begin a task; if its process ends early, the future raises an error for which `is_worker_loss` is true."""
        if self._pool is not None:
            try:
                return self._start(self._pool, task)
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
        threads = max(1, count_processors() // self.width)
        self._pool = ProcessPoolExecutor(self.width, _CONTEXT, _set_up_process, (threads, self._read))
        return self._start(self._pool, task)

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


def _set_up_process(threads: int, read: Any) -> None:
    """Initialise a new process, before polars is loaded and starts its threads."""
    global _read
    _read = read
    follow_parent(threads)


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


def _run(task: "BatchTask", slot: int) -> "TaskResult":
    # here, because polars reads POLARS_MAX_THREADS, which `_begin` sets, when it is loaded
    from ikeanalyze.dataset.batch.task import run_task

    def progress(done: int, _: int | None) -> None:
        _read[slot] = done

    return run_task(task, progress)
