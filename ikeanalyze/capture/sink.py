"""Where the bytes of a written capture go: a file that appears under its name only when it is complete, or a stream."""

import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_BUFFER: Final = 1 << 20


@contextmanager
def open_sink(target: str | BinaryIO) -> Iterator[BinaryIO]:
    """A stream to write to: a path, "-" for standard output, or a stream, which is flushed and stays open.

    A link is written through, an existing file's permissions stay, and a device or a pipe is written to directly. If
    the block raises, nothing of a file stays behind.

    Raises:
        OSError: the system refuses.

    """
    if not isinstance(target, str):
        yield target
        target.flush()
    elif target == "-":
        if sys.stdout is None:
            raise OSError("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif _is_special(target):
        with open(target, "wb", buffering=_BUFFER) as stream:
            yield stream
    else:
        with _replaced(target) as temporary, open(temporary, "wb", buffering=_BUFFER) as stream:
            yield stream


@contextmanager
def _replaced(path: str) -> Iterator[Path]:
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", path)
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


def _is_special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)
