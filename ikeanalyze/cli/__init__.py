"""The command `ikeanalyze`: one file per command; arguments, progress and exit codes, no analysis.

Nothing but Typer is imported before a command runs, so that `--help` is instant.
"""

import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ikeanalyze.cli import (
    batch,
    compare,
    decrypt,
    doctor,
    keys,
    lab,
    ladder,
    overhead,
    predict,
    rank,
    replay,
    report,
    verify,
    view,
    wireshark,
)
from ikeanalyze.cli.outcome import FAILED, INTERRUPTED, internal, no_more_output, say


class _Commands(TyperGroup):
    """The group of commands; an error is one line and an exit status, whoever calls."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run, then exit: 2 for wrong usage, else what the command says."""
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        try:
            status = super().main(*args, **extra)
        except typer.Abort:
            status = INTERRUPTED
        except SystemExit as end:  # which Click makes of help that nobody reads on
            status = 0 if isinstance(end.__context__, BrokenPipeError) else end.code
        except OSError as error:  # of --help and --version: a command deals with its own
            status = _not_shown(error)
        except Exception as error:
            status = _wrong_usage(error)
        if status == INTERRUPTED:
            say("interrupted")
        sys.exit(status if isinstance(status, int) else 0)


class _Command(TyperCommand):
    """A command whose usage line is as we write it."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's signature
        """What stands behind the name of the command."""
        return [self.options_metavar or ""]


def _not_shown(error: OSError) -> int:
    """What becomes of help that cannot be written."""
    no_more_output()
    say(f"standard output: cannot be written: {error.strerror or error}")
    return FAILED


def _wrong_usage(error: Exception) -> int:
    """Say what is wrong with the arguments. Typer's errors are Click's or, in later versions, its own."""
    if not hasattr(error, "format_message"):
        return internal(error, verbose="--verbose" in sys.argv)
    what = " ".join(error.format_message().split())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return 2
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "ikeanalyze"
    say(f"{what}{'' if what.endswith(('.', '?')) else '.'} See '{command} --help'")
    return int(getattr(error, "exit_code", 2))


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        from ikeanalyze import __version__

        typer.echo(f"ikeanalyze {__version__}")
        raise typer.Exit


@app.callback()
def _ikeanalyze(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Analyse captures of IKEv2 handshakes, post-quantum ones above all.

    Reads pcap and pcapng files (gzip and zstd too) and says for each handshake what it cost: messages,
    frames, bytes, round trips, retransmissions, and where its set-up time went.

    Results go to standard output, all else to standard error. Exit status: 0 done, 1 the input could not be
    read or the job failed, 2 wrong usage, 3 done but some of several inputs were skipped.
    """


def _offer(function: Callable[..., None], usage: str, what: str) -> None:
    """Make a command of a function: what stands behind its name, and what it does in a few words."""
    app.command(cls=_Command, options_metavar=usage, short_help=what)(function)


_offer(report.report, "CAPTURE... [OPTIONS]", "What each handshake cost: messages, bytes, time.")
_offer(ladder.ladder, "CAPTURE [OPTIONS]", "One handshake, message by message.")
_offer(view.view, "CAPTURE [OPTIONS]", "Browse handshakes in the terminal.")
_offer(
    decrypt.decrypt,
    "CAPTURE --keys FILE -o OUT.pcapng [OPTIONS]",
    "The same capture with its messages in clear.",
)
_offer(keys.keys, "FILE... [OPTIONS]", "What is in key files and logs; the same for Wireshark.")
_offer(verify.verify, "CAPTURE --keys FILE... [OPTIONS]", "Whether a handshake follows from a daemon's log.")
_offer(batch.batch, "PATH... -o DATASET [OPTIONS]", "Thousands of captures to a folder of Parquet tables.")
_offer(compare.compare, "DATASET --by COLUMN... [OPTIONS]", "Groups of handshakes beside one another.")
_offer(predict.predict, "CAPTURE... --rtt MS [OPTIONS]", "What a handshake would take on another link.")
_offer(overhead.overhead, "[OPTIONS]", "What ESP costs: bytes, operations, delay.")
_offer(rank.rank, "CRITERIA.toml [OPTIONS]", "Alternatives in order, by several criteria.")
_offer(
    replay.replay,
    "CAPTURE --target ADDRESS[:PORT] [OPTIONS]",
    "A recorded handshake, taken to a live responder.",
)
app.add_typer(
    wireshark.app,
    name="wireshark",
    short_help="The Wireshark plugin: install it, take it away, see what works.",
)
app.add_typer(lab.app, name="lab", short_help="Scenarios on live stacks of this machine, recorded.")
_offer(doctor.doctor, "[OPTIONS]", "What this machine has and lacks for the above.")


def main() -> None:
    """Run the command line of this process."""
    # numpy's linear algebra, which is not used, keeps a processor busy with waiting when it has threads
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # lists of a million numbers make Python look for cycles again and again, and there are next to none
    gc.set_threshold(200_000, 50, 1000)
    # of two threads that compute, one would wait for 5 ms each time that it comes back from numpy to Python
    sys.setswitchinterval(0.0005)
    try:
        app(prog_name="ikeanalyze")
    except SystemExit as end:
        _leave(end.code)


def _leave(status: Any) -> NoReturn:
    """End the process at once: to take tables of a million rows apart in memory takes a tenth of a second."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # closed, or a full disk, of which has been told
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
