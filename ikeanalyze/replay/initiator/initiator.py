"""An initiator of IKEv2 that re-enacts a shape: datagrams and time in, datagrams and wishes out.

It has no socket, no clock and does not sleep; `steps` says how it is driven, `states` what it goes through. Whatever the
target sends, it ends: `inbox` bounds what is taken of it, and here is bounded how often a round can be asked for.
"""

import datetime as dt
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import numpy as np

from ikeanalyze.crypto.skf_fragments import FragmentTooSmallError
from ikeanalyze.model.retransmission_policy import RetransmissionPolicy
from ikeanalyze.replay.credentials import Credentials
from ikeanalyze.replay.handshake_shape import HandshakeShape
from ikeanalyze.replay.initiator import key_exchange
from ikeanalyze.replay.initiator.ike_auth import IkeAuthExchange
from ikeanalyze.replay.initiator.inbox import MOST_BYTES, MOST_DATAGRAMS, Inbox, ReceivedMessage
from ikeanalyze.replay.initiator.interface import InitiatorResult, InitiatorStep, OutgoingDatagram, RefusedError
from ikeanalyze.replay.initiator.key_exchange import InitiatorKeyExchange
from ikeanalyze.replay.initiator.negotiation import (
    CookieRequest,
    Endpoint,
    InitAcceptance,
    InitRefusal,
    KeyExchangeMethodRequest,
    compute_nat_hashes,
    get_first_error,
    list_key_exchange_methods,
    parse_init_response,
    select_proposals,
)
from ikeanalyze.replay.initiator.pending_request import PendingRequest
from ikeanalyze.replay.initiator.request_payloads import build_init_payloads
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from ikeanalyze.replay.initiator.states import InitiatorEvent, InitiatorState, awaits_response, next_state
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.encode import Payload as Body
from ikeanalyze.wire.ikev2.encode import encode_delete, encode_key_exchange, encode_message, encode_notify
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.ikev2.payloads import parse_delete, parse_key_exchange
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Cookies that are returned, and exchanges: EAP may go on as long as the server likes.
MOST_COOKIES: Final = 5
MOST_EXCHANGES: Final = 60
#: Fragments that a request of ours may have.
MOST_FRAGMENTS: Final = 256
_COOKIE: Final = range(1, 65)  # bytes (RFC 7296, section 2.6)
_NO_SPI: Final = bytes(8)
_SPI: Final = 8
#: Where the responder believes, or may believe, that the IKE SA stands.
_TO_BE_DELETED: Final = (
    InitiatorState.ESTABLISHED,
    InitiatorState.DOUBTFUL,
    InitiatorState.AUTH,
    InitiatorState.EAP,
    InitiatorState.PROOF,
)
_CLOSED_EARLY: Final = "closed before there was an IKE SA"


