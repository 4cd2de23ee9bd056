"""Shards on the disk: four Parquet files of one name, written under hidden names that become theirs when all are whole.

Whoever reads a table's folder takes `*.parquet`, and DuckDB, Spark and the like leave out names that begin with a dot. A worker
writes hidden files only. The process that keeps the manifest gives them their names, so a worker that is given up for dead, and
is not, does no harm, whatever it still writes.
"""

import hashlib
import io
import json
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import polars as pl

from ikeanalyze.dataset.columns import labelled
from ikeanalyze.dataset.manifest import TABLES, DatasetError, Entry, Shard, sync, sync_folder
from ikeanalyze.dataset.patterns import Kind

_ROWS_AT_ONCE = 1 << 18  # in a row group, that is what a reader takes into memory at once


def make_folders(dataset: Path) -> None:
    """Make the folders of the tables."""
    for table in TABLES:
        (dataset / table).mkdir(parents=True, exist_ok=True)


def write_hidden(dataset: Path, tables: Mapping[str, pl.DataFrame]) -> tuple[str, dict[str, int]]:
    """Write tables, have them on the disk; the token under which `publish` finds them, and by table the bytes of its file.

    Raises:
        OSError: the system refuses; nothing stays behind.

    """
    token = secrets.token_hex(8)
    sizes = {}
    try:
        for table in TABLES:
            # not by polars: of an error of the system it has a text of its own
            whole = io.BytesIO()
            tables[table].write_parquet(whole, compression="zstd", row_group_size=_ROWS_AT_ONCE)
            with open(_hidden(dataset, table, token), "xb") as file:
                sizes[table] = file.write(whole.getbuffer())
                file.flush()
                sync(file.fileno())
    except BaseException:
        discard(dataset, token)
        raise
    return token, sizes


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


def lacking(dataset: Path, known: Collection[Shard]) -> list[str]:
    """The names of shards of which a file is not there, or not as long as the manifest says."""
    return list(dict.fromkeys(shard.name for shard, *_ in _wrong(dataset, known)))


def whole(dataset: Path, known: Collection[Shard], table: str) -> list[Path]:
    """The files of a table.

    Raises:
        DatasetError: one is not there, or not as long as the manifest says.

    """
    for shard, file, size in _wrong(dataset, known, (table,)):
        what = "is missing, though the manifest lists it"
        if size is not None:
            what = f"is damaged: it has {size:,} bytes, and had {shard.bytes[table]:,}"
        raise DatasetError(f"{file}: {what}. Run the batch again")
    return [_file(dataset, table, shard.name) for shard in known]


def _wrong(
    dataset: Path, known: Collection[Shard], tables: Sequence[str] = TABLES
) -> Iterator[tuple[Shard, Path, int | None]]:
    """Files that are not as they were written, and how many bytes they have; None: they are not there."""
    for table in tables:
        try:
            with os.scandir(dataset / table) as files:
                there = {file.name: file.stat().st_size for file in files if file.is_file()}
        except FileNotFoundError:
            there = {}
        for shard in known:
            file = _file(dataset, table, shard.name)
            size = there.get(file.name)
            if size is None or size != shard.bytes.get(table, size):
                yield shard, file, size


def named(shard: Shard) -> Shard:
    """The shard with its name, made of what its rows come from: the same captures, keys and labels give the same name."""
    made_of = [
        (one.capture, one.sha256, one.state, one.reason, sorted(one.labels.items()), one.keys_sha256)
        for one in shard.captures
    ]
    text = json.dumps([shard.version, dict(shard.reading), dict(shard.labels), made_of])
    return replace(shard, name=f"part-{hashlib.sha256(text.encode()).hexdigest()[:24]}")


def read(dataset: Path, table: str, name: str) -> pl.DataFrame:
    """One table of a shard, in memory.

    Raises:
        DatasetError: it cannot be read.

    """
    file = _file(dataset, table, name)
    try:
        return pl.read_parquet(file, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error).partition("\n")[0]
        raise DatasetError(
            f"{file}: cannot be read ({why}). Remove it, and the same command reads its captures again"
        ) from None


def rewrite(dataset: Path, shard: Shard, entries: Sequence[Entry], kinds: Mapping[str, Kind]) -> tuple[str, Shard]:
    """Write a shard anew, with some of its captures and other labels: the token of its hidden files, and itself.

    Raises:
        DatasetError: it cannot be read.
        OSError: it cannot be written.

    """
    kept = [entry.capture for entry in entries]
    labels = {entry.capture: entry.labels for entry in entries}
    tables = {}
    for table in TABLES:
        rows = read(dataset, table, shard.name).filter(pl.col("capture").is_in(kept))
        tables[table] = labelled(rows, labels, kinds) if table in ("captures", "handshakes") else rows
    token, sizes = write_hidden(dataset, tables)
    heights = {table: frame.height for table, frame in tables.items()}
    changed = replace(shard, labels=dict(kinds), rows=heights, captures=list(entries), bytes=sizes)
    return token, named(changed)


def _hidden(dataset: Path, table: str, token: str) -> Path:
    return dataset / table / f".{token}.parquet.tmp"


def _file(dataset: Path, table: str, name: str) -> Path:
    return dataset / table / f"{name}.parquet"
