"""A recorded handshake as the input of a prediction: its messages, their sizes, and processing times of both sides."""

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from ikeanalyze.wire.ikev2.payload_size import PayloadSize

Side = Literal["initiator", "responder"]

UDP_HEADER: Final = 8
#: Four zero bytes before an IKE message on port 4500 (RFC 3948, section 2.2) and in TCP (RFC 9329, section 3.1).
NON_ESP_MARKER: Final = 4

#: Bytes of the IV and of the block size by the start of the cipher's name; the first match is used.
_CIPHERS: Final = (
    (re.compile(r".*-(CCM|GCM)-|CHACHA20|.*-CTR|NULL-AUTH"), 8, 1),
    (re.compile(r"3DES|DES|3IDEA|IDEA|CAST|BLOWFISH"), 8, 8),
    (re.compile(r"(AES|CAMELLIA)-CBC"), 16, 16),
    (re.compile(r"NULL"), 0, 1),
)
_TAG: Final = re.compile(r"-(?:CCM|GCM)-(8|12|16)\b")
_TRUNCATED: Final = re.compile(r"-(96|128|160|192|256)$")


@dataclass(frozen=True, slots=True)
class EncryptionOverhead:
    """The bytes that encryption adds to a message (RFC 7296, section 3.14)."""

    iv: int  # bytes
    block: int  # bytes; plaintext, padding and pad length are a multiple of it
    icv: int  # bytes


@dataclass(frozen=True, slots=True)
class FlowDatagram:
    """A UDP datagram with an IKE message, or with a fragment of one (RFC 7383)."""

    ike_bytes: int  # length in the IKE header, without non-ESP marker
    frames: tuple[int, ...]  # bytes of each frame with link header; several: IP fragments


@dataclass(frozen=True, slots=True)
class FlowMessage:
    """One transmission of an IKE (or HIP) message."""

    parts: tuple[FlowDatagram, ...]
    encrypted: bool  # in an SK or SKF payload, which RFC 7383 may fragment
    marker: int  # bytes of the non-ESP marker
    transport: int  # bytes of the UDP header; 0: directly in IP
    ip: int  # bytes of the IP header
    link: int  # bytes of the link header
    payloads: tuple[PayloadSize, ...] | None = None  # None: not decoded

    @property
    def bytes(self) -> int:
        """Bytes of its recorded frames."""
        return sum(sum(part.frames) for part in self.parts)


@dataclass(frozen=True, slots=True)
class FlowExchange:
    """A request and its response, and the processing times of both sides."""

    type: str  # IKE_SA_INIT, IKE_AUTH...
    message_id: int | None  # None: HIP
    asker: Side
    request: FlowMessage
    response: FlowMessage | None  # None: the last messages of IKEv1, which have no response
    before_ns: int  # processing time of the asker before this request; 0 for the first
    answer_ns: int | None  # from request to response, without the AAA server; None: unknown
    aaa_ns: int  # time that the responder waited for the AAA server
    aaa_round_trips: int  # answered RADIUS requests in this time

    @property
    def name(self) -> str:
        """Type and message ID."""
        return self.type if self.message_id is None else f"{self.type} {self.message_id}"


@dataclass(frozen=True, slots=True)
class ObservedWait:
    """How long the initiators of a capture waited before they retransmitted a request once more."""

    transmission: int  # that they waited after, from 1
    median_s: float
    count: int  # requests


@dataclass(frozen=True, slots=True)
class CaptureLosses:
    """Retransmissions and missing responses in a capture."""

    handshakes: int = 0
    retransmitted: int = 0  # handshakes with retransmissions
    unanswered: int = 0  # handshakes
    waits: tuple[ObservedWait, ...] = ()  # in order of transmission, without gaps


