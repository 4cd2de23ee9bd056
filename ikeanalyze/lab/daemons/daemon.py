"""A daemon of a host: started in the host's network namespace and a mount namespace of its own, in its system (/ or a tree).

It sees its folder as /run, so that its pid file, sockets and logs have fixed names there and go with the folder.

An IKE daemon of one side of a case, whatever stack it is of: what `run` and `steps` ask of it.
"""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from ikeanalyze.lab.machine import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What a process has used so far."""

    #: Seconds of processor time, in user and in kernel mode.
    user_s: float
    system_s: float
    #: Nanoseconds that its threads have been on a processor; None: the kernel does not tell.
    run_ns: int | None
    #: Resident set.
    rss_bytes: int


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    space: NetnsSandbox
    process: subprocess.Popen[bytes]
    #: What it sees as /run.
    folder: Path

    def usage(self) -> ResourceUsage:
        """What it has used until now."""
        # here, because psutil is optional, and `lab doctor` tells when it is missing
        import psutil

        process: Any = psutil.Process(self.process.pid)
        times = process.cpu_times()
        return ResourceUsage(times.user, times.system, _run_ns(self.process.pid), process.memory_info().rss)

    @property
    def output(self) -> Path:
        """What it writes to its terminal."""
        return self.folder / "out"

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None

    def build_command(self, *command: str) -> list[str]:
        """The command line that runs a command beside it: in its system, its /run and its network."""
        return ["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root", "--", *command]

    def stop(self) -> None:
        """End it."""
        self.space.stop(self.process)


def _run_ns(process: int) -> int | None:
    """Time on a processor: psutil has steps of 10 ms, more than a whole handshake takes; the scheduler has nanoseconds, per thread."""
    total = 0
    try:
        for thread in Path(f"/proc/{process}/task").iterdir():
            total += int((thread / "schedstat").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return total


def start_daemon(
    space: NetnsSandbox,
    host: Netns,
    stack: DaemonStack,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    before: Sequence[Sequence[str]] = (),
) -> Daemon:
    """Start a daemon, after the commands of `before`; what they write to their terminal goes to `out` in its folder."""
    root = "" if stack.root == Path("/") else str(stack.root)
    steps = ["set -e"]
    if root:
        steps.append(f"mount --bind /dev {shlex.quote(root)}/dev")
        steps.append(f"mount -t proc proc {shlex.quote(root)}/proc")
        steps.append(f"mount --bind /sys {shlex.quote(root)}/sys")
    steps.append(f"mount --bind {shlex.quote(str(folder))} {shlex.quote(root)}/run")
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    enter = ["chroot", root] if root else []
    steps += [shlex.join([*enter, *command]) for command in before]
    steps.append(f"exec {shlex.join([*enter, 'env', 'LC_ALL=C', *variables, stack.program, *arguments])}")
    # each of these becomes the next without a fork: the process that we hold is the daemon
    process = space.start(host.command("unshare", "--mount", "--", "sh", "-c", "\n".join(steps)), output=folder / "out")
    return Daemon(space, process, folder)


pass

#: Name of the connection, and of its CHILD_SA, with every stack.
NAME: Final = "lab"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How one command at a daemon ended."""

    done: bool
    #: Where it failed, the error that the peer sent, else the daemon's words; null where it was done.
    why: str | None
    #: Milliseconds that it took, where the daemon itself says so; null: as long as the command.
    ms: float | None = None


@dataclass(frozen=True, slots=True)
class DaemonIkeSa:
    """One IKE SA, as a daemon lists it."""

    #: 16 hex digits each; null where the daemon does not know it yet.
    spi_i: str | None
    spi_r: str | None
    #: Whether both sides have authenticated.
    established: bool
    #: The inbound SPIs of the CHILD_SAs that are in use.
    children: Sequence[str]

    @property
    def name(self) -> str:
        """What tells it from other IKE SAs, and from CHILD_SAs."""
        return f"{self.spi_i} {self.spi_r}"


class IkeDaemon(Protocol):
    """A running IKE daemon that has been told all that it needs."""

    @property
    def daemon(self) -> Daemon:
        """Its process."""
        ...

    @property
    def log(self) -> Path:
        """Its log, with keys where the daemon writes them."""
        ...

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Its IKE SAs, half-open ones included; the youngest is the last."""
        ...

    def initiate(self) -> CommandResult:
        """Set an IKE SA and its CHILD_SA up; done: both are there."""
        ...

    def initiate_async(self) -> CommandResult:
        """Begin to set an IKE SA up, waiting for nothing."""
        ...

    def rekey(self, what: str) -> CommandResult:
        """Begin to rekey: "child", "ike", or "reauth" for the IKE SA made anew."""
        ...

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """End the IKE SA, waiting for the peer so long at most; None: as long as a handshake may take."""
        ...

    def terminate_all(self) -> None:
        """End all IKE SAs at once, waiting for nobody."""
        ...
