"""Decide how a handshake ended, by rules in order.

Decrypted payloads that prove failure or success (see `authenticated_outcome`) come first. Then, from clear data:

1. failed: an error notify in the last clear IKE_SA_INIT response (RFC 7296, 3.10.1: types below 16384) that no further
   request followed; in IKEv1 an error notify in a clear message; or the AAA server's Access-Reject, or an AAA server
   that answered no request until the responder ended the handshake.
2. cut: the capture does not have the handshake's first request; or responses that must have come, since the next
   request was sent, are not in it; or the last RADIUS packet is an Access-Challenge.
3. unanswered: the last request has no response, and that is not because the capture ended: it was sent more than once,
   or the capture went on for longer than the field's slowest first retransmission timer (strongSwan's 4 s). A response
   does not count if the initiator cannot have received it: the request was sent again more than 4 s after it, longer
   than any round trip; or all its transmissions together lack fragments, and the request or the response was sent
   again.
4. cut: the last request has no response, or no IKE_AUTH was sent. Or decrypted payloads show that another IKE_AUTH
   exchange had to follow.
5. completed: all requests are answered. Without keys, success cannot be read.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array

#: strongSwan's default retransmit_timeout, the longest first timer among common stacks.
SLOWEST_FIRST_TIMER_NS: Final = 4_000_000_000


class Outcome(IntEnum):
    """Physical values of schema.OUTCOMES."""

    ESTABLISHED = 0
    COMPLETED = 1
    FAILED = 2
    UNANSWERED = 3
    CUT = 4


@dataclass(slots=True)
class Evidence:
    """The facts that the rules use. (handshakes,) each"""

    proved_failed: BoolArray  # by decrypted payloads
    proved_established: BoolArray
    undone: BoolArray  # decrypted payloads show that another IKE_AUTH exchange had to follow
    refused: BoolArray  # an error notify, Access-Reject, or an AAA server that never answered
    begun: BoolArray  # the first request is in the capture
    hole: BoolArray  # a response is missing though the next request was sent
    aaa_open: BoolArray  # the last packet of the AAA server is an Access-Challenge
    last_unanswered: BoolArray
    last_repeated: BoolArray  # the last request was sent more than once
    waited_ns: Int64Array  # from the last request to the end of the capture
    finished: BoolArray  # the exchanges that a handshake needs are there: IKE_AUTH; phase 1 of IKEv1


def decide_outcome(evidence: Evidence) -> UInt8Array:
    """Apply the rules. (n,)"""
    given_up = evidence.last_repeated | (evidence.waited_ns > SLOWEST_FIRST_TIMER_NS)
    rules = [
        (evidence.proved_failed, Outcome.FAILED),
        (evidence.proved_established, Outcome.ESTABLISHED),
        (evidence.refused, Outcome.FAILED),
        (~evidence.begun | evidence.hole | evidence.aaa_open, Outcome.CUT),
        (evidence.last_unanswered & given_up, Outcome.UNANSWERED),
        (evidence.last_unanswered | ~evidence.finished | evidence.undone, Outcome.CUT),
    ]
    result = np.select([mask for mask, _ in rules], [outcome for _, outcome in rules], Outcome.COMPLETED)
    return result.astype(np.uint8)
