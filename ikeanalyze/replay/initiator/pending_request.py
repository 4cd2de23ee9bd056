"""The pending request: its transmissions, its retransmission timer, and the response received so far.

A fragmented message is retransmitted with all its fragments (RFC 7383, section 2.6.2).
"""

from collections.abc import Sequence
from typing import Final

from ikeanalyze.replay.initiator.interface import ExchangeStats, OutgoingDatagram

_NS_PER_S: Final = 1_000_000_000


class PendingRequest:
    """A request and the statistics of its exchange."""

    __slots__ = (
        "_attempt",
        "_bytes_received",
        "_bytes_used",
        "_datagrams_received",
        "_datagrams_used",
        "_parts",
        "_port",
        "_round_trip_ns",
        "_sent_ns",
        "_timeouts",
        "_transmissions",
        "answer",
        "exchange_type",
        "message_id",
    )

    answer: str | None  # see `ExchangeStats`

    def __init__(
        self,
        exchange_type: int,
        message_id: int,
        attempt: int,
        parts: Sequence[bytes],
        port: int,
        timeouts: Sequence[float],
    ) -> None:
        """`parts`: the message, or its fragments. `timeouts`: seconds to wait after each transmission."""
        self.exchange_type = exchange_type
        self.message_id = message_id
        self.answer = None
        self._attempt = attempt
        self._parts = tuple(parts)
        self._port = port
        self._timeouts = timeouts
        self._transmissions = 0
        self._sent_ns = 0
        self._datagrams_received = self._bytes_received = 0
        self._datagrams_used = self._bytes_used = 0
        self._round_trip_ns: int | None = None

    @property
    def first_part(self) -> bytes:
        """The message, or its first fragment."""
        return self._parts[0]

    @property
    def port(self) -> int:
        """Port of the target."""
        return self._port

    @property
    def deadline_ns(self) -> int:
        """When the latest transmission times out."""
        return self._sent_ns + round(float(self._timeouts[self._transmissions - 1]) * _NS_PER_S)

    @property
    def exhausted(self) -> bool:
        """Whether no transmission is left."""
        return self._transmissions >= len(self._timeouts)

    def transmit(self, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """Return the datagrams of the next transmission."""
        self._transmissions += 1
        self._sent_ns = now_ns
        total = len(self._parts) if len(self._parts) > 1 else None
        return tuple(
            OutgoingDatagram(
                data,
                self.exchange_type,
                self.message_id,
                response=False,
                fragment=total and number,
                fragments=total,
                transmission=self._transmissions,
                port=self._port,
            )
            for number, data in enumerate(self._parts, 1)
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
        needed = sum(map(len, self._parts))
        return ExchangeStats(
            exchange_type=self.exchange_type,
            message_id=self.message_id,
            attempt=self._attempt,
            transmissions=self._transmissions,
            datagrams_sent=self._transmissions * len(self._parts),
            bytes_sent=self._transmissions * needed,
            datagrams_needed=len(self._parts),
            bytes_needed=needed,
            datagrams_received=self._datagrams_received,
            bytes_received=self._bytes_received,
            datagrams_used=self._datagrams_used,
            bytes_used=self._bytes_used,
            round_trip_ns=self._round_trip_ns,
            answer=self.answer,
        )
