"""strongSwan on one side of a case: configuration, and control with vici."""

import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.certificates import CertificateChain
from ikeanalyze.lab.daemons.daemon import NAME, CommandResult, Daemon, DaemonIkeSa, start_daemon
from ikeanalyze.lab.logs.charon import REFUSED
from ikeanalyze.lab.machine import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready

#: Log with keys.
LOG: Final = "charon.log"
_SOCKET: Final = "vici"
_START_SECONDS: Final = 20
#: Log messages of charon about packets: sent, received, retransmissions exhausted.
_SENT: Final = re.compile(r"sending packet: |retransmit \d+ of request ")
_RECEIVED: Final = "received packet: "
#: The AAA server refuses with an EAP packet instead of an error notify.
_EAP_FAILED: Final = re.compile(r"received (EAP_FAILURE)\b")
_GAVE_UP: Final = re.compile(r"giving up after \d+ retransmits")
_TIMED_OUT: Final = re.compile(r"not established after \d+ms")
#: charon's error for invalid proposals; by setting their description, the scenario's keys, and whether they are for
#: the Child SA.
_INVALID: Final = re.compile(r"invalid value for: (proposals|esp_proposals)\b")
_PROPOSALS: Final = {
    "proposals": ("a proposal for IKE", "ike.proposals, ike.responder_proposals", False),
    "esp_proposals": ("a proposal for ESP", "ike.esp_proposals", True),
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

Settings = Mapping[str, "str | Settings"]


@dataclass(frozen=True, slots=True)
class StrongswanConfig:
    """Configuration of one side."""

    role: str  # "initiator" or "responder"
    settings: Settings = field(repr=False)  # sections of strongswan.conf under charon, in addition to the common ones
    loads: tuple[tuple[str, dict[str, Any]], ...] = field(repr=False)  # vici commands and contents, with secrets


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

    @property
    def log(self) -> Path:
        """The log, with keys."""
        return self.daemon.folder / LOG

    def run_vici(self, command: str, content: dict[str, Any]) -> CommandResult:
        """Run a vici command; an error is returned, not raised."""
        # late: vici is optional, `lab doctor` reports if it is missing
        import vici

        why: str | None = None
        awaiting = gave_up = False
        try:
            with self._open_session() as session:
                answer = getattr(session, command)(content)
                if hasattr(answer, "__next__"):
                    for event in answer:
                        message = event.get("msg", b"").decode(errors="replace")
                        refused = REFUSED.search(message) or _EAP_FAILED.search(message)
                        why = refused[1] if refused else why
                        awaiting = bool(_SENT.search(message)) or (awaiting and _RECEIVED not in message)
                        gave_up = gave_up or bool(_GAVE_UP.search(message))
        except (vici.exception.CommandException, vici.exception.SessionException) as error:
            _raise_interrupt(error)
            failed = str(error).splitlines()[0].removeprefix("Command failed: ")
            unanswered = gave_up or (awaiting and _TIMED_OUT.search(failed))
            return CommandResult(False, why or ("no answer" if unanswered else failed))
        except OSError as error:
            _raise_interrupt(error)
            return CommandResult(False, f"no answer: {type(error).__name__}")
        return CommandResult(True, None)

    @contextmanager
    def _open_session(self) -> Iterator[Any]:
        """Connect to vici."""
        import vici  # late: see above

        with _InterruptibleSocket(socket.AF_UNIX) as sock:
            sock.settimeout(self._timeout + 5)
            sock.connect(str(self.daemon.folder / _SOCKET))
            yield vici.Session(sock)

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
        return self.run_vici("initiate", {"child": NAME, "timeout": timeout, "loglevel": "1"})

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""
        return self.run_vici("initiate", {"child": NAME, "timeout": "-1"})

    def rekey(self, target: str) -> CommandResult:
        """Start to rekey "child" or "ike", or "reauth" to reauthenticate."""
        content = {"child": NAME} if target == "child" else {"ike": NAME}
        return self.run_vici("rekey", content | ({"reauth": "yes"} if target == "reauth" else {}))

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """Delete the IKE SA, without the peer's confirmation after a timeout."""
        timeout = str(int((seconds or self._timeout) * 1000))
        return self.run_vici("terminate", {"ike": NAME, "timeout": timeout, "loglevel": "0"})

    def terminate_all(self) -> None:
        """Delete all IKE SAs without waiting."""
        with suppress(LabError):
            self.run_vici("terminate", {"ike": NAME, "force": "yes", "timeout": "-1"})


def start_strongswan(
    sandbox: NetnsSandbox, host: Netns, stack: DaemonStack, side: StrongswanConfig, *, kernel_esp: bool, timeout: float
) -> StrongswanDaemon:
    """Start charon and load its configuration.

    Raises:
        LabError: it does not start or refuses a setting; without secrets.
    """
    folder = host.folder / "run"
    folder.mkdir()
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
                "ike": "4",
                "chd": "4",
                "flush_line": "yes",
                "ike_name": "yes",
                "time_format": "%s",
                "time_add_ms": "yes",
            }
        },
    }
    (folder / "strongswan.conf").write_text(format_settings({"charon": merge_settings(settings, side.settings)}))
    environment = {"STRONGSWAN_CONF": "/run/strongswan.conf", "SWANCTL_DIR": "/run"}
    daemon = start_daemon(sandbox, host, stack, folder, environment=environment)
    charon = StrongswanDaemon(daemon, timeout)
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
    """Raise the KeyboardInterrupt that vici wraps in its own error."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, KeyboardInterrupt):
            raise inner
        inner = inner.__context__


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


def build_certificate_loads(chain: CertificateChain, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the vici commands that load a side's key and intermediate certificates."""
    authorities = [("load_cert", {"type": "X509", "flag": "CA", "data": pem}) for pem in chain.intermediates]
    return [("load_key", {"type": "any" if kind == "ecdsa" else "rsa", "data": chain.key}), *authorities]
