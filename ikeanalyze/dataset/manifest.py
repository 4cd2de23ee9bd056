"""What a dataset is: which shards it has, of which captures, and how that stays right whatever happens.

A dataset is a folder. `manifest.json` (schema `ikeanalyze.dataset/1`) lists its shards; a shard is a file in each of the
folders `captures`, `handshakes`, `exchanges`, `messages`, all four of one name, and has the rows of one or more captures.
What the manifest does not list is no part of the dataset, whatever lies there.

While a batch runs, each change is a line at the end of `journal.jsonl`: a shard that is whole and on the disk, or one whose
captures are to be read again. When the batch ends, well or with an error, the manifest is written anew with all of that, takes
the place of the old one in one step (rename), and the journal goes. So a process that is killed, at whatever moment,
leaves a manifest and a journal whose last line may be torn: what stands in whole lines is done, what does not has not happened.
Reading a journal twice changes nothing, which is why it does not matter if the kill comes between the new manifest and
the end of the journal.

Changing a dataset is for one process at a time: it holds a lock on the file `lock`, which the system takes away from
a process that is killed.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, cast, get_args

from ikeanalyze.dataset.patterns import Kind, Value

SCHEMA: Final = "ikeanalyze.dataset/1"
TABLES: Final = ("captures", "handshakes", "exchanges", "messages")
State = Literal["read", "failed"]

_MANIFEST: Final = "manifest.json"
_JOURNAL: Final = "journal.jsonl"
_LOCK: Final = "lock"


class DatasetError(Exception):
    """A folder that is no dataset that we can read or write: one line for the user."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A capture of the dataset."""

    capture: str  # its name in the tables: the path as it was given; no other capture has it
    path: str  # absolute, by which it is known again
    bytes: int  # of the file
    mtime_ns: int
    #: Of the file's bytes as they are, compressed or not; None: it could not be opened, or failed for a reason that is
    #: not in it, and is tried again.
    sha256: str | None
    state: State
    reason: str | None  # why it could not be read
    labels: Mapping[str, Value]
    keys: Sequence[tuple[str, int, int]]  # files with keys: path, bytes, mtime_ns
    keys_sha256: str | None  # over the digests of these files; None: there are none


@dataclass(frozen=True, slots=True)
class Shard:
    """Files of the same name, one in each table's folder."""

    name: str  # of the files, without `.parquet`
    version: str  # of the ikeanalyze that read the captures
    reading: Mapping[str, Any]  # how it read them, where that changes rows: ports, vantage
    labels: Mapping[str, Kind]  # label columns that its files have
    rows: Mapping[str, int]  # by table
    captures: Sequence[Entry]
    #: Of its files, by table, so that one that was cut is known; empty: an earlier ikeanalyze wrote them.
    bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Manifest:
    """The dataset as it stands."""

    complete: bool  # the last batch has done all that it was asked for
    labels: dict[str, Kind] = field(default_factory=dict)  # label columns, in order
    patterns: list[str] = field(default_factory=list)  # of `--label`, as they were given last
    shards: dict[str, Shard] = field(default_factory=dict)  # by name

    def entries(self) -> Iterator[tuple[Shard, Entry]]:
        """All captures, with their shards."""
        for shard in self.shards.values():
            for entry in shard.captures:
                yield shard, entry

    def apply(self, change: Mapping[str, Any]) -> None:
        """One line of the journal: shards go, another comes, or what is asked for changes."""
        for name in change.get("drop", ()):
            self.shards.pop(name, None)
        if "add" in change:
            shard = _shard(change["add"])
            self.shards[shard.name] = shard
        if "labels" in change:
            self.labels = _kinds(change["labels"])
            self.patterns = _patterns(change["patterns"])


def load(folder: Path) -> Manifest:
    """The dataset in `folder`: its manifest and what the journal has of an unfinished batch.

    Raises:
        DatasetError: it is none, is damaged, or is of a later schema.

    """
    path = folder / _MANIFEST
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        what = "no dataset" if folder.is_dir() else "no such folder"
        raise DatasetError(f"{folder}: {what}. `ikeanalyze batch PATH... -o DATASET` makes one") from None
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, RecursionError):
        raise DatasetError(f"{path}: is no manifest of a dataset, or is damaged") from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(SCHEMA.rpartition("/")[0]):
            raise DatasetError(f"{path}: schema {schema}, and this ikeanalyze knows {SCHEMA}. Use a later one")
        raise DatasetError(f"{path}: is no manifest of a dataset (its schema is not {SCHEMA})")
    try:
        manifest = Manifest(
            complete=document["state"] == "complete",
            labels=_kinds(document["labels"]),
            patterns=_patterns(document["patterns"]),
            shards={one["name"]: _shard(one) for one in document["shards"]},
        )
        changes, _ = _read_journal(folder)
        for change in changes:
            manifest.apply(change)
            manifest.complete = False
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DatasetError(
            f"{path}: is damaged: something that belongs there is missing, or is of another kind. Make the dataset anew"
        ) from None
    except OSError as error:
        raise DatasetError(f"{folder / _JOURNAL}: cannot be read ({error.strerror or error})") from None
    return manifest


