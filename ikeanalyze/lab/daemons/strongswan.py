"""strongSwan on one side of a case: configuration, and control with vici."""

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import LabError, debian_tree
from ikeanalyze.lab.daemons.daemon import NAME, CommandResult, ConcurrentHandshake, Daemon, DaemonIkeSa
from ikeanalyze.lab.daemons.installation import DaemonStack, list_versions
from ikeanalyze.lab.daemons.peer_config import FURTHER_CHILD, StrongswanConfig, build_side_config
from ikeanalyze.lab.daemons.place import DaemonPlace
from ikeanalyze.lab.daemons.stack import PREPARE_REMEDY, IkeStack, LoggedKeys, SideSetup
from ikeanalyze.lab.debian_tree import DebianTree
from ikeanalyze.lab.logs.charon import REFUSED, parse_charon_log
from ikeanalyze.lab.logs.summary import DaemonLogSummary
from ikeanalyze.lab.network.namespaces import wait_until_ready
from ikeanalyze.lab.requirement import RequirementFinding, make_finding
from ikeanalyze.lab.scenario.case import ScenarioCase

#: The first strongSwan with ML-KEM.
ML_KEM_SINCE: Final = (6, 0, 2)
#: The first strongSwan that distributions build without IKEv1.
IKEV1_UNTIL: Final = (6,)
#: Log with keys.
LOG: Final = "charon.log"
_SOCKET: Final = "vici"
_START_SECONDS: Final = 20
#: Wait for an event, and for the IKE SA that a packet sets off.
_EVENT_SECONDS: Final = 0.25
_ACQUIRE_SECONDS: Final = 1.0
#: Log messages of charon about packets: sent, received, retransmissions exhausted.
_SENT: Final = re.compile(r"sending packet: |retransmit \d+ of request ")
_RECEIVED: Final = "received packet: "
#: The AAA server refuses with an EAP packet instead of an error notify.
_EAP_FAILED: Final = re.compile(r"received (EAP_FAILURE)\b")
_INITIATING: Final = re.compile(r"initiating (?:Main Mode |Aggressive Mode )?IKE_SA ")
_GAVE_UP: Final = re.compile(r"giving up after \d+ retransmits")
_TIMED_OUT: Final = re.compile(r"not established after \d+ms")
#: charon's error for invalid proposals; by setting their description, the scenario's keys, and whether they are for
#: the Child SA.
_INVALID: Final = re.compile(r"invalid value for: (proposals|esp_proposals)\b")
_PROPOSALS: Final = {
    "proposals": ("a proposal for IKE", "ike.proposals, ike.responder_proposals", False),
    "esp_proposals": ("a proposal for ESP", "ike.esp_proposals, ike.responder_esp_proposals", True),
}
#: A threshold of half-open IKE SAs that is never reached; 0 is reached at once.
_NEVER: Final = "1000000"
#: An unknown SPI.
_NO_SPI: Final = "0" * 16
#: In this order; charon ignores plugins that it does not have.
_PLUGINS: Final = (
    "random nonce drbg aes des sha1 sha2 sha3 md4 md5 hmac mgf1 gcm ccm ctr cmac xcbc chapoly curve25519 gmp openssl "
    "ml x509 pubkey pkcs1 pkcs8 pem revocation constraints kdf {kernel} socket-default vici eap-identity eap-md5 "
    "eap-mschapv2 eap-tls eap-radius xauth-generic"
)


@dataclass(slots=True)
class _HandshakeMessages:
    """What charon's messages about a handshake tell about its failure."""

    refused: str | None = None  # the peer's error
    awaiting: bool = False  # whether the last packet was sent, and not received
    gave_up: bool = False  # whether all retransmissions were sent

    def add(self, message: str) -> None:
        """Add the next message."""
        refused = REFUSED.search(message) or _EAP_FAILED.search(message)
        self.refused = refused[1] if refused else self.refused
        self.awaiting = bool(_SENT.search(message)) or (self.awaiting and _RECEIVED not in message)
        self.gave_up = self.gave_up or bool(_GAVE_UP.search(message))

    def describe_failure(self, failed: str) -> str:
        """Return why the handshake failed; `failed` is the error of the command."""
        unanswered = self.gave_up or (self.awaiting and _TIMED_OUT.search(failed))
        return self.refused or ("no answer" if unanswered else failed)


