"""Warn of messages that lack fragments (RFC 7383, section 2.6)."""

import numpy as np

from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, CaptureWarning, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import sort_distinct


def warn_of_missing_fragments(state: AnalysisState, facts: CaptureFacts) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture with messages that lack fragments."""
    messages = state.messages
    warnings: list[tuple[int, CaptureWarning]] = []
    incomplete = state.lacking_fragments
    captures = state.capture[messages.handshake[incomplete]]
    first_frame = messages.first_frame[incomplete]
    shared = facts.share(SharedFact.MISSING_FRAGMENTS, lambda: {"first_frame": first_frame})
    if shared is not None:
        first_frame = shared["first_frame"]
        captures = np.zeros(len(first_frame), np.int64)
    for number in sort_distinct(captures).tolist():
        frames = first_frame[captures == number]
        subject = f"{len(frames)} messages lack" if len(frames) > 1 else "a message lacks"
        text = f"{subject} fragments that are not in the capture: counted with those that are"
        warnings.append((number, (int(frames.min()), text)))
    return warnings
