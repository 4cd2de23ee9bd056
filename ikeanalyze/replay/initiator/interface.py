"""What the initiator and the way to the wire say to each other.

The initiator does no I/O: it is given datagrams and the time, and gives back `InitiatorStep`: what to send now and when to ask
it again. Whoever drives it:

    step = initiator.begin(now)
    while step.finished is None:
        send step.send, each to its port
        a datagram of the target came before step.wake_ns: step = initiator.receive(data, now, from_port)
        none came:                                        step = initiator.tick(now)
    send step.send
    step = initiator.close(now), and on as above, so that the target forgets the IKE SA

`now` is any clock in nanoseconds that never goes back. `finished` of what `close` leads to has all exchanges, the last
one included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ikeanalyze.keys.key_set import KeySet


class CannotReplayError(ValueError):
    """A handshake cannot be re-enacted with what there is; one line that says what is missing. Has no secret in it."""


class RefusedError(ValueError):
    """The handshake ends: the responder refuses, or what it sent must not be accepted. One clause, without a secret."""


@dataclass(frozen=True, slots=True)
class OutgoingDatagram:
    """One datagram to be sent."""

    data: bytes = field(repr=False)  # one UDP payload, without the non-ESP marker of port 4500
    exchange_type: int
    message_id: int
    response: bool  # it answers a request of the target
    fragment: int | None  # fragment number (RFC 7383), from 1; None: the message is not cut
    fragments: int | None  # total fragments
    transmission: int  # of its message: 1 is the first, 2... are retransmissions
    port: int  # of the target: 500 or 4500; on 4500 the non-ESP marker goes before the data


@dataclass(frozen=True, slots=True)
class ExchangeStats:
    """One exchange of ours, as far as it got. Bytes are of UDP payloads without non-ESP marker: IKE messages."""

    exchange_type: int
    message_id: int
    attempt: int  # from 1; more where the responder asked for another request with the same message ID
    transmissions: int  # of the request
    datagrams_sent: int  # all transmissions
    bytes_sent: int
    datagrams_needed: int  # what one transmission of the request takes
    bytes_needed: int
    datagrams_received: int  # that belong to it by message ID, repeated ones included
    bytes_received: int
    datagrams_used: int  # those of them that made up the response; 0: there was none
    bytes_used: int
    round_trip_ns: int | None  # from the latest transmission of the request to the whole response; None: none
    answer: str | None  # error notify, or COOKIE and the like, in the response; None: there was none in it


@dataclass(frozen=True, slots=True)
class IgnoredDatagrams:
    """Datagrams that did nothing, by reason."""

    repeated: int = 0  # responses that were there already, of this or an earlier exchange
    foreign: int = 0  # of another IKE SA, or from another port than the request went to
    garbage: int = 0  # no IKEv2 message, or one that the keys do not open
    unprotected: int = 0  # in clear where everything has to be encrypted
    unexpected: int = 0  # a request or response that nobody waits for


@dataclass(frozen=True, slots=True)
class InitiatorResult:
    """How a handshake ended, or its end after `close`."""

    established: bool  # the IKE SA stands (or stood until `close`), both sides authenticated
    reason: str | None  # why not: name of a notify, "no answer", "AUTH does not verify: ..."
    child_error: str | None  # why there is no first CHILD_SA, though the IKE SA stands: as a rule a notify
    #: The responder has confirmed the end of the IKE SA; False: a delete is not answered (yet), so that the IKE SA may stand at the
    #: responder; None: none was sent.
    deleted: bool | None
    exchanges: tuple[ExchangeStats, ...]
    ignored: IgnoredDatagrams
    spi_i: bytes  # 8 bytes
    spi_r: bytes  # zeros: the responder never gave one
    chosen: str | None  # the proposal, as `wire.proposals.Proposal.describe` puts it
    authentication: tuple[str | None, str | None]  # how the initiator and the responder proved who they are
    began_ns: int  # by the clock of the caller
    ended_ns: int  # when it was established, or given up; `close` does not change it
    keys: Sequence[KeySet] = field(default=(), repr=False)  # by epoch

    @property
    def setup_ns(self) -> int:
        """From the first request to the response that established it, or to its failure."""
        return self.ended_ns - self.began_ns


@dataclass(frozen=True, slots=True)
class InitiatorStep:
    """What to do now."""

    send: tuple[OutgoingDatagram, ...] = ()  # in this order
    wake_ns: int | None = None  # call `tick` then, if nothing came before; None: there is nothing to wait for
    finished: InitiatorResult | None = None  # it is over, or stands
