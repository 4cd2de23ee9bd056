"""The sandbox of a run: a temporary folder, processes and network namespaces.

Only the folder has a name in the system. A network namespace exists as long as a process in it (a `cat` that reads from
us); the kernel kills each process when we end; mounts are in mount namespaces and end with their processes. A killed
run therefore leaves only its folder, which the next run removes if its lock is free.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ikeanalyze.lab import LabError

PREFIX: Final = "ikeanalyze-lab-"
_LOCK: Final = "lock"
#: A socket's path has at most 107 bytes (unix(7)), including the names in our folder.
_MAX_TMPDIR: Final = 60
#: Required free bytes before each handshake; logs with many retransmissions take about 100 kB.
_ROOM_BYTES: Final = 8 << 20
#: Required free bytes at the end.
_LAST_BYTES: Final = 1 << 20
_PR_SET_PDEATHSIG: Final = 1
#: Seconds before a process is killed.
_PATIENCE: Final = 8.0
_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent: int) -> None:
    """Have this process, a new child of `parent`, killed when its parent ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent has already ended
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


@dataclass(frozen=True, slots=True)
class Netns:
    """A network namespace with a folder for its processes."""

    name: str
    keeper: int  # id of the process that keeps the namespace
    folder: Path

    def command(self, *command: str) -> list[str]:
        """Return the command line that runs a command in this namespace with the same process id."""
        return ["nsenter", f"--net=/proc/{self.keeper}/ns/net", "--", *command]

    def run(self, *command: str, stdin: str | None = None, seconds: float = 30) -> str:
        """Run a command in this namespace, as `run_command` does."""
        return run_command(self.command(*command), stdin=stdin, seconds=seconds)

    def start_recorder(
        self, sandbox: "NetnsSandbox", command: Sequence[str], path: Path, output: Path
    ) -> subprocess.Popen[bytes]:
        """Start dumpcap, which writes its capture to `path`; `output` gets its messages."""
        return sandbox.start(self.command(*command, "-w", str(path)), output=output)


@dataclass(slots=True)
class NetnsSandbox:
    """Folder, hosts and processes of a run; a context manager that ends them."""

    folder: Path = field(init=False)
    _lock: int = field(init=False, default=-1)
    _processes: list[subprocess.Popen[bytes]] = field(init=False, default_factory=list)
    _end_with_stdin: set[int] = field(init=False, default_factory=set)  # ids of processes

    def __enter__(self) -> Self:
        remove_dead_runs()
        if len(tempfile.gettempdir()) > _MAX_TMPDIR:
            raise LabError(f"{tempfile.gettempdir()}: path too long for sockets; set TMPDIR to a shorter one")
        folder: Path | None = None
        try:
            with block_signals():
                # hidden from `remove_dead_runs` until the lock is held
                folder = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
                self._lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.folder = folder = folder.rename(folder.with_name(folder.name.removeprefix(".")))
        except KeyboardInterrupt:  # pending signal: __exit__ will not run
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with block_signals():  # a second Ctrl-C must not interrupt the clean-up
            for process in reversed(self._processes):
                self.stop(process)
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)

    def check_room(self, *, at_end: bool = False) -> None:
        """Check the free disk space, because daemons ignore a full disk.

        Raises:
            LabError: less space than a handshake's logs need; with `at_end`, less than a reserve.
        """
        least = _LAST_BYTES if at_end else _ROOM_BYTES
        if shutil.disk_usage(self.folder).free < least:
            problem = f"less than {least >> 20} MB left for logs and capture; set TMPDIR to a folder with more"
            raise LabError(f"{self.folder.parent}: {problem}")

    def create_netns(self, name: str) -> Netns:
        """Create a network namespace with its loopback interface up."""
        folder = self.folder / name
        folder.mkdir()
        keeper = self.start(["unshare", "--net", "--", "cat"], stdin=subprocess.PIPE)
        ours = os.stat("/proc/self/ns/net").st_ino

        def is_in_new_namespace() -> bool:
            with suppress(OSError):
                return os.stat(f"/proc/{keeper.pid}/ns/net").st_ino != ours
            return False

        if not wait_until_ready(is_in_new_namespace, keeper, _PATIENCE, pause_s=0.005):
            raise LabError("cannot create a network namespace; the lab needs root")
        host = Netns(name, keeper.pid, folder)
        host.run("ip", "link", "set", "lo", "up")
        return host

    def start(
        self,
        command: Sequence[str],
        *,
        output: Path | None = None,
        errors: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        ends_with_stdin: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start a process that is killed when we end; `output` is its standard output and, without `errors`, error.

        `ends_with_stdin`: it is stopped by the end of its standard input, and not by a signal.
        """
        # Ctrl-C between fork and list would leave a process behind
        with open(output or os.devnull, "ab") as out, open(errors or os.devnull, "ab") as err, block_signals():
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=out,
                stderr=err if errors else subprocess.STDOUT,
                preexec_fn=partial(die_with, os.getpid()),
                start_new_session=True,  # Ctrl-C goes to us only
            )
            self._processes.append(process)
            if ends_with_stdin:
                self._end_with_stdin.add(process.pid)
        return process

    def request_stop(self, process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGTERM) -> None:
        """Tell a process to end, without waiting for it."""
        if process.stdin:
            with suppress(BrokenPipeError):
                process.stdin.close()
        if process.poll() is None and process.pid not in self._end_with_stdin:
            process.send_signal(by)

    def stop(
        self, process: subprocess.Popen[bytes], *, by: signal.Signals = signal.SIGTERM, patience_s: float = _PATIENCE
    ) -> None:
        """Stop a process, and kill it after `patience_s`."""
        self.request_stop(process, by)
        if process.poll() is None:
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process in self._processes:
            self._processes.remove(process)
            self._end_with_stdin.discard(process.pid)


@contextmanager
def block_signals() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP; only the main thread receives them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, waiting)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, waiting)


def run_command(command: Sequence[str], *, stdin: str | None = None, seconds: float = 30) -> str:
    """Run a command with the given standard input and return its output.

    Raises:
        LabError: it is missing, failed, or timed out.
    """
    try:
        completed = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=seconds, check=False)
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not on this machine (see ikeanalyze lab doctor)") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(command)}: timed out after {seconds:g} s") from None
    if completed.returncode:
        lines = (completed.stderr or completed.stdout).strip().splitlines()
        raise LabError(f"{' '.join(command)}: {lines[-1] if lines else f'status {completed.returncode}'}")
    return completed.stdout


def wait_until_ready(
    is_ready: Callable[[], bool], process: subprocess.Popen[bytes], seconds: float, *, pause_s: float = 0.02
) -> bool:
    """Wait until a started process is ready; return False if it ends before, or is not ready after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            return False
        time.sleep(pause_s)
    return True


def remove_dead_runs() -> list[Path]:
    """Remove and return the folders of killed runs."""
    removed = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another run may remove it at the same time
            # never remove folders of other users or links to them
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
            finally:
                os.close(lock)
    return removed
