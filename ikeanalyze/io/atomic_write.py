"""Writes output files that replace existing files only when they are complete, and output streams."""

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EISDIR
from pathlib import Path
from typing import BinaryIO, Final

_BUFFER: Final = 1 << 20
#: Permissions of files with secrets.
_OWNER_ONLY: Final = 0o600


@contextmanager
def replace_atomically(path: str, *, owner_only: bool = False, new_owner_only: bool = False) -> Iterator[Path]:
    """A temporary file in the directory of `path`, renamed to `path` at the end or removed on an error.

    Symbolic links are followed. An existing file keeps its permissions, except with `owner_only`: then only the owner
    may read and write the file, whatever the permissions of the existing one and the umask. `new_owner_only`: the same
    for a new file only.

    Raises:
        OSError: the file cannot be created or renamed.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), path)
    is_private = owner_only or new_owner_only
    # independent of the name, which may already have the maximum length
    temporary = target.with_name(f".ikeanalyze-{os.urandom(8).hex()}.tmp")
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ONLY if is_private else 0o666))
        if is_private:
            temporary.chmod(_OWNER_ONLY)  # the umask may have cleared more bits
        yield temporary
        if target.exists() and not owner_only:
            shutil.copymode(target, temporary)
        temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_private(path: str, content: str) -> None:
    """Write a text file that only its owner may read and write; an existing file is replaced atomically.

    Symbolic links are followed. The file is compressed if its name says so.

    Raises:
        OSError: the file cannot be written, or exists and is not a regular file.
    """
    from ikeanalyze.io.compress import compress  # few commands write files

    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileExistsError(EEXIST, "not a regular file", path)
    with (
        replace_atomically(path, owner_only=True) as temporary,
        open(temporary, "wb") as file,
        compress(path, file) as stream,
    ):
        stream.write(content.encode())


def is_device_or_pipe(path: str) -> bool:
    """Whether `path` is a device or a pipe, which is written to directly: a file must not replace it."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def open_output(target: str | BinaryIO, *, new_owner_only: bool = False) -> Iterator[BinaryIO]:
    """A stream to write to: a path, "-" for standard output, or a stream, which is flushed and stays open.

    A file is written as in `replace_atomically`, also for `new_owner_only`, and compressed if its name says so; a
    device or a pipe is written to directly.

    Raises:
        OSError: the file cannot be created or written.
    """
    if not isinstance(target, str):
        yield target
        target.flush()
    elif target == "-":
        if sys.stdout is None:
            raise OSError("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
    elif is_device_or_pipe(target):
        with open(target, "wb", buffering=_BUFFER) as stream:
            yield stream
    else:
        from ikeanalyze.io.compress import compress  # few commands write files

        with (
            replace_atomically(target, new_owner_only=new_owner_only) as temporary,
            open(temporary, "wb", buffering=_BUFFER) as file,
            compress(target, file) as stream,
        ):
            yield stream
