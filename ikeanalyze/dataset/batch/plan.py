"""Plans a batch: which captures are read, which are unchanged, and which shards are rewritten.

A capture is unchanged if its file is the same (path, size and modification time; if the time differs, the digest
decides), its key files are the same, and it would be read with the same options. A capture that failed is read again if
it could not be opened, or if the version of ikeanalyze differs. Labels can change without reading captures again.

Captures are read in groups, because the fixed cost of a read is then paid once per group. Groups depend neither on the
number of workers nor on what is already done: captures are grouped in the order of their paths, and a group is full
because of its own content, not because of the next capture. A resumed batch therefore makes the same groups and the
same files.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ikeanalyze.analysis.result import format_path
from ikeanalyze.dataset.batch.discovery import CaptureFile
from ikeanalyze.dataset.batch.groups import CaptureGroup, group_captures
from ikeanalyze.dataset.batch.key_files import FileState, KeyFileFinder, hash_file, hash_files
from ikeanalyze.dataset.batch.task import BatchReadOptions, TaskCapture
from ikeanalyze.dataset.labels import Labels, LabelType, merge_label_columns
from ikeanalyze.dataset.manifest import CaptureEntry, DatasetManifest, Shard


@dataclass(slots=True)
class BatchPlan:
    """The work of a batch."""

    label_types: dict[str, LabelType]  # label columns of the dataset after the batch
    shards: list[Shard] = field(default_factory=list)  # whose files are unchanged
    #: Shards to rewrite, with those of their captures that stay, possibly none.
    rewritten: list[tuple[Shard, list[CaptureEntry]]] = field(default_factory=list)
    groups: list[CaptureGroup[TaskCapture]] = field(default_factory=list)
    #: Requested captures that are not read again, including failed ones.
    unchanged: list[CaptureEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """The input of a batch."""

    captures: Sequence[CaptureFile]
    labels: Mapping[str, Labels]  # of these captures, by their absolute paths
    label_types: Mapping[str, LabelType]  # of these labels
    relabel: bool  # these labels replace those of captures in the dataset
    keys: KeyFileFinder
    shared_keys: tuple[FileState, ...]  # key files for every capture
    reading: BatchReadOptions
    version: str  # of ikeanalyze


def make_plan(manifest: DatasetManifest, request: BatchRequest) -> BatchPlan:
    """Compare the request with the dataset.

    Raises:
        LabelError: a label has another type in captures of the dataset that are not requested.
    """
    requested = {capture.path: capture for capture in request.captures}
    known = {entry.path: entry for _, entry in manifest.entries()}

    def get_labels(path: str) -> Labels:
        """The labels of a requested capture."""
        old = known[path].labels if path in known and not request.relabel else {}
        return old or request.labels.get(path, {})

    kept = {
        name for path, entry in known.items() if path not in requested or not request.relabel for name in entry.labels
    }
    plan = BatchPlan(
        merge_label_columns(
            {name: label_type for name, label_type in manifest.labels.items() if name in kept}, request.label_types
        )
    )
    keys = {path: tuple(request.keys.find_for_capture(capture)) for path, capture in requested.items()}
    for shard in manifest.shards.values():
        entries = []
        for entry in shard.captures:
            capture = requested.get(entry.path)
            if capture is not None:
                same = _get_unchanged_entry(entry, shard, capture, keys[capture.path], request)
                if same is None:
                    continue
                entry = replace(same, labels=get_labels(capture.path))
                plan.unchanged.append(entry)
            entries.append(entry)
        # the order of labels counts too: it is the order of the columns
        columns_stay = list(shard.labels.items()) == list(plan.label_types.items())
        if not columns_stay or [entry.labels for entry in entries] != [entry.labels for entry in shard.captures]:
            plan.rewritten.append((shard, entries))
        else:
            plan.shards.append(replace(shard, captures=entries))
    stay = {entry.path for entry in plan.unchanged}
    to_read = [capture for capture in request.captures if capture.path not in stay]
    names = _assign_names(to_read, known)
    tasks = [
        (TaskCapture(names[file.path], file.path, get_labels(file.path), keys[file.path]), file.bytes)
        for file in to_read
    ]
    plan.groups = list(group_captures(tasks))
    return plan


def _assign_names(captures: Sequence[CaptureFile], known: Mapping[str, CaptureEntry]) -> dict[str, str]:
    """By path, the name of each capture in the tables: its known name, or the path as given, or the absolute path.

    Two captures in different folders may have been given by the same relative path.
    """
    taken = {entry.capture for entry in known.values()}
    names = {}
    for capture in captures:
        if capture.path in known:
            names[capture.path] = known[capture.path].capture
            continue
        name = capture.name
        if name in taken:
            name = absolute = format_path(capture.path)
            # a path that is not UTF-8 is escaped, and another file may have the escaped form as its name
            for number in itertools.count(2):
                if name not in taken:
                    break
                name = f"{absolute} ({number})"
        names[capture.path] = name
        taken.add(name)
    return names


def _get_unchanged_entry(
    entry: CaptureEntry, shard: Shard, capture: CaptureFile, own_keys: Sequence[FileState], request: BatchRequest
) -> CaptureEntry | None:
    """The updated entry of a capture that need not be read again; None: it must be read."""
    if shard.reading != request.reading.to_dict() or entry.bytes != capture.bytes or entry.sha256 is None:
        return None
    if entry.state == "failed" and shard.version != request.version:
        return None
    keys = (*own_keys, *request.shared_keys)
    states = [(key.path, key.bytes, key.mtime_ns) for key in keys]
    if [path for path, *_ in states] != [path for path, *_ in entry.keys]:
        return None
    if states != list(entry.keys) and hash_files(keys) != entry.keys_sha256:
        return None
    if entry.mtime_ns != capture.mtime_ns:
        try:
            if hash_file(capture.path) != entry.sha256:
                return None
        except OSError:
            return None
    return replace(entry, mtime_ns=capture.mtime_ns, keys=states)
