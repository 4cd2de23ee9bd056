"""ikeanalyze itself as initiator: `ikeanalyze replay` with a shape file, as a process of its own for each handshake.

It has an EAP-AKA peer, which no daemon of Debian has. Each run ends with the delete of its IKE SA.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from ikeanalyze.io.atomic_write import write_private
from ikeanalyze.lab.daemons.daemon import CommandResult, Daemon, DaemonIkeSa
from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.daemons.peer_config import CaseCredentials, get_identity, get_psk
from ikeanalyze.lab.daemons.stack import IkeStack, SideSetup
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.requirement import RequirementFinding
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import AKA, OWN_STACK

#: Results of the runs, one JSON document a line.
LOG: Final = "replay.jsonl"
_SHAPE: Final = "shape.toml"
_CREDENTIALS: Final = "credentials.toml"
_EXTRA_SECONDS: Final = 30  # to start the process, and to delete the IKE SA
_NO_SPI: Final = "0" * 16
_AUTHS: Final = ("psk", AKA)


@dataclass(slots=True)
class OwnInitiator:
    """Runs `ikeanalyze replay` for each handshake."""

    daemon: Daemon  # a process that stands for the side as long as the case runs
    _command: Sequence[str]
    _timeout: float
    _sas: list[DaemonIkeSa] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The results of the runs."""
        return self.daemon.folder / LOG

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SA of the last run, which is deleted by now, until `terminate` is called."""
        return self._sas

    def initiate(self) -> CommandResult:
        """Set up an IKE SA and its Child SA, and delete them."""
        seconds = self._timeout + _EXTRA_SECONDS
        try:
            done = subprocess.run(
                self._command, cwd=self.daemon.folder, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return CommandResult(False, "no answer")
        try:
            document = json.loads(done.stdout)
        except ValueError:
            lines = done.stderr.strip().splitlines()
            return CommandResult(False, lines[-1] if lines else f"status {done.returncode}")
        with self.log.open("a") as log:
            log.write(json.dumps(document) + "\n")
        return self._read_run(document["runs"][0])

    def _read_run(self, run: dict[str, Any]) -> CommandResult:
        """Return the result of a run of `ikeanalyze.replay/1`."""
        handshake = run["handshake"] or {}
        established = bool(handshake.get("established"))
        spi_r = handshake.get("spi_r")
        self._sas = [DaemonIkeSa(run["spi_i"], None if spi_r == _NO_SPI else spi_r, established, ())]
        why = handshake.get("child_error") if established else run["broken_off"] or handshake.get("reason")
        return CommandResult(established and why is None, why, handshake.get("setup_ms"))

    def initiate_async(self) -> CommandResult:
        """Not supported: `list_conflicts` refuses it."""
        return CommandResult(False, "not supported")

    def rekey(self, target: str) -> CommandResult:
        """Not supported: `list_conflicts` refuses it."""
        return CommandResult(False, f"{target} is not supported with {OWN_STACK}")

    def terminate(self, seconds: float | None = None) -> CommandResult:  # noqa: ARG002 - part of the interface
        """Forget the IKE SA, which the run has deleted."""
        self._sas = []
        return CommandResult(True, None)

    def terminate_all(self) -> None:
        """Same as `terminate`."""
        self.terminate()


class OwnStack(IkeStack):
    """`ikeanalyze replay` of this installation."""

    name = OWN_STACK
    title = "ikeanalyze"
    is_daemon = False

    def find(self) -> Sequence[DaemonStack]:
        """Return this installation."""
        return [DaemonStack(self.title, Path("/"), sys.executable, _get_version())]

    def start(self, setup: SideSetup) -> OwnInitiator:
        """Write shape and credentials."""
        folder = setup.host.folder / "run"
        folder.mkdir()
        write_private(str(folder / _SHAPE), _format_toml(_build_shape(setup.case)))
        credentials = _build_credentials(setup.case, setup.credentials)
        if responder := setup.credentials.chains.get("responder"):
            write_private(str(folder / "root.pem"), responder.root)
        tables = "".join(f"[{name}]\n{_format_toml(values)}" for name, values in credentials.items())
        write_private(str(folder / _CREDENTIALS), tables)
        (folder / LOG).touch(0o600)
        process = setup.sandbox.start(["cat"], stdin=subprocess.PIPE)
        daemon = Daemon(setup.sandbox, process, folder, does_the_work=False)
        return OwnInitiator(daemon, _build_command(setup), setup.case.settings.timeout_s)

    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary | None:  # noqa: ARG002 - of the interface
        """Return None: its counts are not independent of those of the analysis."""
        return None

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterator[str]:
        """Return the settings that are not supported."""
        settings = case.settings
        if role == "responder":
            yield f"responder.stack = {self.name} is not possible: it is an initiator only"
        if settings.initiator.auth not in _AUTHS:
            yield f"initiator.stack = {self.name} needs initiator.auth = {' or '.join(_AUTHS)}"
        for name, unsupported in (
            ("ike.version = 1", settings.ike.version == 1),
            ("then", bool(settings.then)),
            ("abandoned", bool(settings.abandoned)),
            ("initiator.start = trap", settings.initiator.start == "trap"),
            ("initiator.wrong_network", settings.initiator.wrong_network),
        ):
            if unsupported:
                yield f"initiator.stack = {self.name} does not support {name}"

    def check(self) -> Iterator[RequirementFinding]:
        """Always there."""
        return iter(())


def _get_version() -> str:
    try:
        return version("ikeanalyze")
    except PackageNotFoundError:
        return "0"


def _build_shape(case: ScenarioCase) -> dict[str, Any]:
    """Return the keys of the shape file."""
    ike = case.settings.ike
    is_aka = case.settings.initiator.auth == AKA
    overhead = 20 + 8 + 4 if case.settings.ip_version == 4 else 40 + 8 + 4  # fragment_size is that of IP packets
    return {
        "proposals": ike.proposals,
        "esp_proposals": case.esp_proposals("initiator"),
        **({"eap": "EAP-AKA"} if is_aka else {"auth": "psk"}),
        "fragment_size": max(ike.fragment_size - overhead, 0),
    }


def _build_credentials(case: ScenarioCase, credentials: CaseCredentials) -> dict[str, dict[str, Any]]:
    """Return the tables of the credentials file."""
    subscriber = credentials.subscriber
    local: dict[str, Any] = {"identity": subscriber.identity if subscriber else get_identity("initiator", case)}
    if case.settings.responder.auth == "psk":
        local["psk"] = get_psk("initiator", case, credentials)
    tables = {"local": local, "remote": {"identity": "responder.lab"}}
    if "responder" in credentials.chains:
        tables["remote"]["authorities"] = ["root.pem"]
    if subscriber:
        ki = os.urandom(len(subscriber.ki)) if case.settings.initiator.wrong_secret else subscriber.ki
        tables["eap"] = {"imsi": subscriber.imsi, "ki": ki.hex(), "opc": subscriber.opc.hex()}
    return tables


def _build_command(setup: SideSetup) -> list[str]:
    """Return the command line of a run, in the folder of the side."""
    ike = setup.case.settings.ike
    timers = f"timeout={ike.retransmit_timeout_s},base={ike.retransmit_base},tries={ike.retransmit_tries}"
    return setup.host.command(
        sys.executable,
        *("-m", "ikeanalyze", "replay", _SHAPE),
        *("--target", setup.network.responder_address, "--mode", "reenact", "--udp-sockets"),
        *("--credentials", _CREDENTIALS, "--format", "json"),
        *("--timeout", f"{setup.case.settings.timeout_s:g}", "--retransmission-policy", f"strongswan:{timers}"),
    )


def _format_toml(values: dict[str, Any]) -> str:
    """Format text, numbers and lists of text; JSON has the same form for these."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
