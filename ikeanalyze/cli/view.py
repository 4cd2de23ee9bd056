"""`ikeanalyze view`: the handshakes of a capture in a terminal browser."""

import os
import sys
from importlib.util import find_spec
from typing import Annotated

import typer

from ikeanalyze.cli.outcome import FailureError, job, say
from ikeanalyze.cli.reading import Keys, Port, Quiet, Verbose, check_inputs, read


def view(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)],
    keys: Keys = None,
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Browse the handshakes of a capture in the terminal.

    A list of all handshakes, to be filtered and sorted; of each its ladder, message by message, with the
    payloads of the message under the cursor, decrypted where --keys fit. Two messages can be compared, and
    handshakes or messages saved as a capture. The key ? says what the keys do.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not.
    """
    with job(verbose=verbose):
        for what in ("capture", "keys"):
            if "-" in ([capture] if what == "capture" else keys or ()):
                raise typer.BadParameter(
                    f"the browser reads keys from standard input, so the {what} cannot come from there: name a file",
                    param_hint="CAPTURE" if what == "capture" else "--keys",
                )
        check_inputs([capture], "-", keys)
        _check_terminal()
        if find_spec("textual") is None:
            raise FailureError("view needs Textual, which is not installed: pip install 'ikeanalyze[view]'")
        analysis = read([capture], ports=port, keys=keys, quiet=quiet, verbose=verbose)
        from ikeanalyze.keys.files import KeyFile, KeyFileError, read_keys
        from ikeanalyze.view.app import TerminalError, browse
        from ikeanalyze.view.opening import Browsed

        files: list[KeyFile] = []
        for path in keys or ():
            try:
                files.append(read_keys(path))
            except KeyFileError:
                continue  # it has been named as skipped
        try:
            browse(Browsed(capture, analysis, files, port or ()))
        except TerminalError as error:
            raise FailureError(str(error)) from None


def _check_terminal() -> None:
    """Exit with status 2 if nobody could see the browser or press its keys."""
    streams = {
        "standard input": sys.stdin,
        "standard output": sys.stdout,
        "standard error": sys.stderr,  # which Textual writes to
    }
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            say(f"view needs a terminal, and {name} is none. 'ikeanalyze report' and 'ladder' write to files and pipes")
            raise typer.Exit(2)
    if os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        say("view needs a terminal that can move its cursor. Set TERM to what yours is, as TERM=xterm-256color")
        raise typer.Exit(2)
