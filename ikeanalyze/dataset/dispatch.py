"""Tasks handed out, and what came of them, in whichever order they are done.

Few are handed out at a time, so that ten thousand captures take no more memory than fifty. A task over which its worker ended (out
of memory, a bug in a library) is tried again with nobody else at work, then capture by capture; the capture that does it again
has failed, and the rest of its group has not.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from ikeanalyze.dataset.task import Task, Written, failed

_TURN: Final = 0.5  # seconds between two looks at how far it is
_PATIENCE: Final = 5.0  # seconds in which no task ends, before we look whether any can
_DEADLY: Final = "the process that read it was ended by the system, twice; it may need more memory than there is"


class Workers(Protocol):
    """Whoever does tasks: processes of this machine, or a cluster."""

    @property
    def width(self) -> int:
        """Tasks that are done at the same time."""

    def submit(self, task: Task) -> "Future[Written]":
        """Begin a task."""

    def lost(self, error: BaseException) -> bool:
        """Whether the error of a future says that whoever did the task ended over it."""

    def waiting(self) -> str | None:
        """Why nothing goes on, if that is so."""

    def bytes_read(self) -> int:
        """How far the tasks are that are not done, as far as that is known: bytes of their captures that were read."""

    def close(self) -> None:
        """End what is not done."""


def done(
    tasks: Iterable[Task], workers: Workers, say: Callable[[str], object], tell: Callable[[], object]
) -> Iterator[Written]:
    """Have tasks done; `say` is told why nothing goes on, when that is so, and `tell` called now and then."""
    left = iter(tasks)
    last_end = time.monotonic()
    under_way: dict[Future[Written], Task] = {}
    suspects: list[Task] = []
    said: str | None = None
    while True:
        for task in islice(left, max(0, 2 * workers.width - len(under_way))):
            under_way[workers.submit(task)] = task
        if not under_way:
            break
        ended, _ = wait(under_way, _TURN, FIRST_COMPLETED)
        tell()
        if ended:
            last_end = time.monotonic()
        elif time.monotonic() - last_end >= _PATIENCE and (why := workers.waiting()) != said:
            said = why
            if why is not None:
                say(f"waiting: {why}")
        for future in ended:
            task = under_way.pop(future)
            written = _result(future, workers)
            if written is None:
                suspects.append(task)
            else:
                yield written
    for task in suspects:
        yield from _alone(task, workers)


def _alone(task: Task, workers: Workers) -> Iterator[Written]:
    """Have a task done with nobody else at work."""
    written = _result(workers.submit(task), workers)
    if written is not None:
        yield written
    elif len(task.captures) == 1:
        yield failed(task, _DEADLY)
    else:
        for capture in task.captures:
            yield from _alone(replace(task, captures=(capture,)), workers)


def _result(future: "Future[Written]", workers: Workers) -> Written | None:
    """What a task gave; None: whoever did it ended over it."""
    try:
        return future.result()
    except Exception as error:
        if workers.lost(error):
            return None
        raise
