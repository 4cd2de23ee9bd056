"""A replay from its order to what came of it: the way to the target, the runs, and our own capture read back."""

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
from ikeanalyze.io.atomic_write import open_output
from ikeanalyze.keys.export import build_key_json, write_private
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.replay.credentials import load_credentials
from ikeanalyze.replay.handshake_shape import WORDS, read_shape
from ikeanalyze.replay.initiator.initiator import Initiator
from ikeanalyze.replay.initiator.interface import CannotReplayError
from ikeanalyze.replay.session.capture_writer import CaptureWriter, RecordingError
from ikeanalyze.replay.session.comparison import compare_handshakes, find_handshake, get_setup_exchanges
from ikeanalyze.replay.session.faults import Fault
from ikeanalyze.replay.session.recorded_messages import load_recorded_handshakes
from ikeanalyze.replay.session.result import Mode, ReplayComparison, ReplayReport, ReplayRun, ReportFigures
from ikeanalyze.replay.session.run import ReplayRunner
from ikeanalyze.replay.transport.interface import PacketTransport
from ikeanalyze.replay.transport.open import open_transport
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT, Target

#: Handshakes of a capture whose first messages are mutated.
_MOST_FIRSTS: Final = 100

Perform = Callable[[ReplayRunner, ReplayReport], ReplayReport]


@dataclass(frozen=True, slots=True)
class ReplayConfig:
    """What is asked for."""

    capture: str  # path of a file
    mode: Mode
    target: Target
    policy: RetransmissionPolicy  # of retransmission, in live handshakes
    handshake: int | None = None  # of the capture; None: the first that will do
    keys: tuple[str, ...] = ()  # files with keys to the capture
    ports: tuple[int, ...] = ()  # that carry IKE in the capture, besides 500 and 4500
    runs: int = 1
    rate: float = 10.0  # handshakes a second, at most
    seconds: float = 180.0  # of one run, at most
    speed: float = 1.0  # recorded gaps are divided by it
    wait_s: float = 2.0  # after the last recorded message
    mutants: int | None = None  # mutated first messages instead of a handshake; None: no
    seed: int | None = None  # of mutants and faults; None: any
    credentials: str | None = None  # path of the file with them; live handshakes need one
    faults: tuple[Fault, ...] = ()
    sockets: bool = False  # ordinary UDP sockets, though scapy could be used
    compare: bool = False  # recorded and live side by side
    write: str | None = None  # where our capture stays; None: nowhere


@dataclass(frozen=True, slots=True)
class ProgressListener:
    """Who hears of it while it goes on."""

    say: Callable[[str], None]  # a line
    run: Callable[[ReplayRun], None]  # each run when it is over


def run_replay(order: ReplayConfig, analysis: Analysis, listener: ProgressListener) -> ReplayReport:
    """Do what is asked for; `analysis` is that of the capture. Who interrupts it (Ctrl-C) gets what was done until then.

    Raises:
        CaptureError, CannotReplayError, CredentialsError, TransportError: it cannot be done; a line for the user.
        RecordingError: our own capture cannot be written, which was found before anything was sent.
    """
    if order.mode == "verbatim":
        return _verbatim(order, analysis, listener)
    return _live(order, analysis, listener)


def _verbatim(order: ReplayConfig, analysis: Analysis, listener: ProgressListener) -> ReplayReport:
    chosen = _chosen(order, analysis)
    handshakes = [
        recorded
        for recorded in load_recorded_handshakes(order.capture, analysis, chosen, order.ports)
        if recorded.first
    ]
    if not handshakes:
        which = "it" if order.handshake is None else f"handshake {order.handshake}"
        raise CannotReplayError(f"{order.capture}: no IKE_SA_INIT request is whole in {which}, so nothing can be sent")
    recorded = handshakes[0]
    if order.mutants is not None:
        mutants, seed = order.mutants, _seed(order)
        made = f"{_count(mutants, 'message')} with errors, made of {_count(len(handshakes), 'recorded first message')}"
        plan = f"{made}, {order.rate:g} a second"

        def mutated(runs: ReplayRunner, replayed: ReplayReport) -> ReplayReport:
            return replace(replayed, mutated=runs.run_fuzz(handshakes, mutants, seed), seed=seed)

        return _go(order, analysis, recorded.id if len(handshakes) == 1 else None, plan, mutated, listener)
    if recorded.partial:
        listener.say(
            f"of handshake {recorded.id}, {_count(recorded.partial, 'datagram')} cut in the capture will not be sent"
        )
    sent = recorded.requests
    size = sum(len(message.data) for message in sent)
    lasts = (sent[-1].time_ns - sent[0].time_ns) / 1e9 / order.speed
    plan = f"the {_count(len(sent), 'datagram')} ({size:,} bytes) of handshake {recorded.id} over {lasts:.1f} s{_times(order)}"

    def verbatim(runs: ReplayRunner, replayed: ReplayReport) -> ReplayReport:
        return replace(
            replayed, runs=tuple(runs.run_verbatim(recorded, order.runs, speed=order.speed, wait_s=order.wait_s))
        )

    return _go(order, analysis, recorded.id, plan, verbatim, listener)


