"""A forked process that reads the second half of a large capture while this one reads the first.

The helper begins at an offset where a record seems to begin. Only the walk over the first half shows whether one does.
If none does, or if something other than packets crosses the border (IP fragments, TCP streams), the helper's work is
discarded and the capture is read on as if there had been no helper. Its result comes back through shared memory.

A large capture in two halves, the second of which is read by a helper.
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



#: This process begins with so much of a large capture: what it has to do besides takes the time that the
#: other needs for the rest.
_FIRST_HALF: Final = 0.42
#: Bytes of the smallest record with a message in it: its header, and that of IKE.
_LEAST_RECORD: Final = 44


class ParallelReader:
    """The second half of a large capture, read by a helper."""

    def __init__(
        self,
        reader: CaptureReader,
        begin: int,
        ports: Collection[int],
        spis: Collection[int] | None,
        heaps: tuple[UInt8Array, UInt8Array],
    ) -> None:
        """Start reading at the offset `begin`. Clear and encrypted messages go into the `heaps`, from there on.

        Raises:
            OSError: it cannot be done here.
        """
        self.begin = begin
        second = reader.open_at(begin)
        size = second.source.size or 0
        # a row stands for a record with at least an IKE header in it
        rows = FrameRows.shared(LAYOUT, (size - begin) // _LEAST_RECORD + 1)
        self._columns = rows.columns(whole=True)

        def work(progress: Int64Array) -> PartialResult | None:
            kept = MessageStore(spis, *(MessageBytes(heap, begin) for heap in heaps))
            collector = FrameCollector(ports, second.interfaces, rows, kept)
            for batch in second.iterate_batches():
                collector.add(batch, None)
                if collector.crosses:
                    return None
                progress[0] = second.source.consumed - begin
            return collector.make_partial_result(second.damage)

        try:
            self._helper = WorkerProcess(work)
        finally:
            second.close()

    @property
    def consumed(self) -> int:
        """Bytes of the half that have been read."""
        return self._helper.progress

    def result(self) -> tuple[PartialResult, Columns] | None:
        """Wait for the rest of it; None: it cannot be used."""
        half = self._helper.result()
        return None if half is None else (half, {name: column[: half.rows] for name, column in self._columns.items()})

    def stop(self) -> None:
        """Do without it."""
        self._helper.stop()


def start_parallel_reader(
    reader: CaptureReader, ports: Collection[int], spis: Collection[int] | None
) -> tuple[ParallelReader, MessageStore] | None:
    """A helper for the second half, and what is kept of both halves; None where there is none.

    `spis` are as in `MessageStore`.
    """
    size = reader.source.size
    if size is None or size < LEAST_SIZE or not can_fork_reader():
        return None
    begin = reader.guess_record(int(size * _FIRST_HALF))
    if begin is None:
        return None
    try:
        # a message's bytes come from one place in the file, so those of the halves do not meet
        heaps = shared_bytes(size), shared_bytes(size)
        kept = MessageStore(spis, *(MessageBytes(heap) for heap in heaps))
        return ParallelReader(reader, begin, ports, spis, heaps), kept
    except (OSError, ValueError):
        return None
