"""Predicts a recorded handshake on another link: set-up time, bytes, messages and failures."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np

from ikeanalyze.model.arrays import Float64Array, IndexArray
from ikeanalyze.model.prediction.closed_form import (
    HandshakeExpectation,
    NoClosedFormError,
    compute_expectation,
    mix_expectations,
)
from ikeanalyze.model.prediction.flow import FlowExchange, FlowMessage, HandshakeFlow
from ikeanalyze.model.prediction.layout import LayoutError, PacketizedMessage, packetize_over_tcp, packetize_over_udp
from ikeanalyze.model.prediction.link import IkeTransport, LinkModel, ResponseTrigger, validate_link
from ikeanalyze.model.prediction.processing_times import Computation, TurnTimes, collect_turn_times
from ikeanalyze.model.prediction.simulation import (
    SUCCEEDED,
    SimulatedExchange,
    SimulationResult,
    join_results,
    repeat_until_success,
    simulate_udp,
)
from ikeanalyze.model.prediction.simulation_tcp import simulate_tcp
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy

#: Different sizes of messages that are simulated; each takes some milliseconds.
_MAX_VARIANTS: Final = 50
#: Attempts of a run with `TransmissionConfig.until_established`.
MAX_ATTEMPTS: Final = 100


@dataclass(frozen=True, slots=True)
class TransmissionConfig:
    """How the peers send over a link."""

    policy: RetransmissionPolicy
    transport: IkeTransport = IkeTransport.UDP
    response_trigger: ResponseTrigger = ResponseTrigger.FIRST
    #: Bytes of the largest IP packet of an IKE fragment; 0: no IKE fragmentation; None: as recorded, or smaller to fit
    #: the MTU.
    fragment_size: int | None = None
    #: The initiator attempts the handshake again, at once, each time that it fails (at most MAX_ATTEMPTS in all).
    until_established: bool = False


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a quantity in the successful runs."""

    mean: float
    mean_error: float  # standard error of the mean
    deviation: float  # standard deviation
    median: float
    p95: float
    p99: float
    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class BudgetShare:
    """The share of all runs, the failed ones included, that succeed within a time."""

    ms: float
    share: float
    low: float  # 95 % interval (Wilson)
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The prediction of one handshake on one link."""

    flow: HandshakeFlow
    link: LinkModel
    transmission: TransmissionConfig
    seed: int
    runs: int
    computation: Computation
    handshakes: int  # recorded ones that give processing times
    failures: int
    failure: tuple[float, float, float]  # probability of failure, and its 95 % interval (Wilson)
    failed_in: Mapping[str, int]  # failed runs by unanswered exchange
    setup_ms: Distribution | None  # None: no run succeeded
    bytes: Distribution | None
    messages: Distribution | None
    frames: Distribution | None
    all_bytes: float  # mean of all runs, the failed ones included
    once: tuple[int, int, int]  # messages, frames and bytes without losses
    closed: HandshakeExpectation | None
    not_closed: str | None  # why no closed form exists
    #: setup_ms, bytes, messages and frames of each successful run; empty without `keep`.
    samples: Mapping[str, Float64Array] = field(repr=False)
    attempts: float = 1.0  # mean of all runs
    budgets: tuple[BudgetShare, ...] = ()


def predict_handshake(
    flow: HandshakeFlow,
    link: LinkModel,
    transmission: TransmissionConfig,
    *,
    runs: int = 10_000,
    seed: int = 1,
    keep: bool = False,
    computation: Computation = Computation.SAMPLE,
    budgets_ms: Sequence[float] = (),
) -> Prediction:
    """Predict `flow` on `link`.

    Args:
        flow: the recorded handshake.
        link: the link.
        transmission: how the peers send.
        runs: number of simulated handshakes.
        seed: random seed; the same seed gives the same prediction.
        keep: keep the values of all runs in `samples`.
        computation: the source of the processing times, and of the sizes of messages with `Computation.SAMPLE`.
        budgets_ms: times for `Prediction.budgets`, in milliseconds.

    Raises:
        LinkError: the link is invalid.
        LayoutError: a message does not fit the link.
    """
    validate_link(link)
    rng = np.random.default_rng(seed)
    handshakes = flow.comparable if computation is Computation.SAMPLE else (flow.exchanges,)
    times = _collect_times(flow, link, computation)
    variants = _find_variants(handshakes, flow, link, transmission)
    result, attempts = repeat_until_success(
        lambda count: _simulate_variants(variants, times, link, transmission, count, rng),
        runs,
        MAX_ATTEMPTS if transmission.until_established else 1,
    )
    closed, not_closed = _compute_closed_form(variants, times.fill_with_means(), link, transmission)
    succeeded = result.failed_in == SUCCEEDED
    failures = int((~succeeded).sum())
    steps = variants[0].steps
    messages = [message for step in steps for message in (step.request, step.response) if message is not None]
    counts = np.bincount(result.failed_in[~succeeded], minlength=len(steps))
    samples = {
        "setup_ms": result.setup_s[succeeded] * 1000,
        "bytes": result.bytes[succeeded],
        "messages": result.messages[succeeded],
        "frames": result.frames[succeeded],
    }
    return Prediction(
        flow=flow,
        link=link,
        transmission=transmission,
        seed=seed,
        runs=runs,
        computation=computation,
        handshakes=1 if computation is Computation.ONE else len(flow.comparable),
        failures=failures,
        failure=estimate_share(failures, runs),
        failed_in={step.exchange.name: int(count) for step, count in zip(steps, counts, strict=True) if count},
        **{name: _make_distribution(values) for name, values in samples.items()},
        all_bytes=float(result.bytes.mean()),
        once=(len(messages), sum(message.frames for message in messages), sum(message.bytes for message in messages)),
        closed=closed,
        not_closed=not_closed,
        samples=samples if keep else {},
        attempts=float(attempts.mean()),
        budgets=tuple(
            BudgetShare(ms, *estimate_share(int((samples["setup_ms"] <= ms).sum()), runs)) for ms in budgets_ms
        ),
    )


def estimate_share(count: int, runs: int) -> tuple[float, float, float]:
    """Return a share and its 95 % interval, by the score of Wilson (1927).

    scipy's `binomtest` has it too, but takes longer to load than to predict a capture.
    """
    share, z = count / runs, NormalDist().inv_cdf(0.975)
    total = runs + z * z
    centre = (count + z * z / 2) / total
    half = z / total * math.sqrt(count * (1 - share) + z * z / 4)
    return share, 0.0 if count == 0 else centre - half, 1.0 if count == runs else centre + half


@dataclass(frozen=True, slots=True)
class _Variant:
    """Recorded handshakes whose messages have the same sizes."""

    steps: list[SimulatedExchange]
    rows: IndexArray  # the handshakes


def _find_variants(
    handshakes: Sequence[tuple[FlowExchange, ...]],
    flow: HandshakeFlow,
    link: LinkModel,
    transmission: TransmissionConfig,
) -> list[_Variant]:
    """Group the handshakes by the sizes of their messages; the first variant has the first handshake.

    Of more than `_MAX_VARIANTS` different sizes, the others are replaced with those of the first handshake.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for row, exchanges in enumerate(handshakes):
        key: tuple[object, ...] = tuple((exchange.request, exchange.response) for exchange in exchanges)
        if len(groups) == _MAX_VARIANTS and key not in groups:
            key = next(iter(groups))
        groups.setdefault(key, []).append(row)
    return [
        _Variant(
            [
                _make_step(exchange, flow, link, transmission, first=i == 0)
                for i, exchange in enumerate(handshakes[rows[0]])
            ],
            np.array(rows),
        )
        for rows in groups.values()
    ]


