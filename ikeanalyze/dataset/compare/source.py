"""Opens the tables to compare: a dataset, or a directory written by `report --format parquet`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from ikeanalyze.analysis.schema import EXCHANGES, HANDSHAKES
from ikeanalyze.dataset.compare import CompareError
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.manifest import DatasetError


@dataclass(frozen=True, slots=True)
class ComparisonTables:
    """Lazy tables as in `analysis.schema`; `capture` (text) and `handshake` identify a handshake."""

    path: str  # as given
    handshakes: pl.LazyFrame  # with a column for each label
    exchanges: pl.LazyFrame
    labels: Sequence[str] = ()  # names of the label columns
    unread: int = 0  # captures that could not be read
    complete: bool = True  # False: the batch that makes the dataset has not finished
    captures: pl.LazyFrame | None = None  # of a dataset; a report has none


def open_tables(path: str) -> ComparisonTables:
    """Open the tables in the folder `path`.

    Raises:
        CompareError: no tables, or they cannot be read.
    """
    if os.path.isfile(os.path.join(path, "handshakes.parquet")):  # Path.is_file raises without permission
        return ComparisonTables(path, _scan_report(path, "handshakes"), _scan_report(path, "exchanges"))
    if os.path.isfile(path):
        raise CompareError(f"{path}: is a file, not a dataset; `ikeanalyze batch` makes one")
    try:
        dataset = open_dataset(path)
        unread = dataset.captures.filter(pl.col("state") == "failed").select(pl.len()).collect().item()
    except DatasetError as error:
        raise CompareError(str(error)) from None
    except UNREADABLE as error:
        raise find_unreadable_file(path, error) from None
    return ComparisonTables(
        path,
        dataset.handshakes,
        dataset.exchanges,
        list(dataset.labels),
        unread,
        dataset.complete,
        dataset.captures,
    )


def _scan_report(path: str, name: str) -> pl.LazyFrame:
    file = Path(path) / f"{name}.parquet"
    try:
        table = pl.scan_parquet(file, glob=False)
        columns = table.collect_schema()
    except UNREADABLE as error:
        raise find_unreadable_file(str(file), error) from None
    needed = {"handshakes": HANDSHAKES, "exchanges": EXCHANGES}[name]
    if missing := needed.keys() - columns.keys():
        raise CompareError(
            f"{file}: not a table of {name} (column {min(missing)} is missing). "
            "`ikeanalyze report --format parquet` makes one"
        )
    return table.with_columns(pl.col("capture").cast(pl.String))


#: Errors of reading Parquet.
UNREADABLE = (OSError, pl.exceptions.ComputeError)

#: Files of a dataset or of the directory of a report.
_FILES: Final = (
    "captures/*.parquet",
    "handshakes*.parquet",
    "handshakes/*.parquet",
    "exchanges*.parquet",
    "exchanges/*.parquet",
)
#: Folders of these files; "": of the dataset or report itself.
_FOLDERS: Final = ("", "captures", "handshakes", "exchanges")


def find_unreadable_file(path: str, error: Exception) -> CompareError:
    """The error for a file that cannot be read: `path`, or a file in this folder."""
    why = str(error).partition("\n")[0]
    files = [file for pattern in _FILES for file in sorted(Path(path).glob(pattern))]
    for place in (*(Path(path) / name for name in _FOLDERS), *files):
        if os.path.exists(place) and not _is_readable(place):
            return CompareError(f"{place}: no permission to read it")
    for file in files:
        try:
            pl.read_parquet(file, glob=False)
        except UNREADABLE:
            advice = "Make it again" if file.parent == Path(path) else "Remove it, and run the batch again"
            return CompareError(f"{file}: cannot be read ({why}). {advice}")
    return CompareError(f"{path}: cannot be read ({why}). Make it again")


def _is_readable(path: Path) -> bool:
    mode = os.R_OK | os.X_OK if path.is_dir() else os.R_OK
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
