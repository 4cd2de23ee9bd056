"""Finds the key files of captures: next to each capture, and in the folders that were named.

`run1.pcapng` is opened with `run1.keys*` and `run1.charon.log*`, and where there are no `run1.keys*` with
`run1.initiator.log*` too, the log that the lab keeps beside the keys. In a folder that was named, `run1.*` is for
`run1.pcapng`, captures and what the lab keeps beside them without keys left out. What lies in a folder of that folder is
for captures in a folder of the same name alone, and for these in place of what lies above: `keys/psk/run1.log` is for
`runs/psk/run1.pcapng`, and not for `runs/eap/run1.pcapng`.
"""

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import file_digest, sha256
from itertools import takewhile
from typing import Final

from ikeanalyze.dataset.batch.discovery import CaptureFile, get_capture_stem, is_capture_name

#: Ends of names of files of the lab in which there are no keys.
_NO_KEYS: Final = (".manifest.json", ".truth.json", ".aaa.log", ".aaa.log.gz")


@dataclass(frozen=True, slots=True)
class FileState:
    """A file, and by what one sees that it is another now."""

    path: str  # absolute
    bytes: int
    mtime_ns: int


@dataclass(slots=True)
class KeyFileFinder:
    """Knows which files have the keys of which capture."""

    folders: Sequence[str] = ()  # that were named, absolute
    #: Those of them of which a file was for a capture.
    fitting: set[str] = field(default_factory=set)
    #: A line for the user for each folder that cannot be read.
    problems: list[str] = field(default_factory=list)
    _listings: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _named: dict[str, list[tuple[str, str, str]]] | None = field(default=None, repr=False)

    def find_for_capture(self, capture: CaptureFile) -> list[FileState]:
        """The key files of a capture, in order; each once."""
        folder, name = os.path.split(capture.path)
        stem = get_capture_stem(name)
        names = self._names_in(folder)
        own = _beginning(names, f"{stem}.keys")
        logs = _beginning(names, f"{stem}.charon.log")
        if not own:
            logs += _beginning(names, f"{stem}.initiator.log")
        paths = [os.path.join(folder, file_name) for file_name in own + logs]
        paths += self._in_folders(folder, stem)
        # the capture itself may have any name, if it was given
        others = [path for path in dict.fromkeys(paths) if path != capture.path]
        return [state for path in others if (state := get_file_state(path)) is not None]

    def _names_in(self, folder: str) -> list[str]:
        if folder not in self._listings:
            if len(self._listings) > 1000:  # captures come folder by folder
                self._listings.clear()
            try:
                self._listings[folder] = sorted(os.listdir(folder))
            except OSError:
                self._listings[folder] = []
        return self._listings[folder]

    def _in_folders(self, capture_folder: str, stem: str) -> list[str]:
        if self._named is None:
            self._named = {}
            for root in self.folders:
                for folder, _, names in os.walk(root, onerror=self._unreadable):
                    inner = os.path.relpath(folder, root)
                    for name in names:
                        if is_capture_name(name) or name.endswith(_NO_KEYS):
                            continue
                        # `run1.x.log` may be of `run1` and of `run1.x`
                        for at in (i for i, letter in enumerate(name) if letter == "." and i):
                            entry = (root, "" if inner == "." else inner, os.path.join(folder, name))
                            self._named.setdefault(name[:at], []).append(entry)
        candidates = self._named.get(stem, [])
        chosen: list[str] = []
        for root in self.folders:
            fitting = [
                (inner, path)
                for of_root, inner, path in candidates
                if of_root == root and f"{capture_folder}/".endswith(f"/{inner}/" if inner else "/")
            ]
            nearest = max((len(inner) for inner, _ in fitting), default=0)
            chosen += sorted(path for inner, path in fitting if len(inner) == nearest)
            if fitting:
                self.fitting.add(root)
        return chosen

    def _unreadable(self, error: OSError) -> None:
        self.problems.append(f"{error.filename}: cannot be read ({error.strerror})")


def _beginning(names: Sequence[str], prefix: str) -> list[str]:
    """Those of the sorted names that begin so."""
    begin = bisect_left(names, prefix)
    return list(takewhile(lambda name: name.startswith(prefix), names[begin:]))


def get_file_state(path: str) -> FileState | None:
    """The state of a file; None: there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileState(path, status.st_size, status.st_mtime_ns)


def hash_file(path: str) -> str:
    """SHA-256 of a file, hex digits; OSError if it cannot be read."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()


def hash_files(files: Sequence[FileState]) -> str | None:
    """SHA-256 over the digests of files, whatever they are called and in which order; None: no files.

    A file that cannot be read has its reason in the place of the digest, so that it counts as changed when it can be.
    """
    if not files:
        return None
    return sha256("\n".join(sorted(map(_digest_or_reason, files))).encode()).hexdigest()


@lru_cache(4096)
def _digest_or_reason(file: FileState) -> str:
    """The same file may be for thousands of captures."""
    try:
        return hash_file(file.path)
    except OSError as error:
        return str(error.strerror)
