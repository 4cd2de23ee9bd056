"""`ikeanalyze live`: handshakes while they are captured."""

import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from msgspec import Struct, field

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.result import Analysis, format_path
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import CaptureOptions, VantageOption, check_rtt
from ikeanalyze.cli.exit_status import CommandError, convert_output_errors, fail_command, log_stderr
from ikeanalyze.cli.live_input import open_descriptor, read_growing_keys
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import FORMAT_OPTION, LINE_SCHEMA_OPTION, check_inputs
from ikeanalyze.io.suggestions import advise_install
from ikeanalyze.live.capture_feed import Dumpcap, DumpcapError, LiveInput
from ikeanalyze.live.rules import EndingRules
from ikeanalyze.live.run import LiveRun
from ikeanalyze.render.core.output import check_output, make_output_error
from ikeanalyze.render.core.values import format_count
from ikeanalyze.render.live.table import LiveTable
from ikeanalyze.render.report.document import write_json_lines

if TYPE_CHECKING:
    from ikeanalyze.capture.formats.records import Interface
    from ikeanalyze.live.failure_captures import FailureCaptures
    from ikeanalyze.live.metrics import LiveMetrics
    from ikeanalyze.live.packet_ring import PacketRing

app = make_app()

#: Of --settle and --timeout: a year. Nanoseconds of much longer times do not fit into 64 bits.
_MAX_WAIT_S: Final = 31_536_000


class LiveInputOptions(CaptureOptions, frozen=True, kw_only=True):
    """Where packets come from."""

    interface: Annotated[
        list[str], typer.Option("-i", "--interface", metavar="IFACE", help="Capture here with dumpcap. Repeatable.")
    ] = field(default_factory=list)
    capture_filter: Annotated[
        str | None, typer.Option(metavar="FILTER", help="With -i: capture filter in the language of libpcap.")
    ] = None
    vantage: VantageOption = None
    rtt: Annotated[
        float | None,
        typer.Option(
            metavar="MS",
            help="Round-trip time of the path in milliseconds, for the breakdown of the set-up time (default: estimated).",
        ),
    ] = None


class LiveOutputOptions(Struct, frozen=True, kw_only=True):
    """What is written, and when a handshake has ended."""

    output_format: Annotated[Literal["terminal", "jsonl"], FORMAT_OPTION] = "terminal"
    schema: Annotated[bool, LINE_SCHEMA_OPTION] = False
    metrics: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Also serve metrics for Prometheus on this port of 127.0.0.1; 0: any.",
        ),
    ] = None
    keep: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write the packets of each handshake that failed to a pcapng file in DIR."),
    ] = None
    keep_files: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --keep: remove the oldest of more files than this.")
    ] = 1000
    settle: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=1,
            max=_MAX_WAIT_S,
            help="Seconds without a message after which a completed or failed handshake is reported.",
        ),
    ] = 10
    timeout: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=1,
            max=_MAX_WAIT_S,
            help="Seconds without a message after which any handshake is reported.",
        ),
    ] = 180

    def open_failures(self) -> "FailureCaptures | None":
        """Return what keeps the packets of handshakes that failed, if that was asked for."""
        if self.keep is None:
            return None
        from ikeanalyze.live.failure_captures import FailureCaptures  # for this option alone

        check_output(self.keep, directory=True, option="--keep")
        try:
            return FailureCaptures(Path(self.keep), self.keep_files)
        except OSError as error:
            raise make_output_error(self.keep, error, "--keep") from None

    def make_rules(self) -> EndingRules:
        """When handshakes end."""
        if self.timeout < self.settle:
            raise typer.BadParameter(f"{self.timeout:g} is less than --settle, {self.settle:g}", param_hint="--timeout")
        return EndingRules(settle_ns=round(self.settle * 1e9), timeout_ns=round(self.timeout * 1e9))


@command(app, "[-i IFACE]... [CAPTURE] [OPTIONS]")
def live(
    inputs: LiveInputOptions,
    output: LiveOutputOptions,
    messages: MessageOptions,
    capture: Annotated[str | None, typer.Argument(metavar="CAPTURE", hidden=True)] = None,
) -> None:
    """Report handshakes while they are captured, each when it has ended.

    With -i, dumpcap captures. Otherwise CAPTURE is a pcap or pcapng file or pipe; - is standard input, so that
    'dumpcap -w - | ikeanalyze live -' does the same.

    A handshake has ended if it is completed or failed and no message came for some seconds (--settle), or if it is not
    and no message came for longer (--timeout). Its row or record is written once and not changed. Frames of ended
    handshakes are given up, so that memory does not grow.

    --format jsonl writes a line for each handshake, with the keys of a report's JSON. Ctrl-C ends the capture and
    reports the handshakes that have not ended. Numbers are those of 'ikeanalyze report' on the same packets: see
    docs/live.md for the differences.
    """
    check_rtt(inputs.rtt, "--rtt")
    if (capture is None) == (not inputs.interface):
        raise typer.BadParameter("name an interface with -i, or a CAPTURE; - is standard input", param_hint="-i")
    if inputs.capture_filter and not inputs.interface:
        raise typer.BadParameter("only with -i", param_hint="--capture-filter")
    check_inputs({"CAPTURE": [capture] if capture else [], "--keys": inputs.keys}, "-")
    check_output("-")
    rules = output.make_rules()
    keys = read_growing_keys(inputs.keys, messages)
    options = ReadOptions(ports=tuple(inputs.port), vantage=inputs.vantage, rtt_ms=inputs.rtt)
    with (
        _serve_metrics(output.metrics, messages) as metrics,
        _open_input(capture, inputs) as (name, source, dumpcap),
        _stop_on_signals(source, dumpcap),
    ):
        writer = _Writer(output, messages, metrics)
        try:
            with fail_command(CaptureError):
                run = LiveRun(source, name, writer.write, options, rules, keys, writer.packets)
            writer.begin(run)
            run.run()
        except CommandError:
            if dumpcap is not None:
                dumpcap.stop()
                with fail_command(DumpcapError):
                    dumpcap.finish()  # its reason is the better one
            raise
        try:
            with fail_command(DumpcapError):
                dropped = None if dumpcap is None else dumpcap.finish()
        except CommandError:
            _report_end(run, source, None, messages)
            raise
    _report_end(run, source, dropped, messages)


