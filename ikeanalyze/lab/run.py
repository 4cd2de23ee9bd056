"""Runs a case of a scenario, from its namespaces to its manifest."""

import fcntl
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

from ikeanalyze.lab import LabError, actions, machine, manifest, recording
from ikeanalyze.lab.daemons import freeradius, libreswan, peer_config, strongswan
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa, IkeDaemon, ResourceUsage
from ikeanalyze.lab.machine import DaemonStack
from ikeanalyze.lab.manifest import (
    ActionResult,
    RecordedLabHandshake,
    RecordingCut,
    RecordingFiles,
    RecordingWriter,
    ResourceCost,
)
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, block_signals
from ikeanalyze.lab.recording import CAPTURE_LAG_SECONDS, DumpcapRecording
from ikeanalyze.lab.scenario import ScenarioCase

#: Called after each handshake with its number, the number of handshakes, and its result.
ProgressCallback = Callable[[int, int, RecordedLabHandshake], None]

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0
#: Between two checkpoints, and as a multiple of the time that the previous one took.
_CHECKPOINT_SECONDS: Final = 10.0
_CHECKPOINT_SHARE: Final = 20
#: Time for the daemons to end after a signal.
_ABORT_SECONDS: Final = 1.0
#: Timeout for the final delete: a peer that has already deleted the IKE SA does not respond.
_END_SECONDS: Final = 2.0
#: Drops IKE_SA_INIT responses whose first payload (octet 17 of the message) is SA, so that the initiator cannot
#: continue; responses with a COOKIE pass, because the responder needs the cookie for a half-open IKE SA.
_DROP_INIT_RESPONSES: Final = (
    "add table inet abandon\n"
    "add chain inet abandon in { type filter hook input priority 0; }\n"
    "add rule inet abandon in udp sport 500 @th,192,8 33 drop\n"
)


class WatchedProcess(Protocol):
    """A process that must run as long as its case."""

    @property
    def alive(self) -> bool:
        """Whether it is running."""


@dataclass(frozen=True, slots=True)
class CasePart:
    """The handshakes of a case that one run of its daemons records."""

    numbers: Iterable[int]  # of the handshakes, taken one at a time
    files: RecordingFiles
    at_once: int = 1  # parts of this or other cases that are recorded at the same time


class CaseInterrupted(KeyboardInterrupt):
    """Ctrl-C or a signal ended a case, and what it recorded is stored."""

    def __init__(self, manifest_path: Path) -> None:
        super().__init__()
        self.manifest = manifest_path


def run_case(
    case: ScenarioCase,
    out: Path,
    *,
    iterations: int | None = None,
    part: CasePart | None = None,
    on_handshake: ProgressCallback | None = None,
) -> Path:
    """Run a case and return the path of its manifest. Namespaces and processes are always removed.

    `out` exists and is locked by `exclusive_output_dir`. `iterations` overrides the scenario's, `part` both.

    Raises:
        LabError: a requirement is missing, does not start or ends early, or the results cannot be written. Earlier
            results are kept; the text has their path.
        CaseInterrupted: Ctrl-C, after the results of the complete handshakes have been stored. A second one raises
            KeyboardInterrupt, and what was not stored at a checkpoint is lost.
    """
    stacks, server = find_required_stacks(case)
    count = iterations or case.settings.iterations
    part = part or CasePart(range(1, count + 1), RecordingFiles(out, case.name))
    with NetnsSandbox() as sandbox:
        running = _start(sandbox, case, stacks, server)
        writer = RecordingWriter(case, part.files)
        handshakes: list[RecordedLabHandshake] = []
        failure: LabError | None = None
        interrupted: str | None = None
        described = _machine(stacks, server) | {"jobs": part.at_once}
        next_checkpoint = time.monotonic() + _CHECKPOINT_SECONDS
        try:
            for handshake in running.handshakes(part.numbers):
                handshakes.append(handshake)
                if on_handshake:
                    on_handshake(handshake.number, count, handshake)
                if time.monotonic() >= next_checkpoint:
                    cost = _save_checkpoint(running, writer, handshakes, described)
                    next_checkpoint = time.monotonic() + max(_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE * cost)
        except LabError as error:
            if not handshakes or not running.recording.alive:
                raise
            failure = error
        except KeyboardInterrupt as signalled:
            if not handshakes or not running.recording.alive:
                raise
            interrupted = f"interrupted by {signalled.args[0] if signalled.args else 'SIGINT'}"
        capture = running.abort() if interrupted else running.stop()
        recorded = manifest.CaseRecording(
            handshakes=handshakes,
            ended=str(failure) if failure else interrupted,
            machine=described,
            links={name: {"by": link.kind, "frames": link.stop()} for name, link in running.emulators.items()},
            capture=capture,
            dropped=running.recording.dropped,
            logs=running.logs,
            # the handshake that a signal interrupted; that of a failure is kept for its analysis
            cut=running.find_cut(len(handshakes)) if interrupted else None,
        )
        written = writer.finish(recorded)
        if failure:
            raise LabError(f"{failure}; partial results: {written}")
        if interrupted:
            raise CaseInterrupted(written)
        return written


