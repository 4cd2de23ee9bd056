"""strongSwan on one side of a case: its settings, and what it is told through vici."""

import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.certificates import CertificateChain
from ikeanalyze.lab.daemons.daemon import NAME, CommandResult, Daemon, DaemonIkeSa, start_daemon
from ikeanalyze.lab.logs.charon import REFUSED
from ikeanalyze.lab.machine import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox

#: What it writes down: keys and all.
LOG: Final = "charon.log"
_SOCKET: Final = "vici"
_START_SECONDS: Final = 20
#: What charon says of packets while it sets an IKE SA up: of one that has left, of one that came, and that no more will be sent.
_SENT: Final = re.compile(r"sending packet: |retransmit \d+ of request ")
_CAME: Final = "received packet: "
#: That the AAA server did not let it in: no error notify, but a packet of EAP.
_EAP_FAILED: Final = re.compile(r"received (EAP_FAILURE)\b")
_GAVE_UP: Final = re.compile(r"giving up after \d+ retransmits")
_TIMED_OUT: Final = re.compile(r"not established after \d+ms")
#: What charon says of proposals that it does not know or that lack an algorithm; what these are, the scenario's keys, and whether
#: they are the CHILD_SA's.
_INVALID: Final = re.compile(r"invalid value for: (proposals|esp_proposals)\b")
_PROPOSALS: Final = {
    "proposals": ("a proposal for IKE", "ike.proposals, ike.responder_proposals", False),
    "esp_proposals": ("a proposal for ESP", "ike.esp_proposals", True),
}
#: A number of half-open IKE SAs that there will not be; 0 is reached at once.
_NEVER: Final = "1000000"
#: The SPI that the other side has not told yet.
_NO_SPI: Final = "0" * 16
#: In this order; plugins that a version does not have are left out by charon itself.
_PLUGINS: Final = (
    "random nonce drbg aes des sha1 sha2 sha3 md4 md5 hmac mgf1 gcm ccm ctr cmac xcbc chapoly curve25519 gmp openssl ml "
    "x509 pubkey pkcs1 pkcs8 pem revocation constraints kdf {kernel} socket-default vici eap-identity eap-md5 "
    "eap-mschapv2 eap-tls eap-radius xauth-generic"
)

Settings = Mapping[str, "str | Settings"]


@dataclass(frozen=True, slots=True)
class StrongswanConfig:
    """What one side needs to know."""

    #: "initiator" or "responder".
    role: str
    #: The sections of strongswan.conf under charon, beside those that every case has.
    settings: Settings
    #: Messages of vici, in this order: command and content. They have secrets.
    loads: tuple[tuple[str, dict[str, Any]], ...]

    def __repr__(self) -> str:
        return f"Side({self.role!r})"


