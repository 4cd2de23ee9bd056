"""The command `ikeanalyze`: the table of its commands, and how the process starts and ends."""

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from ikeanalyze.cli.exit_status import FAILED, INTERRUPTED, log_stderr, report_internal_error
from ikeanalyze.cli.usage.conversion import defer_conversion
from ikeanalyze.cli.usage.epilog import ExamplesInHelp
from ikeanalyze.render.core.output import close_stdout

#: The module of each command, and its line in the list of commands.
COMMANDS: Final = {
    "report": ("captures.report", "Report messages, bytes and time of each handshake."),
    "ladder": ("captures.ladder", "Draw a handshake message by message."),
    "view": ("captures.view", "Browse handshakes in the terminal."),
    "live": ("captures.live", "Report handshakes while they are captured."),
    "decrypt": ("captures.decrypt", "Write a decrypted copy of a capture."),
    "anonymize": ("captures.anonymize", "Write an anonymised copy of a capture."),
    "extract": ("captures.extract", "Copy the packets of handshakes to a capture."),
    "keys": ("captures.keys", "Inspect key files and convert them for Wireshark."),
    "verify": ("captures.verify", "Verify a capture against a daemon's log."),
    "batch": ("experiments.batch", "Convert captures to a Parquet dataset."),
    "compare": ("experiments.compare", "Compare groups of handshakes."),
    "predict": ("models.predict", "Predict handshakes on another link."),
    "overhead": ("models.overhead", "Compute or measure the overhead of ESP."),
    "rank": ("models.rank", "Rank alternatives by several criteria."),
    "replay": ("experiments.replay", "Replay a recorded handshake to a live responder."),
    "doctor": ("setup.doctor", "Check the dependencies on this machine."),
    "wireshark": ("setup.wireshark", "Install, remove or check the Wireshark plugin."),
    "paper": ("experiments.paper", "Rerun published experiments."),
    "lab": ("experiments.lab", "Run scenarios with real daemons and record them."),
}


class _LazyCommand(TyperCommand):
    """A command or a group of commands; its module is imported when it is called or completed."""

    def __init__(self, name: str, module: str, summary: str) -> None:
        super().__init__(name, short_help=summary)
        self._module = f"ikeanalyze.cli.{module}"

    def load(self) -> Any:
        """Import the command and return it."""
        return typer.main.get_command(import_module(self._module).app)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command and return its context, which Click then runs."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class _LazyGroup(ExamplesInHelp, TyperGroup):
    """The group of all commands. Errors are one line and an exit status."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (module, summary) in COMMANDS.items():
            self.add_command(_LazyCommand(name, module, summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that is called.

        A path in place of its name is that of a capture to report; `help` before a name is `--help` after it.
        """
        if args and self.get_command(ctx, args[0]) is None and _is_path(args[0]):
            if args[1:] and args[1] in COMMANDS and not os.path.exists(args[1]):
                ctx.fail(f"{args[1]} is a command, which comes first: ikeanalyze {args[1]} {args[0]}")
            args = ["report", *args]
        elif args == ["help"]:
            typer.echo(ctx.get_help())
            raise typer.Exit
        elif args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> Any:
        """Return all parameters, including those that Typer adds."""
        return defer_conversion(super().get_params(ctx))

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit: with status 2 for wrong usage, otherwise as the command decides."""
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        extra["standalone_mode"] = False
        try:
            status = super().main(*args, **extra)
        except typer.Abort:
            status = INTERRUPTED
        except SystemExit as end:  # Click exits with status 1 if the pipe for the help is closed
            status = 0 if isinstance(end.__context__, BrokenPipeError) else end.code
        except OSError as error:  # from --help, --version and --install-completion only: commands handle their own
            close_stdout()
            log_stderr(f"{error.filename or 'standard output'}: cannot be written: {error.strerror or error}")
            status = FAILED
        except Exception as error:
            status = _report_usage_error(error)
        if status == INTERRUPTED:
            log_stderr("interrupted")
        sys.exit(status if isinstance(status, int) else 0)


def _is_path(argument: str) -> bool:
    """Return whether an argument is the path of a file rather than a misspelt command."""
    return argument == "-" or bool({"/", "."} & set(argument)) or os.path.exists(argument)


def _report_usage_error(error: Exception) -> int:
    """Print an error of the arguments. The classes are Click's or, in later versions of Typer, Typer's."""
    if not hasattr(error, "format_message"):
        return report_internal_error(error, verbose="--verbose" in sys.argv)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(error.format_message(), err=True)
        return 2
    message = " ".join(error.format_message().split()).replace("Value error, ", "")  # a prefix of pydantic
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "ikeanalyze"
    if type(error).__name__ == "NoSuchOption" and context and context.parent is None:
        # not Click's own text, whose quotes and full stop differ between its versions
        guesses = getattr(error, "possibilities", None)
        message = f"No such option: {getattr(error, 'option_name', '')} before the command; options follow it."
        message += f" Did you mean {' or '.join(guesses)}?" if guesses else ""
    log_stderr(f"{message}{'' if message.endswith(('.', '?')) else '.'} See '{command} --help'")
    return int(getattr(error, "exit_code", 2))


app = typer.Typer(
    cls=_LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(requested: bool) -> None:
    if requested:
        from ikeanalyze._version import installed_version

        typer.echo(f"ikeanalyze {installed_version()}")
        raise typer.Exit


@app.callback()
def _ikeanalyze(
    version: Annotated[
        bool, typer.Option("-V", "--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Analyze captures of IKEv2 handshakes, in particular post-quantum ones.

    Reads pcap and pcapng files, plain or compressed with gzip or zstd, and reports for each handshake messages, frames,
    bytes, round trips, retransmissions and how the set-up time was spent.

    Results go to standard output, everything else to standard error. Exit status: 0 success, 1 the input could not be
    read or the command failed, 2 wrong usage, 3 success, but some of several inputs were skipped, 4 success, but a
    condition of --fail-on holds.

    Texts name files of the documentation, such as docs/diagnosis.md: `ikeanalyze doctor` prints the folder.
    """


def run() -> None:
    """Run the command line, and end the process."""
    # Threads of numpy's linear algebra, which is not used, would keep a processor busy with waiting.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # With the default of 5 ms a computing thread would wait that long each time it returns from numpy to Python.
    sys.setswitchinterval(0.0005)
    try:
        app(prog_name="ikeanalyze")
    except SystemExit as end:
        _exit_at_once(end.code)
    except KeyboardInterrupt:  # a second one, before the first was reported
        log_stderr("interrupted")
        _exit_at_once(INTERRUPTED)


def _exit_at_once(status: Any) -> NoReturn:
    """End the process without freeing tables of a million rows, which takes a tenth of a second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # users may press Ctrl-C until the process has ended
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # closed, or a full disk, which was reported
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
