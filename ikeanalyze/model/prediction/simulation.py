"""A handshake over UDP on another link, simulated in many runs at once: no loop over runs, only over transmissions.

What happens in an exchange (RFC 7296, section 2.1; RFC 7383, section 2.6):

* The initiator sends its request, all fragments of it, and again each time that the policy's timer runs out, until it
  has the whole response. When the last timer runs out, the handshake has failed.
* There is no acknowledgement of single fragments: a retransmission is the whole message. But whoever receives keeps the
  fragments that have come, so that those of several transmissions make one message. strongSwan and libreswan do so, and
  the recorded logs show it.
* The responder answers when it has the request, after its computation and the AAA server's. It answers a repeated request
  again, with the same bytes and at once: if fragment 1 of it arrives (`ResponseTrigger.FIRST`), or each time that it has got all
  fragments anew (`ResponseTrigger.ALL`). While it still computes, it does not answer.
* What is sent later arrives later or at the same time: jitter lets nothing overtake.
* A response that comes after the timer ran out has cost a retransmission, and perhaps another response, for nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import BoolArray, Float64Array, IndexArray, Int64Array
from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.flow import FlowExchange
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, ResponseTrigger
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy

#: Frames of one message in all runs of a block: so much memory is taken, some hundred bytes each.
_AT_ONCE: Final = 2_000_000
#: Where a run did not fail.
SUCCEEDED: Final = -1


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What came of each run. All arrays are (runs,)."""

    setup_s: Float64Array  # from the first request to the last response; not a number: it failed
    failed_in: Int64Array  # index of the exchange that got no answer, or SUCCEEDED
    messages: Float64Array  # both directions, retransmissions included, also of those that failed
    frames: Float64Array
    bytes: Float64Array  # of these frames


@dataclass(frozen=True, slots=True)
class SimulatedExchange:
    """An exchange as it crosses the link."""

    exchange: FlowExchange
    request: PacketizedMessage
    response: PacketizedMessage | None  # None: nothing answers it


def simulate_udp(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    repeats: ResponseTrigger,
    runs: int,
    rng: np.random.Generator,
) -> SimulationResult:
    """`runs` handshakes. Computation that is not known counts as no time."""
    return run_in_blocks(steps, runs, lambda count: _block(steps, link, policy, repeats, count, rng))