@contextmanager
def _open_input(capture: str | None, inputs: LiveInputOptions) -> Iterator[tuple[str, LiveInput, Dumpcap | None]]:
    """Yield the name of the capture, its bytes, and the dumpcap that makes it."""
    if capture is None:
        with fail_command(DumpcapError), Dumpcap(inputs.interface, inputs.capture_filter) as dumpcap:
            yield ",".join(inputs.interface), LiveInput(dumpcap.descriptor), dumpcap
    elif capture == "-":
        if sys.stdin is None:
            raise CommandError("standard input: is closed; name a file instead")
        yield "-", LiveInput(sys.stdin.fileno()), None
    else:
        if not os.path.exists(capture) and capture in {name for _, name in socket.if_nameindex()}:
            raise typer.BadParameter(f"{capture} is an interface: use -i {capture}", param_hint="CAPTURE")
        with open_descriptor(capture) as descriptor:
            yield format_path(capture), LiveInput(descriptor), None


@contextmanager
def _stop_on_signals(source: LiveInput, dumpcap: Dumpcap | None) -> Iterator[None]:
    """End the capture on SIGINT and SIGTERM; on a second one, the process as usual."""

    def stop(number: int, _frame: object) -> None:
        signal.signal(number, before[signal.Signals(number)])
        if dumpcap is not None:
            dumpcap.stop()
        source.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _serve_metrics(port: int | None, messages: MessageOptions) -> "Iterator[LiveMetrics | None]":
    """Yield the metrics that are served on a port; None without one."""
    if port is None:
        yield None
        return
    if find_spec("prometheus_client") is None:
        remedy = advise_install("prometheus-client")
        raise CommandError(f"--metrics needs prometheus-client, which is not installed: {remedy}")
    from ikeanalyze.live.metrics import LiveMetrics, MetricsError

    with fail_command(MetricsError):
        metrics = LiveMetrics(port)
    messages.remark(f"metrics: {metrics.address}")
    try:
        yield metrics
    finally:
        metrics.close()


class _Writer:
    """Writes handshakes to standard output, at once."""

    def __init__(self, output: LiveOutputOptions, messages: MessageOptions, metrics: "LiveMetrics | None") -> None:
        """`metrics` count them too."""
        self._messages = messages
        self._metrics = metrics
        self._as_lines = output.output_format == "jsonl"
        self._table: LiveTable | None = None
        self._failures = output.open_failures()
        self._directory = output.keep or ""
        self._interfaces: Sequence[Interface] = ()

    @property
    def packets(self) -> "PacketRing | None":
        """The packets that must be kept until a handshake is written."""
        return None if self._failures is None else self._failures.packets

    def begin(self, run: LiveRun) -> None:
        """Write the heading of the table."""
        self._interfaces = run.interfaces
        if self._metrics is not None:
            self._metrics.watch(lambda: run.counts)
        if not self._as_lines:
            with convert_output_errors("-"):
                self._table = LiveTable(sys.stdout)
                sys.stdout.flush()

    def write(self, analysis: Analysis) -> None:
        """Write handshakes, and the warnings about them if they were asked for."""
        with convert_output_errors("-"):
            if self._table is not None:
                self._table.add(analysis)
            else:
                write_json_lines(analysis, sys.stdout)
            sys.stdout.flush()
        if self._metrics is not None:
            self._metrics.add(analysis)
        if self._failures is not None:
            try:
                self._failures.add(analysis, self._interfaces)
            except OSError as error:
                raise make_output_error(self._directory, error, "--keep") from None
        for skipped in analysis.skipped:
            log_stderr(f"{skipped.path}: {skipped.reason}")
        for warning in analysis.warnings if self._messages.verbose else ():
            log_stderr(f"{warning.capture}: {warning}")


def _report_end(run: LiveRun, source: LiveInput, dropped: int | None, messages: MessageOptions) -> None:
    counts = run.counts
    if run.damage is not None and not source.stopped:
        messages.remark(f"the capture ends early: {run.damage.what}")
    text = f"{format_count(counts.handshakes, 'handshake')} in {format_count(counts.packets, 'packet')}"
    if counts.late_frames:
        text += f"; {format_count(counts.late_frames, 'frame')} came after their handshakes had been reported"
    messages.remark(f"{text}{f'; the kernel dropped {dropped:,} packets' if dropped else ''}")
