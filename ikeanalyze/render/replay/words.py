"""The outcome and the times of a replay, for text formats and the JSON document."""

from ikeanalyze.render.core.values import format_count
from ikeanalyze.replay.initiator.interface import ExchangeStats
from ikeanalyze.replay.session.result import ReplayRun, ReportFigures
from ikeanalyze.wire.registries import get_name
from ikeanalyze.wire.registries.ikev2 import ExchangeType


def describe_outcome(run: ReplayRun) -> str:
    """Return the outcome of a run in a few words."""
    if run.broken_off:
        return f"broken off: {run.broken_off}"
    if run.result is not None:
        if run.result.established:
            child = run.result.child_error
            return f"established, no CHILD_SA: {child}" if child else "established"
        return f"failed: {run.result.reason}"
    requests = [sent for sent in run.verbatim.sent if not sent.response] if run.verbatim else []
    answered = sum(bool(sent.answers) for sent in requests)
    return f"{answered:,} of {format_count(len(requests), 'request')} answered"


def get_setup_ns(run: ReplayRun) -> int | None:
    """Return the set-up time, from our own capture if possible; None if no IKE SA was established."""
    if run.result is None or not run.result.established:
        return None
    if run.reported is not None and run.reported.setup_ns is not None:
        return run.reported.setup_ns
    return run.result.setup_ns


def get_round_trip_ns(exchange: ExchangeStats, reported: ReportFigures | None) -> int | None:
    """Return the round-trip time of an exchange, from our own capture if possible."""
    key = get_name(ExchangeType, exchange.exchange_type), exchange.message_id, exchange.attempt
    trip = reported.round_trips.get(key) if reported else None
    return exchange.round_trip_ns if trip is None else trip
