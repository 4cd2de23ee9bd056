"""Processing times of simulated handshakes, from those of the recorded ones.

The processing times of one handshake belong together: a machine that is busy is slow in all of its messages. So a
simulated handshake gets all its times from one recorded handshake (bootstrap over handshakes). The time of an exchange
whose request was retransmitted is unknown; such a gap is filled with the time of the same exchange in another
handshake, drawn for each run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ikeanalyze.model.arrays import Float64Array, IndexArray
from ikeanalyze.model.prediction.flow import FlowExchange
from ikeanalyze.model.prediction.link import LinkModel


class Computation(StrEnum):
    """Which processing times of the recorded handshakes a simulated handshake gets."""

    SAMPLE = "sample"  # those of one of the comparable handshakes, drawn for each run
    MEDIAN = "median"  # of each turn the median of the comparable handshakes
    ONE = "one"  # those of the handshake whose messages are sent


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """Processing times of handshakes in seconds; a row is a handshake, a column an exchange."""

    before_s: Float64Array  # of the sender of the request, before it. (handshakes, exchanges)
    own_s: Float64Array  # of the sender of the response, before it; NaN: unknown. (handshakes, exchanges)
    aaa_s: Float64Array  # that it waits for the AAA server. (handshakes, exchanges)

    @property
    def runs(self) -> int:
        """Number of handshakes."""
        return len(self.before_s)

    @property
    def answer_s(self) -> Float64Array:
        """From the arrival of each request to its response. (handshakes, exchanges)"""
        return self.own_s + self.aaa_s

    def select(self, rows: slice | IndexArray) -> "TurnTimes":
        """Return these rows."""
        return TurnTimes(self.before_s[rows], self.own_s[rows], self.aaa_s[rows])

    def draw(self, rows: IndexArray, rng: np.random.Generator) -> "TurnTimes":
        """Return these rows with gaps filled: each from a random row that has the value; 0 if none has it."""
        drawn = self.select(rows)
        for column in range(drawn.own_s.shape[1]):
            gaps = np.flatnonzero(np.isnan(drawn.own_s[:, column]))
            known = _get_known(self.own_s[:, column])
            if len(gaps):
                drawn.own_s[gaps, column] = rng.choice(known, len(gaps)) if len(known) > 1 else known[0]
        return drawn

    def fill_with_means(self) -> "TurnTimes":
        """Return all rows, each gap filled with the mean of its column; 0 if the column has no value."""
        means = np.array([_get_known(column).mean() for column in self.own_s.T])
        return TurnTimes(self.before_s, np.where(np.isnan(self.own_s), means, self.own_s), self.aaa_s)

    def take_medians(self) -> "TurnTimes":
        """Return one row with the median of each column."""
        own = [np.median(_get_known(column)) for column in self.own_s.T]
        before, aaa = (np.median(values, axis=0)[None, :] for values in (self.before_s, self.aaa_s))
        return TurnTimes(before, np.array([own]), aaa)


def _get_known(values: Float64Array) -> Float64Array:
    known = values[~np.isnan(values)]
    return known if len(known) else np.zeros(1)


def collect_turn_times(handshakes: Sequence[Sequence[FlowExchange]], link: LinkModel) -> TurnTimes:
    """Return the processing times of recorded handshakes, with those of the AAA server on `link`.

    `handshakes` has the exchanges of each of them, of equal number.
    """
    before_s = [[exchange.before_ns / 1e9 for exchange in exchanges] for exchanges in handshakes]
    own_s = [[_get_own_s(exchange) for exchange in exchanges] for exchanges in handshakes]
    aaa_s = [
        [exchange.aaa_ns / 1e9 + exchange.aaa_round_trips * link.aaa_rtt_ms / 1000 for exchange in exchanges]
        for exchanges in handshakes
    ]
    return TurnTimes(np.array(before_s), np.array(own_s), np.array(aaa_s))


def make_constant_times(exchanges: Sequence[FlowExchange], link: LinkModel, runs: int) -> TurnTimes:
    """Return the processing times of one recorded handshake `runs` times; unknown ones are 0."""
    recorded = collect_turn_times([exchanges], link)
    return recorded.draw(np.zeros(runs, np.intp), np.random.default_rng(0))


def _get_own_s(exchange: FlowExchange) -> float:
    """Return the processing time of the sender of the response in seconds; NaN: unknown."""
    if exchange.response is None:
        return 0.0
    return np.nan if exchange.answer_ns is None else exchange.answer_ns / 1e9
