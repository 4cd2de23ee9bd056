"""Keys and files for commands that read a capture while it is written."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ikeanalyze.cli.exit_status import CommandError, fail_command
from ikeanalyze.cli.options import MessageOptions
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decrypt import CaptureKeys


def read_key_files(paths: Sequence[str], messages: MessageOptions) -> list[KeyFile]:
    """Read key files and print their warnings. Raises `CommandError` if one cannot be used."""
    files = []
    for path in paths:
        with fail_command(KeyFileError):
            file = read_keys(path)
        files.append(file)
        where = (f"line {warning.line}: " if warning.line is not None else "" for warning in file.warnings)
        texts = [f"{path}: {at}{warning.message}" for at, warning in zip(where, file.warnings, strict=True)]
        messages.warn(path, texts)
    return files


def join_keys(files: Sequence[KeyFile]) -> "CaptureKeys | None":
    """The keys of all files; None without files."""
    from ikeanalyze.analysis.decryption.decrypt import CaptureKeys  # loads cryptography

    if not files:
        return None
    return CaptureKeys(
        [keys for file in files for keys in file.key_sets], [key for file in files for key in file.phase1]
    )


@contextmanager
def open_descriptor(path: str) -> Iterator[int]:
    """Open a file or pipe. Raises `CommandError` if it cannot be opened."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise CommandError(f"{path}: cannot be opened: {error.strerror}") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)
