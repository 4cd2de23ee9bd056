"""`ikeanalyze overhead`: compute the overhead of ESP, or measure it in a capture."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer
from msgspec import Struct, field

from ikeanalyze.analysis.esp.traffic import read_esp_traffic
from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import CaptureArgument, PortOption
from ikeanalyze.cli.exit_status import SOME_SKIPPED, fail_command, log_stderr, refuse_option
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import TableOptions, check_inputs
from ikeanalyze.cli.progress import make_progress_bar
from ikeanalyze.keys.detect import KeyFileError, read_keys
from ikeanalyze.keys.key_set import EspKey
from ikeanalyze.model.esp.algorithms import EspError, parse_suite
from ikeanalyze.model.esp.overhead import OverheadQuery, compute_overhead, list_paper_configs
from ikeanalyze.model.esp.packet_size import EspConfig, EspEncapsulation, EspMode, check_size, validate_config
from ikeanalyze.model.esp.queue import PacketSizes, make_fixed_sizes, make_pareto_sizes
from ikeanalyze.model.prediction.parameter_grid import ParameterGridError, parse_value_list
from ikeanalyze.model.prediction.scenarios import LinkScenarioError, parse_rate
from ikeanalyze.render.overhead.formats import FORMATS
from ikeanalyze.render.overhead.text import OverheadReport

_SUITES: Final = ("aes256gcm16", "chacha20poly1305", "aes256-sha256")
_SIZES: Final = "64,128,256,512,1024,1400"
_FIGURE_SIZES: Final = range(40, 1501, 4)
_PAPER_SIZES: Final = "64,480,1500"
_MAX_DELAYS: Final = 100_000
_MAX_WARNINGS: Final = 10
#: Allowed speeds of processors in MIPS; results for other values would overflow.
_MIN_MIPS: Final = 1e-3
_MAX_MIPS: Final = 1e9
_SIZE_DIGITS: Final = 9

app = make_app("Compute or measure the overhead of ESP: bytes, operations of a processor, and delay.")


class IpVersion(StrEnum):
    """An IP version."""

    IPV4 = "4"
    IPV6 = "6"


class EspOptions(Struct, frozen=True, kw_only=True):
    """How packets are protected."""

    suite: Annotated[
        list[str],
        typer.Option(
            metavar="NAME",
            help="Cipher suite, as in strongSwan's esp_proposals: aes256gcm16, aes128-sha256, chacha20poly1305, 3des-md5, "
            "null-sha256. Repeatable.",
        ),
    ] = field(default_factory=lambda: list(_SUITES))
    mode: Annotated[EspMode, typer.Option(help="ESP mode.")] = EspMode.TUNNEL
    encapsulation: Annotated[
        EspEncapsulation,
        typer.Option(help="Encapsulation: udp (RFC 3948), or tcp (RFC 9329, one ESP packet a segment)."),
    ] = EspEncapsulation.NONE
    inner_ip: Annotated[
        IpVersion | None, typer.Option(help="IP version of the packets to protect (default: that of --outer-ip).")
    ] = None
    outer_ip: Annotated[IpVersion, typer.Option(help="IP version of the packets on the wire.")] = IpVersion.IPV4
    mtu: Annotated[
        int | None,
        typer.Option(metavar="BYTES", min=1, help="Also compute the largest packet that fits this MTU in ESP."),
    ] = None
    operations: Annotated[
        list[str],
        typer.Option(
            metavar="SUITE=N", help="Operations per byte of a suite; built in for des, 3des and md5. Repeatable."
        ),
    ] = field(default_factory=list)

    def make_configs(self) -> list[EspConfig]:
        """Return an ESP configuration for each suite."""
        outer = int(self.outer_ip)
        inner = outer if self.inner_ip is None else int(self.inner_ip)
        return [
            validate_config(EspConfig(parse_suite(name), self.mode, self.encapsulation, inner, outer))
            for name in dict.fromkeys(self.suite)
        ]


class TrafficOptions(Struct, frozen=True, kw_only=True):
    """Which packets are protected, and the processors that protect them."""

    size: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Bytes of the packets to protect, IP header included: 64,480 or 40:1500:4 (from:to:step).",
        ),
    ] = None
    mips: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Processors in millions of operations per second: 100,300. Also compute the traffic they can protect.",
        ),
    ] = None
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="With --mips, compute the mean delay at these rates of clear packets: 384k,2M."
        ),
    ] = None
    packet_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="With --mips, the size of all packets in bytes, or pareto (default), with a mean of 480.",
        ),
    ] = None
    link_rate: Annotated[
        str | None, typer.Option(metavar="RATE", help="With --mips, the rate of the link after the processor: 2M.")
    ] = None


class EspCaptureOptions(Struct, frozen=True, kw_only=True):
    """How the ESP packets of a capture are read."""

    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Cipher suite of the ESP SAs, to compute the largest possible payload."),
    ] = None
    keys: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="ESP keys, to measure the payload: Wireshark's esp_sa table, or JSON of ikeanalyze. Repeatable.",
        ),
    ] = field(default_factory=list)
    port: PortOption = field(default_factory=list)


@command(app, "[OPTIONS]", "Compute the overhead of any suite, mode and encapsulation.")
def compute(esp: EspOptions, traffic: TrafficOptions, output: TableOptions, messages: MessageOptions) -> None:
    """Compute the overhead of ESP for any suite, mode, IP version and encapsulation.

    The result has the size of the protected packets and the share of payload in them. With --mips it also has the
    traffic that a processor can protect, and how long packets wait for it.
    """
    output.check()
    sizes = _parse_sizes(traffic.size, _SIZES if output.figures is None else _FIGURE_SIZES)
    with _esp_errors_as_options():
        configs, per_byte = esp.make_configs(), _parse_operations(esp.operations)
        query = _make_query(configs, sizes, traffic, mtu=esp.mtu, per_byte=per_byte)
        report = OverheadReport(computed=compute_overhead(query))
    output.write(FORMATS, report)
    output.write_figures(_write_figures, report, messages)


@command(app, "[OPTIONS]", "Compute the overhead as Xenakis and Merakos do.")
def paper(traffic: TrafficOptions, output: TableOptions, messages: MessageOptions) -> None:
    """Compute the overhead of ESP with the formulas of Xenakis and Merakos.

    They are for five suites of DES, 3DES and MD5 in transport mode with UDP and IPv4, without initialization vector.
    """
    output.check()
    sizes = _parse_sizes(traffic.size, _PAPER_SIZES)
    with _esp_errors_as_options():
        query = _make_query(list_paper_configs(), sizes, traffic, paper=True)
        report = OverheadReport(computed=compute_overhead(query))
    output.write(FORMATS, report)
    is_default = traffic.size is None and traffic.mips is None
    output.write_figures(partial(_write_figures, paper=is_default), report, messages)


@command(app, "CAPTURE [OPTIONS]", "Measure the ESP traffic of a capture.")
def measure(
    capture: CaptureArgument, inputs: EspCaptureOptions, output: TableOptions, messages: MessageOptions
) -> None:
    """Measure the ESP SAs of a capture.

    For each SA the result has packets, bytes, sizes, missing and repeated sequence numbers, and the rate over time;
    with --suite also the largest possible share of payload, with --keys the actual one.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; - is standard input.
    """
    output.check()
    with _esp_errors_as_options():
        suite = None if inputs.suite is None else parse_suite(inputs.suite)
    check_inputs({"CAPTURE": [capture], "--keys": inputs.keys}, output.output)
    start = time.perf_counter()
    keys, skipped = _read_keys(inputs.keys, messages)
    with fail_command(CaptureError), make_progress_bar(quiet=messages.quiet) as progress:
        traffic = read_esp_traffic(capture, tuple(inputs.port), progress, keys)
    if messages.verbose:
        log_stderr(f"{traffic.capture.packets:,} packets read in {time.perf_counter() - start:.2f} s")
    for warning in traffic.capture.warnings:
        messages.remark(f"{capture}: {warning}")
    for reason in traffic.unusable_keys[:_MAX_WARNINGS]:
        messages.remark(reason)
    if not traffic.sas:
        messages.remark(f"{capture}: no ESP packets")
    report = OverheadReport(measured=traffic, suite=suite)
    output.write(FORMATS, report)
    output.write_figures(_write_figures, report, messages)
    if skipped:
        raise typer.Exit(SOME_SKIPPED)


@contextmanager
def _esp_errors_as_options() -> Iterator[None]:
    """Turn errors of the model into errors of the option that caused them."""
    try:
        yield
    except EspError as error:
        option = {"inner": "inner-ip"}.get(error.what, error.what)
        raise typer.BadParameter(str(error), param_hint=f"--{option}") from None


def _parse_sizes(text: str | None, default: str | Sequence[int]) -> list[int]:
    sizes = text if text is not None else default
    values = _parse_numbers(sizes, "--size") if isinstance(sizes, str) else sizes
    if any(value != int(value) for value in values):
        raise typer.BadParameter(f"{text!r}: sizes are whole bytes", param_hint="--size")
    return [int(value) for value in values]


def _parse_numbers(text: str, option: str) -> tuple[float, ...]:
    with refuse_option(option, ParameterGridError):
        return parse_value_list(text)


def _parse_rate(text: str, option: str) -> float:
    with refuse_option(option, LinkScenarioError):
        rate = parse_rate(text)
    if rate <= 0:
        raise typer.BadParameter("a rate is more than 0 bit/s", param_hint=option)
    return rate


def _make_query(
    configs: list[EspConfig],
    sizes: list[int],
    traffic: TrafficOptions,
    *,
    paper: bool = False,
    mtu: int | None = None,
    per_byte: dict[str, float] | None = None,
) -> OverheadQuery:
    if traffic.mips is None:
        for name in ("rate", "link_rate", "packet_sizes"):
            if getattr(traffic, name) is not None:
                raise typer.BadParameter("needs --mips", param_hint=f"--{name.replace('_', '-')}")
        return OverheadQuery(configs, sizes, paper, mtu, per_byte=per_byte or {})
    mips = _parse_numbers(traffic.mips, "--mips")
    for speed in mips:
        if not _MIN_MIPS <= speed <= _MAX_MIPS:
            raise typer.BadParameter(
                f"{speed:g} is not in the range {_MIN_MIPS:g} to {_MAX_MIPS:g}", param_hint="--mips"
            )
    rates = [] if traffic.rate is None else [_parse_rate(part, "--rate") for part in traffic.rate.split(",")]
    link_rate = None if traffic.link_rate is None else _parse_rate(traffic.link_rate, "--link-rate")
    if len(rates) * len(mips) * len(configs) > _MAX_DELAYS:
        raise typer.BadParameter(
            f"rates, processors and suites make more than {_MAX_DELAYS:,} combinations", param_hint="--rate"
        )
    packet_sizes = _parse_packet_sizes(traffic.packet_sizes or "pareto", configs[0].inner)
    return OverheadQuery(configs, sizes, paper, mtu, mips, packet_sizes, rates, link_rate, per_byte or {})


def _parse_packet_sizes(text: str, version: int) -> PacketSizes:
    if text == "pareto":
        return make_pareto_sizes()
    if not text.isdecimal() or len(text) > _SIZE_DIGITS:
        raise typer.BadParameter(f"{text!r} is neither a size nor pareto", param_hint="--packet-sizes")
    with refuse_option("--packet-sizes", EspError):
        check_size(int(text), version)
    return make_fixed_sizes(int(text))


def _parse_operations(texts: Sequence[str]) -> dict[str, float]:
    operations = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0
        if not equals or not 0 < number < 1e9:
            raise typer.BadParameter(f"{text!r} is not SUITE=N, with N above 0", param_hint="--operations")
        operations[name.lower()] = number
    return operations


def _read_keys(paths: Sequence[str], messages: MessageOptions) -> tuple[list[EspKey], bool]:
    """Return the ESP keys of files, and whether a file was skipped."""
    keys: list[EspKey] = []
    skipped = False
    for path in paths:
        try:
            file = read_keys(path)
        except KeyFileError as error:
            log_stderr(str(error))
            skipped = True
            continue
        for warning in file.warnings[:_MAX_WARNINGS]:
            messages.remark(str(warning))
        if not file.esp:
            messages.remark(f"{path}: no key of an ESP SA. Such keys are in Wireshark's esp_sa table")
        keys += file.esp
    return keys, skipped


def _write_figures(report: OverheadReport, directory: str, *, paper: bool = False) -> Sequence[Path]:
    # imported here because they load altair, which takes a quarter of a second
    from ikeanalyze.render.core.figures.files import write_figures
    from ikeanalyze.render.overhead import figures

    if paper:
        return write_figures(directory, figures.make_paper_figures())
    if report.computed is not None:
        return write_figures(directory, figures.make_computed_figures(report.computed))
    assert report.measured is not None
    return write_figures(directory, figures.make_measured_figures(report.measured))
