"""Recording: dumpcap on the responder, which has both links; one named interface of the pcapng per link."""

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Final

from ikeanalyze.lab import LabError
from ikeanalyze.lab.space import Host, Space

#: IKE, ESP in UDP, RADIUS, IP fragments, ICMP errors; not ARP and neighbour discovery.
_FILTER: Final = "udp or icmp or esp or (ip[6:2] & 0x1fff != 0) or ip6[6] == 44"
_START_SECONDS: Final = 15
#: How long what is in the kernel's buffers may take to reach the file.
_SETTLE_SECONDS: Final = 0.7
#: Bounds on what one capture may grow to, whatever happens.
_MOST_KILOBYTES: Final = 1 << 20
_MOST_SECONDS: Final = 24 * 3600


@dataclass(slots=True)
class Recording:
    """A capture being taken."""

    space: Space
    process: Popen[bytes]
    path: Path

    def stop(self) -> Path:
        """End it when all that was sent is in it; where it is."""
        time.sleep(_SETTLE_SECONDS)
        self.space.stop(self.process, by=signal.SIGINT)
        if not self.path.exists():
            raise LabError("dumpcap left no capture")
        return self.path


def start(space: Space, host: Host, interfaces: list[str]) -> Recording:
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
        f"filesize:{_MOST_KILOBYTES}",
        "-a",
        f"duration:{_MOST_SECONDS}",
    ]
    process = space.start(host.inside(*command), output=output)
    deadline = time.monotonic() + _START_SECONDS
    while "File: " not in (said := output.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = said.strip().splitlines()
            # what it wanted to do, and why it could not, are a line each
            raise LabError(f"dumpcap did not start: {' '.join(lines[-2:]) or 'it says nothing'}")
        time.sleep(0.02)
    return Recording(space, process, path)
