"""The folder that results go to: made before anything is run, and one run's alone while it lasts."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ikeanalyze.lab import LabError


@contextmanager
def exclusive_output_dir(out: Path) -> Iterator[None]:
    """Make the folder and keep other runs from it, which would leave a mixture of both there.

    Errors:
        LabError: it cannot be made or written to, or another run writes there; the text has its name.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        claim = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LabError(f"{out}: {error.strerror}") from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise LabError(f"{out}: another run of the lab writes there; choose another folder, or wait") from None
    try:
        yield
    finally:
        os.close(claim)
