"""Simulates a handshake over UDP on another link in many runs at once, with a loop over transmissions, not over runs.

Rules of an exchange (RFC 7296, section 2.1; RFC 7383, section 2.6):

* The initiator sends all fragments of its request, and sends them again whenever the timer of the policy expires, until
  it has the complete response. When the last timer expires, the handshake fails.
* Fragments are not acknowledged: a retransmission is the whole message. But the receiver keeps the fragments that have
  arrived, so fragments of several transmissions complete a message. strongSwan and libreswan do so, as the recorded
  logs show.
* The responder answers when it has the request, after the processing times of its own and of the AAA server. It answers
  a retransmitted request at once, with the same bytes: if its fragment 1 arrives (`ResponseTrigger.FIRST`), or each
  time that all fragments have arrived again (`ResponseTrigger.ALL`). It does not answer while it is still processing.
* Jitter does not reorder messages.
* A response that arrives after the timer has expired has caused an unnecessary retransmission, and maybe another
  response.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import BoolArray, Float64Array, IndexArray, Int64Array
from ikeanalyze.model.prediction.channel import LinkDirection
from ikeanalyze.model.prediction.flow import FlowExchange
from ikeanalyze.model.prediction.layout import PacketizedMessage
from ikeanalyze.model.prediction.link import LinkModel, ResponseTrigger
from ikeanalyze.model.prediction.processing_times import TurnTimes, make_constant_times
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy

#: Frames of one message in all runs of a block, which bounds the memory: some hundred bytes per frame.
_MAX_BLOCK_FRAMES: Final = 2_000_000
#: Value of `failed_in` for a run that succeeded.
SUCCEEDED: Final = -1


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The result of each run. All arrays are (runs,)."""

    setup_s: Float64Array  # from the first request to the last response; NaN: the run failed
    failed_in: Int64Array  # index of the unanswered exchange, or SUCCEEDED
    messages: Float64Array  # both directions, retransmissions included, also in failed runs
    frames: Float64Array
    bytes: Float64Array  # of these frames
    end_s: Float64Array  # the same as setup_s; if the run failed, when the initiator gave up


@dataclass(frozen=True, slots=True)
class SimulatedExchange:
    """An exchange and the packets of its messages."""

    exchange: FlowExchange
    request: PacketizedMessage
    response: PacketizedMessage | None  # None: the exchange has no response


def simulate_udp(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    response_trigger: ResponseTrigger,
    runs: int,
    rng: np.random.Generator,
    times: TurnTimes | None = None,
) -> SimulationResult:
    """Simulate `runs` handshakes.

    `times` has the processing times of each run; None: those of `steps`, where unknown ones count as 0.
    """
    times = times or make_constant_times([step.exchange for step in steps], link, runs)
    return run_in_blocks(steps, times, lambda block: _simulate_block(steps, link, policy, response_trigger, block, rng))


