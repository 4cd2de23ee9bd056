"""Opens a dataset as lazy polars frames, for example in a notebook."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ikeanalyze.dataset.columns import get_columns
from ikeanalyze.dataset.labels import LabelType
from ikeanalyze.dataset.manifest import TABLES, Shard, load_manifest
from ikeanalyze.dataset.shards import list_table_files


@dataclass(frozen=True, slots=True)
class Dataset:
    """The tables of a dataset; `dataset.columns` documents their columns."""

    path: Path
    complete: bool  # False: the last batch was interrupted; the dataset has the captures that it finished
    labels: Mapping[str, LabelType]  # label columns and their types, in order
    captures: pl.LazyFrame
    handshakes: pl.LazyFrame  # a row is identified by `capture` and `handshake`
    exchanges: pl.LazyFrame
    messages: pl.LazyFrame


def open_dataset(path: str | Path) -> Dataset:
    """Open the dataset in a folder, finished or not, without reading its tables.

    Raises:
        DatasetError: not a dataset, damaged, or written by a later version; one line for the user.
    """
    folder = Path(path)
    manifest = load_manifest(folder)
    shards = sorted(manifest.shards.values(), key=lambda shard: shard.captures[0].path)

    tables = {table: _scan_table(folder, table, shards, manifest.labels) for table in TABLES}
    return Dataset(path=folder, complete=manifest.complete, labels=manifest.labels, **tables)


def _scan_table(folder: Path, table: str, shards: list[Shard], labels: Mapping[str, LabelType]) -> pl.LazyFrame:
    schema = get_columns(table, labels)
    files = list_table_files(folder, shards, table)
    if not files:
        return pl.LazyFrame(schema=schema)
    # while a batch changes the labels, shards may have different label columns
    return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore", glob=False)
