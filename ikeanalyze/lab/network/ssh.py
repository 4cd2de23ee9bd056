"""Machines over SSH as hosts of a case: a connection, a folder there, and processes that end with the connection.

Each machine gets one connection, and everything else uses it (ssh's ControlMaster). A process there is run by a shell
that waits for the end of its standard input and then ends it, so that it does not outlive our ssh, however we end. The
folder is removed in the same way. On the machine, a shell, coreutils, iproute2 and util-linux are needed.
"""

import re
import shlex
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from subprocess import Popen
from typing import Any, Final, Self

from ikeanalyze.lab import LabError
from ikeanalyze.lab.network.namespaces import NetnsSandbox, run_command, wait_until_ready
from ikeanalyze.lab.scenario.case import ScenarioCase
from ikeanalyze.lab.scenario.settings import ROLES

#: Time for ssh to log in, and for a file to arrive.
_LOGIN_SECONDS: Final = 30
_FETCH_SECONDS: Final = 120
_POLL_SECONDS: Final = 0.02
#: No questions; a connection that is dead for 15 s ends.
_OPTIONS: Final = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
#: Whatever the user's configuration has for interactive use.
_PLAIN: Final = ("-o", "ClearAllForwardings=yes", "-o", "RemoteCommand=none")
_MASTER: Final = (*_PLAIN, "-o", "ConnectTimeout=15", "-o", "ControlPersist=no")
#: Allowed difference of the clocks: captures are cut between two handshakes, by our clock.
_CLOCK_SECONDS: Final = 0.1
#: Creates the folder, and removes it at the end of standard input, when the processes with a file there have ended.
_KEEP_FOLDER: Final = (
    "umask 077; folder=$(mktemp -d /tmp/ikeanalyze-ssh-XXXXXXXX) && mkdir $folder/run || exit; "
    '[ -z "$SUDO_UID" ] || chown "$SUDO_UID" $folder $folder/run; echo $folder; cat >/dev/null; count=0; '
    "while ls $folder/*.pid >/dev/null 2>&1 && [ $count -lt 100 ]; do sleep 0.1; count=$((count + 1)); done; "
    "rm -rf $folder"
)
#: Runs a command until it ends, or until the end of standard input: then it gets SIGTERM, and SIGKILL 5 s later.
_WATCH: Final = (
    'file=$1; shift; exec 3<&0; "$@" </dev/null 3<&- & pid=$!; echo $pid >"$file"; '
    "{ cat; kill $pid; count=0; "
    "while kill -0 $pid && [ $count -lt 50 ]; do sleep 0.1; count=$((count + 1)); done; kill -9 $pid; } "
    '<&3 >/dev/null 2>&1 3<&- & guard=$!; exec 3<&-; wait $pid; status=$?; kill $guard; rm -f "$file"; exit $status'
)
#: Waits for a socket, until the process with this id ends. The user who logs in may not be root, and connects to it.
_WAIT_FOR_SOCKET: Final = (
    'until [ -S "$0" ]; do kill -0 "$1" || exit; sleep 0.05; done; sleep 0.05; '
    '[ -z "$SUDO_UID" ] || chown "$SUDO_UID" "$0"'
)
#: Describes the machine, a key and its value a line.
_DESCRIBE: Final = (
    "echo kernel $(uname -r); echo architecture $(uname -m); echo cores $(nproc); "
    "echo processor $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1); "
    "for name in dumpcap ip unshare; do command -v $name >/dev/null || echo missing $name; done; "
    'for port in 01F4 1194; do cut -c 1-100 /proc/net/udp /proc/net/udp6 | grep -q ":$port [0-9A-F]*:0000 " '
    "&& echo busy $port; done; echo ticks $(getconf CLK_TCK); echo page $(getconf PAGESIZE)"
)
_ESP: Final = (
    "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))' "
    f"0x{'11' * 20} 128"
)
_INTERFACE: Final = re.compile(r"\bdev (\S+)")


