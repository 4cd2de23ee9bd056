"""Runs tasks on a Dask cluster. `distributed` is an extra, and is imported only here."""

import logging
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ikeanalyze.dataset.batch.task import TaskError, run_task

if TYPE_CHECKING:
    from ikeanalyze.dataset.batch.task import BatchTask, TaskResult

_PATIENCE = "10s"


class DaskWorkers:
    """Does tasks on the workers of a Dask scheduler.

    What a lost worker was doing, the scheduler gives to another by itself. Only a task that several workers in turn did not
    survive comes back as lost.
    """

    def __init__(self, address: str) -> None:
        """Connect to a scheduler (`tcp://host:8786`).

        Raises:
            TaskError: there is none that answers, or `distributed` is not installed.

        """
        try:
            # here, because the extra may not be installed
            import distributed
            from distributed.client import ClosedClientError
        except ImportError:
            raise TaskError(
                "--cluster needs Dask: pip install 'ikeanalyze[cluster]', here and on all workers"
            ) from None
        self._address = address
        for name in ("distributed", "distributed.client"):  # what goes wrong we say ourselves, in a line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        connect: Any = distributed.Client  # not annotated
        self._killed = distributed.KilledWorker
        # What calls end with when the scheduler has gone. Dask's errors of connections are errors of the system, and have nothing to
        # do with our files; while Dask gives up, its pool is closed (RuntimeError) or its scheduler not there (AttributeError).
        self._ends = (OSError, RuntimeError, AttributeError, CancelledError, ClosedClientError)
        try:
            self._client = connect(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TaskError(f"--cluster {address}: no scheduler there ({why})") from None
        self._executor = self._client.get_executor(pure=False)

    @property
    def width(self) -> int:
        """Tasks that are done at the same time; `TaskError` if the scheduler does not say."""
        return max(1, sum(self._threads().values()))

    def _threads(self) -> dict[str, int]:
        """Threads of each worker; `TaskError` if the scheduler does not say."""
        if self._client.status == "closed":  # Dask gave it up
            raise self._gone()
        try:
            threads: dict[str, int] = self._client.nthreads()
        except self._ends:
            raise self._gone() from None
        return threads

    def submit(self, task: "BatchTask") -> "Future[TaskResult]":
        """Begin a task."""
        try:
            future: Future[TaskResult] = self._executor.submit(run_task, task)
        except self._ends:
            raise self._gone() from None
        return future

    def is_worker_loss(self, error: BaseException) -> bool:
        """Whether the error says that workers ended over this task."""
        if isinstance(error, CancelledError):
            raise self._gone() from None
        if isinstance(error, ModuleNotFoundError) or "deserialization" in str(error):
            raise TaskError(
                f"--cluster {self._address}: the scheduler or a worker does not have ikeanalyze as it is here. "
                "Install the same version on all"
            ) from None
        return isinstance(error, self._killed)

    def get_stall_reason(self) -> str | None:
        """Why nothing goes on, if that is so."""
        with suppress(TaskError):
            if self._client.status == "running":
                return None if self._threads() else f"the cluster {self._address} has no workers"
        return f"no connection to the scheduler {self._address}"

    def _gone(self) -> TaskError:
        return TaskError(f"--cluster {self._address}: the scheduler is gone, or has dropped the tasks")

    def bytes_read(self) -> int:
        """Workers elsewhere do not say how far they are."""
        return 0

    def close(self) -> None:
        """Have the scheduler forget what is not done, and leave it."""
        with suppress(*self._ends):
            self._executor.shutdown(wait=False)
        with suppress(*self._ends):
            self._client.close(timeout=_PATIENCE)