def _save_checkpoint(
    running: "_RunningCase",
    writer: RecordingWriter,
    handshakes: Sequence[RecordedLabHandshake],
    described: Mapping[str, Any],
) -> float:
    """Store the handshakes whose frames are certainly in the capture's file; return the seconds that this took."""
    began = time.monotonic()
    count = running.count_settled(len(handshakes))
    if count:
        checkpoint = manifest.CaseRecording(
            handshakes=handshakes[:count],
            ended=None,
            machine=described,
            links={name: {"by": link.kind, "frames": {}} for name, link in running.emulators.items()},
            capture=running.recording.path,
            dropped=None,
            logs=running.logs,
            cut=running.cuts[count],
        )
        with block_signals():
            writer.save_checkpoint(checkpoint)
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class _RunningCase:
    """Hosts, links and daemons of a case, and its recording."""

    sandbox: NetnsSandbox
    case: ScenarioCase
    network: topology.LabNetwork
    emulators: Mapping[str, emulation.Emulator]  # by link
    peers: Mapping[str, IkeDaemon]  # by role
    daemons: Mapping[str, Daemon]  # by host
    recording: DumpcapRecording
    cuts: list[RecordingCut] = field(default_factory=list)  # after each number of handshakes, once the next one began

    @property
    def logs(self) -> dict[str, Path]:
        """The daemons' logs by host."""
        logs = {role: peer.log for role, peer in self.peers.items()}
        return logs | ({"aaa": self.daemons["aaa"].output} if "aaa" in self.daemons else {})

    def handshakes(self, numbers: Iterable[int]) -> Iterator[RecordedLabHandshake]:
        """Run handshakes, each after the links are idle."""
        for number in numbers:
            self.sandbox.check_room()
            self._wait_until_idle()
            self.cuts.append(RecordingCut(time.time(), {role: log.stat().st_size for role, log in self.logs.items()}))
            for _ in range(self.case.settings.abandoned):
                _abandon(self.peers, self.network.initiator, self.case.settings.link.max_delay_s)
            yield self._handshake(number)

    def stop(self) -> Path:
        """Stop the IKE daemons and record their last messages; return the capture."""
        settings = self.case.settings
        self.daemons["initiator"].stop()
        time.sleep(settings.link.max_delay_s)
        self._wait_until_idle()
        self.daemons["responder"].stop()
        self._wait_until_idle()
        self.sandbox.check_room(at_end=True)
        return self.recording.stop(max(settings.link.max_delay_s, settings.aaa_link.max_delay_s))

    def abort(self) -> Path:
        """Stop daemons and recording without waiting for messages in flight; return the capture."""
        for daemon in self.daemons.values():
            daemon.process.terminate()
        deadline = time.monotonic() + _ABORT_SECONDS
        for daemon in self.daemons.values():  # a daemon that waits for its peer does not end
            daemon.stop(max(deadline - time.monotonic(), 0.0))
        return self.recording.stop()

    def find_cut(self, count: int) -> RecordingCut | None:
        """Return where the recording of `count` handshakes ends; None: no further one has begun."""
        return self.cuts[count] if count < len(self.cuts) else None

    def count_settled(self, count: int) -> int:
        """Return how many of `count` handshakes are certainly in the capture's file and are followed by another one."""
        until = time.time() - CAPTURE_LAG_SECONDS
        return next((n for n in range(min(count, len(self.cuts) - 1), 0, -1) if self.cuts[n].at_s <= until), 0)

    def _wait_until_idle(self) -> None:
        emulation.wait_until_idle(self.emulators.values(), self.case.settings.timeout_s)

    def _handshake(self, number: int) -> RecordedLabHandshake:
        initiator = self.peers["initiator"]
        before = {role: daemon.get_usage() for role, daemon in self.daemons.items()}
        began = time.monotonic()
        attempt = initiator.initiate()
        ms = attempt.ms or (time.monotonic() - began) * 1e3
        time.sleep(_SETTLE_SECONDS)  # the responder and the AAA server may still be working
        self._check_alive(number)
        costs = {role: _cost(before[role], daemon.get_usage()) for role, daemon in self.daemons.items()}
        sas = initiator.list_ike_sas()
        youngest = sas[-1] if sas else DaemonIkeSa(None, None, established=False, children=())
        established = attempt.done or youngest.established
        actions_done = []
        for step in self.case.settings.then:
            result = CommandResult(False, "no IKE SA")
            if established:
                result = actions.run_step(step, initiator, self.network, self.case)
            actions_done.append(ActionResult(step, result.done, result.why))
        if initiator.list_ike_sas():
            initiator.terminate(_END_SECONDS + 2 * self.case.settings.link.max_delay_s)
        if initiator.list_ike_sas():
            initiator.terminate_all()
        self._check_alive(number)
        return RecordedLabHandshake(
            number=number,
            established=established,
            child=attempt.done,
            why=attempt.why,
            ms=ms,
            spi_i=youngest.spi_i,
            spi_r=youngest.spi_r,
            costs=costs,
            steps=actions_done,
        )

    def _check_alive(self, number: int) -> None:
        watched: dict[str, WatchedProcess] = {"the recording": self.recording}
        watched |= {f"the emulation of {name}": emulator for name, emulator in self.emulators.items()}
        watched |= {f"the daemon of the {role}": daemon for role, daemon in self.daemons.items()}
        for name, process in watched.items():
            if not process.alive:
                raise LabError(f"{name} ended by itself in handshake {number}")