class _InterruptibleSocket(socket.socket):
    """A socket that Ctrl-C closes: vici would unregister its events first, and wait until charon's command ends."""

    def recv(self, *arguments: Any) -> bytes:
        """Receive as a socket does."""
        try:
            return super().recv(*arguments)
        except KeyboardInterrupt:
            self.close()
            raise


@dataclass(slots=True)
class StrongswanDaemon:
    """A running strongSwan."""

    daemon: Daemon
    _timeout: float
    _log_keys: bool = True
    _read_bytes: int = 0  # of the log, for the reasons of failures

    @property
    def log(self) -> Path:
        """The log, with keys if requested."""
        return self.daemon.folder / LOG

    def run_vici(self, command: str, content: dict[str, Any]) -> CommandResult:
        """Run a vici command; an error is returned, not raised."""
        # late: vici is optional, `lab doctor` reports if it is missing
        import vici

        progress = _HandshakeMessages()
        try:
            with self._open_session() as session:
                answer = getattr(session, command)(content)
                if hasattr(answer, "__next__"):
                    for event in answer:
                        progress.add(event.get("msg", b"").decode(errors="replace"))
        except (vici.exception.CommandException, vici.exception.SessionException) as error:
            if command == "initiate" and not self._log_keys:
                progress = self._read_messages()
            failed = str(error).splitlines()[0].removeprefix("Command failed: ")
            return CommandResult(False, progress.describe_failure(failed))
        except OSError as error:
            return CommandResult(False, f"no answer: {type(error).__name__}")
        return CommandResult(True, None)

    def _read_messages(self) -> "_HandshakeMessages":
        """Return the messages of the latest handshake from the log."""
        with self._open_session() as session:
            session.reload_settings()  # charon closes the log, and so flushes it, and opens it again
        progress = _HandshakeMessages()
        self.daemon.fetch_log()
        with self.log.open("rb") as log:
            log.seek(self._read_bytes)
            text = log.read()
        self._read_bytes += len(text)
        for line in text.decode(errors="replace").splitlines():
            if _INITIATING.search(line):
                progress = _HandshakeMessages()
            progress.add(line)
        return progress

    @contextmanager
    def _open_session(self) -> Iterator[Any]:
        """Connect to vici."""
        import vici  # late: see above

        try:
            with _InterruptibleSocket(socket.AF_UNIX) as sock:
                sock.settimeout(self._timeout + 5)
                sock.connect(str(self.daemon.folder / _SOCKET))
                yield vici.Session(sock)
        except (vici.exception.CommandException, vici.exception.SessionException, OSError) as error:
            _raise_interrupt(error)
            raise

    def is_ready(self) -> bool:
        """Whether it accepts vici connections."""
        with socket.socket(socket.AF_UNIX) as sock:
            return sock.connect_ex(str(self.daemon.folder / _SOCKET)) == 0

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SAs, the newest last (charon lists it first)."""
        with self._open_session() as session:
            return [_parse_ike_sa(sa) for entry in session.list_sas() for sa in entry.values()][::-1]

    def initiate(self) -> CommandResult:
        """Set up an IKE SA and its Child SA."""
        timeout = str(int(self._timeout * 1000))
        # without streamed messages, which the responder's charon does not have either, both sides' costs are comparable
        level = "1" if self._log_keys else "-1"
        return self.run_vici("initiate", {"child": NAME, "timeout": timeout, "loglevel": level})

    def initiate_by_packet(self, send_packet: Callable[[], int]) -> CommandResult:
        """Set up an IKE SA and its Child SA by a packet for the Child SA's trap policy.

        `send_packet` returns when it sent the packet, in nanoseconds of the monotonic clock.
        """
        import vici  # late: see above

        try:
            with self._listen() as events, ThreadPoolExecutor(1) as pool:
                result = self._await_child(events, pool.submit(send_packet))
        except (vici.exception.SessionException, OSError) as error:
            return CommandResult(False, f"no answer: {type(error).__name__}")
        if result.done or result.why is None:
            return result
        return replace(result, why=self._read_messages().describe_failure(result.why))

    @contextmanager
    def _listen(self) -> Iterator[Iterator[Any]]:
        """Listen for Child SAs that come up or go down; yield the names and contents of events."""
        with (
            self._open_session() as session,
            closing(session.listen(["child-updown"], timeout=_EVENT_SECONDS)) as events,
        ):
            next(events)  # charon registers the listener
            yield events

    def _await_child(self, events: Iterator[Any], sent: "Future[int]") -> CommandResult:
        """Wait for a Child SA. `sent`: when a packet was sent, in nanoseconds of the monotonic clock."""
        deadline = time.monotonic() + self._timeout
        for name, event in events:
            now_ns = time.monotonic_ns()
            if name and event.get("up") == b"yes":
                return CommandResult(True, None, (now_ns - sent.result()) / 1e6)
            if sent.done() and now_ns - sent.result() > _ACQUIRE_SECONDS * 1e9 and not self.list_ike_sas():
                return CommandResult(False, "no IKE SA after the packet")
            if time.monotonic() > deadline:
                break
        return CommandResult(False, f"not established after {self._timeout * 1000:.0f}ms")

    def initiate_many(self, count: int) -> list[ConcurrentHandshake]:
        """Set up IKE SAs and their Child SAs; return those that succeed, at the latest after the handshake timeout."""
        import vici  # late: see above

        up: list[ConcurrentHandshake] = []
        try:
            with self._listen() as events, ThreadPoolExecutor(1) as pool:
                began = time.monotonic()
                commands = pool.submit(self._begin_many, count)
                for name, event in events:
                    now = time.monotonic()
                    if name and event.get("up") == b"yes":
                        up += _parse_updown(event, (now - began) * 1e3)
                    if len(up) >= count or now - began > self._timeout:
                        break
                    if not name and commands.done() and all(sa.established for sa in self.list_ike_sas()):
                        break  # the others have failed
        except (vici.exception.SessionException, OSError) as error:
            raise LabError(f"strongSwan on the initiator does not answer: {type(error).__name__}") from None
        return up

    def _begin_many(self, count: int) -> None:
        with self._open_session() as session:
            for _ in range(count):
                list(session.initiate({"child": NAME, "timeout": "-1"}))

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""
        return self.run_vici("initiate", {"child": NAME, "timeout": "-1"})

    def rekey(self, target: str) -> CommandResult:
        """Start to rekey "child" or "ike", or "reauth" to reauthenticate."""
        content = {"child": NAME} if target == "child" else {"ike": NAME}
        return self.run_vici("rekey", content | ({"reauth": "yes"} if target == "reauth" else {}))

    def initiate_further_child(self) -> CommandResult:
        """Ask for the Child SA for another network in the IKE SA that exists."""
        timeout = str(int(self._timeout * 1000))
        return self.run_vici("initiate", {"child": FURTHER_CHILD, "timeout": timeout, "loglevel": "1"})

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """Delete the IKE SA, without the peer's confirmation after a timeout."""
        timeout = str(int((seconds or self._timeout) * 1000))
        return self.run_vici("terminate", {"ike": NAME, "timeout": timeout, "loglevel": "0"})

    def terminate_all(self) -> None:
        """Delete all IKE SAs without waiting."""
        with suppress(LabError):
            self.run_vici("terminate", {"ike": NAME, "force": "yes", "timeout": "-1"})


