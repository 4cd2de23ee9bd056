"""The manifest of a dataset: its shards and captures, the journal of a running batch, and the lock.

A dataset is a folder. `manifest.json` (schema `ikeanalyze.dataset/1`) lists its shards. A shard has one file in each of
the folders `captures`, `handshakes`, `exchanges` and `messages`, all four of the same name, with the rows of one or
more captures. Files that the manifest does not list are not part of the dataset.

While a batch runs, each change is appended as a line to `journal.jsonl`: a shard that is complete on disk, or a shard
to drop because its captures are read again. When the batch ends, successfully or not, a new manifest with all changes
replaces the old one atomically (rename), and the journal is deleted. A process that is killed at any moment leaves a
manifest and a journal whose last line may be incomplete: complete lines count, an incomplete one is ignored. Applying a
journal twice has no effect, so a kill between writing the manifest and deleting the journal does no harm.

Only one process may change a dataset at a time. It holds a lock on the file `lock`, which the system releases when the
process ends.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec

from ikeanalyze.dataset.labels import LabelType, Value

SCHEMA: Final = "ikeanalyze.dataset/1"
TABLES: Final = ("captures", "handshakes", "exchanges", "messages")
State = Literal["read", "failed"]

_MANIFEST: Final = "manifest.json"
_TEMPORARY: Final = f".{_MANIFEST}.tmp"
_JOURNAL: Final = "journal.jsonl"
_LOCK: Final = "lock"


class DatasetError(Exception):
    """A folder is not a dataset, or it cannot be read or written; one line for the user."""


class CaptureEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A capture of the dataset."""

    capture: str  # its unique name in the tables: the path as it was given
    path: str  # absolute; identifies the capture in later batches
    bytes: int  # of the file
    mtime_ns: int
    #: Of the file as stored, compressed or not; None: it could not be opened, or failed for a reason outside the file,
    #: and is read again by the next batch.
    sha256: str | None
    state: State
    reason: str | None  # why it could not be read
    labels: Mapping[str, Value]
    keys: Sequence[tuple[str, int, int]]  # key files: path, bytes, mtime_ns
    keys_sha256: str | None  # over the digests of these files; None: there are none


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files of the same name, one in each table's folder."""

    name: Annotated[str, msgspec.Meta(pattern="^[^/]*$")]  # of the files, without `.parquet`; in this folder
    version: str  # of the ikeanalyze that read the captures
    reading: Mapping[str, Any]  # options that change rows: ports, vantage, filter, from, to
    labels: Mapping[str, LabelType]  # label columns of its files
    rows: Mapping[str, int]  # by table
    captures: Annotated[Sequence[CaptureEntry], msgspec.Meta(min_length=1)]
    #: Of its files, by table, to detect truncated files; empty: written by an ikeanalyze that did not record them.
    bytes: Mapping[str, int] = {}


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal."""

    drop: Sequence[str] = ()  # names of shards to remove
    labels: dict[str, LabelType] | None = None  # label columns of the dataset from now on
    patterns: list[str] | None = None  # of `--label`
    add: Shard | None = None  # applied after `drop`


class _Document(msgspec.Struct, frozen=True):
    """The file `manifest.json`, but for the keys that only other readers need."""

    state: str
    labels: dict[str, LabelType]
    patterns: list[str]
    shards: list[Shard]


@dataclass(slots=True)
class DatasetManifest:
    """The current state of the dataset."""

    complete: bool  # the last batch has finished
    labels: dict[str, LabelType] = field(default_factory=dict)  # label columns, in order
    patterns: list[str] = field(default_factory=list)  # of `--label`, as given to the last batch
    shards: dict[str, Shard] = field(default_factory=dict)  # by name

    def entries(self) -> Iterator[tuple[Shard, CaptureEntry]]:
        """All captures, with their shards."""
        for shard in self.shards.values():
            for entry in shard.captures:
                yield shard, entry

    def apply(self, change: Change) -> None:
        """Apply a line of the journal."""
        for name in change.drop:
            self.shards.pop(name, None)
        if change.add is not None:
            self.shards[change.add.name] = change.add
        if change.labels is not None:
            self.labels = change.labels
        if change.patterns is not None:
            self.patterns = change.patterns


def check_path(folder: Path) -> None:
    """Refuse a folder whose tables polars cannot open.

    Raises:
        DatasetError: the path is not UTF-8.
    """
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise DatasetError(f"{folder}: its path is not UTF-8. Rename it, or name another folder") from None


def load_manifest(folder: Path) -> DatasetManifest:
    """Load the dataset in `folder`: its manifest and the journal of an unfinished batch.

    Raises:
        DatasetError: the folder is not a dataset, is damaged, has a newer schema, or its path is not UTF-8.
    """
    check_path(folder)
    path = folder / _MANIFEST
    try:
        document = json.loads(path.read_bytes())  # not by msgspec: names that are not UTF-8 have surrogates
    except FileNotFoundError:
        problem = "not a dataset" if folder.is_dir() else "no such folder"
        raise DatasetError(f"{folder}: {problem}. `ikeanalyze batch PATH... -o DATASET` makes one") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise DatasetError(f"{path}: not a dataset manifest, or damaged") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(SCHEMA.rpartition("/")[0]):
            raise DatasetError(f"{path}: schema {schema}, but this ikeanalyze supports {SCHEMA}. Use a newer version")
        raise DatasetError(
            f"{path}: not a dataset manifest (its schema is not {SCHEMA}). `batch` makes datasets in new or empty folders"
        )
    try:
        content = msgspec.convert(document, _Document)
        shards = {shard.name: shard for shard in content.shards}
        manifest = DatasetManifest(content.state == "complete", content.labels, content.patterns, shards)
        path = folder / _JOURNAL
        changes, _ = _read_journal(folder)
        for change in changes:
            manifest.apply(msgspec.convert(change, Change))
            manifest.complete = False
    except msgspec.ValidationError as error:
        raise DatasetError(f"{path}: is damaged: {error}. Make the dataset again") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None
    return manifest


def save_manifest(
    folder: Path, manifest: DatasetManifest, version: str, columns: Mapping[str, Mapping[str, str]]
) -> None:
    """Write the manifest and delete the journal; OSError if the system refuses.

    `columns`: by table, the type of each column by its name, for other readers of the manifest.
    """
    # in the order of captures: equal datasets have equal manifests, whatever the order in which shards were finished
    shards = sorted(manifest.shards.values(), key=lambda shard: shard.captures[0].path)
    head = {
        "schema": SCHEMA,
        "version": version,
        "state": "complete" if manifest.complete else "unfinished",
        "labels": manifest.labels,
        "patterns": manifest.patterns,
        "tables": columns,
    }
    temporary = folder / _TEMPORARY
    with open(temporary, "w", encoding="ascii") as file:
        text = json.dumps(head, indent=1)
        file.write(f'{text.removesuffix("}").rstrip()},\n "shards": [')
        for i, shard in enumerate(shards):  # shard by shard, to avoid a second copy of 100,000 captures in memory
            file.write(f"{',' if i else ''}\n{_to_json(shard)}")
        file.write("\n]}\n")
        os.fsync(file.fileno())
    os.replace(temporary, folder / _MANIFEST)
    fsync_folder(folder)
    (folder / _JOURNAL).unlink(missing_ok=True)


class ManifestJournal:
    """Appends lines to the journal. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Open the journal after its last complete line; OSError if the system refuses."""
        _, size = _read_journal(folder)
        self._file = open(folder / _JOURNAL, "ab", buffering=0)  # noqa: SIM115 - closed at the end of the context
        self._file.truncate(size)
        self._size = size
        fsync_folder(folder)

    def add(self, change: Change) -> None:
        """Write a change and flush it to disk."""
        line = f"{_to_json(change)}\n".encode("ascii")
        try:
            rest = memoryview(line)
            while rest:  # a disk that fills up accepts a part of the line before it reports an error
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # lines after an incomplete one would not be read
                self._file.truncate(self._size)
            raise
        self._size += len(line)

    def __enter__(self) -> "ManifestJournal":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


def check_own_files(folder: Path) -> None:
    """Refuse to write to a dataset whose files or table folders are links or devices.

    A dataset may come from a stranger, and a batch would write to, or delete from, whatever a link in it points to.

    Raises:
        DatasetError: a name that a batch writes to is not a file or folder of the dataset itself.

    """
    expected = dict.fromkeys((_MANIFEST, _TEMPORARY, _JOURNAL, _LOCK), stat.S_ISREG)
    expected.update(dict.fromkeys(TABLES, stat.S_ISDIR))
    for name, is_own in expected.items():
        path = folder / name
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if not is_own(mode):
            kind = "folder" if name in TABLES else "file"
            problem = "a symbolic link" if stat.S_ISLNK(mode) else f"not a {kind}"
            raise DatasetError(f"{path}: is {problem}. A batch writes only to a dataset that has the {kind} itself")


def list_own_files(folder: Path) -> list[str]:
    """Return the paths that the files of a dataset have, apart from its tables."""
    return [str(folder / name) for name in (_MANIFEST, _JOURNAL, _LOCK)]


@contextmanager
def lock_dataset(folder: Path) -> Iterator[None]:
    """Lock the dataset against other processes, where the file system supports locks.

    Raises:
        DatasetError: another process is changing it.
        OSError: the lock file cannot be created.
    """
    with open(folder / _LOCK, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(f"{folder}: another batch is writing to it. Wait until it has ended") from None
        except OSError:
            pass  # network file systems may not support locks
        yield


def fsync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, where the file system supports it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _to_json(value: Shard | Change) -> str:
    return json.dumps(msgspec.to_builtins(value))


def _read_journal(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """The changes of complete lines, and the size of these lines in bytes."""
    changes: list[dict[str, Any]] = []
    size = 0
    if not (folder / _JOURNAL).exists():
        return changes, 0
    with open(folder / _JOURNAL, "rb") as file:
        for line in file:
            try:
                change = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:  # a power failure may leave zeros
                change = None
            if not isinstance(change, dict):
                break
            changes.append(change)
            size += len(line)
    return changes, size
