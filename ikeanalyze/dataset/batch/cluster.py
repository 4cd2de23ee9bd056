"""Runs tasks on a Dask cluster. `distributed` is an extra, and is imported only here."""

import logging
from concurrent.futures import CancelledError, Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ikeanalyze.dataset.batch.task import NoWorkersError, TaskError, run_task
from ikeanalyze.io.suggestions import advise_install

if TYPE_CHECKING:
    from ikeanalyze.dataset.batch.task import BatchTask, TaskResult

_PATIENCE = "10s"


@dataclass(frozen=True, slots=True)
class ClusterTls:
    """Files in PEM format for a connection by TLS to a scheduler, which asks for a certificate too."""

    ca: str  # certificates of the authorities that may have signed the scheduler's certificate
    cert: str  # of this client
    key: str  # private key of `cert`


class DaskWorkers:
    """Runs tasks on the workers of a Dask scheduler.

    The scheduler reassigns the tasks of a lost worker. A task is reported as lost only after it has killed several
    workers.
    """

    def __init__(self, address: str, tls: ClusterTls | None = None) -> None:
        """Connect to a scheduler (`tcp://host:8786`, or with `tls` `tls://host:8786`).

        Raises:
            NoWorkersError: the scheduler does not answer or is not trusted, a file of `tls` cannot be read, or
                `distributed` is not installed.
        """
        try:
            # here, because the extra may not be installed
            import distributed
            from distributed.client import ClosedClientError
        except ImportError:
            advice = advise_install("distributed")
            raise NoWorkersError(f"--cluster needs Dask, here and on all workers: {advice}") from None
        self._address = address
        for name in ("distributed", "distributed.client"):  # errors are reported as `TaskError`
            logging.getLogger(name).setLevel(logging.CRITICAL)
        connect: Any = distributed.Client  # not annotated
        self._killed = distributed.KilledWorker
        # Errors of calls after the scheduler is gone. Dask's connection errors are OSError; while Dask shuts down, its
        # pool is closed (RuntimeError) or its scheduler is None (AttributeError).
        self._connection_errors = (OSError, RuntimeError, AttributeError, CancelledError, ClosedClientError)
        options: dict[str, Any] = {}
        if tls is not None:
            security: Any = distributed.Security  # not annotated
            options["security"] = security(
                require_encryption=True, tls_ca_file=tls.ca, tls_client_cert=tls.cert, tls_client_key=tls.key
            )
        try:
            self._client = connect(address, timeout=_PATIENCE, set_as_default=False, **options)
        except (OSError, ValueError, TypeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise NoWorkersError(f"--cluster {address}: no scheduler there ({why})") from None
        self._executor = self._client.get_executor(pure=False)

    @property
    def executor(self) -> Executor:
        """Runs functions on the workers."""
        executor: Executor = self._executor
        return executor

    @property
    def width(self) -> int:
        """Number of tasks that run at the same time; `TaskError` if the scheduler does not answer."""
        return max(1, sum(self._count_threads().values()))

    def _count_threads(self) -> dict[str, int]:
        """Threads of each worker; `TaskError` if the scheduler does not answer."""
        if self._client.status == "closed":  # Dask has given up
            raise self._make_lost_scheduler_error()
        try:
            threads: dict[str, int] = self._client.nthreads()
        except self._connection_errors:
            raise self._make_lost_scheduler_error() from None
        return threads

    def submit(self, task: "BatchTask") -> "Future[TaskResult]":
        """Begin a task."""
        try:
            future: Future[TaskResult] = self._executor.submit(run_task, task)
        except self._connection_errors:
            raise self._make_lost_scheduler_error() from None
        return future

    def is_worker_loss(self, error: BaseException) -> bool:
        """Whether the error means that this task killed its workers."""
        if isinstance(error, CancelledError):
            raise self._make_lost_scheduler_error() from None
        if isinstance(error, ModuleNotFoundError) or "deserialization" in str(error):
            raise TaskError(
                f"--cluster {self._address}: the scheduler or a worker does not have this version of ikeanalyze. "
                "Install the same version on all"
            ) from None
        return isinstance(error, self._killed)

    def get_stall_reason(self) -> str | None:
        """Why no task makes progress, or None."""
        with suppress(TaskError):
            if self._client.status == "running":
                return None if self._count_threads() else f"the cluster {self._address} has no workers"
        return f"no connection to the scheduler {self._address}"

    def _make_lost_scheduler_error(self) -> TaskError:
        return TaskError(f"--cluster {self._address}: the scheduler is gone, or has dropped the tasks")

    def bytes_read(self) -> int:
        """0: remote workers do not report their progress."""
        return 0

    def close(self) -> None:
        """Cancel unfinished tasks and disconnect."""
        with suppress(*self._connection_errors):
            self._executor.shutdown(wait=False)
        with suppress(*self._connection_errors):
            self._client.close(timeout=_PATIENCE)
