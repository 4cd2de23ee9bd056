"""`ikeanalyze ladder`: draw a handshake message by message."""

import typer

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.cli.capture_options import (
    CaptureArgument,
    CaptureOptions,
    HandshakeOption,
    describe_missing_handshakes,
    read_captures,
    select_handshake,
)
from ikeanalyze.cli.exit_status import SOME_SKIPPED, CommandError
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import OutputOptions, check_inputs
from ikeanalyze.render import RenderOptions
from ikeanalyze.render.core.output import check_output, open_output

app = make_app()


@command(app, "CAPTURE [OPTIONS]")
def ladder(
    capture: CaptureArgument,
    inputs: CaptureOptions,
    output: OutputOptions,
    messages: MessageOptions,
    handshake: HandshakeOption = None,
) -> None:
    """Draw one handshake between its hosts, message by message.

    Each message is shown as it was sent, with its time, frames, bytes, fragments and payloads. Payloads of encrypted
    messages need --keys, and are shown with the epoch of the keys. Retransmissions and additional round trips are
    marked. Without --handshake the first handshake of the capture is drawn.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input.
    """
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, output.output)
    check_output(output.output)
    analysis = read_captures([capture], inputs, messages, ReadOptions(payloads=True, payloads_of=handshake or "first"))
    # imported here because they load polars, after which the capture reader cannot fork
    from ikeanalyze.render.ladder.text import write_ladder
    from ikeanalyze.render.report.selection import get_id_range, select_set_ups

    set_ups = select_set_ups(analysis)
    ids = get_id_range(set_ups) or get_id_range(analysis)
    if ids is None:
        raise CommandError(f"{capture}: {describe_missing_handshakes(analysis)}")
    first, _ = ids
    if handshake is None and (count := set_ups.handshakes.height) > 1:
        messages.remark(f"{capture}: the first of {count} handshakes. --handshake selects another one")
    selected = select_handshake(analysis, first if handshake is None else handshake)
    with open_output(output.output) as out:
        write_ladder(selected, out, RenderOptions())
    if analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)