def run_in_blocks(
    steps: list[SimulatedExchange], runs: int, some: Callable[[int], SimulationResult]
) -> SimulationResult:
    """`runs` runs, so many at once as memory is meant to take; `some` makes a number of them."""
    largest = max(laid.frames for step in steps for laid in (step.request, step.response) if laid)
    most = max(_AT_ONCE // largest, 1)
    blocks = [some(min(most, runs - start)) for start in range(0, runs, most)]
    return SimulationResult(
        *(
            np.concatenate([getattr(block, name) for block in blocks])
            for name in ("setup_s", "failed_in", "messages", "frames", "bytes")
        )
    )


def _block(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    repeats: ResponseTrigger,
    runs: int,
    rng: np.random.Generator,
) -> SimulationResult:
    up, down = (LinkDirection.of(link, runs, rng, up=up) for up in (True, False))
    now = np.zeros(runs)
    failed_in = np.full(runs, SUCCEEDED, np.int64)
    for attempt in attempts(steps, now, failed_in, up, down):
        step, alive, start = attempt.step, attempt.rows, attempt.start
        if step.response is None:
            # the handshake ends with its transmission, or goes on at once; whether it arrives shows later
            attempt.there.send(alive, start, step.request)
            now[alive] = start
            continue
        waits = np.cumsum(policy.draw_timeouts(rng, len(alive)), axis=1)
        turn = RequestResponse(step.request, step.response, get_processing_s(step.exchange, link), repeats)
        done = simulate_exchange(turn, attempt.there, attempt.back, alive, start, waits)
        late = done > start + waits[:, -1]
        failed_in[alive[late]] = attempt.number
        now[alive] = done
    return combine_directions(now, failed_in, up, down)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A step in the runs that have not failed before it."""

    number: int  # of the step
    step: SimulatedExchange
    rows: IndexArray  # the runs. (n,)
    there: LinkDirection  # from the side that sends the request
    back: LinkDirection
    start: Float64Array  # when the request is first sent, seconds. (n,)


def attempts(
    steps: list[SimulatedExchange], now: Float64Array, failed_in: Int64Array, up: LinkDirection, down: LinkDirection
) -> Iterator[Attempt]:
    """Each step in turn, as long as there are runs that have not failed; the caller updates `now` and `failed_in`."""
    for number, step in enumerate(steps):
        rows = np.flatnonzero(failed_in == SUCCEEDED)
        if not len(rows):
            return
        there, back = (up, down) if step.exchange.asker == "initiator" else (down, up)
        yield Attempt(number, step, rows, there, back, now[rows] + step.exchange.before_ns / 1e9)


def combine_directions(
    now: Float64Array, failed_in: Int64Array, up: LinkDirection, down: LinkDirection
) -> SimulationResult:
    """What a block of runs came to; `now`: when each ended, seconds. (runs,)"""
    return SimulationResult(
        np.where(failed_in == SUCCEEDED, now, np.nan),
        failed_in,
        up.messages + down.messages,
        up.frames + down.frames,
        up.bytes + down.bytes,
    )


@dataclass(frozen=True, slots=True)
class RequestResponse:
    """Something that is asked for until it is answered."""

    request: PacketizedMessage
    answer: PacketizedMessage
    work_s: float  # from the request's arrival to the answer
    repeats: ResponseTrigger = ResponseTrigger.FIRST
    counted: bool = True  # both are IKE messages


def simulate_exchange(
    turn: RequestResponse,
    there: LinkDirection,
    back: LinkDirection,
    runs: IndexArray,
    start: Float64Array,
    waits: Float64Array,
) -> Float64Array:
    """When the asker has the whole answer, in each of `runs`; infinity: never. (n,)

    Args:
        turn: what is asked and answered.
        there: from the asker.
        back: to the asker.
        runs: in which it takes place. (n,)
        start: when the request is first sent, seconds. (n,)
        waits: from there to the end of each timer, seconds. (n, tries + 1)
    """
    asked = np.full((len(runs), len(turn.request.parts)), np.inf)  # when each part of the request came first
    ready = np.full(len(runs), np.inf)  # when the answer was there to be sent
    answered = np.full((len(runs), len(turn.answer.parts)), np.inf)
    again = _ResponseRetrigger(turn.repeats, len(runs), len(turn.request.parts))
    done = np.full(len(runs), np.inf)
    for transmission in range(waits.shape[1]):
        sent = start if transmission == 0 else start + waits[:, transmission - 1]
        rows = np.flatnonzero(done > sent)
        if not len(rows):
            break
        came = there.send(runs[rows], sent[rows], turn.request, counted=turn.counted)
        known = np.isfinite(ready[rows])
        asked[rows] = np.minimum(asked[rows], came)
        ready[rows] = np.where(known, ready[rows], asked[rows].max(axis=1) + turn.work_s)
        respond = np.where(known, again.trigger(rows, came, ready[rows], known), ready[rows])
        answering = np.isfinite(respond)
        rows, respond = rows[answering], respond[answering]
        if len(rows):
            came = back.send(runs[rows], respond, turn.answer, counted=turn.counted)
            answered[rows] = np.minimum(answered[rows], came)
            done[rows] = answered[rows].max(axis=1)
    return done


def get_processing_s(exchange: FlowExchange, link: LinkModel) -> float:
    """Seconds from the request's arrival to the response, where the asked side and the AAA server do their work."""
    aaa = exchange.aaa_ns / 1e9 + exchange.aaa_round_trips * link.aaa_rtt_ms / 1000
    return (exchange.answer_ns or 0) / 1e9 + aaa


class _ResponseRetrigger:
    """What of repeated requests has arrived since the last response, in many runs."""

    def __init__(self, repeats: ResponseTrigger, runs: int, parts: int) -> None:
        self._repeats = repeats
        self._since = np.zeros((runs, parts), np.bool_)

    def trigger(self, rows: IndexArray, came: Float64Array, ready: Float64Array, known: BoolArray) -> Float64Array:
        """When the response is sent again; infinity: not at all. (n,)

        Args:
            rows: the runs in which a request was sent. (n,)
            came: when each part of this transmission arrived. (n, parts)
            ready: when the response had been made: what comes earlier is not answered. (n,)
            known: the response has been asked for by an earlier transmission. (n,)
        """
        counts = known[:, None] & np.isfinite(came) & (came >= ready[:, None])
        if self._repeats is ResponseTrigger.FIRST:
            return np.where(counts[:, 0], came[:, 0], np.inf)
        # what of the transmission that completed the request comes behind the response is of a repeated one
        counts |= np.isfinite(came) & (came > ready[:, None])
        old = self._since[rows]
        whole: BoolArray = np.all(old | counts, axis=1)
        # the fragment that was missing last; on a slow line others come behind it
        last: Float64Array = np.where(~old & counts, came, 0.0).max(axis=1)
        self._since[rows] = np.where(whole[:, None], counts & (came > last[:, None]), old | counts)
        return np.where(whole, last, np.inf)
