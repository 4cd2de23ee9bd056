"""Link emulator in user space for kernels without netem: relays Ethernet frames between two interfaces.

Runs as `python -m ikeanalyze.lab.network.relay` in the interfaces' namespace. In each direction, a frame is lost with a
given probability, or delayed by the given rate and half the round-trip time with jitter (uniform, without reordering).
Counts are written to standard output at the end. A file always has the number of frames in flight, without those in the
sockets' buffers.
"""

import argparse
import heapq
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_ETH_P_ALL: Final = 3
_SOL_PACKET: Final = 263
_PACKET_IGNORE_OUTGOING: Final = 23
_PACKET_STATISTICS: Final = 6
_SO_RCVBUFFORCE: Final = 33
#: Socket buffer.
_BUFFER_BYTES: Final = 32 << 20
#: Limit for the frames in flight in one direction; more are dropped.
MAX_QUEUED: Final = 20_000


@dataclass(slots=True)
class RelayDirection:
    """One direction of the link, without sockets and clock. Times in seconds."""

    delay: float
    jitter: float
    loss: float  # a probability
    bits_per_second: float  # 0: no limit
    random: random.Random
    received: int = 0
    lost: int = 0
    overflowed: int = 0
    unread: int = 0  # frames in the socket's buffer when the relay ended
    _free_at: float = 0.0  # when the last frame is out at the given rate
    _last: float = 0.0  # when the last frame arrives
    _queue: list[tuple[float, int, bytes]] = field(default_factory=list)

    def add_frame(self, frame: bytes, now: float) -> None:
        """Add a received frame."""
        self.received += 1
        if self.random.random() < self.loss:
            self.lost += 1
            return
        if len(self._queue) >= MAX_QUEUED:
            self.overflowed += 1
            return
        sent = now
        if self.bits_per_second:
            sent = max(now, self._free_at) + len(frame) * 8 / self.bits_per_second
            self._free_at = sent
        wait = self.delay + self.random.uniform(-self.jitter, self.jitter)
        self._last = max(sent + max(wait, 0.0), self._last)
        heapq.heappush(self._queue, (self._last, self.received, frame))

    def pop_due(self, now: float) -> list[bytes]:
        """Return the frames that are due, in order."""
        frames = []
        while self._queue and self._queue[0][0] <= now:
            frames.append(heapq.heappop(self._queue)[2])
        return frames

    @property
    def next_at(self) -> float | None:
        """When the next frame is due; None: no frame is in flight."""
        return self._queue[0][0] if self._queue else None

    @property
    def waiting(self) -> int:
        """Number of frames in flight."""
        return len(self._queue)

    @property
    def counts(self) -> dict[str, int]:
        """Counts of frames by result."""
        counts = {"received": self.received, "lost": self.lost, "overflowed": self.overflowed}
        return {**counts, "undelivered": self.waiting + self.unread}

    def add_rest(self, came: int, overflows: int) -> None:
        """Add what was not relayed: of the frames that came, those for which the socket had no room or that it has."""
        self.overflowed += overflows
        self.unread = max(came - overflows - self.received, 0)
        self.received += overflows + self.unread


def _open_socket(interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    sock.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    try:  # more than a process may have by default
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    sock.bind((interface, 0))
    return sock


def _count_frames(sock: socket.socket) -> tuple[int, int]:
    """Return how many frames came to a socket, and how many of them its full buffer dropped, since the last call."""
    came, dropped = struct.unpack("II", sock.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    return came, dropped


def relay_frames(a: str, b: str, there: RelayDirection, back: RelayDirection, waiting: int | None) -> None:
    """Relay frames until SIGTERM. `waiting`: file for the number of frames in flight, 4 octets in host order."""
    first, second = _open_socket(a), _open_socket(b)
    routes = [(first, second, there), (second, first, back)]
    print("ready", file=sys.stderr, flush=True)
    try:
        _relay_until_signal(routes, waiting)
    finally:
        for source, _, direction in routes:
            direction.add_rest(*_count_frames(source))


def _relay_until_signal(routes: list[tuple[socket.socket, socket.socket, RelayDirection]], waiting: int | None) -> None:
    written = -1

    def write_in_flight(at_hand: int) -> None:
        nonlocal written
        in_flight = at_hand + sum(direction.waiting for *_, direction in routes)
        if waiting is not None and in_flight != written:
            written = in_flight
            os.pwrite(waiting, struct.pack("I", written), 0)

    while True:
        write_in_flight(0)
        due = [at for *_, direction in routes if (at := direction.next_at) is not None]
        timeout = max(min(due) - time.monotonic(), 0.0) if due else None
        readable = select.select([source for source, *_ in routes], [], [], timeout)[0]
        if readable:  # a frame is in flight before it has left the socket
            write_in_flight(len(readable))
        for source, target, direction in routes:
            with suppress(BlockingIOError):
                while source in readable:
                    direction.add_frame(source.recv(65_536, socket.MSG_DONTWAIT), time.monotonic())
            for frame in direction.pop_due(time.monotonic()):
                try:  # waits while a busy machine's kernel has yet to hand over what was sent before
                    target.send(frame)
                except OSError:
                    direction.overflowed += 1  # the interface is down, or its queue is full


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the counting
    sys.exit()


def main(arguments: list[str] | None = None) -> None:
    """Read the options and relay frames."""
    parser = argparse.ArgumentParser(prog="ikeanalyze.lab.network.relay")
    parser.add_argument("interfaces", nargs=2)
    parser.add_argument("--jitter-ms", type=float, default=0.0)
    for name in ("delay-ms", "loss-percent", "rate-kbps"):  # of each direction: from the first interface, and to it
        parser.add_argument(f"--{name}", type=float, nargs=2, default=(0.0, 0.0))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--waiting", type=Path)
    options = parser.parse_args(arguments)
    rng = random.Random(options.seed)
    there, back = (
        RelayDirection(delay / 1e3, options.jitter_ms / 1e3, loss / 100, rate * 1e3, random.Random(rng.random()))
        for delay, loss, rate in zip(options.delay_ms, options.loss_percent, options.rate_kbps, strict=True)
    )
    signal.signal(signal.SIGTERM, _end)
    waiting = os.open(options.waiting, os.O_CREAT | os.O_WRONLY, 0o600) if options.waiting else None
    try:
        relay_frames(options.interfaces[0], options.interfaces[1], there, back, waiting)
    finally:
        json.dump({"there": there.counts, "back": back.counts}, sys.stdout)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
