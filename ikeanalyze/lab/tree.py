"""Debian trees: programs of another release than this machine's own, in a folder to be entered with chroot.

`debian_tree.sh` beside this file makes them, here and for the tests.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ikeanalyze.lab import LabError

#: The release with a strongSwan that has ML-KEM, and what the lab needs of it.
SUITE: Final = "forky"
PACKAGES: Final = (
    "strongswan-charon",
    "strongswan-swanctl",  # has charon's plugin vici
    "libstrongswan-standard-plugins",
    "libstrongswan-extra-plugins",
    "libcharon-extra-plugins",
    "libcharon-extauth-plugins",
    "freeradius",
)
SCRIPT: Final = Path(__file__).parent / "debian_tree.sh"
_SECONDS: Final = 1800


def place() -> Path:
    """Where the lab's tree is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("IKEANALYZE_TREES") or Path(cache) / "ikeanalyze") / SUITE


def make(packages: Sequence[str] = PACKAGES) -> Path:
    """Make the tree, unless it is there with these packages; where it is. What is done goes to standard error.

    Errors:
        LabError: no root, no debootstrap, no network.
    """
    try:
        done = subprocess.run(
            ["bash", str(SCRIPT), SUITE, *packages],
            stdout=subprocess.PIPE,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"making the tree took more than {_SECONDS} s") from None
    if done.returncode:
        raise LabError(f"no tree of Debian {SUITE} was made (the lines above say why)")
    return Path(done.stdout.strip().splitlines()[-1])
