"""Where buckets are analysed: in this process, or in processes of this machine."""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from ikeanalyze.dataset.worker_process import follow_parent
from ikeanalyze.machine import count_processors

_CONTEXT: Final = multiprocessing.get_context("spawn")


class InlineExecutor(Executor):
    """Runs each task when it is submitted."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Run a task; an error is raised at once."""
        future: Future[Any] = Future()
        future.set_result(work(*arguments, **options))
        return future


def open_inline_executor() -> AbstractContextManager[Executor]:
    """Run tasks in this process."""
    return nullcontext(InlineExecutor())


@contextmanager
def open_local_executor(jobs: int) -> Iterator[Executor]:
    """Run tasks in this many processes; one: in this process. The processes end at the end, whatever they do."""
    if jobs == 1:
        yield InlineExecutor()
        return
    others = set(multiprocessing.active_children())
    threads = max(1, count_processors() // jobs)
    with ProcessPoolExecutor(jobs, _CONTEXT, follow_parent, (threads,)) as pool:
        try:
            yield pool
        except BaseException:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()
            raise