class StrongswanStack(IkeStack):
    """strongSwan's charon."""

    name = "strongswan"
    title = "strongSwan"
    programs = ("usr/lib/ipsec/charon", "usr/libexec/ipsec/charon", "usr/local/libexec/ipsec/charon")
    trees = (debian_tree.NEW, debian_tree.OLD)
    requirements = ("strongSwan", "ML-KEM", "IKEv1")
    logged_keys = LoggedKeys.ALL
    over_ssh = True

    def start(self, setup: SideSetup) -> StrongswanDaemon:
        """Start charon and load its configuration."""
        certificates = not setup.peer.requests_certificates
        side = build_side_config(
            setup.role, setup.case, setup.network, setup.credentials, always_send_cert=certificates
        )
        return start_strongswan(
            setup.place,
            setup.installed,
            side,
            kernel_esp=setup.kernel_esp,
            timeout=setup.case.settings.timeout_s,
            log_keys=setup.log_keys,
        )

    def parse_log(self, lines: Iterable[str]) -> DaemonLogSummary:
        """Parse charon's log."""
        return parse_charon_log(lines)

    def list_conflicts(self, role: str, case: ScenarioCase) -> Iterator[str]:
        """Return the settings that the named version lacks."""
        stack = case.side(role).stack
        version = stack.partition("-")[2]
        if case.settings.ike.version == 1 and version and tuple(map(int, version.split("."))) >= IKEV1_UNTIL:
            yield f"{role}.stack = {stack} needs ike.version = 2: it is built without IKEv1"

    def supports(self, installed: DaemonStack, role: str, case: ScenarioCase) -> bool:
        """Whether an installation has ML-KEM and IKEv1 as far as the case needs them."""
        has_ml_kem, has_ikev1 = installed.numbers >= ML_KEM_SINCE, installed.numbers < IKEV1_UNTIL
        return (has_ml_kem or not _needs_ml_kem(role, case)) and (has_ikev1 or case.settings.ike.version != 1)

    def describe_requirement(self, role: str, case: ScenarioCase) -> str:
        """Return the versions with the features that the case needs."""
        if _needs_ml_kem(role, case):
            return "of 6.0.2 or later, which ML-KEM needs,"
        return "before 6, which IKEv1 needs," if case.settings.ike.version == 1 else ""

    def list_missing_trees(self) -> Sequence[DebianTree]:
        """Return the tree with ML-KEM and FreeRADIUS, and that with IKEv1 unless the installed strongSwan has it."""
        installed = [stack.numbers for stack in self.find() if not stack.in_tree]
        return self.trees[:1] if any(numbers < IKEV1_UNTIL for numbers in installed) else self.trees

    def check(self) -> Iterator[RequirementFinding]:
        """Check for any strongSwan, for one with ML-KEM and one with IKEv1."""
        stacks = self.find()
        remedy = f"apt install strongswan-charon, or {PREPARE_REMEDY}"
        yield make_finding(self.title, list_versions(stacks), "not there", needed=True, remedy=remedy)
        for feature, needs, fitting in (
            ("ML-KEM", "6.0.2 or later", [stack for stack in stacks if stack.numbers >= ML_KEM_SINCE]),
            ("IKEv1", "before 6", [stack for stack in stacks if stack.numbers < IKEV1_UNTIL]),
        ):
            version = str(fitting[0]) if fitting else None
            yield make_finding(feature, version, f"needs strongSwan {needs}", remedy=PREPARE_REMEDY)


