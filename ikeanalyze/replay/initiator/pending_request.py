"""One request under way: its transmissions, the time to send it again, and what came back.

A message that is cut is sent again whole, all its fragments (RFC 7383, section 2.6.2).
"""

from collections.abc import Sequence
from typing import Final

from ikeanalyze.replay.initiator.interface import ExchangeStats, OutgoingDatagram

_SECOND: Final = 1_000_000_000


class PendingRequest:
    """A request, from its first transmission on."""

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
        "_transmissions",
        "_waits",
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
        waits: Sequence[float],
    ) -> None:
        """`parts`: the message, or its fragments. `waits`: seconds after each transmission."""
        self.exchange_type = exchange_type
        self.message_id = message_id
        self.answer = None
        self._attempt = attempt
        self._parts = tuple(parts)
        self._port = port
        self._waits = waits
        self._transmissions = 0
        self._sent_ns = 0
        self._datagrams_received = self._bytes_received = 0
        self._datagrams_used = self._bytes_used = 0
        self._round_trip_ns: int | None = None

    @property
    def first_part(self) -> bytes:
        """The message, or the first of its fragments."""
        return self._parts[0]

    @property
    def port(self) -> int:
        """Of the target."""
        return self._port

    @property
    def deadline_ns(self) -> int:
        """When the latest transmission has been waited for long enough."""
        return self._sent_ns + round(float(self._waits[self._transmissions - 1]) * _SECOND)

    @property
    def exhausted(self) -> bool:
        """There is no further transmission."""
        return self._transmissions >= len(self._waits)

    def transmit(self, now_ns: int) -> tuple[OutgoingDatagram, ...]:
        """The next transmission."""
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

    def received(self, size: int) -> None:
        """A datagram with its message ID came."""
        self._datagrams_received += 1
        self._bytes_received += size

    def mark_used(self, size: int) -> None:
        """It is (a fragment of) the response, and new."""
        self._datagrams_used += 1
        self._bytes_used += size

    def answered(self, now_ns: int) -> None:
        """The response is whole."""
        self._round_trip_ns = now_ns - self._sent_ns

    def count(self) -> ExchangeStats:
        """All that is to be told."""
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
