"""Analyses one capture bucket by bucket, with the same result as in memory."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl
from msgspec import structs

from ikeanalyze._version import installed_version
from ikeanalyze.analysis.messages.capture_facts import CaptureWarning, SharedFact
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_manifest
from ikeanalyze.analysis.result import Analysis, AnalysisWarning, CaptureSummary, SkippedFile, format_path
from ikeanalyze.capture.frames import CaptureFrames, read_frames, read_joined_frames
from ikeanalyze.dataset.buckets.bucket_tasks import BucketTask, survey_bucket, write_bucket, write_facts
from ikeanalyze.dataset.buckets.executors import open_inline_executor
from ikeanalyze.dataset.buckets.frame_buckets import COMMON, BucketFolder, BucketWriter
from ikeanalyze.dataset.buckets.numbering import RowTotals, number_rows
from ikeanalyze.dataset.buckets.shared_facts import SharedFacts, make_frame
from ikeanalyze.dataset.buckets.table_parts import divide_tables, merge_parts
from ikeanalyze.machine import release_free_memory

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class BucketedAnalysis:
    """The result for a capture, without tables."""

    summary: CaptureSummary
    warnings: list[AnalysisWarning]
    skipped: list[SkippedFile]

    def make_analysis(self, tables: Mapping[str, pl.LazyFrame]) -> Analysis:
        """The result with these tables in memory."""
        return Analysis(
            captures=self.captures,
            frames=tables["frames"].collect(),
            messages=tables["messages"].collect(),
            exchanges=tables["exchanges"].collect(),
            handshakes=tables["handshakes"].collect(),
            warnings=self.warnings,
            skipped=self.skipped,
        )

    @property
    def captures(self) -> list[CaptureSummary]:
        """The capture, as in `Analysis`."""
        return [self.summary]


@dataclass(frozen=True, slots=True)
class BucketSettings:
    """How a capture is divided, and where its buckets are analysed."""

    buckets: int  # besides the common one
    directory: str  # in which a temporary folder is made; all workers need it
    open_executor: Callable[[], AbstractContextManager[Executor]] = open_inline_executor


@contextmanager
def analyse_in_buckets(
    paths: Sequence[str], options: ReadOptions, settings: BucketSettings
) -> Iterator[tuple[BucketedAnalysis, Mapping[str, pl.LazyFrame]]]:
    """Analyse a capture, or the files of one recording, bucket by bucket.

    Yields the result and the four tables, which are read from a temporary folder that is removed at the end.

    Args:
        paths: the capture, or the files of one recording.
        options: how to read it. Keys and the contents of messages are not supported.
        settings: how the capture is divided.

    Raises:
        CaptureError: the capture cannot be read.
        BucketSpaceError: the disk has not enough space.
        UnorderedBucketError: the capture can only be analysed as a whole.
    """
    with tempfile.TemporaryDirectory(prefix="ikeanalyze-", dir=settings.directory, ignore_cleanup_errors=True) as path:
        folder = BucketFolder(Path(path), settings.buckets)
        # the processes end before the folder is removed
        with settings.open_executor() as executor:
            run = _BucketRun(folder, executor)
            capture = run.split(paths, options)
            facts = run.survey()
            by_datagram = bool(facts.known[SharedFact.SEVERAL_FRAMES]["several"].max())
            totals = number_rows(folder, by_datagram=by_datagram)
            folder.check_space(folder.measure() // 2)
            warnings = run.write(totals)
        tables = {name: merge_parts(folder, name) for name in ("frames", "messages", "exchanges", "handshakes")}
        yield run.summarise(capture, warnings), tables


class _BucketRun:
    """The steps of one analysis."""

    def __init__(self, folder: BucketFolder, executor: Executor) -> None:
        self._folder = folder
        self._executor = executor
        self._facts = SharedFacts({})
        self._rounds = 0
        self._skipped: list[SkippedFile] = []
        self._files: tuple[str, ...] = ()
        self._part_starts: list[int] = []
        self._of_manifest: list[CaptureWarning] = []

    def split(self, paths: Sequence[str], options: ReadOptions) -> CaptureFrames:
        """Read the capture, and write its frames to buckets."""
        writer = BucketWriter(self._folder)
        name = format_path(paths[0])
        if options.join and len(paths) > 1:
            capture, files, unreadable = read_joined_frames(
                paths, options.ports, options.progress, storage=writer.storage
            )
            self._skipped = [SkippedFile(format_path(path), reason) for path, reason in unreadable]
            self._files = tuple(map(format_path, files))
            name = self._files[0] if len(files) == 1 else f"{self._files[0]} and {len(files) - 1} more"
        else:
            capture = read_frames(paths[0], options.ports, options.progress, storage=writer.storage)
        writer.finish()
        self._folder.write_capture(capture)
        if writer.messages.redirected:
            self._folder.move_to_common(writer.messages.redirected)
        if writer.rows.several_frames:
            self._facts.known[SharedFact.SEVERAL_FRAMES] = make_frame({"several": np.ones(1, np.int64)})
        manifest, self._of_manifest = read_manifest(name, self._files, options)
        self._task = BucketTask(
            folder=str(self._folder.path),
            buckets=self._folder.count,
            index=COMMON,
            name=name,
            options=structs.replace(
                options, progress=None, on_table=None, on_columns=None, on_first_columns=None, keys=(), own_keys=None
            ),
            manifest=manifest,
            bounds=None,
            known=0,
            version=installed_version(),
        )
        self._part_starts = writer.rows.part_starts
        del writer
        release_free_memory()
        return capture

    def survey(self) -> SharedFacts:
        """Analyse the buckets until the facts that they share do not change any more."""
        pending = set(self._folder.indices)
        while pending:
            self._write_facts()
            tasks = [replace(self._task, index=index) for index in sorted(pending)]
            pending = self._facts.update(self._run(survey_bucket, tasks))
            waiting = self._facts.find_waiting()
            if not pending and waiting:
                self._folder.move_to_common(waiting)
                self._facts = SharedFacts(self._facts.known)
                pending = set(self._folder.indices)
        return self._facts

    def write(self, totals: RowTotals) -> list[CaptureWarning]:
        """Write the rows of the buckets; return the warnings, which are those of the whole capture in each bucket."""
        self._task = replace(self._task, bounds=divide_tables(self._part_starts, totals))
        self._write_facts()
        tasks = [replace(self._task, index=index) for index in self._folder.indices]
        return self._run(write_bucket, tasks)[COMMON]

    def summarise(self, capture: CaptureFrames, warnings: Sequence[CaptureWarning]) -> BucketedAnalysis:
        """The result without tables."""
        names = (field.name for field in fields(CaptureSummary) if field.name not in ("path", "files", "byte_ns"))
        values = {name: getattr(capture, name) for name in names}
        manifest = self._task.manifest
        byte_ns = (0.0, 0.0) if manifest is None else manifest.byte_ns
        summary = CaptureSummary(self._task.name, **values, files=self._files, byte_ns=byte_ns)
        found = [*capture.warnings, *self._of_manifest, *warnings]
        texts = [AnalysisWarning(self._task.name, frame, text) for frame, text in found]
        return BucketedAnalysis(summary, texts, self._skipped)

    def _write_facts(self) -> None:
        self._rounds += 1
        self._task = replace(self._task, known=self._rounds)
        write_facts(self._folder, self._rounds, self._facts.known)

    def _run(self, work: Callable[[BucketTask], _Result], tasks: Iterable[BucketTask]) -> list[_Result]:
        """Run tasks; the first error ends all."""
        futures = [self._executor.submit(work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                future.result()
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]
