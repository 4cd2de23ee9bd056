"""Runs a replay: opens the transport, does the runs, and reads our own capture."""

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.io.atomic_write import open_output, write_private
from ikeanalyze.io.decompress import strip_compression
from ikeanalyze.keys.export import build_key_json
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.replay.credentials import load_credentials
from ikeanalyze.replay.handshake_shape import FIELD_NAMES, read_shape
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.session.capture_writer import CaptureWriter, RecordingError
from ikeanalyze.replay.session.comparison import compare_handshakes, find_handshake, get_setup_exchanges
from ikeanalyze.replay.session.faults import Fault
from ikeanalyze.replay.session.recorded_messages import load_recorded_handshakes
from ikeanalyze.replay.session.result import Mode, ReplayComparison, ReplayReport, ReplayRun, ReportFigures
from ikeanalyze.replay.session.run import ReplayRunner
from ikeanalyze.replay.shape_file import read_shape_file
from ikeanalyze.replay.transport.interface import PacketTransport, Way
from ikeanalyze.replay.transport.open import open_transport
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT, Target

#: Limit for the handshakes whose first messages are mutated.
_MAX_HANDSHAKES: Final = 100

#: Description of the interface in our own capture.
_INTERFACE_DESCRIPTIONS: Final[dict[Way, str]] = {
    "layer 3": "IP packets of scapy",
    "UDP": "IP headers reconstructed from UDP datagrams",
    "TCP": "IP and TCP headers constructed for the messages of a TCP connection",
}