def run_in_blocks(
    steps: list[SimulatedExchange], times: TurnTimes, simulate: Callable[[TurnTimes], SimulationResult]
) -> SimulationResult:
    """Simulate the runs of `times` in blocks that bound the memory; `simulate` simulates some of them."""
    largest = max(packets.frames for step in steps for packets in (step.request, step.response) if packets)
    block_runs = max(_MAX_BLOCK_FRAMES // largest, 1)
    starts = range(0, times.runs, block_runs)
    blocks = [simulate(times.select(slice(start, start + block_runs))) for start in starts]
    return join_results(blocks)


def repeat_until_success(
    simulate: Callable[[int], SimulationResult], runs: int, most: int
) -> tuple[SimulationResult, Int64Array]:
    """Simulate `runs` handshakes that are attempted again, at once, until one attempt succeeds, at most `most` times.

    `simulate` simulates a number of attempts. Times, messages, frames and bytes of the attempts add up. The second
    value has the number of attempts. (runs,)
    """
    total = simulate(runs)
    attempts = np.ones(runs, np.int64)
    for number in range(2, most + 1):
        pending = np.flatnonzero(total.failed_in != SUCCEEDED)
        if not len(pending):
            break
        again = simulate(len(pending))
        attempts[pending] = number
        total.failed_in[pending] = again.failed_in
        total.setup_s[pending] = total.end_s[pending] + again.setup_s
        for name in ("messages", "frames", "bytes", "end_s"):
            getattr(total, name)[pending] += getattr(again, name)
    return total, attempts


def join_results(results: Sequence[SimulationResult]) -> SimulationResult:
    """Return the runs of all `results`, one after the other."""
    names = [field.name for field in fields(SimulationResult)]
    return SimulationResult(*(np.concatenate([getattr(result, name) for result in results]) for name in names))


def _simulate_block(
    steps: list[SimulatedExchange],
    link: LinkModel,
    policy: RetransmissionPolicy,
    response_trigger: ResponseTrigger,
    times: TurnTimes,
    rng: np.random.Generator,
) -> SimulationResult:
    runs = times.runs
    up, down = (LinkDirection.of(link, runs, rng, up=up) for up in (True, False))
    now = np.zeros(runs)
    failed_in = np.full(runs, SUCCEEDED, np.int64)
    for attempt in iterate_steps(steps, times, now, failed_in, up, down):
        step, alive, start = attempt.step, attempt.rows, attempt.start
        if step.response is None:
            # the sender does not wait; whether the message arrives does not matter
            attempt.there.send(alive, start, step.request)
            now[alive] = start
            continue
        waits = np.cumsum(policy.draw_timeouts(rng, len(alive)), axis=1)
        messages = RequestResponse(step.request, step.response, attempt.answer_s, response_trigger)
        done = simulate_exchange(messages, attempt.there, attempt.back, alive, start, waits)
        late = done > start + waits[:, -1]
        failed_in[alive[late]] = attempt.number
        now[alive] = np.where(late, start + waits[:, -1], done)
    return combine_directions(now, failed_in, up, down)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One exchange in the runs that have not failed before it."""

    number: int  # of the step
    step: SimulatedExchange
    rows: IndexArray  # the runs. (n,)
    there: LinkDirection  # from the side that sends the request
    back: LinkDirection
    start: Float64Array  # when the request is first sent, seconds. (n,)
    answer_s: Float64Array  # from the arrival of the request to the response. (n,)


def iterate_steps(
    steps: list[SimulatedExchange],
    times: TurnTimes,
    now: Float64Array,
    failed_in: Int64Array,
    up: LinkDirection,
    down: LinkDirection,
) -> Iterator[Attempt]:
    """Yield each exchange while runs are left that have not failed; the caller updates `now` and `failed_in`."""
    for number, step in enumerate(steps):
        rows = np.flatnonzero(failed_in == SUCCEEDED)
        if not len(rows):
            return
        there, back = (up, down) if step.exchange.asker == "initiator" else (down, up)
        start = now[rows] + times.before_s[rows, number]
        yield Attempt(number, step, rows, there, back, start, times.answer_s[rows, number])


def combine_directions(
    now: Float64Array, failed_in: Int64Array, up: LinkDirection, down: LinkDirection
) -> SimulationResult:
    """Return the result of a block; `now`: end of each run in seconds. (runs,)"""
    setup_s = np.where(failed_in == SUCCEEDED, now, np.nan)
    messages, frames = up.messages + down.messages, up.frames + down.frames
    return SimulationResult(setup_s, failed_in, messages, frames, up.bytes + down.bytes, now)


@dataclass(frozen=True, slots=True)
class RequestResponse:
    """A request that is retransmitted until its response arrives."""

    request: PacketizedMessage
    answer: PacketizedMessage
    work_s: Float64Array | float  # from the arrival of the request to the response, also for each run. (n,)
    response_trigger: ResponseTrigger = ResponseTrigger.FIRST
    counted: bool = True  # whether both count as IKE messages


def simulate_exchange(
    messages: RequestResponse,
    there: LinkDirection,
    back: LinkDirection,
    runs: IndexArray,
    start: Float64Array,
    waits: Float64Array,
) -> Float64Array:
    """Return when the complete response has arrived in each of `runs`, in seconds; infinity: never. (n,)

    Args:
        messages: request and response.
        there: the direction of the request.
        back: the direction of the response.
        runs: indices of the runs. (n,)
        start: when the request is first sent, seconds. (n,)
        waits: time from `start` to the end of each timer, seconds. (n, tries + 1)
    """
    asked = np.full((len(runs), len(messages.request.parts)), np.inf)  # first arrival of each part of the request
    ready = np.full(len(runs), np.inf)  # when the response could be sent
    answered = np.full((len(runs), len(messages.answer.parts)), np.inf)
    retrigger = _ResponseRetrigger(messages.response_trigger, len(runs), len(messages.request.parts))
    done = np.full(len(runs), np.inf)
    work_s = np.broadcast_to(messages.work_s, len(runs))
    for transmission in range(waits.shape[1]):
        sent = start if transmission == 0 else start + waits[:, transmission - 1]
        rows = np.flatnonzero(done > sent)
        if not len(rows):
            break
        arrived = there.send(runs[rows], sent[rows], messages.request, counted=messages.counted)
        known = np.isfinite(ready[rows])
        asked[rows] = np.minimum(asked[rows], arrived)
        ready[rows] = np.where(known, ready[rows], asked[rows].max(axis=1) + work_s[rows])
        respond = np.where(known, retrigger.compute_times(rows, arrived, ready[rows], known), ready[rows])
        answering = np.isfinite(respond)
        rows, respond = rows[answering], respond[answering]
        if len(rows):
            arrived = back.send(runs[rows], respond, messages.answer, counted=messages.counted)
            answered[rows] = np.minimum(answered[rows], arrived)
            done[rows] = answered[rows].max(axis=1)
    return done


class _ResponseRetrigger:
    """Fragments of retransmitted requests that have arrived since the last response, in many runs."""

    def __init__(self, response_trigger: ResponseTrigger, runs: int, parts: int) -> None:
        self._response_trigger = response_trigger
        self._since = np.zeros((runs, parts), np.bool_)

    def compute_times(
        self, rows: IndexArray, arrived: Float64Array, ready: Float64Array, known: BoolArray
    ) -> Float64Array:
        """Return when the response is sent again, in seconds; infinity: not at all. (n,)

        Args:
            rows: the runs in which a request was sent. (n,)
            arrived: when each part of this transmission arrived. (n, parts)
            ready: when the response could first be sent; earlier fragments do not trigger it. (n,)
            known: whether an earlier transmission completed the request. (n,)
        """
        counts = known[:, None] & np.isfinite(arrived) & (arrived >= ready[:, None])
        if self._response_trigger is ResponseTrigger.FIRST:
            return np.where(counts[:, 0], arrived[:, 0], np.inf)
        # fragments of the transmission that completed the request also count if they arrive after the response
        counts |= np.isfinite(arrived) & (arrived > ready[:, None])
        old = self._since[rows]
        complete: BoolArray = np.all(old | counts, axis=1)
        # the last missing fragment; on a slow line others arrive after it
        last: Float64Array = np.where(~old & counts, arrived, 0.0).max(axis=1)
        self._since[rows] = np.where(complete[:, None], counts & (arrived > last[:, None]), old | counts)
        return np.where(complete, last, np.inf)
