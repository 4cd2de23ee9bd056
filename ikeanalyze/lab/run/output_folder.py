"""Locks the folder that a run of the lab writes to."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ikeanalyze.lab import LabError


@contextmanager
def exclusive_output_dir(out: Path) -> Iterator[None]:
    """Create and lock the output directory, so that runs do not mix their results.

    If nothing was written, the directories that were created for it are removed at the end.

    Raises:
        LabError: it cannot be created or written, or another run uses it.
    """
    created: list[Path] = []
    try:
        created = [folder for folder in (out, *out.parents) if not folder.exists()]
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        claim = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except FileExistsError:
        raise LabError(f"{out}: is a file. Name a folder with -o") from None
    except OSError as error:
        raise LabError(f"{out}: cannot be written to ({error.strerror}). Name another folder with -o") from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(claim), out.stat()):
            raise BlockingIOError  # another run removed the directory at its end, and a third one created it
    except OSError:
        os.close(claim)
        raise LabError(f"{out}: another run of the lab writes there; choose another folder, or wait") from None
    try:
        yield
    finally:
        with suppress(OSError):  # not empty
            for folder in created:
                folder.rmdir()
        os.close(claim)
