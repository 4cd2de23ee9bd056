"""Output to standard output, or to a file that appears under its name only when it is complete."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from ikeanalyze.io import atomic_write
from ikeanalyze.io.atomic_write import is_device_or_pipe


class OutputError(Exception):
    """The output cannot be written: the path, the problem, and what to do."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def make_output_error(path: str, error: OSError, option: str = "-o") -> OutputError:
    """Return the error for an error of the operating system; `option` is the option with the path."""
    return OutputError(path, f"cannot be written: {error.strerror or error}. Name another output with {option}")


def check_output(path: str, *, directory: bool = False, option: str = "-o") -> None:
    """Raise `OutputError` if `path` cannot be written, so that a command can fail before it reads anything."""
    if path == "-":
        if sys.stdout is None:
            raise OutputError("standard output", "is closed. Name another output with -o")
        return
    if not path:
        raise OutputError('""', f"is not the name of an output. Name one with {option}")
    target = Path(path)
    try:
        if directory:
            if target.exists() and not target.is_dir():
                raise OutputError(path, f"is a file, and this needs a directory. Name another output with {option}")
            parent = next(p for p in (target, *target.absolute().parents) if p.exists())
        else:
            if target.is_dir():
                raise OutputError(path, f"is a directory. Name a file with {option}")
            if is_device_or_pipe(path):
                return
            parent = Path(os.path.realpath(target)).parent
            if not parent.exists():
                raise OutputError(
                    path,
                    f"the directory {parent} does not exist. Create it first, or name another output with {option}",
                )
    except OSError as error:
        raise make_output_error(path, error, option) from None
    if not parent.is_dir():
        raise OutputError(path, f"{parent} is a file, not a directory. Name another output with {option}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise OutputError(path, f"no permission to write in {parent}. Name another output with {option}")


@contextmanager
def open_output(path: str) -> Iterator[TextIO]:
    """Open a text stream to `path` ("-": standard output). On an error, the file is not created or changed.

    A file is compressed if its name says so. If the reader closes a pipe, as `head` does, the rest of the output is
    discarded: the command continues behind the `with` statement, where it decides on its exit status.
    """
    if path == "-":
        check_output(path)
        with _convert_errors("standard output"), discard_after_closed_pipe():
            yield sys.stdout
            sys.stdout.flush()
    elif is_device_or_pipe(path):
        with (
            _convert_errors(path),
            suppress(BrokenPipeError),
            open(path, "w", encoding="utf-8", errors="backslashreplace") as stream,
        ):
            yield stream
    else:
        from ikeanalyze.io.compress import compress  # most output goes to standard output

        check_output(path)
        with (
            replace_output(path) as temporary,
            open(temporary, "wb") as file,
            compress(path, file) as compressed,
        ):
            stream = TextIOWrapper(compressed, encoding="utf-8", errors="backslashreplace", newline="\n")
            yield stream
            stream.detach()  # flushes it, and leaves the files to those who opened them


@contextmanager
def discard_after_closed_pipe() -> Iterator[None]:
    """Discard what is written to standard output after its reader closed the pipe (EPIPE)."""
    try:
        yield
    except BrokenPipeError:
        close_stdout()


def close_stdout() -> None:
    """Discard the buffered output, and all later output, to standard output."""
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


@contextmanager
def _convert_errors(path: str) -> Iterator[None]:
    """Raise `OutputError` for an `OSError`."""
    try:
        yield
    except OSError as error:
        raise make_output_error(path, error) from None


@contextmanager
def replace_output(path: str, option: str = "-o") -> Iterator[Path]:
    """Yield a temporary path that replaces `path` at the end: see `io.atomic_write.replace_atomically`.

    `option` is the option with the path. Raises `OutputError` for an `OSError`.
    """
    try:
        with atomic_write.replace_atomically(path) as temporary:
            yield temporary
    except OSError as error:
        raise make_output_error(path, error, option) from None
