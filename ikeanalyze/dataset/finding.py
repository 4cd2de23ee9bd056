"""The captures that paths stand for: files, folders with all that is below them, glob patterns."""

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
class Listed:
    """A capture that was asked for, as the file system has it."""

    name: str  # the path as it was given, below a folder that was given; shortest form, as text
    path: str  # the same, absolute
    bytes: int  # of the file
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """What paths stand for."""

    captures: list[Listed] = field(default_factory=list)  # in order of their absolute paths, each once
    problems: list[str] = field(default_factory=list)  # a line for the user for each path that leads nowhere


def stem_of(name: str) -> str:
    """The name of a capture without what says that it is one: `run1` of `run1.pcapng.gz`."""
    match = _NAME.fullmatch(name)
    return match["stem"] if match else name.rpartition(".")[0] or name


def text_of(path: str) -> str:
    """A path as text: bytes of it that are no UTF-8 are written out, as tables cannot have them."""
    return os.fsencode(path).decode(errors="backslashreplace")


def find_captures(paths: Sequence[str], leave_out: Path) -> Found:
    """List the captures; those in folders by their names, those that are named or match a pattern whatever their names.

    Names that begin with a dot are left out, and so is the folder `leave_out`. Links to folders are followed, each
    folder once.
    """
    found: dict[str, Listed] = {}
    problems: list[str] = []
    dataset = os.path.abspath(leave_out)
    for given in paths:
        named, problem = _named(given)
        if problem is not None:
            problems.append(problem)
        for path in named:
            try:
                status = os.stat(path)
                if stat.S_ISDIR(status.st_mode):
                    below = list(_below(path, dataset))
                    if not below and not glob.has_magic(given):
                        problems.append(
                            f"{path}: no capture in this folder (*.pcap, *.pcapng, *.cap, *.ntar)"
                        )
                else:
                    below = [(path, status)]
            except (OSError, ValueError) as error:
                problems.append(f"{path}: {_why(error)}")
                continue
            for file, status in below:
                if not stat.S_ISREG(status.st_mode):
                    problems.append(f"{file}: is no file, and a batch may have to read it twice")
                    continue
                absolute = os.path.abspath(file)
                one = Listed(text_of(os.path.normpath(file)), absolute, status.st_size, status.st_mtime_ns)
                found.setdefault(absolute, one)
    return Found([found[path] for path in sorted(found)], problems)


def _named(given: str) -> tuple[list[str], str | None]:
    """The paths that one argument names, and what is wrong with it."""
    if os.path.lexists(given) or not glob.has_magic(given):
        return [given], None
    matching = glob.glob(given, recursive=True)
    return matching, None if matching else f"{given}: nothing has a name of this pattern"


def _below(folder: str, dataset: str) -> Iterator[tuple[str, os.stat_result]]:
    """Captures in a folder and in those below it, with their status."""
    seen: set[tuple[int, int]] = set()

    def unseen(path: str) -> bool:
        if os.path.abspath(path) == dataset:
            return False
        status = os.stat(path)
        place = (status.st_dev, status.st_ino)
        new = place not in seen
        seen.add(place)
        return new

    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in sorted(folders) if name[0] != "." and unseen(os.path.join(root, name))]
        for name in names:
            path = os.path.join(root, name)
            if name[0] != "." and _NAME.fullmatch(name) and os.path.exists(path):
                yield path, os.stat(path)


def _why(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file or folder"
    return f"cannot be read ({(error.strerror if isinstance(error, OSError) else None) or error})"