class Initiator:
    """One handshake. `offered` says what of the shape is offered."""

    def __init__(
        self,
        shape: HandshakeShape,
        credentials: Credentials,
        *,
        policy: RetransmissionPolicy,
        endpoints: tuple[Endpoint, Endpoint],
        randomness: Callable[[int], bytes] = os.urandom,
        rng: np.random.Generator | None = None,
        time: dt.datetime | None = None,
    ) -> None:
        """`endpoints`: our address and UDP port and the target's, between which IKE_SA_INIT goes, for NAT detection.

        `randomness`: so many bytes, for SPIs, nonces and IVs; keys are the library's own. `rng`: for the policy's jitter.
        `time`: by which certificates have to be valid; None: now.
        Raises `CannotReplayError` before anything is sent, if the shape or the credentials do not allow it.
        """
        self.offered = select_proposals(shape.proposals, shape.key_exchange)
        self._shape = shape
        self._policy = policy
        self._rng = rng
        self._local, self._remote = endpoints
        self._randomness = randomness
        self._proofs = IkeAuthExchange(shape, credentials, self._local[0], randomness, time)
        self._state = InitiatorState.IDLE
        self._spi_i, self._spi_r = randomness(_SPI), _NO_SPI
        self._nonce = randomness(shape.nonce_bytes)
        self._exchanges: list[PendingRequest] = []
        self._inbox = Inbox(self._spi_i, self._exchanges)
        self._own: InitiatorKeyExchange | None = None
        self._tried: list[int] = []  # key exchange methods of IKE_SA_INIT
        self._cookies: list[bytes] = []
        self._additional: list[int] = []  # methods of key exchanges that are still to be done
        self._accepted: InitAcceptance | None = None
        self._protection: IkeSaKeys | None = None
        self._port = IKE_PORT
        self._began_ns = 0
        self._ended_ns: int | None = None  # when it was established, or given up
        self._reason: str | None = None  # why it failed
        self._deleted: bool | None = None  # as `InitiatorResult.deleted`
        self._result: InitiatorResult | None = None
        self._answered: dict[int, tuple[OutgoingDatagram, ...]] = {}  # requests of the responder by message ID

    # ---- what the caller does

    def begin(self, now_ns: int) -> InitiatorStep:
        """Send the first request."""
        self._began_ns = now_ns
        self._go(InitiatorEvent.BEGIN)
        return self._step(self._send_init(self.offered.key_exchange, now_ns))

    def receive(self, data: bytes, now_ns: int, from_port: int) -> InitiatorStep:
        """Take a datagram of the target, without the non-ESP marker; `from_port`: 500 or 4500, as in `OutgoingDatagram.port`."""
        if self._state in (InitiatorState.IDLE, InitiatorState.DOUBTFUL, InitiatorState.CLOSED, InitiatorState.FAILED):
            return self._step()
        arrived = self._inbox.add_datagram(data, from_port, open_exchange=awaits_response(self._state))
        if self._inbox.overflows:
            return self._fail(
                f"the target sends more than {MOST_DATAGRAMS:,} datagrams or {MOST_BYTES >> 20} MiB", now_ns
            )
        if arrived is None:
            return self._step()
        if not arrived.header.response:
            return self._step(self._answer_request(arrived, now_ns))
        try:
            return self._step(self._on_response(arrived, now_ns))
        except (RefusedError, FragmentTooSmallError, WireError) as problem:
            return self._fail(str(problem), now_ns)

    def tick(self, now_ns: int) -> InitiatorStep:
        """Send again what was not answered in time, or give up."""
        if not awaits_response(self._state) or now_ns < self._exchanges[-1].deadline_ns:
            return self._step()
        if not self._exchanges[-1].exhausted:
            return self._step(self._exchanges[-1].transmit(now_ns))
        hint, again = self._inbox.hint, self._exchanges[-1].answer
        reason = f"no answer but {again} once more" if again else "no answer"
        return self._fail(f"{reason} (in clear: {hint})" if hint else reason, now_ns, InitiatorEvent.SILENCE)

    def close(self, now_ns: int) -> InitiatorStep:
        """Delete the IKE SA, also one that the responder alone may believe in; else just end."""
        if self._state in _TO_BE_DELETED:
            if not self._proofs.done:
                self._reason = self._reason or _CLOSED_EARLY
            self._go(InitiatorEvent.CLOSE)
            self._result, self._deleted = None, False
            delete = [encode_delete(ProtocolId.IKE)]
            return self._step(self._send(ExchangeType.INFORMATIONAL, delete, now_ns))
        if self._state is InitiatorState.FAILED and self._proofs.refused:
            self._proofs.refused = False
            refusal = [encode_notify(NotifyType.AUTHENTICATION_FAILED)]
            sent = self._send(ExchangeType.INFORMATIONAL, refusal, now_ns)
            return InitiatorStep(sent, None, self.conclude(now_ns))
        if self._state in (InitiatorState.CLOSED, InitiatorState.FAILED, InitiatorState.CLOSING):
            return self._step()
        return self._fail(_CLOSED_EARLY, now_ns, InitiatorEvent.CLOSE)

    def conclude(self, now_ns: int) -> InitiatorResult:
        """How it stands, whatever is still under way."""
        accepted, protection, proofs = self._accepted, self._protection, self._proofs
        if self._ended_ns is None:
            self._ended_ns = now_ns
        self._result = InitiatorResult(
            established=proofs.done,
            reason=self._reason,
            child_error=proofs.child_error,
            deleted=self._deleted,
            exchanges=tuple(exchange.count() for exchange in self._exchanges),
            ignored=self._inbox.ignored,
            spi_i=self._spi_i,
            spi_r=self._spi_r,
            chosen=None if accepted is None else accepted.chosen.describe(),
            authentication=(proofs.own_method, proofs.peer_method),
            began_ns=self._began_ns,
            ended_ns=self._ended_ns,
            keys=() if protection is None else tuple(protection.key_sets),
        )
        return self._result

    # ---- states

    def _go(self, event: InitiatorEvent) -> None:
        self._state = next_state(self._state, event)

    def _step(self, send: tuple[OutgoingDatagram, ...] = ()) -> InitiatorStep:
        wake = self._exchanges[-1].deadline_ns if awaits_response(self._state) else None
        return InitiatorStep(send, wake, self._result)

    def _fail(self, reason: str, now_ns: int, event: InitiatorEvent = InitiatorEvent.REFUSED) -> InitiatorStep:
        self._go(event)
        if self._state is not InitiatorState.CLOSED:  # else it had come to its end before
            self._reason = reason
        self.conclude(now_ns)
        return self._step()

    # ---- requests

    def _send_init(self, method: int, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        if self._own is None or self._own.method != method:
            self._own = key_exchange.start_key_exchange(method)
            self._tried.append(method)
        message = encode_message(
            self._spi_i,
            _NO_SPI,
            ExchangeType.IKE_SA_INIT,
            0,
            build_init_payloads(
                self.offered.proposals,
                (method, self._own.data),
                self._nonce,
                compute_nat_hashes(self._spi_i, _NO_SPI, self._local, self._remote),
                self._shape.notifies,
                self._cookies[-1] if self._cookies else None,
            ),
        )
        attempt = len(self._exchanges) + 1
        return self._transmit([message], ExchangeType.IKE_SA_INIT, 0, attempt, now_ns)

    def _send(self, kind: ExchangeType, payloads: list[Body], now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """An encrypted request."""
        protection, accepted = self._agreed()
        if len(self._exchanges) >= MOST_EXCHANGES and kind != ExchangeType.INFORMATIONAL:
            raise RefusedError(f"the responder wants more than {MOST_EXCHANGES} exchanges")
        message_id = self._exchanges[-1].message_id + 1
        largest = self._shape.fragment_size if accepted.fragmentation else None
        parts, opened = protection.seal(kind, message_id, payloads, largest)
        if len(parts) > MOST_FRAGMENTS:
            raise RefusedError(f"fragments of {largest} bytes would make more than {MOST_FRAGMENTS} of a message")
        self._sent = parts[0], opened
        return self._transmit(parts, kind, message_id, 1, now_ns)

    def _transmit(
        self, parts: Sequence[bytes], kind: int, message_id: int, attempt: int, now_ns: int
    ) -> tuple[OutgoingDatagram, ...]:
        timeouts = self._policy.draw_timeouts(self._rng).tolist()
        self._exchanges.append(PendingRequest(kind, message_id, attempt, parts, self._port, timeouts))
        return self._exchanges[-1].transmit(now_ns)

    def _agreed(self) -> tuple[IkeSaKeys, InitAcceptance]:
        assert self._protection is not None
        assert self._accepted is not None
        return self._protection, self._accepted

    # ---- responses

    def _on_response(self, arrived: ReceivedMessage, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """What follows from the response to the request under way."""
        if arrived.opened is None:
            return self._on_init(arrived.message, now_ns)
        self._exchanges[-1].answered(now_ns)
        if self._state is InitiatorState.CLOSING:
            self._go(InitiatorEvent.ANSWERED)
            self._deleted = True
            self.conclude(now_ns)
            return ()
        chain = parse_decrypted_payloads(arrived.opened.plaintext, arrived.opened.first)
        if chain.error is not None:
            raise RefusedError(f"a response cannot be read: {chain.error}")
        self._exchanges[-1].answer = get_first_error(chain.payloads)
        if self._state is InitiatorState.INTERMEDIATE:
            return self._on_intermediate(arrived, chain.payloads, now_ns)
        event, payloads = self._proofs.take(chain.payloads)
        self._go(event)
        if event is InitiatorEvent.AUTHENTICATED:
            self.conclude(now_ns)
            return ()
        return self._send(ExchangeType.IKE_AUTH, payloads, now_ns)

    def _on_init(self, message: bytes, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        exchange, own = self._exchanges[-1], self._own
        assert own is not None
        answer = parse_init_response(message, self.offered.proposals, own.method, self._local, self._remote)
        if (isinstance(answer, CookieRequest) and answer.data in self._cookies) or (
            isinstance(answer, KeyExchangeMethodRequest) and answer.method in self._tried[1:]
        ):
            self._inbox.count("repeated")  # the answer to the attempt before, once more
            again = InitiatorEvent.COOKIE if isinstance(answer, CookieRequest) else InitiatorEvent.OTHER_METHOD
            exchange.answer = again.value  # until another comes
            return ()
        exchange.mark_used(len(message))
        exchange.answered(now_ns)
        match answer:
            case InitRefusal(reason):
                exchange.answer = reason
                raise RefusedError(reason)
            case CookieRequest(data):
                exchange.answer = InitiatorEvent.COOKIE.value
                if len(data) not in _COOKIE:
                    raise RefusedError(f"a COOKIE of {len(data)} bytes; 1 to {_COOKIE[-1]} are allowed")
                if len(self._cookies) == MOST_COOKIES:
                    raise RefusedError(f"the responder wants more than {MOST_COOKIES} cookies")
                self._cookies.append(data)
                self._go(InitiatorEvent.COOKIE)
                return self._send_init(own.method, now_ns)
            case KeyExchangeMethodRequest(method):
                exchange.answer = InitiatorEvent.OTHER_METHOD.value
                self._check_method(method)
                self._go(InitiatorEvent.OTHER_METHOD)
                return self._send_init(method, now_ns)
            case InitAcceptance():
                exchange.answer = None
                return self._on_accepted(answer, own, (exchange.first_part, message), now_ns)

    def _check_method(self, method: int) -> None:
        """Refuse a key exchange method that the responder cannot mean."""
        why = "was sent" if method in self._tried else None
        if why is None and method not in list_key_exchange_methods(self.offered.proposals):
            why = "was not offered"
        if why is not None:
            raise RefusedError(f"INVALID_KE_PAYLOAD asks for {get_key_exchange_name(method)}, which {why}")

    def _on_accepted(
        self, accepted: InitAcceptance, own: InitiatorKeyExchange, init: tuple[bytes, bytes], now_ns: int
    ) -> tuple[OutgoingDatagram, ...]:
        secret = own.secret(accepted.key_exchange)
        if not self._shape.esp_proposals and not accepted.childless:
            raise RefusedError("the responder does not support an IKE SA without CHILD_SA (RFC 6023)")
        self._accepted, self._init = accepted, init
        self._spi_r = self._inbox.spi_r = accepted.spi_r
        self._additional = list(accepted.additional)
        self._protection = self._inbox.protection = IkeSaKeys(
            accepted.prf,
            accepted.suite,
            secret,
            (self._spi_i, accepted.spi_r),
            (self._nonce, accepted.nonce),
            self._randomness,
        )
        if accepted.nat or (accepted.nat is False and self._shape.floats):
            self._port = NAT_PORT
        return self._next_keys(now_ns)

    def _on_intermediate(
        self, arrived: ReceivedMessage, payloads: Sequence[Payload], now_ns: int
    ) -> tuple[OutgoingDatagram, ...]:
        protection, own = self._agreed()[0], self._own
        assert own is not None
        assert arrived.opened is not None
        body = next((payload.body for payload in payloads if payload.type == PayloadType.KE), None)
        error = self._exchanges[-1].answer
        if body is None or error is not None:
            raise RefusedError(error or "the response to IKE_INTERMEDIATE has no KE payload")
        secret = own.secret(parse_key_exchange(body))
        protection.authenticate_intermediate(self._sent, (arrived.message, arrived.opened))
        protection.add(secret)
        return self._next_keys(now_ns)

    def _next_keys(self, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Go on to the next additional key exchange, or to IKE_AUTH."""
        protection, accepted = self._agreed()
        if self._additional:
            self._go(InitiatorEvent.KEYS_TO_ADD)
            self._own = key_exchange.start_key_exchange(self._additional.pop(0))
            payloads = [encode_key_exchange(self._own.method, self._own.data)]
            return self._send(ExchangeType.IKE_INTERMEDIATE, payloads, now_ns)
        self._go(InitiatorEvent.KEYS_DONE)
        message_id = self._exchanges[-1].message_id + 1
        payloads = self._proofs.begin(protection, accepted, self._init, self._nonce, message_id)
        return self._send(ExchangeType.IKE_AUTH, payloads, now_ns)

    # ---- requests of the responder

    def _answer_request(self, arrived: ReceivedMessage, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Answer what a responder may ask of an IKE SA that stands; nothing of it changes ours, but its end."""
        kind, message_id = arrived.header.exchange_type, arrived.header.message_id
        known = self._answered.get(message_id)
        if known is not None:
            self._inbox.count("repeated")
            again = tuple(replace(outgoing, transmission=outgoing.transmission + 1) for outgoing in known)
            self._answered[message_id] = again
            return again
        expected = message_id == len(self._answered) and message_id < MOST_EXCHANGES
        if self._state not in (InitiatorState.ESTABLISHED, InitiatorState.CLOSING) or not expected:
            self._inbox.count("unexpected")
            return ()
        assert arrived.opened is not None
        chain = parse_decrypted_payloads(arrived.opened.plaintext, arrived.opened.first)
        refusal = [] if kind == ExchangeType.INFORMATIONAL else [encode_notify(NotifyType.NO_ADDITIONAL_SAS)]
        parts, _ = self._agreed()[0].seal(kind, message_id, refusal, None, response=True)
        sent = (OutgoingDatagram(parts[0], kind, message_id, True, None, None, 1, self._port),)
        self._answered[message_id] = sent
        if kind == ExchangeType.INFORMATIONAL and _deletes(chain.payloads):
            self._go(InitiatorEvent.DELETED)
            self._deleted = True
            self.conclude(now_ns)
        return sent


def _deletes(payloads: Sequence[Payload]) -> bool:
    """Whether the IKE SA is deleted by them."""
    for payload in payloads:
        if payload.type == PayloadType.DELETE:
            with suppress(WireError):
                if parse_delete(payload.body).protocol == ProtocolId.IKE:
                    return True
    return False
