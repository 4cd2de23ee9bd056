"""Daemons of a host, and the interface of an IKE daemon.

A daemon runs in its host's network namespace and its own mount namespace, in this system or a Debian tree. Its folder
is mounted as /run, so that pid file, sockets and logs have fixed names and are removed with the folder.
"""

import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from ikeanalyze.lab.daemons.installation import DaemonStack
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resources used by a process so far."""

    user_s: float  # seconds of processor time, in user and in kernel mode
    system_s: float
    run_ns: int | None  # nanoseconds of processor time of its threads; None: unknown
    rss_bytes: int  # resident set size


@dataclass(slots=True)
class Daemon:
    """A running daemon."""

    sandbox: NetnsSandbox
    process: subprocess.Popen[bytes]
    folder: Path  # mounted as its /run
    does_the_work: bool = True  # whether its resources are those of the handshakes
    has_children: bool = False  # whether its child processes count as well

    def get_usage(self) -> ResourceUsage:
        """Return the resources used so far; of child processes, those that are running."""
        # late: psutil is optional, `lab doctor` reports if it is missing
        import psutil

        process: Any = psutil.Process(self.process.pid)
        usages = [_get_process_usage(process)]
        if self.has_children:
            for child in process.children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    usages.append(_get_process_usage(child))
        run_ns = [usage.run_ns for usage in usages if usage.run_ns is not None]
        return ResourceUsage(
            sum(usage.user_s for usage in usages),
            sum(usage.system_s for usage in usages),
            sum(run_ns) if len(run_ns) == len(usages) else None,
            sum(usage.rss_bytes for usage in usages),
        )

    @property
    def output(self) -> Path:
        """Standard output and error."""
        return self.folder / "out"

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self.process.poll() is None

    def build_command(self, *command: str) -> list[str]:
        """Return the command line that runs a command in the daemon's system, /run and network."""
        return ["nsenter", f"--target={self.process.pid}", "--mount", "--net", "--root", "--", *command]

    def fetch_log(self) -> None:
        """Bring the log in our folder up to date: the daemon writes it there."""

    def request_stop(self) -> None:
        """Tell the daemon to end, without waiting."""
        self.sandbox.request_stop(self.process)

    def run_command(self, *command: str, seconds: float) -> str:
        """Run a command in the daemon's system and return its output; "" if it takes longer than `seconds`."""
        line = self.build_command(*command)
        try:
            return subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=False).stdout
        except subprocess.TimeoutExpired:
            return ""

    def stop(self, patience_s: float | None = None) -> None:
        """Stop the daemon; kill it after `patience_s`, by default after some seconds."""
        if patience_s is None:
            self.sandbox.stop(self.process)
        else:
            self.sandbox.stop(self.process, patience_s=patience_s)


def _get_process_usage(process: Any) -> ResourceUsage:
    times = process.cpu_times()
    return ResourceUsage(times.user, times.system, _read_run_ns(process.pid), process.memory_info().rss)


def _read_run_ns(process: int) -> int | None:
    """Read the processor time of all threads from the scheduler; psutil's resolution of 10 ms is too coarse."""
    try:
        files = [thread / "schedstat" for thread in Path(f"/proc/{process}/task").iterdir()]
        return sum(int(file.read_text().split()[0]) for file in files)
    except (OSError, ValueError, IndexError):
        return None


def start_daemon(
    sandbox: NetnsSandbox,
    host: Netns,
    stack: DaemonStack,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    before: Sequence[Sequence[str]] = (),
    stdin: int = subprocess.DEVNULL,
    own_pids: bool = False,
) -> Daemon:
    """Start a daemon after the commands of `before`; output goes to `out` in its folder. `stdin`: as in `Popen`.

    `own_pids`: run it in a process id namespace, so that the kernel kills all its processes with it. It then gets no
    SIGTERM, but the end of its standard input; and the process is that of unshare(1), and the daemon a child of it.
    """
    unshare = build_unshare_command(
        stack, str(folder), *arguments, environment=environment, before=before, own_pids=own_pids
    )
    command = host.command(*unshare)
    return Daemon(sandbox, sandbox.start(command, output=folder / "out", stdin=stdin), folder)


