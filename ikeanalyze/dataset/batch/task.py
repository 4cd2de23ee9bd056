"""The unit of work of a batch: reads some captures and writes their rows as one hidden shard.

A task runs in a process of this machine or on a worker of a cluster, and needs only the files that it names. Running it
twice gives the same rows. An error of a capture is recorded in its row; an error of the dataset's disk ends the batch,
because it would occur again.
"""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from msgspec.structs import replace

from ikeanalyze._version import installed_version
from ikeanalyze.analysis.options import Progress, ReadOptions, Vantage
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import ACCOUNTING, Analysis, CaptureSummary, format_path
from ikeanalyze.analysis.tables.selection import EVERY_HANDSHAKE, HandshakeSelection, select_handshakes
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.batch.key_files import FileState, hash_file, hash_files
from ikeanalyze.dataset.buckets.plan import measure_captures, plan_buckets
from ikeanalyze.dataset.columns import add_label_columns, get_columns, to_portable_types
from ikeanalyze.dataset.labels import LabelType, Value
from ikeanalyze.dataset.manifest import TABLES, CaptureEntry, Shard, State

if TYPE_CHECKING:
    from ikeanalyze.keys.detect import KeyFile

#: Attributes of `CaptureSummary` that are columns of the table of captures, in its order.
_SUMMARY_COLUMNS: Final = ("format", "packets", "bytes", "first_ns", "last_ns", "snaplen_truncated", "damaged")


class TaskError(Exception):
    """A task failed for a reason outside its captures: one line for the user."""


class NoWorkersError(TaskError):
    """The workers cannot be reached, so that no task can begin."""


@dataclass(frozen=True, slots=True)
class BatchReadOptions:
    """The options of reading captures that change rows."""

    ports: tuple[int, ...] = ()  # IKE ports in addition to 500 and 4500
    vantage: Vantage | None = None  # the side on which they were captured, if known
    selection: HandshakeSelection = EVERY_HANDSHAKE  # the handshakes that get rows

    def to_dict(self) -> dict[str, Any]:
        """The options as stored in the manifest."""
        return {"ports": list(self.ports), "vantage": self.vantage, **self.selection.to_dict()}


@dataclass(frozen=True, slots=True)
class TaskCapture:
    """A capture to read."""

    capture: str  # its name in the tables
    path: str  # absolute
    labels: Mapping[str, Value]
    keys: tuple[FileState, ...]  # key files of this capture


