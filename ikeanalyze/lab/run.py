"""Runs a case of a scenario, from its namespaces to its manifest."""

import fcntl
import itertools
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

from ikeanalyze.lab import LabError, actions, host_info, machine, manifest, recording
from ikeanalyze.lab.daemons import freeradius, peer_config, registry
from ikeanalyze.lab.daemons.aka.hostapd import start_hostapd
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa, IkeDaemon, LoadInitiator, ResourceUsage
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.place import DaemonPlace, NetnsPlace, SshPlace
from ikeanalyze.lab.daemons.stack import SideSetup
from ikeanalyze.lab.manifest import (
    ActionResult,
    RecordedLabHandshake,
    RecordingCut,
    RecordingFiles,
    RecordingWriter,
    ResourceCost,
)
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.losses import ReceiverLosses
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, block_signals
from ikeanalyze.lab.network.ssh import SshLink, SshNetwork
from ikeanalyze.lab.recording import CAPTURE_LAG_SECONDS, DumpcapRecording, LabRecordings
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.links import DIRECTIONS, MAX_SEED, Direction
from ikeanalyze.lab.scenario.settings import AKA

#: Called after each handshake with its number, the number of handshakes, and its result.
ProgressCallback = Callable[[int, int, RecordedLabHandshake], None]

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0
#: Between two checkpoints, and as a multiple of the time that the previous one took.
_CHECKPOINT_SECONDS: Final = 10.0
_CHECKPOINT_SHARE: Final = 20
#: Time for the daemons to end after a signal.
_ABORT_SECONDS: Final = 1.0
#: Limit for the attempts of a handshake, and what a failure looks like that is not for lack of an answer.
_MAX_ATTEMPTS: Final = 100
_PEER_ERROR: Final = re.compile(r"[A-Z][A-Z0-9_]+")
#: Timeout for the final delete: a peer that has already deleted the IKE SA does not respond.
_END_SECONDS: Final = 2.0
#: What a manifest has of the machine on which the daemons run.
_OF_THE_DAEMONS_MACHINE: Final = ("processor", "architecture", "cores", "usable_cores", "governor", "kernel", "esp")
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
    interleaved: bool = False  # whether its handshakes take turns with those of other cases


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
        hosts = _connect_machines(sandbox, case) if case.uses_ssh else _build_namespaces(sandbox, case, stacks)
        running = _start(sandbox, case, hosts, server)
        writer = RecordingWriter(case, part.files)
        rounds: list[Sequence[RecordedLabHandshake]] = []
        failure: LabError | None = None
        interrupted: str | None = None
        described = hosts.describe(server) | {"jobs": part.at_once, "interleaved": part.interleaved}
        try:
            for handshake in _record_handshakes(running, writer, part.numbers, described, rounds):
                if on_handshake:
                    on_handshake(handshake.number, count, handshake)
        except LabError as error:
            if not running.recording.alive and writer.has_checkpoint:
                kept = f"results until the latest checkpoint: {part.files.manifest}; --resume continues from there"
                raise LabError(f"{error}; {kept}") from error
            if not rounds or not running.recording.alive:
                raise
            failure = error
        except KeyboardInterrupt as signalled:
            if not rounds or not running.recording.alive:
                raise
            interrupted = f"interrupted by {signalled.args[0] if signalled.args else 'SIGINT'}"
        captures = running.abort() if interrupted else running.stop()
        recorded = replace(
            _describe_recording(running, rounds, described, captures),
            ended=str(failure) if failure else interrupted,
            # the handshake that a signal interrupted; that of a failure is kept for its analysis
            cut=running.find_cut(len(rounds)) if interrupted else None,
            unfinished=running.find_cut(len(rounds)) if failure else None,
        )
        if interrupted:  # at once, because keys and messages of large logs take seconds
            at_end = RecordingCut(time.time(), dict.fromkeys(running.logs))
            writer.save_checkpoint(replace(recorded, cut=recorded.cut or at_end))
        written = writer.finish(recorded)
        if failure:
            raise LabError(f"{failure}; partial results: {written}")
        if interrupted:
            raise CaseInterrupted(written)
        return written


