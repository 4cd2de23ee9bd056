"""The same handshake in a TCP connection (RFC 9329), simulated in many runs at once.

The model of TCP, which is meant to be plain:

* The connection is opened first: SYN, SYN-ACK, and an ACK right before the first message. A SYN is sent again after 1 s, then
  twice as long each time, six times (RFC 6298, section 2; the count is Linux's).
* A message goes in segments as the MTU allows, unfragmented by IKE, behind its length (RFC 9329, section 3.1). Ten segments
  leave at once (RFC 6928), twice as many one round trip later, and so on.
* The segments that did not arrive are sent again when the retransmission timer runs out: three round-trip times, which is
  SRTT + 4 RTTVAR after the single measurement of the SYN (RFC 6298, 2.2), but 1 s at least (2.4), and 3 s if the SYN was sent
  again (5.7); twice as long each time, up to 60 s. Linux begins with 200 ms where the RFC has 1 s. There is no fast
  retransmit: it takes three segments behind the lost one, which few messages of IKE have.
* Two segments that arrive are acknowledged by one frame of its own (RFC 5681, section 4.2). That such a frame is lost costs
  nothing, since the next message acknowledges too.
* A timer that runs out before the acknowledgement is there, as at a low rate whose queue is longer than the timer, sends
  nothing again here: what a sender would repeat needlessly is not in messages, frames and bytes.
* IKE sends nothing again (RFC 9329, section 6.2), but gives up when its policy would have.
"""

from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array, IndexArray
from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.layout import PacketizedMessage, make_tcp_ack, make_tcp_syn
from ikeanalyze.model.prediction.link import LinkModel
from ikeanalyze.model.prediction.simulation import (
    SUCCEEDED,
    RequestResponse,
    SimulatedExchange,
    SimulationResult,
    attempts,
    combine_directions,
    get_processing_s,
    run_in_blocks,
    simulate_exchange,
)
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy, make_exponential_policy

_SYN: Final = make_exponential_policy(timeout=1, base=2, tries=6)
_LEAST_RTO_S: Final = 1.0
_AFTER_LOST_SYN_S: Final = 3.0
_LONGEST_RTO_S: Final = 60.0
_WINDOW: Final = 10  # segments
#: Retransmissions of a segment before the connection is given up: Linux's tcp_retries2.
_TRIES: Final = 15


def simulate_tcp(
    steps: list[SimulatedExchange], link: LinkModel, policy: RetransmissionPolicy, runs: int, rng: np.random.Generator
) -> SimulationResult:
    """`runs` handshakes; the set-up begins with the SYN. Messages count once, whatever TCP sends again."""
    return run_in_blocks(steps, runs, lambda count: _block(steps, link, policy, count, rng))


def _block(
    steps: list[SimulatedExchange], link: LinkModel, policy: RetransmissionPolicy, runs: int, rng: np.random.Generator
) -> SimulationResult:
    up, down = (LinkDirection.of(link, runs, rng, up=up) for up in (True, False))
    everyone = np.arange(runs)
    first = steps[0].exchange.request
    syn = RequestResponse(make_tcp_syn(first), make_tcp_syn(first), 0.0, counted=False)
    waits = np.cumsum(_SYN.draw_timeouts(count=runs), axis=1)
    now = simulate_exchange(syn, up, down, everyone, np.zeros(runs), waits)
    failed_in = np.where(now > waits[:, -1], 0, SUCCEEDED)
    rto = np.where(now > waits[:, 0], _AFTER_LOST_SYN_S, max(3 * link.rtt_ms / 1000, _LEAST_RTO_S))
    ack = make_tcp_ack(first)
    _count(up, everyone[failed_in == SUCCEEDED], ack, 1)
    for attempt in attempts(steps, now, failed_in, up, down):
        step, alive, there, back = attempt.step, attempt.rows, attempt.there, attempt.back
        done = _deliver(step.request, there, back, alive, attempt.start, rto[alive], ack)
        if step.response is not None:
            came = np.isfinite(done)
            rows = alive[came]
            ready = done[came] + get_processing_s(step.exchange, link)
            done[came] = _deliver(step.response, back, there, rows, ready, rto[rows], ack)
        failed_in[alive[done > attempt.start + sum(policy.waits)]] = attempt.number
        now[alive] = done
    return combine_directions(now, failed_in, up, down)


def _deliver(
    laid: PacketizedMessage,
    there: LinkDirection,
    back: LinkDirection,
    runs: IndexArray,
    start: Float64Array,
    rto: Float64Array,
    ack: PacketizedMessage,
) -> Float64Array:
    """When all segments of a message have arrived, in seconds, in each of `runs`; infinity: never. (n,)"""
    came = np.full((len(runs), len(laid.parts)), np.inf)
    at, window, sent = start, _WINDOW, 0
    while sent < len(laid.parts):
        flight = slice(sent, sent + window)
        came[:, flight] = there.send(runs, at, PacketizedMessage(laid.parts[flight]), counted=sent == 0)
        at, sent, window = at + there.link.rtt_ms / 1000, sent + window, 2 * window
    arrived = np.isfinite(came).sum(axis=1)
    acknowledged = np.ceil(arrived / 2)
    due = start + rto
    for _ in range(_TRIES):
        rows = np.flatnonzero(np.isinf(came).any(axis=1))
        if not len(rows):
            break
        for i in range(len(laid.parts)):
            lost = rows[np.isinf(came[rows, i])]
            if len(lost):
                segment = PacketizedMessage(laid.parts[i : i + 1])
                came[lost, i] = there.send(runs[lost], due[lost], segment, counted=False)[:, 0]
        now = np.isfinite(came[rows]).sum(axis=1)
        acknowledged[rows] += np.ceil((now - arrived[rows]) / 2)
        arrived[rows] = now
        rto = np.minimum(2 * rto, _LONGEST_RTO_S)
        due = due + rto
    _count(back, runs, ack, acknowledged)
    whole: Float64Array = came.max(axis=1)
    return whole


def _count(direction: LinkDirection, runs: IndexArray, laid: PacketizedMessage, times: Float64Array | int) -> None:
    """Count frames that nothing depends on."""
    direction.frames[runs] += times * laid.frames
    direction.bytes[runs] += times * laid.bytes
