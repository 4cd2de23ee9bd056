"""Emulates delay, jitter, loss, rate and dropped IP fragments on the path between two hosts.

Frames are lost at the receiver after the capture if nftables supports it (`losses`), so that a capture on either host
has all transmissions; otherwise in the path. Delay, jitter and rate use netem if the kernel has it, otherwise `relay`.
"""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ikeanalyze.lab import LabError
from ikeanalyze.lab.network.namespaces import Netns, NetnsSandbox, wait_until_ready
from ikeanalyze.lab.network.topology import FAR, NEAR
from ikeanalyze.lab.scenario.links import DIRECTIONS, Direction, LinkConditions

_START_TIMEOUT_SECONDS: Final = 10
#: A link is idle after this many checks without frames in flight, with this pause between them.
_IDLE_CHECKS: Final = 3
_CHECK_SECONDS: Final = 0.03
#: The end of a path at which the frames of a direction leave it.
_EXITS: Final[dict[Direction, str]] = {"up": FAR, "down": NEAR}


class Emulator(Protocol):
    """A path that carries frames."""

    kind: str  # "netem", "relay" or "bridge"

    @property
    def alive(self) -> bool:
        """Whether it is running."""

    def count_in_flight(self) -> int:
        """Return the number of frames in flight."""

    def stop(self) -> dict[str, dict[str, int]]:
        """Stop it; return its counts per direction, if any."""


@dataclass(slots=True)
class NetemEmulator:
    """A bridge, with netem on both ports unless the link is perfect."""

    kind: str
    path: Netns
    alive: bool = True

    def count_in_flight(self) -> int:
        """Return the number of frames in netem's queues."""
        if self.kind == "bridge":
            return 0
        reports = (self.path.run("tc", "-j", "-s", "qdisc", "show", "dev", end) for end in (NEAR, FAR))
        return sum(int(queue.get("qlen", 0)) for report in reports for queue in json.loads(report))

    def stop(self) -> dict[str, dict[str, int]]:
        """The bridge is removed with its namespace."""
        return {}


@dataclass(slots=True)
class RelayEmulator:
    """Our relay in user space."""

    sandbox: NetnsSandbox
    process: subprocess.Popen[bytes]
    output: Path
    in_flight_file: Path  # file with the number of frames in flight that it has read
    kind: str = "relay"

    @property
    def alive(self) -> bool:
        """Whether it is running."""
        return self.process.poll() is None

    def count_in_flight(self) -> int:
        """Return the number of frames in the relay's queues, or 1 if it has yet to read some."""
        unread = self._has_unread_frames()  # first: what it reads in between is in the file
        count: int = struct.unpack("I", self.in_flight_file.read_bytes())[0]
        return max(count, int(unread))

    def _has_unread_frames(self) -> bool:
        """Return whether the buffers of its sockets have frames; a busy machine lets it wait (packet(7), proc(5))."""
        process = Path(f"/proc/{self.process.pid}")
        try:
            files = {os.readlink(entry) for entry in (process / "fd").iterdir()}
            _, *sockets = (process / "net/packet").read_text().splitlines()
        except OSError:  # it has ended
            return False
        # sk RefCnt Type Proto Iface R Rmem User Inode
        fields = [line.split() for line in sockets]
        return any(int(octets) and f"socket:[{inode}]" in files for *_, octets, _, inode in fields)

    def stop(self) -> dict[str, dict[str, int]]:
        """Stop the relay; return its counts."""
        self.sandbox.stop(self.process)
        lines = self.output.read_text().splitlines()
        try:
            counts: dict[str, dict[str, int]] = json.loads(lines[-1])
        except (IndexError, ValueError):
            return {}
        return counts