def _record_handshakes(
    running: "_RunningCase",
    writer: RecordingWriter,
    numbers: Iterable[int],
    described: Mapping[str, Any],
    rounds: list[Sequence[RecordedLabHandshake]],
) -> Iterator[RecordedLabHandshake]:
    """Run the handshakes of each number, add them to `rounds`, and store them at checkpoints."""
    next_checkpoint = time.monotonic() + _CHECKPOINT_SECONDS
    for handshakes in running.run_rounds(numbers):
        rounds.append(handshakes)
        yield from handshakes
        if time.monotonic() >= next_checkpoint:
            cost = _save_checkpoint(running, writer, rounds, described)
            next_checkpoint = time.monotonic() + max(_CHECKPOINT_SECONDS, _CHECKPOINT_SHARE * cost)


def _describe_recording(
    running: "_RunningCase",
    rounds: Sequence[Sequence[RecordedLabHandshake]],
    described: Mapping[str, Any],
    captures: Mapping[str, Path],
) -> manifest.CaseRecording:
    """Stop the links, and return what is recorded of all rounds."""
    return manifest.CaseRecording(
        handshakes=list(itertools.chain.from_iterable(rounds)),
        ended=None,
        machine={**described, "ended": host_info.format_time(), "load_after": host_info.get_load()},
        links={
            name: {
                "by": link.kind,
                "frames": link.stop(),
                "receivers": running.count_received(name),
                "seed": running.seeds.get(name),
            }
            for name, link in running.emulators.items()
        },
        captures=captures,
        dropped=running.recording.dropped,
        logs=running.logs,
        cut=None,
    )


def _save_checkpoint(
    running: "_RunningCase",
    writer: RecordingWriter,
    rounds: Sequence[Sequence[RecordedLabHandshake]],
    described: Mapping[str, Any],
) -> float:
    """Store the handshakes whose frames are certainly in the capture's file; return the seconds that this took."""
    began = time.monotonic()
    count = running.count_settled(len(rounds))
    if count:
        checkpoint = manifest.CaseRecording(
            handshakes=list(itertools.chain.from_iterable(rounds[:count])),
            ended=None,
            machine=described,
            links={
                name: {"by": link.kind, "frames": {}, "receivers": None, "seed": running.seeds.get(name)}
                for name, link in running.emulators.items()
            },
            captures=running.recording.paths,
            dropped=None,
            logs=running.logs,
            cut=running.cuts[count],
        )
        with block_signals():
            writer.save_checkpoint(checkpoint)
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class _CaseHosts:
    """The hosts of a case and their links."""

    places: Mapping[str, DaemonPlace]  # by role, the responder first
    stacks: Mapping[str, DaemonStack]  # by role
    addresses: topology.CaseAddresses
    recorders: Mapping[str, Callable[[], DumpcapRecording]]  # by role, start to record
    emulators: Mapping[str, emulation.Emulator]  # by link
    kernel_esp: Mapping[str, bool]  # by role, whether the kernel has ESP
    seeds: Mapping[str, int] = field(default_factory=dict)  # of the losses, by link
    losses: Sequence[ReceiverLosses] = ()
    network: topology.LabNetwork | None = None  # None: machines over SSH
    machines: Mapping[str, Mapping[str, Any]] | None = None  # those machines, by role

    def describe(self, server: DaemonStack | None) -> dict[str, Any]:
        """Return the machine or machines for the manifest."""
        described = _describe_machine(self.stacks, server)
        if self.machines is None:
            return described
        # this machine only directs the others
        unknown = dict.fromkeys((*_OF_THE_DAEMONS_MACHINE, "openssl", "packages"))
        return described | unknown | {"machines": dict(self.machines)}


