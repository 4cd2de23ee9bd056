"""`ikeanalyze decrypt`: the same capture with its messages in clear."""

from typing import TYPE_CHECKING, Annotated

import typer

from ikeanalyze.cli.outcome import SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.reading import Port, Quiet, Verbose, check_inputs, read

if TYPE_CHECKING:
    from ikeanalyze.analysis.clear_edits import ClearEdits
    from ikeanalyze.capture.rewrite import RewriteResult


def decrypt(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)],
    keys: Annotated[
        list[str],
        typer.Option(
            "--keys",
            metavar="FILE",
            help="Keys: a Wireshark table, a log of charon or pluto, JSON of ikeanalyze. Can be repeated.",
        ),
    ],
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="OUT.pcapng", help="A file to write to; - is standard output."),
    ],
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write the capture again with every message in clear that the keys open.

    Encrypted payloads are replaced by the payloads that were inside, one packet for each message at the time
    of its last fragment, with a comment that names the original frames, the epoch of the keys and whether the
    integrity check passed. All other packets stay as they are. Any Wireshark shows the result without keys.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not; what is written is pcapng.
    """
    with job(verbose=verbose):
        check_inputs([capture], output, keys)
        if capture == "-":
            raise typer.BadParameter(
                "the capture is read twice, so it cannot be standard input: name a file", param_hint="CAPTURE"
            )
        from ikeanalyze.render.output import cannot_write, check

        check(output)
        analysis = read([capture], ports=port, keys=keys, cleartext=True, quiet=quiet, verbose=verbose)
        if not analysis.cleartexts:
            raise FailureError(f"{capture}: the keys open none of its messages, so nothing was written")
        from ikeanalyze.analysis.clear_edits import clear_edits
        from ikeanalyze.capture.records import CaptureError
        from ikeanalyze.capture.rewrite import rewrite
        from ikeanalyze.cli.progress import bar

        found = clear_edits(analysis.frames, analysis.cleartexts)
        try:
            with bar(quiet=quiet) as progress:
                result = rewrite(capture, output, found.edits, progress=progress)
        except CaptureError as error:
            raise FailureError(str(error)) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise cannot_write("standard output" if output == "-" else output, error) from None
        if not quiet:
            _tell(capture, result, found, sealed=int(analysis.messages["decrypted"].is_not_null().sum()))
        if analysis.skipped:
            raise typer.Exit(SOME_SKIPPED)


def _tell(capture: str, result: "RewriteResult", found: "ClearEdits", *, sealed: int) -> None:
    for number, what in result.warnings:
        say(f"{capture}: {'' if number is None else f'packet {number}: '}{what}")
    say(
        f"{found.messages:,} of {sealed:,} encrypted messages stand in clear; "
        f"{result.written:,} packets written of {result.packets:,}"
    )
