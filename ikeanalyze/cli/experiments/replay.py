"""`ikeanalyze replay`: replay a recorded handshake to a live responder."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Final

import typer
from msgspec import Struct, field

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.cli.capture_options import (
    CaptureArgument,
    CaptureOptions,
    HandshakeOption,
    check_twice_readable,
    read_captures,
)
from ikeanalyze.cli.exit_status import FAILED, INTERRUPTED, CommandError, fail_command, log_stderr, refuse_option
from ikeanalyze.cli.options import MessageOptions, command, make_app
from ikeanalyze.cli.output_options import TextOptions, check_capture_name, check_inputs, is_same_file
from ikeanalyze.model.retransmission_policy import PolicyError, RetransmissionPolicy, parse_policy
from ikeanalyze.render.core.output import check_output, make_output_error
from ikeanalyze.render.core.values import format_count
from ikeanalyze.render.replay.formats import FORMATS
from ikeanalyze.render.replay.text import describe_outcome
from ikeanalyze.replay.credentials import CredentialsError
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.session.capture_writer import RecordingError
from ikeanalyze.replay.session.faults import Fault, FaultError, FaultKind, parse_fault
from ikeanalyze.replay.session.result import Mode, ReplayReport, ReplayRun
from ikeanalyze.replay.session.session import ProgressListener, ReplayConfig, run_replay, sidecar_keys_path
from ikeanalyze.replay.shape_file import SUFFIX
from ikeanalyze.replay.transport.interface import TransportError
from ikeanalyze.replay.transport.target import TargetError, parse_target

_DATAGRAMS: Final = "DATAGRAMS: a probability (0.2), IKE_AUTH, IKE_INTERMEDIATE:2/3... Repeatable."

app = make_app()


class TargetOptions(Struct, frozen=True, kw_only=True):
    """The target, and how datagrams are sent to it."""

    target: Annotated[
        str, typer.Option(metavar="ADDRESS[:PORT]", help="The responder; IPv6 with a port: [ADDRESS]:PORT.")
    ]
    nat_port: Annotated[
        int, typer.Option(metavar="N", min=1, max=65535, help="The target's port with the non-ESP marker.")
    ] = 4500
    allow_public_target: Annotated[
        bool, typer.Option("--allow-public-target", help="Allow public addresses. Get the owner's permission first.")
    ] = False
    tcp: Annotated[
        bool, typer.Option("--tcp", help="Reenact: use TCP (RFC 9329) to the port of --nat-port instead of UDP.")
    ] = False
    udp_sockets: Annotated[bool, typer.Option("--udp-sockets", help="Use UDP sockets even if scapy is available.")] = (
        False
    )


class RunOptions(Struct, frozen=True, kw_only=True):
    """The number and the timing of the runs."""

    mode: Annotated[Mode, typer.Option(help="How the handshake is replayed, see above.")] = "verbatim"
    runs: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Number of runs.")] = 1
    rate: Annotated[float, typer.Option(metavar="N", min=0.001, max=1000, help="Maximum handshakes per second.")] = 10.0
    timeout: Annotated[float, typer.Option(metavar="S", min=0.1, max=7200, help="Maximum seconds of one run.")] = 180.0
    time_scale: Annotated[
        float, typer.Option(metavar="X", min=0.001, max=1e6, help="Verbatim: divide the recorded gaps by X.")
    ] = 1.0
    listen: Annotated[
        float, typer.Option(metavar="S", min=0.01, max=600, help="Verbatim: seconds to listen after the last message.")
    ] = 2.0
    fuzz: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=100_000, help="Verbatim: send N mutations of the recorded first message."),
    ] = None
    seed: Annotated[int | None, typer.Option(metavar="N", min=0, help="Random seed of mutations and faults.")] = None


class LiveOptions(Struct, frozen=True, kw_only=True):
    """Parameters of a live handshake, and the faults of its datagrams."""

    credentials: Annotated[
        str | None, typer.Option(metavar="FILE", help="TOML: secrets, keys, certificates, identities.")
    ] = None
    retransmission_policy: Annotated[
        str,
        typer.Option(
            metavar="POLICY", help="strongswan, libreswan, exponential:timeout=1,base=2,tries=5, or a TOML file."
        ),
    ] = "strongswan"
    drop: Annotated[list[str], typer.Option(metavar="DATAGRAMS", help=f"Impair: drop datagrams. {_DATAGRAMS}")] = field(
        default_factory=list
    )
    duplicate: Annotated[list[str], typer.Option(metavar="DATAGRAMS", help="Impair: deliver them twice.")] = field(
        default_factory=list
    )
    reorder: Annotated[
        list[str], typer.Option(metavar="DATAGRAMS", help="Impair: deliver them after the next datagram.")
    ] = field(default_factory=list)
    delay: Annotated[list[str], typer.Option(metavar="DATAGRAMS", help="Impair: delay them, as in IKE_AUTH:250ms.")] = (
        field(default_factory=list)
    )

    def parse_policy(self) -> RetransmissionPolicy:
        """Parse the retransmission policy; its name includes its parameters, so that the result shows them."""
        with refuse_option("--retransmission-policy", PolicyError):
            return replace(parse_policy(self.retransmission_policy), name=self.retransmission_policy)

    def parse_faults(self) -> tuple[Fault, ...]:
        """Parse the faults."""
        faults: list[Fault] = []
        for kind in FaultKind:
            with refuse_option(f"--{kind}", FaultError):
                faults += [parse_fault(kind, text) for text in getattr(self, kind)]
        return tuple(faults)


class ReplayInputOptions(CaptureOptions, frozen=True, kw_only=True):
    """How the capture is read."""

    handshake: HandshakeOption = None


class ReplayOutputOptions(TextOptions, frozen=True, kw_only=True):
    """How the result is written."""

    compare_recorded: Annotated[
        bool, typer.Option("--compare-recorded", help="Show the recorded and the live handshake side by side.")
    ] = False
    write_capture: Annotated[
        str | None,
        typer.Option(
            "-w",
            "--write",
            metavar="LIVE.pcapng",
            help="Write a capture of what was sent and received; its keys go to LIVE.keys.json.",
        ),
    ] = None


@command(app, "CAPTURE --target ADDRESS[:PORT] [OPTIONS]")
def replay(
    capture: CaptureArgument,
    target: TargetOptions,
    run: RunOptions,
    live: LiveOptions,
    inputs: ReplayInputOptions,
    output: ReplayOutputOptions,
    messages: MessageOptions,
) -> None:
    """Replay a recorded handshake to a live responder and report its answers.

    verbatim sends the initiator's messages as they were recorded, with the recorded gaps. Only IKE_SA_INIT gets a new
    SPIi and nonce. reenact makes a live handshake of the same shape, with fresh keys. impair does the same, but drops,
    duplicates, reorders or delays datagrams.

    Refuses public addresses unless --allow-public-target is given, and prints what it will send first. One handshake is
    run at a time. With the necessary rights (root, CAP_NET_RAW) scapy sends and receives IP packets, otherwise UDP
    sockets are used.

    Exit status: 0 success; 1 the target did not answer, or no live handshake was established (reenact, impair), or the
    target did not survive mutated messages; 2 wrong usage.

    CAPTURE is a pcap or pcapng file, plain or compressed with gzip or zstd; for reenact and impair, also a shape file
    in TOML.
    """
    with _sigterm_as_interrupt():
        credentials = [live.credentials] if live.credentials else []
        policies = [name for name in [live.retransmission_policy] if os.path.isfile(name)]
        check_inputs(
            {
                "CAPTURE": [capture],
                "--keys": inputs.keys,
                "--credentials": credentials,
                "--retransmission-policy": policies,
            },
            output.output,
        )
        check_twice_readable(capture)
        output.check()
        config = _make_config(capture, target, run, live, inputs, output)
        _check_config(config)
        if config.write is not None:
            _check_capture_path(config, config.write, output.output)
        result = _run(config, inputs, messages)
        output.write(FORMATS, result)
        if result.lost is not None:
            log_stderr(str(make_output_error(result.lost.path, result.lost.error, "-w")))
        if result.report is not None:
            messages.remark(f"read the live capture with: {result.report}")
        if result.interrupted:
            raise typer.Exit(INTERRUPTED)
        _raise_failures(result)
        if result.lost is not None and (config.write is not None or config.compare):
            raise typer.Exit(FAILED)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C: delete the IKE SA at the target and keep the capture."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _make_config(
    capture: str,
    target: TargetOptions,
    run: RunOptions,
    live: LiveOptions,
    inputs: ReplayInputOptions,
    output: ReplayOutputOptions,
) -> ReplayConfig:
    with refuse_option("--target", TargetError):
        address = parse_target(target.target, any_target=target.allow_public_target, nat_port=target.nat_port)
    return ReplayConfig(
        capture,
        run.mode,
        address,
        live.parse_policy(),
        handshake=inputs.handshake,
        keys=tuple(inputs.keys),
        ports=tuple(inputs.port),
        runs=run.runs,
        rate=run.rate,
        seconds=run.timeout,
        speed=run.time_scale,
        wait_s=run.listen,
        mutants=run.fuzz,
        seed=run.seed,
        credentials=live.credentials,
        faults=live.parse_faults(),
        sockets=target.udp_sockets,
        tcp=target.tcp,
        compare=output.compare_recorded,
        write=output.write_capture,
    )


def _check_config(config: ReplayConfig) -> None:
    """Refuse options that cannot be combined."""
    if config.mode != "verbatim" and config.credentials is None:
        raise typer.BadParameter("a live handshake needs credentials, see docs/replay.md", param_hint="--credentials")
    if config.mode != "verbatim" and config.mutants is not None:
        raise typer.BadParameter("needs --mode verbatim", param_hint="--fuzz")
    if config.mode != "impair" and config.faults:
        raise typer.BadParameter("needs --mode impair", param_hint=f"--{config.faults[0].kind}")
    if config.tcp and config.mode != "reenact":
        raise typer.BadParameter("needs --mode reenact", param_hint="--tcp")
    if config.tcp and config.sockets:
        raise typer.BadParameter("cannot be combined with --udp-sockets", param_hint="--tcp")
    if config.mutants is not None and config.compare:
        raise typer.BadParameter("cannot be combined with --fuzz", param_hint="--compare-recorded")
    if config.capture.endswith(SUFFIX) and config.mode == "verbatim":
        raise typer.BadParameter("a shape file has no messages: needs reenact or impair", param_hint="--mode")
    if config.capture.endswith(SUFFIX) and config.compare:
        raise typer.BadParameter("needs a capture instead of a shape file", param_hint="--compare-recorded")


def _check_capture_path(config: ReplayConfig, path: str, output: str) -> None:
    """Check that the live capture and its keys can be written, before anything is sent."""
    inputs = (config.capture, *config.keys, *([config.credentials] if config.credentials else ()))
    for written in (path, sidecar_keys_path(path)):
        if path == "-" or (os.path.exists(written) and not os.path.isfile(written)):
            raise typer.BadParameter(
                f"the live capture is read again: name a file ({written} is not one)", param_hint="-w"
            )
        if any(is_same_file(read, written) for read in inputs):
            raise typer.BadParameter(f"{written} is an input file, it would be overwritten", param_hint="-w")
        if output != "-" and is_same_file(output, written):
            raise typer.BadParameter(f"{written} and -o are the same file", param_hint="-w")
        check_output(written, option="-w")
    check_capture_name(path, "-w")


def _run(config: ReplayConfig, inputs: CaptureOptions, messages: MessageOptions) -> ReplayReport:
    def report_run(run: ReplayRun) -> None:
        if messages.verbose and config.runs > 1:
            log_stderr(f"run {run.number:,} of {config.runs:,}: {describe_outcome(run)}")

    is_shape = config.capture.endswith(SUFFIX)
    analysis = None if is_shape else read_captures([config.capture], inputs, messages)
    try:
        with fail_command(CaptureError, CannotReplayError, CredentialsError, TransportError):
            return run_replay(config, analysis, ProgressListener(messages.remark, report_run))
    except RecordingError as error:
        raise make_output_error(error.path, error.error, "-w") from None


def _raise_failures(result: ReplayReport) -> None:
    """Raise `CommandError` unless the target answered and, in a live mode, established an IKE SA."""
    target = result.target
    if result.mutated is not None:
        if result.mutated.before.answer is None:
            raise CommandError(f"{target} does not answer an ordinary IKE_SA_INIT; no mutated message was sent")
        if not result.mutated.up:
            raise CommandError(f"{target} no longer answers after the mutated messages")
        return
    if not any(_is_answered(run) for run in result.runs):
        counts = result.counts
        problem = f"sends {counts.received:,} datagrams that are not answers" if counts.received else "does not answer"
        if counts.refusal:
            problem += f"; the network reports: {counts.refusal}"
        if counts.stray:
            problem += f"; {counts.stray:,} datagrams came from other addresses, such as {counts.stray_from}"
        raise CommandError(f"{target} {problem}{_describe_faults(result)}")
    if result.mode != "verbatim" and not any(run.result and run.result.established for run in result.runs):
        run = result.runs[0]
        reason = run.broken_off or (run.result.reason if run.result else None)
        raise CommandError(f"{target}: no IKE SA was established: {reason}{_describe_faults(result)}")


def _is_answered(run: ReplayRun) -> bool:
    """Return whether an answer to a recorded message arrived or, in a live mode, any datagram."""
    if run.verbatim is not None:
        return any(sent.answers for sent in run.verbatim.sent)
    return run.traffic.received > 0


def _describe_faults(result: ReplayReport) -> str:
    """Return how many datagrams the faults affected, as the end of an error message."""
    met = result.met
    if not met:
        return ""
    return f"; the injected faults affected {format_count(met.total(), 'datagram')} ({', '.join(sorted(met))})"
