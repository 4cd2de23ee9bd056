"""libreswan on one side of a case: configuration, certificates, secrets, and control with whack.

libreswan needs ESP in the kernel; without it, an IKE SA has no Child SA.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons import certificates
from ikeanalyze.lab.daemons.daemon import NAME, CommandResult, Daemon, DaemonIkeSa, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.peer_config import IDENTITY, OTHER, CaseCredentials, get_identity, get_network, get_psk
from ikeanalyze.lab.daemons.proposals.libreswan import to_libreswan_proposals
from ikeanalyze.lab.daemons.stack import IkeStack, LoggedKeys, SideSetup, list_strongswan_settings
from ikeanalyze.lab.logs import pluto as pluto_log
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.network.topology import CaseAddresses
from ikeanalyze.lab.scenario.case import ScenarioCase

#: Log with keys.
LOG: Final = "pluto.log"
_SOCKET: Final = "/run/pluto.ctl"
_DATABASE: Final = "sql:/run/nss"
_START_SECONDS: Final = 20
_COMMAND_SECONDS: Final = 10
_POLL_SECONDS: Final = 0.01
#: Wait for the Child SA after its IKE SA.
_CHILD_SECONDS: Final = 0.5
_AUTH: Final = {"psk": "secret", "rsa": "rsasig", "ecdsa": "ecdsa"}
_STATE: Final = re.compile(r"^#\d+: \"[^\"]*\"\S* (\w+) ")


@dataclass(slots=True)
class LibreswanDaemon:
    """A running libreswan."""

    daemon: Daemon
    _whack: str
    _timeout: float
    _began: int = 0  # offset of the latest handshake in the log

    @property
    def log(self) -> Path:
        """The log, with keys of its IKE SAs."""
        return self.daemon.folder / LOG

    def run_whack(self, *words: str) -> str:
        """Run a whack command and return its output."""
        return self.daemon.run_command(self._whack, f"--ctlsocket={_SOCKET}", *words, seconds=_COMMAND_SECONDS)

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SA if any: the lab has at most one with libreswan."""
        states = [state[1] for line in self.run_whack("--showstates").splitlines() if (state := _STATE.match(line))]
        ike = [state for state in states if "CHILD" not in state]
        if not ike:
            return []
        spis = pluto_log.find_spis(self._read_log())
        children = [str(number) for number, state in enumerate(states) if state == "ESTABLISHED_CHILD_SA"]
        return [DaemonIkeSa(*spis, established="ESTABLISHED_IKE_SA" in ike, children=children)]

    def initiate(self) -> CommandResult:
        """Set up an IKE SA and its Child SA."""
        self.initiate_async()
        progress = pluto_log.PlutoHandshakeProgress()
        deadline = time.monotonic() + self._timeout
        while (now := time.monotonic()) < deadline and not (progress.child or progress.failed):
            progress = pluto_log.read_handshake_progress(self._read_log())
            if progress.established:
                deadline = min(deadline, now + _CHILD_SECONDS)
            time.sleep(_POLL_SECONDS)
        if not progress.established:
            self.terminate_all()  # otherwise it would retry
        return CommandResult(progress.child, None if progress.child else progress.why or "no answer", progress.ms)

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""
        self._began = self.log.stat().st_size
        self.run_whack("--name", NAME, "--initiate", "--asynchronous")
        return CommandResult(True, None)

    def rekey(self, target: str) -> CommandResult:
        """Not supported: `scenario` refuses it."""
        return CommandResult(False, f"{target} is not supported with libreswan")

    def terminate(self, seconds: float | None = None) -> CommandResult:  # noqa: ARG002 - part of the interface
        """Delete the IKE SA without waiting."""
        self.run_whack("--name", NAME, "--terminate")
        return CommandResult(not self.list_ike_sas(), None)

    def terminate_all(self) -> None:
        """Same as `terminate`."""
        self.terminate()

    def _read_log(self) -> list[str]:
        """Return the log lines since the latest handshake began."""
        with self.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._began)
            return log.readlines()


class LibreswanStack(IkeStack):
    """libreswan's pluto."""

    name = "libreswan"
    title = "libreswan"
    programs = ("usr/libexec/ipsec/pluto", "usr/lib/ipsec/pluto", "usr/local/libexec/ipsec/pluto")
    trees = (debian_tree.LIBRESWAN,)
    logged_keys = LoggedKeys.ESTABLISHED
    requests_certificates = False

    def start(self, setup: SideSetup) -> LibreswanDaemon:
        """Start and configure pluto."""
        return start_libreswan(
            setup.sandbox,
            setup.host,
            setup.installed,
            setup.case,
            setup.network,
            setup.credentials,
            log_keys=setup.log_keys,
        )

    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary | None:
        """Parse pluto's log; None if it was started without debugging."""
        summary = pluto_log.parse_pluto_log(lines)
        return summary if summary.sent else None

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterator[str]:
        """Return the settings that the lab does not support with libreswan."""
        settings = case.settings
        if settings.ike.version == 1:
            yield f"{role}.stack = libreswan needs ike.version = 2 in the lab"
        if case.eap:
            yield f"initiator.auth = {settings.initiator.auth} needs strongSwan on both sides"
        for text in (case.proposals(role), case.esp_proposals(role)):
            try:
                to_libreswan_proposals(text)
            except ValueError as error:
                yield f"{role}.stack = libreswan: {error}"
        yield from list_strongswan_settings(role, case)