def _needs_ml_kem(role: str, case: ScenarioCase) -> bool:
    return "mlkem" in case.proposals(role) + case.esp_proposals(role)


def start_strongswan(
    place: DaemonPlace,
    stack: DaemonStack,
    side: StrongswanConfig,
    *,
    kernel_esp: bool,
    timeout: float,
    log_keys: bool = True,
) -> StrongswanDaemon:
    """Start charon and load its configuration.

    `log_keys`: log keys, and each line at once. Otherwise its log has the messages only, and is written in blocks.

    Raises:
        LabError: it does not start or refuses a setting; without secrets.
    """
    level = "4" if log_keys else "1"
    kernel = "kernel-netlink" if kernel_esp else "kernel-libipsec kernel-netlink"
    settings: dict[str, Any] = {
        "load": _PLUGINS.format(kernel=kernel),
        "install_virtual_ip": "no",
        # by default charon requires a COOKIE from ten half-open IKE SAs on, three of one address, and blocks at five
        "cookie_threshold": _NEVER,
        "cookie_threshold_ip": _NEVER,
        "block_threshold": _NEVER,
        # a new IKE SA for each handshake
        "reuse_ikesa": "no",
        # delete a rekeyed Child SA at once: it prevents reauthentication
        "delete_rekeyed_delay": "0",
        "plugins": {"vici": {"socket": f"unix:///run/{_SOCKET}"}},
        "filelog": {
            "lab": {
                "path": f"/run/{LOG}",
                "default": "1",
                "ike": level,
                "chd": level,
                "flush_line": "yes" if log_keys else "no",
                "ike_name": "yes",
                "time_format": "%s",
                "time_add_ms": "yes",
            }
        },
    }
    place.write_file("strongswan.conf", format_settings({"charon": merge_settings(settings, side.settings)}))
    environment = {"STRONGSWAN_CONF": "/run/strongswan.conf", "SWANCTL_DIR": "/run"}
    daemon = place.start_daemon(stack, environment=environment, log=LOG)
    place.open_socket(_SOCKET, daemon, _START_SECONDS)
    charon = StrongswanDaemon(daemon, timeout, log_keys)
    if not wait_until_ready(charon.is_ready, daemon.process, _START_SECONDS):
        raise LabError(f"strongSwan {stack.version} did not start on the {side.role}")
    for command, content in side.loads:
        loaded = charon.run_vici(command, content)
        if not loaded.done:
            who = f"strongSwan {stack.version} on the {side.role}"
            raise LabError(f"{who} {_format_refusal(command, content, loaded.why or 'for an unknown reason')}")
    return charon


