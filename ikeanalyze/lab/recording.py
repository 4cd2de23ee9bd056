"""Recording: dumpcap on the responder, which has both links; one named interface of the pcapng per link."""

import re
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox

#: IKE, ESP in UDP, RADIUS, IP fragments, ICMP errors (of ICMPv6 the types below 128); not ARP and neighbour discovery.
_FILTER: Final = "udp or icmp or esp or (ip[6:2] & 0x1fff != 0) or ip6[6] == 44 or (ip6[6] == 58 and ip6[40] < 128)"
_START_SECONDS: Final = 15
#: How long what is in the kernel's buffers may take to reach the file.
_SETTLE_SECONDS: Final = 0.7
#: Bounds on what one capture may grow to, whatever happens.
_MAX_KILOBYTES: Final = 1 << 20
_MAX_SECONDS: Final = 24 * 3600
#: What dumpcap says of each interface at its end: of these, how many it did not get to write.
_DROPPED: Final = re.compile(r"Packets received/dropped on interface '.*': \d+/(\d+) ")


@dataclass(slots=True)
class DumpcapRecording:
    """A capture being taken."""

    sandbox: NetnsSandbox
    process: Popen[bytes]
    path: Path
    #: What dumpcap says.
    output: Path

    @property
    def alive(self) -> bool:
        """Whether it is being taken: it ends by itself where the disk is full, or at its bounds."""
        return self.process.poll() is None

    def stop(self, max_delay_s: float = 0.0) -> Path:
        """End it when all that was sent is in it; where it is. `way_seconds`: how long a frame may be on its way to here.

        Errors:
            LabError: it ended by itself before, so that not all is in it.
        """
        time.sleep(_SETTLE_SECONDS + max_delay_s)
        if not self.alive:
            lines = [line for line in self._said.strip().splitlines() if not _DROPPED.match(line)]
            raise LabError(f"dumpcap ended by itself: {lines[-1] if lines else 'it says nothing'}")
        self.sandbox.stop(self.process, by=signal.SIGINT)
        if not self.path.exists():
            raise LabError("dumpcap left no capture")
        return self.path

    @property
    def dropped(self) -> int | None:
        """Frames that did not get into it, once it has ended; null where dumpcap does not tell."""
        dropped = _DROPPED.findall(self._said)
        return sum(map(int, dropped)) if dropped else None

    @property
    def _said(self) -> str:
        return self.output.read_text(errors="replace")


def start_recording(sandbox: NetnsSandbox, host: Netns, interfaces: list[str]) -> DumpcapRecording:
    """Begin to record; what is sent after the return is in the capture.

    Errors:
        LabError: dumpcap does not come up.
    """
    path, output = host.folder / "capture.pcapng", host.folder / "dumpcap"
    command = ["dumpcap", "-n", "-f", _FILTER]
    for interface in interfaces:
        command += ["-i", interface]
    command += [
        "-s",
        "65535",
        "-w",
        str(path),
        "-a",
        f"filesize:{_MAX_KILOBYTES}",
        "-a",
        f"duration:{_MAX_SECONDS}",
    ]
    process = sandbox.start(host.command(*command), output=output)
    deadline = time.monotonic() + _START_SECONDS
    while "File: " not in (said := output.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = said.strip().splitlines()
            # what it wanted to do, and why it could not, are a line each
            raise LabError(f"dumpcap did not start: {' '.join(lines[-2:]) or 'it says nothing'}")
        time.sleep(0.02)
    return DumpcapRecording(sandbox, process, path, output)
