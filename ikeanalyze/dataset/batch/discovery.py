"""Finds captures by paths: files, folders (recursively) and glob patterns."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Names of captures in a folder: those that tcpdump, dumpcap and others give, numbered (`-C`, `-W`) and compressed too.
_NAME: Final = re.compile(r"(?P<stem>.+?)\.(pcap|pcapng|cap|ntar)\d*(\.(gz|zst))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A capture that was asked for, as the file system has it."""

    name: str  # the path as it was given, below a folder that was given; shortest form, as text
    path: str  # the same, absolute
    bytes: int  # of the file
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """What paths stand for."""

    captures: list[CaptureFile] = field(default_factory=list)  # in order of their absolute paths, each once
    folders: list[str] = field(default_factory=list)  # that were named or match a pattern, absolute
    problems: list[str] = field(default_factory=list)  # a line for the user for each path that leads nowhere


def get_capture_stem(name: str) -> str:
    """The name of a capture without what says that it is one: `run1` of `run1.pcapng.gz`."""
    match = _NAME.fullmatch(name)
    return match["stem"] if match else name.rpartition(".")[0] or name


def format_path(path: str) -> str:
    """A path as text: bytes of it that are no UTF-8 are written out, as tables cannot have them."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_capture_name(name: str) -> bool:
    """Whether a file of this name is taken for a capture where a folder is given."""
    return _NAME.fullmatch(name) is not None


def find_captures(paths: Sequence[str], leave_out: Path) -> DiscoveryResult:
    """List the captures; those in folders by their names, those that are named or match a pattern whatever their names.

    Names that begin with a dot are left out, and so is the folder `leave_out`. Links to folders are followed, each
    folder once. A capture that is found under several paths, as links lead to it, is one: the path without links counts,
    or else the first.
    """
    captures: dict[str, CaptureFile] = {}
    places: dict[tuple[int, int], list[str]] = {}
    folders: list[str] = []
    problems: list[str] = []
    dataset = os.path.abspath(leave_out)
    for given in paths:
        named, problem = _named(given)
        if problem is not None:
            problems.append(problem)
        for path in named:
            try:
                status = os.stat(path)
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {_why(error)}")
                continue
            below = [(path, status)]
            if stat.S_ISDIR(status.st_mode):
                folders.append(os.path.abspath(path))
                known = len(problems)
                below = list(_below(path, dataset, problems))
                if not below and len(problems) == known and not glob.has_magic(given):
                    problems.append(f"{path}: no capture in this folder (*.pcap, *.pcapng, *.cap, *.ntar)")
            for file, status in below:
                if not stat.S_ISREG(status.st_mode):
                    problems.append(f"{file}: is no file, and a batch may have to read it twice")
                    continue
                absolute = os.path.abspath(file)
                if absolute not in captures:
                    name = format_path(os.path.normpath(file))
                    captures[absolute] = CaptureFile(name, absolute, status.st_size, status.st_mtime_ns)
                    places.setdefault((status.st_dev, status.st_ino), []).append(absolute)
    for same in places.values():
        for path in _doubled(same):
            del captures[path]
    return DiscoveryResult([captures[path] for path in sorted(captures)], folders, problems)


def _doubled(paths: Sequence[str]) -> Iterator[str]:
    """Of paths of one inode those that are too many. Hard links are files of their own, as copies are."""
    by_real: dict[str, list[str]] = {}
    if len(paths) > 1:
        for path in paths:
            by_real.setdefault(os.path.realpath(path), []).append(path)
    for real, same in by_real.items():
        kept = min(same, key=lambda path: (path != real, os.path.islink(path), path))
        yield from (path for path in same if path != kept)


def _named(given: str) -> tuple[list[str], str | None]:
    """The paths that one argument names, and what is wrong with it."""
    if os.path.lexists(given) or not glob.has_magic(given):
        return [given], None
    matching = glob.glob(given, recursive=True)
    return matching, None if matching else f"{given}: no file matches this pattern"


def _below(folder: str, dataset: str, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Captures in a folder and in those below it, with their status; what cannot be read is a problem.

    Links to folders wait until all folders were seen that are there without one.
    """
    seen: set[tuple[int, int]] = set()
    roots = [folder]

    def unseen(path: str) -> bool:
        status = _status(path, problems)
        if status is None:
            return False
        place = (status.st_dev, status.st_ino)
        new = place not in seen
        seen.add(place)
        return new

    def unreadable(error: OSError) -> None:
        problems.append(f"{error.filename}: {_why(error)}")

    for top in roots:
        if not unseen(top):
            continue
        for root, folders, names in os.walk(top, onerror=unreadable):
            paths = {name: os.path.join(root, name) for name in sorted(folders) if name[0] != "."}
            paths = {name: path for name, path in paths.items() if os.path.abspath(path) != dataset}
            roots.extend(path for path in paths.values() if os.path.islink(path))
            folders[:] = [name for name, path in paths.items() if not os.path.islink(path) and unseen(path)]
            for name in names:
                path = os.path.join(root, name)
                if name[0] != "." and is_capture_name(name):
                    status = _status(path, problems)
                    if status is not None:
                        yield path, status


def _status(path: str, problems: list[str]) -> os.stat_result | None:
    """The status of what is in a folder; None: it cannot be seen, which is a problem, or is gone meanwhile."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):  # to a disk that is not there today, say
            problems.append(f"{path}: broken symbolic link")
        return None
    except OSError as error:
        problems.append(f"{path}: {_why(error)}")
        return None


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return f"cannot be read ({(error.strerror if isinstance(error, OSError) else None) or error})"