def _start(
    sandbox: NetnsSandbox, case: ScenarioCase, stacks: Mapping[str, DaemonStack], server: DaemonStack | None
) -> _RunningCase:
    """Start everything that a case needs, the recording last."""
    network = topology.build_network(sandbox, case)
    emulators = _links(sandbox, case, network)
    credentials = peer_config.make_credentials(case)
    daemons: dict[str, Daemon] = {}
    if server and network.aaa and credentials.account and network.aaa_address and network.client_address:
        chain, client_chain = credentials.chains.get("aaa"), credentials.chains.get("initiator")
        daemons["aaa"] = freeradius.start_freeradius(
            sandbox,
            network.aaa,
            server,
            credentials.account,
            address=network.aaa_address,
            client=network.client_address,
            certificates=(chain, client_chain.root) if chain and client_chain else None,
        )
    peers: dict[str, IkeDaemon] = {}
    for host in (network.responder, network.initiator):
        stack = stacks[host.name]
        if stack.name == machine.LIBRESWAN:
            peers[host.name] = libreswan.start_libreswan(sandbox, host, stack, case, network, credentials)
        else:
            side = peer_config.build_side_config(host.name, case, network, credentials)
            kernel_esp, timeout_s = machine.has_kernel_esp(), case.settings.timeout_s
            peers[host.name] = strongswan.start_strongswan(
                sandbox, host, stack, side, kernel_esp=kernel_esp, timeout=timeout_s
            )
        daemons[host.name] = peers[host.name].daemon
    interfaces = [topology.LINK, topology.AAA_LINK] if case.eap else [topology.LINK]
    dumpcap = recording.start_recording(sandbox, network.responder, interfaces)
    return _RunningCase(sandbox, case, network, emulators, peers, daemons, dumpcap)


