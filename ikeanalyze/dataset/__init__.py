"""Many captures: labels, Parquet, executors, comparison.

`ikeanalyze.dataset.open("DATASET")` gives the tables of what `ikeanalyze batch` made as lazy polars frames.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikeanalyze.dataset.opened import Dataset

__all__ = ["open"]


def open(path: str | Path) -> "Dataset":  # noqa: A001 - as one opens a file
    """Open the dataset in a folder: see `opened.open_dataset`. polars is loaded when this is called."""
    from ikeanalyze.dataset.opened import open_dataset

    return open_dataset(path)
