"""Warn of messages of IKEv2 whose flags contradict who began the IKE SA (RFC 7296, section 3.1).

To leave out the Initiator flag after IKE_SA_INIT is a common error of implementations: the other side takes such a
message for one of the responder, and does not answer it.
"""

from enum import IntEnum
from typing import Final

import numpy as np

from ikeanalyze.analysis.messages.association import is_ikev2_init
from ikeanalyze.analysis.messages.capture_facts import CaptureFacts, CaptureWarning, SharedFact
from ikeanalyze.analysis.state import AnalysisState
from ikeanalyze.capture.arrays import Int64Array, UInt8Array


class _Contradiction(IntEnum):
    LACKS_INITIATOR = 0
    HAS_INITIATOR = 1
    INIT = 2  # both flags, or neither


#: About one message, and about several.
_TEXTS: Final = {
    _Contradiction.LACKS_INITIATOR: (
        "a message of the host that began the IKE SA lacks the Initiator flag: counted as the initiator's",
        "{} messages of hosts that began the IKE SA lack the Initiator flag: counted as the initiator's",
    ),
    _Contradiction.HAS_INITIATOR: (
        "a message of the host that answered IKE_SA_INIT has the Initiator flag: counted as the responder's",
        "{} messages of hosts that answered IKE_SA_INIT have the Initiator flag: counted as the responder's",
    ),
    _Contradiction.INIT: (
        "an IKE_SA_INIT message has both the Initiator and the Response flag, or neither: counted by the latter",
        "{} IKE_SA_INIT messages have both the Initiator and the Response flag, or neither: counted by the latter",
    ),
}


def warn_of_wrong_flags(
    state: AnalysisState, rows: Int64Array, facts: CaptureFacts
) -> list[tuple[int, CaptureWarning]]:
    """Return a warning for each capture and each kind of contradiction: the first packet, and a text.

    `rows` are the datagrams that `find_wrong_flags` has found.
    """
    # INVALID_SPI about an ESP packet has the flag, whoever sends it (RFC 7296, section 1.5)
    rows = rows[~np.isin(state.message_of_datagram[rows], state.in_clear)] if len(rows) else rows
    kinds = _classify(state, rows)
    captures = state.capture[state.association.handshake[rows]]
    frames = state.datagrams.number[rows].astype(np.int64)
    warnings: list[tuple[int, CaptureWarning]] = []
    for number, kind, packets in facts.group_findings(SharedFact.WRONG_FLAGS, frames, kinds, captures):
        one, several = _TEXTS[_Contradiction(kind)]
        text = several.format(len(packets)) if len(packets) > 1 else one
        warnings.append((number, (int(packets[0]), f"{text} (RFC 7296, section 3.1)")))
    return warnings


def _classify(state: AnalysisState, rows: Int64Array) -> UInt8Array:
    """The `_Contradiction` of each of these datagrams."""
    datagrams = state.datagrams
    is_flagged = datagrams.from_initiator[rows]
    of_init = is_ikev2_init(datagrams)[rows] & (is_flagged == datagrams.is_response[rows])
    return np.where(of_init, np.uint8(_Contradiction.INIT), is_flagged.astype(np.uint8))
