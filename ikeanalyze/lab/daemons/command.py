"""A program of one's own on one side of a case, which runs an IKE implementation that the lab does not know.

The program gets its configuration from environment variables, commands on standard input, and reports with lines on
standard output that begin with "lab: "; docs/lab.md describes both. All output is its log.
"""

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.peer_config import IDENTITY, OTHER, get_identity, get_network, get_psk
from ikeanalyze.lab.daemons.stack import IkeStack, SideSetup, list_strongswan_settings
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.requirement import RequirementFinding
from ikeanalyze.lab.scenario.case import ScenarioCase

_START_SECONDS: Final = 60
#: In addition to the time that a command may take.
_PATIENCE_SECONDS: Final = 5
_POLL_SECONDS: Final = 0.002
_REPORT: Final = re.compile(r"^lab: (\w+) ?(.*)$", re.MULTILINE)
_ESTABLISHED: Final = re.compile(r"([0-9a-f]{16}) ([0-9a-f]{16})(?: without child: (.+))?")


@dataclass(slots=True)
class CommandDaemon:
    """A running program."""

    daemon: Daemon
    _timeout: float
    _sas: list[DaemonIkeSa] = field(default_factory=list)  # the IKE SA that it reported, unless deleted

    @property
    def log(self) -> Path:
        """All output of the program."""
        return self.daemon.output

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SA that the program reported."""
        return list(self._sas)

    def initiate(self) -> CommandResult:
        """Have the program set up an IKE SA and its Child SA."""
        report = self._request("initiate", self._timeout)
        if report is None:
            return CommandResult(False, "no answer")
        kind, rest = report
        established = _ESTABLISHED.fullmatch(rest) if kind == "established" else None
        if established is None:
            return CommandResult(False, rest or f"the program reported {kind}")
        spi_i, spi_r, problem = established.groups()
        self._sas = [DaemonIkeSa(spi_i, spi_r, established=True, children=() if problem else ("child",))]
        return CommandResult(problem is None, problem)

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""
        self._send("initiate")
        return CommandResult(True, None)

    def rekey(self, target: str) -> CommandResult:
        """Not supported: `CommandStack.list_conflicts` refuses it."""
        return CommandResult(False, f"{target} is not supported with a command")

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """Have the program delete the IKE SA."""
        report = self._request("terminate", seconds or self._timeout)
        self._sas = []
        return CommandResult(report is not None and report[0] == "terminated", None if report else "no answer")

    def terminate_all(self) -> None:
        """Same as `terminate`."""
        self.terminate()

    def wait_for_report(self, offset: int, seconds: float) -> tuple[str, str] | None:
        """Return the kind and the text of the first report after an offset in the output; None: none in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.log.open("rb") as output:
                output.seek(offset)
                text = output.read().decode(errors="replace")
            # an unfinished last line does not count
            if report := _REPORT.search(text[: text.rfind("\n") + 1]):
                return report[1], report[2].strip()
            if not self.daemon.alive:
                return None
            time.sleep(_POLL_SECONDS)
        return None

    def _request(self, request: str, seconds: float) -> tuple[str, str] | None:
        offset = self.log.stat().st_size
        self._send(request)
        return self.wait_for_report(offset, seconds + _PATIENCE_SECONDS)

    def _send(self, request: str) -> None:
        stdin = self.daemon.process.stdin
        assert stdin is not None
        try:
            stdin.write(f"{request}\n".encode())
            stdin.flush()
        except BrokenPipeError:  # it has ended: the run finds that out
            return


