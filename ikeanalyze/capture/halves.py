"""A large capture in two halves, the second of which is read by a helper."""

from collections.abc import Collection
from typing import Final

from ikeanalyze.capture import forked
from ikeanalyze.capture.collector import FrameCollector
from ikeanalyze.capture.columns import Int64Array, UInt8Array
from ikeanalyze.capture.forked import WorkerProcess
from ikeanalyze.capture.half import PartialResult
from ikeanalyze.capture.kept import MessageBytes, MessageStore, shared_bytes
from ikeanalyze.capture.reader import CaptureReader
from ikeanalyze.capture.rows import LAYOUT, Columns, FrameRows

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
    if size is None or size < forked.LEAST_SIZE or not forked.can_fork_reader():
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