def start_emulator(
    sandbox: NetnsSandbox,
    path: Netns,
    conditions: LinkConditions,
    *,
    netem: bool,
    drops_at_receiver: bool,
    seed: int | None = None,
) -> Emulator:
    """Connect the two ends of a path: by a bridge if the link is perfect, else by netem or our relay.

    Args:
        sandbox: stops the relay at its end.
        path: the namespace between the hosts, with an interface to each.
        conditions: delays, rates and losses of the link.
        netem: whether the kernel has netem.
        drops_at_receiver: whether the receivers lose the frames, so that the path loses none.
        seed: of the relay's losses and jitter; None: random.

    Raises:
        LabError: the losses are not possible on this machine, or the relay does not start.
    """
    check_losses(conditions, drops_at_receiver=drops_at_receiver)
    directions = [conditions.get_direction(direction) for direction in DIRECTIONS]
    losses = [0.0 if drops_at_receiver else way.loss * 100 for way in directions]
    perfect = not conditions.jitter_ms and not any(losses)
    perfect = perfect and not any(way.delay_ms or way.rate_kbps for way in directions)
    if perfect or netem:
        _add_bridge(path)
        if not perfect:
            for direction, loss in zip(DIRECTIONS, losses, strict=True):
                path.run(*build_netem_command(direction, conditions, loss))
        return NetemEmulator("bridge" if perfect else "netem", path)
    output, in_flight_file = path.folder / "relay", path.folder / "waiting"
    in_flight_file.write_bytes(bytes(4))
    command = [sys.executable, "-m", "ikeanalyze.lab.network.relay", NEAR, FAR]
    command += [f"--jitter-ms={conditions.jitter_ms}", f"--waiting={in_flight_file}"]
    command += ["--delay-ms", *(str(way.delay_ms) for way in directions)]
    command += ["--rate-kbps", *(str(way.rate_kbps) for way in directions)]
    command += ["--loss-percent", *map(str, losses)]
    if seed is not None:
        command.append(f"--seed={seed}")
    process = sandbox.start(path.command(*command), output=output)
    if not wait_until_ready(lambda: "ready" in output.read_text(), process, _START_TIMEOUT_SECONDS):
        raise LabError(f"the link emulator did not start: {output.read_text().strip() or 'no message'}")
    return RelayEmulator(sandbox, process, output, in_flight_file)


def wait_until_idle(emulators: Iterable[Emulator], seconds: float) -> None:
    """Wait until no frame is in flight and no daemon responds, at most `seconds`."""
    deadline = time.monotonic() + seconds
    slow = [emulator for emulator in emulators if emulator.kind != "bridge"]
    quiet = 0
    while slow and quiet < _IDLE_CHECKS and time.monotonic() < deadline:
        quiet = 0 if any(emulator.alive and emulator.count_in_flight() for emulator in slow) else quiet + 1
        time.sleep(_CHECK_SECONDS)


def check_losses(conditions: LinkConditions, *, drops_at_receiver: bool) -> None:
    """Check that the frames of a link can be lost: at the receiver, or by the relay or netem.

    Raises:
        LabError: they cannot.
    """
    if drops_at_receiver:
        return
    for key, value in (
        ("dropping frames of a kind", any(conditions.drops_frames(direction) for direction in DIRECTIONS)),
        ("a seed of losses", conditions.seed and conditions.loses_frames),
        ("burst loss", conditions.burst and conditions.loses_frames),
    ):
        if value:
            raise LabError(f"{key} needs nftables with the hook ingress: apt install nftables (ikeanalyze lab doctor)")


def build_netem_command(direction: Direction, conditions: LinkConditions, loss_percent: float) -> list[str]:
    """Return the command that applies a link's conditions to the frames of a direction."""
    way = conditions.get_direction(direction)
    command = ["tc", "qdisc", "add", "dev", _EXITS[direction], "root", "netem", "limit", "20000"]
    if way.delay_ms or conditions.jitter_ms:
        command += ["delay", f"{way.delay_ms:g}ms"]
        command += [f"{conditions.jitter_ms:g}ms"] if conditions.jitter_ms else []
    if loss_percent:
        command += ["loss", f"{loss_percent:g}%"]
    if way.rate_kbps:
        command += ["rate", f"{way.rate_kbps:g}kbit"]
    return command


def _add_bridge(path: Netns) -> None:
    path.run("ip", "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0", "stp_state", "0")
    path.run("sysctl", "-qw", "net.ipv6.conf.bridge.disable_ipv6=1")
    for end in (NEAR, FAR):
        path.run("ip", "link", "set", end, "master", "bridge")
    path.run("ip", "link", "set", "bridge", "up")
