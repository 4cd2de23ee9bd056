"""What a case needs of this machine, and the hosts and links of a case."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from ikeanalyze.lab import LabError, host_info, machine, recording
from ikeanalyze.lab.daemons import registry
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.place import DaemonPlace, NetnsPlace, SshPlace
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.losses import ReceiverLosses
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.network.ssh import SshLink, SshNetwork
from ikeanalyze.lab.recording import DumpcapRecording
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.links import DIRECTIONS, MAX_SEED, Direction
from ikeanalyze.lab.scenario.settings import AKA

#: What a manifest has of the machine on which the daemons run.
_OF_THE_DAEMONS_MACHINE: Final = ("processor", "architecture", "cores", "usable_cores", "governor", "kernel", "esp")


@dataclass(frozen=True, slots=True)
class CaseHosts:
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


def build_namespaces(sandbox: NetnsSandbox, case: ScenarioCase, stacks: Mapping[str, DaemonStack]) -> CaseHosts:
    """Create namespaces and emulated links."""
    network = topology.build_network(sandbox, case)
    emulators, seeds, losses = start_links(sandbox, case, network)
    links = {
        "initiator": [topology.LINK],
        "responder": [topology.LINK, topology.AAA_LINK] if case.eap else [topology.LINK],
    }
    hosts = {"responder": network.responder, "initiator": network.initiator}
    return CaseHosts(
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


def connect_machines(sandbox: NetnsSandbox, case: ScenarioCase) -> CaseHosts:
    """Connect to the machines of a case over SSH."""
    network = SshNetwork.connect(sandbox, case)
    hosts = {role: network.hosts[role] for role in ("responder", "initiator")}
    places = {role: SshPlace(host) for role, host in hosts.items()}
    peers = {"initiator": network.responder_address, "responder": network.initiator_address}
    return CaseHosts(
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


def start_links(
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
