"""A report as Parquet: a directory with the four tables and a table of the captures.

Column names and units are those of `ikeanalyze.analysis.schema`, types those of a dataset (`dataset.columns`), so that
the tables of both can be joined and concatenated; only `frames`, which datasets lack, keeps its own in columns that no
other table has. `captures.parquet` has the summary of each capture, with columns for each kind of packet in its
accounting (`ike_packets`, `ike_bytes`).
"""

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ikeanalyze import core
from ikeanalyze.analysis.result import Analysis, CaptureSummary
from ikeanalyze.render.core import output

if TYPE_CHECKING:
    import polars as pl  # rarely needed with the compiled core

    from ikeanalyze.analysis.tables.columns import TableColumns
    from ikeanalyze.analysis.tables.tables import AnalysisTables
    from ikeanalyze.render.report.parquet_columns import ColumnFile


TABLES: Final = ("captures", "handshakes", "exchanges", "messages", "frames")
#: Rows of the smallest table that is not kept in memory when polars writes it.
MIN_STREAMED_ROWS = 1 << 14
#: Rows of the smallest table that the compiled core writes in two steps.
MIN_ROWS_IN_STEPS = 1 << 14
#: Rows of a row group: all of it is in memory while it is written, and several are if the table is read from disk.
_ROW_GROUP: Final = 1 << 17
_ROW_GROUP_FROM_DISK: Final = 1 << 16
_HANDSHAKES_SHARE: Final = 8  # of these: a row has a kilobyte


def write_parquet(analysis: Analysis, directory: str, tables: Collection[str] = TABLES) -> None:
    """Create `directory` and write the tables; they get their names when all are complete."""
    with ParquetWriter(directory, tables) as writer:
        writer.finish(analysis)


