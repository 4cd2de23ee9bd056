"""The programs that are compared: ikeanalyze with and without its core, an earlier ikeanalyze, and tshark."""

import compileall
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.readers import ROOT, Reader, find_our_command, read_tshark_version
from ikeanalyze import core

#: Turns the core off.
NO_CORE: Final = {core.SWITCH: "0"}


@dataclass(frozen=True, slots=True)
class Version:
    """An ikeanalyze."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)  # in addition to ours
    once: bool = False  # it takes minutes, and is run once

    def read(self, arguments: Sequence[str], *, around: Sequence[str] = ()) -> Reader:
        """A reader with these arguments; `around` is a command that runs it."""
        command = [*around, *self.command, *arguments]
        return Reader(self.name, [command], from_stdin=False, environment=self.environment, once=self.once)


def list_versions(*, compiled: bool) -> list[Version]:
    """Our command without the core, and with it where it is installed."""
    compile_bytecode(ROOT)
    versions = [Version("ikeanalyze", find_our_command(), NO_CORE)]
    if compiled:
        versions.append(Version("ikeanalyze with the core", find_our_command()))
    return versions


def compile_bytecode(tree: Path) -> None:
    """Compile the package in a working tree as an installation does, also where Python must not write bytecode."""
    compileall.compile_dir(tree / "ikeanalyze", quiet=2)


@contextmanager
def check_out(commit: str) -> Iterator[Version]:
    """An earlier ikeanalyze, with the libraries of this one, in a temporary working tree of git."""
    with tempfile.TemporaryDirectory() as folder:
        tree = str(Path(folder) / "ikeanalyze")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            compile_bytecode(Path(tree))
            # -P: without the current directory, which may have another ikeanalyze
            command = [sys.executable, "-P", "-m", "ikeanalyze"]
            yield Version(f"ikeanalyze before ({commit})", command, {"PYTHONPATH": tree}, once=True)
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)


@dataclass(frozen=True, slots=True)
class Tshark:
    """A tshark of this machine or in a tree."""

    command: list[str]
    version: str
    root: Path  # of its file system

    @contextmanager
    def with_keys(self, table: Path) -> Iterator[dict[str, str]]:
        """Give it a configuration folder with this table of keys; yields the environment."""
        with tempfile.TemporaryDirectory(dir=self.root / "tmp") as folder:
            shutil.copyfile(table, Path(folder) / table.name)
            yield {"WIRESHARK_CONFIG_DIR": "/" + str(Path(folder).relative_to(self.root))}


def find_tshark(tree: Path | None) -> Tshark:
    """That of this machine, or of a tree. Exits if it does not run."""
    command = ["chroot", str(tree), "tshark"] if tree else ["tshark"]
    number = read_tshark_version(command)
    if number is None:
        sys.exit(f"{' '.join(command)} does not run")
    return Tshark(command, number, tree or Path("/"))
