"""Packets while they are captured: from a pipe, a growing file or dumpcap, without waiting for more than there are."""

import fcntl
import io
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Final, Self

from ikeanalyze.capture.formats.records import CaptureError
from ikeanalyze.capture.formats.source import CaptureSource
from ikeanalyze.capture.reader import CaptureReader
from ikeanalyze.io.decompress import decoder_for

#: Seconds between two looks at an input that has nothing new.
IDLE_SECONDS: Final = 0.25
#: Seconds for which packets that are still on the way are read after `stop`.
_GRACE_SECONDS: Final = 1.0
#: Bytes read at once.
_CHUNK: Final = 1 << 20
_PIPE_BYTES: Final = 1 << 20
#: MiB that the kernel buffers while handshakes are analysed.
_KERNEL_BUFFER: Final = 64
#: Bytes that tell how a file is compressed.
_HEAD: Final = 4
#: dumpcap's statistics of an interface at its end: packets that it received, and that were dropped.
_RECEIVED: Final = re.compile(r"Packets received/dropped on interface '.*': (\d+)/(\d+)")
#: A service manager tells all processes of a service to stop, and dumpcap may be the first to end.
_SIGNAL_SECONDS: Final = 0.5


class LiveInput(io.RawIOBase):
    """The bytes of a capture that is being written. While there are none, `on_idle` is called again and again."""

    def __init__(self, descriptor: int, *, follow: bool = False) -> None:
        """`descriptor` is not closed; `follow`: it is a file that grows, whose end is not the end of the capture."""
        self.on_idle: Callable[[], object] = lambda: None
        self._descriptor = descriptor
        self.follows: Final = follow
        self._deadline: float | None = None
        with suppress(OSError):  # not a pipe, or a user with many of them
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def stop(self, seconds: float = _GRACE_SECONDS) -> None:
        """End the input after what has been written, at the latest after some seconds. Signal handlers may call it."""
        if self._deadline is None:
            self._deadline = time.monotonic() + seconds

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._deadline is not None

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def readinto(self, target: Any) -> int:
        """Read the bytes that are there, at least one; 0 only at the end."""
        while True:
            if self._deadline is not None and time.monotonic() > self._deadline:
                return 0
            if select.select([self._descriptor], [], [], IDLE_SECONDS)[0]:
                count = os.readv(self._descriptor, [target])
                if count or not self.follows or self.stopped:
                    return count
                time.sleep(IDLE_SECONDS)
            self.on_idle()


def open_live_reader(source: LiveInput, name: str) -> CaptureReader:
    """A reader that returns packets as soon as they are written; `name` is for messages.

    Raises:
        CaptureError: the input is empty, compressed or not a capture.
    """
    head = b""
    while len(head) < _HEAD and (more := source.read(_HEAD - len(head))):
        head += more
    if not head:
        raise CaptureError(f"{name}: no packets: the input is empty")
    if decoder_for(head) is not None:
        raise CaptureError(f"{name}: compressed. Decompress it on the way, for example with zcat")
    return CaptureReader(CaptureSource(name, source, None, head), _CHUNK, eager=True)


class DumpcapError(Exception):
    """dumpcap cannot begin to capture, or has stopped; the text is one line for the user."""


class Dumpcap:
    """A dumpcap that writes its capture to a pipe; a context manager that ends it."""

    def __init__(self, interfaces: Sequence[str], capture_filter: str | None) -> None:
        """Start it.

        Raises:
            DumpcapError: dumpcap is not installed.
        """
        program = shutil.which("dumpcap")
        if program is None:
            raise DumpcapError("dumpcap is not installed. Debian has it in the package wireshark-common")
        command = [program, "-q", "-B", str(_KERNEL_BUFFER)]
        for interface in interfaces:
            command += ["-i", interface, *(["-f", capture_filter] if capture_filter else [])]
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        self._told_to_stop = False
        # in a session of its own, so that Ctrl-C reaches this process alone, which then ends dumpcap
        self._process = subprocess.Popen(
            [*command, "-w", "-"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            start_new_session=True,
        )

    @property
    def descriptor(self) -> int:
        """The end of the pipe to read from."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def stop(self) -> None:
        """Tell dumpcap to write what it has, and to end."""
        self._told_to_stop = True
        if self._process.poll() is None:
            self._process.terminate()

    def finish(self) -> int | None:
        """Wait for the end of dumpcap, and return how many packets the kernel dropped; None: unknown.

        Raises:
            DumpcapError: dumpcap failed, or ended before `stop`: it was killed, or its interface was removed, for which
                its status is 0.
        """
        status = self._process.wait()
        self._messages.seek(0)
        lines = self._messages.read().decode(errors="replace").splitlines()
        if status > 0:
            reasons = [line.removeprefix("dumpcap: ") for line in lines if line and not line.startswith("Capturing on")]
            raise DumpcapError(f"dumpcap: {' '.join(reasons) or f'exit status {status}'}")
        if not self._told_to_stop:
            time.sleep(_SIGNAL_SECONDS)
        if not self._told_to_stop:
            said = [line.removeprefix("dumpcap: ") for line in lines if line.startswith("dumpcap: ")]
            how = f"was ended by signal {-status}" if status else "ended by itself"
            raise DumpcapError(f"dumpcap: {' '.join(said)}" if said else f"dumpcap {how}; the capture has stopped")
        counts = [match for line in lines if (match := _RECEIVED.search(line))]
        return sum(int(match[2]) for match in counts) if counts else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._messages.close()
