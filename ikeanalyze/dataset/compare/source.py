"""Where the handshakes to compare are: a dataset, or the directory that `report --format parquet` writes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from ikeanalyze.analysis.schema import EXCHANGES, HANDSHAKES
from ikeanalyze.dataset.compare.errors import CompareError
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.manifest import DatasetError


@dataclass(frozen=True, slots=True)
class ComparisonTables:
    """Tables as in `analysis.schema`, not yet read; a handshake is known by `capture`, as text, and `handshake`."""

    path: str  # as it was given
    handshakes: pl.LazyFrame  # with a column for each label
    exchanges: pl.LazyFrame
    labels: Sequence[str] = ()  # names of the label columns
    unread: int = 0  # captures that could not be read
    complete: bool = True  # False: the batch that makes the dataset has not finished


def open_tables(path: str) -> ComparisonTables:
    """Open what is in the folder `path`; `CompareError` if there is nothing to compare in it."""
    if os.path.isfile(os.path.join(path, "handshakes.parquet")):  # Path raises where there is no permission to look
        return ComparisonTables(path, _of_report(path, "handshakes"), _of_report(path, "exchanges"))
    if os.path.isfile(path):
        raise CompareError(f"{path}: is a file, not a dataset; `ikeanalyze batch` makes one")
    try:
        dataset = open_dataset(path)
        unread = dataset.captures.filter(pl.col("state") == "failed").select(pl.len()).collect().item()
    except DatasetError as error:
        raise CompareError(str(error)) from None
    except UNREADABLE as error:
        raise find_unreadable_file(path, error) from None
    return ComparisonTables(path, dataset.handshakes, dataset.exchanges, list(dataset.labels), unread, dataset.complete)


def _of_report(path: str, name: str) -> pl.LazyFrame:
    file = Path(path) / f"{name}.parquet"
    try:
        table = pl.scan_parquet(file, glob=False)
        columns = table.collect_schema()
    except UNREADABLE as error:
        raise find_unreadable_file(str(file), error) from None
    needed = {"handshakes": HANDSHAKES, "exchanges": EXCHANGES}[name]
    if missing := needed.keys() - columns.keys():
        raise CompareError(
            f"{file}: is no table of {name}, it has no column {min(missing)}. "
            "`ikeanalyze report --format parquet` makes one"
        )
    return table.with_columns(pl.col("capture").cast(pl.String))


#: What reading Parquet raises.
UNREADABLE = (OSError, pl.exceptions.ComputeError)

#: What is read of a dataset, or of the directory of a report.
_FILES: Final = (
    "captures/*.parquet",
    "handshakes*.parquet",
    "handshakes/*.parquet",
    "exchanges*.parquet",
    "exchanges/*.parquet",
)


def find_unreadable_file(path: str, error: Exception) -> CompareError:
    """Something below the folder `path`, or that file, cannot be read: which file it is, is found out here."""
    why = str(error).partition("\n")[0]
    files = [file for pattern in _FILES for file in sorted(Path(path).glob(pattern))]
    for file in files:
        try:
            pl.read_parquet(file, glob=False)
        except UNREADABLE:
            again = "Make it again" if file.parent == Path(path) else "Remove it, and run the batch again"
            return CompareError(f"{file}: cannot be read ({why}). {again}")
    return CompareError(f"{path}: cannot be read ({why}). Make it again")
