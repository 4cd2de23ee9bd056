"""Finds the key files of captures: next to each capture, and in the folders given by `--keys`.

`run1.pcapng` is decrypted with `run1.keys*` and `run1.charon.log*` next to it; without `run1.keys*` also with
`run1.initiator.log*`, a log of the lab (unless its manifest has `measure = costs`: such logs have no keys). In a given
folder, `run1.*` is for `run1.pcapng`, except captures and files of the lab without keys. Keys for `run1.pcapng` are
also for `run1.initiator.pcapng`, the lab's capture at the initiator. A file in a subfolder is only for captures in a
folder of the same name, and takes precedence for these: `keys/psk/run1.log` is for `runs/psk/run1.pcapng`, not for
`runs/eap/run1.pcapng`.
"""

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Final

from ikeanalyze.dataset.batch.discovery import CaptureFile, get_capture_stem, is_capture_name
from ikeanalyze.io.lab_manifest import COSTS, get_recording_stem, read_lab_manifest

#: Suffixes of files of the lab that contain no keys.
_NO_KEYS: Final = (".manifest.json", ".truth.json", ".aaa.log", ".aaa.log.gz")
#: Bytes of a file that are hashed at once.
_BLOCK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class FileState:
    """A file and its status, by which changes are detected."""

    path: str  # absolute
    bytes: int
    mtime_ns: int


@dataclass(slots=True)
class KeyFileFinder:
    """Finds the key files of captures."""

    folders: Sequence[str] = ()  # given by `--keys`, absolute
    #: Those with a file for a capture.
    fitting: set[str] = field(default_factory=set)
    #: A line for the user for each folder that cannot be read.
    problems: list[str] = field(default_factory=list)
    _listings: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _by_stem: dict[str, list[tuple[str, str, str]]] | None = field(default=None, repr=False)

    def find_for_capture(self, capture: CaptureFile) -> list[FileState]:
        """The key files of a capture, in order, without duplicates."""
        folder, name = os.path.split(capture.path)
        stem = get_capture_stem(name)
        names = self._list_folder(folder)
        stems = dict.fromkeys((stem, get_recording_stem(stem)))
        own = [file_name for each in stems for file_name in _select_prefix(names, f"{each}.keys")]
        logs = _select_prefix(names, f"{stem}.charon.log")
        if not own and (of_lab := _select_prefix(names, f"{get_recording_stem(stem)}.initiator.log")):
            manifest = read_lab_manifest(capture.path)
            # recorded for the costs of the daemons: they log no keys then
            logs += of_lab if manifest is None or manifest.measure != COSTS else []
        paths = [os.path.join(folder, file_name) for file_name in own + logs]
        paths += [path for each in stems for path in self._find_in_folders(folder, each)]
        # a given capture may have the name of a key file
        others = [path for path in dict.fromkeys(paths) if path != capture.path]
        return [state for path in others if (state := get_file_state(path)) is not None]

    def _list_folder(self, folder: str) -> list[str]:
        if folder not in self._listings:
            if len(self._listings) > 1000:  # captures are sorted by folder
                self._listings.clear()
            try:
                self._listings[folder] = sorted(os.listdir(folder))
            except OSError:
                self._listings[folder] = []
        return self._listings[folder]

    def _find_in_folders(self, capture_folder: str, stem: str) -> list[str]:
        if self._by_stem is None:
            self._by_stem = {}
            for root in self.folders:
                for folder, _, names in os.walk(root, onerror=self._report):
                    inner = os.path.relpath(folder, root)
                    for name in names:
                        if is_capture_name(name) or name.endswith(_NO_KEYS):
                            continue
                        # `run1.x.log` may be for `run1` and for `run1.x`
                        for at in (i for i, letter in enumerate(name) if letter == "." and i):
                            entry = (root, "" if inner == "." else inner, os.path.join(folder, name))
                            self._by_stem.setdefault(name[:at], []).append(entry)
        candidates = self._by_stem.get(stem, [])
        paths: list[str] = []
        for root in self.folders:
            fitting = [
                (inner, path)
                for candidate_root, inner, path in candidates
                if candidate_root == root and f"{capture_folder}/".endswith(f"/{inner}/" if inner else "/")
            ]
            nearest = max((len(inner) for inner, _ in fitting), default=0)
            paths += sorted(path for inner, path in fitting if len(inner) == nearest)
            if fitting:
                self.fitting.add(root)
        return paths

    def _report(self, error: OSError) -> None:
        self.problems.append(f"{error.filename}: cannot be read ({error.strerror})")


def _select_prefix(names: Sequence[str], prefix: str) -> list[str]:
    """The names with this prefix; `names` are sorted."""
    begin = end = bisect_left(names, prefix)
    while end < len(names) and names[end].startswith(prefix):
        end += 1
    return list(names[begin:end])


def get_file_state(path: str) -> FileState | None:
    """The state of a file; None: it does not exist or its status cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return FileState(path, status.st_size, status.st_mtime_ns)


def hash_file(path: str) -> str:
    """SHA-256 of a file, hex digits; OSError if it cannot be read."""
    digest = sha256()
    with open(path, "rb", buffering=0) as file:  # file_digest would make a large buffer for each small capture
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def hash_files(files: Sequence[FileState]) -> str | None:
    """SHA-256 over the digests of files, independent of their names and order; None: no files.

    For an unreadable file, the reason replaces the digest, so that the file counts as changed once it is readable.
    """
    if not files:
        return None
    return sha256("\n".join(sorted(map(_hash_or_explain, files))).encode()).hexdigest()


@lru_cache(4096)
def _hash_or_explain(file: FileState) -> str:
    """The digest of a file, or the reason why it cannot be read. Cached: one file may be for thousands of captures."""
    try:
        return hash_file(file.path)
    except OSError as error:
        return str(error.strerror)
