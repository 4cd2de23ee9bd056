"""Simulates a handshake over TCP (RFC 9329) in many runs at once.

The model of TCP is simple:

* The connection is opened with SYN, SYN-ACK, and an ACK right before the first message. A SYN is retransmitted after
  1 s, then with doubled timers, six times (RFC 6298, section 2; the count is that of Linux).
* A message is sent after its length (RFC 9329, section 3.1) in segments that fit the MTU, without IKE fragmentation.
  Ten segments are sent at once (RFC 6928), twice as many one round trip later, and so on.
* Lost segments are retransmitted when the retransmission timer expires: three round-trip times, which is
  SRTT + 4 RTTVAR after the single measurement of the SYN (RFC 6298, section 2.2), but at least 1 s (2.4), and 3 s if
  the SYN was retransmitted (5.7). The timer doubles up to 60 s. Linux starts with 200 ms instead of 1 s. Fast
  retransmit is left out: it needs three segments after the lost one, which few IKE messages have.
* Two received segments are acknowledged by one frame (RFC 5681, section 4.2). The loss of such a frame has no effect,
  since the next message acknowledges too.
* A timer that expires before the acknowledgement arrives, as when the queue of a slow link is longer than the timer,
  sends nothing here: such unnecessary retransmissions are not in messages, frames and bytes.
* IKE does not retransmit (RFC 9329, section 6.2), but gives up when the last timer of its policy expires.
"""

from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array, IndexArray
from ikeanalyze.model.prediction import simulation
from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.layout import PacketizedMessage, make_tcp_ack, make_tcp_syn
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.processing_times import TurnTimes, make_constant_times
from ikeanalyze.model.prediction.simulation import SUCCEEDED, RequestResponse, SimulatedExchange, SimulationResult
from ikeanalyze.model.retransmission_policy import ExponentialTimers, RetransmissionPolicy

_SYN: Final = ExponentialTimers(timeout=1, base=2, tries=6).make_policy()
_MIN_RTO_S: Final = 1.0
_AFTER_LOST_SYN_S: Final = 3.0
_MAX_RTO_S: Final = 60.0
_WINDOW: Final = 10  # segments
#: Retransmissions of a segment before TCP gives up: tcp_retries2 of Linux.
_MAX_TRIES: Final = 15


def simulate_tcp(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    runs: int,
    rng: np.random.Generator,
    times: TurnTimes | None = None,
) -> SimulationResult:
    """Simulate `runs` handshakes. The set-up starts with the SYN; retransmissions of TCP do not count as messages.

    `times` has the processing times of each run; None: those of `steps`, where unknown ones count as 0.
    """
    times = times or make_constant_times([step.exchange for step in steps], link, runs)
    return simulation.run_in_blocks(steps, times, lambda block: _simulate_block(steps, link, policy, block, rng))


def _simulate_block(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    times: TurnTimes,
    rng: np.random.Generator,
) -> SimulationResult:
    runs = times.runs
    up, down = (LinkDirection.of(link, runs, rng, up=up) for up in (True, False))
    all_runs = np.arange(runs)
    first = steps[0].exchange.request
    syn = RequestResponse(make_tcp_syn(first), make_tcp_syn(first), 0.0, counted=False)
    waits = np.cumsum(_SYN.draw_timeouts(count=runs), axis=1)
    now = simulation.simulate_exchange(syn, up, down, all_runs, np.zeros(runs), waits)
    failed_in = np.where(now > waits[:, -1], 0, SUCCEEDED)
    now = np.minimum(now, waits[:, -1])
    rto = np.where(now > waits[:, 0], _AFTER_LOST_SYN_S, max(3 * link.rtt_ms / 1000, _MIN_RTO_S))
    ack = make_tcp_ack(first)
    _count_frames(up, all_runs[failed_in == SUCCEEDED], ack, 1)
    for attempt in simulation.iterate_steps(steps, times, now, failed_in, up, down):
        step, alive, there, back = attempt.step, attempt.rows, attempt.there, attempt.back
        done = _deliver(step.request, there, back, alive, attempt.start, rto[alive], ack)
        if step.response is not None:
            arrived = np.isfinite(done)
            rows = alive[arrived]
            ready = done[arrived] + attempt.answer_s[arrived]
            done[arrived] = _deliver(step.response, back, there, rows, ready, rto[rows], ack)
        latest = attempt.start + sum(policy.waits)
        failed_in[alive[done > latest]] = attempt.number
        now[alive] = np.minimum(done, latest)
    return simulation.combine_directions(now, failed_in, up, down)


def _deliver(
    message: PacketizedMessage,
    there: LinkDirection,
    back: LinkDirection,
    runs: IndexArray,
    start: Float64Array,
    rto: Float64Array,
    ack: PacketizedMessage,
) -> Float64Array:
    """Return when all segments of a message have arrived in each of `runs`, in seconds; infinity: never. (n,)"""
    arrivals = np.full((len(runs), len(message.parts)), np.inf)
    at, window, sent = start, _WINDOW, 0
    while sent < len(message.parts):
        flight = slice(sent, sent + window)
        arrivals[:, flight] = there.send(runs, at, PacketizedMessage(message.parts[flight]), counted=sent == 0)
        at, sent, window = at + there.link.rtt_ms / 1000, sent + window, 2 * window
    arrived = np.isfinite(arrivals).sum(axis=1)
    acknowledged = np.ceil(arrived / 2)
    due = start + rto
    for _ in range(_MAX_TRIES):
        rows = np.flatnonzero(np.isinf(arrivals).any(axis=1))
        if not len(rows):
            break
        for i in range(len(message.parts)):
            lost = rows[np.isinf(arrivals[rows, i])]
            if len(lost):
                segment = PacketizedMessage(message.parts[i : i + 1])
                arrivals[lost, i] = there.send(runs[lost], due[lost], segment, counted=False)[:, 0]
        now = np.isfinite(arrivals[rows]).sum(axis=1)
        acknowledged[rows] += np.ceil((now - arrived[rows]) / 2)
        arrived[rows] = now
        rto = np.minimum(2 * rto, _MAX_RTO_S)
        due = due + rto
    _count_frames(back, runs, ack, acknowledged)
    complete: Float64Array = arrivals.max(axis=1)
    return complete


def _count_frames(
    direction: LinkDirection, runs: IndexArray, ack: PacketizedMessage, times: Float64Array | int
) -> None:
    """Count acknowledgements, which are not simulated."""
    direction.frames[runs] += times * ack.frames
    direction.bytes[runs] += times * ack.bytes
