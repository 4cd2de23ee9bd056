"""Keys and files for commands that read a capture while it is written."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from stat import S_ISDIR
from typing import TYPE_CHECKING

from ikeanalyze.cli.exit_status import CommandError, fail_command
from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.keys.detect import KeyFileError

if TYPE_CHECKING:
    from ikeanalyze.live.growing_keys import GrowingKeys


def read_growing_keys(paths: Sequence[str], messages: MessageOptions) -> "GrowingKeys | None":
    """Read key files, and print their warnings; None without files.

    Raises:
        CommandError: a file cannot be read.
    """
    if not paths:
        return None
    from ikeanalyze.live.growing_keys import GrowingKeys  # loads the readers of key files

    def remark(error: KeyFileError) -> None:
        messages.remark(f"{error}. It is read again when it grows")

    with fail_command(KeyFileError):
        keys = GrowingKeys(paths, remark)
    for file in keys.files:
        where = (f"line {warning.line}: " if warning.line is not None else "" for warning in file.warnings)
        texts = [f"{file.path}: {at}{warning.message}" for at, warning in zip(where, file.warnings, strict=True)]
        messages.warn(file.path, texts)
    return keys


@contextmanager
def open_descriptor(path: str) -> Iterator[int]:
    """Open a file or pipe. Raises `CommandError` if it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        raise CommandError(f"{path}: no such file") from None
    except PermissionError:
        raise CommandError(f"{path}: permission denied; read it as a user who may") from None
    except OSError as error:
        raise CommandError(f"{path}: cannot be opened: {error.strerror}") from None
    try:
        if S_ISDIR(os.fstat(descriptor).st_mode):  # which the system opens, but does not read
            raise CommandError(f"{path}: is a directory; name a capture in it")
        yield descriptor
    finally:
        os.close(descriptor)
