"""Types that the initiator and its driver exchange.

The initiator does no I/O: each call takes a datagram or the time, and returns a `DriverStep` with the datagrams to
send and the time of the next call. A driver works like this:

    step = initiator.begin(now)
    while step.finished is None:
        send step.send, each to its port
        if a datagram arrives before step.wake_ns: step = initiator.receive(data, now, from_port)
        otherwise:                                 step = initiator.tick(now)
    send step.send
    step = initiator.close(now), then the same loop, so that the target deletes the IKE SA

`now` is a monotonic clock in nanoseconds. The result after `close` includes the exchange of the delete.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from ikeanalyze.keys.key_set import KeySet

Result = TypeVar("Result", covariant=True)


class CannotReplayError(ValueError):
    """The handshake cannot be re-enacted; one line with what is missing, without secrets."""


class RefusedError(ValueError):
    """The responder refuses, or its message is not acceptable. One clause, without secrets."""


@dataclass(frozen=True, slots=True)
class OutgoingDatagram:
    """A datagram to send."""

    data: bytes = field(repr=False)  # one UDP payload, without the non-ESP marker of port 4500
    exchange_type: int
    message_id: int
    response: bool  # whether it answers a request of the target
    fragment: int | None  # fragment number (RFC 7383), from 1; None: the message is not fragmented
    fragments: int | None  # total fragments
    transmission: int  # of its message: 1 is the first, 2... are retransmissions
    port: int  # of the target: 500 or 4500; the transport adds the non-ESP marker on 4500


@dataclass(frozen=True, slots=True)
class ExchangeStats:
    """One exchange of ours, finished or not. Bytes are of UDP payloads without non-ESP marker: IKE messages."""

    exchange_type: int
    message_id: int
    attempt: int  # from 1; above 1 after COOKIE or INVALID_KE_PAYLOAD, with the same message ID
    transmissions: int  # of the request
    datagrams_sent: int  # all transmissions
    bytes_sent: int
    datagrams_needed: int  # in one transmission of the request
    bytes_needed: int
    datagrams_received: int  # with its message ID, duplicates included
    bytes_received: int
    datagrams_used: int  # that made up the response; 0: no response
    bytes_used: int
    round_trip_ns: int | None  # from the latest transmission to the complete response; None: no response
    answer: str | None  # error notify, COOKIE or the like in the response; None: none


@dataclass(frozen=True, slots=True)
class IgnoredDatagrams:
    """Ignored datagrams by reason."""

    repeated: int = 0  # duplicate responses, of this or an earlier exchange
    foreign: int = 0  # of another IKE SA, or not from the port that the request was sent to
    garbage: int = 0  # not an IKEv2 message, or decryption failed
    unprotected: int = 0  # not encrypted, after IKE_SA_INIT
    unexpected: int = 0  # a request or response that was not expected


@dataclass(frozen=True, slots=True)
class InitiatorResult:
    """Result of a handshake, or of its deletion after `close`."""

    established: bool  # both sides authenticated; stays true after `close`
    reason: str | None  # of the failure: name of a notify, "no answer", "AUTH does not verify: ..."
    child_error: str | None  # why the IKE SA has no first Child SA, usually a notify
    #: The responder confirmed the delete; False: no response (yet), so the responder may still have the IKE SA;
    #: None: no delete was sent.
    deleted: bool | None
    exchanges: tuple[ExchangeStats, ...]
    ignored: IgnoredDatagrams
    spi_i: bytes  # 8 bytes
    spi_r: bytes  # zeros: never received
    chosen: str | None  # the proposal, from `Proposal.describe`
    authentication: tuple[str | None, str | None]  # methods of initiator and responder
    began_ns: int  # the caller's clock
    ended_ns: int  # time of success or failure; unchanged by `close`
    keys: Sequence[KeySet] = field(default=(), repr=False)  # by epoch

    @property
    def setup_ns(self) -> int:
        """From the first request to the response that established the IKE SA, or to the failure."""
        return self.ended_ns - self.began_ns


@dataclass(frozen=True, slots=True)
class DriverStep(Generic[Result]):
    """What the driver has to do next for an initiator, or for another session that it drives."""

    send: tuple[OutgoingDatagram, ...] = ()  # in this order
    wake_ns: int | None = None  # when to call `tick` if nothing arrives before; None: no timer
    finished: Result | None = None  # set when the session has ended, as when a handshake succeeded or failed
