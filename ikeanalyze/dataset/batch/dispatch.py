"""Dispatches tasks to workers and yields their results in the order in which they finish.

Few tasks are submitted at a time, so that memory does not grow with the number of captures. A task whose worker was
killed (out of memory, a bug in a library) is run again alone, then capture by capture; a capture that kills its worker
again has failed, and the others of its group have not.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from ikeanalyze.dataset.batch.task import BatchTask, TaskResult, make_failed_shard

_TURN: Final = 0.5  # seconds between progress reports
_PATIENCE: Final = 5.0  # seconds without a finished task before the reason is requested
_DEADLY: Final = "the process that read it was killed twice, probably out of memory"


class Workers(Protocol):
    """Runs tasks: processes of this machine, or a cluster."""

    @property
    def width(self) -> int:
        """Number of tasks that run at the same time."""

    def submit(self, task: BatchTask) -> "Future[TaskResult]":
        """Begin a task."""

    def is_worker_loss(self, error: BaseException) -> bool:
        """Whether the error of a future means that the worker was killed."""

    def get_stall_reason(self) -> str | None:
        """Why no task makes progress, or None."""

    def bytes_read(self) -> int:
        """Bytes that running tasks have read of their captures, as far as known."""

    def close(self) -> None:
        """Cancel running tasks."""


def run_tasks(
    tasks: Iterable[BatchTask], workers: Workers, say: Callable[[str], object], tell: Callable[[], object]
) -> Iterator[TaskResult]:
    """Run tasks. Calls `say` with the reason when no worker makes progress, and `tell` at intervals."""
    left = iter(tasks)
    last_end = time.monotonic()
    under_way: dict[Future[TaskResult], BatchTask] = {}
    suspects: list[BatchTask] = []
    reported: str | None = None
    while True:
        for task in islice(left, max(0, 2 * workers.width - len(under_way))):
            under_way[workers.submit(task)] = task
        if not under_way:
            break
        ended, _ = wait(under_way, _TURN, FIRST_COMPLETED)
        tell()
        if ended:
            last_end = time.monotonic()
        elif time.monotonic() - last_end >= _PATIENCE and (why := workers.get_stall_reason()) != reported:
            reported = why
            if why is not None:
                say(f"waiting: {why}")
        for future in ended:
            task = under_way.pop(future)
            written = _get_result(future, workers)
            if written is None:
                suspects.append(task)
            else:
                yield written
    for task in suspects:
        yield from _run_alone(task, workers)


def _run_alone(task: BatchTask, workers: Workers) -> Iterator[TaskResult]:
    """Run a task while no other task runs."""
    written = _get_result(workers.submit(task), workers)
    if written is not None:
        yield written
    elif len(task.captures) == 1:
        yield make_failed_shard(task, _DEADLY)
    else:
        for capture in task.captures:
            yield from _run_alone(replace(task, captures=(capture,)), workers)


def _get_result(future: "Future[TaskResult]", workers: Workers) -> TaskResult | None:
    """The result of a task; None: its worker was killed."""
    try:
        return future.result()
    except Exception as error:
        if workers.is_worker_loss(error):
            return None
        raise