def build_unshare_command(
    stack: DaemonStack,
    folder: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    before: Sequence[Sequence[str]] = (),
    own_pids: bool = False,
) -> list[str]:
    """Return the command line that runs a daemon with `folder` as its /run; parameters are those of `start_daemon`."""
    root = shlex.quote(str(stack.root)) if stack.in_tree else ""
    steps = ["set -e"]
    if stack.in_tree:
        steps += [f"mount --bind /dev {root}/dev", f"mount -t proc proc {root}/proc", f"mount --bind /sys {root}/sys"]
    steps.append(f"mount --bind {shlex.quote(folder)} {root}/run")
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    enter = ["chroot", str(stack.root)] if stack.in_tree else []
    steps += [shlex.join([*enter, *command]) for command in before]
    steps.append(f"exec {shlex.join([*enter, 'env', 'LC_ALL=C', *variables, stack.program, *arguments])}")
    # each command replaces the previous one without a fork: the process is the daemon
    unshare = ["unshare", "--mount", *(["--pid", "--fork", "--kill-child"] if own_pids else [])]
    return [*unshare, "--", "sh", "-c", "; ".join(steps)]


#: Name of the connection and of its Child SA.
NAME: Final = "lab"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command to a daemon."""

    done: bool
    why: str | None  # the peer's error or the daemon's message; None on success
    ms: float | None = None  # duration in milliseconds, if the daemon reports it
    counts: Mapping[str, Mapping[str, int]] | None = None  # of a step with traffic: packets by direction and fate


@dataclass(frozen=True, slots=True)
class DaemonIkeSa:
    """An IKE SA listed by a daemon."""

    spi_i: str | None  # 16 hex digits each; None: not known yet
    spi_r: str | None
    established: bool  # whether both sides have authenticated
    children: Sequence[str]  # inbound SPIs of the Child SAs in use

    @property
    def name(self) -> str:
        """Identifies the IKE SA among IKE SAs and Child SAs."""
        return f"{self.spi_i} {self.spi_r}"


@runtime_checkable
class PacketInitiator(Protocol):
    """An IKE daemon with a trap policy."""

    def initiate_by_packet(self, send_packet: Callable[[], int]) -> CommandResult:
        """Set up an IKE SA and its Child SA by a packet for the trap policy.

        `send_packet` returns when it sent the packet, in nanoseconds of the monotonic clock.
        """


@runtime_checkable
class FurtherChildInitiator(Protocol):
    """An IKE daemon with a second Child SA in its configuration, for a network that the responder does not protect."""

    def initiate_further_child(self) -> CommandResult:
        """Ask for that Child SA in the IKE SA that exists; its `why` is the responder's error notify."""


@dataclass(frozen=True, slots=True)
class ConcurrentHandshake:
    """One of several handshakes at the same time that has set up its Child SA."""

    spi_i: str | None  # 16 hex digits each; None: the daemon does not report it
    spi_r: str | None
    ms: float  # from the first command to the Child SA


@runtime_checkable
class LoadInitiator(Protocol):
    """An IKE daemon that sets up several IKE SAs with the same peer at the same time."""

    def initiate_many(self, count: int) -> "list[ConcurrentHandshake]":
        """Set up IKE SAs and their Child SAs; return those that succeed, at the latest after the handshake timeout."""


class IkeDaemon(Protocol):
    """A configured, running IKE daemon."""

    daemon: Daemon  # its process

    @property
    def log(self) -> Path:
        """The log, with keys if the daemon writes them."""

    def list_ike_sas(self) -> list[DaemonIkeSa]:
        """Return the IKE SAs, half-open ones included, the newest last."""

    def initiate(self) -> CommandResult:
        """Set up an IKE SA and its Child SA; done: both exist."""

    def initiate_async(self) -> CommandResult:
        """Start to set up an IKE SA without waiting."""

    def rekey(self, target: str) -> CommandResult:
        """Start to rekey "child" or "ike", or "reauth" to reauthenticate."""

    def terminate(self, seconds: float | None = None) -> CommandResult:
        """Delete the IKE SA, waiting at most `seconds` for the peer; None: the handshake timeout."""

    def terminate_all(self) -> None:
        """Delete all IKE SAs without waiting."""