@dataclass(frozen=True, slots=True)
class _RunningCase:
    """Hosts, links and daemons of a case, and its recording."""

    sandbox: NetnsSandbox
    case: ScenarioCase
    network: topology.LabNetwork | None  # None: machines over SSH
    emulators: Mapping[str, emulation.Emulator]  # by link
    seeds: Mapping[str, int]  # of the losses, by link
    losses: Sequence[ReceiverLosses]
    peers: Mapping[str, IkeDaemon]  # by role
    daemons: Mapping[str, Daemon]  # by host
    recording: LabRecordings
    cuts: list[RecordingCut] = field(default_factory=list)  # after each number of rounds, once the next one began

    @property
    def logs(self) -> dict[str, Path]:
        """The daemons' logs by host."""
        logs = {role: peer.log for role, peer in self.peers.items()}
        return logs | ({"aaa": self.daemons["aaa"].output} if "aaa" in self.daemons else {})

    def run_rounds(self, numbers: Iterable[int]) -> Iterator[Sequence[RecordedLabHandshake]]:
        """Run the handshakes of each number, after the links are idle."""
        warm_ups = ((number, True) for number in range(1, self.case.settings.warm_up + 1))
        for number, warm_up in itertools.chain(warm_ups, ((number, False) for number in numbers)):
            self.sandbox.check_room()
            self._wait_until_idle()
            self._fetch_logs()
            self.cuts.append(RecordingCut(time.time(), {role: self._get_log_size(role) for role in self.logs}))
            for losses in self.losses:
                losses.start(-number if warm_up else number)
            if self.network:
                for _ in range(self.case.settings.abandoned):
                    _abandon_handshake(self.peers, self.network.initiator, self.case.settings.link.max_delay_s)
            if self.case.settings.initiators > 1:
                yield self._run_concurrent_handshakes(number, warm_up=warm_up)
            else:
                yield [self._run_handshake(number, warm_up=warm_up)]

    def _fetch_logs(self) -> None:
        for peer in self.peers.values():
            peer.daemon.fetch_log()

    def _get_log_size(self, role: str) -> int | None:
        """Return the bytes that a daemon has logged; None: they may still be in its buffer."""
        if role in self.peers and not self.case.logs_keys:
            return None
        return self.logs[role].stat().st_size

    def stop(self) -> Mapping[str, Path]:
        """Stop the IKE daemons and record their last messages; return the captures by host."""
        settings = self.case.settings
        self.daemons["initiator"].stop()
        time.sleep(settings.link.max_delay_s)
        self._wait_until_idle()
        self.daemons["responder"].stop()
        self._wait_until_idle()
        self._fetch_logs()
        self.sandbox.check_room(at_end=True)
        return self.recording.stop(max(settings.link.max_delay_s, settings.aaa_link.max_delay_s))

    def abort(self) -> Mapping[str, Path]:
        """Stop daemons and recording without waiting for messages in flight; return the captures by host."""
        for daemon in self.daemons.values():
            daemon.request_stop()
        deadline = time.monotonic() + _ABORT_SECONDS
        for daemon in self.daemons.values():  # a daemon that waits for its peer does not end
            daemon.stop(max(deadline - time.monotonic(), 0.0))
        self._fetch_logs()
        return self.recording.stop()

    def find_cut(self, count: int) -> RecordingCut | None:
        """Return where the recording of `count` rounds ends; None: no further one has begun."""
        return self.cuts[count] if count < len(self.cuts) else None

    def count_settled(self, count: int) -> int:
        """Return how many of `count` rounds are certainly in the capture's file and are followed by another one."""
        until = time.time() - CAPTURE_LAG_SECONDS
        return next((n for n in range(min(count, len(self.cuts) - 1), 0, -1) if self.cuts[n].at_s <= until), 0)

    def count_received(self, link: str) -> dict[str, dict[str, int]] | None:
        """Return the frames that arrived and were lost at the receivers of a link; None: none are lost there."""
        try:
            return {
                losses.direction: asdict(losses.count_frames()) for losses in self.losses if losses.link == link
            } or None
        except LabError:  # the recording is worth more
            return None

    def _wait_until_idle(self) -> None:
        emulation.wait_until_idle(self.emulators.values(), self.case.settings.timeout_s)

    def _run_handshake(self, number: int, *, warm_up: bool) -> RecordedLabHandshake:
        initiator = self.peers["initiator"]
        kept = {sa.name for sa in initiator.list_ike_sas()} if self.case.settings.keep else set()
        before = {role: daemon.get_usage() for role, daemon in self.daemons.items() if daemon.does_the_work}
        began = time.monotonic()
        attempt, attempts = self._start_handshake(initiator, kept)
        ms = attempt.ms if attempt.ms and attempts == 1 else (time.monotonic() - began) * 1e3
        time.sleep(_SETTLE_SECONDS)  # the responder and the AAA server may still be working
        self._check_alive(number)
        costs = {role: _compute_cost(usage, self.daemons[role].get_usage()) for role, usage in before.items()}
        youngest = _find_youngest(initiator, kept)
        established = attempt.done or youngest.established
        actions_done = []
        for step in self.case.settings.then:
            result = CommandResult(False, "no IKE SA")
            if established:
                result = actions.run_step(step, initiator, self.network, self.case)
            actions_done.append(ActionResult(step, result.done, result.why, result.counts))
        if not self.case.settings.keep:
            self._delete_ike_sas(initiator)
        self._check_alive(number)
        return RecordedLabHandshake(
            number=number,
            warm_up=warm_up,
            established=established,
            child=attempt.done,
            why=attempt.why,
            ms=ms,
            spi_i=youngest.spi_i,
            spi_r=youngest.spi_r,
            costs=costs,
            steps=actions_done,
            attempts=attempts,
        )

    def _run_concurrent_handshakes(self, number: int, *, warm_up: bool) -> list[RecordedLabHandshake]:
        """Run `initiators` handshakes at the same time; the costs are equal shares."""
        initiator, count = self.peers["initiator"], self.case.settings.initiators
        if not isinstance(initiator, LoadInitiator):
            raise LabError("initiators needs initiator.stack = strongswan")
        kept = {sa.name for sa in initiator.list_ike_sas()}
        before = {role: daemon.get_usage() for role, daemon in self.daemons.items()}
        began = time.monotonic()
        successes = initiator.initiate_many(count)
        waited_ms = (time.monotonic() - began) * 1e3
        time.sleep(_SETTLE_SECONDS)
        self._check_alive(number)
        costs = {role: _compute_cost(before[role], daemon.get_usage(), count) for role, daemon in self.daemons.items()}
        spis = {(success.spi_i, success.spi_r) for success in successes}
        childless = [
            sa
            for sa in initiator.list_ike_sas()
            if sa.established and sa.name not in kept and (sa.spi_i, sa.spi_r) not in spis
        ]
        record = partial(RecordedLabHandshake, number, costs=costs, steps=[], warm_up=warm_up)
        results = [
            record(established=True, child=True, why=None, ms=success.ms, spi_i=success.spi_i, spi_r=success.spi_r)
            for success in successes
        ]
        results += [
            record(established=True, child=False, why="no CHILD_SA", ms=waited_ms, spi_i=sa.spi_i, spi_r=sa.spi_r)
            for sa in childless
        ]
        unknown = record(established=False, child=False, why="not established", ms=waited_ms, spi_i=None, spi_r=None)
        results += [unknown] * (count - len(results))
        if not self.case.settings.keep:
            self._delete_ike_sas(initiator)
        self._check_alive(number)
        return results

    def _start_handshake(self, initiator: IkeDaemon, kept: Set[str]) -> tuple[CommandResult, int]:
        """Set up an IKE SA; return the result and the number of attempts."""
        retries = _MAX_ATTEMPTS - 1 if self.case.settings.retry == "until-established" else 0
        for attempts in itertools.count(1):
            attempt = actions.start_handshake(initiator, self.network, self.case)
            refused = _PEER_ERROR.fullmatch(attempt.why or "")  # it would be refused again
            if attempt.done or refused or attempts > retries or _find_youngest(initiator, kept).established:
                break
            initiator.terminate_all()
        return attempt, attempts

    def _delete_ike_sas(self, initiator: IkeDaemon) -> None:
        if initiator.list_ike_sas():
            initiator.terminate(_END_SECONDS + 2 * self.case.settings.link.max_delay_s)
        if initiator.list_ike_sas():
            initiator.terminate_all()

    def _check_alive(self, number: int) -> None:
        watched: dict[str, WatchedProcess] = {"the recording": self.recording}
        watched |= {f"the emulation of {name}": emulator for name, emulator in self.emulators.items()}
        watched |= {f"the daemon of the {role}": daemon for role, daemon in self.daemons.items()}
        for name, process in watched.items():
            if not process.alive:
                raise LabError(f"{name} ended by itself in handshake {number}")


