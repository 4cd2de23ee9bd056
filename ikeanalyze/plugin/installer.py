"""Installs and uninstalls the files of the plugin.

A file that differs from the installed one belongs to the user and is kept, and so is a symbolic link. A file is written
only if it does not exist, if it is unchanged since its installation, or with `force`, which renames the user's file to
"NAME.orig". A file that Wireshark itself writes is installed once, and removed with the others. Files are written
under a temporary name and then renamed, so that they are never incomplete.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Final

from ikeanalyze.io.atomic_write import replace_atomically
from ikeanalyze.plugin import PluginError
from ikeanalyze.plugin.manifest import NAME, InstallManifest, compute_digest, encode_manifest, read_manifest
from ikeanalyze.plugin.plugin_files import InstallDir, PluginFile, is_state_file
from ikeanalyze.plugin.wireshark_folders import WiresharkFolders

#: Errors of a folder that another user owns, or that is not in a file system for files of users.
_NOT_WRITABLE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT)


class FileStatus(StrEnum):
    """Result for one file."""

    ADDED = "added"
    UPDATED = "updated"  # replaced an earlier version of the plugin
    SAME = "up to date"
    REPLACED = "replaced"  # replaced a file of the user, which was renamed to NAME.orig
    KEPT = "kept"  # a file of the user
    REMOVED = "removed"
    RESTORED = "restored"  # removed; the file of the user, which was NAME.orig, has its name again
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file and the result for it."""

    done: FileStatus
    path: Path


def install_files(
    files: Iterable[PluginFile], folders: WiresharkFolders, version: str, *, force: bool = False
) -> list[FileChange]:
    """Install or update the plugin; `force`: also replace files of the user.

    Files of an earlier installation that this one does not have are removed.

    Raises:
        PluginError: a folder or file cannot be written.
    """
    before = read_manifest(folders.plugins)
    created = list(before.created) if before else []
    written: dict[str, str] = {}
    steps = []
    try:
        for file in files:
            path, known = _locate(file, folders, before)
            done = _install(path, file, known, force, created)
            steps.append(FileChange(done, path))
            if done is not FileStatus.KEPT:
                written[file.key] = compute_digest(file.content)
            elif known is not None:
                written[file.key] = known  # the file is recognised again if the user undoes the changes
        if before:
            places = {step.path for step in steps}
            gone = {key: known for key, known in before.files.items() if before.path(key) not in places}
            steps += [step for step in _remove(before, gone) if step.done is not FileStatus.MISSING]
        _make(folders.plugins, created)
        _write(folders.plugins / NAME, encode_manifest(InstallManifest(version, folders, written, created)))
    except OSError as error:
        raise _make_plugin_error(error) from None
    return steps


def plan_installation(
    files: Iterable[PluginFile], folders: WiresharkFolders, *, force: bool = False
) -> list[FileChange]:
    """Return what `install_files` would do, and change nothing."""
    before = read_manifest(folders.plugins)
    steps = []
    for file in files:
        path, known = _locate(file, folders, before)
        steps.append(FileChange(_classify(path, file, known, force), path))
    if before:
        places = {step.path for step in steps}
        for key, known in sorted(before.files.items()):
            if (path := before.path(key)) not in places and _compute_file_digest(path) is not None:
                unchanged = _compute_file_digest(path) == known or is_state_file(key)
                steps.append(FileChange(FileStatus.REMOVED if unchanged else FileStatus.KEPT, path))
    return steps


def uninstall_files(plugins: Path) -> list[FileChange] | None:
    """Remove the installed files of this folder of plugins; None if nothing is installed.

    The latest of a user's files that `install_files` renamed gets its name back.

    Raises:
        PluginError: a file cannot be removed.
    """
    manifest = read_manifest(plugins)
    if manifest is None:
        return None
    try:
        steps = [_restore(step) for step in _remove(manifest, manifest.files)]
        (plugins / NAME).unlink(missing_ok=True)
    except OSError as error:
        raise _make_plugin_error(error) from None
    for folder in sorted({step.path.parent for step in steps}, key=lambda path: -len(path.parts)):
        if folder not in (manifest.folders.plugins, manifest.folders.profiles):
            _remove_empty(folder)
    for folder in reversed(manifest.created):
        _remove_empty(folder)
    return steps