class CommandStack(IkeStack):
    """A program that the scenario names."""

    name = "command"
    title = "command"
    requirements = ()
    requests_certificates = False

    def find_for(self, role: str, case: ScenarioCase) -> Sequence[DaemonStack]:
        """Return the program, in this system or in the root file system that the side names."""
        root = Path(case.side(role).root or "/").absolute()
        program = shlex.split(case.side(role).command)[0]
        if root == Path("/"):
            path = shutil.which(program)
            return [DaemonStack(self.title, root, str(Path(path).absolute()), Path(path).name)] if path else []
        inside = root / program.lstrip("/")
        return [DaemonStack(self.title, root, program, inside.name)] if inside.exists() else []

    def start(self, setup: SideSetup) -> CommandDaemon:
        """Start the program, and wait until it is ready."""
        folder = setup.host.folder / "run"
        folder.mkdir()
        arguments = shlex.split(setup.case.side(setup.role).command)[1:]
        daemon = start_daemon(
            setup.sandbox,
            setup.host,
            setup.installed,
            folder,
            *arguments,
            environment=_write_environment(folder, setup),
            stdin=subprocess.PIPE,
            own_pids=True,
        )
        daemon.has_children = True
        side = CommandDaemon(daemon, setup.case.settings.timeout_s)
        report = side.wait_for_report(0, _START_SECONDS)
        if report is None or report[0] != "ready":
            lines = side.log.read_text(errors="replace").strip().splitlines()
            raise LabError(f"{setup.role}.command did not get ready: {lines[-1] if lines else 'no message'}")
        return side

    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary | None:  # noqa: ARG002 - part of the interface
        """Its log has any format."""
        return None

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterator[str]:
        """Return the settings that are not passed to the program, or need a command that is not set."""
        settings = case.settings
        try:
            words = shlex.split(case.side(role).command)
        except ValueError as error:
            words = []
            yield f"{role}.command: {error}"
        if not words:
            yield f"{role}.stack = command needs {role}.command"
        if case.eap:
            yield f"initiator.auth = {settings.initiator.auth} needs strongSwan on both sides"
        if settings.ike.version == 1:
            yield f"{role}.stack = command needs ike.version = 2"
        if role == "responder" and settings.abandoned:
            yield "abandoned needs responder.stack = strongswan"
        yield from list_strongswan_settings(role, case)

    def check(self) -> Iterator[RequirementFinding]:
        """Nothing is needed."""
        return iter(())


def _write_environment(folder: Path, setup: SideSetup) -> Mapping[str, str]:
    """Write the files with credentials, and return the environment variables of the program."""
    role, other, case = setup.role, OTHER[setup.role], setup.case
    ike, credentials = case.settings.ike, setup.credentials
    addresses = {"initiator": setup.network.initiator_address, "responder": setup.network.responder_address}
    files: dict[str, str] = {}
    auths = (case.side(role).auth, case.side(other).auth)
    if "psk" in auths:
        files["psk"] = get_psk(role, case, credentials)
    if chain := credentials.chains.get(role):
        files |= {"key": chain.key, "certificate": chain.end + "".join(chain.intermediates)}
    if peer := credentials.chains.get(other):
        files["authority"] = peer.root
    for name, text in files.items():
        write_private(str(folder / f"{name}.txt" if name == "psk" else folder / f"{name}.pem"), text)
    return {
        "IKE_ROLE": role,
        "IKE_LOCAL_ADDRESS": addresses[role],
        # behind a NAT the initiator has another address
        "IKE_REMOTE_ADDRESS": "any" if role == "responder" and case.settings.link.nat else addresses[other],
        "IKE_LOCAL_ID": get_identity(role, case),
        "IKE_REMOTE_ID": IDENTITY[other],
        "IKE_LOCAL_TS": get_network(role, role, case),
        "IKE_REMOTE_TS": get_network(role, other, case),
        "IKE_LOCAL_AUTH": auths[0],
        "IKE_REMOTE_AUTH": auths[1],
        "IKE_PSK_FILE": "/run/psk.txt" if "psk" in files else "",
        "IKE_KEY_FILE": "/run/key.pem" if "key" in files else "",
        "IKE_CERTIFICATE_FILE": "/run/certificate.pem" if "certificate" in files else "",
        "IKE_AUTHORITY_FILE": "/run/authority.pem" if "authority" in files else "",
        "IKE_PROPOSALS": case.proposals(role),
        "IKE_ESP_PROPOSALS": case.esp_proposals(role),
        "IKE_FRAGMENT_SIZE": str(ike.fragment_size),
        "IKE_RETRANSMIT_TIMEOUT_S": f"{ike.retransmit_timeout_s:g}",
        "IKE_RETRANSMIT_BASE": f"{ike.retransmit_base:g}",
        "IKE_RETRANSMIT_TRIES": str(ike.retransmit_tries),
        "IKE_TIMEOUT_S": f"{case.settings.timeout_s:g}",
        "IKE_KERNEL_ESP": "yes" if setup.kernel_esp else "no",
        "IKE_LOG_KEYS": "yes" if setup.log_keys else "no",
    }
