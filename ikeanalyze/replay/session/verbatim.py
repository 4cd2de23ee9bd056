"""An initiator's messages as they were recorded, sent again: sans-IO, driven like the initiator of a live handshake.

Each message goes out at the time that it had in the recording, counted from the first, whatever is answered. Answers
are put to the message that they answer: by SPI, exchange type and message ID. It ends a moment after each request has its answer,
or when a while is over after the last one was sent.

A recorded IKE_SA_INIT request made fit for another run: what must be new is new, all else is bit by bit as it was.

New are the initiator's SPI and nonce, so that no responder takes it for a retransmission; and the NAT detection hashes,
which are of SPI, addresses and ports (RFC 7296, 2.23). A hash that did not fit in the recording either (some force UDP
encapsulation that way) stays wrong. Any other message is protected by keys or meant for one IKE SA, and stays as it is.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from ikeanalyze.replay.initiator.interface import OutgoingDatagram
from ikeanalyze.replay.responses import ResponseSummary, compare_responses, parse_ikev2_header, summarise_response
from ikeanalyze.replay.session.recorded_messages import RecordedHandshake, RecordedMessage
from ikeanalyze.wire.cursor import WireError
from ikeanalyze.wire.ikev2.message import parse_payloads
from ikeanalyze.wire.ikev2.notify import compute_nat_detection_hash, parse_notify
from ikeanalyze.wire.registries.ikev2 import ExchangeType, PayloadType
from ikeanalyze.wire.registries.ikev2_notifies import NotifyType

Randomness = Callable[[int], bytes]
_PAYLOAD_HEADER: Final = 4
_SPI: Final = 8


@dataclass(frozen=True, slots=True)
class UdpEndpoint:
    """An address and a port, of ours or of the target's."""

    address: bytes  # 4 or 16 bytes
    port: int


@dataclass(frozen=True, slots=True)
class RenewedMessage:
    """A message to be sent."""

    data: bytes = field(repr=False)
    changed: tuple[str, ...]  # what is new in it; empty: it is as recorded


def renew_message(
    message: RecordedMessage, source: UdpEndpoint, destination: UdpEndpoint, randomness: Randomness
) -> RenewedMessage:
    """The message with what must be new."""
    if message.exchange_type != ExchangeType.IKE_SA_INIT or message.response or len(message.data) < 2 * _SPI:
        return RenewedMessage(message.data, ())
    old_i, old_r = message.data[:_SPI], message.data[_SPI : 2 * _SPI]
    new_i = randomness(_SPI)
    data = bytearray(message.data)
    data[:_SPI] = new_i
    changed = ["SPIi"]
    ends = {
        NotifyType.NAT_DETECTION_SOURCE_IP: (message.source, source),
        NotifyType.NAT_DETECTION_DESTINATION_IP: (message.destination, destination),
    }
    for payload in parse_payloads(message.data).payloads:
        at = payload.offset + _PAYLOAD_HEADER
        if payload.type == PayloadType.NONCE and payload.body:
            data[at : at + len(payload.body)] = randomness(len(payload.body))
            changed.append("nonce")
        elif payload.type == PayloadType.NOTIFY:
            try:
                notify = parse_notify(payload.body)
            except WireError:
                continue
            if notify.type not in ends:
                continue
            (address, port), now = ends[NotifyType(notify.type)]
            if notify.data != compute_nat_detection_hash(old_i, old_r, ip_address(address).packed, port):
                continue
            at += len(payload.body) - len(notify.data)
            data[at : at + len(notify.data)] = compute_nat_detection_hash(new_i, old_r, now.address, now.port)
            changed.append(NotifyType(notify.type).label)
    return RenewedMessage(bytes(data), tuple(changed))


pass

#: How long it listens when each request has an answer: for its other fragments, and for what comes twice.
_LINGER_NS: Final = 100_000_000
#: Answers to one message that are kept; more are counted.
MOST_ANSWERS: Final = 8
#: Messages that one run sends at most: a handshake has dozens, a hostile capture may have a million.
MOST_MESSAGES: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReceivedResponse:
    """An answer, and when it came."""

    answer: ResponseSummary
    round_trip_ns: int  # from the last time before it that its message was sent
    differs: tuple[str, ...]  # from the recorded answer to the same message


@dataclass(slots=True)
class ReplayedMessage:
    """A recorded message that was sent, all its fragments and transmissions."""

    exchange_type: int
    message_id: int
    response: bool
    changed: tuple[str, ...]  # what is new in it; empty: bit by bit as recorded
    transmissions: int = 0
    datagrams: int = 0
    bytes: int = 0  # of IKE messages, all transmissions
    last_ns: int = 0  # when it was last sent
    recorded: ResponseSummary | None = None  # None: the capture has none
    answers: list[ReceivedResponse] = field(default_factory=list)
    more_answers: int = 0  # beyond those


@dataclass(frozen=True, slots=True)
class VerbatimResult:
    """One run: what was sent and what was answered."""

    spi_i: bytes  # that of the first message
    sent: tuple[ReplayedMessage, ...]
    unasked: int  # messages that answer none of ours
    garbage: int  # datagrams that are no IKEv2 message
    left_out: int  # recorded messages beyond MOST_MESSAGES
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class VerbatimStep:
    """What to do now; as `replay.steps.Step`."""

    send: tuple[OutgoingDatagram, ...] = ()
    wake_ns: int | None = None
    finished: VerbatimResult | None = None


