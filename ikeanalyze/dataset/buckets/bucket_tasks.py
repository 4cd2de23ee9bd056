"""The two tasks of a bucket: share its facts, and write its rows. Each needs only the folder of the buckets."""

import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ikeanalyze._version import installed_version
from ikeanalyze.analysis.messages.capture_facts import CaptureWarning, SharedFact
from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.pipeline import CaptureContext, build_tables, survey_frames
from ikeanalyze.analysis.result import RequestedDetails
from ikeanalyze.dataset.buckets.frame_buckets import BucketFolder
from ikeanalyze.dataset.buckets.numbering import BucketNumbering, SurveyNumbering
from ikeanalyze.dataset.buckets.shared_facts import BucketFacts, SurveyedBucket, store_facts
from ikeanalyze.dataset.buckets.table_parts import PartBounds, write_parts
from ikeanalyze.io.lab_manifest import LabManifest
from ikeanalyze.machine import release_free_memory, tune_malloc


@dataclass(frozen=True, slots=True)
class BucketTask:
    """A bucket, and what its analysis needs."""

    folder: str
    buckets: int
    index: int
    name: str  # of the capture in the tables
    options: ReadOptions
    manifest: LabManifest | None
    bounds: PartBounds | None  # of the parts of the tables; None: not known yet
    known: int  # number of the folder with the facts of the capture
    version: str  # of ikeanalyze; the worker must have the same

    @property
    def context(self) -> CaptureContext:
        """The files that belong to the capture."""
        return CaptureContext([None], [self.manifest])


class BucketTaskError(Exception):
    """A worker cannot analyse buckets: one line for the user."""


def _open_folder(task: BucketTask) -> BucketFolder:
    """The folder of the buckets. Raises `BucketTaskError` if this process is not fit for the task."""
    tune_malloc()
    process = f"{os.uname().nodename}, process {os.getpid()}"
    if installed_version() != task.version:
        raise BucketTaskError(
            f"the worker {process} has ikeanalyze {installed_version()}, but this is {task.version}. "
            "Install the same version on all"
        )
    if not (Path(task.folder) / f"facts-{task.known}").is_dir():
        raise BucketTaskError(
            f"{task.folder}: the worker {process} cannot access this folder. "
            "Name a folder with --temp that all workers share"
        )
    return BucketFolder(Path(task.folder), task.buckets)


def write_facts(folder: BucketFolder, number: int, facts: dict[SharedFact, pl.DataFrame]) -> None:
    """Write the facts of the capture for the tasks."""
    directory = folder.path / f"facts-{number}"
    directory.mkdir()
    for fact, rows in facts.items():
        folder.write_table(rows, directory / f"{fact.name}.arrow", "uncompressed")


def _read_facts(task: BucketTask) -> dict[SharedFact, pl.LazyFrame]:
    directory = Path(task.folder) / f"facts-{task.known}"
    return {SharedFact[file.stem]: pl.scan_ipc(file) for file in sorted(directory.iterdir())}


def survey_bucket(task: BucketTask) -> SurveyedBucket:
    """Analyse a bucket for the facts that it shares, and write the order of its rows."""
    folder = _open_folder(task)
    contents = folder.read(task.index)
    facts = BucketFacts(_read_facts(task), collect=True)
    numbering = SurveyNumbering([task.name], folder=folder, index=task.index, contents=contents)
    survey_frames(numbering, contents.traffic, task.context, task.options, facts)
    surveyed = store_facts(facts, task.index, folder)
    del contents, facts, numbering
    release_free_memory()
    return surveyed


def write_bucket(task: BucketTask) -> list[CaptureWarning]:
    """Analyse a bucket with the facts of the capture, and write its rows; return the warnings."""
    folder = _open_folder(task)
    assert task.bounds is not None
    contents = folder.read(task.index)
    facts = BucketFacts(_read_facts(task), collect=False)
    numbering = BucketNumbering([task.name], folder=folder, index=task.index)
    tables, warnings = build_tables(numbering, contents.traffic, task.context, task.options, RequestedDetails(), facts)
    write_parts(tables, contents.sequence, folder, task.index, task.bounds)
    del contents, tables, facts
    release_free_memory()
    return warnings[0]
