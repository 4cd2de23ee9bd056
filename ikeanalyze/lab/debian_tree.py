"""Debian trees: daemons of another Debian release in a chroot, made by `debian_tree.sh`."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ikeanalyze.lab import LabError

_STRONGSWAN: Final = (
    "strongswan-charon",
    "strongswan-swanctl",  # has charon's plugin vici
    "libstrongswan-standard-plugins",
    "libstrongswan-extra-plugins",
    "libcharon-extra-plugins",
    "libcharon-extauth-plugins",
)
SCRIPT: Final = Path(__file__).parent / "debian_tree.sh"
_SECONDS: Final = 1800


@dataclass(frozen=True, slots=True)
class DebianTree:
    """A tree that the lab may need."""

    name: str  # the Debian release, with a suffix after a dash if the release has several trees
    packages: tuple[str, ...]

    @property
    def place(self) -> Path:
        """Where it is, or would be."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(os.environ.get("IKEANALYZE_TREES") or Path(cache) / "ikeanalyze") / self.name


#: A strongSwan with ML-KEM, which has no IKEv1, and both AAA servers.
NEW: Final = DebianTree("forky", (*_STRONGSWAN, "freeradius", "hostapd"))
#: A strongSwan with IKEv1, which has no ML-KEM.
OLD: Final = DebianTree("bookworm", _STRONGSWAN)
#: libreswan conflicts with strongSwan in Debian, so it has its own tree.
LIBRESWAN: Final = DebianTree("forky-libreswan", ("libreswan",))
#: With a small compiler for the lab's stand-in for PF_KEY, which forky lacks.
OPENIKED: Final = DebianTree("trixie-openiked", ("openiked", "tcc", "libc6-dev"))
ALL: Final = (NEW, OLD, LIBRESWAN, OPENIKED)


def make_tree(tree: DebianTree) -> Path:
    """Make a tree unless it exists; return its path. Progress goes to standard error.

    Raises:
        LabError: no root, no debootstrap, or no network.
    """
    command = ["bash", str(SCRIPT), tree.name, *tree.packages]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"making the tree {tree.name} took more than {_SECONDS} s") from None
    if done.returncode:
        raise LabError(f"no tree {tree.name} of Debian was made (see the lines above)")
    return Path(done.stdout.strip().splitlines()[-1])