def find_required_stacks(case: ScenarioCase) -> tuple[Mapping[str, DaemonStack], DaemonStack | None]:
    """Return the stack of each side, and the AAA server if the case has one.

    Raises:
        LabError: a stack is not available.
    """
    stacks = {role: _stack(role, case) for role in ("responder", "initiator")}
    server = machine.find_freeradius() if case.eap else None
    if case.eap and server is None:
        raise LabError("FreeRADIUS is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")
    return stacks, server


def _stack(role: str, case: ScenarioCase) -> DaemonStack:
    ml_kem = "mlkem" in case.proposals(role) + case.settings.ike.esp_proposals
    return machine.find_stack(case.side(role).stack, ml_kem=ml_kem, ikev1=case.settings.ike.version == 1)


def _links(sandbox: NetnsSandbox, case: ScenarioCase, network: topology.LabNetwork) -> dict[str, emulation.Emulator]:
    drops, netem = machine.has_ingress_drop(), machine.has_netem()
    links = [("link", network.path, network.initiator, topology.LINK)]
    if network.aaa and network.aaa_path:
        links.append(("aaa_link", network.aaa_path, network.aaa, topology.AAA_LINK))
    emulators = {}
    for name, path, host, responder_interface in links:
        conditions = case.link(name)
        emulators[name] = emulation.start_emulator(sandbox, path, conditions, netem=netem, drops_at_receiver=drops)
        if drops:
            emulation.drop_frames_at_receiver(host, topology.ETHERNET, conditions)
            emulation.drop_frames_at_receiver(network.responder, responder_interface, conditions)
    return emulators


@contextmanager
def _drop_init_responses(host: Netns) -> Iterator[None]:
    """Drop IKE_SA_INIT responses to a host, except those that request a COOKIE."""
    host.run("nft", "-f", "-", stdin=_DROP_INIT_RESPONSES)
    try:
        yield
    finally:
        host.run("nft", "delete", "table", "inet", "abandon")


def _abandon(peers: Mapping[str, IkeDaemon], initiator: Netns, max_delay_s: float) -> None:
    """Leave the responder with a half-open IKE SA, which the initiator forgets."""
    before = len(peers["responder"].list_ike_sas())
    # one way, or three with a COOKIE
    deadline = time.monotonic() + _ABANDON_SECONDS + 3 * max_delay_s
    with _drop_init_responses(initiator):
        peers["initiator"].initiate_async()
        while len(peers["responder"].list_ike_sas()) <= before and time.monotonic() < deadline:
            time.sleep(0.005)
        peers["initiator"].terminate_all()


def _cost(before: ResourceUsage, after: ResourceUsage) -> ResourceCost:
    run_ms = None
    if before.run_ns is not None and after.run_ns is not None:
        run_ms = (after.run_ns - before.run_ns) / 1e6
    user_ms, system_ms = (after.user_s - before.user_s) * 1e3, (after.system_s - before.system_s) * 1e3
    return ResourceCost(round(user_ms, 3), round(system_ms, 3), run_ms, before.rss_bytes, after.rss_bytes)


def _machine(stacks: Mapping[str, DaemonStack], server: DaemonStack | None) -> dict[str, Any]:
    own_version = "unknown"
    with suppress(PackageNotFoundError):
        own_version = version("ikeanalyze")
    return {
        "date": machine.get_date(),
        **{role: str(stacks[role]) for role in ("initiator", "responder")},
        "aaa": str(server) if server else None,
        "kernel": platform.release(),
        "esp": "kernel" if machine.has_kernel_esp() else "user space",
        "ikeanalyze": own_version,
    }


@contextmanager
def exclusive_output_dir(out: Path) -> Iterator[None]:
    """Create and lock the output directory, so that runs do not mix their results.

    Raises:
        LabError: it cannot be created or written, or another run uses it.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        claim = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LabError(f"{out}: {error.strerror}") from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise LabError(f"{out}: another run of the lab writes there; choose another folder, or wait") from None
    try:
        yield
    finally:
        os.close(claim)
