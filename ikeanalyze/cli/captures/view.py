"""`ikeanalyze view`: browse the handshakes of a capture in the terminal."""

import os
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec

import typer

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.cli.capture_options import CaptureArgument, CaptureOptions, read_captures
from ikeanalyze.cli.exit_status import CommandError, fail_command, log_stderr
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import check_inputs
from ikeanalyze.keys.detect import KeyFile, KeyFileError, read_keys

app = make_app()


@command(app, "CAPTURE [OPTIONS]")
def view(capture: CaptureArgument, inputs: CaptureOptions, messages: MessageOptions) -> None:
    """Browse the handshakes of a capture in the terminal.

    A list of all handshakes that can be filtered and sorted; for each handshake its ladder, message by message, with
    the payloads of the message under the cursor, decrypted if --keys fit. Two messages can be compared, and handshakes
    or messages saved as a capture. Press ? for the keys.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd.
    """
    for parameter, paths in {"CAPTURE": [capture], "--keys": inputs.keys}.items():
        if "-" in paths:
            raise typer.BadParameter(
                "the browser reads the keyboard from standard input: name a file", param_hint=parameter
            )
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, "-")
    _check_terminal()
    if find_spec("textual") is None:
        raise CommandError("view needs Textual, which is not installed: pip install 'ikeanalyze[view]'")
    key_files = list(_read_key_files(inputs.keys))
    analysis = read_captures([capture], inputs, messages, ReadOptions(keys=key_files))
    # imported here because they need Textual, and load polars, after which the capture reader cannot fork
    from ikeanalyze.view.app import TerminalError, run_browser
    from ikeanalyze.view.session import CaptureSession

    with fail_command(TerminalError):
        usable = [file for file in key_files if isinstance(file, KeyFile)]
        run_browser(CaptureSession(capture, analysis, usable, inputs.port))


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