@dataclass(slots=True)
class StrongswanDaemon:
    """A running strongSwan."""

    daemon: Daemon
    _timeout: float

    @property
    def log(self) -> Path:
        """Its log, with keys."""
        return self.daemon.folder / LOG

    def run_vici(self, command: str, content: dict[str, Any]) -> CommandResult:
        """One command of vici; a failure is an answer too."""
        # here, because vici is optional, and `lab doctor` tells when it is missing
        import vici

        why: str | None = None
        waits = gave_up = False
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(self._timeout + 5)
            try:
                opened.connect(str(self.daemon.folder / _SOCKET))
                session: Any = vici.Session(opened)
                streamed = getattr(session, command)
                answer = streamed(content)
                if hasattr(answer, "__next__"):
                    for event in answer:
                        said = event.get("msg", b"").decode(errors="replace")
                        refused = REFUSED.search(said) or _EAP_FAILED.search(said)
                        why = refused[1] if refused else why
                        waits = bool(_SENT.search(said)) or (waits and _CAME not in said)
                        gave_up = gave_up or bool(_GAVE_UP.search(said))
            except (vici.exception.CommandException, vici.exception.SessionException) as error:
                _raise_interrupt(error)
                failed = str(error).splitlines()[0].removeprefix("Command failed: ")
                unanswered = gave_up or (waits and _TIMED_OUT.search(failed))
                return CommandResult(False, why or ("no answer" if unanswered else failed))
            except OSError as error:
                _raise_interrupt(error)
                return CommandResult(False, f"no answer: {type(error).__name__}")
        return CommandResult(True, None)

    def answers(self) -> bool:
        """Whether it is up."""
        with socket.socket(socket.AF_UNIX) as opened:
            return opened.connect_ex(str(self.daemon.folder / _SOCKET)) == 0

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Its IKE SAs; charon itself begins with the youngest."""
        import vici

        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(self._timeout + 5)
            opened.connect(str(self.daemon.folder / _SOCKET))
            session: Any = vici.Session(opened)
            return [_ike_sa(sa) for entry in session.list_sas() for sa in entry.values()][::-1]

    def initiate(self) -> CommandResult:
        """Set an IKE SA and its CHILD_SA up."""
        timeout = str(int(self._timeout * 1000))
        return self.run_vici("initiate", {"child": NAME, "timeout": timeout, "loglevel": "1"})

    def initiate_async(self) -> CommandResult:
        """Begin to set an IKE SA up, waiting for nothing."""
        return self.run_vici("initiate", {"child": NAME, "timeout": "-1"})

    def rekey(self, what: str) -> CommandResult:
        """Rekey: "child", "ike", or "reauth" for the IKE SA made anew."""
        content = {"child": NAME} if what == "child" else {"ike": NAME}
        return self.run_vici("rekey", content | ({"reauth": "yes"} if what == "reauth" else {}))

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """End the IKE SA; at worst without a word to the peer."""
        timeout = str(int((seconds or self._timeout) * 1000))
        content = {"ike": NAME, "timeout": timeout, "loglevel": "0"}
        return self.run_vici("terminate", content)

    def terminate_all(self) -> None:
        """End all IKE SAs at once, waiting for nobody."""
        with suppress(LabError):
            self.run_vici("terminate", {"ike": NAME, "force": "yes", "timeout": "-1"})


def start_strongswan(
    space: NetnsSandbox, host: Netns, stack: DaemonStack, side: StrongswanConfig, *, kernel_esp: bool, timeout: float
) -> StrongswanDaemon:
    """Start charon and load what it needs.

    Errors:
        LabError: it does not come up, or refuses a setting; without secrets.
    """
    folder = host.folder / "run"
    folder.mkdir()
    kernel = "kernel-netlink" if kernel_esp else "kernel-libipsec kernel-netlink"
    settings: dict[str, Any] = {
        "load": _PLUGINS.format(kernel=kernel),
        "install_virtual_ip": "no",
        # by itself it asks for a COOKIE from ten half-open IKE SAs on, three of one address, and says nothing to one that has five
        "cookie_threshold": _NEVER,
        "cookie_threshold_ip": _NEVER,
        "block_threshold": _NEVER,
        # each handshake is an IKE SA of its own
        "reuse_ikesa": "no",
        # a CHILD_SA that was rekeyed goes at once: before, the IKE SA cannot be made anew
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
    daemon = start_daemon(
        space,
        host,
        stack,
        folder,
        environment={"STRONGSWAN_CONF": "/run/strongswan.conf", "SWANCTL_DIR": "/run"},
    )
    charon = StrongswanDaemon(daemon, timeout)
    deadline = time.monotonic() + _START_SECONDS
    while not charon.answers():
        if not daemon.alive or time.monotonic() > deadline:
            raise LabError(f"strongSwan {stack.version} did not start on the {side.role}")
        time.sleep(0.05)
    for command, content in side.loads:
        loaded = charon.run_vici(command, content)
        if not loaded.done:
            who = f"strongSwan {stack.version} on the {side.role}"
            raise LabError(f"{who} {_refusal(command, content, loaded.why or 'it does not say why')}")
    return charon


def _refusal(command: str, content: Mapping[str, Any], why: str) -> str:
    """What it does not take, with the scenario's key where that is known; nothing else of the content, which has secrets."""
    invalid = _INVALID.search(why)
    if command == "load_conn" and invalid:
        connection = content[NAME]
        proposal_kind, keys, there = _PROPOSALS[invalid[1]]
        proposals = (connection["children"][NAME] if there else connection)[invalid[1]]
        return f"does not take {','.join(proposals)} as {proposal_kind} ({keys})"
    return f"refuses {command}: {why}"


def _raise_interrupt(error: BaseException) -> None:
    """Ctrl-C inside of a command: vici tidies its session up, fails at it, and hides the interrupt behind that failure."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, KeyboardInterrupt):
            raise inner
        inner = inner.__context__


def _ike_sa(listed: Mapping[str, Any]) -> DaemonIkeSa:
    """From vici's answer."""
    children = listed.get("child-sas", {}).values()
    spi_r = _text(listed.get("responder-spi"))
    return DaemonIkeSa(
        _text(listed.get("initiator-spi")),
        None if spi_r == _NO_SPI else spi_r,
        _text(listed.get("state")) == "ESTABLISHED",
        [_text(child.get("spi-in")) or "" for child in children if _text(child.get("state")) == "INSTALLED"],
    )


def _text(value: bytes | None) -> str | None:
    return value.decode() if value is not None else None


def merge_settings(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others laid over them."""
    both = dict(base)
    for name, value in more.items():
        both[name] = merge_settings(both.get(name, {}), value) if isinstance(value, Mapping) else value
    return both


def format_settings(settings: Mapping[str, Any], indent: str = "") -> str:
    """Settings in the form of strongswan.conf."""
    lines = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name} {{\n{format_settings(value, indent + '  ')}{indent}}}\n")
        else:
            lines.append(f"{indent}{name} = {value}\n")
    return "".join(lines)


def build_certificate_loads(chain: CertificateChain, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """What loads a side's own key, and the authorities that it sends along."""
    loads: list[tuple[str, dict[str, Any]]] = [
        ("load_key", {"type": "any" if kind == "ecdsa" else "rsa", "data": chain.key})
    ]
    loads += [("load_cert", {"type": "X509", "flag": "CA", "data": pem}) for pem in chain.between]
    return loads
