"""`ikeanalyze ladder`: draw a handshake message by message."""

import typer

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.tables.selection import select_handshakes
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
from ikeanalyze.cli.output_options import OutputOptions, check_inputs, choose_format
from ikeanalyze.cli.selection_options import SelectionOptions, describe_empty_selection
from ikeanalyze.render import Format, RenderOptions
from ikeanalyze.render.core.output import check_output, open_output

app = make_app()


@command(app, "CAPTURE [OPTIONS]")
def ladder(
    capture: CaptureArgument,
    inputs: CaptureOptions,
    selected: SelectionOptions,
    output: OutputOptions,
    messages: MessageOptions,
    handshake: HandshakeOption = None,
) -> None:
    """Draw one handshake between its hosts, message by message.

    Each message is shown as it was sent, with its time, frames, bytes, fragments and payloads. Payloads of encrypted
    messages need --keys, and are shown with the epoch of the keys. Retransmissions and additional round trips are
    marked. Without --handshake the first handshake of the capture is drawn, or the first that --filter, --from and --to
    select.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input.
    """
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, output.output)
    choose_format(None, output.output, [Format.TERMINAL])
    check_output(output.output)
    selection = selected.parse()
    # with a selection, the handshake to draw is known only after all are read
    options = ReadOptions(payloads=True, payloads_of=handshake or (None if selection else "first"))
    analysis = read_captures([capture], inputs, messages, options)
    if analysis.handshakes.is_empty():
        raise CommandError(f"{capture}: {describe_missing_handshakes(analysis)}")
    # imported here because they load polars, after which the capture reader cannot fork
    from ikeanalyze.render.ladder.text import write_ladder
    from ikeanalyze.render.report.selection import get_id_range, select_set_ups

    matching = select_handshakes(analysis, selection)
    set_ups = select_set_ups(matching)
    ids = get_id_range(set_ups) or get_id_range(matching)
    if ids is None:
        raise CommandError(f"{capture}: {describe_empty_selection(analysis, selection)}")
    first, _ = ids
    if handshake is None and (count := set_ups.handshakes.height) > 1:
        messages.remark(f"{capture}: the first of {count} handshakes. --handshake selects another one")
    drawn = select_handshake(matching, first if handshake is None else handshake)
    with open_output(output.output) as out:
        write_ladder(drawn, out, RenderOptions())
    if analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)
