"""Exit statuses, and messages on standard error: one line for each error, and a traceback only on request."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import typer

from ikeanalyze.render.core.output import (
    OutputError,
    check_output,
    close_stdout,
    discard_after_closed_pipe,
    make_output_error,
)
from ikeanalyze.render.core.values import escape_text

#: Exit statuses other than 0 (done) and 2 (wrong usage, which Typer reports).
FAILED: Final = 1
SOME_SKIPPED: Final = 3
CONDITION_HOLDS: Final = 4  # of --fail-on; takes precedence over SOME_SKIPPED
INTERRUPTED: Final = 130


class CommandError(Exception):
    """The command failed; the message has the problem and its solution."""


def log_stderr(text: str) -> None:
    """Write one line to standard error, with control characters escaped."""
    with suppress(OSError, ValueError, AttributeError):
        line = f"ikeanalyze: {escape_text(' '.join(text.splitlines()))}\n"
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def print_result(line: str) -> None:
    """Write a line to standard output at once; nothing if its reader closed the pipe.

    Raises:
        OutputError: standard output is closed or cannot be written.
    """
    check_output("-")
    with convert_output_errors("-"), discard_after_closed_pipe():
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


@contextmanager
def convert_output_errors(path: str, option: str = "-o") -> Iterator[None]:
    """Turn errors of the operating system, other than a closed pipe, into `OutputError`; `option` has the path."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise make_output_error("standard output" if path == "-" else path, error, option) from None


@contextmanager
def fail_command(*errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into the failure of the command."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from None


@contextmanager
def refuse_option(option: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors into wrong usage of an option."""
    try:
        yield
    except errors as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


@contextmanager
def handle_errors(*, verbose: bool) -> Iterator[None]:
    """Turn every error of a command into one line on standard error and an exit status."""
    try:
        yield
        if sys.stdout is not None:
            with convert_output_errors("-"):  # short output stays in the buffer until here
                sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        close_stdout()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (CommandError, OutputError) as error:
        log_stderr(str(error))
        raise typer.Exit(FAILED) from None
    except MemoryError:
        log_stderr("out of memory. Split the capture (editcap -c), or read fewer captures at once")
        raise typer.Exit(FAILED) from None
    except Exception as error:
        # libraries may raise another error while they clean up
        if _began_with_interrupt(error):
            raise typer.Exit(INTERRUPTED) from None
        raise typer.Exit(report_internal_error(error, verbose=verbose)) from None


def _began_with_interrupt(error: BaseException | None) -> bool:
    """Whether an error was raised while Ctrl-C was handled."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def report_internal_error(error: Exception, *, verbose: bool) -> int:
    """Ask the user to report a bug; return the exit status."""
    if verbose:
        traceback.print_exception(error)
    details = "the lines above" if verbose else "the output of the same command with --verbose"
    log_stderr(
        f"internal error: {type(error).__name__}: {error}. "
        f"This is a bug in ikeanalyze. Please report it with {details}, and with the capture if possible"
    )
    return FAILED
