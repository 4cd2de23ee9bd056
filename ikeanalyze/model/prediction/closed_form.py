"""Closed-form expectations for independent losses and timers longer than the round trip.

Let the n parts of a request arrive with the probabilities a_1...a_n in each transmission, and the m parts of a response
with b_1...b_m. Parts are kept, so the request is complete after k transmissions with probability A(k), and the response
after s responses with B(s):

    A(k) = prod_i (1 - (1 - a_i)^k)            B(s) = prod_j (1 - (1 - b_j)^s)

The first response is sent in the transmission that completes the request, with probability f(k) = A(k) - A(k-1). From
one response to the next the responder needs d more transmissions with probability g(d): if fragment 1 triggers a
response, g(d) = a_1 (1 - a_1)^(d-1); if all fragments are needed again, g(d) = f(d). So the s-th response is sent in
transmission k with probability

    R_s(k) = (f * g * ... * g)(k)              (s - 1 convolutions)

and it completes the exchange with probability B(s) - B(s-1). With at most K transmissions:

    P(over in transmission k)    = sum_s R_s(k) (B(s) - B(s-1))
    E(requests)                  = sum_k P(not over before transmission k)
    E(responses)                 = sum_s (1 - B(s-1)) sum_k R_s(k)

Transmission k is sent at t_k. The time of an exchange has the path P once (both ways, with the transmission time), and
the processing time W only if the first response completes the exchange: a retransmitted request is answered at once. If
W varies from handshake to handshake, independently of the losses, its mean takes its place. So

    E(time)                      = P + sum_k t_k P(over in transmission k) / A' + W B(1) sum_k R_1(k) / A'
                                   where A' is the probability of success

For n = m = 1 without a limit, this is 1 / (a b) requests and 1 / b responses. A datagram in f IP fragments arrives with
probability (1 - loss)^f. The derivation is ours, from the rules of RFC 7296, section 2.1 and RFC 7383, section 2.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ikeanalyze.model.arrays import Float64Array
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, ResponseTrigger
from ikeanalyze.model.prediction.processing_times import TurnTimes, make_constant_times
from ikeanalyze.model.prediction.simulation import SimulatedExchange
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy


class NoClosedFormError(ValueError):
    """No closed form exists for this link; the message has the reason."""


@dataclass(frozen=True, slots=True)
class ExchangeExpectation:
    """The expectations of one exchange that takes place."""

    success: float  # probability of a response
    requests: float  # mean transmissions of the request, failed exchanges included
    responses: float
    requests_if_done: float  # the same for successful exchanges
    responses_if_done: float
    wait_s: float  # mean time from the first transmission to the answered one in successful exchanges
    #: Probability that the first response completes a successful exchange; later responses are sent at once, without
    #: the processing times of responder and AAA server.
    first_completed: float


@dataclass(frozen=True, slots=True)
class HandshakeExpectation:
    """The expectations of a handshake. Messages and bytes count both directions, with retransmissions."""

    success: float  # probability of success
    messages: float  # mean of the successful handshakes
    bytes: float
    all_bytes: float  # mean of all handshakes, the failed ones included
    #: Mean of the successful ones; None: at a limited rate it depends on which fragment completes a message.
    setup_s: float | None
    all_messages: float = 0.0  # mean of all handshakes
    all_s: float | None = None  # mean time of all handshakes until they succeed or the initiator gives up

    def repeat_until_success(self) -> "HandshakeExpectation":
        """Return the expectations if failed handshakes are attempted again, at once, until one attempt succeeds.

        The number of attempts has the mean 1 / success, and each one has the means of all handshakes (Wald).
        """
        size, messages = self.all_bytes / self.success, self.all_messages / self.success
        setup_s = None if self.all_s is None else self.all_s / self.success
        return HandshakeExpectation(1.0, messages, size, size, setup_s, messages, setup_s)


def compute_exchange_expectation(
    arrive: Float64Array,
    return_: Float64Array,
    waits: Float64Array,
    response_trigger: ResponseTrigger = ResponseTrigger.FIRST,
) -> ExchangeExpectation:
    """Return the expectations of one exchange.

    Args:
        arrive: probability that each part of the request arrives. (n,)
        return_: probability that each part of the response arrives. (m,)
        waits: mean seconds of the timer after each transmission. (K,)
        response_trigger: part of a retransmitted request that triggers another response.
    """
    limit = len(waits)
    f = np.diff(_compute_completion(arrive, limit))
    first = arrive[0]
    g = first * (1 - first) ** np.arange(limit) if response_trigger is ResponseTrigger.FIRST else f
    b = _compute_completion(return_, limit)
    # sent[s - 1, k - 1]: the s-th response is sent in transmission k
    sent = np.zeros((limit, limit))
    sent[0] = f
    for s in range(1, limit):
        sent[s, 1:] = np.convolve(sent[s - 1], g)[: limit - 1]
    over = sent * np.diff(b)[:, None]
    at = over.sum(axis=0)
    success = float(at.sum())
    before = np.concatenate([[0.0], np.cumsum(at)[:-1]])
    number = np.arange(1, limit + 1)
    sent_at = np.concatenate([[0.0], np.cumsum(waits)[:-1]])
    share = 1 / success if success else np.nan
    return ExchangeExpectation(
        success=success,
        requests=float((1 - before).sum()),
        responses=float(((1 - b[:-1]) * sent.sum(axis=1)).sum()),
        requests_if_done=float((at * number).sum() * share),
        responses_if_done=float((over.sum(axis=1) * number).sum() * share),
        wait_s=float((at * sent_at).sum() * share),
        first_completed=float(over[0].sum() * share),
    )


def _compute_completion(arrive: Float64Array, limit: int) -> Float64Array:
    """Return the probability that all parts have arrived after 0, 1... `limit` transmissions. (limit + 1,)"""
    k = np.arange(limit + 1)[:, None]
    complete: Float64Array = np.prod(1 - (1 - arrive) ** k, axis=1)
    return complete


def compute_expectation(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    response_trigger: ResponseTrigger,
    times: TurnTimes | None = None,
) -> HandshakeExpectation:
    """Return the expectations of a handshake.

    `times` has the possible processing times, of which the means are used; None: those of the exchanges in `steps`.

    Raises:
        NoClosedFormError: losses come in bursts, or a response can arrive after the timer has expired.
    """
    times = times or make_constant_times([step.exchange for step in steps], link, 1)
    before_s, works_s, longest_s = times.before_s.mean(axis=0), times.answer_s.mean(axis=0), times.answer_s.max(axis=0)
    if link.burst is not None and link.loss:
        raise NoClosedFormError("losses come in bursts")
    waits = np.array(policy.waits) * (1 - policy.jitter / 2)
    shortest = min(policy.waits) * (1 - policy.jitter)
    success, messages, size, all_bytes, setup = 1.0, 0.0, 0.0, 0.0, 0.0
    all_messages, all_s = 0.0, 0.0
    timed = True
    for step, before, work, longest in zip(steps, before_s, works_s, longest_s, strict=True):
        setup += before
        all_s += success * before
        if step.response is None:
            messages, size = messages + 1, size + step.request.bytes
            all_messages, all_bytes = all_messages + success, all_bytes + success * step.request.bytes
            continue
        up, down = link.rate_up, link.rate_down
        if step.exchange.asker != "initiator":
            up, down = down, up
        line = _compute_line_s(step.request, up) + _compute_line_s(step.response, down)
        path = link.rtt_ms / 1000 + line
        if path + longest + 2 * link.jitter_ms / 1000 >= shortest:
            raise NoClosedFormError(
                f"{step.exchange.type} takes {path + longest:.3g} s, as long as the shortest timer or longer"
            )
        mean = compute_exchange_expectation(
            _compute_arrival(step.request, link), _compute_arrival(step.response, link), waits, response_trigger
        )
        all_bytes += success * (mean.requests * step.request.bytes + mean.responses * step.response.bytes)
        all_messages += success * (mean.requests + mean.responses)
        time = mean.wait_s + path + mean.first_completed * work
        # an exchange without success takes all timers, and nothing else if it never succeeds
        done = mean.success * time if mean.success else 0.0
        all_s += success * (done + (1 - mean.success) * waits.sum())
        success *= mean.success
        messages += mean.requests_if_done + mean.responses_if_done
        size += mean.requests_if_done * step.request.bytes + mean.responses_if_done * step.response.bytes
        setup += time
        timed &= not (link.loss and line and len(step.request.parts) + len(step.response.parts) > 2)
    if not success:
        raise NoClosedFormError("no handshake succeeds")
    setup_s, end_s = (float(setup), float(all_s)) if timed else (None, None)
    return HandshakeExpectation(success, messages, size, all_bytes, setup_s, all_messages, end_s)


def mix_expectations(parts: Sequence[HandshakeExpectation], weights: Sequence[float]) -> HandshakeExpectation:
    """Return the expectations of handshakes of several sizes, of which `parts` has one each, with these weights."""
    shares = np.array(weights) / sum(weights)
    success = _mix([part.success for part in parts], shares)
    done = shares * [part.success for part in parts] / success
    times = [part.setup_s for part in parts if part.setup_s is not None]
    ends = [part.all_s for part in parts if part.all_s is not None]
    return HandshakeExpectation(
        success=success,
        messages=_mix([part.messages for part in parts], done),
        bytes=_mix([part.bytes for part in parts], done),
        all_bytes=_mix([part.all_bytes for part in parts], shares),
        setup_s=_mix(times, done) if len(times) == len(parts) else None,
        all_messages=_mix([part.all_messages for part in parts], shares),
        all_s=_mix(ends, shares) if len(ends) == len(parts) else None,
    )


def _mix(values: Sequence[float], shares: Float64Array) -> float:
    return float(np.dot(values, shares))


def _compute_arrival(message: PacketizedMessage, link: LinkModel) -> Float64Array:
    """Return the probability that each part arrives."""
    frames = np.array([len(part) for part in message.parts])
    dropped = link.drop_ip_fragments & (frames > 1)
    return np.where(dropped, 0.0, (1 - link.loss) ** frames)


def _compute_line_s(message: PacketizedMessage, rate: float | None) -> float:
    return 0.0 if rate is None else message.bytes * 8 / rate
