"""Simulates one direction of a link: queueing, transmission time and loss."""

from dataclasses import dataclass, field

import numpy as np

from ikeanalyze.model.arrays import Float64Array, IndexArray
from ikeanalyze.model.layout import PacketizedMessage
from ikeanalyze.model.link import LinkModel
from ikeanalyze.model.loss import LossChannel, make_channel


@dataclass(slots=True)
class LinkDirection:
    """From one side to the other, in many runs at once; counts what it was given."""

    link: LinkModel
    rate: float | None  # bit/s
    rng: np.random.Generator
    losses: LossChannel
    free: Float64Array  # when the line has sent all that it was given, seconds. (runs,)
    messages: Float64Array  # (runs,), as the next two
    frames: Float64Array
    bytes: Float64Array
    last: Float64Array  # when the last frame that was not lost is there, seconds: jitter lets none overtake it. (runs,)
    _delay: float = field(init=False)

    def __post_init__(self) -> None:
        self._delay = self.link.rtt_ms / 2000

    @classmethod
    def of(cls, link: LinkModel, runs: int, rng: np.random.Generator, *, up: bool) -> "LinkDirection":
        """From the initiator (`up`) or to it."""
        rate = link.rate_up if up else link.rate_down
        counts = [np.zeros(runs) for _ in range(5)]
        return cls(link, rate, rng, make_channel(link, runs, rng), *counts)

    def send(
        self, rows: IndexArray, at: Float64Array, laid: PacketizedMessage, *, counted: bool = True
    ) -> Float64Array:
        """Send a message in the runs `rows` at the times `at` (n,); gives when each of its parts is there (n, parts).

        What is lost is there at infinity. `counted`: it is an IKE message (and not TCP's own).
        """
        self.messages[rows] += counted
        self.frames[rows] += laid.frames
        self.bytes[rows] += laid.bytes
        sizes = np.array([size for part in laid.parts for size in part], np.float64)
        if self.rate is None:
            left = np.broadcast_to(at[:, None], (len(rows), len(sizes)))
        else:
            left = np.maximum(at, self.free[rows])[:, None] + np.cumsum(sizes * 8 / self.rate)
            self.free[rows] = left[:, -1]
        there = left + self._delay
        if jitter := self.link.jitter_ms / 1000:
            there = there + self.rng.uniform(-jitter, jitter, (len(rows), 1))
            there = np.maximum(there, self.last[rows][:, None])
        lost = self.losses.draw_losses(rows, left)
        if jitter:
            self.last[rows] = np.maximum(self.last[rows], np.where(lost, 0.0, there).max(axis=1))
        there = np.where(lost, np.inf, there)
        starts = np.cumsum([0, *(len(part) for part in laid.parts[:-1])])
        # a datagram is there when the last of its frames is
        arrived: Float64Array = np.maximum.reduceat(there, starts, axis=1)
        if self.link.drop_ip_fragments:
            arrived[:, [len(part) > 1 for part in laid.parts]] = np.inf
        return arrived