def _collect_times(flow: HandshakeFlow, link: LinkModel, computation: Computation) -> TurnTimes:
    """Return the processing times that a run can get: a row for each handshake of the variants."""
    if computation is Computation.ONE:
        return collect_turn_times([flow.exchanges], link)
    times = collect_turn_times(flow.comparable, link)
    return times.take_medians() if computation is Computation.MEDIAN else times


def _simulate_variants(
    variants: Sequence[_Variant],
    times: TurnTimes,
    link: LinkModel,
    transmission: TransmissionConfig,
    runs: int,
    rng: np.random.Generator,
) -> SimulationResult:
    """Simulate `runs` handshakes, each with the sizes and processing times of a random row of `times`."""
    rows = rng.integers(times.runs, size=runs) if times.runs > 1 else np.zeros(runs, np.intp)
    results = []
    for variant in variants:
        chosen = rows[np.isin(rows, variant.rows)]
        if not len(chosen):
            continue
        drawn = times.draw(chosen, rng)
        if transmission.transport is IkeTransport.TCP:
            results.append(simulate_tcp(variant.steps, link, transmission.policy, len(chosen), rng, drawn))
        else:
            results.append(
                simulate_udp(
                    variant.steps, link, transmission.policy, transmission.response_trigger, len(chosen), rng, drawn
                )
            )
    return join_results(results)


def _compute_closed_form(
    variants: Sequence[_Variant], times: TurnTimes, link: LinkModel, transmission: TransmissionConfig
) -> tuple[HandshakeExpectation | None, str | None]:
    """Return the closed form, or the reason why none exists."""
    if transmission.transport is IkeTransport.TCP:
        return None, "not available over TCP"
    try:
        parts = [
            compute_expectation(variant.steps, link, transmission.policy, transmission.response_trigger, times)
            for variant in variants
        ]
    except NoClosedFormError as error:
        return None, str(error)
    mean = mix_expectations(parts, [len(variant.rows) for variant in variants])
    return mean.repeat_until_success() if transmission.until_established else mean, None


def _make_step(
    exchange: FlowExchange, flow: HandshakeFlow, link: LinkModel, transmission: TransmissionConfig, *, first: bool
) -> SimulatedExchange:
    def packetize(message: FlowMessage, *, is_first: bool) -> PacketizedMessage:
        if transmission.transport is IkeTransport.TCP:
            return packetize_over_tcp(message, flow, link, first=is_first)
        return packetize_over_udp(message, flow, link, transmission.fragment_size)

    if transmission.transport is IkeTransport.TCP and flow.protocol != "IKEv2":
        raise LayoutError(f"RFC 9329 puts IKEv2 into TCP, not {flow.protocol}")
    request = packetize(exchange.request, is_first=first)
    response = None if exchange.response is None else packetize(exchange.response, is_first=False)
    return SimulatedExchange(exchange, request, response)


def _make_distribution(values: Float64Array) -> Distribution | None:
    if not len(values):
        return None
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    statistics = (
        values.mean(),
        deviation / len(values) ** 0.5,
        deviation,
        *np.quantile(values, [0.5, 0.95, 0.99]),
        values.min(),
        values.max(),
    )
    # six decimals are nanoseconds; further digits are rounding errors
    return Distribution(*(round(float(value), 6) for value in statistics))
