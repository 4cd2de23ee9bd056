"""The unit of work: some captures are read, and their rows written as one shard, hidden as yet.

A task is the same whoever does it, a process of this machine or a worker of a cluster, and needs nothing but the files that it
names. Done twice, it gives the same rows. What goes wrong with a capture is said in its row; what goes wrong with the
dataset's disk ends the batch, because it would go wrong again.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

import ikeanalyze
from ikeanalyze.analysis.read import Progress, Vantage, read
from ikeanalyze.analysis.result import ACCOUNTING, Analysis, CaptureSummary
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.columns import columns_of, labelled, made_plain
from ikeanalyze.dataset.finding import text_of
from ikeanalyze.dataset.key_files import FileState, digest_of, digest_of_all
from ikeanalyze.dataset.manifest import TABLES, Entry, Shard, State
from ikeanalyze.dataset.patterns import Kind, Value
from ikeanalyze.keys.files import KeyFile, KeyFileError, read_keys


class TaskError(Exception):
    """A task that cannot be done, for a reason that is not in its captures: one line for the user."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How captures are read, where that changes rows."""

    ports: tuple[int, ...] = ()  # with IKE, besides 500 and 4500
    vantage: Vantage | None = None  # the side that they were taken on, where that is known

    def document(self) -> dict[str, Any]:
        """As it stands in the manifest."""
        return {"ports": list(self.ports), "vantage": self.vantage}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A capture that is to be read."""

    capture: str  # its name in the tables
    path: str  # absolute
    labels: Mapping[str, Value]
    keys: tuple[FileState, ...]  # files with keys of this capture


@dataclass(frozen=True, slots=True)
class Task:
    """Captures to become one shard."""

    dataset: str  # absolute path of its folder
    captures: tuple[Wanted, ...]
    shared_keys: tuple[FileState, ...]  # files with keys for every capture
    kinds: Mapping[str, Kind]  # label columns
    reading: Reading
    version: str  # of ikeanalyze: whoever does the task must have the same


@dataclass(frozen=True, slots=True)
class Written:
    """What a task gives."""

    token: str  # of the hidden files
    shard: Shard
    warned: int  # captures of which something is to be known
    process: str  # who did it, for messages


@dataclass(slots=True)
class _Capture:
    """What became of one capture."""

    wanted: Wanted
    # of the file and its keys before they were read: what changes later is seen the next time
    bytes: int = 0
    mtime_ns: int = 0
    sha256: str | None = None  # None: nothing was found out of this file, and the next batch tries again
    keys_sha256: str | None = None
    reason: str | None = None  # None: it could be read
    summary: CaptureSummary | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def state(self) -> State:
        return "read" if self.reason is None else "failed"


def perform(task: Task, progress: Progress | None = None) -> Written:
    """Read the captures of a task and write its shard. `progress` is told how far a capture is that is read alone.

    Raises:
        TaskError: this process does not see the dataset or the keys for all captures, cannot write to the dataset, or
            has another ikeanalyze, or half of one.

    """
    if ikeanalyze.__version__ != task.version:
        raise TaskError(
            f"the worker {_process()} has ikeanalyze {ikeanalyze.__version__}, and this is {task.version}. "
            "Install the same on all"
        )
    dataset = Path(task.dataset)
    if not (dataset / TABLES[0]).is_dir():
        raise TaskError(
            f"{dataset}: the worker {_process()} does not see this folder. Name one with -o that all workers see"
        )
    found = [_look(wanted, task.shared_keys) for wanted in task.captures]
    analyses = _analyse(task, [one for one in found if one.reason is None], progress)
    for one in found:
        _check_unchanged(one)
    return _write(task, found, analyses)


def failed(task: Task, reason: str) -> Written:
    """The shard of a task that nobody could do: all its captures failed for this reason."""
    found = [_Capture(wanted, reason=reason) for wanted in task.captures]
    return _write(task, found, [])


def _write(task: Task, found: Sequence[_Capture], analyses: Sequence[Analysis]) -> Written:
    tables = _tables(found, analyses, task.kinds)
    shard = Shard(
        name="",
        version=task.version,
        reading=task.reading.document(),
        labels=task.kinds,
        rows={name: tables[name].height for name in TABLES},
        captures=[_entry(one, task) for one in found],
    )
    try:
        token, sizes = shards.write_hidden(Path(task.dataset), tables)
    except OSError as error:
        raise TaskError(
            f"{task.dataset}: cannot be written to ({error.strerror or error}). What is done is kept: the same command "
            "goes on"
        ) from None
    shard = shards.named(replace(shard, bytes=sizes))
    return Written(token, shard, sum(bool(one.warnings) for one in found), _process())


def _process() -> str:
    return f"{os.uname().nodename}, process {os.getpid()}"


def _look(wanted: Wanted, shared_keys: Sequence[FileState]) -> _Capture:
    one = _Capture(wanted, keys_sha256=digest_of_all((*wanted.keys, *shared_keys)))
    try:
        _note_state(one)
        if text_of(wanted.path) != wanted.path:
            one.reason = "its path is not UTF-8: rename it"
            return one
        one.sha256 = digest_of(wanted.path)
    except FileNotFoundError:
        one.reason = "no such file"
    except (OSError, ValueError) as error:
        one.reason = f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return one


def _note_state(one: _Capture) -> None:
    status = os.stat(one.wanted.path)
    one.bytes, one.mtime_ns = status.st_size, status.st_mtime_ns


def _check_unchanged(one: _Capture) -> None:
    if one.reason is not None:
        return
    try:
        status = os.stat(one.wanted.path)
        same = (status.st_size, status.st_mtime_ns) == (one.bytes, one.mtime_ns)
    except OSError:
        same = False
    if not same:
        one.reason = "it changed while it was read. Run the batch again when it is complete"
        one.sha256 = None


def _analyse(task: Task, readable: Sequence[_Capture], progress: Progress | None) -> list[Analysis]:
    """Read captures, all at once or, if something of ours goes wrong, each alone to see with which."""
    try:
        return [_read(task, readable, progress)] if readable else []
    except TaskError:
        raise
    except ImportError as error:
        raise TaskError(
            f"the worker {_process()} lacks a part of what ikeanalyze needs ({error}). Install it there anew"
        ) from None
    except (Exception, pl.exceptions.PanicException) as error:
        if len(readable) > 1:
            return [analysis for one in readable for analysis in _analyse(task, [one], None)]
        (alone,) = readable
        alone.sha256 = None  # it is not the capture's fault: the next batch tries again
        if isinstance(error, MemoryError):
            alone.reason = "not enough memory. Split it (editcap -c)"
        else:
            alone.reason = f"internal error: {type(error).__name__}: {error}. This is a bug of ikeanalyze"
        return []


def _read(task: Task, readable: Sequence[_Capture], progress: Progress | None) -> Analysis:
    """The one place where captures are read. What is wrong with a capture is noted with it."""
    own_keys = {one.wanted.path: [key.path for key in one.wanted.keys] for one in readable if one.wanted.keys}
    analysis = read(
        [one.wanted.path for one in readable],
        ports=task.reading.ports,
        vantage=task.reading.vantage,
        keys=_shared(task.shared_keys),
        own_keys=own_keys,
        own_ids=True,
        progress=progress if len(readable) == 1 else None,
    )
    by_path = {one.wanted.path: one for one in readable}
    for summary in analysis.captures:
        by_path[summary.path].summary = summary
    said: dict[str, list[str]] = {}
    said_of_keys: dict[str, list[str]] = {}
    for warning in analysis.warnings:
        where = "" if warning.frame is None else f"packet {warning.frame}: "
        about = said if warning.capture in by_path else said_of_keys
        about.setdefault(warning.capture, []).append(f"{where}{warning.what}")
    for skipped in analysis.skipped:
        if skipped.keys:
            said_of_keys.setdefault(skipped.path, []).append(f"not used: {skipped.reason}")
        else:
            by_path[skipped.path].reason = skipped.reason
    for one in readable:
        of_keys = [
            f"{_beside(one.wanted, key)}: {what}" for key in one.wanted.keys for what in said_of_keys.get(key.path, ())
        ]
        one.warnings = said.get(one.wanted.path, []) + of_keys
    return analysis


@lru_cache(1)
def _shared(files: tuple[FileState, ...]) -> list[KeyFile]:
    """What is in the files for every capture; read once in a process. They could be read when the batch began.

    Raises:
        TaskError: this process cannot read one.

    """
    try:
        return [read_keys(file.path) for file in files]
    except KeyFileError as error:
        raise TaskError(
            f"{error}. The worker {_process()} needs this file with keys: name one with --keys that all workers see"
        ) from None


def _tables(
    found: Sequence[_Capture], analyses: Sequence[Analysis], kinds: Mapping[str, Kind]
) -> dict[str, pl.DataFrame]:
    """The four tables, the rows of each capture together and in the order of the captures."""
    good = [one for one in found if one.reason is None]
    paths = [one.wanted.path for one in good]
    names = pl.col("capture").replace_strict(paths, [one.wanted.capture for one in good], return_dtype=pl.String)
    labels = {one.wanted.capture: one.wanted.labels for one in found}
    tables = {}
    for name in TABLES[1:]:
        parts = [made_plain(getattr(analysis, name), name) for analysis in analyses]
        if parts and paths:
            tables[name] = pl.concat(parts).filter(pl.col("capture").is_in(paths)).with_columns(names)
        else:
            tables[name] = pl.DataFrame(schema=columns_of(name, {}))
    tables["captures"] = _captures(found, tables["handshakes"])
    for name in ("captures", "handshakes"):
        tables[name] = labelled(tables[name], labels, kinds)
    return tables


def _captures(found: Sequence[_Capture], handshakes: pl.DataFrame) -> pl.DataFrame:
    counts = dict(handshakes.group_by("capture").len().iter_rows())
    rows = []
    for one in found:
        keys = [_beside(one.wanted, key) for key in one.wanted.keys]
        row: list[Any] = [one.wanted.capture, one.state, one.reason, one.bytes, one.sha256, keys]
        if (summary := one.summary) is not None and one.reason is None:
            row += [
                summary.format,
                summary.packets,
                summary.bytes,
                summary.first_ns,
                summary.last_ns,
                summary.snaplen_truncated,
                summary.damaged,
                *(by.get(what, 0) for what in ACCOUNTING for by in (summary.accounting, summary.accounting_bytes)),
                counts.get(one.wanted.capture, 0),
                one.warnings,
            ]  # fmt: skip
        rows.append(row)
    schema = columns_of("captures", {})
    full = [row + [None] * (len(schema) - len(row)) for row in rows]
    return pl.DataFrame(full, schema=schema, orient="row")


def _beside(wanted: Wanted, key: FileState) -> str:
    """A file with keys as seen from its capture: the same on every machine."""
    return text_of(os.path.relpath(key.path, os.path.dirname(wanted.path)))


def _entry(one: _Capture, task: Task) -> Entry:
    keys = (*one.wanted.keys, *task.shared_keys)
    return Entry(
        capture=one.wanted.capture,
        path=one.wanted.path,
        bytes=one.bytes,
        mtime_ns=one.mtime_ns,
        sha256=one.sha256,
        state=one.state,
        reason=one.reason,
        labels=dict(one.wanted.labels),
        keys=[(key.path, key.bytes, key.mtime_ns) for key in keys],
        keys_sha256=one.keys_sha256,
    )
