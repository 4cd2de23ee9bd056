"""A worker process that reads the second part of a large capture while this process reads the first.

The worker starts at an offset where a record seems to begin; only reading the first part shows whether one does. If
none does, or if IP fragments or TCP streams may cross the boundary, the result of the worker is discarded and this
process reads the whole capture. The result is returned through shared memory.
"""

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection
from typing import Any, Final, NoReturn

import numpy as np

from ikeanalyze.capture.arrays import Int64Array, UInt8Array
from ikeanalyze.capture.buffers import LAYOUT, Columns, FrameRows, MessageBytes, MessageStore, shared_bytes
from ikeanalyze.capture.collector import FrameCollector, PartialResult
from ikeanalyze.capture.reader import CaptureReader
from ikeanalyze.machine import count_processors

#: Bytes of the smallest capture that is read in parallel: a process costs some hundredths of a second.
MIN_CAPTURE_BYTES: Final = 64 << 20
#: Share of the capture where the worker starts. This process has other work to do while the worker reads the rest.
_WORKER_START: Final = 0.46
#: Bytes of the smallest record with a message: record header and IKE header.
_MIN_RECORD_BYTES: Final = 44


def can_fork_reader() -> bool:
    """Whether this process may fork: on Linux, with a second processor and no other threads that may hold locks.

    polars starts threads, so this is only possible before it is imported.
    """
    return (
        sys.platform == "linux"
        and count_processors() > 1
        and threading.active_count() == 1
        and "polars" not in sys.modules
    )


class WorkerProcess:
    """A forked process that computes a value and sends it."""

    def __init__(self, work: Callable[[Int64Array], Any]) -> None:
        """Start `work` in a new process, with an array of one number for its progress; it returns None if it fails.

        Raises:
            OSError: the process cannot be forked.
        """
        self._progress = shared_bytes(8).view(np.int64)[:1]
        self._pipe, write_end = os.pipe()
        try:
            with warnings.catch_warnings():
                # Python warns about the threads of numpy's linear algebra: they hold no locks, and the worker does not
                # use them
                warnings.simplefilter("ignore", DeprecationWarning)
                self._pid = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(write_end)
            raise
        if self._pid == 0:
            os.close(self._pipe)
            _work_and_exit(work, self._progress, write_end)
        os.close(write_end)
        self._running = True

    @property
    def progress(self) -> int:
        """The number that `work` has written last."""
        return int(self._progress[0])

    def result(self) -> Any | None:
        """Wait for the value; None if the work or the process failed."""
        with os.fdopen(self._pipe, "rb") as pipe:
            data = pipe.read()
        self._running = False
        _, status = os.waitpid(self._pid, 0)
        return pickle.loads(data) if status == 0 else None

    def stop(self) -> None:
        """Kill the process unless its result was received."""
        if self._running:
            self._running = False
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self._pipe)


def _work_and_exit(work: Callable[[Int64Array], Any], progress: Int64Array, write_end: int) -> NoReturn:
    """Do the work in the worker process, send the value and exit without running anything else of the program."""
    status = 1
    try:
        value = work(progress)
        if value is not None:
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(value, pipe, pickle.HIGHEST_PROTOCOL)
            status = 0
    finally:
        os._exit(status)


class ParallelReader:
    """Reads the part of a capture after the offset `begin` in a worker process."""

    def __init__(
        self,
        reader: CaptureReader,
        begin: int,
        ports: Collection[int],
        spis: Collection[int] | None,
        heaps: tuple[UInt8Array, UInt8Array],
    ) -> None:
        """Start the worker. It stores clear and encrypted messages in the `heaps`, from `begin` on.

        Raises:
            OSError: the file cannot be opened again, or the process cannot be forked.
        """
        self.begin = begin
        worker_reader = reader.open_at(begin)
        size = worker_reader.source.size or 0
        rows = FrameRows.shared(LAYOUT, (size - begin) // _MIN_RECORD_BYTES + 1)
        self._columns = rows.columns(whole=True)

        def work(progress: Int64Array) -> PartialResult | None:
            messages = MessageStore(spis, *(MessageBytes(heap, begin) for heap in heaps))
            collector = FrameCollector(ports, worker_reader.interfaces, rows, messages)
            for batch in worker_reader.iterate_batches():
                collector.add(batch, None)
                if collector.has_open_fragments:
                    return None
                progress[0] = worker_reader.source.consumed - begin
            return collector.make_partial_result(worker_reader.damage)

        try:
            self._worker = WorkerProcess(work)
        finally:
            worker_reader.close()

    @property
    def consumed(self) -> int:
        """Bytes of the file that the worker has read."""
        return self._worker.progress

    def result(self) -> tuple[PartialResult, Columns] | None:
        """Wait for the result and its rows; None if it cannot be used."""
        part = self._worker.result()
        return None if part is None else (part, {name: column[: part.rows] for name, column in self._columns.items()})

    def stop(self) -> None:
        """Kill the worker unless its result was received."""
        self._worker.stop()


def start_parallel_reader(
    reader: CaptureReader, ports: Collection[int], spis: Collection[int] | None
) -> tuple[ParallelReader, MessageStore] | None:
    """Start a parallel reader if possible; also the message store shared with it. `spis` are as in `MessageStore`."""
    size = reader.source.size
    if size is None or size < MIN_CAPTURE_BYTES or not can_fork_reader():
        return None
    begin = reader.guess_record(int(size * _WORKER_START))
    if begin is None:
        return None
    try:
        # messages are not longer than their records, so those of the first part end before `begin`
        heaps = shared_bytes(size), shared_bytes(size)
        messages = MessageStore(spis, *(MessageBytes(heap) for heap in heaps))
        return ParallelReader(reader, begin, ports, spis, heaps), messages
    except (OSError, ValueError):
        return None