def _format_refusal(command: str, content: Mapping[str, Any], why: str) -> str:
    """Describe the refused setting with the scenario's key if known, without the content, which has secrets."""
    invalid = _INVALID.search(why)
    if command == "load_conn" and invalid:
        connection = content[NAME]
        proposal_kind, keys, is_child = _PROPOSALS[invalid[1]]
        proposals = (connection["children"][NAME] if is_child else connection)[invalid[1]]
        return f"does not take {','.join(proposals)} as {proposal_kind} ({keys})"
    return f"refuses {command}: {why}"


def _raise_interrupt(error: BaseException) -> None:
    """Raise the KeyboardInterrupt that closed the socket, and so made vici raise an error of its own."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, KeyboardInterrupt):
            raise inner
        inner = inner.__context__


def _parse_updown(event: Mapping[str, Any], ms: float) -> list[ConcurrentHandshake]:
    """Parse the IKE SA of an event about its Child SA."""
    sas = [sa for sa in event.values() if isinstance(sa, Mapping)]
    return [ConcurrentHandshake(_decode(sa.get("initiator-spi")), _decode(sa.get("responder-spi")), ms) for sa in sas]


def _parse_ike_sa(listed: Mapping[str, Any]) -> DaemonIkeSa:
    """Parse an entry of vici's list."""
    children = listed.get("child-sas", {}).values()
    spi_r = _decode(listed.get("responder-spi"))
    return DaemonIkeSa(
        _decode(listed.get("initiator-spi")),
        None if spi_r == _NO_SPI else spi_r,
        _decode(listed.get("state")) == "ESTABLISHED",
        [_decode(child.get("spi-in")) or "" for child in children if _decode(child.get("state")) == "INSTALLED"],
    )


def _decode(value: bytes | None) -> str | None:
    return value.decode() if value is not None else None


def merge_settings(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `base`, overridden by others."""
    merged = dict(base)
    for name, value in override.items():
        merged[name] = merge_settings(merged.get(name, {}), value) if isinstance(value, Mapping) else value
    return merged


def format_settings(settings: Mapping[str, Any], indent: str = "") -> str:
    """Format settings as strongswan.conf."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name} {{\n{format_settings(value, indent + '  ')}{indent}}}\n")
        else:
            lines.append(f"{indent}{name} = {value}\n")
    return "".join(lines)
