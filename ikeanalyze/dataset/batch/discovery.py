"""Finds captures by paths: files, folders (recursively) and glob patterns."""

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ikeanalyze.analysis.result import format_path

#: Names of captures in a folder, also numbered (`tcpdump -C`, `-W`) and compressed.
_CAPTURE_NAME: Final = re.compile(r"(?P<stem>.+?)\.(pcap|pcapng|cap|ntar)\d*(\.(gz|zst))?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class CaptureFile:
    """A requested capture and its file status."""

    name: str  # path as given, or below a given folder; normalised, as text
    path: str  # absolute
    bytes: int  # of the file
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The captures found by paths."""

    captures: list[CaptureFile] = field(default_factory=list)  # by absolute path, without duplicates
    folders: list[str] = field(default_factory=list)  # given, or matched by a pattern; absolute
    problems: list[str] = field(default_factory=list)  # a line for the user for each path without captures


def get_capture_stem(name: str) -> str:
    """The name of a capture without its suffixes: `run1` of `run1.pcapng.gz`."""
    match = _CAPTURE_NAME.fullmatch(name)
    return match["stem"] if match else name.rpartition(".")[0] or name


def is_capture_name(name: str) -> bool:
    """Whether a file of this name in a folder is a capture."""
    return _CAPTURE_NAME.fullmatch(name) is not None


def find_captures(paths: Sequence[str], leave_out: Path) -> DiscoveryResult:
    """Find captures: in folders by their names; given files and matches of patterns by any name.

    Names that begin with a dot and the folder `leave_out` are skipped. Links to folders are followed, each folder once.
    A capture that is found by several paths because of symbolic links counts once, by the path without links or else
    the first.
    """
    captures: dict[str, CaptureFile] = {}
    by_inode: dict[tuple[int, int], list[str]] = {}
    folders: list[str] = []
    problems: list[str] = []
    dataset = os.path.abspath(leave_out)
    for given in paths:
        matching, problem = _expand_pattern(given)
        if problem is not None:
            problems.append(problem)
        for path in matching:
            try:
                status = os.stat(path)
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {_explain_error(error)}")
                continue
            files = [(path, status)]
            if stat.S_ISDIR(status.st_mode):
                folders.append(os.path.abspath(path))
                problems_before = len(problems)
                files = list(_walk_captures(path, dataset, problems))
                if not files and len(problems) == problems_before and not glob.has_magic(given):
                    problems.append(f"{path}: no capture in this folder (*.pcap, *.pcapng, *.cap, *.ntar)")
            for file, status in files:
                if not stat.S_ISREG(status.st_mode):
                    problems.append(f"{file}: not a regular file, but a batch may read captures more than once")
                    continue
                absolute = os.path.abspath(file)
                if absolute not in captures:
                    name = format_path(os.path.normpath(file))
                    captures[absolute] = CaptureFile(name, absolute, status.st_size, status.st_mtime_ns)
                    by_inode.setdefault((status.st_dev, status.st_ino), []).append(absolute)
    for same in by_inode.values():
        for path in _find_link_duplicates(same):
            del captures[path]
    return DiscoveryResult([captures[path] for path in sorted(captures)], folders, problems)


def _find_link_duplicates(paths: Sequence[str]) -> Iterator[str]:
    """The surplus paths of one inode. Hard links are separate files, like copies."""
    by_real: dict[str, list[str]] = {}
    if len(paths) > 1:
        for path in paths:
            by_real.setdefault(os.path.realpath(path), []).append(path)
    for real, same in by_real.items():
        kept = min(same, key=lambda path: (path != real, os.path.islink(path), path))
        yield from (path for path in same if path != kept)


def _expand_pattern(given: str) -> tuple[list[str], str | None]:
    """The paths of one argument, and its problem."""
    if os.path.lexists(given) or not glob.has_magic(given):
        return [given], None
    matching = glob.glob(given, recursive=True)
    return matching, None if matching else f"{given}: no file matches this pattern"


def _walk_captures(folder: str, dataset: str, problems: list[str]) -> Iterator[tuple[str, os.stat_result]]:
    """The captures in a folder and its subfolders, with their status; adds unreadable paths to `problems`.

    Links to folders are followed after all real folders.
    """
    seen: set[tuple[int, int]] = set()
    roots = [folder]

    def is_new(path: str) -> bool:
        status = _get_status(path, problems)
        if status is None or (status.st_dev, status.st_ino) in seen:
            return False
        seen.add((status.st_dev, status.st_ino))
        return True

    def report(error: OSError) -> None:
        problems.append(f"{error.filename}: {_explain_error(error)}")

    for top in roots:
        if not is_new(top):
            continue
        for root, folders, names in os.walk(top, onerror=report):
            paths = {name: os.path.join(root, name) for name in sorted(folders) if name[0] != "."}
            paths = {name: path for name, path in paths.items() if os.path.abspath(path) != dataset}
            roots.extend(path for path in paths.values() if os.path.islink(path))
            folders[:] = [name for name, path in paths.items() if not os.path.islink(path) and is_new(path)]
            for name in names:
                path = os.path.join(root, name)
                if name[0] != "." and is_capture_name(name):
                    status = _get_status(path, problems)
                    if status is not None:
                        yield path, status


def _get_status(path: str, problems: list[str]) -> os.stat_result | None:
    """The status of an entry of a folder; None: it cannot be read, or was removed meanwhile."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        if os.path.islink(path):  # for example to a disk that is not mounted
            problems.append(f"{path}: broken symbolic link")
        return None
    except OSError as error:
        problems.append(f"{path}: {_explain_error(error)}")
        return None


def _explain_error(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return f"cannot be read ({(error.strerror if isinstance(error, OSError) else None) or error})"
