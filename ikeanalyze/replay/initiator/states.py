"""States and transitions of the initiator.

The theory (RFC 7296, sections 1.2, 2.1, 2.6, 2.7 and 2.16; RFC 9242; RFC 9370). An initiator has at most one pending
request; its state names this request. Only three things change the state:

1. The complete response to the pending request, decrypted with the keys of the IKE SA unless it is IKE_SA_INIT. Its
   meaning is the event. Anything else that arrives (a response to an earlier request, a duplicate, a fragment, a
   message that cannot be decrypted or belongs to others) is counted and is not an event.
2. Silence: the last transmission of the request was not answered in time.
3. The user closes the initiator.

The responder may ask for another IKE_SA_INIT request, with a cookie or another key exchange method. It has the same
message ID, and the state remains; `initiator` limits how often. Then follow one IKE_INTERMEDIATE exchange for each
negotiated additional key exchange, each of which changes the keys, and IKE_AUTH: one exchange, or with EAP as many as
the method needs and a last one in which both sides prove that they have the key of the method.

A refusal is an error notify, EAP failure, or a response that we must not accept: a proposal that was not offered, an
invalid public value, an AUTH payload that does not verify, or more data than our limits. It does not undo an
established IKE SA. `FAILED` and `CLOSED` are final. Closing a `FAILED` initiator notifies a responder whose AUTH
payload we refuse; this needs no state, because no response is awaited.

After an unanswered IKE_AUTH request we do not know whether the request was lost, or its response, so that the responder
has an IKE SA. Closing sends a delete with the next message ID, which only a responder that processed the request
accepts; any other ignores it (RFC 7296, section 2.3). In both cases the handshake has failed.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class InitiatorState(Enum):
    """The pending request, if any."""

    IDLE = "idle"  # nothing was sent
    INIT = "IKE_SA_INIT sent"
    INTERMEDIATE = "IKE_INTERMEDIATE sent"
    AUTH = "IKE_AUTH sent"  # the first one, with our identity
    EAP = "EAP under way"  # an IKE_AUTH with an EAP response
    PROOF = "proof of EAP sent"  # an IKE_AUTH with the AUTH payload after EAP
    ESTABLISHED = "established"
    DOUBTFUL = "IKE_AUTH not answered"  # the responder may have an IKE SA
    CLOSING = "delete sent"
    CLOSED = "closed"
    FAILED = "failed"


class InitiatorEvent(Enum):
    """What changes the state."""

    BEGIN = "begin"
    COOKIE = "COOKIE"  # the responder requests a cookie
    OTHER_METHOD = "INVALID_KE_PAYLOAD"  # the responder requests another key exchange method
    KEYS_TO_ADD = "accepted, additional key exchange to do"
    KEYS_DONE = "accepted, no additional key exchange left"
    EAP_REQUEST = "EAP request"
    EAP_SUCCESS = "EAP success"
    AUTHENTICATED = "AUTH verifies"
    REFUSED = "refused"  # by the responder, or by us
    SILENCE = "no answer"
    CLOSE = "close"
    ANSWERED = "answered"
    DELETED = "deleted by the responder"


#: Next state by state and event. Any other pair is a bug.
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
    """Return the state after an event. Raises `ValueError` for an event that the state does not allow."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise ValueError(f"{event.name} cannot happen in {state.name}") from None


def awaits_response(state: InitiatorState) -> bool:
    """Whether a request is pending, and therefore a retransmission timer is running."""
    return InitiatorEvent.SILENCE in TRANSITIONS[state]
