"""`ikeanalyze decrypt`: write a decrypted copy of a capture."""

from typing import Annotated

import typer

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.rewrite import rewrite_capture
from ikeanalyze.cli.capture_options import (
    KEYS_HELP,
    CaptureArgument,
    CaptureOptions,
    check_twice_readable,
    make_undecrypted_error,
    read_captures,
)
from ikeanalyze.cli.exit_status import SOME_SKIPPED, convert_output_errors, fail_command
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import advise_pcapng_name, check_capture_name, check_inputs
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.render.core.output import check_output

app = make_app()


class DecryptionOptions(CaptureOptions, frozen=True, kw_only=True):
    """How the capture and its keys are read."""

    keys: Annotated[
        list[str],
        typer.Option(metavar="FILE", help=KEYS_HELP),
    ]


@command(app, "CAPTURE --keys FILE -o OUT.pcapng [OPTIONS]")
def decrypt(
    capture: CaptureArgument,
    inputs: DecryptionOptions,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT.pcapng", help="Output file; - is standard output.")
    ],
    messages: MessageOptions,
) -> None:
    """Write a copy of a capture in which the messages that the keys fit are decrypted.

    Each encrypted payload is replaced by the payloads inside it. The copy has one packet for each decrypted message, at
    the time of its last fragment, with a comment that names the original frames, the epoch of the keys and whether the
    integrity check passed. All other packets are copied unchanged, those in tunnels too. Wireshark shows the result
    without keys.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd. The output is pcapng.
    """
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, output)
    check_twice_readable(capture)
    check_capture_name(output)
    check_output(output)
    analysis = read_captures([capture], inputs, messages, ReadOptions(cleartext=True))
    if not analysis.cleartexts:
        raise make_undecrypted_error(capture, analysis, inputs.keys)
    # imported here because it loads polars, after which the capture reader cannot fork
    from ikeanalyze.analysis.decryption.export import plan_decryption_edits

    decrypted = plan_decryption_edits(analysis.frames, analysis.cleartexts)
    progress_bar = make_progress_bar(quiet=messages.quiet)
    with fail_command(CaptureError), convert_output_errors(output), progress_bar as progress:
        result = rewrite_capture(capture, output, decrypted.edits, new_owner_only=True, progress=progress)
    for packet, warning in result.warnings:
        messages.remark(f"{capture}: {'' if packet is None else f'packet {packet}: '}{warning}")
    if decrypted.in_tunnels:
        messages.remark(f"{capture}: {decrypted.in_tunnels:,} messages in tunnels are left encrypted")
    encrypted = int(analysis.messages["decrypted"].is_not_null().sum())
    messages.remark(
        f"{decrypted.transmissions:,} of {encrypted:,} encrypted messages decrypted; "
        f"{result.written:,} packets written of {result.packets:,}"
    )
    if left := decrypted.fragments_left:
        fragments = "1 repeated fragment is" if left == 1 else f"{left:,} repeated fragments are"
        messages.remark(f"{fragments} left encrypted: other packets have the decrypted messages")
    advise_pcapng_name(output, messages)
    if analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)