Perform = Callable[[ReplayRunner, ReplayReport], ReplayReport]  # does the runs and adds them to the report


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """Options of a replay."""

    capture: str  # path of a capture, or of a shape file for a live handshake
    mode: Mode
    target: Target
    policy: RetransmissionPolicy  # of retransmission, for live handshakes
    handshake: int | None = None  # of the capture; None: the first suitable one
    keys: tuple[str, ...] = ()  # key files for the capture
    ports: tuple[int, ...] = ()  # that carry IKE in the capture, in addition to 500 and 4500
    runs: int = 1
    rate: float = 10.0  # limit for the handshakes per second
    seconds: float = 180.0  # limit for one run
    speed: float = 1.0  # divides the recorded gaps
    wait_s: float = 2.0  # after the last recorded message
    mutants: int | None = None  # number of mutated first messages; None: no fuzzing
    seed: int | None = None  # of mutants and faults; None: random
    credentials: str | None = None  # path; required for live handshakes
    faults: tuple[Fault, ...] = ()
    sockets: bool = False  # use UDP sockets even if scapy is available
    tcp: bool = False  # TCP encapsulation (RFC 9329) instead of UDP
    compare: bool = False  # compare recorded and live handshakes
    write: str | None = None  # path for our capture; None: do not keep it


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Callbacks for progress."""

    message: Callable[[str], None]  # called with a line
    run: Callable[[ReplayRun], None]  # called with each finished run


def run_replay(config: ReplayConfig, analysis: Analysis | None, listener: ProgressListener) -> ReplayReport:
    """Run a replay. If the user interrupts it (Ctrl-C), return the results so far.

    `analysis`: the analysis of the capture; None: a shape file is used.

    Raises:
        CaptureError, CannotReplayError, CredentialsError, TransportError: the replay cannot be done.
        RecordingError: our own capture cannot be written; nothing was sent.
    """
    if config.mode != "verbatim":
        return _replay_live(config, analysis, listener)
    if analysis is None:
        raise CannotReplayError(f"{config.capture}: a shape file is for live handshakes")
    return _replay_verbatim(config, analysis, listener)


def _replay_verbatim(config: ReplayConfig, analysis: Analysis, listener: ProgressListener) -> ReplayReport:
    handshake_ids = _select_handshakes(config, analysis)
    loaded = load_recorded_handshakes(config.capture, analysis, handshake_ids, config.ports)
    handshakes = [recorded for recorded in loaded if recorded.first]
    if not handshakes:
        which = "the capture" if config.handshake is None else f"handshake {config.handshake}"
        raise CannotReplayError(f"{config.capture}: no complete IKE_SA_INIT request in {which} to send")
    recorded = handshakes[0]
    if config.mutants is not None:
        mutants, seed = config.mutants, _get_seed(config)
        originals = _format_count(len(handshakes), "recorded first message")
        plan = f"{_format_count(mutants, 'message')} with errors, made of {originals}, {config.rate:g} a second"

        def mutated(runs: ReplayRunner, report: ReplayReport) -> ReplayReport:
            return replace(report, mutated=runs.run_fuzz(handshakes, mutants, seed), seed=seed)

        single_id = recorded.id if len(handshakes) == 1 else None
        return _run_and_read_back(config, analysis, single_id, plan, mutated, listener)
    if recorded.partial:
        truncated = _format_count(recorded.partial, "datagram")
        listener.message(f"handshake {recorded.id}: {truncated} truncated in the capture will not be sent")
    requests = recorded.requests
    total_bytes = sum(len(message.data) for message in requests)
    duration_s = (requests[-1].time_ns - requests[0].time_ns) / 1e9 / config.speed
    plan = (
        f"the {_format_count(len(requests), 'datagram')} ({total_bytes:,} bytes of IKE messages) of handshake {recorded.id} "
        f"over {duration_s:.1f} s{_format_repetitions(config)}"
    )

    def verbatim(runs: ReplayRunner, report: ReplayReport) -> ReplayReport:
        replayed = runs.run_verbatim(recorded, config.runs, speed=config.speed, wait_s=config.wait_s)
        return replace(report, runs=tuple(replayed))

    return _run_and_read_back(config, analysis, recorded.id, plan, verbatim, listener)


def _select_handshakes(config: ReplayConfig, analysis: Analysis) -> Sequence[int]:
    """Return the ids of the handshakes to use."""
    handshake_ids: list[int] = analysis.handshakes.filter(protocol="IKEv2", rekeyed=False)["handshake"].to_list()
    if config.handshake is None:
        return handshake_ids[:_MAX_HANDSHAKES]
    if config.handshake not in handshake_ids:
        raise CannotReplayError(f"{config.capture}: no IKEv2 handshake {config.handshake}")
    return [config.handshake]


def _replay_live(config: ReplayConfig, analysis: Analysis | None, listener: ProgressListener) -> ReplayReport:
    if config.credentials is None:
        raise CannotReplayError("a live handshake needs credentials")
    number: int | None = None
    if analysis is None:
        shape = read_shape_file(config.capture)
    else:
        number, shape = read_shape(config.capture, config.handshake, keys=config.keys, ports=config.ports)
    loaded = load_credentials(config.credentials)
    for warning in loaded.warnings:
        listener.message(warning)
    seed = _get_seed(config)
    rng = np.random.default_rng(seed)

    def make_initiator(local: tuple[str, int]) -> Initiator:
        remote_port = config.target.nat_port if config.tcp else config.target.port
        remote = (config.target.address.partition("%")[0], remote_port)
        return Initiator(shape, loaded.credentials, policy=config.policy, rng=rng, endpoints=(local, remote))

    # report unsupported parts before anything is sent
    left_out = (*shape.left_out, *make_initiator(("127.0.0.1", IKE_PORT)).offered.left_out)
    notes = []
    if shape.guessed:
        unknown = ", ".join(FIELD_NAMES[field] for field in shape.guessed)
        notes.append(f"defaults, unknown from the capture: {unknown}")
    if left_out:
        notes.append(f"recorded but not re-enacted: {', '.join(left_out)}")
    for note in notes:
        listener.message(note)

    def live(runs: ReplayRunner, report: ReplayReport) -> ReplayReport:
        local = report.local.address.partition("%")[0], report.local.port
        live_runs = runs.run_live(lambda: make_initiator(local), config.runs, faults=config.faults, seed=seed)
        used_seed = seed if config.faults or config.policy.jitter else None
        report = replace(report, runs=tuple(live_runs), seed=used_seed)
        unused = [name for name in report.faults if live_runs and not report.met[name]]
        if unused:
            notes.append(f"faults without a matching datagram: {', '.join(unused)}")
            listener.message(notes[-1])
        return replace(report, notes=tuple(notes))

    policy, times = config.policy, _format_count(config.policy.tries + 1, "time")
    plan = (
        f"a live handshake of {_describe_shape(config, analysis, number)}, each message up to {times} within "
        f"{sum(policy.waits):,.0f} s ({policy.name}){_format_repetitions(config)}"
    )
    return _run_and_read_back(config, analysis, number, plan, live, listener)


def _describe_shape(config: ReplayConfig, analysis: Analysis | None, number: int | None) -> str:
    """Return where the shape comes from; `number`: the handshake of the capture."""
    if analysis is None:
        return f"the shape in {config.capture}"
    recorded_row = analysis.handshakes.filter(handshake=number).row(0, named=True)
    messages = _format_count(recorded_row["initiator_messages"], "message")
    return f"the shape of handshake {number} ({messages}, {recorded_row['initiator_bytes']:,} bytes in frames were recorded)"


def _format_count(value: int, noun: str) -> str:
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def _get_seed(config: ReplayConfig) -> int:
    return int.from_bytes(os.urandom(4), "big") if config.seed is None else config.seed


def _format_repetitions(config: ReplayConfig) -> str:
    return "" if config.runs == 1 else f", {config.runs:,} times, {config.rate:g} a second at most"


def _run_and_read_back(
    config: ReplayConfig,
    analysis: Analysis | None,
    handshake: int | None,
    plan: str,
    perform: Perform,
    listener: ProgressListener,
) -> ReplayReport:
    """Do the runs, write our own capture, and read it."""
    with _open_capture_path(config.write) as path:
        report: ReplayReport | None = None
        try:
            with open_output(path) as stream:
                recording = CaptureWriter(stream)
                report = _run(config, recording, handshake, plan, perform, listener)
                recording.check()
        except OSError as error:
            if report is None:  # nothing was sent
                raise RecordingError(path, error) from None
            # the results are known without our capture
            return _add_write_error(report, path, error)
        if recording.dropped:
            listener.message(f"{recording.dropped:,} packets exceed the limit of our capture")
        return _read_back(config, analysis, report, path)


def _run(
    config: ReplayConfig,
    recording: CaptureWriter,
    handshake: int | None,
    plan: str,
    perform: Perform,
    listener: ProgressListener,
) -> ReplayReport:
    """Open the transport, announce the plan, and do the runs."""
    transport, reason = open_transport(
        config.target, recording.write_packet, sockets_only=config.sockets, tcp=config.tcp
    )
    try:
        description = _INTERFACE_DESCRIPTIONS[transport.way]
        comment = f"ikeanalyze replay --mode {config.mode} to {config.target}"
        recording.begin(name="replay", description=description, comment=comment)
        listener.message(_describe_plan(config, transport, reason, plan))
        rate, seconds = config.rate, config.seconds
        runs = ReplayRunner(
            config.target, transport, rate=rate, seconds=seconds, randomness=os.urandom, on_run=listener.run
        )
        began_ns = time.time_ns()
        report = ReplayReport(
            mode=config.mode,
            capture=config.capture,
            handshake=handshake,
            target=str(config.target),
            way=transport.way,
            local=transport.local,
            rate=rate,
            began_ns=began_ns,
            ended_ns=began_ns,
            counts=transport.counts,
            policy=None if config.mode == "verbatim" else config.policy.name,
            faults=tuple(fault.name for fault in config.faults),
            interrupted=True,
        )
        # keep our capture if the user interrupts the runs
        with suppress(KeyboardInterrupt):
            report = replace(perform(runs, report), interrupted=runs.interrupted)
        return replace(report, ended_ns=time.time_ns())
    finally:
        transport.close()


def _add_write_error(report: ReplayReport, path: str, reason: OSError) -> ReplayReport:
    """Add the failure to write our capture or its keys to the report and its notes."""
    lost = RecordingError(path, reason)
    return replace(report, lost=lost, notes=(*report.notes, str(lost)))


def sidecar_keys_path(capture: str) -> str:
    """Return the path of the keys of our capture: LIVE.keys.json next to LIVE.pcapng, compressed or not."""
    return str(Path(strip_compression(capture)).with_suffix(".keys.json"))


@contextmanager
def _open_capture_path(write: str | None) -> Iterator[str]:
    """Yield the path of our capture, in a temporary directory if none is given. Raises `RecordingError`."""
    if write is not None:
        yield write
        return
    try:
        folder = TemporaryDirectory(prefix="ikeanalyze-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RecordingError("our own capture", error) from None
    with folder as name:
        yield os.path.join(name, "live.pcapng")


def _describe_plan(config: ReplayConfig, transport: PacketTransport, reason: str | None, plan: str) -> str:
    local = transport.local
    if transport.way == "TCP":
        server = f"port {config.target.nat_port} of {config.target.address}"
        return f"{config.mode}: sending to {server} from {local.address} port {local.port} by TCP (RFC 9329): {plan}"
    way = "scapy on layer 3" if reason is None else f"ordinary UDP sockets ({reason})"
    ports = f"{local.address} ports {local.port} and {local.nat_port}"
    return f"{config.mode}: sending to {config.target} from {ports} by {way}: {plan}"


def _format_report_command(target: Target, path: str, keys: Sequence[str]) -> str:
    """Return the command line for a report on our capture."""
    options = ["--vantage", "initiator", *(option for name in keys for option in ("--keys", name))]
    for port in (target.port, target.nat_port):
        options += [] if port in (IKE_PORT, NAT_PORT) else ["--port", str(port)]
    return shlex.join(["ikeanalyze", "report", path, *options])


def _read_back(config: ReplayConfig, analysis: Analysis | None, report: ReplayReport, path: str) -> ReplayReport:
    """Write the keys next to our capture, and add the report's figures."""
    keys: list[str] = []
    if report.key_sets:
        keys.append(sidecar_keys_path(path))
        try:
            write_private(keys[0], build_key_json(report.key_sets, (), ()))
        except OSError as error:
            report = _add_write_error(report, keys.pop(), error)
    if config.write is not None:
        command = _format_report_command(config.target, path, keys)
        report = replace(report, recording=path, keys=keys[0] if keys else None, report=command)
    if not report.runs:
        return report
    ports = config.target.port, config.target.nat_port
    live = read_captures(path, ReadOptions(ports=ports, keys=keys, vantage="initiator"))
    runs: list[ReplayRun] = []
    compared: list[ReplayComparison] = []
    for run in report.runs:
        row = None if run.spi_i is None else find_handshake(live, run.spi_i)
        if row is None or run.spi_i is None:
            runs.append(run)
            continue
        round_trips = {key: cost.rtt_ns for key, cost in get_setup_exchanges(live, row["handshake"]).items()}
        # later recorded messages keep their SPIs: for the report they belong to another handshake
        has_one_message = run.verbatim is None or len(run.verbatim.sent) == 1
        blowup = row["blowup"] if has_one_message else None
        runs.append(replace(run, reported=ReportFigures(blowup, row["setup_ns"], round_trips)))
        if config.compare and analysis is not None and report.handshake is not None:
            comparison = compare_handshakes(analysis, report.handshake, live, run.spi_i, run.number)
            compared += [comparison] if comparison else []
    return replace(report, runs=tuple(runs), compared=tuple(compared))
