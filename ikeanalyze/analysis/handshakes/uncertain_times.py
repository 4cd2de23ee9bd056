"""Warn of set-up times that are uncertain, and of a given round-trip time that is not used or contradicts them."""

import numpy as np

from ikeanalyze.analysis.exchanges.answers import UNCERTAIN
from ikeanalyze.analysis.exchanges.capture_point import GIVEN, ROUND_TRIP_SHARE, UNKNOWN_VANTAGE, NetworkPath
from ikeanalyze.analysis.exchanges.exchanges import UNKNOWN
from ikeanalyze.analysis.handshakes.handshakes import HandshakeColumns
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, CaptureWarning, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array, sort_distinct


def warn_of_times(
    state: AnalysisState, handshakes: HandshakeColumns, path: NetworkPath, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return the warnings about round-trip times and times of set-ups."""
    return [
        *_warn_of_unused_rtt(state, path, facts),
        *_warn_of_contradicted_rtt(state, handshakes, path, facts),
        *_warn_of_uncertain_times(state, handshakes, facts),
    ]


def _warn_of_unused_rtt(
    state: AnalysisState, path: NetworkPath, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture with handshakes for which the given round-trip time is not used."""
    unused = (path.rtt_source == GIVEN) & (path.vantage == UNKNOWN_VANTAGE)
    text = "the round-trip time given is not used where the side of the capture is unknown: set it with --vantage"
    captures = _complete_captures(state.capture[unused], SharedFact.UNUSED_RTT, facts)
    return [(number, (None, text)) for number in sort_distinct(captures).tolist()]


def _warn_of_contradicted_rtt(
    state: AnalysisState, handshakes: HandshakeColumns, path: NetworkPath, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture with set-ups that had no time for one round trip as long as the given one."""
    times = handshakes.breakdown
    short = (path.rtt_source == GIVEN) & (times.network_ns != UNKNOWN)
    short &= times.network_ns < (1 - ROUND_TRIP_SHARE) * times.path_rtt_ns
    captures = _complete_captures(state.capture[short], SharedFact.CONTRADICTED_RTT, facts)
    text = (
        "the given round-trip time is longer than the time that a set-up had for all of its round trips: --rtt is too "
        "long, or --vantage is the wrong side. Parts of the set-up time shorter than 0 count as 0"
    )
    return [(number, (None, text)) for number in sort_distinct(captures).tolist()]


def _complete_captures(captures: Int64Array, fact: SharedFact, facts: CaptureFacts) -> Int64Array:
    """The captures of handshakes of one kind, those of other parts included. (handshakes,)"""
    if not facts.partial:
        return captures
    return np.zeros(facts.total(fact, count=len(captures))["count"], np.int64)


def _warn_of_uncertain_times(
    state: AnalysisState, handshakes: HandshakeColumns, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture with set-ups whose times are uncertain."""
    warnings: list[tuple[int, CaptureWarning]] = []
    captures = _complete_captures(state.capture[handshakes.uncertain], SharedFact.UNCERTAIN_TIMES, facts)
    for number in sort_distinct(captures).tolist():
        count = int((captures == number).sum())
        subject = f"the times of {count} set-ups are" if count > 1 else "the times of a set-up are"
        text = f"{subject} uncertain: {UNCERTAIN}. Set the side of the capture and the round-trip time of the path"
        warnings.append((number, (None, f"{text} with --vantage SIDE --rtt MS")))
    return warnings
