"""Link emulator in user space for kernels without netem: relays Ethernet frames between two interfaces.

Runs as `python -m ikeanalyze.lab.network.relay` in the interfaces' namespace. In each direction, a frame is lost with a
given probability, or delayed by the given rate and half the round-trip time with jitter (uniform, without reordering).
Counts are written to standard output at the end; a file always has the number of frames in flight.
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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
        return {
            "received": self.received,
            "lost": self.lost,
            "overflowed": self.overflowed,
            "undelivered": self.waiting,
        }


def _opened(interface: str) -> socket.socket:
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
    opened.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    try:  # more than a process may have by default
        opened.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
    except PermissionError:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    opened.bind((interface, 0))
    opened.setblocking(False)
    return opened


def _missed(opened: socket.socket) -> int:
    """Return the frames dropped by a full socket buffer since the last call."""
    _, missed = struct.unpack("II", opened.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
    return int(missed)


def relay_frames(a: str, b: str, there: RelayDirection, back: RelayDirection, waiting: int | None) -> None:
    """Relay frames until SIGTERM. `waiting`: file for the number of frames in flight, 4 octets in host order."""
    ends = [_opened(a), _opened(b)]
    ways = [(ends[0], ends[1], there), (ends[1], ends[0], back)]
    print("ready", file=sys.stderr, flush=True)
    try:
        _carry(ends, ways, waiting)
    finally:
        for source, _, way in ways:
            missed = _missed(source)
            way.received += missed
            way.overflowed += missed


def _carry(
    ends: list[socket.socket],
    ways: list[tuple[socket.socket, socket.socket, RelayDirection]],
    waiting: int | None,
) -> None:
    written = -1
    while True:
        now_waiting = sum(way.waiting for *_, way in ways)
        if waiting is not None and now_waiting != written:
            written = now_waiting
            os.pwrite(waiting, struct.pack("I", written), 0)
        coming = [at for *_, way in ways if (at := way.next_at) is not None]
        timeout = max(min(coming) - time.monotonic(), 0.0) if coming else None
        readable = select.select(ends, [], [], timeout)[0]
        for source, target, way in ways:
            if source in readable:
                try:
                    while True:
                        way.add_frame(source.recv(65_536), time.monotonic())
                except BlockingIOError:
                    pass
            for frame in way.pop_due(time.monotonic()):
                try:
                    target.send(frame)
                except OSError:
                    way.overflowed += 1  # the interface is down, or its queue is full


def main(arguments: list[str] | None = None) -> None:
    """Read the options and relay frames."""
    parser = argparse.ArgumentParser(prog="ikeanalyze.lab.network.relay")
    parser.add_argument("interfaces", nargs=2)
    for name in ("delay-ms", "jitter-ms", "loss-percent", "rate-kbps"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--waiting", type=Path)
    options = parser.parse_args(arguments)
    chance = random.Random(options.seed)
    there, back = (
        RelayDirection(
            options.delay_ms / 1e3,
            options.jitter_ms / 1e3,
            options.loss_percent / 100,
            options.rate_kbps * 1e3,
            random.Random(chance.random()),
        )
        for _ in range(2)
    )

    def end(*_: Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, end)
    waiting = os.open(options.waiting, os.O_CREAT | os.O_WRONLY, 0o600) if options.waiting else None
    try:
        relay_frames(options.interfaces[0], options.interfaces[1], there, back, waiting)
    finally:
        json.dump({"there": there.counts, "back": back.counts}, sys.stdout)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
