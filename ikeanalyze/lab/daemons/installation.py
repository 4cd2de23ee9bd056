"""Installed daemons: where a program is, in this system or in a Debian tree, and its version."""

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ikeanalyze.lab.debian_tree import DebianTree


@dataclass(frozen=True, slots=True)
class DaemonStack:
    """A daemon that can be run."""

    name: str  # "strongSwan", "libreswan", "FreeRADIUS"...
    root: Path  # root of its system: / or a Debian tree
    program: str  # path of the program below the root
    version: str
    remark: str = ""  # how it differs from what its name and version promise

    def __str__(self) -> str:
        return f"{self.name} {self.version}{f' ({self.remark})' if self.remark else ''}"

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version as numbers, for comparisons."""
        return tuple(map(int, re.findall(r"\d+", self.version)[:3]))

    @property
    def in_tree(self) -> bool:
        """Whether it is in a Debian tree, and not in this system."""
        return self.root != Path("/")


def list_roots(trees: Iterable[DebianTree]) -> list[Path]:
    """Return the root of this system, and those of the Debian trees that exist."""
    return [Path("/"), *(tree.place for tree in trees if tree.place.is_dir())]


def find_installations(name: str, programs: Sequence[str], option: str, roots: Iterable[Path]) -> Iterator[DaemonStack]:
    """Return the installations of a daemon in the order of the roots.

    `programs` are its possible paths below a root, without the leading slash; `option` makes it print its version.
    """
    for root in roots:
        for program in programs:
            if version := read_version(root, program, option):
                yield DaemonStack(name, root, f"/{program}", version)


def read_version(root: Path, program: str, option: str) -> str | None:
    """Return the version that a program prints; None if it is missing or fails."""
    path = root / program
    if not os.access(path, os.X_OK):
        return None
    command = [str(path), option] if root == Path("/") else ["chroot", str(root), f"/{program}", option]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return find_version(completed.stdout + completed.stderr)


def find_version(text: str) -> str | None:
    """Return the first version number in what a program prints."""
    number = re.search(r"\d+\.\d+(\.\d+)?\w*", text)
    return number[0] if number else None


def list_versions(installations: Iterable[DaemonStack]) -> str:
    """Return the versions with their trees, for `lab doctor`."""
    return ", ".join(
        f"{installed.version} in the tree {installed.root.name}" if installed.in_tree else installed.version
        for installed in installations
    )