def _build_namespaces(sandbox: NetnsSandbox, case: ScenarioCase, stacks: Mapping[str, DaemonStack]) -> _CaseHosts:
    """Create namespaces and emulated links."""
    network = topology.build_network(sandbox, case)
    emulators, seeds, losses = _start_links(sandbox, case, network)
    links = {
        "initiator": [topology.LINK],
        "responder": [topology.LINK, topology.AAA_LINK] if case.eap else [topology.LINK],
    }
    hosts = {"responder": network.responder, "initiator": network.initiator}
    return _CaseHosts(
        places={role: NetnsPlace(sandbox, host) for role, host in hosts.items()},
        stacks=stacks,
        addresses=network,
        recorders={
            role: partial(recording.start_recording, sandbox, host, links[role]) for role, host in hosts.items()
        },
        emulators=emulators,
        kernel_esp=dict.fromkeys(hosts, machine.has_kernel_esp()),
        seeds=seeds,
        losses=losses,
        network=network,
    )


def _connect_machines(sandbox: NetnsSandbox, case: ScenarioCase) -> _CaseHosts:
    """Connect to the machines of a case over SSH."""
    network = SshNetwork.connect(sandbox, case)
    hosts = {role: network.hosts[role] for role in ("responder", "initiator")}
    places = {role: SshPlace(host) for role, host in hosts.items()}
    peers = {"initiator": network.responder_address, "responder": network.initiator_address}
    return _CaseHosts(
        places=places,
        stacks={role: registry.find_installed_at(place, case) for role, place in places.items()},
        addresses=network,
        recorders={
            role: partial(recording.start_recording, sandbox, host, [host.interface], peer=peers[role])
            for role, host in hosts.items()
        },
        emulators={"link": SshLink(network)},
        kernel_esp={role: host.kernel_esp for role, host in hosts.items()},
        machines={role: host.description for role, host in hosts.items()},
    )


