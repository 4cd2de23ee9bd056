"""Datasets of many captures: batches, labels, Parquet files, comparison of groups.

`ikeanalyze.dataset.open("DATASET")` returns the tables of a dataset of `ikeanalyze batch` as lazy polars frames.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikeanalyze.dataset.dataset import Dataset

__all__ = ["open"]


def open(path: str | Path) -> "Dataset":  # noqa: A001 - named like the built-in
    """Open the dataset in a folder: see `dataset.dataset.open_dataset`."""
    # here, because polars must not be loaded by importing the package
    from ikeanalyze.dataset.dataset import open_dataset

    return open_dataset(path)
