"""Records the links of initiator and responder with dumpcap, one named pcapng interface per link."""

import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final, Protocol

from ikeanalyze.lab import LabError
from ikeanalyze.lab.network.namespaces import NetnsSandbox, wait_until_ready

#: IKE, ESP in UDP, RADIUS, IP fragments, ICMP errors (of ICMPv6 the types below 128); not ARP and neighbour discovery.
_FILTER: Final = "udp or icmp or esp or (ip[6:2] & 0x1fff != 0) or ip6[6] == 44 or (ip6[6] == 58 and ip6[40] < 128)"
_START_SECONDS: Final = 15
#: Time until frames are in the file, which dumpcap writes from the kernel's buffers.
CAPTURE_LAG_SECONDS: Final = 0.7
#: editcap's message about a file that ends in the middle of a frame, which some versions treat as a failure.
_CUT_SHORT: Final = "cut short"
#: Time limit for editcap.
_CUT_SECONDS: Final = 120
#: Limits for a capture.
_MAX_KILOBYTES: Final = 1 << 20
_MAX_SECONDS: Final = 24 * 3600
#: dumpcap's final statistics for each interface: dropped packets.
_DROPPED: Final = re.compile(r"Packets received/dropped on interface '.*': \d+/(\d+) ")


class RecordedHost(Protocol):
    """A host at which dumpcap runs."""

    @property
    def name(self) -> str:
        """Its name in the case."""

    @property
    def folder(self) -> Path:
        """Our folder for its files."""

    def start_recorder(self, sandbox: NetnsSandbox, command: list[str], path: Path, output: Path) -> Popen[bytes]:
        """Start dumpcap with its capture in `path` and its messages in `output`."""


@dataclass(slots=True)
class DumpcapRecording:
    """A running capture."""

    host: str
    sandbox: NetnsSandbox
    process: Popen[bytes]
    path: Path
    output: Path  # dumpcap's messages

    @property
    def alive(self) -> bool:
        """Whether it is running: dumpcap ends on a full disk or at its limits."""
        return self.process.poll() is None

    def stop(self) -> Path:
        """Stop the capture; return its path.

        Raises:
            LabError: it ended before, so that packets are missing.
        """
        if not self.alive:
            lines = [line for line in self._log.strip().splitlines() if not _DROPPED.match(line)]
            raise LabError(f"dumpcap ended by itself: {lines[-1] if lines else 'no message'}")
        self.sandbox.stop(self.process, by=signal.SIGINT)
        if not self.path.exists():
            raise LabError("dumpcap left no capture")
        return self.path

    @property
    def dropped(self) -> int | None:
        """Frames missing in the finished capture; None if dumpcap does not report it."""
        dropped = _DROPPED.findall(self._log)
        return sum(map(int, dropped)) if dropped else None

    @property
    def _log(self) -> str:
        return self.output.read_text(errors="replace")


@dataclass(frozen=True, slots=True)
class LabRecordings:
    """The captures of a case, each at another host."""

    recordings: Sequence[DumpcapRecording]

    @property
    def alive(self) -> bool:
        """Whether all are running."""
        return all(recording.alive for recording in self.recordings)

    def stop(self, max_delay_s: float = 0.0) -> dict[str, Path]:
        """Stop the captures when they have all packets; return their paths by host.

        `max_delay_s`: the longest delay of a frame.

        Raises:
            LabError: a capture ended before, so that packets are missing.
        """
        time.sleep(CAPTURE_LAG_SECONDS + max_delay_s)
        return {recording.host: recording.stop() for recording in self.recordings}

    @property
    def paths(self) -> dict[str, Path]:
        """The files of the captures by host."""
        return {recording.host: recording.path for recording in self.recordings}

    @property
    def dropped(self) -> int | None:
        """Frames missing in the finished captures; None if dumpcap does not report it."""
        dropped = [recording.dropped for recording in self.recordings]
        return None if None in dropped else sum(number or 0 for number in dropped)


def start_recording(
    sandbox: NetnsSandbox, host: RecordedHost, interfaces: list[str], *, peer: str | None = None
) -> DumpcapRecording:
    """Start to record; packets sent after the return are in the capture. `peer`: only those from or to this address.

    Raises:
        LabError: dumpcap does not start.
    """
    path, output = host.folder / "capture.pcapng", host.folder / "dumpcap"
    command = ["dumpcap", "-n", "-f", f"({_FILTER}) and host {peer}" if peer else _FILTER]
    for interface in interfaces:
        command += ["-i", interface]
    command += ["-s", "65535", "-a", f"filesize:{_MAX_KILOBYTES}", "-a", f"duration:{_MAX_SECONDS}"]
    process = host.start_recorder(sandbox, command, path, output)
    if not wait_until_ready(lambda: "File: " in output.read_text(errors="replace"), process, _START_SECONDS):
        # the failed operation and the reason are a line each
        lines = output.read_text(errors="replace").strip().splitlines()
        raise LabError(f"dumpcap did not start: {' '.join(lines[-2:]) or 'no message'}")
    return DumpcapRecording(host.name, sandbox, process, path, output)


def cut_capture(source: Path, target: Path, at_s: float) -> None:
    """Copy the frames before a time, in seconds since the epoch. A last frame that is incomplete is left out.

    Raises:
        LabError: editcap is missing or fails.
        OSError: the disk is full.
    """
    command = ["editcap", "-B", f"{at_s:.6f}", str(source), str(target)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=_CUT_SECONDS, check=False)
    except FileNotFoundError:
        raise LabError("editcap is not on this machine (see ikeanalyze lab doctor)") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"editcap: timed out after {_CUT_SECONDS} s") from None
    if (completed.returncode and _CUT_SHORT not in completed.stderr) or not target.exists():
        lines = completed.stderr.strip().splitlines()
        raise LabError(f"editcap: {lines[-1] if lines else f'status {completed.returncode}'}")
