"""Shards on disk: four Parquet files of the same name, written under hidden names and renamed when all are complete.

Readers of a table's folder take `*.parquet`; DuckDB, Spark and others ignore names that begin with a dot. Workers write
hidden files only. The process that keeps the manifest renames them, so a worker that was wrongly considered dead does
no harm.
"""

import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import polars as pl
from msgspec.structs import replace

from ikeanalyze.dataset.columns import add_label_columns
from ikeanalyze.dataset.labels import LabelType
from ikeanalyze.dataset.manifest import TABLES, CaptureEntry, DatasetError, Shard, fsync_folder

#: Names of shards (`name_shard`), and of files that are not complete (`write_unpublished`).
_OWN_NAME: Final = re.compile(r"part-[0-9a-f]{24}\.parquet|\.[0-9a-f]{16}\.parquet\.tmp")
_ROW_GROUP_SIZE = 1 << 18  # rows that a reader takes into memory at once


def make_folders(dataset: Path) -> None:
    """Make the folders of the tables."""
    for table in TABLES:
        (dataset / table).mkdir(parents=True, exist_ok=True)


def write_unpublished(dataset: Path, tables: Mapping[str, pl.DataFrame]) -> tuple[str, dict[str, int]]:
    """Write tables to disk; return the token for `publish_shard`, and the bytes of the file of each table.

    Raises:
        OSError: the system refuses; no files are left.
    """
    token = secrets.token_hex(8)
    sizes = {}
    try:
        with ExitStack() as stack:
            files = []
            for table in TABLES:
                # polars would replace the text of a system error by its own
                content = io.BytesIO()
                tables[table].write_parquet(content, compression="zstd", row_group_size=_ROW_GROUP_SIZE)
                file = stack.enter_context(open(_get_hidden_path(dataset, table, token), "xb"))
                sizes[table] = file.write(content.getbuffer())
                file.flush()
                files.append(file)
            for file in files:  # when all are written, because file systems then flush them together
                os.fsync(file.fileno())
    except BaseException:
        discard_shard(dataset, token)
        raise
    return token, sizes


def publish_shard(dataset: Path, token: str, name: str) -> None:
    """Rename hidden files to their final names; OSError if they are missing, or the system refuses."""
    for table in TABLES:
        os.replace(_get_hidden_path(dataset, table, token), _get_path(dataset, table, name))
    for table in TABLES:
        fsync_folder(dataset / table)


def discard_shard(dataset: Path, token: str) -> None:
    """Remove hidden files, where they exist."""
    for table in TABLES:
        _get_hidden_path(dataset, table, token).unlink(missing_ok=True)


def remove_shards(dataset: Path, names: Collection[str]) -> None:
    """Remove shards that the manifest no longer lists."""
    for table in TABLES:
        for name in names:
            _get_path(dataset, table, name).unlink(missing_ok=True)


def remove_orphans(dataset: Path, known: Collection[str]) -> None:
    """Remove files that are not listed: unfinished shards, and hidden files of killed processes.

    Files of any other name are not the dataset's, and stay.
    """
    listed = {f"{name}.parquet" for name in known}
    for table in TABLES:
        with os.scandir(dataset / table) as files:
            for file in files:
                if _OWN_NAME.fullmatch(file.name) and file.name not in listed:
                    with suppress(FileNotFoundError):
                        os.unlink(file.path)


def find_incomplete_shards(dataset: Path, known: Collection[Shard]) -> list[str]:
    """The names of shards with a file that is missing or does not have the size of the manifest."""
    return list(dict.fromkeys(shard.name for shard, *_ in _find_damaged(dataset, known)))


def list_table_files(dataset: Path, known: Collection[Shard], table: str) -> list[Path]:
    """The files of a table.

    Raises:
        DatasetError: a file is missing or does not have the size of the manifest.
    """
    for shard, file, size in _find_damaged(dataset, known, (table,)):
        problem = "is missing, although the manifest lists it"
        if size is not None:
            problem = f"is damaged: it has {size:,} bytes instead of {shard.bytes[table]:,}"
        raise DatasetError(f"{file}: {problem}. Run the batch again")
    return [_get_path(dataset, table, shard.name) for shard in known]


def _find_damaged(
    dataset: Path, known: Collection[Shard], tables: Sequence[str] = TABLES
) -> Iterator[tuple[Shard, Path, int | None]]:
    """Files that do not have the size that was written, with their size in bytes; None: the file is missing."""
    for table in tables:
        try:
            with os.scandir(dataset / table) as files:
                sizes = {file.name: file.stat().st_size for file in files if file.is_file()}
        except FileNotFoundError:
            sizes = {}
        for shard in known:
            file = _get_path(dataset, table, shard.name)
            size = sizes.get(file.name)
            if size is None or size != shard.bytes.get(table, size):
                yield shard, file, size


def name_shard(shard: Shard) -> Shard:
    """The shard with its name, a digest of its input: the same captures, keys and labels give the same name."""
    inputs = [
        (entry.capture, entry.sha256, entry.state, entry.reason, sorted(entry.labels.items()), entry.keys_sha256)
        for entry in shard.captures
    ]
    text = json.dumps([shard.version, dict(shard.reading), dict(shard.labels), inputs])
    return replace(shard, name=f"part-{hashlib.sha256(text.encode()).hexdigest()[:24]}")


def read_shard_table(dataset: Path, table: str, name: str) -> pl.DataFrame:
    """Read a table of a shard into memory.

    Raises:
        DatasetError: it cannot be read.
    """
    file = _get_path(dataset, table, name)
    try:
        return pl.read_parquet(file, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error).partition("\n")[0]
        raise DatasetError(
            f"{file}: cannot be read ({why}). Remove it and run the same command to read its captures again"
        ) from None


def rewrite_shard(
    dataset: Path, shard: Shard, entries: Sequence[CaptureEntry], label_types: Mapping[str, LabelType]
) -> tuple[str, Shard]:
    """Write a shard again, with some of its captures and other labels; return the token of its hidden files, and the
    shard.

    Raises:
        DatasetError: it cannot be read.
        OSError: it cannot be written.
    """
    kept = [entry.capture for entry in entries]
    labels = {entry.capture: entry.labels for entry in entries}
    tables = {}
    for table in TABLES:
        rows = read_shard_table(dataset, table, shard.name).filter(pl.col("capture").is_in(kept))
        tables[table] = add_label_columns(rows, labels, label_types) if table in ("captures", "handshakes") else rows
    token, sizes = write_unpublished(dataset, tables)
    heights = {table: frame.height for table, frame in tables.items()}
    changed = replace(shard, labels=dict(label_types), rows=heights, captures=list(entries), bytes=sizes)
    return token, name_shard(changed)


def _get_hidden_path(dataset: Path, table: str, token: str) -> Path:
    return dataset / table / f".{token}.parquet.tmp"


def _get_path(dataset: Path, table: str, name: str) -> Path:
    return dataset / table / f"{name}.parquet"