@dataclass(frozen=True, slots=True)
class BatchTask:
    """Captures that become one shard."""

    dataset: str  # absolute path of its folder
    captures: tuple[TaskCapture, ...]
    shared_keys: tuple[FileState, ...]  # key files for every capture
    label_types: Mapping[str, LabelType]  # label columns
    reading: BatchReadOptions
    version: str  # of ikeanalyze; the worker must have the same


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a task."""

    token: str  # of the hidden files
    shard: Shard
    warned: int  # captures with warnings
    process: str  # that ran the task, for messages


@dataclass(slots=True)
class _CaptureOutcome:
    """The outcome of one capture."""

    wanted: TaskCapture
    # of the file and its keys before they were read, so that the next batch detects later changes
    bytes: int = 0
    mtime_ns: int = 0
    sha256: str | None = None  # None: the next batch reads the file again
    keys_sha256: str | None = None
    reason: str | None = None  # why it could not be read; None: it was read
    summary: CaptureSummary | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def state(self) -> State:
        return "read" if self.reason is None else "failed"


def run_task(task: BatchTask, progress: Progress | None = None) -> TaskResult:
    """Read the captures of a task and write its shard. `progress` is called only for a capture that is read alone.

    Raises:
        TaskError: this process cannot access the dataset or the shared key files, cannot write to the dataset, or has
            another or an incomplete installation of ikeanalyze.
    """
    if installed_version() != task.version:
        raise TaskError(
            f"the worker {_describe_process()} has ikeanalyze {installed_version()}, but this is {task.version}. "
            "Install the same version on all"
        )
    dataset = Path(task.dataset)
    if not (dataset / TABLES[0]).is_dir():
        raise TaskError(
            f"{dataset}: the worker {_describe_process()} cannot access this folder. "
            "Name a folder with -o that all workers share"
        )
    captures = [_inspect(wanted, task.shared_keys) for wanted in task.captures]
    analyses = _analyse(task, [capture for capture in captures if capture.reason is None], progress)
    for capture in captures:
        _check_unchanged(capture)
    return _write(task, captures, analyses)


def make_failed_shard(task: BatchTask, reason: str) -> TaskResult:
    """The shard of a task that could not be run: all its captures failed for this reason."""
    return _write(task, [_CaptureOutcome(wanted, reason=reason) for wanted in task.captures], [])


def _write(task: BatchTask, captures: Sequence[_CaptureOutcome], analyses: Sequence[Analysis]) -> TaskResult:
    tables = _build_tables(captures, analyses, task.label_types)
    shard = Shard(
        name="",
        version=task.version,
        reading=task.reading.to_dict(),
        labels=task.label_types,
        rows={name: tables[name].height for name in TABLES},
        captures=[_make_entry(capture, task) for capture in captures],
    )
    try:
        token, sizes = shards.write_unpublished(Path(task.dataset), tables)
    except OSError as error:
        raise TaskError(
            f"{task.dataset}: cannot be written to ({error.strerror or error}). Run the same command again to resume"
        ) from None
    shard = shards.name_shard(replace(shard, bytes=sizes))
    return TaskResult(token, shard, sum(bool(capture.warnings) for capture in captures), _describe_process())


def _describe_process() -> str:
    return f"{os.uname().nodename}, process {os.getpid()}"


def _inspect(wanted: TaskCapture, shared_keys: Sequence[FileState]) -> _CaptureOutcome:
    """The size, time and digest of a capture before it is read, or the reason why it cannot be."""
    capture = _CaptureOutcome(wanted, keys_sha256=hash_files((*wanted.keys, *shared_keys)))
    try:
        status = os.stat(wanted.path)
        capture.bytes, capture.mtime_ns = status.st_size, status.st_mtime_ns
        if format_path(wanted.path) != wanted.path:
            capture.reason = "its path is not UTF-8: rename it"
            return capture
        capture.sha256 = hash_file(wanted.path)
    except FileNotFoundError:
        capture.reason = "no such file"
    except (OSError, ValueError) as error:
        capture.reason = f"cannot be read ({getattr(error, 'strerror', None) or error})"
    return capture


def _check_unchanged(capture: _CaptureOutcome) -> None:
    if capture.reason is not None:
        return
    try:
        status = os.stat(capture.wanted.path)
        same = (status.st_size, status.st_mtime_ns) == (capture.bytes, capture.mtime_ns)
    except OSError:
        same = False
    if not same:
        capture.reason = "it changed while it was read. Run the batch again when it is complete"
        capture.sha256 = None


def _analyse(task: BatchTask, readable: Sequence[_CaptureOutcome], progress: Progress | None) -> list[Analysis]:
    """Read captures together, or, after an internal error, one by one to find the capture that causes it."""
    try:
        return [_read(task, readable, progress)] if readable else []
    except TaskError:
        raise
    except ImportError as error:
        raise TaskError(
            f"the worker {_describe_process()} lacks a dependency of ikeanalyze ({error}). Install ikeanalyze there again"
        ) from None
    except (Exception, pl.exceptions.PanicException) as error:
        if len(readable) > 1:
            return [analysis for capture in readable for analysis in _analyse(task, [capture], None)]
        (capture,) = readable
        capture.sha256 = None  # the capture is not the cause: the next batch tries again
        if isinstance(error, MemoryError):
            capture.reason = "not enough memory. Split it (editcap -c)"
        else:
            capture.reason = f"internal error: {type(error).__name__}: {error}. This is a bug of ikeanalyze"
        return []


def _read(task: BatchTask, readable: Sequence[_CaptureOutcome], progress: Progress | None) -> Analysis:
    """Read captures, and add their summaries, warnings and reasons."""
    by_path = {capture.wanted.path: capture for capture in readable}
    own_keys = {
        path: [key.path for key in capture.wanted.keys] for path, capture in by_path.items() if capture.wanted.keys
    }
    options = ReadOptions(
        ports=task.reading.ports,
        vantage=task.reading.vantage,
        keys=_read_shared_keys(task.shared_keys),
        own_keys=own_keys,
        ids_per_capture=True,
        frames_table=False,
        progress=progress if len(readable) == 1 else None,
    )
    analysis = _read_large_capture(list(by_path), options) or read_captures(list(by_path), options)
    analysis = select_handshakes(analysis, task.reading.selection)
    for summary in analysis.captures:
        by_path[summary.path].summary = summary
    warnings: dict[str, list[str]] = {}
    key_warnings: dict[str, list[str]] = {}  # of key files; a capture may be named as its own key file
    for warning in analysis.warnings:
        by_file = warnings if warning.capture in by_path else key_warnings
        by_file.setdefault(warning.capture, []).append(str(warning))
    for skipped in analysis.skipped:
        if skipped.keys:
            key_warnings.setdefault(skipped.path, []).append(f"not used: {skipped.reason}")
        else:
            by_path[skipped.path].reason = skipped.reason
            if skipped.internal_error:  # the capture is not the cause: the next batch tries again
                by_path[skipped.path].sha256 = None
    for path, capture in by_path.items():
        of_keys = [
            f"{_get_relative_path(capture.wanted, key)}: {text}"
            for key in capture.wanted.keys
            for text in key_warnings.get(key.path, ())
        ]
        capture.warnings = warnings.get(path, []) + of_keys
    return analysis


def _read_large_capture(paths: Sequence[str], options: ReadOptions) -> Analysis | None:
    """Read a capture in parts on this machine's disk; None: it fits into memory, or needs to be read there.

    Raises:
        TaskError: the disk has not enough space.
    """
    if len(paths) > 1 or options.keys or options.own_keys:
        return None
    size = measure_captures(paths)
    plan = None if size is None else plan_buckets(size, 1, None)
    if plan is None:
        return None
    # most batches have no such capture
    from ikeanalyze.dataset.buckets.analysis import BucketSettings, analyse_in_buckets
    from ikeanalyze.dataset.buckets.frame_buckets import BucketSpaceError
    from ikeanalyze.dataset.buckets.numbering import UnorderedBucketError

    settings = BucketSettings(plan.buckets, tempfile.gettempdir())
    try:
        with analyse_in_buckets(paths, replace(options, frames_table=False), settings) as (result, tables):
            return result.make_analysis(tables)
    except (CaptureError, UnorderedBucketError):
        return None
    except BucketSpaceError as error:
        raise TaskError(
            f"{error}. Set TMPDIR to a directory on another disk on {_describe_process()}, and run the same command again"
        ) from None


@lru_cache(1)
def _read_shared_keys(files: tuple[FileState, ...]) -> "list[KeyFile]":
    """The key files for every capture, read once in a process. The batch could read them when it began.

    Raises:
        TaskError: this process cannot read a file.
    """
    if not files:
        return []
    from ikeanalyze.keys.detect import KeyFileError, read_keys  # loads the readers of key files

    try:
        return [read_keys(file.path) for file in files]
    except KeyFileError as error:
        raise TaskError(
            f"{error}. The worker {_describe_process()} needs this key file: name a file with --keys that all workers share"
        ) from None


def _build_tables(
    captures: Sequence[_CaptureOutcome], analyses: Sequence[Analysis], label_types: Mapping[str, LabelType]
) -> dict[str, pl.DataFrame]:
    """The four tables; the rows of a capture are contiguous and in the order of the captures."""
    readable = [capture.wanted for capture in captures if capture.reason is None]
    paths = [wanted.path for wanted in readable]
    names = pl.col("capture").replace_strict(paths, [wanted.capture for wanted in readable], return_dtype=pl.String)
    labels = {capture.wanted.capture: capture.wanted.labels for capture in captures}
    tables = {}
    for name in TABLES[1:]:
        parts = [to_portable_types(getattr(analysis, name).lazy(), name) for analysis in analyses]
        if parts and paths:
            tables[name] = pl.concat(parts).filter(pl.col("capture").is_in(paths)).with_columns(names).collect()
        else:
            tables[name] = pl.DataFrame(schema=get_columns(name, {}))
    tables["captures"] = _build_captures_table(captures, tables["handshakes"])
    for name in ("captures", "handshakes"):
        tables[name] = add_label_columns(tables[name], labels, label_types)
    return tables


def _build_captures_table(captures: Sequence[_CaptureOutcome], handshakes: pl.DataFrame) -> pl.DataFrame:
    counts = dict(handshakes.filter(~pl.col("rekeyed")).group_by("capture").len().iter_rows())
    rows = []
    for capture in captures:
        name = capture.wanted.capture
        keys = [_get_relative_path(capture.wanted, key) for key in capture.wanted.keys]
        row: list[Any] = [name, capture.state, capture.reason, capture.bytes, capture.sha256, keys]
        if (summary := capture.summary) is not None and capture.reason is None:
            row += [
                *(getattr(summary, column) for column in _SUMMARY_COLUMNS),
                *(by.get(use, 0) for use in ACCOUNTING for by in (summary.accounting, summary.accounting_bytes)),
                counts.get(name, 0),
                capture.warnings,
            ]
        rows.append(row)
    schema = get_columns("captures", {})
    full = [row + [None] * (len(schema) - len(row)) for row in rows]
    return pl.DataFrame(full, schema=schema, orient="row")


def _get_relative_path(wanted: TaskCapture, key: FileState) -> str:
    """A key file as seen from its capture, which is the same on every machine."""
    return format_path(os.path.relpath(key.path, os.path.dirname(wanted.path)))


def _make_entry(capture: _CaptureOutcome, task: BatchTask) -> CaptureEntry:
    keys = (*capture.wanted.keys, *task.shared_keys)
    return CaptureEntry(
        capture=capture.wanted.capture,
        path=capture.wanted.path,
        bytes=capture.bytes,
        mtime_ns=capture.mtime_ns,
        sha256=capture.sha256,
        state=capture.state,
        reason=capture.reason,
        labels=dict(capture.wanted.labels),
        keys=[(key.path, key.bytes, key.mtime_ns) for key in keys],
        keys_sha256=capture.keys_sha256,
    )
