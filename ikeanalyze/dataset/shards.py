"""Shards on the disk: four Parquet files of one name, written under hidden names that become theirs when all are whole.

Whoever reads a table's folder takes `*.parquet`, and DuckDB, Spark and the like leave out names that begin with a dot. A worker
writes hidden files only. The process that keeps the manifest gives them their names, so a worker that is given up for dead, and
is not, does no harm, whatever it still writes.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import polars as pl

from ikeanalyze.dataset.columns import labelled
from ikeanalyze.dataset.manifest import TABLES, Entry, Shard, sync, sync_folder
from ikeanalyze.dataset.patterns import Kind

_ROWS_AT_ONCE = 1 << 18  # in a row group, that is what a reader takes into memory at once


def make_folders(dataset: Path) -> None:
    """Make the folders of the tables."""
    for table in TABLES:
        (dataset / table).mkdir(parents=True, exist_ok=True)


def write_hidden(dataset: Path, tables: Mapping[str, pl.DataFrame]) -> str:
    """Write tables, have them on the disk, and return the token under which `publish` finds them.

    Raises:
        OSError: the system refuses; nothing stays behind.

    """
    token = secrets.token_hex(8)
    try:
        for table in TABLES:
            with open(_hidden(dataset, table, token), "xb") as file:
                _write(tables[table], file.fileno())
                sync(file.fileno())
    except BaseException:
        discard(dataset, token)
        raise
    return token


def _write(table: pl.DataFrame, descriptor: int) -> None:
    try:
        table.write_parquet(
            os.fdopen(descriptor, "wb", closefd=False), compression="zstd", row_group_size=_ROWS_AT_ONCE
        )
    except pl.exceptions.ComputeError as error:
        # of the system's error polars has the text alone: "... IO error: No space left on device (os error 28)"
        raise OSError(str(error).rpartition("error: ")[2]) from None


def publish(dataset: Path, token: str, name: str) -> None:
    """Give hidden files their names; OSError if they are not there, or the system refuses."""
    for table in TABLES:
        os.replace(_hidden(dataset, table, token), _file(dataset, table, name))
    for table in TABLES:
        sync_folder(dataset / table)


def discard(dataset: Path, token: str) -> None:
    """Remove hidden files, as far as there are any."""
    for table in TABLES:
        _hidden(dataset, table, token).unlink(missing_ok=True)


def remove(dataset: Path, names: Collection[str]) -> None:
    """Remove shards that the manifest does not list any more."""
    for table in TABLES:
        for name in names:
            _file(dataset, table, name).unlink(missing_ok=True)


def sweep(dataset: Path, known: Collection[str]) -> None:
    """Remove what no manifest speaks of: shards that were not finished, hidden files of processes that were ended."""
    listed = {f"{name}.parquet" for name in known}
    for table in TABLES:
        with os.scandir(dataset / table) as files:
            for file in files:
                ours = file.name.endswith((".parquet", ".parquet.tmp"))
                if ours and file.name not in listed:
                    with suppress(FileNotFoundError):
                        os.unlink(file.path)


def lacking(dataset: Path, known: Collection[str]) -> list[str]:
    """The shards of which a file is not there, though the manifest lists them."""
    there = []
    for table in TABLES:
        try:
            there.append(set(os.listdir(dataset / table)))
        except FileNotFoundError:
            there.append(set())
    return [name for name in known if any(f"{name}.parquet" not in names for names in there)]


def named(shard: Shard) -> Shard:
    """The shard with its name, made of what its rows come from: the same captures, keys and labels give the same name."""
    made_of = [
        (one.capture, one.sha256, one.state, one.reason, sorted(one.labels.items()), one.keys_sha256)
        for one in shard.captures
    ]
    text = json.dumps([shard.version, dict(shard.reading), dict(shard.labels), made_of])
    return replace(shard, name=f"part-{hashlib.sha256(text.encode()).hexdigest()[:24]}")


def read(dataset: Path, table: str, name: str) -> pl.DataFrame:
    """One table of a shard, in memory."""
    return pl.read_parquet(_file(dataset, table, name))


def rewrite(
    dataset: Path, shard: Shard, entries: Sequence[Entry], kinds: Mapping[str, Kind]
) -> tuple[str, Shard]:
    """Write a shard anew, with some of its captures and other labels: the token of its hidden files, and itself.

    Raises:
        OSError: it cannot be read or written.

    """
    kept = [entry.capture for entry in entries]
    labels = {entry.capture: entry.labels for entry in entries}
    tables = {}
    for table in TABLES:
        try:
            rows = read(dataset, table, shard.name).filter(pl.col("capture").is_in(kept))
        except pl.exceptions.PolarsError as error:
            where = _file(dataset, table, shard.name)
            raise OSError(
                f"{where} is damaged ({error}). Remove it, and its captures are read again"
            ) from None
        tables[table] = labelled(rows, labels, kinds) if table in ("captures", "handshakes") else rows
    token = write_hidden(dataset, tables)
    heights = {table: frame.height for table, frame in tables.items()}
    return token, named(replace(shard, labels=dict(kinds), rows=heights, captures=list(entries)))


def _hidden(dataset: Path, table: str, token: str) -> Path:
    return dataset / table / f".{token}.parquet.tmp"


def _file(dataset: Path, table: str, name: str) -> Path:
    return dataset / table / f"{name}.parquet"
