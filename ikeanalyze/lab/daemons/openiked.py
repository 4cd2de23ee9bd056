"""OpenIKED on one side of a case: configuration, certificates, secrets, and control with ikectl.

iked installs its keys by PF_KEY (RFC 2367). Without it in the kernel, a stand-in (`pf_key.c`) accepts everything:
IKE runs as usual, and no ESP exists.
"""

import re
import shutil
import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons.certificates import make_certificate_chain
from ikeanalyze.lab.daemons.daemon import NAME, CommandResult, Daemon, DaemonIkeSa, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.peer_config import IDENTITY, OTHER, CaseCredentials, get_identity, get_network, get_psk
from ikeanalyze.lab.daemons.proposals.openiked import to_iked_proposals
from ikeanalyze.lab.daemons.stack import IkeStack, SideSetup, list_strongswan_settings
from ikeanalyze.lab.logs import iked as iked_log
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.network.topology import CaseAddresses
from ikeanalyze.lab.requirement import RequirementFinding, make_finding
from ikeanalyze.lab.scenario.case import ScenarioCase

_IKECTL: Final = "/usr/sbin/ikectl"
_SOCKET: Final = "/run/iked.sock"
_STAND_IN: Final = Path(__file__).parent / "pf_key.c"
_START_SECONDS: Final = 20
_COMMAND_SECONDS: Final = 10
#: iked waits for 2 s before it initiates.
_WAIT_SECONDS: Final = 5
_POLL_SECONDS: Final = 0.002
_AF_KEY: Final = 15
_PF_KEY_V2: Final = 2
#: Compilers for the stand-in, the smallest first.
_COMPILERS: Final = ("tcc", "cc")
_STATE: Final = re.compile(
    r"^iked_sas: \S+ rspi 0x([0-9a-f]{16}) ispi 0x([0-9a-f]{16}) .*\] ([A-Z_]+) [ir] ", re.MULTILINE
)
_CHILD: Final = re.compile(r"^sa_childsas: \S+ ESP (0x[0-9a-f]{8}) in ", re.MULTILINE)
_ENDING: Final = re.compile(r"exiting, pid|terminating$")
_NO_SPI: Final = "0" * 16


@dataclass(slots=True)
class IkedDaemon:
    """A running OpenIKED."""

    daemon: Daemon
    _peer_id: str
    _timeout: float

    @property
    def log(self) -> Path:
        """The log, without keys."""
        return self.daemon.output

    def run_ikectl(self, *words: str) -> str:
        """Run an ikectl command and return its output."""
        return self.daemon.run_command(_IKECTL, "-s", _SOCKET, *words, seconds=_COMMAND_SECONDS)

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SAs."""
        listed = self.run_ikectl("show", "sa")
        children = _CHILD.findall(listed)
        return [
            DaemonIkeSa(spi_i, None if spi_r == _NO_SPI else spi_r, state == "ESTABLISHED", children)
            for spi_r, spi_i, state in _STATE.findall(listed)
        ]

    def initiate(self) -> CommandResult:
        """Set up an IKE SA and its Child SA; timed by the appearance of its first and last line in the log."""
        offset = self.log.stat().st_size
        self.initiate_async()
        progress = iked_log.IkedHandshakeProgress()
        now = time.monotonic()
        begun, deadline = None, now + _WAIT_SECONDS
        while now < deadline and not (progress.established or progress.failed):
            previous = now
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()
            with self.log.open(encoding="utf-8", errors="replace") as log:
                log.seek(offset)
                progress = iked_log.read_handshake_progress(log)
            if progress.begun and begun is None:
                begun, deadline = previous, now + self._timeout  # never 0 ms, if it has already ended too
        self.run_ikectl("passive")  # otherwise it would retry after a minute
        ms = None if begun is None else (now - begun) * 1e3
        if not progress.established:
            self.terminate_all()
        done = progress.established and progress.child
        return CommandResult(done, None if done else progress.problem, ms)

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""
        self.run_ikectl("active")
        return CommandResult(True, None)

    def rekey(self, target: str) -> CommandResult:
        """Not supported: `OpenikedStack.list_conflicts` refuses it."""
        return CommandResult(False, f"{target} is not supported with OpenIKED")

    def terminate(self, seconds: float | None = None) -> CommandResult:  # noqa: ARG002 - part of the interface
        """Delete the IKE SA without waiting."""
        self.run_ikectl("reset", "id", self._peer_id)
        return CommandResult(not self.list_ike_sas(), None)

    def terminate_all(self) -> None:
        """Delete all IKE SAs without waiting."""
        self.run_ikectl("reset", "sa")


class OpenikedStack(IkeStack):
    """OpenIKED's iked."""

    name = "openiked"
    title = "OpenIKED"
    programs = ("usr/sbin/iked",)
    requirements = ("OpenIKED", "PF_KEY")
    version_option = "-V"
    trees = (debian_tree.OPENIKED,)

    def find_for(self, role: str, case: ScenarioCase) -> Sequence[DaemonStack]:
        """Return the installations for a side, with a remark if they have no ESP."""
        remark = "" if has_pf_key() else "without ESP: PF_KEY is emulated"
        return [replace(installed, remark=remark) for installed in super().find_for(role, case)]

    def start(self, setup: SideSetup) -> IkedDaemon:
        """Start and configure iked."""
        role = setup.role
        folder = setup.host.folder / "run"
        files = folder / "iked"
        _write_credentials(files, role, setup.credentials)
        write_private(str(folder / "iked.conf"), build_iked_conf(role, setup.case, setup.network, setup.credentials))
        before = [["mount", "--bind", "/run/iked", "/etc/iked"]]
        environment = {}
        if not has_pf_key():
            shutil.copyfile(_STAND_IN, folder / "pf_key.c")
            before.append(
                [_find_compiler(setup.installed), "-shared", "-fPIC", "-o", "/run/pf_key.so", "/run/pf_key.c"]
            )
            environment["LD_PRELOAD"] = "/run/pf_key.so"
        options = ["-d", "-S", "-f", "/run/iked.conf", "-s", _SOCKET]
        daemon = start_daemon(
            setup.sandbox, setup.host, setup.installed, folder, *options, environment=environment, before=before
        )
        daemon.has_children = True
        iked = IkedDaemon(daemon, f"FQDN/{IDENTITY[OTHER[role]]}", setup.case.settings.timeout_s)
        deadline = time.monotonic() + _START_SECONDS
        while not iked.run_ikectl("show", "stats"):
            if not daemon.alive or time.monotonic() > deadline:
                raise LabError(f"{setup.installed} did not start on the {role}: {_find_startup_error(daemon.output)}")
            time.sleep(0.05)
        return iked

    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary:
        """Parse iked's log."""
        return iked_log.parse_iked_log(lines)

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterator[str]:
        """Return the settings that the lab does not support with OpenIKED."""
        settings = case.settings
        if settings.ike.version == 1:
            yield f"{role}.stack = openiked needs ike.version = 2: it has no IKEv1"
        if settings.initiator.auth != settings.responder.auth:
            yield f"{role}.stack = openiked needs the same initiator.auth and responder.auth"
        if case.side(role).chain > 2:
            yield f"{role}.chain = {case.side(role).chain} needs {role}.stack = strongswan or libreswan"
        for text, keyword in ((case.proposals(role), "ikesa"), (case.esp_proposals(role), "childsa")):
            try:
                to_iked_proposals(text, keyword)
            except ValueError as error:
                yield f"{role}.stack = openiked: {error}"
        yield from list_strongswan_settings(role, case)

    def check(self) -> Iterator[RequirementFinding]:
        """Check for OpenIKED, and for PF_KEY in the kernel."""
        yield from super().check()
        yield make_finding("PF_KEY", has_pf_key(), "not in this kernel: OpenIKED gets a stand-in without ESP")