@dataclass(frozen=True, slots=True)
class HandshakeFlow:
    """A complete handshake, from its first request to its last response."""

    capture: str
    handshake: int  # its id in the report
    others: int  # number of other complete handshakes in the capture
    protocol: str  # "IKEv2", "IKEv1" or "HIP"
    exchanges: tuple[FlowExchange, ...]
    fragmentation: bool  # both sides announced RFC 7383
    protection: EncryptionOverhead | None  # None: unknown cipher
    setup_ns: int  # as recorded
    #: Source of the round-trip time that was subtracted from the processing times: "given", "manifest" (of the lab),
    #: "estimated" (the shortest time seen), or None: nothing was subtracted.
    path: Literal["given", "manifest", "estimated"] | None
    path_rtt_ns: int | None  # round-trip time of the path
    shortest_round_trip_ns: int | None = None  # shortest recorded interval that contains it; None: unknown side
    #: The exchanges of each comparable handshake of the capture, this one included; empty: this one alone.
    samples: tuple[tuple[FlowExchange, ...], ...] = field(default=(), repr=False)
    losses: CaptureLosses = CaptureLosses()  # of the capture
    changes: tuple[str, ...] = ()  # made to what was recorded
    offered: int = 1  # proposals in IKE_SA_INIT
    intermediate: bool = False  # both sides announced IKE_INTERMEDIATE (RFC 9242)
    alone: bool = False  # the handshake was selected by its number, so no others are comparable

    @property
    def comparable(self) -> tuple[tuple[FlowExchange, ...], ...]:
        """The exchanges of each handshake that gives processing times and sizes, at least those of this one."""
        return self.samples or (self.exchanges,)

    @property
    def bytes(self) -> int:
        """Bytes of all recorded frames, without retransmissions."""
        messages = [message for exchange in self.exchanges for message in (exchange.request, exchange.response)]
        return sum(message.bytes for message in messages if message is not None)

    @property
    def messages(self) -> int:
        """Number of messages without retransmissions."""
        return sum(1 + (exchange.response is not None) for exchange in self.exchanges)

    @property
    def largest_message_bytes(self) -> int | None:
        """Bytes of the payloads of the largest message before encryption; None: those of a message are not known."""
        messages = [message for each in self.exchanges for message in (each.request, each.response) if message]
        if any(message.payloads is None for message in messages):
            return None
        return max(sum(payload.bytes for payload in message.payloads or ()) for message in messages)

    @property
    def unknown(self) -> list[str]:
        """Descriptions of the processing times that are unknown in all comparable handshakes."""
        return [
            f"{'responder' if exchanges[0].asker == 'initiator' else 'initiator'} in {exchanges[0].name}"
            for exchanges in zip(*self.comparable, strict=True)
            if all(exchange.response is not None and exchange.answer_ns is None for exchange in exchanges)
        ]

    def computation_ns(self, side: Side) -> int | None:
        """Return the total processing time of `side` within the set-up; None if a part is unknown."""
        return _sum_processing_times(self.exchanges, side)

    def list_computations_ns(self, side: Side) -> list[int]:
        """Return the same of each comparable handshake in which all parts are known."""
        totals = (_sum_processing_times(exchanges, side) for exchanges in self.comparable)
        return [total for total in totals if total is not None]


def _sum_processing_times(exchanges: tuple[FlowExchange, ...], side: Side) -> int | None:
    total = 0
    for exchange in exchanges:
        if exchange.asker == side:
            total += exchange.before_ns
        elif exchange.response is not None:
            if exchange.answer_ns is None:
                return None
            total += exchange.answer_ns
    return total


def get_peer(side: Side) -> Side:
    """Return the other side."""
    return "responder" if side == "initiator" else "initiator"


def get_encryption_overhead(encryption: str | None, integrity: str | None) -> EncryptionOverhead | None:
    """Return the overhead of the algorithms of an IKE SA, by their names in the report; None: unknown algorithms.

    AES-GCM and AES-CCM: RFC 5282; ChaCha20-Poly1305: RFC 7634; AES-CBC: RFC 3602; names of HMACs have their length.
    """
    name = (encryption or "").upper()
    sizes = next(((iv, block) for pattern, iv, block in _CIPHERS if pattern.match(name)), None)
    if sizes is None:
        return None
    iv, block = sizes
    if tag := _TAG.search(name):
        return EncryptionOverhead(iv, block, int(tag[1]))
    if name.startswith("CHACHA20") or "GMAC" in name:
        return EncryptionOverhead(iv, block, 16)
    truncated = _TRUNCATED.search((integrity or "").upper())
    return EncryptionOverhead(iv, block, int(truncated[1]) // 8) if truncated else None
