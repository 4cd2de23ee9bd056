"""Where the daemon of a side runs: in a network namespace of this machine, or on a machine over SSH."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ikeanalyze.lab import LabError
from ikeanalyze.lab.daemons.daemon import Daemon, ResourceUsage, build_unshare_command, start_daemon
from ikeanalyze.lab.daemons.installation import DaemonStack, find_version
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox
from ikeanalyze.lab.network.ssh import SshHost

#: Name of the daemon's process on a machine over SSH.
_DAEMON: Final = "daemon"
#: Prints the processor times of a process's threads, an empty line, and its stat file (proc(5)).
_READ_USAGE: Final = "cat /proc/$0/task/*/schedstat; echo; cat /proc/$0/stat"


class DaemonPlace(Protocol):
    """The machine or namespace of a side, seen by the stack that starts its daemon there."""

    @property
    def name(self) -> str:
        """Either "initiator" or "responder"."""

    def write_file(self, name: str, text: str) -> None:
        """Write a file in the folder that will be the daemon's /run; only its owner can read it."""

    def start_daemon(self, stack: DaemonStack, *arguments: str, environment: Mapping[str, str], log: str) -> Daemon:
        """Start a daemon that writes the file `log` in /run. `Daemon.folder` is our copy of, or its /run itself."""

    def open_socket(self, name: str, daemon: Daemon, seconds: float) -> None:
        """Make a socket that the daemon creates in /run available in `Daemon.folder`; waits if it must.

        Raises:
            LabError: the daemon does not create it.
        """


@dataclass(frozen=True, slots=True)
class NetnsPlace:
    """A network namespace of this machine."""

    sandbox: NetnsSandbox
    host: Netns

    @property
    def name(self) -> str:
        """The name of the namespace."""
        return self.host.name

    @property
    def _folder(self) -> Path:
        return self.host.folder / "run"

    def write_file(self, name: str, text: str) -> None:
        """Write a file for the daemon."""
        self._folder.mkdir(exist_ok=True)
        path = self._folder / name
        path.touch(0o600)
        path.write_text(text)

    def start_daemon(self, stack: DaemonStack, *arguments: str, environment: Mapping[str, str], log: str) -> Daemon:  # noqa: ARG002 - of the interface
        """Start a daemon."""
        return start_daemon(self.sandbox, self.host, stack, self._folder, *arguments, environment=environment)

    def open_socket(self, name: str, daemon: Daemon, seconds: float) -> None:
        """Do nothing: the daemon creates it in our folder."""


@dataclass(slots=True)
class SshDaemon(Daemon):
    """A daemon on a machine over SSH; `process` is our ssh, `folder` has copies of what it wrote."""

    host: SshHost | None = None
    log_name: str = ""
    pid: int = 0  # on its machine

    def get_usage(self) -> ResourceUsage:
        """Return the resources used so far, by one command on the machine.

        Raises:
            LabError: it has ended, or the connection has.
        """
        assert self.host
        threads, _, stat = self.host.run("sh", "-c", _READ_USAGE, str(self.pid)).rpartition("\n\n")
        # the name of the program, in parentheses, may have spaces; field 3 of proc_pid_stat(5) follows it
        fields = stat.rpartition(")")[2].split()
        ticks, page = (float(self.host.facts[key][0]) for key in ("ticks", "page"))
        run_ns = [int(line.split()[0]) for line in threads.splitlines()]
        return ResourceUsage(
            int(fields[11]) / ticks,
            int(fields[12]) / ticks,
            sum(run_ns) if run_ns else None,
            int(int(fields[21]) * page),
        )

    def fetch_log(self) -> None:
        """Fetch what was added to the log."""
        assert self.host
        self.host.fetch(self.log_name)


@dataclass(frozen=True, slots=True)
class SshPlace:
    """A machine over SSH."""

    host: SshHost

    @property
    def name(self) -> str:
        """The role of the machine."""
        return self.host.name

    def write_file(self, name: str, text: str) -> None:
        """Write a file for the daemon."""
        self.host.write_file(name, text)

    def start_daemon(self, stack: DaemonStack, *arguments: str, environment: Mapping[str, str], log: str) -> Daemon:
        """Start a daemon."""
        host, folder = self.host, self.host.folder / "run"
        command = build_unshare_command(stack, f"{host.remote_folder}/run", *arguments, environment=environment)
        process = host.start(_DAEMON, *command, output=folder / "out")
        pid = host.read_pid(_DAEMON, process)
        (folder / log).touch(0o600)
        return SshDaemon(host.sandbox, process, folder, host=host, log_name=log, pid=pid)

    def open_socket(self, name: str, daemon: Daemon, seconds: float) -> None:
        """Forward the socket once it exists."""
        assert isinstance(daemon, SshDaemon)
        try:
            self.host.wait_for_socket(name, daemon.pid, seconds)
        except LabError:
            output = daemon.output.read_text(errors="replace").strip().splitlines()
            raise self.host.make_error(f"the daemon did not start: {output[-1] if output else 'no message'}") from None
        self.host.forward_socket(name)

    def find_installations(self, title: str, programs: Sequence[str], option: str, root: str) -> Sequence[DaemonStack]:
        """Return the installations of a daemon below a root on the machine, as `installation.find_installations`."""
        installations = []
        for program in programs:
            path = f"{root.rstrip('/')}/{program}"
            command = [path, option] if root == "/" else ["chroot", root, f"/{program}", option]
            if self.host.succeeds("test", "-x", path) and (version := find_version(self.host.run(*command))):
                installations.append(DaemonStack(title, Path(root), f"/{program}", version))
        return installations
