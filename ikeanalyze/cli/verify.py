"""`ikeanalyze verify`: whether what is in a capture follows from a daemon's log."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ikeanalyze.cli.outcome import SOME_SKIPPED, FailureError, job
from ikeanalyze.cli.reading import Handshake, Port, Quiet, Verbose, check_inputs, tell
from ikeanalyze.cli.writing import Output, chosen_format

if TYPE_CHECKING:
    from ikeanalyze.analysis.verification import Verification

_FEW_FAILED: Final = 5


def verify(
    capture: Annotated[str, typer.Argument(metavar="CAPTURE", hidden=True)],
    keys: Annotated[
        list[str],
        typer.Option(
            "--keys",
            metavar="FILE",
            help="A log of charon with ike = 4; other files with keys let the ICVs be checked. Can be repeated.",
        ),
    ],
    psk: Annotated[
        str | None,
        typer.Option(
            "--psk",
            metavar="FILE",
            help="The pre-shared key, in place of the log's: the secret itself, hex digits behind 0x, base64 "
            "behind 0s, or lines of ipsec.secrets.",
        ),
    ] = None,
    handshake: Handshake = None,
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help="terminal or json.")] = "terminal",
    output: Output = "-",
    every: Annotated[
        bool, typer.Option("--all", help="All IKE SAs and reasons in the terminal format, not just 30.")
    ] = False,
    port: Port = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Check what an implementer needs checked.

    Of each encrypted message the ICV; from the key exchange secrets of the log and the nonces of the capture
    SKEYSEED and SK_* of each epoch and each rekeying; IntAuth; the AUTH payloads of both sides, made with a
    pre-shared key, a certificate's key or the key of an EAP method. Each check passes, fails, or could not be
    made, with the reason. Values are shown as digests, never themselves.

    Exit status: 0 all that could be checked passes, 1 something failed or nothing could be checked, 2 wrong
    usage, 3 all passes, but a file was skipped.

    CAPTURE is a pcap or pcapng file, compressed with gzip or zstd or not; - is standard input.
    """
    with job(verbose=verbose):
        from ikeanalyze.render.verification_formats import FORMATS

        chosen = chosen_format(FORMATS, form)
        check_inputs([capture], output, keys if psk is None else [*keys, psk])
        from ikeanalyze.render import View
        from ikeanalyze.render.output import check

        check(output)
        found = _verified(capture, keys, psk, port, quiet=quiet)
        tell(found, [capture], keys, quiet=quiet, verbose=verbose)
        if handshake is not None:
            found = _only(found, handshake)
        FORMATS.write(found, chosen, output, View(every=every))
        _end(found, capture)


def _verified(capture: str, keys: list[str], psk: str | None, port: list[int] | None, *, quiet: bool) -> "Verification":
    from ikeanalyze.analysis.verification import verify as verify_capture
    from ikeanalyze.cli.progress import bar
    from ikeanalyze.keys.psk import PskError

    try:
        with bar(quiet=quiet) as progress:
            return verify_capture(capture, keys, psk=psk, ports=tuple(port or ()), progress=progress)
    except PskError as error:
        raise FailureError(str(error)) from None


def _only(found: "Verification", handshake: int) -> "Verification":
    chosen = [one for one in found.handshakes if one.id == handshake]
    if not chosen:
        known = f"there are 1 to {len(found.handshakes)}" if found.handshakes else "there is none"
        raise typer.BadParameter(f"there is no handshake {handshake}; {known}", param_hint="--handshake")
    return replace(found, handshakes=chosen)


def _end(found: "Verification", capture: str) -> None:
    """Say how it went, where it did not go well."""
    from ikeanalyze.render.verification import label

    failed = [
        f"{label(check)} (handshake {one.id})"
        for one in found.handshakes
        for check in one.checks
        if check.outcome == "failed"
    ]
    if failed:
        more = f" and {len(failed) - _FEW_FAILED:,} more" if len(failed) > _FEW_FAILED else ""
        some = "1 check" if len(failed) == 1 else f"{len(failed):,} checks"
        raise FailureError(f"{capture}: {some} failed: {', '.join(failed[:_FEW_FAILED])}{more}")
    if all(check.outcome == "not made" for check in found.checks):
        why = next((check.why for check in found.checks if check.why), "it has no encrypted message of IKEv2")
        raise FailureError(
            f"{capture}: nothing could be checked: {why}. --keys takes a log of one of its peers, of charon with ike = 4"
        )
    if found.skipped:
        raise typer.Exit(SOME_SKIPPED)
