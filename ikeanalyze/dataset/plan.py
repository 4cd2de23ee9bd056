"""What a batch has to do: which captures are read, which stay as they are, which shards are written anew.

A capture stays if its file is the same (path, bytes and time of change; if the time differs, the digest decides), its keys
are, and it would be read the same way. One that could not be read is tried again if it could not even be opened, or this
is another version of ikeanalyze. Labels may change without reading anything.

Captures are read in groups, because what a capture costs beside its own bytes is then paid once for all of the group. Groups are
cut so that they depend neither on the number of workers nor on what is done already: in order of paths, and a group is full
by what is in it, not by what would come next. So a batch that goes on after an interruption makes the same groups, and the same
files.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ikeanalyze.dataset.finding import Listed, text_of
from ikeanalyze.dataset.key_files import FileState, KeyFiles, digest_of, digest_of_all
from ikeanalyze.dataset.labels import Labels, merged
from ikeanalyze.dataset.manifest import Entry, Manifest, Shard
from ikeanalyze.dataset.patterns import Kind
from ikeanalyze.dataset.task import Reading, Wanted

#: A group is full with so many captures, or so many bytes of files. Captures of as many bytes are read alone.
_MOST_CAPTURES: Final = 128
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Group:
    """Captures that are read together."""

    captures: tuple[Wanted, ...]
    bytes: int  # of their files


@dataclass(slots=True)
class Plan:
    """What there is to do."""

    kinds: dict[str, Kind]  # label columns of the dataset from now on
    shards: list[Shard] = field(default_factory=list)  # that stay as they are on the disk
    #: Shards to be written anew, with those of their captures that stay, maybe none.
    rewritten: list[tuple[Shard, list[Entry]]] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    #: Captures that were asked for and stay, those among them that cannot be read.
    unchanged: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    captures: Sequence[Listed]
    labels: Mapping[str, Labels]  # of these captures, by their absolute paths
    kinds: Mapping[str, Kind]  # of these labels
    relabel: bool  # captures that the dataset has labels of get these instead; else they keep theirs
    keys: KeyFiles
    shared_keys: tuple[FileState, ...]  # files with keys for every capture
    reading: Reading
    version: str  # of ikeanalyze


def make_plan(manifest: Manifest, request: Request) -> Plan:
    """Compare what is asked for with what there is.

    Raises:
        LabelError: a label has another kind in captures of the dataset that are not asked for.

    """
    asked = {one.path: one for one in request.captures}
    known = {entry.path: entry for _, entry in manifest.entries()}

    def labels_of(path: str) -> Labels:
        """Of a capture that is asked for."""
        old = known[path].labels if path in known and not request.relabel else {}
        return old or request.labels.get(path, {})

    kept = {name for path, entry in known.items() if path not in asked or not request.relabel for name in entry.labels}
    plan = Plan(merged({name: manifest.labels[name] for name in manifest.labels if name in kept}, request.kinds))
    keys = {path: tuple(request.keys.of(one)) for path, one in asked.items()}
    for shard in manifest.shards.values():
        entries = []
        for entry in shard.captures:
            one = asked.get(entry.path)
            if one is not None:
                same = _unchanged(entry, shard, one, keys[one.path], request)
                if same is None:
                    continue
                entry = replace(same, labels=labels_of(one.path))
                plan.unchanged.append(entry)
            entries.append(entry)
        # in their order too, in which the tables have them as columns
        columns_stay = list(shard.labels.items()) == list(plan.kinds.items())
        if not columns_stay or [one.labels for one in entries] != [one.labels for one in shard.captures]:
            plan.rewritten.append((shard, entries))
        else:
            plan.shards.append(replace(shard, captures=entries))
    stay = {entry.path for entry in plan.unchanged}
    to_read = [one for one in request.captures if one.path not in stay]
    names = _names(to_read, known)
    plan.groups = list(
        group([(Wanted(names[one.path], one.path, labels_of(one.path), keys[one.path]), one.bytes) for one in to_read])
    )
    return plan


def _names(captures: Sequence[Listed], known: Mapping[str, Entry]) -> dict[str, str]:
    """By path, the name of each capture in the tables: the one that it has, or as it was given, or its path.

    Two captures that were given in different folders may have been given by one name.
    """
    taken = {entry.capture for entry in known.values()}
    names = {}
    for one in captures:
        if one.path in known:
            names[one.path] = known[one.path].capture
            continue
        name = one.name
        if name in taken:
            name = absolute = text_of(one.path)
            # what is not UTF-8 is written out, and another file may be called just that
            for number in itertools.count(2):
                if name not in taken:
                    break
                name = f"{absolute} ({number})"
        names[one.path] = name
        taken.add(name)
    return names


def _unchanged(
    entry: Entry, shard: Shard, one: Listed, own_keys: Sequence[FileState], request: Request
) -> Entry | None:
    """The entry as it is today if its capture need not be read; None: it has to be."""
    if shard.reading != request.reading.document() or entry.bytes != one.bytes or entry.sha256 is None:
        return None
    if entry.state == "failed" and shard.version != request.version:
        return None
    keys = (*own_keys, *request.shared_keys)
    states = [(key.path, key.bytes, key.mtime_ns) for key in keys]
    if [path for path, *_ in states] != [path for path, *_ in entry.keys]:
        return None
    if states != list(entry.keys) and digest_of_all(keys) != entry.keys_sha256:
        return None
    if entry.mtime_ns != one.mtime_ns:
        try:
            if digest_of(one.path) != entry.sha256:
                return None
        except OSError:
            return None
    return replace(entry, mtime_ns=one.mtime_ns, keys=states)


def group(wanted: Sequence[tuple[Wanted, int]]) -> Iterator[Group]:
    """Cut captures (with the bytes of their files) into groups, in their order."""
    small: list[Wanted] = []
    size = 0
    for one, count in wanted:
        if count >= _MOST_BYTES:
            yield Group((one,), count)
            continue
        small.append(one)
        size += count
        if len(small) >= _MOST_CAPTURES or size >= _MOST_BYTES:
            yield Group(tuple(small), size)
            small, size = [], 0
    if small:
        yield Group(tuple(small), size)
