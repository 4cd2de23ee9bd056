"""How a command ends: exit status, one line on standard error, never a traceback for what is not our bug."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import typer

#: Exit statuses besides 0 (done) and 2 (wrong usage, which Typer finds).
FAILED: Final = 1
SOME_SKIPPED: Final = 3
INTERRUPTED: Final = 130


class FailureError(Exception):
    """The job cannot be done: a line for the user that says what is wrong and what to do."""


def say(text: str) -> None:
    """One line on standard error, harmless to a terminal whatever is in it."""
    from ikeanalyze.render.values import clean

    with suppress(OSError, ValueError, AttributeError):
        line = f"ikeanalyze: {clean(' '.join(text.splitlines()))}\n"
        encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
        sys.stderr.write(line.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def show(text: str) -> None:
    """A line of the result on standard output.

    Raises:
        OutputError: there is none, or it takes nothing more.
    """
    from ikeanalyze.render.output import check

    check("-")
    with _written():
        sys.stdout.write(f"{text}\n")


@contextmanager
def _written() -> Iterator[None]:
    from ikeanalyze.render.output import cannot_write

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write("standard output", error) from None


@contextmanager
def job(*, verbose: bool) -> Iterator[None]:
    """Around all that a command does: what goes wrong inside becomes a line and an exit status."""
    from ikeanalyze.render.output import OutputError

    try:
        yield
        if sys.stdout is not None:
            with _written():  # little output is written here and not before
                sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except BrokenPipeError:
        no_more_output()
        raise typer.Exit(0) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (FailureError, OutputError) as error:
        say(str(error))
        raise typer.Exit(FAILED) from None
    except MemoryError:
        say("not enough memory. Split the capture (editcap -c), or name fewer captures in one call")
        raise typer.Exit(FAILED) from None
    except Exception as error:
        raise typer.Exit(internal(error, verbose=verbose)) from None


def no_more_output() -> None:
    """Whoever reads our output has had enough, as `head` does: what is still in the buffer goes nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def internal(error: Exception, *, verbose: bool) -> int:
    """Say that this is our bug, and how to report it."""
    if verbose:
        import traceback

        traceback.print_exception(error)
        how = "Please report it with the lines above"
    else:
        how = "Please report it with what the same command says with --verbose"
    say(
        f"internal error: {type(error).__name__}: {error}. "
        f"This is a bug of ikeanalyze. {how}, and the capture if you may"
    )
    return FAILED
