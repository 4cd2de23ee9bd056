"""Runs a batch: reads captures into the rows of a dataset, and resumes after an interruption.

The order of the steps makes this safe. A shard is first written completely under hidden names and flushed to disk; then
it gets its final names; then the journal records it. If captures must be read again, or labels have changed, one line
of the journal replaces the old shard by one without these captures, or with the new labels, before anything new is
read. Files that are not listed are removed at the start of the next batch.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from ikeanalyze._version import installed_version
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.batch.discovery import DiscoveryResult, find_captures
from ikeanalyze.dataset.batch.dispatch import Workers, run_tasks
from ikeanalyze.dataset.batch.key_files import FileState, KeyFileFinder, get_file_state
from ikeanalyze.dataset.batch.plan import BatchPlan, BatchRequest, make_plan
from ikeanalyze.dataset.batch.task import BatchReadOptions, BatchTask, NoWorkersError, TaskError, TaskResult
from ikeanalyze.dataset.columns import describe_columns, get_reserved_names
from ikeanalyze.dataset.copies import CaptureOverlap, find_overlaps
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.labels import LabelPattern, label_captures, parse_pattern
from ikeanalyze.dataset.manifest import (
    TABLES,
    CaptureEntry,
    Change,
    DatasetError,
    DatasetManifest,
    ManifestJournal,
    check_own_files,
    check_path,
    list_own_files,
    load_manifest,
    lock_dataset,
    save_manifest,
)

#: Files that a folder may contain to become a dataset: a batch that was killed in its first moments leaves them.
_INITIAL_FILES: Final = {"lock", ".manifest.json.tmp"}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options of a batch."""

    paths: Sequence[str]  # files, folders, glob patterns
    dataset: Path
    keys: Sequence[str] = ()  # key files for all captures, and folders of key files
    #: None: those of the last batch for new captures; other captures keep their labels.
    patterns: Sequence[LabelPattern] | None = None
    reading: BatchReadOptions = field(default_factory=BatchReadOptions)


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """Progress of a batch; counts the captures that it has to read."""

    captures: int
    captures_done: int
    bytes: int
    bytes_done: int
    failed: int


@dataclass(slots=True)
class BatchSummary:
    """Result of a batch."""

    read: int = 0  # captures that were read, or cannot be
    unchanged: int = 0  # requested captures that did not have to be read
    failed: list[CaptureEntry] = field(default_factory=list)  # requested captures that cannot be read
    unchanged_failed: int = 0  # those of them that are unchanged
    warned: int = 0  # captures read with warnings, which are in the column `warnings`
    handshakes: int = 0  # in the dataset
    captures: int = 0  # in the dataset
    seconds: float = 0.0
    overlaps: list[CaptureOverlap] = field(default_factory=list)  # captures of the dataset that have the same packets
    problems: int = 0  # paths, key files and folders of key files that do not exist or cannot be read


def run_batch(
    options: BatchOptions,
    workers: Callable[[int], Workers],
    progress: Callable[[BatchStatus], object] | None,
    say: Callable[[str], object],
    discovered: DiscoveryResult | None = None,
) -> BatchSummary:
    """Run a batch.

    Args:
        options: of the batch.
        workers: called with the number of tasks, if there are any, to get the workers that run them.
        progress: called at intervals, unless None.
        say: called with lines for the user.
        discovered: the captures of `options.paths`, if they have been searched.

    Raises:
        DatasetError: there are no captures, or the dataset cannot be read or written.
        TaskError: a task failed for a reason outside its captures.
        LabelError: labels cannot become columns.
    """
    start = time.monotonic()
    if discovered is None:
        discovered = find_captures(options.paths, options.dataset)
    for problem in discovered.problems:
        say(problem)
    keys, shared, bad_keys = _sort_key_arguments(options.keys, say)
    if not discovered.captures:
        raise DatasetError("no capture to read")
    try:
        with _open_locked(options.dataset) as manifest:
            _report_missing(discovered, manifest, say)
            request, patterns = _make_request(options, discovered, keys, shared, manifest, say)
            batch = _Batch(options.dataset, manifest, request, progress, say)
            batch.run(workers, patterns)
    except OSError as error:
        begun = os.path.exists(options.dataset / "manifest.json")
        kept = ". Run the same command again to resume" if begun else ". Name another folder with -o"
        raise DatasetError(f"{options.dataset}: cannot be written to ({error.strerror or error}){kept}") from None
    batch.summary.problems = len(discovered.problems) + bad_keys + len(keys.problems)
    batch.summary.seconds = time.monotonic() - start
    return batch.summary


