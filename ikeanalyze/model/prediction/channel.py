"""Simulates the frame losses of a link, for many runs at once.

Simulates one direction of a link: queueing, transmission time and loss.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ikeanalyze.model.arrays import BoolArray, Float64Array, IndexArray
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, LossBurst


class LossChannel(Protocol):
    """One direction of a link, in as many runs as it was made for."""

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:
        """Which frames are lost: those of one message, in the order of sending.

        Args:
            rows: the runs in which it is sent. (n,)
            times: when each frame leaves, seconds. (n, frames)
        """


def make_channel(link: LinkModel, runs: int, rng: np.random.Generator) -> LossChannel:
    """A direction of `link`, as it is when nothing is known of it yet."""
    if link.burst is None or not link.loss:
        return _Independent(link.loss, rng)
    return _Bursts(link.loss, link.burst, runs, rng)


class _Independent:
    def __init__(self, loss: float, rng: np.random.Generator) -> None:
        self._loss, self._rng = loss, rng

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:  # noqa: ARG002 - time does not matter here
        if not self._loss:
            return np.zeros(times.shape, np.bool_)
        return self._rng.random(times.shape) < self._loss


class _Bursts:
    """Gilbert and Elliott's model: E. O. Elliott, Estimates of error rates for codes on burst-noise channels, 1963.

    Let B be the share of the time that is bad, and s whether it is bad now. In a chain of two states whose bad one
    lasts m on the average, the probability that it is bad a time t later is B + (s - B) * c, where c is exp(-t / (m (1 - B)))
    if time is continuous, and one frame later 1 - 1 / (m (1 - B)) if the chain goes on with each frame.
    """

    def __init__(self, loss: float, burst: LossBurst, runs: int, rng: np.random.Generator) -> None:
        self._rng, self._loss = rng, burst.loss
        self._bad_share = loss / burst.loss
        recovery = burst.mean * (1 - self._bad_share)
        self._kept = 1 - 1 / recovery if burst.of_frames else None  # of what is known of the state, per frame
        self._tau = recovery / 1000  # seconds
        self._bad: BoolArray = rng.random(runs) < self._bad_share
        self._at = np.zeros(runs)

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:
        result = np.empty(times.shape, np.bool_)
        bad, at = self._bad[rows], self._at[rows]
        for i in range(times.shape[1]):
            if self._kept is None:
                # what the last digit of a sum puts before the frame before it finds the state as it is
                kept = np.exp(-np.maximum(times[:, i] - at, 0) / self._tau)
                at = np.maximum(times[:, i], at)
            else:
                kept = np.full(len(rows), self._kept)
            share = self._bad_share
            bad = self._rng.random(len(rows)) < share + (bad - share) * kept
            result[:, i] = bad
        self._bad[rows], self._at[rows] = bad, at
        if self._loss < 1:
            result &= self._rng.random(times.shape) < self._loss
        return result


pass


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