@dataclass(slots=True)
class SshHost:
    """A machine with a connection, and folders for its files here and there."""

    name: str  # "initiator" or "responder"
    destination: str  # as ssh takes it
    sandbox: NetnsSandbox
    folder: Path
    control: Path  # socket of the connection
    connection: Popen[bytes]
    remote_folder: str = ""
    facts: dict[str, list[str]] = field(default_factory=dict)  # what `_DESCRIBE` reports
    kernel_esp: bool = False
    interface: str = ""  # towards the other side
    _sudo: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether the connection exists."""
        return self.connection.poll() is None

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command on the machine as root.

        Raises:
            LabError: the connection was lost; ssh would make another one, and the processes on the machine have ended.
        """
        self._check_connection()
        return [
            "ssh",
            *_OPTIONS,
            *_PLAIN,
            "-S",
            str(self.control),
            self.destination,
            shlex.join([*self._sudo, *command]),
        ]

    def _check_connection(self) -> None:
        if not self.alive:
            lines = (self.folder / "ssh").read_text(errors="replace").strip().splitlines()
            raise self.make_error(f"the connection was lost{f': {lines[-1]}' if lines else ''}")

    def run(self, *command: str, stdin: str | None = None, seconds: float = 30) -> str:
        """Run a command on the machine as root, and return its output.

        Raises:
            LabError: it failed, or timed out; the text has the last line of its output.
        """
        try:
            done = subprocess.run(
                self.command(*command),
                input=stdin or "",
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self.make_error(f"{command[0]}: timed out after {seconds:g} s") from None
        if done.returncode:
            self._check_connection()
            lines = (done.stderr or done.stdout).strip().splitlines()
            raise self.make_error(f"{command[0]}: {lines[-1] if lines else f'status {done.returncode}'}")
        return done.stdout

    def succeeds(self, *command: str) -> bool:
        """Whether a command succeeds on the machine."""
        try:
            self.run(*command)
        except LabError:
            return False
        return True

    def make_error(self, problem: str) -> LabError:
        """Return an error about this machine."""
        return LabError(f"{self.name}.host = {self.destination}: {problem}")

    def write_file(self, name: str, text: str) -> None:
        """Write a file that its owner only can read, in the folder that is the daemon's /run."""
        self.run("sh", "-c", 'umask 077; cat >"$0"', f"{self.remote_folder}/run/{name}", stdin=text)

    def start(self, name: str, *command: str, output: Path, errors: Path | None = None) -> Popen[bytes]:
        """Start a process that ends at the end of its standard input, at the latest with the connection.

        Its id is in the file `name`.pid of the machine's folder as long as it runs. `output` and `errors` are as in
        `NetnsSandbox.start`.
        """
        watched = self.command("sh", "-c", _WATCH, "sh", f"{self.remote_folder}/{name}.pid", *command)
        return self.sandbox.start(watched, output=output, errors=errors, stdin=subprocess.PIPE, ends_with_stdin=True)

    def start_recorder(self, sandbox: NetnsSandbox, command: list[str], path: Path, output: Path) -> Popen[bytes]:
        """Start dumpcap, whose capture is written here; `output` gets its messages."""
        assert sandbox is self.sandbox
        return self.start("dumpcap", *command, "-w", "-", output=path, errors=output)

    def read_pid(self, name: str, process: Popen[bytes]) -> int:
        """Return the id of a process on the machine, once it is started.

        Raises:
            LabError: it does not start.
        """
        number = ""

        def is_started() -> bool:
            nonlocal number
            number = self.run("sh", "-c", 'cat "$0" 2>/dev/null || :', f"{self.remote_folder}/{name}.pid").strip()
            return bool(number)

        if not wait_until_ready(is_started, process, _LOGIN_SECONDS):
            raise self.make_error(f"{name} did not start")
        return int(number)

    def wait_for_socket(self, name: str, pid: int, seconds: float) -> None:
        """Wait until the daemon with the process id `pid` has created a Unix socket in its /run.

        Raises:
            LabError: the daemon ended, or the time is over.
        """
        self.run("sh", "-c", _WAIT_FOR_SOCKET, f"{self.remote_folder}/run/{name}", str(pid), seconds=seconds)

    def forward_socket(self, name: str) -> None:
        """Make a Unix socket of the daemon's /run available in our `run` folder."""
        remote, local = f"{self.remote_folder}/run/{name}", self.folder / "run" / name
        command = ["ssh", *_OPTIONS, "-S", str(self.control), "-O", "forward", "-L", f"{local}:{remote}"]
        run_command([*command, self.destination])

    def fetch(self, name: str) -> None:
        """Append what a file of the daemon's /run has more than its copy in our `run` folder.

        Raises:
            LabError: it cannot be read.
        """
        copy = self.folder / "run" / name
        with copy.open("ab") as target:
            command = self.command("tail", "-c", f"+{target.tell() + 1}", f"{self.remote_folder}/run/{name}")
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=subprocess.PIPE,
                    timeout=_FETCH_SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise self.make_error(f"{name}: timed out after {_FETCH_SECONDS} s") from None
        if done.returncode:
            self._check_connection()
            raise self.make_error(f"{name}: {_get_last_line(done.stderr.decode(errors='replace'))}")

    def log_in(self) -> None:
        """Wait for the connection, and create the folder there.

        Raises:
            LabError: ssh or sudo fails.
        """
        output = self.folder / "ssh"
        if not wait_until_ready(self.control.exists, self.connection, _LOGIN_SECONDS):
            raise self.make_error(f"ssh: {_get_last_line(output.read_text(errors='replace'))}")
        if self.run("id", "-u").strip() != "0":
            self._sudo = ("sudo", "-n")
        keeper, output = self.command("sh", "-c", _KEEP_FOLDER), self.folder / "keeper"
        process = self.sandbox.start(keeper, output=output, stdin=subprocess.PIPE, ends_with_stdin=True)
        wait_until_ready(lambda: output.read_bytes().endswith(b"\n"), process, _LOGIN_SECONDS, pause_s=_POLL_SECONDS)
        line = _get_last_line(output.read_text(errors="replace"))
        if not line.startswith("/"):
            raise self.make_error(line)
        self.remote_folder = line
        (self.folder / "run").mkdir()

    def examine(self, peer: str, interface: str) -> None:
        """Find out what the machine has. `interface`: "" for the one of the route to the peer.

        Raises:
            LabError: a program is missing, a port of IKE is in use, or the clock is wrong.
        """
        for line in self.run("sh", "-c", _DESCRIBE).splitlines():
            key, _, value = line.partition(" ")
            self.facts.setdefault(key, []).append(value.strip())
        if missing := self.facts.get("missing"):
            raise self.make_error(f"{', '.join(missing)} not found")
        if busy := self.facts.get("busy"):
            raise self.make_error(f"UDP port {int(busy[0], 16)} is in use: stop the other IKE daemon")
        before = time.time()
        theirs = float(self.run("date", "+%s.%N"))
        after = time.time()
        if not before - _CLOCK_SECONDS < theirs < after + _CLOCK_SECONDS:
            raise self.make_error(f"its clock differs by {abs(theirs - (before + after) / 2):.1f} s; synchronize it")
        self.kernel_esp = self.succeeds("unshare", "--net", "sh", "-c", _ESP)
        route = self.run("ip", "-o", "route", "get", peer)
        match = _INTERFACE.search(route)
        if not interface and not match:
            raise self.make_error(f"no route to {peer}")
        self.interface = interface or (match[1] if match else "")

    @property
    def description(self) -> dict[str, Any]:
        """The machine in a manifest."""
        return {
            "host": self.destination,
            "interface": self.interface,
            **{key: self.facts[key][0] or None for key in ("kernel", "architecture", "processor")},
            "cores": int(self.facts["cores"][0]),
            "esp": "kernel" if self.kernel_esp else "user space",
        }


@dataclass(frozen=True, slots=True)
class SshNetwork:
    """Two machines and the addresses that they use for IKE."""

    hosts: Mapping[str, SshHost]  # by role
    initiator_address: str
    responder_address: str
    aaa_address: None = None
    client_address: None = None

    @classmethod
    def connect(cls, sandbox: NetnsSandbox, case: ScenarioCase) -> Self:
        """Connect to the machines of a case.

        Raises:
            LabError: ssh fails, or a machine lacks something.
        """
        hosts = {role: _start_connection(sandbox, role, case.side(role).host) for role in ROLES}
        addresses = {role: _find_address(host, role, case) for role, host in hosts.items()}
        for host in hosts.values():
            host.log_in()
        for role, host in hosts.items():
            (peer,) = (address for other, address in addresses.items() if other != role)
            host.examine(peer, case.side(role).interface)
        return cls(hosts, addresses["initiator"], addresses["responder"])


@dataclass(slots=True)
class SshLink:
    """The real link, in the place of an emulated one."""

    network: SshNetwork
    kind: str = "ssh"

    @property
    def alive(self) -> bool:
        """Whether both machines are connected."""
        return all(host.alive for host in self.network.hosts.values())

    def count_in_flight(self) -> int:
        """Return 0: unknown."""
        return 0

    def stop(self) -> dict[str, dict[str, int]]:
        """Return no counts."""
        return {}


def _start_connection(sandbox: NetnsSandbox, role: str, destination: str) -> SshHost:
    folder = sandbox.folder / role
    folder.mkdir()
    # short, because ssh adds 17 characters to the path of a socket, which has at most 107
    control = sandbox.folder / role[0]
    command = ["ssh", *_OPTIONS, *_MASTER, "-M", "-S", str(control), "-N", destination]
    try:
        process = sandbox.start(command, output=folder / "ssh")
    except FileNotFoundError:
        raise LabError("ssh is not on this machine: install openssh-client") from None
    return SshHost(role, destination, sandbox, folder, control, process)


def _find_address(host: SshHost, role: str, case: ScenarioCase) -> str:
    """Return the IKE address of a side: the one of the scenario, or that of the host."""
    version = case.settings.ip_version
    given = case.side(role).address
    if not given:
        config = run_command(["ssh", "-G", host.destination])
        given = next((line.split()[1] for line in config.splitlines() if line.startswith("hostname ")), "")
    try:
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        address = socket.getaddrinfo(given, 500, family, socket.SOCK_DGRAM)[0][4][0]
    except OSError:
        raise LabError(f"{role}.address: no IPv{version} address of {given}") from None
    return str(ip_address(str(address).partition("%")[0]))


def _get_last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