class ParquetWriter(AbstractContextManager["ParquetWriter"]):
    """Writes tables as they become complete. A context manager: the files get their names at its end, or are removed.

    The compiled core writes a table when its columns are added, and the first columns of a large one in another thread.
    polars writes mostly on one processor, so that several tables are written in parallel, also while others are built.
    """

    def __init__(self, directory: str, tables: Collection[str] = TABLES) -> None:
        """Create `directory` for these tables of `TABLES`.

        Raises:
            OutputError: it cannot be created, or has another table, which would not be that of this report.
        """
        output.check_output(directory, directory=True)
        for name in TABLES:
            if name not in tables and (Path(directory) / f"{name}.parquet").exists():
                raise output.OutputError(
                    directory, f"has {name}.parquet of another report. Remove it, or name another directory with -o"
                )
        try:
            Path(directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise output.make_output_error(directory, error) from None
        self._directory = Path(directory)
        self._files = ExitStack()
        self._pool = ThreadPoolExecutor()
        self._column_pool = ThreadPoolExecutor(1)
        self._tables = tables
        self._written: dict[str, Future[None]] = {}
        self._begun: dict[str, tuple[ColumnFile, list[Future[None]]]] = {}  # tables with some of their columns

    def add(self, name: str, table: "pl.DataFrame | pl.LazyFrame") -> None:
        """Start to write a table, if it is wanted. Can be called from any thread."""
        if name not in self._tables:
            return
        path = self._files.enter_context(output.replace_output(str(self._directory / f"{name}.parquet")))
        self._written[name] = self._pool.submit(_write, name, table, path)

    def add_columns(self, name: str, columns: "TableColumns") -> bool:
        """Write a table from its columns: the compiled core, or polars if it is large. Can be called from any thread.

        Returns whether it is being written, or is not wanted. `columns` are unchanged.
        """
        if name not in self._tables:
            return True
        if core.compiled is None:
            if columns.height < MIN_STREAMED_ROWS:
                return False
            from ikeanalyze.analysis.tables.polars_columns import make_table  # loads polars

            self.add(name, make_table(msgspec.structs.replace(columns, columns=dict(columns.columns))))
            return True
        with self._name_in_errors(name):
            begun = self._begun.pop(name, None)
            file, parts = (self._create(name, columns.height), []) if begun is None else begun
            for part in parts:
                part.result()
            for converted in file.convert(columns):
                file.write(converted)
            file.finish()
        self._written[name] = Future()
        self._written[name].set_result(None)
        return True

    def add_first_columns(self, name: str, columns: "TableColumns") -> bool:
        """Begin to write some columns of a large table with the compiled core; `add_columns` is called with the others.

        Returns whether they are being written, in another thread. `columns` are unchanged.
        """
        if name not in self._tables or core.compiled is None or columns.height < MIN_ROWS_IN_STEPS:
            return False
        with self._name_in_errors(name):
            file = self._create(name, columns.height)
        parts = [self._column_pool.submit(file.write, converted) for converted in file.convert(columns)]
        self._begun[name] = file, parts
        return True

    @contextmanager
    def _name_in_errors(self, name: str) -> Iterator[None]:
        """Let errors of writing a table name its file."""
        try:
            yield
        except OSError as error:
            raise output.make_output_error(str(self._directory / f"{name}.parquet"), error) from None

    def _create(self, name: str, rows: int) -> "ColumnFile":
        from ikeanalyze.render.report.parquet_columns import ColumnFile  # loads numpy

        path = self._files.enter_context(output.replace_output(str(self._directory / f"{name}.parquet")))
        return ColumnFile(name, path, rows, _ROW_GROUP // (_HANDSHAKES_SHARE if name == "handshakes" else 1))

    def write(self, name: str, table: "pl.LazyFrame") -> None:
        """Write a table that is larger than memory, if it is wanted."""
        self.add(name, table)
        if name in self._written:
            self._wait(name, self._written[name])

    def finish(self, analysis: Analysis) -> None:
        """Write the tables that were not added, and wait for all."""
        self.finish_tables(analysis.captures, analysis)

    def finish_tables(self, captures: Sequence[CaptureSummary], tables: "Analysis | AnalysisTables") -> None:
        """Write those of these tables that were not added, and wait for all."""
        for name in ("frames", "messages", "exchanges", "handshakes"):
            if name in self._tables and name not in self._written:
                self.add(name, getattr(tables, name))
        if "captures" in self._tables:
            from ikeanalyze.render.report.parquet_captures import build_captures_columns  # loads numpy

            columns = build_captures_columns(captures)
            if not self.add_columns("captures", columns):
                from ikeanalyze.analysis.tables.polars_columns import make_table  # loads polars

                self.add("captures", make_table(columns))
        for name, written in self._written.items():
            self._wait(name, written)

    def _wait(self, name: str, written: "Future[None]") -> None:
        error = written.exception()
        if error is None:
            return
        import polars as pl

        if isinstance(error, pl.exceptions.ComputeError):  # how polars reports a full disk
            path = str(self._directory / f"{name}.parquet")
            raise output.make_output_error(path, OSError(str(error))) from None
        raise error

    def __exit__(self, *error: Any) -> None:
        self._pool.shutdown()
        self._column_pool.shutdown()
        self._begun.clear()  # closes their files
        self._files.__exit__(*error)


def _write(name: str, table: "pl.DataFrame | pl.LazyFrame", path: Path) -> None:
    import polars as pl

    from ikeanalyze.dataset.columns import find_constant_names, to_portable_types  # loads polars

    # LZ4 is written and read a third faster than Zstandard on a million rows, for a fifth more bytes. The
    # least and greatest values of columns of one capture save no reader anything, and take a fifth of the time.
    constants = find_constant_names(table) if isinstance(table, pl.DataFrame) else {}
    portable = table.lazy() if name == "captures" else to_portable_types(table.lazy(), name, constants)
    rows = _ROW_GROUP_FROM_DISK if isinstance(table, pl.LazyFrame) else _ROW_GROUP
    if name == "handshakes":
        rows //= _HANDSHAKES_SHARE
    # Converted piece by piece as it is written. polars chooses the encodings; pyarrow, with delta encoding for times
    # and ids, takes as long.
    portable.sink_parquet(path, compression="lz4", statistics=False, row_group_size=rows)
