"""Quick modes of IKEv1 that were refused in an IKE SA that has others (RFC 2409, sections 5.5 and 5.7).

The receiver of the first or second message of a quick mode refuses it by an error notify in an Informational exchange
of its own, which has another message ID (RFC 2408, section 4.8). Nothing in it names the quick mode, so it is taken for
the latest one in which its sender has not sent the message that was to follow. All messages are encrypted, and their
sizes tell nothing: without keys no refusal is found.

A refusal does not count if a later quick mode for the same networks was accepted.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ikeanalyze.analysis.handshakes.contents.authenticated_outcome import find_ikev1_error
from ikeanalyze.analysis.handshakes.diagnosis.suspect import RefusedRequest
from ikeanalyze.wire.ikev1.payloads import Ikev1Identification, decode_ikev1_payload
from ikeanalyze.wire.registries.ikev1 import Ikev1ExchangeType, Ikev1PayloadType
from ikeanalyze.wire.text import shorten_text

if TYPE_CHECKING:
    from ikeanalyze.analysis.decryption.decoded_messages import DecodedMessage

#: Bytes of an identity before its data: type, protocol, port. Without: the whole packet stream of both hosts.
_NO_IDENTITIES: Final = (b"", b"")


class QuickMode(Struct):
    """A quick mode: its first message, the response, and the third message, which accepts the response."""

    exchange: int  # row of the exchange of its first two messages
    from_initiator: bool
    start_ns: int
    end_ns: int | None  # of its response; None: there is none
    has_third_message: bool = False
    refusal: int | None = None  # row of the Informational exchange that refused it
    notify: str | None = None  # that refused it
    identities: tuple[bytes, ...] | None = None  # bodies of the ID payloads of its request; None: not decrypted
    selectors: str | None = None  # the same as text

    @property
    def is_response_refused(self) -> bool:
        """Whether its sender refused the response, if it was refused."""
        return self.end_ns is not None

    def may_be_refused(self, time_ns: int, *, from_initiator: bool) -> bool:
        """Whether an error notify of this time and sender, which may refuse a quick mode, may refuse this one."""
        if self.refusal is not None or self.has_third_message:
            return False
        if self.end_ns is None:
            return self.start_ns <= time_ns and self.from_initiator != from_initiator
        return max(self.start_ns, self.end_ns) <= time_ns and self.from_initiator == from_initiator

    def makes_up_for(self, refused: "QuickMode") -> bool:
        """Whether this one, which was not over before the refused one, was for the same networks and was accepted."""
        if self.end_ns is None or self.refusal is not None or self.end_ns < refused.start_ns:
            return False
        if refused.identities is None or self.identities is None:
            return True
        return self.identities in (refused.identities, refused.identities[::-1])


def find_refused_quick_mode(
    quick_modes: Sequence[QuickMode], informationals: dict[int, int], messages: "Iterable[DecodedMessage]"
) -> RefusedRequest | None:
    """The last quick mode of an IKE SA that was refused, and for which no other one made up.

    Args:
        quick_modes: those of the IKE SA, in order of time.
        informationals: when each Informational exchange began, by row of the exchange.
        messages: the decrypted messages of the IKE SA.
    """
    by_exchange = {quick_mode.exchange: quick_mode for quick_mode in quick_modes}
    refusals = []
    for message in messages:
        quick_mode = by_exchange.get(message.exchange)
        if quick_mode is not None and quick_mode.identities is None:
            # the first message: the others have no identities, or those of the first one
            _read_identities(quick_mode, message)
        if message.exchange_type == Ikev1ExchangeType.INFORMATIONAL and message.exchange in informationals:
            notify = find_ikev1_error(message)
            if notify is not None:
                refusals.append((informationals[message.exchange], message.exchange, message.from_initiator, notify))
    for time_ns, exchange, from_initiator, notify in sorted(refusals):
        for quick_mode in reversed(quick_modes):
            if quick_mode.may_be_refused(time_ns, from_initiator=from_initiator):
                quick_mode.refusal, quick_mode.notify = exchange, notify
                break
    left = [
        one
        for one in quick_modes
        if one.refusal is not None and not any(other.makes_up_for(one) for other in quick_modes)
    ]
    return _describe(left[-1], sum(_is_same(left[-1], other) for other in left)) if left else None


def _read_identities(quick_mode: QuickMode, message: "DecodedMessage") -> None:
    payloads = [payload for payload in message.payloads if payload.type == Ikev1PayloadType.ID]
    quick_mode.identities = tuple(payload.body for payload in payloads) or _NO_IDENTITIES
    bodies = [decode_ikev1_payload(payload) for payload in payloads]
    texts = [shorten_text(body.text or "?") for body in bodies if isinstance(body, Ikev1Identification)]
    quick_mode.selectors = " to ".join(texts) if len(texts) == 2 else None


def _is_same(refused: QuickMode, other: QuickMode) -> bool:
    return (refused.from_initiator, refused.is_response_refused, refused.notify, refused.identities) == (
        other.from_initiator,
        other.is_response_refused,
        other.notify,
        other.identities,
    )


def _describe(refused: QuickMode, count: int) -> RefusedRequest:
    sides = ("initiator", "responder") if refused.from_initiator else ("responder", "initiator")
    return RefusedRequest(
        exchange=refused.exchange,
        refusing_exchange=refused.refusal,
        type=Ikev1ExchangeType.QUICK_MODE.label,
        sender=sides[0],
        by=sides[0 if refused.is_response_refused else 1],
        count=count,
        notify=refused.notify,
        selectors=refused.selectors,
    )
