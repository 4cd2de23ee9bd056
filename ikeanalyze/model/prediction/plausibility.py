"""Warnings about predictions: values of the capture that are unknown, and assumptions that the capture contradicts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ikeanalyze.analysis.exchanges.capture_point import ROUND_TRIP_SHARE
from ikeanalyze.model.prediction.flow import HandshakeFlow, ObservedWait
from ikeanalyze.model.prediction.link import IkeTransport
from ikeanalyze.model.prediction.predict import Prediction
from ikeanalyze.model.prediction.processing_times import Computation
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy

#: Difference between an observed wait and that of a policy that fits: jitter of the path and of the sender's timer.
_TOLERANCE_S: Final = 0.05
_TOLERANCE_SHARE: Final = 0.2
#: Waits that are compared: later ones are rare, and lost frames add several waits up.
_MAX_WAITS: Final = 3


@dataclass(frozen=True, slots=True)
class PredictionWarning:
    """A reason why predictions of a capture may be wrong."""

    capture: str
    message: str


def find_warnings(predictions: Sequence[Prediction]) -> list[PredictionWarning]:
    """Return the warnings of all predictions, each once."""
    warnings = (
        PredictionWarning(prediction.flow.capture, message)
        for prediction in predictions
        for message in (*_check_times(prediction), *_check_losses(prediction.flow), *_check_policy(prediction))
    )
    return list(dict.fromkeys(warnings))


def _check_times(prediction: Prediction) -> Iterator[str]:
    flow = prediction.flow
    if flow.path is None:
        yield "unknown capture point: the path delay is counted as processing time. Set --vantage and --recorded-rtt"
    elif flow.path == "estimated":
        yield (
            "the round-trip time of the path is an upper estimate, which makes processing times too short. "
            "Set --recorded-rtt"
        )
    elif flow.path == "given" and (shortest := _find_contradiction(flow)) is not None:
        yield (
            f"the round-trip time of the path, {(flow.path_rtt_ns or 0) / 1e6:,.4g} ms, is longer than an interval of the "
            f"capture that contains it, {shortest / 1e6:,.4g} ms: --recorded-rtt is too long, or --vantage is the wrong "
            "side. Processing times shorter than 0 count as 0"
        )
    if flow.unknown:
        yield (
            f"unknown processing time where a retransmission was answered ({', '.join(flow.unknown)}); "
            "it is counted as 0"
        )
    if flow.changes:
        yield "the messages are changed, but the processing times are as recorded; those of added exchanges are 0"
    if prediction.handshakes == 1 and prediction.computation is Computation.SAMPLE and not flow.alone:
        yield "only one usable handshake: the processing times are constant, so the spread is that of the link alone"


def _find_contradiction(flow: HandshakeFlow) -> int | None:
    """Return the shortest interval that contains the round trip of the path, if it is too short for it."""
    shortest, rtt = flow.shortest_round_trip_ns, flow.path_rtt_ns
    return shortest if shortest is not None and rtt is not None and shortest < rtt * (1 - ROUND_TRIP_SHARE) else None


def _check_losses(flow: HandshakeFlow) -> Iterator[str]:
    losses = flow.losses
    counts = ((losses.retransmitted, "with retransmissions"), (losses.unanswered, "unanswered"))
    problems = [f"{count:,} {problem}" for count, problem in counts if count]
    if problems:
        yield (
            f"the capture has losses or slow responses: {' and '.join(problems)} of {losses.handshakes:,} handshakes. "
            "A capture without them has all processing times"
        )


def _check_policy(prediction: Prediction) -> Iterator[str]:
    policy, observed = prediction.transmission.policy, prediction.flow.losses.waits
    if prediction.transmission.transport is IkeTransport.TCP:
        return
    compared = observed[:_MAX_WAITS]
    if all(_fits(wait, policy) for wait in compared):
        return
    seen = ", ".join(f"{wait.median_s:.3g}" for wait in compared)
    assumed = ", ".join(f"{wait:.3g}" for wait in policy.waits[: len(compared)])
    yield (
        f"requests of the capture were retransmitted after {seen} s (medians), but the policy {policy.name} "
        f"waits {assumed} s. Set --retransmission-policy, such as {_suggest(compared)}"
    )


def _fits(wait: ObservedWait, policy: RetransmissionPolicy) -> bool:
    if wait.transmission > policy.tries:
        return False
    assumed = policy.waits[wait.transmission - 1]
    margin = _TOLERANCE_S + _TOLERANCE_SHARE * assumed
    return assumed * (1 - policy.jitter) - margin <= wait.median_s <= assumed + margin


def _suggest(waits: Sequence[ObservedWait]) -> str:
    first = waits[0].median_s
    base = waits[1].median_s / first if len(waits) > 1 and first else 2.0
    return f"exponential:timeout={first:.2g},base={max(base, 1.0):.2g}"
