"""The pending request: its transmissions, its retransmission timer, and the response received so far.

A fragmented message is retransmitted with all its fragments (RFC 7383, section 2.6.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ikeanalyze.replay.initiator.interface import ExchangeStats, OutgoingDatagram

_NS_PER_S: Final = 1_000_000_000


@dataclass(slots=True)
class PendingRequest:
    """A request and the statistics of its exchange."""

    exchange_type: int
    message_id: int
    attempt: int  # as in `ExchangeStats`
    parts: Sequence[bytes] = field(repr=False)  # the message, or its fragments
    port: int  # of the target
    timeouts: Sequence[float]  # seconds to wait after each transmission
    answer: str | None = None  # as in `ExchangeStats`
    _transmissions: int = 0
    _sent_ns: int = 0  # time of the latest transmission
    _datagrams_received: int = 0
    _bytes_received: int = 0
    _datagrams_used: int = 0
    _bytes_used: int = 0
    _round_trip_ns: int | None = None

    @property
    def first_part(self) -> bytes:
        """The message, or its first fragment."""
        return self.parts[0]

    @property
    def deadline_ns(self) -> int:
        """When the latest transmission times out."""
        return self._sent_ns + round(float(self.timeouts[self._transmissions - 1]) * _NS_PER_S)

    @property
    def exhausted(self) -> bool:
        """Whether no transmission is left."""
        return self._transmissions >= len(self.timeouts)

    def transmit(self, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Return the datagrams of the next transmission."""
        self._transmissions += 1
        self._sent_ns = now_ns
        total = len(self.parts) if len(self.parts) > 1 else None
        identifiers, transmission = (self.exchange_type, self.message_id), self._transmissions
        return tuple(
            OutgoingDatagram(data, *identifiers, False, total and number, total, transmission, self.port)
            for number, data in enumerate(self.parts, 1)
        )

    def record_datagram(self, size: int) -> None:
        """Count a received datagram with this message ID."""
        self._datagrams_received += 1
        self._bytes_received += size

    def mark_used(self, size: int) -> None:
        """Count a datagram that is a new part of the response."""
        self._datagrams_used += 1
        self._bytes_used += size

    def mark_answered(self, now_ns: int) -> None:
        """Record that the response is complete."""
        self._round_trip_ns = now_ns - self._sent_ns

    def get_stats(self) -> ExchangeStats:
        """Return the statistics of the exchange."""
        needed = sum(map(len, self.parts))
        return ExchangeStats(
            exchange_type=self.exchange_type,
            message_id=self.message_id,
            attempt=self.attempt,
            transmissions=self._transmissions,
            datagrams_sent=self._transmissions * len(self.parts),
            bytes_sent=self._transmissions * needed,
            datagrams_needed=len(self.parts),
            bytes_needed=needed,
            datagrams_received=self._datagrams_received,
            bytes_received=self._bytes_received,
            datagrams_used=self._datagrams_used,
            bytes_used=self._bytes_used,
            round_trip_ns=self._round_trip_ns,
            answer=self.answer,
        )