def _start(sandbox: NetnsSandbox, case: ScenarioCase, hosts: _CaseHosts, server: DaemonStack | None) -> _RunningCase:
    """Start the daemons of a case and its recording, which is the last."""
    network = hosts.network
    credentials = peer_config.make_credentials(case)
    daemons: dict[str, Daemon] = {}
    account, subscriber = credentials.account, credentials.subscriber
    if server and network and network.aaa and account and subscriber and network.client_address:
        client = network.client_address
        daemons["aaa"] = start_hostapd(sandbox, network.aaa, server, subscriber, client=client, secret=account.secret)
    elif server and network and network.aaa and account and network.aaa_address and network.client_address:
        chain, client_chain = credentials.chains.get("aaa"), credentials.chains.get("initiator")
        daemons["aaa"] = freeradius.start_freeradius(
            sandbox,
            network.aaa,
            server,
            account,
            address=network.aaa_address,
            client=network.client_address,
            certificates=(chain, client_chain.root) if chain and client_chain else None,
        )
    peers: dict[str, IkeDaemon] = {}
    for role, place in hosts.places.items():
        setup = SideSetup(
            sandbox=sandbox,
            place=place,
            installed=hosts.stacks[role],
            case=case,
            network=hosts.addresses,
            credentials=credentials,
            peer=registry.get_stack(case.stack(peer_config.OTHER[role])),
            kernel_esp=hosts.kernel_esp[role],
            log_keys=case.logs_keys,
        )
        peers[role] = registry.get_stack(case.stack(role)).start(setup)
        daemons[role] = peers[role].daemon
    recordings = LabRecordings([hosts.recorders[point]() for point in case.capture_points])
    return _RunningCase(sandbox, case, network, hosts.emulators, hosts.seeds, hosts.losses, peers, daemons, recordings)


def find_required_stacks(case: ScenarioCase) -> tuple[Mapping[str, DaemonStack], DaemonStack | None]:
    """Return the stack of each side, and the AAA server if the case has one. Sides over SSH are not checked.

    Raises:
        LabError: a stack is not available, or does not support the case.
    """
    registry.check_stacks(case)
    if case.uses_ssh:
        return {}, None
    stacks = {role: registry.find_installed(role, case) for role in ("responder", "initiator")}
    return stacks, _find_aaa_server(case) if case.eap else None


def check_case(case: ScenarioCase) -> None:
    """Check that this machine has what a case needs. Sides over SSH are not checked.

    Raises:
        LabError: something is missing, or a stack does not support the case.
    """
    find_required_stacks(case)
    if not case.uses_ssh:
        for name in case.link_names:
            emulation.check_losses(case.link(name), drops_at_receiver=machine.has_ingress_drop())


def _find_aaa_server(case: ScenarioCase) -> DaemonStack:
    is_aka = case.settings.initiator.auth == AKA
    server = machine.find_hostapd() if is_aka else machine.find_freeradius()
    if server is None:
        name = machine.HOSTAPD if is_aka else machine.FREERADIUS
        raise LabError(f"{name} is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")
    return server


