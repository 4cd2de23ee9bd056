"""The states of an initiator, and what leads from one to the next.

The theory (RFC 7296, sections 1.2, 2.1, 2.6, 2.7 and 2.16; RFC 9242; RFC 9370). An initiator has one request under way at
any time; what its state says is which one. So a state is left by three things only:

1. The response to this request, whole and, after IKE_SA_INIT, opened by the keys of the IKE SA. What it means is the
   event. Whatever else arrives (a response to an earlier request, one that was there already, a fragment, what no key
   opens, messages of others) is no event: it is counted and changes nothing.
2. Silence: the last transmission of the request was not answered in time.
3. The user, who closes.

IKE_SA_INIT may be refused without an error: the responder wants a cookie returned, or another key exchange. Then another
request with the same message ID follows, and the state remains; how often is bounded, not here, but where it is counted.
Then follow as many IKE_INTERMEDIATE exchanges as additional key exchanges were negotiated, each of which changes the keys;
IKE_AUTH, which is one exchange if both sides authenticate by it, and with EAP as many as the method takes, and one more in
which both sides prove that they have the key that the method made.

A refusal is an error notify, EAP's failure, or a response that we must not accept: a proposal that was not offered, a
public value that is none, an AUTH payload that does not verify, or simply more than we are ready to take. An IKE SA that
stood is not undone by it. `FAILED` and `CLOSED` are the end: no event leads out of
them. From `FAILED`, closing says so to a responder whose proof we refuse; that is no state of its own, since nobody waits for the
answer.

A request of IKE_AUTH that is not answered leaves us in doubt: the request may be lost, and the responder knows nothing; or its
response is, and for the responder the IKE SA stands. So closing sends a delete with the next message ID, which only a
responder that took the request can take; whoever did not ignores it (RFC 7296, section 2.3). It goes unanswered, or it
ends an IKE SA that we never had: either way the handshake has failed.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class InitiatorState(Enum):
    """Which request is under way, or that none is."""

    IDLE = "idle"  # nothing was sent
    INIT = "IKE_SA_INIT sent"
    INTERMEDIATE = "IKE_INTERMEDIATE sent"
    AUTH = "IKE_AUTH sent"  # the first of them, with our identity
    EAP = "EAP under way"  # an IKE_AUTH with an EAP response
    PROOF = "proof of EAP sent"  # an IKE_AUTH with the AUTH payload that EAP's key makes
    ESTABLISHED = "established"
    DOUBTFUL = "IKE_AUTH not answered"  # the responder may believe that the IKE SA stands
    CLOSING = "delete sent"
    CLOSED = "closed"
    FAILED = "failed"


class InitiatorEvent(Enum):
    """What leads from state to state."""

    BEGIN = "begin"
    COOKIE = "COOKIE"  # the responder wants it returned
    OTHER_METHOD = "INVALID_KE_PAYLOAD"  # the responder wants another key exchange method
    KEYS_TO_ADD = "accepted, additional key exchange to do"
    KEYS_DONE = "accepted, no additional key exchange left"
    EAP_REQUEST = "EAP request"
    EAP_SUCCESS = "EAP success"
    AUTHENTICATED = "AUTH verifies"
    REFUSED = "refused"  # by the responder, or by us: its response must not be accepted
    SILENCE = "no answer"
    CLOSE = "close"
    ANSWERED = "answered"
    DELETED = "deleted by the responder"


#: What follows. A pair that is not here cannot be: meeting it is a fault of ours.
TRANSITIONS: Final[Mapping[InitiatorState, Mapping[InitiatorEvent, InitiatorState]]] = MappingProxyType(
    {
        InitiatorState.IDLE: {InitiatorEvent.BEGIN: InitiatorState.INIT, InitiatorEvent.CLOSE: InitiatorState.FAILED},
        InitiatorState.INIT: {
            InitiatorEvent.COOKIE: InitiatorState.INIT,
            InitiatorEvent.OTHER_METHOD: InitiatorState.INIT,
            InitiatorEvent.KEYS_TO_ADD: InitiatorState.INTERMEDIATE,
            InitiatorEvent.KEYS_DONE: InitiatorState.AUTH,
            InitiatorEvent.REFUSED: InitiatorState.FAILED,
            InitiatorEvent.SILENCE: InitiatorState.FAILED,
            InitiatorEvent.CLOSE: InitiatorState.FAILED,
        },
        InitiatorState.INTERMEDIATE: {
            InitiatorEvent.KEYS_TO_ADD: InitiatorState.INTERMEDIATE,
            InitiatorEvent.KEYS_DONE: InitiatorState.AUTH,
            InitiatorEvent.REFUSED: InitiatorState.FAILED,
            InitiatorEvent.SILENCE: InitiatorState.FAILED,
            InitiatorEvent.CLOSE: InitiatorState.FAILED,
        },
        InitiatorState.AUTH: {
            InitiatorEvent.AUTHENTICATED: InitiatorState.ESTABLISHED,
            InitiatorEvent.EAP_REQUEST: InitiatorState.EAP,
            InitiatorEvent.REFUSED: InitiatorState.FAILED,
            InitiatorEvent.SILENCE: InitiatorState.DOUBTFUL,
            InitiatorEvent.CLOSE: InitiatorState.CLOSING,
        },
        InitiatorState.EAP: {
            InitiatorEvent.EAP_REQUEST: InitiatorState.EAP,
            InitiatorEvent.EAP_SUCCESS: InitiatorState.PROOF,
            InitiatorEvent.REFUSED: InitiatorState.FAILED,
            InitiatorEvent.SILENCE: InitiatorState.DOUBTFUL,
            InitiatorEvent.CLOSE: InitiatorState.CLOSING,
        },
        InitiatorState.PROOF: {
            InitiatorEvent.AUTHENTICATED: InitiatorState.ESTABLISHED,
            InitiatorEvent.REFUSED: InitiatorState.FAILED,
            InitiatorEvent.SILENCE: InitiatorState.DOUBTFUL,
            InitiatorEvent.CLOSE: InitiatorState.CLOSING,
        },
        InitiatorState.DOUBTFUL: {InitiatorEvent.CLOSE: InitiatorState.CLOSING},
        InitiatorState.ESTABLISHED: {
            InitiatorEvent.CLOSE: InitiatorState.CLOSING,
            InitiatorEvent.DELETED: InitiatorState.CLOSED,
            InitiatorEvent.REFUSED: InitiatorState.CLOSED,
        },
        InitiatorState.CLOSING: {
            InitiatorEvent.ANSWERED: InitiatorState.CLOSED,
            InitiatorEvent.SILENCE: InitiatorState.CLOSED,
            InitiatorEvent.REFUSED: InitiatorState.CLOSED,
            InitiatorEvent.DELETED: InitiatorState.CLOSING,
        },
        InitiatorState.CLOSED: {},
        InitiatorState.FAILED: {},
    }
)


def next_state(state: InitiatorState, event: InitiatorEvent) -> InitiatorState:
    """The state after an event. `ValueError` for an event that the state does not know."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ValueError(f"{event.name} cannot happen in {state.name}") from None


def awaits_response(state: InitiatorState) -> bool:
    """Whether a request is under way, so that there is a time to send it again."""
    return InitiatorEvent.SILENCE in TRANSITIONS[state]
