"""What a run leaves in the system while it lives, and how it goes away: a folder, processes, network namespaces.

Nothing of ours has a name in the system but the folder. A network namespace lives as long as a process in it (a `cat`
that reads from us); each process gets SIGKILL from the kernel when we end, however we end; mounts are made in mount
namespaces of their own and go with their processes. So nothing but the folder can outlive a killed run, and the next run
removes it: a folder whose lock nobody holds is dead.
"""

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ikeanalyze.lab import LabError

PREFIX: Final = "ikeanalyze-lab-"
_LOCK: Final = "lock"
#: Of the 107 bytes that a socket's name may have (unix(7)), what our folder's name and those in it leave.
_MAX_TMPDIR: Final = 60
#: What is to be free before each handshake: the logs of one with many retransmissions take some 100 kB.
_ROOM_BYTES: Final = 8 << 20
#: What is to be free at the end, if the disk has never been full.
_LAST_BYTES: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1
#: Seconds that a process has to end by itself.
_PATIENCE: Final = 8.0
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # which ended before that
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@dataclass(frozen=True, slots=True)
class Netns:
    """A network namespace, with a folder for what runs in it."""

    name: str
    #: Process id of the one that keeps the namespace.
    keeper: int
    folder: Path

    def command(self, *command: str) -> list[str]:
        """The command line that runs a command in this namespace. Its process keeps its id."""
        return ["nsenter", f"--net=/proc/{self.keeper}/ns/net", "--", *command]


@dataclass(slots=True)
class NetnsSandbox:
    """A run's folder, hosts and processes; to be used in a `with`, whose end ends them."""

    folder: Path = field(init=False)
    _lock: int = field(init=False, default=-1)
    _processes: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)

    def __enter__(self) -> Self:
        remove_dead_runs()
        if len(tempfile.gettempdir()) > _MAX_TMPDIR:
            raise LabError(f"{tempfile.gettempdir()}: too long a name for sockets in it; set TMPDIR to a shorter one")
        made: Path | None = None
        try:
            with _undisturbed():
                # under a name that nobody sweeps until the lock is held
                made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
                self._lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.folder = made = made.rename(made.with_name(made.name.removeprefix(".")))
        except KeyboardInterrupt:  # it waited; nobody leaves what was not entered
            if made is not None:
                shutil.rmtree(made, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with _undisturbed():  # a second Ctrl-C must not leave half of it
            for process in reversed(self._processes):
                self.stop(process)
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)

    def check_room(self, *, at_end: bool = False) -> None:
        """Notice a full disk while what was written is whole: a daemon goes on without its log, and says nothing.

        Errors:
            LabError: there is less room than a handshake's logs may take; `at_end`, than if all that was written is there.
        """
        least = _LAST_BYTES if at_end else _ROOM_BYTES
        if shutil.disk_usage(self.folder).free < least:
            raise LabError(
                f"{self.folder.parent}: less than {least >> 20} MB left for logs and capture; "
                "set TMPDIR to a folder with more"
            )

    def create_netns(self, name: str) -> Netns:
        """A new network namespace with its loopback interface up."""
        folder = self.folder / name
        folder.mkdir()
        keeper = self.start(["unshare", "--net", "--", "cat"], stdin=subprocess.PIPE)
        ours = os.stat("/proc/self/ns/net").st_ino
        deadline = time.monotonic() + _PATIENCE
        while True:
            with suppress(OSError):
                # `unshare` has become `cat` when it is in a namespace of its own
                if os.stat(f"/proc/{keeper.pid}/ns/net").st_ino != ours:
                    break
            if keeper.poll() is not None or time.monotonic() > deadline:
                raise LabError("no network namespace could be made; the lab needs root")
            time.sleep(0.005)
        host = Netns(name, keeper.pid, folder)
        run_command(host.command("ip", "link", "set", "lo", "up"))
        return host

    def start(
        self, command: Sequence[str], *, output: Path | None = None, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        """Start a process that ends with us at the latest; `output` gets what it says."""
        # Ctrl-C between the fork and the list would leave one whose end nobody waits for
        with open(output or os.devnull, "ab") as out, _undisturbed():
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=partial(_die_with, os.getpid()),
                start_new_session=True,  # Ctrl-C is for us, who then end the rest in order
            )
            self._processes.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes], *, by: signal.Signals = signal.SIGTERM) -> None:
        """End a process that we started: asked first, then made."""
        if process.stdin:
            process.stdin.close()
        if process.poll() is None:
            process.send_signal(by)
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self._processes:
            self._processes.remove(process)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and a polite end wait until this is over; other threads than the main one do not get them anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waiting)


def run_command(command: Sequence[str], *, given: str | None = None, seconds: float = 30) -> str:
    """Run a command to its end; what it wrote. `given` is what it reads.

    Errors:
        LabError: it is not there, failed, or took too long.
    """
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not on this machine (ikeanalyze lab doctor says more)") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command)}: no end after {seconds:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise LabError(f"{' '.join(command)}: {said[-1] if said else f'status {done.returncode}'}")
    return done.stdout


def remove_dead_runs() -> list[Path]:
    """Remove what dead runs left; which folders these were."""
    gone = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another run may remove it at the same time
            # someone else's folder, or a link to one, is not ours to remove
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                gone.append(folder)
            finally:
                os.close(lock)
    return gone
