"""`ikeanalyze view`: browse the handshakes of a capture in the terminal."""

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Annotated

import typer

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import CaptureArgument, CaptureOptions, read_captures
from ikeanalyze.cli.exit_status import CommandError, fail_command, log_stderr
from ikeanalyze.cli.live_input import open_descriptor, read_growing_keys
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import check_inputs
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys

app = make_app()


@command(app, "CAPTURE [OPTIONS]")
def view(
    capture: CaptureArgument,
    inputs: CaptureOptions,
    messages: MessageOptions,
    follow: Annotated[
        bool, typer.Option("--follow", help="The capture is still being written: add handshakes when they end.")
    ] = False,
) -> None:
    """Browse the handshakes of a capture in the terminal.

    A list of all handshakes that can be filtered and sorted; for each handshake its ladder, message by message, with
    the payloads of the message under the cursor, decrypted if --keys fit. Two messages can be compared, and handshakes
    or messages saved as a capture. Press ? for the keys.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd. With --follow it is not compressed, and may
    still be written: handshakes appear when they have ended, as in 'ikeanalyze live'.
    """
    for parameter, paths in {"CAPTURE": [capture], "--keys": inputs.keys}.items():
        if "-" in paths:
            raise typer.BadParameter(
                "the browser reads the keyboard from standard input: name a file", param_hint=parameter
            )
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, "-")
    _check_terminal()
    if find_spec("textual") is None:
        from ikeanalyze.io.suggestions import advise_install  # for this error alone

        raise CommandError(f"view needs Textual, which is not installed: {advise_install('textual')}")
    key_files = list(_read_key_files(inputs.keys))
    if follow:
        _follow(capture, inputs, messages)
        return
    analysis = read_captures([capture], inputs, messages, ReadOptions(keys=key_files))
    # imported here because they need Textual, and load polars, after which the capture reader cannot fork
    from ikeanalyze.view.app import TerminalError, run_browser
    from ikeanalyze.view.session import CaptureSession

    with fail_command(TerminalError):
        usable = [file for file in key_files if isinstance(file, KeyFile)]
        run_browser(CaptureSession(capture, analysis, usable, inputs.port))


def _follow(path: str, inputs: CaptureOptions, messages: MessageOptions) -> None:
    """Browse a capture that is being written."""
    from ikeanalyze.live.capture_feed import LiveInput
    from ikeanalyze.live.rules import EndingRules
    from ikeanalyze.live.run import LiveRun
    from ikeanalyze.view.app import TerminalError, run_browser
    from ikeanalyze.view.growing_session import GrowingSession

    keys = read_growing_keys(inputs.keys, messages)
    options = ReadOptions(ports=tuple(inputs.port))
    with open_descriptor(path) as descriptor:
        source = LiveInput(descriptor, follow=True)
        with fail_command(CaptureError):
            run = LiveRun(source, path, lambda analysis: session.add(analysis), options, EndingRules(), keys)
        session = GrowingSession(path, run.format, [] if keys is None else keys.files, inputs.port)

        def read() -> None:
            try:
                run.run()
            except Exception as error:  # shown in the browser, which has the terminal
                session.end(f"{type(error).__name__}: {error}")
            else:
                session.end(run.damage.what if run.damage is not None else "the end of the capture")

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            with fail_command(TerminalError):
                run_browser(session)
        finally:
            source.stop(0)
            reader.join()


def _read_key_files(paths: Sequence[str]) -> Iterator[KeyFile | str]:
    """Yield the key files, or the paths of those that cannot be used, which the reader of the capture reports."""
    for path in paths:
        try:
            yield read_keys(path)
        except KeyFileError:
            yield path


def _check_terminal() -> None:
    """Exit with status 2 unless all standard streams are a terminal that can move its cursor."""
    streams = {
        "standard input": sys.stdin,
        "standard output": sys.stdout,
        "standard error": sys.stderr,  # which Textual writes to
    }
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            log_stderr(
                f"view needs a terminal, but {name} is not one. "
                "'ikeanalyze report' and 'ikeanalyze ladder' write to files and pipes"
            )
            raise typer.Exit(2)
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        log_stderr("view needs a terminal that can move its cursor. Set TERM, for example TERM=xterm-256color")
        raise typer.Exit(2)
