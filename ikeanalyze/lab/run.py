"""Runs a case of a scenario, from its namespaces to its manifest."""

import fcntl
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

from ikeanalyze.lab import LabError, actions, machine, manifest, recording
from ikeanalyze.lab.daemons import freeradius, peer_config, registry
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa, IkeDaemon, ResourceUsage
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.stack import SideSetup
from ikeanalyze.lab.manifest import ActionResult, RecordedLabHandshake, ResourceCost
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.losses import ReceiverLosses
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.recording import LabRecordings
from ikeanalyze.lab.scenario import MAX_SEED, ScenarioCase

#: Called after each handshake with its number, the number of handshakes, and its result.
ProgressCallback = Callable[[int, int, RecordedLabHandshake], None]

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0
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


def run_case(
    case: ScenarioCase,
    out: Path,
    *,
    iterations: int | None = None,
    on_handshake: ProgressCallback | None = None,
    log_keys: bool = True,
) -> Path:
    """Run a case and return the path of its manifest. Namespaces and processes are always removed.

    `log_keys`: the daemons log keys, which costs them processor time; otherwise there is no key file.

    `out` exists and is locked by `exclusive_output_dir`.

    Raises:
        LabError: a requirement is missing, does not start or ends early, or the results cannot be written. Earlier
            results are kept; the text has their path.
    """
    stacks, server = find_required_stacks(case)
    count = iterations or case.settings.iterations
    with NetnsSandbox() as sandbox:
        running = _start(sandbox, case, stacks, server, log_keys=log_keys)
        handshakes: list[RecordedLabHandshake] = []
        ended: LabError | None = None
        try:
            for handshake in running.handshakes(count):
                handshakes.append(handshake)
                if on_handshake:
                    on_handshake(handshake.number, count, handshake)
        except LabError as error:
            if not handshakes or not running.recording.alive:
                raise
            ended = error
        captures = running.stop()
        recorded = manifest.CaseRecording(
            handshakes=handshakes,
            ended=str(ended) if ended else None,
            machine=_machine(stacks, server),
            links={
                name: {"by": link.kind, "frames": link.stop(), "seed": running.seeds.get(name)}
                for name, link in running.emulators.items()
            },
            captures=captures,
            dropped=running.recording.dropped,
            logs=running.logs,
        )
        written = manifest.write_recording(out, case, recorded)
        if ended:
            raise LabError(f"{ended}; partial results: {written}")
        return written


@dataclass(frozen=True, slots=True)
class _RunningCase:
    """Hosts, links and daemons of a case, and its recording."""

    sandbox: NetnsSandbox
    case: ScenarioCase
    network: topology.LabNetwork
    emulators: Mapping[str, emulation.Emulator]  # by link
    seeds: Mapping[str, int]  # of the losses, by link
    losses: Sequence[ReceiverLosses]
    peers: Mapping[str, IkeDaemon]  # by role
    daemons: Mapping[str, Daemon]  # by host
    recording: LabRecordings

    @property
    def logs(self) -> dict[str, Path]:
        """The daemons' logs by host."""
        logs = {role: peer.log for role, peer in self.peers.items()}
        return logs | ({"aaa": self.daemons["aaa"].output} if "aaa" in self.daemons else {})

    def handshakes(self, count: int) -> Iterator[RecordedLabHandshake]:
        """Run handshakes, each after the links are idle."""
        for number in range(1, count + 1):
            self.sandbox.check_room()
            self._wait_until_idle()
            for losses in self.losses:
                losses.start(number)
            for _ in range(self.case.settings.abandoned):
                _abandon(self.peers, self.network.initiator, self.case.settings.link.max_delay_s)
            yield self._handshake(number)

    def stop(self) -> Mapping[str, Path]:
        """Stop the IKE daemons and record their last messages; return the captures by host."""
        settings = self.case.settings
        self.daemons["initiator"].stop()
        time.sleep(settings.link.max_delay_s)
        self._wait_until_idle()
        self.daemons["responder"].stop()
        self._wait_until_idle()
        self.sandbox.check_room(at_end=True)
        return self.recording.stop(max(settings.link.max_delay_s, settings.aaa_link.max_delay_s))

    def _wait_until_idle(self) -> None:
        emulation.wait_until_idle(self.emulators.values(), self.case.settings.timeout_s)

    def _handshake(self, number: int) -> RecordedLabHandshake:
        initiator = self.peers["initiator"]
        before = {role: daemon.get_usage() for role, daemon in self.daemons.items()}
        began = time.monotonic()
        attempt = actions.start_handshake(initiator, self.network, self.case)
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
            actions_done.append(ActionResult(step, result.done, result.why, result.counts))
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
    sandbox: NetnsSandbox,
    case: ScenarioCase,
    stacks: Mapping[str, DaemonStack],
    server: DaemonStack | None,
    *,
    log_keys: bool,
) -> _RunningCase:
    """Start everything that a case needs, the recording last."""
    network = topology.build_network(sandbox, case)
    emulators, seeds, losses = _links(sandbox, case, network)
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
        setup = SideSetup(
            sandbox=sandbox,
            host=host,
            installed=stacks[host.name],
            case=case,
            network=network,
            credentials=credentials,
            peer=registry.get_stack(case.stack(peer_config.OTHER[host.name])),
            kernel_esp=machine.has_kernel_esp(),
            log_keys=log_keys,
        )
        peers[host.name] = registry.get_stack(case.stack(host.name)).start(setup)
        daemons[host.name] = peers[host.name].daemon
    points = {
        "initiator": (network.initiator, [topology.LINK]),
        "responder": (network.responder, [topology.LINK, topology.AAA_LINK] if case.eap else [topology.LINK]),
    }
    recordings = [recording.start_recording(sandbox, *points[point]) for point in case.capture_points]
    return _RunningCase(sandbox, case, network, emulators, seeds, losses, peers, daemons, LabRecordings(recordings))


def find_required_stacks(case: ScenarioCase) -> tuple[Mapping[str, DaemonStack], DaemonStack | None]:
    """Return the stack of each side, and the AAA server if the case has one.

    Raises:
        LabError: a stack is not available, or does not support the case.
    """
    registry.check_stacks(case)
    stacks = {role: registry.find_installed(role, case) for role in ("responder", "initiator")}
    server = machine.find_freeradius() if case.eap else None
    if case.eap and server is None:
        raise LabError("FreeRADIUS is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")
    return stacks, server


def _links(
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
        if drops and (conditions.loses_frames or conditions.drop_ip_fragments):
            key = f"{seeds.get(name)} {name}"
            losses += [ReceiverLosses(*far, conditions, "up", key), ReceiverLosses(*near, conditions, "down", key)]
    for each in losses:
        each.start(0)  # for what is sent before the first handshake
    return emulators, seeds, losses


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
