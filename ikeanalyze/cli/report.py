"""`ikeanalyze report`: what the handshakes in captures cost."""

import os
from contextlib import closing
from functools import partial
from typing import Annotated, Final

import typer

from ikeanalyze.cli.outcome import SOME_SKIPPED, job, say
from ikeanalyze.cli.reading import (
    Handshake,
    Keys,
    Port,
    Quiet,
    VantageOption,
    Verbose,
    check_inputs,
    chosen_rtt,
    chosen_vantage,
    read,
)
from ikeanalyze.cli.writing import Figures, check_figures, chosen_format
from ikeanalyze.render import Format, View

#: Bytes of captures whose clear messages are all looked into for a drawing: a second's work.
_LARGEST_NAMED: Final = 32 << 20


def _can_be_named(captures: list[str]) -> bool:
    """Whether the payloads of all clear messages can be named without making anybody wait: files, and no large ones."""
    room = _LARGEST_NAMED
    for path in captures:
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            return False  # nobody knows how much comes
        room -= _size(path, room)
        if room < 0:
            return False
    return True


def _size(path: str, most: int) -> int:
    """Bytes of a file, decompressed; beyond `most` it is not decompressed any further."""
    from ikeanalyze.capture.records import CaptureError
    from ikeanalyze.capture.source import open_source

    try:
        with closing(open_source(path)) as source:
            if source.compression is None:
                return source.size or 0
            piece = memoryview(bytearray(1 << 20))
            while source.position <= most and source.read_into(piece):
                pass
            return source.position
    except CaptureError:
        return 0  # which reading says as well


def report(
    captures: Annotated[
        list[str],
        typer.Argument(metavar="CAPTURE...", hidden=True),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="terminal, json, jsonl (a handshake a line), csv (a row per handshake), parquet "
            "(a directory of the tables), markdown or html (one page with ladders and figures).",
            autocompletion=lambda: [str(f) for f in Format],
        ),
    ] = "terminal",
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="Where to write: a file, for parquet a directory; - is standard output.",
        ),
    ] = "-",
    keys: Keys = None,
    handshake: Handshake = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All handshakes and captures in the terminal and markdown formats, not just 30; in html, not "
            "just 10,000.",
        ),
    ] = False,
    figures: Figures = None,
    port: Port = None,
    vantage: VantageOption = None,
    rtt: Annotated[
        float | None,
        typer.Option(
            "--rtt",
            metavar="MS",
            help="Round-trip time of the path in milliseconds, for the breakdown of the set-up time; else it "
            "is estimated.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say what each handshake in the captures cost.

    Messages, frames and bytes per link and direction, phases and exchanges, retransmissions and their
    blow-up, fragmentation, and where the set-up time went.

    With --keys it also says what is in the encrypted messages that the keys fit: the outcome and the
    authentication as they are read and not guessed, key exchanges and certificates with their sizes, bytes by
    payload, rekeyed IKE SAs. No key is ever shown.

    A CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not; - is standard input. Several make
    one report; one that cannot be read is skipped and named on standard error, and the exit status is then 3. The
    same goes for a file with keys.
    """
    with job(verbose=verbose):
        chosen = chosen_format(Format, form)
        side, path_rtt = chosen_vantage(vantage), chosen_rtt(rtt)
        check_inputs(captures, output, keys)
        if chosen is Format.PARQUET and output == "-":
            raise typer.BadParameter("parquet is written as a directory: name it with -o", param_hint="--format")
        from ikeanalyze.render.output import check

        check(output, directory=chosen is Format.PARQUET)
        check_figures(figures)
        drawn = chosen is Format.HTML or figures is not None
        given = partial(
            read,
            captures,
            ports=port,
            vantage=side,
            rtt_ms=path_rtt,
            keys=keys,
            payloads=drawn and _can_be_named(captures),
            quiet=quiet,
            verbose=verbose,
        )
        early = chosen is Format.PARQUET and handshake is None and not drawn
        if early:
            from ikeanalyze.render.parquet import Writer

            with Writer(output) as writer:  # writes a table while the next is being made
                analysis = given(finished=writer.add)
                writer.finish(analysis)
        else:
            analysis = given()
        if drawn:
            from ikeanalyze.render.named import without_looks

            analysis = without_looks(analysis)
        if handshake is not None:
            from ikeanalyze.render import select

            try:
                analysis = select.handshake(analysis, handshake)
            except LookupError as error:
                raise typer.BadParameter(str(error.args[0]), param_hint="--handshake") from None
        elif analysis.handshakes.is_empty() and not quiet:
            say("no handshake in what was read. If its IKE is on another UDP port, name that with --port")
        if not early:
            from ikeanalyze.render.report import FORMATS

            FORMATS.write(analysis, chosen, output, View(every=every))
        if figures is not None:
            from ikeanalyze.render.figures import write_report

            written = write_report(analysis, figures)
            if not quiet:
                say(f"{figures}: {len(written)} files")
        if analysis.skipped:
            raise typer.Exit(SOME_SKIPPED)
