"""A dataset for a notebook: its tables as lazy polars frames."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ikeanalyze.dataset.columns import get_columns
from ikeanalyze.dataset.labels import Kind
from ikeanalyze.dataset.manifest import Shard, load_manifest
from ikeanalyze.dataset.shards import list_table_files


@dataclass(frozen=True, slots=True)
class Dataset:
    """The tables, capture by capture; `dataset.columns` says what is in them."""

    path: Path
    complete: bool  # False: the last batch was interrupted, and what it finished is here
    labels: Mapping[str, Kind]  # label columns and their kinds, in order
    captures: pl.LazyFrame
    handshakes: pl.LazyFrame  # a row is known by `capture` and `handshake`
    exchanges: pl.LazyFrame
    messages: pl.LazyFrame


def open_dataset(path: str | Path) -> Dataset:
    """Open the dataset in a folder, finished or not; nothing is read of its tables yet.

    Raises:
        DatasetError: it is none, is damaged, or was made by a later version; one line for the user.

    """
    folder = Path(path)
    manifest = load_manifest(folder)
    shards = sorted(manifest.shards.values(), key=lambda shard: shard.captures[0].path)

    def scan(table: str) -> pl.LazyFrame:
        return _scan(folder, table, shards, manifest.labels)

    return Dataset(
        path=folder,
        complete=manifest.complete,
        labels=manifest.labels,
        captures=scan("captures"),
        handshakes=scan("handshakes"),
        exchanges=scan("exchanges"),
        messages=scan("messages"),
    )


def _scan(folder: Path, table: str, shards: list[Shard], labels: Mapping[str, Kind]) -> pl.LazyFrame:
    schema = get_columns(table, labels)
    files = list_table_files(folder, shards, table)
    if not files:
        return pl.LazyFrame(schema=schema)
    # between two label patterns, some shards may have columns of the one and some of the other
    return pl.scan_parquet(files, schema=schema, missing_columns="insert", extra_columns="ignore", glob=False)
