"""A forked process that reads the second half of a large capture while this one reads the first.

The helper begins at an offset where a record seems to begin. Only the walk over the first half shows whether one does.
If none does, or if something other than packets crosses the border (IP fragments, TCP streams), the helper's work is
discarded and the capture is read on as if there had been no helper. Its result comes back through shared memory.
"""

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from ikeanalyze.capture.columns import Int64Array
from ikeanalyze.capture.kept import shared_bytes

#: A process costs some hundredths of a second: not worth it for a file that is read in a tenth.
LEAST_SIZE: Final = 64 << 20


def can_fork_reader() -> bool:
    """Whether a process may be forked here: on Linux, with a processor to spare and no other threads that hold locks.

    polars starts threads of its own, so this is only possible before it is imported.
    """
    return (
        sys.platform == "linux"
        and len(os.sched_getaffinity(0)) > 1
        and threading.active_count() == 1
        and "polars" not in sys.modules
    )


class WorkerProcess:
    """One forked process, which works and sends a value."""

    def __init__(self, work: Callable[[Int64Array], Any]) -> None:
        """Begin `work` in a process of its own. It gets a number to write its progress to; None means that it failed.

        Raises:
            OSError: the system refuses to fork.
        """
        self._progress = shared_bytes(8).view(np.int64)[:1]
        self._pipe, sending = os.pipe()
        try:
            with warnings.catch_warnings():
                # about the threads of numpy's linear algebra, which hold no lock and which the helper does not use
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pid = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(sending)
            raise
        if self._pid == 0:
            os.close(self._pipe)
            _work_and_exit(work, self._progress, sending)
        os.close(sending)
        self._running = True

    @property
    def progress(self) -> int:
        """What the work has written as its progress."""
        return int(self._progress[0])

    def result(self) -> Any | None:
        """Wait for the value; None: it failed."""
        with os.fdopen(self._pipe, "rb") as pipe:
            data = pipe.read()
        self._running = False
        _, status = os.waitpid(self._pid, 0)
        return pickle.loads(data) if status == 0 else None

    def stop(self) -> None:
        """End it, unless it has ended."""
        if self._running:
            self._running = False
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._pipe)


def _work_and_exit(work: Callable[[Int64Array], Any], progress: Int64Array, sending: int) -> NoReturn:
    """All that the helper does. Nothing that the process was about to do goes on in it."""
    status = 1
    try:
        value = work(progress)
        if value is not None:
            with os.fdopen(sending, "wb") as pipe:
                pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
            status = 0
    finally:
        os._exit(status)