def _chosen(order: ReplayConfig, analysis: Analysis) -> Sequence[int]:
    """Ids of the handshakes that are used."""
    known: list[int] = analysis.handshakes.filter(protocol="IKEv2")["handshake"].to_list()
    if order.handshake is None:
        return known[:_MOST_FIRSTS]
    if order.handshake not in known:
        raise CannotReplayError(f"{order.capture}: there is no handshake {order.handshake} of IKEv2")
    return [order.handshake]


def _live(order: ReplayConfig, analysis: Analysis, listener: ProgressListener) -> ReplayReport:
    if order.credentials is None:
        raise CannotReplayError("a live handshake needs credentials")
    number, shape = read_shape(order.capture, order.handshake, keys=order.keys, ports=order.ports)
    loaded = load_credentials(order.credentials)
    for warning in loaded.warnings:
        listener.say(warning)
    seed = _seed(order)
    rng = np.random.default_rng(seed)

    def made(local: tuple[str, int]) -> Initiator:
        remote = (order.target.address.partition("%")[0], order.target.port)
        return Initiator(shape, loaded.credentials, policy=order.policy, rng=rng, endpoints=(local, remote))

    # what cannot be done is said before anything is sent
    left_out = (*shape.left_out, *made(("127.0.0.1", IKE_PORT)).offered.left_out)
    notes = []
    if shape.guessed:
        unknown = ", ".join(WORDS[field] for field in shape.guessed)
        notes.append(f"defaults, since the capture does not tell: {unknown}")
    if left_out:
        notes.append(f"recorded, but not done again: {', '.join(left_out)}")
    for note in notes:
        listener.say(note)

    def live(runs: ReplayRunner, replayed: ReplayReport) -> ReplayReport:
        local = replayed.local.address.partition("%")[0], replayed.local.port
        live_runs = runs.run_live(lambda: made(local), order.runs, faults=order.faults, seed=seed)
        by_chance = seed if order.faults or order.policy.jitter else None
        replayed = replace(replayed, runs=tuple(live_runs), seed=by_chance)
        never = [name for name in replayed.faults if live_runs and not replayed.met[name]]
        if never:
            notes.append(f"faults that nothing met: {', '.join(never)}")
            listener.say(notes[-1])
        return replace(replayed, notes=tuple(notes))

    policy, row = order.policy, analysis.handshakes.filter(handshake=number).row(0, named=True)
    plan = (
        f"a live handshake of the shape of handshake {number} ({_count(row['initiator_messages'], 'message')}, "
        f"{row['initiator_bytes']:,} bytes were recorded), each message up to {_count(policy.tries + 1, 'time')} within "
        f"{sum(policy.waits):,.0f} s ({policy.name}){_times(order)}"
    )
    return _go(order, analysis, number, plan, live, listener)


def _count(value: int, noun: str) -> str:
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def _seed(order: ReplayConfig) -> int:
    return int.from_bytes(os.urandom(4), "big") if order.seed is None else order.seed


def _times(order: ReplayConfig) -> str:
    return "" if order.runs == 1 else f", {order.runs:,} times, {order.rate:g} a second at most"


def _go(
    order: ReplayConfig, analysis: Analysis, handshake: int | None, plan: str, do: Perform, listener: ProgressListener
) -> ReplayReport:
    """Open the way, say what will be sent, do it, and read our own capture."""
    with _place(order.write) as path:
        replayed: ReplayReport | None = None
        try:
            with open_output(path) as stream:
                recording = CaptureWriter(stream)
                replayed = _recorded(order, recording, handshake, plan, do, listener)
                recording.check()
        except OSError as error:
            if replayed is None:  # nothing was sent
                raise RecordingError(path, error) from None
            # what came of the runs is known without our capture
            return _without(replayed, path, error)
        if recording.left_out:
            listener.say(f"{recording.left_out:,} packets are not in our capture: there was no room for more")
        return _read_back(order, analysis, replayed, path)


