"""A responder that stands: one side of a case with its daemons, for an initiator of our own in the other side's place.

with standing(case) as responder:
    with responder.initiators_place():
        ...  # sockets that are made here are on the initiator's host, at responder.local
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ikeanalyze.lab import LabError, machine
from ikeanalyze.lab.daemons import freeradius, peer_config, registry, strongswan
from ikeanalyze.lab.daemons.peer_config import Settings
from ikeanalyze.lab.daemons.place import NetnsPlace
from ikeanalyze.lab.daemons.strongswan import StrongswanDaemon
from ikeanalyze.lab.network import emulation, topology
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.scenario.case import ScenarioCase

_CLONE_NEWNET: Final = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class LiveResponder:
    """A responder that runs."""

    responder: StrongswanDaemon
    #: Where the initiator is to be.
    host: Netns
    #: The initiator's address, and the responder's.
    local: str
    remote: str
    #: What both sides know: PSK, chains, account.
    credentials: peer_config.CaseCredentials

    @property
    def log(self) -> str:
        """What the responder has written down until now, keys and all."""
        return self.responder.log.read_text(errors="replace")

    @contextmanager
    def enter_initiator_netns(self) -> Iterator[None]:
        """Put this thread into the initiator's network namespace: sockets made inside stay in it for good."""
        ours = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            theirs = os.open(f"/proc/{self.host.keeper}/ns/net", os.O_RDONLY)
            try:
                _enter(theirs)
            finally:
                os.close(theirs)
            try:
                yield
            finally:
                _enter(ours)
        finally:
            os.close(ours)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise LabError(f"no way into the namespace: {os.strerror(ctypes.get_errno())}")


@contextmanager
def run_responder(case: ScenarioCase, settings: Settings | None = None) -> Iterator[LiveResponder]:
    """Run the responder of a case, with the AAA server if it needs one. At the end nothing of it stays in the system.

    `settings`: sections of strongswan.conf under charon, laid over those of the case.

    Errors:
        LabError: something that it needs is not there, or does not start.
    """
    stack = registry.find_installed("responder", case)
    if case.stack("responder") != "strongswan":
        raise LabError(f"a responder that stands is strongSwan's; {stack} is not")
    server = machine.find_freeradius() if case.eap else None
    if case.eap and server is None:
        raise LabError("FreeRADIUS is not on this machine: as root, ikeanalyze lab prepare makes a tree with it")
    with NetnsSandbox() as sandbox:
        network = topology.build_network(sandbox, case)
        credentials = peer_config.make_credentials(case)
        for name, path in (("link", network.path), ("aaa_link", network.aaa_path)):
            if path is not None:
                conditions = case.link(name)
                emulation.start_emulator(sandbox, path, conditions, netem=machine.has_netem(), drops_at_receiver=False)
        if server and network.aaa and credentials.account and network.aaa_address and network.client_address:
            freeradius.start_freeradius(
                sandbox,
                network.aaa,
                server,
                credentials.account,
                address=network.aaa_address,
                client=network.client_address,
            )
        side = peer_config.build_side_config("responder", case, network, credentials)
        responder = strongswan.start_strongswan(
            NetnsPlace(sandbox, network.responder),
            stack,
            replace(side, settings=strongswan.merge_settings(side.settings, settings or {})),
            kernel_esp=machine.has_kernel_esp(),
            timeout=case.settings.timeout_s,
        )
        yield LiveResponder(
            responder, network.initiator, network.initiator_address, network.responder_address, credentials
        )


def write_credentials(responder: LiveResponder, case: ScenarioCase, folder: Path) -> Path:
    """The initiator's credentials as `replay` reads them, in a folder; where the file is."""
    credentials, lines = responder.credentials, ["[local]", f'identity = "{peer_config.IDENTITY["initiator"]}"']
    if case.settings.initiator.auth == "psk" or case.settings.responder.auth == "psk":
        lines.append(f'psk = "{credentials.psk}"')
    chain, peer = credentials.chains.get("initiator"), credentials.chains.get("responder")
    if chain is not None:
        _private(folder / "initiator.key", chain.key)
        (folder / "initiator.pem").write_text(chain.end + "".join(chain.intermediates))
        lines += ['certificate = "initiator.pem"', 'key = "initiator.key"']
    lines += ["[remote]", f'identity = "{peer_config.IDENTITY["responder"]}"']
    if peer is not None:
        (folder / "authorities.pem").write_text(peer.root)
        lines.append('authorities = ["authorities.pem"]')
    if credentials.account is not None:
        lines += ["[eap]", f'identity = "{credentials.account.user}"', f'password = "{credentials.account.password}"']
    _private(folder / "credentials.toml", "\n".join(lines) + "\n")
    return folder / "credentials.toml"


def _private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.chmod(0o600)  # a file that was there has a mode of its own
    path.write_text(text)
