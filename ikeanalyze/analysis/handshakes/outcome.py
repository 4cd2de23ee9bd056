"""Decide how a handshake ended, by rules in order.

Decrypted payloads that prove failure or success (see `authenticated_outcome`) come first. Then, from clear data:

1. failed: an error notify in the last clear IKE_SA_INIT response (RFC 7296, 3.10.1: types below 16384), REDIRECT or
   TICKET_NACK (RFC 5685; RFC 5723, 4.3) that no further request followed, unless it is INVALID_KE_PAYLOAD, which asks
   for another request as COOKIE does; in IKEv1 an error notify in a clear message; or the AAA server's Access-Reject,
   or an AAA server that answered no request until the responder ended the handshake.
2. cut: the capture does not have the handshake's first request, or it has only the messages of one side. A message
   that is missing between others does not make a handshake cut: the capture lost it, but the next request shows that
   the response had arrived, so the other rules apply as if the message were there. Only the times stay unknown, also
   if a whole exchange is missing, as the message IDs show.
3. unanswered: the last request has no response, and that is not because the capture ended: it was sent more than once,
   or the capture went on for longer than the slowest first retransmission timer of common stacks (strongSwan's 4 s). A
   response does not count if the initiator cannot have received it: the request was sent again more than 4 s after it,
   longer than any round trip; or all transmissions of the response together lack fragments, or each lacks IP fragments,
   and the request or the response was sent again; or no response is encrypted after IKE_SA_INIT (see `unprotected`). An
   initiator that answers a request of the responder has the IKE SA: the capture lost the response.
4. cut: the last request has no response, and the capture ended too early to decide.
5. half-open: all requests are answered, but the initiator did not send the next one, although the capture went on for
   more than those 4 s after the last message of the set-up, or IKEv1's responder sent its message again. A next request
   had to follow if there is no IKE_AUTH exchange; if decrypted payloads show that IKE_AUTH was not finished; if the
   last packet of the AAA server is an Access-Challenge; or if the third message of IKEv1's aggressive or quick mode is
   missing. An exchange after the set-up shows that nothing had to follow: an answered one, or a request of the
   initiator whose message ID shows that IKE_AUTH was answered. If there was no IKE_AUTH before it, it ended the set-up.
6. cut: the same, but the capture ended too early to decide.
7. completed: all requests are answered. Without keys, success cannot be read.

An IKE SA that replaced another one is not a handshake (see `rekeyed`). Its outcome is established if decrypted
payloads show its rekeying, else unknown.
"""

from enum import IntEnum
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ikeanalyze.analysis.exchanges.answers import SLOWEST_FIRST_TIMER_NS
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array
from ikeanalyze.wire.registries.radius import RadiusCode

# Reasons that are not names of notifies.
ACCESS_REJECT: Final = RadiusCode.ACCESS_REJECT.label
#: The responder ended the handshake because the AAA server answered none of its requests.
AAA_SILENT: Final = "AAA server silent"
EAP_FAILURE: Final = "EAP failure"
XAUTH_FAILURE: Final = "XAUTH_STATUS failure"
#: The IKE SA replaced another one.
REKEYED: Final = "REKEYED"

#: The names in `schema.OUTCOMES`.
OutcomeName = Literal["established", "completed", "failed", "unanswered", "half-open", "cut"]


class Outcome(IntEnum):
    """How a handshake ended; the numbers are the positions of the names in `schema.OUTCOMES`."""

    ESTABLISHED = 0
    COMPLETED = 1
    FAILED = 2
    UNANSWERED = 3
    HALF_OPEN = 4
    CUT = 5


class Evidence(Struct):
    """The facts about handshakes that the rules use. (handshakes,) each"""

    proved_failed: BoolArray  # by decrypted payloads
    proved_established: BoolArray
    refused: BoolArray  # an error notify, Access-Reject, or an AAA server that never answered
    begun: BoolArray  # the first request is in the capture
    one_sided: BoolArray  # only one side's messages are in the capture
    hole: BoolArray  # a message or an exchange between others is missing; no rule uses it, but the times are unknown
    last_unanswered: BoolArray
    last_repeated: BoolArray  # the last request was sent more than once
    finished: BoolArray  # nothing had to follow the last response
    asked_again: BoolArray  # IKEv1's responder repeated the message that the initiator had to answer
    waited_ns: Int64Array  # from the last message of the set-up to the end of the capture


def decide_outcome(evidence: Evidence) -> UInt8Array:
    """Return the `Outcome` of each handshake: that of the first rule that applies. (handshakes,)"""
    waited = evidence.waited_ns > SLOWEST_FIRST_TIMER_NS
    rules = [
        (evidence.proved_failed, Outcome.FAILED),
        (evidence.proved_established, Outcome.ESTABLISHED),
        (evidence.refused, Outcome.FAILED),
        (~evidence.begun | evidence.one_sided, Outcome.CUT),
        (evidence.last_unanswered & (evidence.last_repeated | waited), Outcome.UNANSWERED),
        (evidence.last_unanswered, Outcome.CUT),
        (~evidence.finished & (evidence.asked_again | waited), Outcome.HALF_OPEN),
        (~evidence.finished, Outcome.CUT),
    ]
    result = np.select([mask for mask, _ in rules], [outcome for _, outcome in rules], Outcome.COMPLETED)
    return result.astype(np.uint8)
