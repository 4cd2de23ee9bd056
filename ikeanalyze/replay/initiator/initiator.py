"""IKEv2 initiator that re-enacts a recorded handshake shape, without sockets or clock.

`interface` shows how to drive it, `states` describes its states. It terminates whatever the target sends: `inbox`
limits the received data, this module limits cookies and exchanges.
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
from ikeanalyze.replay.initiator import negotiation
from ikeanalyze.replay.initiator.ike_auth import IkeAuthExchange
from ikeanalyze.replay.initiator.inbox import MAX_BYTES, MAX_DATAGRAMS, Inbox, ReceivedMessage
from ikeanalyze.replay.initiator.interface import DriverStep, InitiatorResult, OutgoingDatagram, RefusedError
from ikeanalyze.replay.initiator.key_exchange import InitiatorKeyExchange, start_key_exchange
from ikeanalyze.replay.initiator.negotiation import CookieRequest, InitAcceptance, InitRefusal, KeyExchangeMethodRequest
from ikeanalyze.replay.initiator.pending_request import PendingRequest
from ikeanalyze.replay.initiator.request_payloads import build_init_payloads
from ikeanalyze.replay.initiator.sa_keys import IkeSaKeys
from ikeanalyze.replay.initiator.states import InitiatorEvent, InitiatorState, awaits_response, next_state
from ikeanalyze.replay.transport.target import IKE_PORT, NAT_PORT
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.ikev2.encode import Payload as Body
from ikeanalyze.wire.ikev2.encode import encode_delete, encode_key_exchange, encode_message, encode_notify
from ikeanalyze.wire.ikev2.key_exchange import get_key_exchange_name
from ikeanalyze.wire.ikev2.message import parse_decrypted_payloads
from ikeanalyze.wire.ikev2.notify_data import COOKIE_BYTES
from ikeanalyze.wire.ikev2.payloads import parse_delete, parse_key_exchange
from ikeanalyze.wire.payload_chain import Payload
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType, ProtocolId
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

#: Limits for cookies that are returned, and for exchanges, since EAP has no limit of its own.
MAX_COOKIES: Final = 5
MAX_EXCHANGES: Final = 60
#: Limit for the fragments of one request.
MAX_FRAGMENTS: Final = 256
_NO_SPI: Final = bytes(8)
#: States in which the responder has, or may have, an IKE SA.
_DELETE_ON_CLOSE: Final = (
    InitiatorState.ESTABLISHED,
    InitiatorState.DOUBTFUL,
    InitiatorState.AUTH,
    InitiatorState.EAP,
    InitiatorState.PROOF,
)
_CLOSED_REASON: Final = "closed before the IKE SA was established"


class Initiator:
    """One handshake. `offered` is what it offers of the shape's proposals."""

    def __init__(
        self,
        shape: HandshakeShape,
        credentials: Credentials,
        *,
        policy: RetransmissionPolicy,
        endpoints: tuple[negotiation.Endpoint, negotiation.Endpoint],
        randomness: Callable[[int], bytes] = os.urandom,
        rng: np.random.Generator | None = None,
        time: dt.datetime | None = None,
    ) -> None:
        """Prepare a handshake.

        Args:
            shape: the recorded handshake to re-enact.
            credentials: keys, certificates and identities.
            policy: when to retransmit.
            endpoints: our address and UDP port and the target's for IKE_SA_INIT, for NAT detection.
            randomness: returns that many random bytes, for SPIs, nonces and IVs; the library generates keys itself.
            rng: for the jitter of the policy.
            time: certificates must be valid at this time; None: now.

        Raises:
            CannotReplayError: the shape or the credentials do not allow a handshake.
        """
        self.offered = negotiation.select_proposals(shape.proposals, shape.key_exchange)
        self._shape = shape
        self._policy = policy
        self._rng = rng
        self._local, self._remote = endpoints
        self._randomness = randomness
        self._auth = IkeAuthExchange(shape, credentials, self._local[0], randomness, time)
        self._state = InitiatorState.IDLE
        self._spi_i, self._spi_r = randomness(SPI_BYTES), _NO_SPI
        self._nonce = randomness(shape.nonce_bytes)
        self._exchanges: list[PendingRequest] = []
        self._inbox = Inbox(self._spi_i, self._exchanges)
        self._key_exchange: InitiatorKeyExchange | None = None
        self._tried_methods: list[int] = []  # key exchange methods of IKE_SA_INIT
        self._cookies: list[bytes] = []
        self._additional: list[int] = []  # methods of the remaining additional key exchanges
        self._negotiated: InitAcceptance | None = None
        self._sa_keys: IkeSaKeys | None = None
        self._port = IKE_PORT
        self._began_ns = 0
        self._ended_ns: int | None = None  # time of success or failure
        self._reason: str | None = None  # reason it failed
        self._deleted: bool | None = None  # as `InitiatorResult.deleted`
        self._result: InitiatorResult | None = None
        self._sent_responses: dict[int, tuple[OutgoingDatagram, ...]] = {}  # requests of the responder by message ID

    # ---- public methods

    def begin(self, now_ns: int) -> DriverStep[InitiatorResult]:
        """Send the first request."""
        self._began_ns = now_ns
        self._apply_event(InitiatorEvent.BEGIN)
        return self._make_step(self._send_init(self.offered.key_exchange, now_ns))

    def receive(self, data: bytes, now_ns: int, from_port: int) -> DriverStep[InitiatorResult]:
        """Process a datagram without non-ESP marker; `from_port` is 500 or 4500, as in `OutgoingDatagram.port`."""
        if self._state in (InitiatorState.IDLE, InitiatorState.DOUBTFUL, InitiatorState.CLOSED, InitiatorState.FAILED):
            return self._make_step()
        received = self._inbox.add_datagram(data, from_port, awaiting_response=awaits_response(self._state))
        if self._inbox.overflows:
            limits = f"{MAX_DATAGRAMS:,} datagrams or {MAX_BYTES >> 20} MiB"
            return self._fail(f"the target sends more than {limits}", now_ns)
        if received is None:
            return self._make_step()
        if not received.header.response:
            return self._make_step(self._answer_request(received, now_ns))
        try:
            return self._make_step(self._on_response(received, now_ns))
        except (RefusedError, FragmentTooSmallError, WireError) as error:
            return self._fail(str(error), now_ns)

    def tick(self, now_ns: int) -> DriverStep[InitiatorResult]:
        """Retransmit the request if its response is overdue, or give up."""
        if not awaits_response(self._state) or now_ns < self._exchanges[-1].deadline_ns:
            return self._make_step()
        if not self._exchanges[-1].exhausted:
            return self._make_step(self._exchanges[-1].transmit(now_ns))
        hint, repeated = self._inbox.hint, self._exchanges[-1].answer
        reason = f"no answer but {repeated} again" if repeated else "no answer"
        return self._fail(f"{reason} (unprotected: {hint})" if hint else reason, now_ns, InitiatorEvent.SILENCE)

    def close(self, now_ns: int) -> DriverStep[InitiatorResult]:
        """Delete the IKE SA, or end the handshake. Sends a delete also if only the responder may have the IKE SA."""
        if self._state in _DELETE_ON_CLOSE:
            if not self._auth.done:
                self._reason = self._reason or _CLOSED_REASON
            self._apply_event(InitiatorEvent.CLOSE)
            self._result, self._deleted = None, False
            delete = [encode_delete(ProtocolId.IKE)]
            return self._make_step(self._send(ExchangeType.INFORMATIONAL, delete, now_ns))
        if self._state is InitiatorState.FAILED and self._auth.rejected_auth:
            self._auth.rejected_auth = False
            refusal = [encode_notify(NotifyType.AUTHENTICATION_FAILED)]
            sent = self._send(ExchangeType.INFORMATIONAL, refusal, now_ns)
            return DriverStep(sent, None, self.conclude(now_ns))
        if self._state in (InitiatorState.CLOSED, InitiatorState.FAILED, InitiatorState.CLOSING):
            return self._make_step()
        return self._fail(_CLOSED_REASON, now_ns, InitiatorEvent.CLOSE)

    def conclude(self, now_ns: int) -> InitiatorResult:
        """Return the result so far."""
        negotiated, sa_keys, auth = self._negotiated, self._sa_keys, self._auth
        if self._ended_ns is None:
            self._ended_ns = now_ns
        self._result = InitiatorResult(
            established=auth.done,
            reason=self._reason,
            child_error=auth.child_error,
            deleted=self._deleted,
            exchanges=tuple(exchange.get_stats() for exchange in self._exchanges),
            ignored=self._inbox.ignored,
            spi_i=self._spi_i,
            spi_r=self._spi_r,
            chosen=None if negotiated is None else negotiated.chosen.describe(),
            authentication=(auth.own_method, auth.peer_method),
            began_ns=self._began_ns,
            ended_ns=self._ended_ns,
            keys=() if sa_keys is None else tuple(sa_keys.key_sets),
        )
        return self._result

    # ---- states

    def _apply_event(self, event: InitiatorEvent) -> None:
        self._state = next_state(self._state, event)

    def _make_step(self, send: tuple[OutgoingDatagram, ...] = ()) -> DriverStep[InitiatorResult]:
        wake = self._exchanges[-1].deadline_ns if awaits_response(self._state) else None
        return DriverStep(send, wake, self._result)

    def _fail(
        self, reason: str, now_ns: int, event: InitiatorEvent = InitiatorEvent.REFUSED
    ) -> DriverStep[InitiatorResult]:
        self._apply_event(event)
        if self._state is not InitiatorState.CLOSED:  # otherwise the handshake had ended before
            self._reason = reason
        self.conclude(now_ns)
        return self._make_step()

    # ---- requests

    def _send_init(self, method: int, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        if self._key_exchange is None or self._key_exchange.method != method:
            self._key_exchange = start_key_exchange(method)
            self._tried_methods.append(method)
        payloads = build_init_payloads(
            self.offered.proposals,
            (method, self._key_exchange.data),
            self._nonce,
            negotiation.compute_nat_hashes(self._spi_i, _NO_SPI, self._local, self._remote),
            self._shape.notifies,
            self._cookies[-1] if self._cookies else None,
        )
        message = encode_message(self._spi_i, _NO_SPI, ExchangeType.IKE_SA_INIT, 0, payloads)
        return self._transmit([message], ExchangeType.IKE_SA_INIT, 0, len(self._exchanges) + 1, now_ns)

    def _send(self, exchange_type: ExchangeType, payloads: list[Body], now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Send an encrypted request."""
        sa_keys, negotiated = self._get_agreed()
        if len(self._exchanges) >= MAX_EXCHANGES and exchange_type != ExchangeType.INFORMATIONAL:
            raise RefusedError(f"the responder requires more than {MAX_EXCHANGES} exchanges")
        message_id = self._exchanges[-1].message_id + 1
        fragment_size = self._shape.fragment_size if negotiated.fragmentation else None
        parts, decrypted = sa_keys.encrypt_message(exchange_type, message_id, payloads, fragment_size)
        if len(parts) > MAX_FRAGMENTS:
            raise RefusedError(f"a message would need more than {MAX_FRAGMENTS} fragments of {fragment_size} bytes")
        self._sent = parts[0], decrypted
        return self._transmit(parts, exchange_type, message_id, 1, now_ns)

    def _transmit(
        self, parts: Sequence[bytes], exchange_type: int, message_id: int, attempt: int, now_ns: int
    ) -> tuple[OutgoingDatagram, ...]:
        timeouts = self._policy.draw_timeouts(self._rng).tolist()
        self._exchanges.append(PendingRequest(exchange_type, message_id, attempt, parts, self._port, timeouts))
        return self._exchanges[-1].transmit(now_ns)

    def _get_agreed(self) -> tuple[IkeSaKeys, InitAcceptance]:
        assert self._sa_keys is not None
        assert self._negotiated is not None
        return self._sa_keys, self._negotiated

    # ---- responses

    def _on_response(self, received: ReceivedMessage, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Process the response to the pending request."""
        if received.decrypted is None:
            return self._on_init_response(received.message, now_ns)
        self._exchanges[-1].mark_answered(now_ns)
        if self._state is InitiatorState.CLOSING:
            self._apply_event(InitiatorEvent.ANSWERED)
            self._deleted = True
            self.conclude(now_ns)
            return ()
        chain = parse_decrypted_payloads(received.decrypted.plaintext, received.decrypted.first)
        if chain.error is not None:
            raise RefusedError(f"invalid response: {chain.error}")
        self._exchanges[-1].answer = negotiation.get_first_error(chain.payloads)
        if self._state is InitiatorState.INTERMEDIATE:
            return self._on_intermediate_response(received, chain.payloads, now_ns)
        event, payloads = self._auth.handle_response(chain.payloads)
        self._apply_event(event)
        if event is InitiatorEvent.AUTHENTICATED:
            self.conclude(now_ns)
            return ()
        return self._send(ExchangeType.IKE_AUTH, payloads, now_ns)

    def _on_init_response(self, message: bytes, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        exchange, own_exchange = self._exchanges[-1], self._key_exchange
        assert own_exchange is not None
        answer = negotiation.parse_init_response(
            message, self.offered.proposals, own_exchange.method, self._local, self._remote
        )
        if (isinstance(answer, CookieRequest) and answer.data in self._cookies) or (
            isinstance(answer, KeyExchangeMethodRequest) and answer.method in self._tried_methods[1:]
        ):
            self._inbox.count_ignored("repeated")  # a duplicate response to the previous attempt
            repeated = InitiatorEvent.COOKIE if isinstance(answer, CookieRequest) else InitiatorEvent.OTHER_METHOD
            exchange.answer = repeated.value  # unless another response arrives
            return ()
        exchange.mark_used(len(message))
        exchange.mark_answered(now_ns)
        match answer:
            case InitRefusal(reason):
                exchange.answer = reason
                raise RefusedError(reason)
            case CookieRequest(data):
                exchange.answer = InitiatorEvent.COOKIE.value
                if len(data) not in COOKIE_BYTES:
                    raise RefusedError(f"a COOKIE of {len(data)} bytes; 1 to {COOKIE_BYTES[-1]} are allowed")
                if len(self._cookies) == MAX_COOKIES:
                    raise RefusedError(f"the responder requests more than {MAX_COOKIES} cookies")
                self._cookies.append(data)
                self._apply_event(InitiatorEvent.COOKIE)
                return self._send_init(own_exchange.method, now_ns)
            case KeyExchangeMethodRequest(method):
                exchange.answer = InitiatorEvent.OTHER_METHOD.value
                self._check_requested_method(method)
                self._apply_event(InitiatorEvent.OTHER_METHOD)
                return self._send_init(method, now_ns)
            case InitAcceptance():
                exchange.answer = None
                return self._on_accepted(answer, own_exchange, exchange.first_part, message, now_ns)

    def _check_requested_method(self, method: int) -> None:
        """Raise `RefusedError` if INVALID_KE_PAYLOAD asks for a method that we tried or did not offer."""
        tried = method in self._tried_methods
        if tried or method not in negotiation.list_key_exchange_methods(self.offered.proposals):
            reason = "was sent" if tried else "was not offered"
            raise RefusedError(f"INVALID_KE_PAYLOAD asks for {get_key_exchange_name(method)}, which {reason}")

    def _on_accepted(
        self,
        negotiated: InitAcceptance,
        own_exchange: InitiatorKeyExchange,
        request: bytes,
        response: bytes,
        now_ns: int,
    ) -> tuple[OutgoingDatagram, ...]:
        secret = own_exchange.compute_secret(negotiated.key_exchange)
        if not self._shape.esp_proposals and not negotiated.childless:
            raise RefusedError("the responder does not support an IKE SA without CHILD_SA (RFC 6023)")
        self._negotiated, self._init_messages = negotiated, (request, response)
        self._spi_r = self._inbox.spi_r = negotiated.spi_r
        self._additional = list(negotiated.additional)
        spis, nonces = (self._spi_i, negotiated.spi_r), (self._nonce, negotiated.nonce)
        sa_keys = IkeSaKeys(negotiated.prf, negotiated.suite, secret, spis, nonces, self._randomness)
        self._sa_keys = self._inbox.sa_keys = sa_keys
        if negotiated.nat or (negotiated.nat is False and self._shape.floats):
            self._port = NAT_PORT
        return self._continue_key_exchanges(now_ns)

    def _on_intermediate_response(
        self, received: ReceivedMessage, payloads: Sequence[Payload], now_ns: int
    ) -> tuple[OutgoingDatagram, ...]:
        sa_keys, own_exchange = self._get_agreed()[0], self._key_exchange
        assert own_exchange is not None
        assert received.decrypted is not None
        body = next((payload.body for payload in payloads if payload.type == PayloadType.KE), None)
        error = self._exchanges[-1].answer
        if body is None or error is not None:
            raise RefusedError(error or "the response to IKE_INTERMEDIATE has no KE payload")
        secret = own_exchange.compute_secret(parse_key_exchange(body))
        sa_keys.authenticate_intermediate(self._sent, (received.message, received.decrypted))
        sa_keys.add_key_exchange(secret)
        return self._continue_key_exchanges(now_ns)

    def _continue_key_exchanges(self, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Start the next additional key exchange, or IKE_AUTH after the last one."""
        sa_keys, negotiated = self._get_agreed()
        if self._additional:
            self._apply_event(InitiatorEvent.KEYS_TO_ADD)
            self._key_exchange = start_key_exchange(self._additional.pop(0))
            payloads = [encode_key_exchange(self._key_exchange.method, self._key_exchange.data)]
            return self._send(ExchangeType.IKE_INTERMEDIATE, payloads, now_ns)
        self._apply_event(InitiatorEvent.KEYS_DONE)
        message_id = self._exchanges[-1].message_id + 1
        payloads = self._auth.begin(sa_keys, negotiated, self._init_messages, self._nonce, message_id)
        return self._send(ExchangeType.IKE_AUTH, payloads, now_ns)

    # ---- requests of the responder

    def _answer_request(self, received: ReceivedMessage, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Answer a request of the responder. Only a delete of the IKE SA changes our state."""
        exchange_type, message_id = received.header.exchange_type, received.header.message_id
        previous = self._sent_responses.get(message_id)
        if previous is not None:
            self._inbox.count_ignored("repeated")
            repeated = tuple(replace(outgoing, transmission=outgoing.transmission + 1) for outgoing in previous)
            self._sent_responses[message_id] = repeated
            return repeated
        expected = message_id == len(self._sent_responses) and message_id < MAX_EXCHANGES
        if self._state not in (InitiatorState.ESTABLISHED, InitiatorState.CLOSING) or not expected:
            self._inbox.count_ignored("unexpected")
            return ()
        assert received.decrypted is not None
        chain = parse_decrypted_payloads(received.decrypted.plaintext, received.decrypted.first)
        refusal = [] if exchange_type == ExchangeType.INFORMATIONAL else [encode_notify(NotifyType.NO_ADDITIONAL_SAS)]
        parts, _ = self._get_agreed()[0].encrypt_message(exchange_type, message_id, refusal, None, response=True)
        sent = (OutgoingDatagram(parts[0], exchange_type, message_id, True, None, None, 1, self._port),)
        self._sent_responses[message_id] = sent
        if exchange_type == ExchangeType.INFORMATIONAL and _deletes_ike_sa(chain.payloads):
            self._apply_event(InitiatorEvent.DELETED)
            self._deleted = True
            self.conclude(now_ns)
        return sent


def _deletes_ike_sa(payloads: Sequence[Payload]) -> bool:
    for payload in payloads:
        if payload.type == PayloadType.DELETE:
            with suppress(WireError):
                if parse_delete(payload.body).protocol == ProtocolId.IKE:
                    return True
    return False
