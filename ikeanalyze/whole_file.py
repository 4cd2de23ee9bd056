"""A file that appears under its name when it is complete, or never.

For every room: it knows nothing of ours.
"""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EISDIR
from pathlib import Path


@contextmanager
def replaced(path: str) -> Iterator[Path]:
    """A new file beside `path` that takes its name at the end, or is removed on an error.

    A link is written through, and an existing file's permissions stay.

    Raises:
        OSError: the system refuses.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), path)
    # not made of the name, which may be as long as a name can be
    temporary = target.with_name(f".ikeanalyze-{secrets.token_hex(8)}.tmp")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def is_special(path: str) -> bool:
    """Whether it is a device or a pipe: written to directly, since a file must not take its place."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