@contextmanager
def _open_locked(dataset: Path) -> Iterator[DatasetManifest]:
    """Open and lock the dataset in a folder; an empty folder becomes a dataset.

    A new dataset is removed again if the workers of its cluster cannot be reached.
    """
    check_path(dataset)
    if dataset.exists() and not dataset.is_dir():
        raise DatasetError(f"{dataset}: is a file. Name a folder with -o")
    made = [folder for folder in (dataset, *dataset.parents) if not folder.exists()]
    dataset.mkdir(parents=True, exist_ok=True)
    names = set(os.listdir(dataset))
    if "manifest.json" not in names and not names <= _INITIAL_FILES:
        raise DatasetError(f"{dataset}: is neither empty nor a dataset. Name another folder with -o")
    check_own_files(dataset)
    if "manifest.json" in names and "lock" not in names:  # perhaps that of something else, which stays as it is
        load_manifest(dataset)
    with lock_dataset(dataset):
        if is_new := not (dataset / "manifest.json").exists():
            save_manifest(dataset, DatasetManifest(complete=False), installed_version(), describe_columns({}))
        manifest = load_manifest(dataset)
        shards.make_folders(dataset)
        try:
            yield manifest
        except NoWorkersError:
            if is_new:
                _remove_empty_dataset(dataset, made)
            raise


def _remove_empty_dataset(dataset: Path, made: Sequence[Path]) -> None:
    """Remove a dataset without captures, and the folders that were made for it; other files in them stay."""
    with suppress(OSError):
        for table in TABLES:
            (dataset / table).rmdir()
        for path in list_own_files(dataset):
            Path(path).unlink(missing_ok=True)
        for folder in made:
            folder.rmdir()


def _sort_key_arguments(
    arguments: Sequence[str], say: Callable[[str], object]
) -> tuple[KeyFileFinder, tuple[FileState, ...], int]:
    """Sort the arguments of `--keys`: the folders, the files for all captures, and the number of unusable arguments."""
    shared: list[FileState] = []
    folders = []
    bad = 0
    for path in arguments:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            folders.append(absolute)
            continue
        if os.path.exists(absolute) and not os.path.isfile(absolute):
            say(f"{path}: not a regular file, but a batch reads keys more than once. Write them to a file")
            bad += 1
            continue
        from ikeanalyze.keys.detect import KeyFileError, read_keys  # loads the readers of key files

        try:
            warnings = read_keys(path).warnings
        except KeyFileError as error:
            say(str(error))
            bad += 1
            continue
        for warning in warnings:
            say(str(warning))
        if (state := get_file_state(absolute)) is not None:
            shared.append(state)
    return KeyFileFinder(folders=folders), tuple(shared), bad


def _report_missing(discovered: DiscoveryResult, manifest: DatasetManifest, say: Callable[[str], object]) -> None:
    """Report the captures of the dataset that are no longer in the folders; their rows stay."""
    requested = {capture.path for capture in discovered.captures}
    folders = tuple(os.path.join(folder, "") for folder in discovered.folders)
    missing = [
        entry.capture
        for _, entry in manifest.entries()
        if entry.path not in requested and entry.path.startswith(folders) and not os.path.exists(entry.path)
    ]
    if missing:
        single = len(missing) == 1
        say(
            f"{len(missing):,} {'capture' if single else 'captures'} of the dataset {'does' if single else 'do'} not "
            f"exist any more; {'its' if single else 'their'} rows stay: {min(missing)}{'' if single else ', ...'}"
        )


def _make_request(
    options: BatchOptions,
    discovered: DiscoveryResult,
    keys: KeyFileFinder,
    shared: tuple[FileState, ...],
    manifest: DatasetManifest,
    say: Callable[[str], object],
) -> tuple[BatchRequest, list[str]]:
    """The request, with the labels of the captures, and the patterns of these labels."""
    patterns = options.patterns
    if patterns is None:
        patterns = [parse_pattern(text) for text in manifest.patterns]
    labelled = label_captures(discovered.captures, patterns, get_reserved_names())
    known = set() if options.patterns is not None else {entry.path for _, entry in manifest.entries()}
    if unlabelled := [capture.name for capture in labelled.unlabelled if capture.path not in known]:
        single = len(unlabelled) == 1
        say(
            f"{len(unlabelled):,} {'capture matches' if single else 'captures match'} no --label and "
            f"{'has' if single else 'have'} no labels: {unlabelled[0]}{'' if single else ', ...'}"
        )
    request = BatchRequest(
        captures=discovered.captures,
        labels=labelled.values,
        label_types=labelled.label_types,
        relabel=options.patterns is not None,
        keys=keys,
        shared_keys=shared,
        reading=options.reading,
        version=installed_version(),
    )
    return request, [pattern.text for pattern in patterns]


