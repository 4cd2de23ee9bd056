"""Putting the plugin's files in place, and taking them away again.

The rule: a file that is not as an installation left it is the user's, and is kept. That it was kept is said.
So a file is written only where there is none, where ours is unchanged since it was installed, or where the
caller insists; then the user's is kept beside it, with ".orig" behind its name. A link is the user's, too.
Every file is whole at any time: it is written beside its place and then moved there.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ikeanalyze.plugin import PluginError
from ikeanalyze.plugin.manifest import NAME, InstallManifest, compute_digest, encode_manifest, read_manifest
from ikeanalyze.plugin.plugin_files import InstallDir, PluginFile
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders


class FileStatus(StrEnum):
    """What became of a file."""

    ADDED = "added"
    UPDATED = "updated"  # it was an earlier version of ours
    SAME = "up to date"
    REPLACED = "replaced"  # it was the user's, which is kept with .orig behind its name
    KEPT = "kept"  # it is the user's, and stays
    REMOVED = "removed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file, and what became of it."""

    done: FileStatus
    path: Path


def install_files(
    files: Iterable[PluginFile], folders: WiresharkFolders, version: str, *, force: bool = False
) -> list[FileChange]:
    """Install, or update what is installed; `force`: even where a file is the user's.

    Files of an earlier installation that are no more in this one are taken away. Raises PluginError where a
    folder or file cannot be written.
    """
    before = read_manifest(folders.plugins)
    created = list(before.created) if before else []
    written: dict[str, str] = {}
    steps = []
    try:
        for file in files:
            path = (folders.plugins if file.place is InstallDir.PLUGINS else folders.profiles) / file.name
            known = before.files.get(file.key) if before and before.path(file.key) == path else None
            done = _install(path, file.content, known, force, created)
            steps.append(FileChange(done, path))
            if done is not FileStatus.KEPT:
                written[file.key] = compute_digest(file.content)
            elif known is not None:
                written[file.key] = known  # so that it is ours again, should the user undo the changes
        if before:
            places = {step.path for step in steps}
            gone = {key: known for key, known in before.files.items() if before.path(key) not in places}
            steps += [step for step in _remove(before, gone) if step.done is not FileStatus.MISSING]
        _make(folders.plugins, created)
        _write(folders.plugins / NAME, encode_manifest(InstallManifest(version, folders, written, created)))
    except OSError as error:
        raise _cannot(error) from None
    return steps


def uninstall_files(plugins: Path) -> list[FileChange] | None:
    """Take away what was installed from this folder of plugins; None: nothing was.

    Raises PluginError where that is not allowed.
    """
    manifest = read_manifest(plugins)
    if manifest is None:
        return None
    try:
        steps = list(_remove(manifest, manifest.files))
        (plugins / NAME).unlink(missing_ok=True)
    except OSError as error:
        raise _cannot(error) from None
    for folder in sorted({step.path.parent for step in steps}, key=lambda path: -len(path.parts)):
        if folder not in (manifest.folders.plugins, manifest.folders.profiles):
            _remove_empty(folder)
    for folder in reversed(manifest.created):
        _remove_empty(folder)
    return steps


def compare_installation(files: Iterable[PluginFile], manifest: InstallManifest) -> list[FileChange]:
    """How the files of an installation are now, beside those that would be installed: added, missing, kept..."""
    steps = []
    wanted = {file.key: compute_digest(file.content) for file in files}
    for key in sorted(manifest.files.keys() | wanted.keys()):
        path = manifest.path(key)
        found = _digest_of(path)
        if found is None:
            done = FileStatus.MISSING
        elif found == wanted.get(key):
            done = FileStatus.SAME
        elif found == manifest.files.get(key):
            done = FileStatus.UPDATED if key in wanted else FileStatus.REMOVED  # what installing again would do
        else:
            done = FileStatus.KEPT
        steps.append(FileChange(done, path))
    return steps


def _digest_of(path: Path) -> str | None:
    """None: there is nothing. Of what cannot be read, or is no file: a value that no content has."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return "not ours"
    try:
        return compute_digest(path.read_bytes())
    except OSError:
        return "unreadable"


def _install(path: Path, content: bytes, known: str | None, force: bool, created: list[Path]) -> FileStatus:
    found = _digest_of(path)
    if found == compute_digest(content):
        return FileStatus.SAME
    if found is None:
        done = FileStatus.ADDED
    elif found == known:
        done = FileStatus.UPDATED
    elif force and not path.is_dir():
        os.replace(path, _free(path))
        done = FileStatus.REPLACED
    else:
        return FileStatus.KEPT
    _make(path.parent, created)
    _write(path, content)
    return done


def _free(path: Path) -> Path:
    """A name for the user's file that does not cost another one: x.orig, x.orig2..."""
    number = 1
    while True:
        candidate = path.with_name(f"{path.name}.orig{number if number > 1 else ''}")
        if not os.path.lexists(candidate):
            return candidate
        number += 1


def _remove(manifest: InstallManifest, files: Mapping[str, str]) -> Iterator[FileChange]:
    for key, known in sorted(files.items()):
        path = manifest.path(key)
        found = _digest_of(path)
        if found is None:
            yield FileChange(FileStatus.MISSING, path)
        elif found == known:
            path.unlink()
            yield FileChange(FileStatus.REMOVED, path)
        else:
            yield FileChange(FileStatus.KEPT, path)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or not there
        folder.rmdir()


def _make(folder: Path, created: list[Path]) -> None:
    """Make a folder and those around it, and remember which were not there."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    created += [path for path in reversed(missing) if path not in created]


def _write(path: Path, content: bytes) -> None:
    number, name = tempfile.mkstemp(prefix=".ikeanalyze-", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _cannot(error: OSError) -> PluginError:
    reason = error.strerror or type(error).__name__
    return PluginError(f"{error.filename}: {reason}" if error.filename else reason)
