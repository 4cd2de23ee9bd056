"""`ikeanalyze ladder`: one handshake, message by message."""

from typing import Annotated

import typer

from ikeanalyze.cli.outcome import SOME_SKIPPED, FailureError, job, say
from ikeanalyze.cli.reading import Handshake, Keys, Port, Quiet, Verbose, check_inputs, read
from ikeanalyze.cli.writing import Output


def ladder(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)],
    keys: Keys = None,
    handshake: Handshake = None,
    output: Output = "-",
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Draw one handshake between its hosts, message by message.

    Each message as it was sent, with its time, frames, bytes and fragments, and the payloads in it: those of
    clear messages always, of encrypted ones where --keys fit, with the epoch of the keys. Retransmissions and
    extra round trips are marked. Without --handshake it is the first one of the capture.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not; - is standard input.
    """
    with job(verbose=verbose):
        check_inputs([capture], output, keys)
        from ikeanalyze.render import View, select
        from ikeanalyze.render.ladder import write
        from ikeanalyze.render.output import check, opened

        check(output)
        analysis = read([capture], ports=port, keys=keys, payloads=True, quiet=quiet, verbose=verbose)
        known = select.ids(analysis)
        if known is None:
            raise FailureError(
                f"{capture}: no handshake in it. If its IKE is on another UDP port, name that with --port"
            )
        if handshake is None and known[0] < known[1] and not quiet:
            say(f"{capture}: the first of {known[1] - known[0] + 1} handshakes. --handshake chooses another")
        try:
            chosen = select.handshake(analysis, known[0] if handshake is None else handshake)
        except LookupError as error:
            raise typer.BadParameter(str(error.args[0]), param_hint="--handshake") from None
        with opened(output) as out:
            write(chosen, out, View())
        if analysis.skipped:
            raise typer.Exit(SOME_SKIPPED)
