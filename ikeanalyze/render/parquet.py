"""Parquet: a directory with the four tables as they are, and one of the captures.

Column names, types and units are those of `ikeanalyze.analysis.schema`; `captures.parquet` has the summary of
each capture, with a column for each kind of packet in its accounting (`ike_packets`, `ike_bytes`).
"""

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ikeanalyze.analysis.result import ACCOUNTING, Analysis
from ikeanalyze.render import output

if TYPE_CHECKING:  # loading it early would keep a large capture from being read by two processes
    import polars as pl


def write(analysis: Analysis, directory: str) -> None:
    """Make `directory` and write the tables; they take their names when all are complete."""
    with Writer(directory) as writer:
        writer.finish(analysis)


class Writer:
    """Writes tables as they become complete. A context manager: they take their names at its end, or never.

    polars writes a table with one processor for the most part, so several are written at once, and one can be
    while the others are still being made.
    """

    def __init__(self, directory: str) -> None:
        """Make `directory`; `OutputError` if that cannot be."""
        output.check(directory, directory=True)
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output.cannot_write(directory, error) from None
        self._directory = Path(directory)
        self._files = ExitStack()
        self._pool = ThreadPoolExecutor()
        self._written: dict[str, Future[None]] = {}

    def add(self, name: str, table: "pl.DataFrame") -> None:
        """Begin to write a table; from any thread."""
        path = self._files.enter_context(output.replaced(str(self._directory / f"{name}.parquet")))
        self._written[name] = self._pool.submit(_write, table, path)

    def finish(self, analysis: Analysis) -> None:
        """Write what has not been added, and wait for all."""
        for name in ("frames", "messages", "exchanges", "handshakes"):
            if name not in self._written:
                self.add(name, getattr(analysis, name))
        self.add("captures", captures(analysis))
        for written in self._written.values():
            written.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        self._files.__exit__(kind, error, trace)


def _write(table: "pl.DataFrame", path: Path) -> None:
    # LZ4 is written and read a third faster than Zstandard on a million rows, for a fifth more bytes. The
    # least and greatest values of columns of one capture save no reader anything, and take a fifth of the time.
    table.write_parquet(path, compression="lz4", statistics=False)


def captures(analysis: Analysis) -> "pl.DataFrame":
    """A row per capture."""
    import polars as pl

    schema: dict[str, Any] = {
        "capture": pl.String,
        "format": pl.String,
        "packets": pl.UInt64,
        "bytes": pl.UInt64,
        "first_ns": pl.Int64,
        "last_ns": pl.Int64,
        "snaplen_truncated": pl.UInt64,
        "damaged": pl.Boolean,
        **{f"{what}_{unit}": pl.UInt64 for what in ACCOUNTING for unit in ("packets", "bytes")},
    }
    rows = [
        (
            one.path,
            one.format,
            one.packets,
            one.bytes,
            one.first_ns,
            one.last_ns,
            one.snaplen_truncated,
            one.damaged,
            *(by.get(what, 0) for what in ACCOUNTING for by in (one.accounting, one.accounting_bytes)),
        )
        for one in analysis.captures
    ]
    return pl.DataFrame(rows, schema=schema, orient="row")