def start_libreswan(
    sandbox: NetnsSandbox,
    host: Netns,
    stack: DaemonStack,
    case: ScenarioCase,
    network: CaseAddresses,
    credentials: CaseCredentials,
    *,
    log_keys: bool = True,
) -> LibreswanDaemon:
    """Start and configure pluto. `log_keys`: log messages and keys.

    Raises:
        LabError: it does not start or refuses its connection; without secrets.
    """
    role = host.name
    folder = host.folder / "run"
    (folder / "nss").mkdir(parents=True)
    write_private(str(folder / "ipsec.conf"), build_ipsec_conf(role, case, network))
    secret = f'@{get_identity(role, case)} @{IDENTITY[OTHER[role]]} : PSK "{get_psk(role, case, credentials)}"\n'
    write_private(str(folder / "ipsec.secrets"), secret)
    before = [["certutil", "-N", "-d", _DATABASE, "--empty-password"], *_import_certificates(folder, role, credentials)]
    debugging = " --debug base --debug private" if log_keys else ""
    options = (
        f"--config /run/ipsec.conf --nofork --logfile /run/{LOG} --rundir /run --secretsfile /run/ipsec.secrets "
        f"--nssdir /run/nss --ipsecdir /run --no-dnssec{debugging}"
    )
    daemon = start_daemon(sandbox, host, stack, folder, *options.split(), before=before)
    pluto = LibreswanDaemon(daemon, stack.program.replace("pluto", "whack"), case.settings.timeout_s)
    deadline = time.monotonic() + _START_SECONDS
    while True:
        log = pluto.log.read_text(errors="replace") if pluto.log.exists() else ""
        if f'"{NAME}": added' in log and "listening for IKE messages" in log:
            return pluto
        error = pluto_log.find_startup_error(log.splitlines())
        if error or not daemon.alive or time.monotonic() > deadline:
            why = f": {error}" if error else ""
            raise LabError(f"libreswan {stack.version} did not start on the {role}{why}")
        time.sleep(0.05)


def build_ipsec_conf(role: str, case: ScenarioCase, network: CaseAddresses) -> str:
    """Return the ipsec.conf(5) of one side, which is `left`."""
    addresses = {"initiator": network.initiator_address, "responder": network.responder_address}
    other = OTHER[role]
    connection: dict[str, str] = {
        "left": addresses[role],
        "right": addresses[other],
        "leftid": f"@{get_identity(role, case)}",
        "rightid": f"@{IDENTITY[other]}",
        "leftsubnet": get_network(role, role, case),
        "rightsubnet": get_network(role, other, case),
        "keyexchange": "ikev2",
        "ike": to_libreswan_proposals(case.proposals(role)),
        "esp": to_libreswan_proposals(case.esp_proposals(role)),
        "fragmentation": "yes" if case.settings.ike.fragment_size else "no",
        "rekey": "no",
        "dpdaction": "clear",
        "auto": "add",
        **_convert_retransmission(case),
    }
    for end, side in (("left", role), ("right", other)):
        connection[f"{end}auth"] = _AUTH[case.side(side).auth]
    if case.side(role).auth != "psk":
        connection |= {"leftcert": IDENTITY[role], "leftsendcert": "always", "sendca": "all"}
    lines = [f"  {key}={value}\n" for key, value in connection.items()]
    return f"config setup\nconn {NAME}\n{''.join(lines)}"


def _convert_retransmission(case: ScenarioCase) -> Mapping[str, str]:
    """Convert a scenario's retransmission settings; libreswan doubles its timeout each time."""
    first, tries = case.settings.ike.retransmit_timeout_s, case.settings.ike.retransmit_tries
    timeout = min(first * (2 ** (tries + 1) - 1), 3600)
    return {"retransmit-interval": f"{first * 1000:.0f}", "retransmit-timeout": f"{max(timeout, 1):.0f}s"}


def _import_certificates(folder: Path, role: str, credentials: CaseCredentials) -> Sequence[Sequence[str]]:
    """Return the commands that import key and certificates into NSS; it trusts the peer's root."""
    commands = []
    if role in credentials.chains:
        (folder / "own.p12").write_bytes(certificates.encode_pkcs12(credentials.chains[role], IDENTITY[role], "lab"))
        commands.append(["pk12util", "-i", "/run/own.p12", "-d", _DATABASE, "-W", "lab"])
    if OTHER[role] in credentials.chains:
        write_private(str(folder / "root.pem"), credentials.chains[OTHER[role]].root)
        commands.append(["certutil", "-A", "-d", _DATABASE, "-n", "root", "-t", "CT,,", "-i", "/run/root.pem"])
    return commands