class VerbatimSession:
    """One run over the messages of a recorded handshake."""

    def __init__(
        self,
        handshake: RecordedHandshake,
        renew: Callable[[RecordedMessage], RenewedMessage],
        *,
        speed: float = 1.0,
        wait_ns: int = 2_000_000_000,
    ) -> None:
        """`renew` makes a message fit for this run, `speed` divides the gaps, `wait_ns` is the wait after the last."""
        requests = handshake.requests
        self._left_out = max(len(requests) - MOST_MESSAGES, 0)
        self._messages = requests[:MOST_MESSAGES]
        self._handshake, self._renew = handshake, renew
        self._speed, self._wait_ns = speed, wait_ns
        self._next = 0
        self._answered_ns: int | None = None  # when each request had an answer
        self._began_ns = self._last_ns = 0
        #: New messages by what was recorded: a retransmission is the same message again.
        self._renewed: dict[bytes, RenewedMessage] = {}
        self._sent: dict[tuple[int, int], ReplayedMessage] = {}
        #: The message that an answer with this SPIi, exchange type and message ID is for.
        self._asked: dict[tuple[bytes, int, int], ReplayedMessage] = {}
        self._spi_i = b""
        self._counts: Counter[str] = Counter()

    def begin(self, now_ns: int) -> VerbatimStep:
        """Start."""
        self._began_ns = self._last_ns = now_ns
        return self.tick(now_ns)

    def tick(self, now_ns: int) -> VerbatimStep:
        """Send what is due."""
        out = []
        while self._next < len(self._messages) and self._due_ns(self._next) <= now_ns:
            out.append(self._send(self._messages[self._next], now_ns))
            self._next += 1
            self._last_ns = now_ns
        if self._next < len(self._messages):
            return VerbatimStep(tuple(out), self._due_ns(self._next))
        end_ns = self._last_ns + self._wait_ns
        if self._answered_ns is not None:
            end_ns = min(end_ns, self._answered_ns + _LINGER_NS)
        if now_ns >= end_ns:
            return VerbatimStep(tuple(out), None, self.conclude(now_ns))
        return VerbatimStep(tuple(out), end_ns)

    def receive(self, data: bytes, now_ns: int, from_port: int) -> VerbatimStep:  # noqa: ARG002 - the drivers' signature
        """Take what the target sent."""
        answer = summarise_response(data)
        if answer is None:
            self._counts["garbage"] += 1
            return self.tick(now_ns)
        header = parse_ikev2_header(data)
        sent = header and self._asked.get((header.spi_i, header.exchange_type, header.message_id))
        if not sent or sent.response == answer.response:
            self._counts["unasked"] += 1
        elif len(sent.answers) < MOST_ANSWERS:
            differs = compare_responses(sent.recorded, answer)
            sent.answers.append(ReceivedResponse(answer, max(now_ns - sent.last_ns, 0), differs))
        else:
            sent.more_answers += 1
        everything = self._next == len(self._messages) and all(
            sent.answers for sent in self._sent.values() if not sent.response
        )
        if everything and self._answered_ns is None:
            self._answered_ns = now_ns
        return self.tick(now_ns)

    def sent(self, outgoing: OutgoingDatagram, time_ns: int) -> None:
        """A datagram was sent then: round trips are counted from there."""
        self._asked[outgoing.data[:8], outgoing.exchange_type, outgoing.message_id].last_ns = time_ns

    def _due_ns(self, place: int) -> int:
        gap = self._messages[place].time_ns - self._messages[0].time_ns
        return self._began_ns + round(gap / self._speed)

    def _send(self, message: RecordedMessage, now_ns: int) -> OutgoingDatagram:
        renewed = self._renewed.get(message.data)
        if renewed is None:
            renewed = self._renewed[message.data] = self._renew(message)
        self._spi_i = self._spi_i or renewed.data[:8]
        key = (message.exchange, message.response)
        sent = self._sent.get(key)
        if sent is None:
            recorded = self._handshake.response_to(message)
            sent = ReplayedMessage(
                message.exchange_type,
                message.message_id,
                message.response,
                renewed.changed,
                recorded=None if recorded is None else summarise_response(recorded.data),
            )
            self._sent[key] = sent
        self._asked[renewed.data[:8], message.exchange_type, message.message_id] = sent
        sent.transmissions = max(sent.transmissions, message.transmission)
        sent.datagrams += 1
        sent.bytes += len(renewed.data)
        sent.last_ns = now_ns
        return OutgoingDatagram(
            renewed.data,
            message.exchange_type,
            message.message_id,
            message.response,
            message.fragment,
            message.fragments,
            message.transmission,
            message.role,
        )

    def conclude(self, now_ns: int) -> VerbatimResult:
        """What came of it until now."""
        return VerbatimResult(
            self._spi_i,
            tuple(self._sent.values()),
            self._counts["unasked"],
            self._counts["garbage"],
            self._left_out,
            self._began_ns,
            now_ns,
        )
