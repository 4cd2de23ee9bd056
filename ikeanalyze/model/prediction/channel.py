"""Simulates one direction of a link in many runs at once: queueing, transmission time, jitter and losses."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ikeanalyze.model.arrays import BoolArray, Float64Array, IndexArray
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, LossBurst


class LossChannel(Protocol):
    """The losses of one direction of a link in many runs."""

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:
        """Return which frames of a message are lost. (n, frames)

        Args:
            rows: the runs in which the message is sent. (n,)
            times: when each frame is sent, seconds, in order. (n, frames)
        """


def make_channel(link: LinkModel, runs: int, rng: np.random.Generator) -> LossChannel:
    """Return the losses of a direction of `link`, in a random initial state."""
    if link.burst is None or not link.loss:
        return _IndependentLosses(link.loss, rng)
    return _BurstLosses(link.loss, link.burst, runs, rng)


class _IndependentLosses:
    def __init__(self, loss: float, rng: np.random.Generator) -> None:
        self._loss, self._rng = loss, rng

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:  # noqa: ARG002
        if not self._loss:
            return np.zeros(times.shape, np.bool_)
        return self._rng.random(times.shape) < self._loss


class _BurstLosses:
    """Gilbert and Elliott's model: E. O. Elliott, Estimates of error rates for codes on burst-noise channels, 1963.

    Let B be the share of time in the bad state, and s = 1 in the bad state and 0 in the good one. In a chain of two
    states whose bad state has the mean length m, the probability of the bad state after a time t is B + (s - B) * c,
    where c is exp(-t / (m (1 - B))) in continuous time, and 1 - 1 / (m (1 - B)) for one step of a chain that advances
    per frame.
    """

    def __init__(self, loss: float, burst: LossBurst, runs: int, rng: np.random.Generator) -> None:
        self._rng, self._loss = rng, burst.loss
        self._bad_share = loss / burst.loss
        recovery = burst.mean * (1 - self._bad_share)
        # c for one frame
        self._correlation = 1 - sum(burst.compute_transitions(loss)) if burst.of_frames else None
        self._tau = recovery / 1000  # seconds
        self._bad: BoolArray = rng.random(runs) < self._bad_share
        self._at = np.zeros(runs)

    def draw_losses(self, rows: IndexArray, times: Float64Array) -> BoolArray:
        result = np.empty(times.shape, np.bool_)
        bad, at = self._bad[rows], self._at[rows]
        for i in range(times.shape[1]):
            if self._correlation is None:
                # a rounding error may put a frame before the previous one; the state is then the same
                correlation = np.exp(-np.maximum(times[:, i] - at, 0) / self._tau)
                at = np.maximum(times[:, i], at)
            else:
                correlation = np.full(len(rows), self._correlation)
            share = self._bad_share
            bad = self._rng.random(len(rows)) < share + (bad - share) * correlation
            result[:, i] = bad
        self._bad[rows], self._at[rows] = bad, at
        if self._loss < 1:
            result &= self._rng.random(times.shape) < self._loss
        return result


@dataclass(slots=True)
class LinkDirection:
    """One direction of a link in many runs; counts the messages, frames and bytes that are sent."""

    link: LinkModel
    rate: float | None  # bit/s
    rng: np.random.Generator
    losses: LossChannel
    free: Float64Array  # when the queue is empty, seconds. (runs,)
    messages: Float64Array  # (runs,), as the next two
    frames: Float64Array
    bytes: Float64Array
    last: Float64Array  # arrival of the last frame that was not lost, seconds; jitter does not reorder. (runs,)

    @classmethod
    def of(cls, link: LinkModel, runs: int, rng: np.random.Generator, *, up: bool) -> "LinkDirection":
        """Make the direction from the initiator (`up`) or to it."""
        rate = link.rate_up if up else link.rate_down
        counts = [np.zeros(runs) for _ in range(5)]
        return cls(link, rate, rng, make_channel(link, runs, rng), *counts)

    def send(
        self, rows: IndexArray, at: Float64Array, message: PacketizedMessage, *, counted: bool = True
    ) -> Float64Array:
        """Send a message in the runs `rows` at the times `at`. (n,)

        Returns when each of its parts arrives, in seconds; infinity: it is lost. (n, parts) `counted`: whether it
        counts as an IKE message.
        """
        self.messages[rows] += counted
        self.frames[rows] += message.frames
        self.bytes[rows] += message.bytes
        sizes = np.array([size for part in message.parts for size in part], np.float64)
        if self.rate is None:
            sent = np.broadcast_to(at[:, None], (len(rows), len(sizes)))
        else:
            sent = np.maximum(at, self.free[rows])[:, None] + np.cumsum(sizes * 8 / self.rate)
            self.free[rows] = sent[:, -1]
        arrival = sent + self.link.rtt_ms / 2000
        if jitter := self.link.jitter_ms / 1000:
            arrival = arrival + self.rng.uniform(-jitter, jitter, (len(rows), 1))
            arrival = np.maximum(arrival, self.last[rows][:, None])
        lost = self.losses.draw_losses(rows, sent)
        if jitter:
            self.last[rows] = np.maximum(self.last[rows], np.where(lost, 0.0, arrival).max(axis=1))
        arrival = np.where(lost, np.inf, arrival)
        starts = np.cumsum([0, *(len(part) for part in message.parts[:-1])])
        # a datagram arrives with the last of its frames
        arrived: Float64Array = np.maximum.reduceat(arrival, starts, axis=1)
        if self.link.drop_ip_fragments:
            arrived[:, [len(part) > 1 for part in message.parts]] = np.inf
        return arrived
