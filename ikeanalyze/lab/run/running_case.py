"""Runs the daemons of a case and its recording, and the handshakes between the daemons."""

import itertools
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from ikeanalyze.lab import LabError, actions
from ikeanalyze.lab.daemons import freeradius, peer_config, registry
from ikeanalyze.lab.daemons.aka.hostapd import start_hostapd
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa, IkeDaemon, LoadInitiator, ResourceUsage
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.stack import SideSetup
from ikeanalyze.lab.manifest import ActionResult, RecordedLabHandshake, RecordingCut, ResourceCost
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.losses import ReceiverLosses
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.recording import CAPTURE_LAG_SECONDS, LabRecordings
from ikeanalyze.lab.run.case_hosts import CaseHosts
from ikeanalyze.lab.scenario.case import ScenarioCase

_SETTLE_SECONDS: Final = 0.1
_ABANDON_SECONDS: Final = 5.0
#: Time for the daemons to end after a signal.
_ABORT_SECONDS: Final = 1.0
#: Limit for the attempts of a handshake, and what a failure looks like that is not for lack of an answer.
_MAX_ATTEMPTS: Final = 100
_PEER_ERROR: Final = re.compile(r"[A-Z][A-Z0-9_]+")
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
class RunningCase:
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


def start_case(sandbox: NetnsSandbox, case: ScenarioCase, hosts: CaseHosts, server: DaemonStack | None) -> RunningCase:
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
    return RunningCase(sandbox, case, network, hosts.emulators, hosts.seeds, hosts.losses, peers, daemons, recordings)


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
