"""`ikeanalyze extract`: copy the packets of chosen handshakes to a capture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from msgspec import Struct, field

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.tables.selection import HandshakeSelection, select_handshakes
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.write.filter import write_selected_packets, write_selected_pcapng
from ikeanalyze.cli.capture_options import (
    CaptureArgument,
    CaptureOptions,
    check_twice_readable,
    describe_missing_handshakes,
    read_captures,
)
from ikeanalyze.cli.exit_status import SOME_SKIPPED, CommandError, convert_output_errors, fail_command
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import advise_pcapng_name, check_capture_name, check_inputs, has_pcap_name
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.cli.selection_options import SelectionOptions, describe_empty_selection
from ikeanalyze.render.core.output import check_output
from ikeanalyze.render.core.values import format_count

if TYPE_CHECKING:
    from ikeanalyze.analysis.result import Analysis
    from ikeanalyze.sharing.extract import ChosenPackets

_ADDITIONAL: Final = ("radius", "esp")
#: Outcomes that depend on the time from the last message to the end of the capture.
_DEPENDS_ON_THE_END: Final = ("half-open", "unanswered")
_MAX_LISTED: Final = 10

app = make_app()


class ExtractInputOptions(CaptureOptions, frozen=True, kw_only=True):
    """Which handshakes are extracted."""

    handshake: Annotated[
        list[int],
        typer.Option(metavar="N", min=1, help="Number of a handshake, as in the report. Repeatable; default: all."),
    ] = field(default_factory=list)


class ExtractOutputOptions(Struct, frozen=True, kw_only=True):
    """What is written, and where."""

    output: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="OUT.pcapng", help="Output file, with --split a folder; - is standard output."
        ),
    ]
    additional: Annotated[
        list[str],
        typer.Option(
            "--with",
            metavar="WHAT",
            help="Also the RADIUS packets (radius), or the ESP packets and NAT keepalives (esp) of the handshakes; "
            "separated by commas, or repeatable.",
        ),
    ] = field(default_factory=list)
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Describe each packet in a packet comment, which Wireshark shows.")
    ] = False
    split: Annotated[bool, typer.Option("--split", help="One file for each handshake.")] = False

    def parse_additional(self) -> set[str]:
        """What `--with` names; `typer.BadParameter` if it is something else."""
        names = {name.strip() for text in self.additional for name in text.split(",")}
        for name in sorted(names.difference(_ADDITIONAL)):
            raise typer.BadParameter(f"{name!r} is neither radius nor esp", param_hint="--with")
        return names


@command(app, "CAPTURE [--filter WORDS] -o OUT.pcapng [OPTIONS]")
def extract(
    capture: CaptureArgument,
    inputs: ExtractInputOptions,
    selected: SelectionOptions,
    output: ExtractOutputOptions,
    messages: MessageOptions,
) -> None:
    """Copy all packets of chosen handshakes to a capture.

    Packets are copied as they are, with their times, interfaces and comments: retransmissions, IP fragments, TCP
    segments and duplicates of the capture too, and with the headers of tunnels. A report of the copy has the same
    numbers for these handshakes.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd. The output is pcapng, or pcap if
    CAPTURE is pcap and OUT ends with .pcap, except with --annotate.
    """
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, output.output)
    check_twice_readable(capture)
    if output.split and output.output == "-":
        raise typer.BadParameter("--split needs a folder, not standard output", param_hint="-o")
    selection, additional = selected.parse(), output.parse_additional()
    if not output.split:
        check_capture_name(output.output)
    check_output(output.output, directory=output.split)
    analysis = read_captures([capture], inputs, messages, ReadOptions(lab_manifests=False))
    # imported here because they load polars, after which the capture reader cannot fork
    from ikeanalyze.sharing.extract import ExtractOptions, PacketChooser

    handshakes = _choose_handshakes(capture, analysis, inputs, selection)
    options = ExtractOptions(radius="radius" in additional, esp="esp" in additional, annotate=output.annotate)
    with fail_command(CaptureError), make_progress_bar(quiet=messages.quiet) as progress:
        chooser = PacketChooser(capture, analysis, options, inputs.port, progress)
    _report_outcomes(capture, analysis, handshakes, messages)
    if not output.split:
        as_pcap = has_pcap_name(output.output) and analysis.captures[0].format == "pcap" and not output.annotate
        _write(capture, output.output, chooser.choose(handshakes), messages, as_pcap=as_pcap)
    else:
        with convert_output_errors(output.output):
            Path(output.output).mkdir(parents=True, exist_ok=True)
        width = max(4, len(str(max(handshakes))))
        for number in handshakes:
            path = str(Path(output.output) / f"handshake-{number:0{width}}.pcapng")
            _write(capture, path, chooser.choose([number]), messages)
    if analysis.skipped:
        raise typer.Exit(SOME_SKIPPED)


def _choose_handshakes(
    capture: str, analysis: "Analysis", inputs: ExtractInputOptions, selection: HandshakeSelection
) -> list[int]:
    """The ids of the chosen handshakes; errors if there are none."""
    known = analysis.handshakes["handshake"].to_list()
    if not known:
        raise CommandError(f"{capture}: {describe_missing_handshakes(analysis)}")
    for number in inputs.handshake:
        if number not in known:
            from ikeanalyze.render.report.selection import describe_unknown_handshake  # for this error alone

            problem = describe_unknown_handshake(number, min(known), max(known))
            raise typer.BadParameter(problem, param_hint="--handshake")
    matching: list[int] = select_handshakes(analysis, selection).handshakes["handshake"].to_list()
    if not matching:
        raise CommandError(f"{capture}: {describe_empty_selection(analysis, selection)}")
    chosen = [number for number in matching if number in inputs.handshake] if inputs.handshake else matching
    if not chosen:
        raise CommandError(f"{capture}: the handshakes of --handshake do not match the other options")
    return chosen


def _report_outcomes(capture: str, analysis: "Analysis", handshakes: list[int], messages: MessageOptions) -> None:
    """Tell which handshakes a report of the extract may show with another outcome."""
    table = analysis.handshakes.select("handshake", analysis.handshakes["outcome"].cast(str)).iter_rows()
    ended = [number for number, outcome in table if number in handshakes and outcome in _DEPENDS_ON_THE_END]
    if ended:
        text = f"{_list_handshakes(ended)} half-open or unanswered: a report of the extract may say cut"
        messages.remark(f"{capture}: {text}, because it does not know how long the capture went on")


def _write(
    capture: str, path: str, chosen: "ChosenPackets", messages: MessageOptions, *, as_pcap: bool = False
) -> None:
    """Write a file as pcapng, or `as_pcap` if the capture is pcap, too."""
    with fail_command(CaptureError), convert_output_errors(path):
        if as_pcap:
            result = write_selected_packets(capture, path, chosen.numbers)
        else:
            result = write_selected_pcapng(capture, path, chosen.numbers, chosen.comments)
            advise_pcapng_name(path, messages)
    name = "standard output" if path == "-" else path
    messages.remark(f"{name}: {format_count(result.packets, 'packet')} of {capture}")
    if chosen.radius_left_out:
        left_out = format_count(chosen.radius_left_out, "RADIUS packet")
        messages.remark(f"{name}: {left_out} of the handshakes left out; --with radius includes them")
    if chosen.shared:
        messages.remark(f"{name}: TCP connections are copied whole, with {_list_handshakes(chosen.shared)}")
    if result.uncommented:
        messages.remark(f"{name}: {result.uncommented:,} packets without comment: simple packet blocks have none")
    if result.missing:
        messages.remark(
            f"{name}: {result.missing:,} packets are missing, because the capture changed while it was read"
        )


def _list_handshakes(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _MAX_LISTED:,} more" if len(numbers) > _MAX_LISTED else ""
    return f"handshake{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers[:_MAX_LISTED]))}{more}"
