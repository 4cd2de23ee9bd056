"""Sends the recorded messages of an initiator again: sans-IO, driven like the initiator of a live handshake.

Each message is sent at its recorded time after the first, whatever the target answers. Answers are matched by SPI,
exchange type and message ID. The session ends shortly after the last request was answered, or after a wait.

Only an IKE_SA_INIT request is changed: it gets a new SPI and nonce, so that the responder does not take it for a
retransmission, and NAT detection hashes of the new SPI, addresses and ports (RFC 7296, section 2.23). A hash that did
not match in the recording (some clients force UDP encapsulation this way) is not changed. Any other message is
protected by keys or belongs to one IKE SA, and is sent unchanged.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from ikeanalyze.capture.write.frames import UdpEndpoint
from ikeanalyze.replay.initiator.interface import DriverStep, OutgoingDatagram
from ikeanalyze.replay.responses import ResponseSummary, compare_responses, parse_ikev2_header, summarise_response
from ikeanalyze.replay.session.recorded_messages import RecordedHandshake, RecordedMessage
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.header import SPI_BYTES
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.payloads import compute_nat_detection_hash, parse_notify
from ikeanalyze.wire.payload_chain import PAYLOAD_HEADER
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

Randomness = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class RenewedMessage:
    """A message to send."""

    data: bytes = field(repr=False)
    changed: tuple[str, ...]  # names of the changed fields; empty: as recorded


def renew_message(
    message: RecordedMessage, source: UdpEndpoint, destination: UdpEndpoint, randomness: Randomness
) -> RenewedMessage:
    """Return the message with new SPI, nonce and NAT detection hashes if it is an IKE_SA_INIT request."""
    if message.exchange_type != ExchangeType.IKE_SA_INIT or message.response or len(message.data) < 2 * SPI_BYTES:
        return RenewedMessage(message.data, ())
    old_i, old_r = message.data[:SPI_BYTES], message.data[SPI_BYTES : 2 * SPI_BYTES]
    new_i = randomness(SPI_BYTES)
    data = bytearray(message.data)
    data[:SPI_BYTES] = new_i
    changed = ["SPIi"]
    endpoints = {
        NotifyType.NAT_DETECTION_SOURCE_IP: (message.source, source),
        NotifyType.NAT_DETECTION_DESTINATION_IP: (message.destination, destination),
    }
    for payload in parse_payloads(message.data).payloads:
        offset = payload.offset + PAYLOAD_HEADER.size
        if payload.type == PayloadType.NONCE and payload.body:
            data[offset : offset + len(payload.body)] = randomness(len(payload.body))
            changed.append("nonce")
        elif payload.type == PayloadType.NOTIFY:
            try:
                notify = parse_notify(payload.body)
            except WireError:
                continue
            if notify.type not in endpoints:
                continue
            (address, port), endpoint = endpoints[NotifyType(notify.type)]
            if notify.data != compute_nat_detection_hash(old_i, old_r, ip_address(address).packed, port):
                continue
            offset += len(payload.body) - len(notify.data)
            new_hash = compute_nat_detection_hash(new_i, old_r, endpoint.address, endpoint.port)
            data[offset : offset + len(notify.data)] = new_hash
            changed.append(NotifyType(notify.type).label)
    return RenewedMessage(bytes(data), tuple(changed))


#: Wait after the last response, for further fragments and duplicates.
_LINGER_NS: Final = 100_000_000
#: Limit for the stored answers to one message; more are counted.
MAX_ANSWERS: Final = 8
#: Limit for the messages of one run: a handshake has dozens, a hostile capture may have a million.
MAX_MESSAGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """An answer and its time."""

    answer: ResponseSummary
    round_trip_ns: int  # since the latest transmission of the message
    differs: tuple[str, ...]  # differences from the recorded answer


@dataclass(slots=True)
class ReplayedMessage:
    """A recorded message that was sent, with all fragments and transmissions."""

    exchange_type: int
    message_id: int
    response: bool
    changed: tuple[str, ...]  # names of the changed fields; empty: as recorded
    transmissions: int = 0
    datagrams: int = 0
    bytes: int = 0  # of IKE messages, all transmissions
    last_ns: int = 0  # when it was last sent
    recorded: ResponseSummary | None = None  # None: the capture has none
    answers: list[ReceivedResponse] = field(default_factory=list)
    more_answers: int = 0  # not stored in `answers`


@dataclass(frozen=True, slots=True)
class VerbatimResult:
    """Messages and answers of one run."""

    spi_i: bytes  # of the first message
    sent: tuple[ReplayedMessage, ...]
    unasked: int  # messages that do not answer ours
    garbage: int  # datagrams that are not IKEv2 messages
    left_out: int  # recorded messages beyond MAX_MESSAGES
    began_ns: int
    ended_ns: int


class VerbatimSession:
    """One run of the messages of a recorded handshake."""

    def __init__(
        self,
        handshake: RecordedHandshake,
        renew: Callable[[RecordedMessage], RenewedMessage],
        *,
        speed: float = 1.0,
        wait_ns: int = 2_000_000_000,
    ) -> None:
        """`renew` prepares a message for this run, `speed` divides the gaps, `wait_ns` is the wait at the end."""
        requests = handshake.requests
        self._left_out = max(len(requests) - MAX_MESSAGES, 0)
        self._messages = requests[:MAX_MESSAGES]
        self._handshake, self._renew = handshake, renew
        self._speed, self._wait_ns = speed, wait_ns
        self._next_index = 0
        self._answered_ns: int | None = None  # when the last request was answered
        self._began_ns = self._last_ns = 0
        #: By recorded message: a retransmission has the same bytes again.
        self._renewed: dict[bytes, RenewedMessage] = {}
        self._sent: dict[tuple[int, int], ReplayedMessage] = {}
        #: Message by SPIi, exchange type and message ID of its answers.
        self._by_answer: dict[tuple[bytes, int, int], ReplayedMessage] = {}
        self._spi_i = b""
        self._counts: Counter[str] = Counter()

    def begin(self, now_ns: int) -> DriverStep[VerbatimResult]:
        """Start the session."""
        self._began_ns = self._last_ns = now_ns
        return self.tick(now_ns)

    def tick(self, now_ns: int) -> DriverStep[VerbatimResult]:
        """Send the messages that are due."""
        datagrams = []
        while self._next_index < len(self._messages) and self._get_due_ns(self._next_index) <= now_ns:
            datagrams.append(self._send(self._messages[self._next_index], now_ns))
            self._next_index += 1
            self._last_ns = now_ns
        if self._next_index < len(self._messages):
            return DriverStep(tuple(datagrams), self._get_due_ns(self._next_index))
        end_ns = self._last_ns + self._wait_ns
        if self._answered_ns is not None:
            end_ns = min(end_ns, self._answered_ns + _LINGER_NS)
        if now_ns >= end_ns:
            return DriverStep(tuple(datagrams), None, self.conclude(now_ns))
        return DriverStep(tuple(datagrams), end_ns)

    def receive(self, data: bytes, now_ns: int, from_port: int) -> DriverStep[VerbatimResult]:  # noqa: ARG002
        """Process a message of the target."""
        answer = summarise_response(data)
        if answer is None:
            self._counts["garbage"] += 1
            return self.tick(now_ns)
        header = parse_ikev2_header(data)
        sent = header and self._by_answer.get((header.spi_i, header.exchange_type, header.message_id))
        if not sent or sent.response == answer.response:
            self._counts["unasked"] += 1
        elif len(sent.answers) < MAX_ANSWERS:
            differs = compare_responses(sent.recorded, answer)
            sent.answers.append(ReceivedResponse(answer, max(now_ns - sent.last_ns, 0), differs))
        else:
            sent.more_answers += 1
        all_answered = self._next_index == len(self._messages) and all(
            sent.answers for sent in self._sent.values() if not sent.response
        )
        if all_answered and self._answered_ns is None:
            self._answered_ns = now_ns
        return self.tick(now_ns)

    def sent(self, outgoing: OutgoingDatagram, time_ns: int) -> None:
        """Record when a datagram was sent, for the round-trip time."""
        self._by_answer[outgoing.data[:8], outgoing.exchange_type, outgoing.message_id].last_ns = time_ns

    def _get_due_ns(self, index: int) -> int:
        gap = self._messages[index].time_ns - self._messages[0].time_ns
        return self._began_ns + round(gap / self._speed)

    def _send(self, message: RecordedMessage, now_ns: int) -> OutgoingDatagram:
        renewed = self._renewed.get(message.data)
        if renewed is None:
            renewed = self._renewed[message.data] = self._renew(message)
        self._spi_i = self._spi_i or renewed.data[:8]
        key = (message.exchange, message.response)
        sent = self._sent.get(key)
        identifiers = message.exchange_type, message.message_id
        if sent is None:
            recorded = self._handshake.response_to(message)
            summary = None if recorded is None else summarise_response(recorded.data)
            sent = ReplayedMessage(*identifiers, message.response, renewed.changed, recorded=summary)
            self._sent[key] = sent
        self._by_answer[(renewed.data[:8], *identifiers)] = sent
        sent.transmissions = max(sent.transmissions, message.transmission)
        sent.datagrams += 1
        sent.bytes += len(renewed.data)
        sent.last_ns = now_ns
        fragment, fragments, transmission = message.fragment, message.fragments, message.transmission
        return OutgoingDatagram(
            renewed.data, *identifiers, message.response, fragment, fragments, transmission, message.role
        )

    def conclude(self, now_ns: int) -> VerbatimResult:
        """Return the result so far."""
        sent, unasked, garbage = tuple(self._sent.values()), self._counts["unasked"], self._counts["garbage"]
        return VerbatimResult(self._spi_i, sent, unasked, garbage, self._left_out, self._began_ns, now_ns)