def _recorded(
    order: ReplayConfig,
    recording: CaptureWriter,
    handshake: int | None,
    plan: str,
    do: Perform,
    listener: ProgressListener,
) -> ReplayReport:
    """Open the way, say what will be sent, and do it."""
    transport, why = open_transport(order.target, recording.packet, sockets_only=order.sockets)
    try:
        seen = "as scapy sent and saw them" if why is None else "IP headers made up of UDP datagrams"
        comment = f"ikeanalyze replay --mode {order.mode} to {order.target}"
        recording.begin(name="replay", description=seen, comment=comment)
        listener.say(_announcement(order, transport, why, plan))
        runs = ReplayRunner(
            order.target,
            transport,
            rate=order.rate,
            seconds=order.seconds,
            randomness=os.urandom,
            tell=listener.run,
        )
        began = time.time_ns()
        replayed = ReplayReport(
            order.mode,
            order.capture,
            handshake,
            str(order.target),
            transport.way,
            transport.local,
            order.rate,
            began,
            began,
            transport.counts,
            policy=None if order.mode == "verbatim" else order.policy.name,
            faults=tuple(fault.name for fault in order.faults),
            interrupted=True,
        )
        # interrupted until it has come to its end: what was sent is in our capture, which is to stay
        with suppress(KeyboardInterrupt):
            replayed = replace(do(runs, replayed), interrupted=runs.interrupted)
        return replace(replayed, ended_ns=time.time_ns())
    finally:
        transport.close()


def _without(replayed: ReplayReport, path: str, why: OSError) -> ReplayReport:
    """A replay whose capture, or the keys to it, could not be written: also told to whoever reads the result alone."""
    lost = RecordingError(path, why)
    return replace(replayed, lost=lost, notes=(*replayed.notes, str(lost)))


def sidecar_keys_path(capture: str) -> str:
    """Where the keys to a capture of ours go: LIVE.keys.json beside LIVE.pcapng."""
    return str(Path(capture).with_suffix(".keys.json"))


@contextmanager
def _place(write: str | None) -> Iterator[str]:
    """Where our capture goes: as asked, or to a folder that is gone afterwards. Raises `RecordingError`."""
    if write is not None:
        yield write
        return
    try:
        folder = TemporaryDirectory(prefix="ikeanalyze-", ignore_cleanup_errors=True)
    except OSError as error:
        raise RecordingError("our own capture", error) from None
    with folder as name:
        yield os.path.join(name, "live.pcapng")


def _announcement(order: ReplayConfig, transport: PacketTransport, why: str | None, plan: str) -> str:
    local = transport.local
    way = "scapy on layer 3" if why is None else f"ordinary UDP sockets ({why})"
    ports = f"{local.address} ports {local.port} and {local.nat_port}"
    return f"{order.mode}: sending to {order.target} from {ports} by {way}: {plan}"


def _report(target: Target, path: str, keys: Sequence[str]) -> str:
    """The command line that reads our capture."""
    options = [option for name in keys for option in ("--keys", name)]
    for port in (target.port, target.nat_port):
        options += [] if port in (IKE_PORT, NAT_PORT) else ["--port", str(port)]
    return shlex.join(["ikeanalyze", "report", path, *options])


def _read_back(order: ReplayConfig, analysis: Analysis, replayed: ReplayReport, path: str) -> ReplayReport:
    """Put the keys beside our capture, and take what the report says of it."""
    keys: list[str] = []
    if replayed.key_sets:
        keys.append(sidecar_keys_path(path))
        try:
            write_private(keys[0], build_key_json(replayed.key_sets, (), ()))
        except OSError as error:
            replayed = _without(replayed, keys.pop(), error)
    if order.write is not None:
        replayed = replace(
            replayed, recording=path, keys=keys[0] if keys else None, report=_report(order.target, path, keys)
        )
    if not replayed.runs:
        return replayed
    live = read_captures(path, ReadOptions(ports=(order.target.port, order.target.nat_port), keys=keys))
    runs: list[ReplayRun] = []
    compared: list[ReplayComparison] = []
    for run in replayed.runs:
        row = None if run.spi_i is None else find_handshake(live, run.spi_i)
        if row is None or run.spi_i is None:
            runs.append(run)
            continue
        trips = {key: side.rtt_ns for key, side in get_setup_exchanges(live, row["handshake"]).items()}
        # recorded messages besides the first keep their SPIs: for the report they are of another handshake
        alone = run.verbatim is None or len(run.verbatim.sent) == 1
        reported = ReportFigures(row["blowup"] if alone else None, row["setup_ns"], trips)
        runs.append(replace(run, reported=reported))
        if order.compare and replayed.handshake is not None:
            both = compare_handshakes(analysis, replayed.handshake, live, run.spi_i, run.number)
            compared += [both] if both else []
    return replace(replayed, runs=tuple(runs), compared=tuple(compared))