def compare_installation(files: Iterable[PluginFile], manifest: InstallManifest) -> list[FileChange]:
    """Compare the files of an installation with those that `install_files` would write."""
    steps = []
    wanted = {file.key: compute_digest(file.content) for file in files}
    for key in sorted(manifest.files.keys() | wanted.keys()):
        path = manifest.path(key)
        digest = _compute_file_digest(path)
        if digest is None:
            done = FileStatus.MISSING
        elif digest == wanted.get(key) or (is_state_file(key) and key in wanted):
            done = FileStatus.SAME
        elif digest == manifest.files.get(key):
            done = FileStatus.UPDATED if key in wanted else FileStatus.REMOVED  # the result of installing again
        else:
            done = FileStatus.KEPT
        steps.append(FileChange(done, path))
    return steps


def _compute_file_digest(path: Path) -> str | None:
    """Digest of a file; None if it does not exist; a text that is not a digest if it cannot be read."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        return "not ours"
    try:
        return compute_digest(path.read_bytes())
    except OSError:
        return "unreadable"


def _locate(file: PluginFile, folders: WiresharkFolders, before: InstallManifest | None) -> tuple[Path, str | None]:
    """Return the path of a file, and its digest when it was installed there before."""
    path = (folders.plugins if file.place is InstallDir.PLUGINS else folders.profiles) / file.name
    return path, before.files.get(file.key) if before and before.path(file.key) == path else None


def _classify(path: Path, file: PluginFile, known: str | None, force: bool) -> FileStatus:
    """Return what happens to a file if `content` is installed there."""
    digest = _compute_file_digest(path)
    if digest == compute_digest(file.content):
        return FileStatus.SAME
    if digest is not None and known is not None and is_state_file(file.key):
        return FileStatus.SAME
    if digest is None:
        return FileStatus.ADDED
    if digest == known:
        return FileStatus.UPDATED
    return FileStatus.REPLACED if force and not path.is_dir() else FileStatus.KEPT


def _install(path: Path, file: PluginFile, known: str | None, force: bool, created: list[Path]) -> FileStatus:
    done = _classify(path, file, known, force)
    if done in (FileStatus.SAME, FileStatus.KEPT):
        return done
    if done is FileStatus.REPLACED:
        os.replace(path, _find_unused_name(path))
    _make(path.parent, created)
    _write(path, file.content)
    return done


def _find_unused_name(path: Path) -> Path:
    """An unused name for the user's file."""
    return next(name for name in _iterate_original_names(path) if not os.path.lexists(name))


def _iterate_original_names(path: Path) -> Iterator[Path]:
    """The names of the user's earlier files, without end: x.orig, x.orig2 ..."""
    return (path.with_name(f"{path.name}.orig{number if number > 1 else ''}") for number in count(1))


def _remove(manifest: InstallManifest, files: Mapping[str, str]) -> Iterator[FileChange]:
    for key, known in sorted(files.items()):
        path = manifest.path(key)
        digest = _compute_file_digest(path)
        if digest is None:
            yield FileChange(FileStatus.MISSING, path)
        elif digest == known or is_state_file(key):
            path.unlink()
            yield FileChange(FileStatus.REMOVED, path)
        else:
            yield FileChange(FileStatus.KEPT, path)


def _restore(step: FileChange) -> FileChange:
    """Give the user's file, which was renamed to NAME.orig, its name again, if the installed file is gone."""
    path = step.path
    if step.done not in (FileStatus.REMOVED, FileStatus.MISSING) or os.path.lexists(path):
        return step
    latest = None
    for candidate in _iterate_original_names(path):
        if not os.path.lexists(candidate):
            break
        latest = candidate
    if latest is None:
        return step
    os.rename(latest, path)
    return FileChange(FileStatus.RESTORED, path)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or missing
        folder.rmdir()


def _make(folder: Path, created: list[Path]) -> None:
    """Create a folder with its parents, and append the new ones to `created`."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    created += [path for path in reversed(missing) if path not in created]


def _write(path: Path, content: bytes) -> None:
    try:
        with replace_atomically(str(path)) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        error.filename = str(path)  # a full disk has none, and others name the temporary file
        raise
    path.chmod(0o644)


def _make_plugin_error(error: OSError) -> PluginError:
    reason = error.strerror or type(error).__name__
    if isinstance(error, (FileExistsError, NotADirectoryError)):
        remedy = "Rename or remove what is in the place of a folder of Wireshark"
    elif error.errno in _NOT_WRITABLE:
        remedy = "Wireshark's personal folders have to be your own: check their owner, and that HOME is your directory"
    else:
        remedy = "Correct that, and run the command again"
    return PluginError(f"{error.filename}: {reason}. {remedy}" if error.filename else f"{reason}. {remedy}")