class _Batch:
    """A running batch."""

    def __init__(
        self,
        dataset: Path,
        manifest: DatasetManifest,
        request: BatchRequest,
        progress: Callable[[BatchStatus], object] | None,
        say: Callable[[str], object],
    ) -> None:
        self.summary = BatchSummary()
        self._dataset = dataset
        self._manifest = manifest
        self._request = request
        self._progress = progress
        self._say = say

    def run(self, workers: Callable[[int], Workers], patterns: list[str]) -> None:
        """Run all steps; after an error, the manifest has what was done before."""
        manifest = self._manifest
        try:
            with ManifestJournal(self._dataset) as self._journal:
                shards.remove_orphans(self._dataset, manifest.shards)
                if lacking := shards.find_incomplete_shards(self._dataset, manifest.shards.values()):
                    self._report_lost(lacking)
                    self._record_change(Change(drop=lacking))
                    shards.remove_shards(self._dataset, lacking)
                plan = make_plan(manifest, self._request)
                self._report_keys()
                # before the dataset is unfinished: a cluster may not be there
                readers = workers(len(plan.groups)) if plan.groups else None
                try:
                    manifest.complete = False
                    self._record_change(Change(labels=plan.label_types, patterns=patterns))
                    self._update_shards(plan)
                    if readers is not None:
                        self._read_groups(plan, readers)
                finally:
                    if readers is not None:
                        readers.close()
            manifest.complete = True
        except BaseException:
            with suppress(OSError):  # such as a full disk; the journal has all changes
                self._save()
            raise
        self._save()
        self.summary.failed.sort(key=lambda entry: entry.path)
        self.summary.captures = sum(len(shard.captures) for shard in manifest.shards.values())
        dataset = open_dataset(self._dataset)
        self.summary.handshakes = int(dataset.captures.select(pl.col("handshakes").sum()).collect().item())
        if self.summary.read:
            self.summary.overlaps = find_overlaps(dataset.handshakes, dataset.captures)

    def _report_lost(self, lacking: Sequence[str]) -> None:
        """Report the captures of incomplete shards that this batch does not read again."""
        requested = {capture.path for capture in self._request.captures}
        entries = (entry for name in lacking for entry in self._manifest.shards[name].captures)
        if lost := [entry.capture for entry in entries if entry.path not in requested]:
            single = len(lost) == 1
            self._say(
                f"{len(lost):,} {'capture' if single else 'captures'} removed from the dataset because files are "
                f"missing or damaged; name {'it' if single else 'them'} in a batch to read {'it' if single else 'them'} again: "
                f"{min(lost)}{'' if single else ', ...'}"
            )

    def _report_keys(self) -> None:
        """Report problems of the folders of key files, after the key files of all captures are known."""
        keys = self._request.keys
        for problem in keys.problems:
            self._say(problem)
        for folder in keys.folders:
            if folder not in keys.fitting:
                self._say(f"{folder}: no key file for these captures; NAME.* is for NAME.pcapng")

    def _save(self) -> None:
        shards.remove_orphans(self._dataset, self._manifest.shards)
        columns = describe_columns(self._manifest.labels)
        save_manifest(self._dataset, self._manifest, self._request.version, columns)

    def _record_change(self, change: Change) -> None:
        """Record a change in the journal, then in the manifest."""
        self._journal.add(change)
        self._manifest.apply(change)

    def _update_shards(self, plan: BatchPlan) -> None:
        """Update the shards that stay."""
        for shard in plan.shards:
            self._manifest.shards[shard.name] = shard  # modification times may differ; the tables do not have them
        for shard, entries in plan.rewritten:
            if entries:
                token, successor = shards.rewrite_shard(self._dataset, shard, entries, plan.label_types)
                shards.publish_shard(self._dataset, token, successor.name)
                self._record_change(Change(drop=[shard.name], add=successor))
            else:
                self._record_change(Change(drop=[shard.name]))
            shards.remove_shards(self._dataset, [shard.name])
        self.summary.unchanged = len(plan.unchanged)
        self.summary.failed.extend(entry for entry in plan.unchanged if entry.state == "failed")
        self.summary.unchanged_failed = len(self.summary.failed)

    def _read_groups(self, plan: BatchPlan, workers: Workers) -> None:
        """Read all groups."""
        request, summary = self._request, self.summary
        captures = sum(len(group.captures) for group in plan.groups)
        size = sum(group.bytes for group in plan.groups)
        tasks = (
            BatchTask(
                dataset=os.path.abspath(self._dataset),
                captures=group.captures,
                shared_keys=request.shared_keys,
                label_types=plan.label_types,
                reading=request.reading,
                version=request.version,
            )
            for group in plan.groups
        )
        bytes_done = 0

        def report_progress() -> None:
            if self._progress is not None:
                # for a moment, the bytes of a task that has just ended may be in both counts
                so_far = min(size, bytes_done + workers.bytes_read())
                self._progress(BatchStatus(captures, summary.read, size, so_far, len(summary.failed)))

        report_progress()
        for written in run_tasks(tasks, workers, self._say, report_progress):
            self._add_shard(written)
            entries = written.shard.captures
            summary.failed.extend(entry for entry in entries if entry.state == "failed")
            summary.read += len(entries)
            summary.warned += written.warned
            bytes_done += sum(entry.bytes for entry in entries)
            report_progress()

    def _add_shard(self, written: TaskResult) -> None:
        """Add a shard to the dataset."""
        try:
            shards.publish_shard(self._dataset, written.token, written.shard.name)
        except FileNotFoundError:
            raise TaskError(
                f"{self._dataset}: the files that the worker {written.process} wrote are missing. "
                "Name a folder with -o that all workers share"
            ) from None
        self._record_change(Change(add=written.shard))
