"""A batch: captures become rows of a dataset, now or, after whatever interrupts it, when it is run again.

The order of things is what makes that safe. A shard is first whole under hidden names and on the disk; then it gets its names;
then the manifest's journal says so. Where captures are to be read again, or labels have changed, the shard without them, or
with the new labels, takes the place of the old one in one line of the journal, before anything new is read. Whatever lies
in the folders and is not listed is removed when the next batch begins.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import ikeanalyze
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.columns import described, reserved
from ikeanalyze.dataset.dispatch import Workers, done
from ikeanalyze.dataset.finding import Found, find_captures
from ikeanalyze.dataset.key_files import FileState, KeyFiles, file_state
from ikeanalyze.dataset.labels import label
from ikeanalyze.dataset.manifest import DatasetError, Entry, Journal, Manifest, load, locked, save
from ikeanalyze.dataset.patterns import Pattern, read_pattern
from ikeanalyze.dataset.plan import Plan, Request, make_plan
from ikeanalyze.dataset.task import Reading, Task, TaskError, Written
from ikeanalyze.keys.files import KeyFileError, read_keys

#: What may lie in a folder that becomes a dataset: traces of a batch that was killed in its first moments.
_OURS: Final = {"lock", ".manifest.json.tmp"}


@dataclass(frozen=True, slots=True)
class Options:
    """What a batch is asked for."""

    paths: Sequence[str]  # files, folders, glob patterns
    dataset: Path
    keys: Sequence[str] = ()  # files for all captures, and folders
    patterns: Sequence[Pattern] | None = (
        None  # None: for new captures those of the last batch; others keep their labels
    )
    reading: Reading = field(default_factory=Reading)


@dataclass(frozen=True, slots=True)
class Status:
    """How far a batch is; of the captures that it has to read."""

    captures: int
    captures_done: int
    bytes: int
    bytes_done: int
    failed: int


@dataclass(slots=True)
class Summary:
    """What a batch did."""

    read: int = 0
    unchanged: int = 0  # captures that were asked for and needed no reading
    failed: list[Entry] = field(default_factory=list)  # captures that were asked for and cannot be read
    warned: int = 0  # captures read of which something is to be known; the column `warnings` has it
    handshakes: int = 0  # in the dataset
    captures: int = 0  # in the dataset
    seconds: float = 0.0
    problems: int = 0  # paths, and files and folders with keys, that lead nowhere or cannot be read


def run(
    options: Options,
    workers: Callable[[int], Workers],
    progress: Callable[[Status], object] | None,
    say: Callable[[str], object],
) -> Summary:
    """Do a batch.

    Args:
        options: what is asked for.
        workers: called if there is something to do, with the number of tasks, for whoever does them.
        progress: called when it goes on; None: nobody wants to know.
        say: called with lines for the user.

    Raises:
        DatasetError: there is nothing to do it with, or the dataset cannot be read or written.
        TaskError: a task cannot be done for a reason that is not in its captures.
        LabelError: labels cannot be columns.

    """
    start = time.monotonic()
    found = find_captures(options.paths, options.dataset)
    for problem in found.problems:
        say(problem)
    keys, shared, bad_keys = _keys(options.keys, say)
    if not found.captures:
        raise DatasetError("no capture to read")
    try:
        with _opened(options.dataset) as manifest:
            _tell_gone(found, manifest, say)
            request, patterns = _request(options, found, keys, shared, manifest, say)
            batch = _Batch(options.dataset, manifest, request, progress, say)
            batch.run(workers, patterns)
    except OSError as error:
        begun = os.path.exists(options.dataset / "manifest.json")
        kept = ". What is done is kept: the same command goes on" if begun else ". Name another folder with -o"
        raise DatasetError(f"{options.dataset}: cannot be written to ({error.strerror or error}){kept}") from None
    batch.summary.problems = len(found.problems) + bad_keys + len(keys.problems)
    batch.summary.seconds = time.monotonic() - start
    return batch.summary


@contextmanager
def _opened(dataset: Path) -> Iterator[Manifest]:
    """The dataset in a folder, which becomes one if it is empty; nobody else changes it meanwhile."""
    if dataset.exists() and not dataset.is_dir():
        raise DatasetError(f"{dataset}: is a file. Name a folder with -o")
    dataset.mkdir(parents=True, exist_ok=True)
    there = set(os.listdir(dataset))
    if "manifest.json" not in there and not there <= _OURS:
        raise DatasetError(f"{dataset}: is neither empty nor a dataset. Name another folder with -o")
    with locked(dataset):
        if not (dataset / "manifest.json").exists():
            save(dataset, Manifest(complete=False), ikeanalyze.__version__, described({}))
        manifest = load(dataset)
        shards.make_folders(dataset)
        yield manifest


def _keys(given: Sequence[str], say: Callable[[str], object]) -> tuple[KeyFiles, tuple[FileState, ...], int]:
    """Files with keys that were named: those for captures of their names, those for all, and how many are of no use."""
    shared: list[FileState] = []
    folders = []
    bad = 0
    for path in given:
        absolute = os.path.abspath(path)
        if os.path.isdir(absolute):
            folders.append(absolute)
            continue
        if os.path.exists(absolute) and not os.path.isfile(absolute):
            say(f"{path}: is no file, and a batch reads keys more than once. Write them to a file")
            bad += 1
            continue
        try:
            warnings = read_keys(path).warnings
        except KeyFileError as error:
            say(str(error))
            bad += 1
            continue
        for warning in warnings:
            say(str(warning))
        if (state := file_state(absolute)) is not None:
            shared.append(state)
    return KeyFiles(folders=folders), tuple(shared), bad


def _tell_gone(found: Found, manifest: Manifest, say: Callable[[str], object]) -> None:
    """Say which captures of the dataset are not in the folders any more: their rows stay."""
    asked = {one.path for one in found.captures}
    folders = tuple(os.path.join(folder, "") for folder in found.folders)
    gone = [
        entry.capture
        for _, entry in manifest.entries()
        if entry.path not in asked and entry.path.startswith(folders) and not os.path.exists(entry.path)
    ]
    if gone:
        one = len(gone) == 1
        say(
            f"{len(gone):,} {'capture' if one else 'captures'} of the dataset {'is' if one else 'are'} no longer there; "
            f"{'its' if one else 'their'} rows stay: {min(gone)}{'' if one else ', ...'}"
        )


def _request(
    options: Options,
    found: Found,
    keys: KeyFiles,
    shared: tuple[FileState, ...],
    manifest: Manifest,
    say: Callable[[str], object],
) -> tuple[Request, list[str]]:
    """What is asked for, labels included, and the patterns of these."""
    patterns = options.patterns
    if patterns is None:
        patterns = [read_pattern(text) for text in manifest.patterns]
    labelled = label(found.captures, patterns, reserved())
    known = set() if options.patterns is not None else {entry.path for _, entry in manifest.entries()}
    if unlabelled := [one.name for one in labelled.unlabelled if one.path not in known]:
        some = len(unlabelled)
        say(
            f"{some:,} {'capture fits' if some == 1 else 'captures fit'} no --label, and {'has' if some == 1 else 'have'} "
            f"none: {unlabelled[0]}{', ...' if some > 1 else ''}"
        )
    request = Request(
        captures=found.captures,
        labels=labelled.values,
        kinds=labelled.kinds,
        relabel=options.patterns is not None,
        keys=keys,
        shared_keys=shared,
        reading=options.reading,
        version=ikeanalyze.__version__,
    )
    return request, [pattern.text for pattern in patterns]


class _Batch:
    """A batch under way."""

    def __init__(
        self,
        dataset: Path,
        manifest: Manifest,
        request: Request,
        progress: Callable[[Status], object] | None,
        say: Callable[[str], object],
    ) -> None:
        self.summary = Summary()
        self._dataset = dataset
        self._manifest = manifest
        self._request = request
        self._progress = progress
        self._say = say

    def run(self, workers: Callable[[int], Workers], patterns: list[str]) -> None:
        """Do all of it; on whatever error, the manifest says what was done."""
        manifest = self._manifest
        try:
            with Journal(self._dataset) as self._journal:
                shards.sweep(self._dataset, manifest.shards)
                if lacking := shards.lacking(self._dataset, manifest.shards.values()):
                    self._tell_lost(lacking)
                    self._note(drop=lacking)
                    shards.remove(self._dataset, lacking)
                plan = make_plan(manifest, self._request)
                self._tell_keys()
                manifest.complete = False
                self._note(labels=plan.kinds, patterns=patterns)
                self._keep(plan)
                if plan.groups:
                    self._work(plan, workers(len(plan.groups)))
            manifest.complete = True
        except BaseException:
            with suppress(OSError):  # a disk that is full; the journal has it all
                self._save()
            raise
        self._save()
        self.summary.failed.sort(key=lambda entry: entry.path)
        self.summary.captures = sum(len(shard.captures) for shard in manifest.shards.values())
        self.summary.handshakes = sum(shard.rows["handshakes"] for shard in manifest.shards.values())

    def _tell_lost(self, lacking: Sequence[str]) -> None:
        """Say which captures were in shards that are no longer whole, and are not read again as nobody named them."""
        asked = {one.path for one in self._request.captures}
        entries = (entry for name in lacking for entry in self._manifest.shards[name].captures)
        if lost := [entry.capture for entry in entries if entry.path not in asked]:
            one = len(lost) == 1
            self._say(
                f"{len(lost):,} {'capture is' if one else 'captures are'} no longer in the dataset, of which files are "
                f"missing or damaged, until a batch names {'it' if one else 'them'} again: {min(lost)}{'' if one else ', ...'}"
            )

    def _tell_keys(self) -> None:
        """Say what is wrong with the folders with keys, now that all captures have theirs."""
        keys = self._request.keys
        for problem in keys.problems:
            self._say(problem)
        for folder in keys.folders:
            if folder not in keys.fitting:
                self._say(f"{folder}: no file with keys in it for these captures; NAME.* is for NAME.pcapng")

    def _save(self) -> None:
        shards.sweep(self._dataset, self._manifest.shards)
        columns = described(self._manifest.labels)
        save(self._dataset, self._manifest, self._request.version, columns)

    def _note(self, **change: Any) -> None:
        """Have a change in the journal, then in the manifest."""
        self._manifest.apply(self._journal.add(**change))

    def _keep(self, plan: Plan) -> None:
        """Bring what stays to what is asked for."""
        for shard in plan.shards:
            self._manifest.shards[shard.name] = shard  # times of change may be others; the tables have none
        for shard, entries in plan.rewritten:
            if entries:
                token, successor = shards.rewrite(self._dataset, shard, entries, plan.kinds)
                shards.publish(self._dataset, token, successor.name)
                self._note(drop=[shard.name], add=successor)
            else:
                self._note(drop=[shard.name])
            shards.remove(self._dataset, [shard.name])
        self.summary.unchanged = len(plan.unchanged)
        self.summary.failed.extend(entry for entry in plan.unchanged if entry.state == "failed")

    def _work(self, plan: Plan, workers: Workers) -> None:
        """Have all groups read."""
        request, summary = self._request, self.summary
        captures = sum(len(group.captures) for group in plan.groups)
        size = sum(group.bytes for group in plan.groups)
        tasks = (
            Task(
                dataset=os.path.abspath(self._dataset),
                captures=group.captures,
                shared_keys=request.shared_keys,
                kinds=plan.kinds,
                reading=request.reading,
                version=request.version,
            )
            for group in plan.groups
        )
        bytes_done = 0

        def tell() -> None:
            if self._progress is not None:
                reading = workers.bytes_read()
                # what a task has read goes from the one to the other, not in the same moment
                so_far = min(size, bytes_done + reading)
                self._progress(Status(captures, summary.read, size, so_far, len(summary.failed)))

        try:
            tell()
            for written in done(tasks, workers, self._say, tell):
                self._commit(written)
                entries = written.shard.captures
                summary.failed.extend(entry for entry in entries if entry.state == "failed")
                summary.read += len(entries)
                summary.warned += written.warned
                bytes_done += sum(entry.bytes for entry in entries)
                tell()
        finally:
            workers.close()

    def _commit(self, written: Written) -> None:
        """Make a shard a part of the dataset."""
        try:
            shards.publish(self._dataset, written.token, written.shard.name)
        except FileNotFoundError:
            raise TaskError(
                f"{self._dataset}: what the worker {written.process} wrote is not there. Name a folder with -o that is the "
                "same one for all workers"
            ) from None
        self._note(add=written.shard)