def _find_startup_error(output: Path) -> str:
    """Return the last line that is not about the end of its processes."""
    lines = [line for line in output.read_text(errors="replace").splitlines() if not _ENDING.search(line)]
    return lines[-1] if lines else "no message"


@cache
def has_pf_key() -> bool:
    """Whether the kernel has PF_KEY."""
    try:
        socket.socket(_AF_KEY, socket.SOCK_RAW, _PF_KEY_V2).close()
    except OSError:
        return False
    return True


def _find_compiler(installed: DaemonStack) -> str:
    for name in _COMPILERS:
        path = f"/usr/bin/{name}"
        if (installed.root / path.lstrip("/")).exists():
            return path
    raise LabError("OpenIKED needs PF_KEY in the kernel, or a C compiler (tcc) for the lab's stand-in")


def build_iked_conf(role: str, case: ScenarioCase, network: CaseAddresses, credentials: CaseCredentials) -> str:
    """Return the iked.conf(5) of one side, with secrets."""
    addresses = {"initiator": network.initiator_address, "responder": network.responder_address}
    other, ike = OTHER[role], case.settings.ike
    # behind a NAT the responder sees another address
    peer = addresses[other] if role == "initiator" else "any"
    auth = f'psk "{get_psk(role, case, credentials)}"' if case.side(role).auth == "psk" else "rfc7427"
    policy = [
        f'ikev2 "{NAME}" {"active" if role == "initiator" else "passive"} esp',
        f"from {get_network(role, role, case)} to {get_network(role, other, case)}",
        f"local {addresses[role]} peer {peer}",
        *to_iked_proposals(case.proposals(role), "ikesa"),
        *to_iked_proposals(case.esp_proposals(role), "childsa"),
        f"srcid {get_identity(role, case)} dstid {IDENTITY[other]}",
        "ikelifetime 0 lifetime 0",
        auth,
    ]
    fragmentation = "set fragmentation" if ike.fragment_size else "set nofragmentation"
    return f"{fragmentation}\nset nomobike\nset dpd_check_interval 0\n" + " \\\n    ".join(policy) + "\n"


def _write_credentials(folder: Path, role: str, credentials: CaseCredentials) -> None:
    """Write the files of /etc/iked; iked reads certificates after it has dropped its privileges."""
    for name in ("ca", "certs", "crls", "private", "pubkeys/fqdn", "pubkeys/ipv4", "pubkeys/ipv6", "pubkeys/ufqdn"):
        (folder / name).mkdir(parents=True)
    chain = credentials.chains.get(role)
    # with a PSK, iked needs a key all the same
    key = (chain or make_certificate_chain("ecdsa", 256, 2, IDENTITY[role])).key
    write_private(str(folder / "private" / "local.key"), key)
    if chain is not None:
        (folder / "certs" / "own.pem").write_text(chain.end)
    peer = credentials.chains.get(OTHER[role])
    if peer is not None:
        (folder / "ca" / "root.pem").write_text(peer.root)
    for path in (folder, *folder.rglob("*")):  # whatever the umask is
        if path.name != "local.key":
            path.chmod(0o755 if path.is_dir() else 0o644)