def save(folder: Path, manifest: Manifest, version: str, columns: Mapping[str, Mapping[str, str]]) -> None:
    """Write the manifest and end the journal; OSError if the system refuses.

    `columns`: by table, the type of each column by its name, for readers of the manifest.
    """
    # in the order of captures: the same dataset has the same manifest, in whichever order its shards were done
    shards = sorted(manifest.shards.values(), key=lambda shard: shard.captures[0].path)
    head = {
        "schema": SCHEMA,
        "version": version,
        "state": "complete" if manifest.complete else "unfinished",
        "labels": manifest.labels,
        "patterns": manifest.patterns,
        "tables": columns,
    }
    temporary = folder / f".{_MANIFEST}.tmp"
    with open(temporary, "w", encoding="ascii") as file:
        text = json.dumps(head, indent=1)
        file.write(f'{text.removesuffix("}").rstrip()},\n "shards": [')
        for i, shard in enumerate(shards):  # one by one: a hundred thousand captures need no second copy in memory
            file.write(f"{',' if i else ''}\n{json.dumps(asdict(shard))}")
        file.write("\n]}\n")
        sync(file.fileno())
    os.replace(temporary, folder / _MANIFEST)
    sync_folder(folder)
    (folder / _JOURNAL).unlink(missing_ok=True)


class Journal:
    """The end of the journal, to which lines are added. A context manager."""

    def __init__(self, folder: Path) -> None:
        """Open it behind its last whole line; OSError if that cannot be."""
        _, size = _read_journal(folder)
        self._file = open(folder / _JOURNAL, "ab", buffering=0)  # noqa: SIM115 - closed at the end of the context
        self._file.truncate(size)
        self._size = size
        sync_folder(folder)

    def add(self, *, drop: Sequence[str] = (), add: Shard | None = None, **more: Any) -> dict[str, Any]:
        """Write a change, as `Manifest.apply` takes it, to the disk, and return it."""
        change: dict[str, Any] = {"drop": list(drop), **more}
        if add is not None:
            change["add"] = asdict(add)
        line = f"{json.dumps(change)}\n".encode("ascii")
        try:
            rest = memoryview(line)
            while rest:  # a disk that becomes full takes a part first, and then says so
                rest = rest[self._file.write(rest) :]
            sync(self._file.fileno())
        except OSError:
            with suppress(OSError):  # a torn line is not read; behind it, none would be
                self._file.truncate(self._size)
            raise
        self._size += len(line)
        return change

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the dataset meanwhile, where the file system has locks at all.

    Raises:
        DatasetError: another one is changing it.
        OSError: the system refuses to make the file.

    """
    with open(folder / _LOCK, "ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(f"{folder}: another batch is writing to it. Wait until it has ended") from None
        except OSError:
            pass  # file systems of clusters may have none
        yield


def sync(descriptor: int) -> None:
    """Have what was written on the disk before anything else is said to be done."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk; a file system that cannot do that is left alone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):
            sync(descriptor)
    finally:
        os.close(descriptor)


def _read_journal(folder: Path) -> tuple[list[Mapping[str, Any]], int]:
    """Changes in whole lines, and the bytes that these take."""
    changes: list[Mapping[str, Any]] = []
    size = 0
    if not (folder / _JOURNAL).exists():
        return changes, 0
    with open(folder / _JOURNAL, "rb") as file:
        for line in file:
            try:
                change = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:  # a power cut may leave zeros
                change = None
            if not isinstance(change, dict):
                break
            changes.append(change)
            size += len(line)
    return changes, size


def _shard(document: Mapping[str, Any]) -> Shard:
    """Raises KeyError, TypeError or ValueError if it is not one as `save` writes it."""
    shard = Shard(**{**document, "captures": [_entry(one) for one in document["captures"]]})
    if not shard.captures:
        raise KeyError("captures")  # a shard is written of some, and goes with the last of them
    _are(str, (shard.name, shard.version))
    if "/" in shard.name:  # it would be a file of another folder
        raise ValueError("name")
    _are(dict, (shard.reading, shard.rows, shard.bytes))
    _are(int, (*shard.rows.values(), *shard.bytes.values()))
    return replace(shard, labels=_kinds(shard.labels))


def _entry(document: Mapping[str, Any]) -> Entry:
    entry = Entry(**{**cast(dict[str, Any], document), "keys": [tuple(key) for key in document["keys"]]})
    _are(str, (entry.capture, entry.path))
    _are(int, (entry.bytes, entry.mtime_ns))
    _are(str | None, (entry.sha256, entry.reason, entry.keys_sha256))
    _are(dict, (entry.labels,))
    _are(str | int | float, entry.labels.values())
    for path, size, mtime_ns in entry.keys:
        _are(str, (path,))
        _are(int, (size, mtime_ns))
    if entry.state not in get_args(State):
        raise ValueError("state")
    return entry


def _kinds(document: Any) -> dict[str, Kind]:
    """Label columns by their names."""
    _are(dict, (document,))
    if not set(document.values()) <= set(get_args(Kind)):
        raise ValueError("labels")
    return dict(document)


def _patterns(document: Any) -> list[str]:
    _are(list, (document,))
    _are(str, document)
    return list(document)


def _are(kind: type | UnionType, values: Iterable[Any]) -> None:
    """Raise TypeError unless all of `values` are of this kind."""
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{type(value).__name__} in place of {kind}")