def _start_links(
    sandbox: NetnsSandbox, case: ScenarioCase, network: topology.LabNetwork
) -> tuple[dict[str, emulation.Emulator], dict[str, int], list[ReceiverLosses]]:
    """Connect the links; return their emulators, the seeds of their losses, and the losses at their receivers."""
    drops, netem = machine.has_ingress_drop(), machine.has_netem()
    near, far = (network.initiator, topology.LINK), (network.responder, topology.LINK)
    links = [("link", network.path, near, far)]
    if network.aaa and network.aaa_path:
        near, far = (network.responder, topology.AAA_LINK), (network.aaa, topology.ETHERNET)
        links.append(("aaa_link", network.aaa_path, near, far))
    emulators, seeds, losses = {}, {}, []
    for name, path, near, far in links:
        conditions = case.link(name)
        emulators[name] = emulation.start_emulator(sandbox, path, conditions, netem=netem, drops_at_receiver=drops)
        if drops and conditions.loses_frames:
            seeds[name] = conditions.seed or secrets.randbelow(MAX_SEED) + 1
        if drops and (conditions.loses_frames or any(map(conditions.drops_frames, DIRECTIONS))):
            key = f"{seeds.get(name)} {name}"
            ends: tuple[tuple[tuple[Netns, str], Direction], ...] = ((far, "up"), (near, "down"))
            losses += [ReceiverLosses(*end, conditions, direction, key, name) for end, direction in ends]
    for each in losses:
        each.start(0)  # for what is sent before the first handshake
    return emulators, seeds, losses


def _find_youngest(initiator: IkeDaemon, kept: Set[str]) -> DaemonIkeSa:
    """Return the newest IKE SA that is not one of the kept ones; one without SPIs if there is none."""
    sas = [sa for sa in initiator.list_ike_sas() if sa.name not in kept]
    return sas[-1] if sas else DaemonIkeSa(None, None, established=False, children=())


@contextmanager
def _drop_init_responses(host: Netns) -> Iterator[None]:
    """Drop IKE_SA_INIT responses to a host, except those that request a COOKIE."""
    host.run("nft", "-f", "-", stdin=_DROP_INIT_RESPONSES)
    try:
        yield
    finally:
        host.run("nft", "delete", "table", "inet", "abandon")


def _abandon_handshake(peers: Mapping[str, IkeDaemon], initiator: Netns, max_delay_s: float) -> None:
    """Leave the responder with a half-open IKE SA, which the initiator forgets."""
    before = len(peers["responder"].list_ike_sas())
    # one way, or three with a COOKIE
    deadline = time.monotonic() + _ABANDON_SECONDS + 3 * max_delay_s
    with _drop_init_responses(initiator):
        peers["initiator"].initiate_async()
        while len(peers["responder"].list_ike_sas()) <= before and time.monotonic() < deadline:
            time.sleep(0.005)
        peers["initiator"].terminate_all()


def _compute_cost(before: ResourceUsage, after: ResourceUsage, handshakes: int = 1) -> ResourceCost:
    """Return what one of some handshakes took."""
    run_ms = None
    if before.run_ns is not None and after.run_ns is not None:
        run_ms = (after.run_ns - before.run_ns) / 1e6 / handshakes
    user_ms = (after.user_s - before.user_s) * 1e3 / handshakes
    system_ms = (after.system_s - before.system_s) * 1e3 / handshakes
    return ResourceCost(round(user_ms, 3), round(system_ms, 3), run_ms, before.rss_bytes, after.rss_bytes)


def _describe_machine(stacks: Mapping[str, DaemonStack], server: DaemonStack | None) -> dict[str, Any]:
    own_version = "unknown"
    with suppress(PackageNotFoundError):
        own_version = version("ikeanalyze")
    return {
        "date": machine.get_date(),
        **{role: str(stacks[role]) for role in ("initiator", "responder")},
        "aaa": str(server) if server else None,
        **host_info.describe_host({**stacks, "aaa": server} if server else stacks),
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
    except FileExistsError:
        raise LabError(f"{out}: is a file. Name a folder with -o") from None
    except OSError as error:
        raise LabError(f"{out}: cannot be written to ({error.strerror}). Name another folder with -o") from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(claim)
        raise LabError(f"{out}: another run of the lab writes there; choose another folder, or wait") from None
    try:
        yield
    finally:
        os.close(claim)
