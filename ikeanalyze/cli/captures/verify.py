"""`ikeanalyze verify`: verify a capture against a daemon's log."""

from dataclasses import replace
from typing import Annotated, Final

import typer

from ikeanalyze.analysis.verification.verify import Verification, verify_capture
from ikeanalyze.capture.decode.classify import Protocol
from ikeanalyze.cli.capture_options import CaptureArgument, CaptureOptions, HandshakeOption, report_problems
from ikeanalyze.cli.exit_status import SOME_SKIPPED, CommandError, fail_command
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import TextOptions, check_inputs
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.keys.psk import PskError
from ikeanalyze.render.verification.formats import FORMATS
from ikeanalyze.render.verification.text import format_check_label

_MAX_FAILURES: Final = 5

app = make_app()


class VerificationOptions(CaptureOptions, frozen=True, kw_only=True):
    """How the capture and its keys are read."""

    keys: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="A log of charon with ike = 4. With other key files only the ICVs are checked. Repeatable.",
        ),
    ]
    psk: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Pre-shared key to use instead of that in the log: the secret itself, 0x and hex digits, 0s and base64, "
            "or lines of ipsec.secrets.",
        ),
    ] = None
    handshake: HandshakeOption = None


@command(app, "CAPTURE --keys FILE... [OPTIONS]")
def verify(
    capture: CaptureArgument, inputs: VerificationOptions, output: TextOptions, messages: MessageOptions
) -> None:
    """Verify the cryptography of a capture against a daemon's log.

    Checks the ICV of each encrypted message; SKEYSEED and SK_* of each epoch and each rekeying, from the key exchange
    secrets of the log and the nonces of the capture; IntAuth; and the AUTH payloads of both sides, made with a
    pre-shared key, the key of a certificate or the key of an EAP method. Each check passes, fails, or could not be
    made, with the reason. Values are shown as digests only.

    Exit status: 0 all checks that could be made pass, 1 a check failed or none could be made, 2 wrong usage, 3 all
    pass, but a file was skipped.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input.
    """
    key_files = {"--keys": inputs.keys, "--psk": [inputs.psk] if inputs.psk is not None else []}
    check_inputs({"CAPTURE": [capture], **key_files}, output.output)
    output.check()
    with fail_command(PskError), make_progress_bar(quiet=messages.quiet) as progress:
        verification = verify_capture(
            capture,
            inputs.keys,
            psk=inputs.psk,
            ports=tuple(inputs.port),
            handshake=inputs.handshake,
            progress=progress,
        )
    report_problems(verification, [capture], inputs.keys, messages)
    if inputs.handshake is not None:
        verification = _select(verification, inputs.handshake)
    output.write(FORMATS, verification)
    _raise_failures(verification, capture)


def _select(verification: Verification, number: int) -> Verification:
    selected = [handshake for handshake in verification.handshakes if handshake.id == number]
    if not selected:
        count = len(verification.handshakes)
        valid = f"choose from 1 to {count}" if count else "the capture has none"
        raise typer.BadParameter(f"no handshake {number}: {valid}", param_hint="--handshake")
    return replace(verification, handshakes=selected)


def _raise_failures(verification: Verification, capture: str) -> None:
    """Raise `CommandError` or `typer.Exit` unless all checks pass."""
    failed = [
        f"{format_check_label(check)} (handshake {handshake.id})"
        for handshake in verification.handshakes
        for check in handshake.checks
        if check.outcome == "failed"
    ]
    if failed:
        more = f" and {len(failed) - _MAX_FAILURES:,} more" if len(failed) > _MAX_FAILURES else ""
        number = "1 check" if len(failed) == 1 else f"{len(failed):,} checks"
        raise CommandError(f"{capture}: {number} failed: {', '.join(failed[:_MAX_FAILURES])}{more}")
    if all(check.outcome == "not made" for check in verification.checks):
        with_checks = [handshake for handshake in verification.handshakes if handshake.checks]
        ikev2 = [handshake for handshake in with_checks if handshake.version == Protocol.IKEV2]
        # the remedy is for IKEv2, because no key helps with IKEv1: the reason has to be of IKEv2, too
        reasons = (check.why for handshake in ikev2 or with_checks for check in handshake.checks if check.why)
        reason = next(reasons, "no encrypted IKEv2 message")
        remedy = "" if with_checks and not ikev2 else ". Use --keys with a log of a peer, of charon with ike = 4"
        raise CommandError(f"{capture}: nothing could be checked: {reason}{remedy}")
    if verification.skipped:
        raise typer.Exit(SOME_SKIPPED)
