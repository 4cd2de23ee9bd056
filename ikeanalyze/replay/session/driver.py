"""A sans-IO conversation over a transport, with faults of our own making between them; bounded in time and in what it takes."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from xxhash import xxh3_128_intdigest

from ikeanalyze.replay.initiator.interface import OutgoingDatagram
from ikeanalyze.replay.responses import parse_ikev2_header
from ikeanalyze.replay.session.faults import DatagramInfo, FaultInjector
from ikeanalyze.replay.transport.interface import PacketTransport, PreparedDatagram, ReceivedDatagram, TransportCounts
from ikeanalyze.replay.transport.target import NAT_PORT, Role
from ikeanalyze.wire.ikev2.message import parse_fragment_header
from ikeanalyze.wire.registries.ikev2 import ExchangeType

Finished = TypeVar("Finished", covariant=True)
_Result = TypeVar("_Result")

#: Datagrams that a run takes from a target at most: a handshake has dozens.
MOST_DATAGRAMS: Final = 2_000
#: Why a conversation was broken off, if the user did it.
INTERRUPTED: Final = "interrupted"
#: What sets an IKE SA up, as the report has it: a responder may begin other exchanges while it waits for us.
_SET_UP: Final = frozenset(
    {
        ExchangeType.IKE_SA_INIT,
        ExchangeType.IKE_AUTH,
        ExchangeType.IKE_SESSION_RESUME,
        ExchangeType.GSA_AUTH,
        ExchangeType.IKE_INTERMEDIATE,
    }
)
_TYPE: Final = 18  # where the exchange type stands in a message


class DriverStep(Protocol[Finished]):
    """`replay.steps.Step`, or one like it."""

    @property
    def send(self) -> tuple[OutgoingDatagram, ...]:
        """What to send now."""

    @property
    def wake_ns(self) -> int | None:
        """When to tick."""

    @property
    def finished(self) -> Finished | None:
        """How it ended."""


class DrivenSession(Protocol[Finished]):
    """What can be driven: an initiator, or recorded messages."""

    def receive(self, data: bytes, now_ns: int, from_port: int) -> DriverStep[Finished]:
        """Take a datagram."""

    def tick(self, now_ns: int) -> DriverStep[Finished]:
        """Take note of the time."""


@dataclass(slots=True)
class TrafficCounter:
    """What crossed our end of the path, as the recording has it: all transmissions, what we dropped ourselves included.

    Bytes are of IP packets, as our own capture has them. A datagram with the same bytes as an earlier one is a retransmission. What is of
    exchanges that are no part of a set-up is not counted.
    """

    datagrams: Counter[bool] = field(default_factory=Counter)  # True: ours
    total: Counter[bool] = field(default_factory=Counter)  # bytes
    needed: Counter[bool] = field(default_factory=Counter)  # bytes of the first copy of each
    _known: set[tuple[bool, int]] = field(default_factory=set)  # digests of what went by

    def count(self, data: bytes, size: int, *, ours: bool) -> None:
        """A datagram of so many bytes went by."""
        self.datagrams[ours] += 1
        self.total[ours] += size
        known = ours, xxh3_128_intdigest(data)
        if known not in self._known:
            self._known.add(known)
            self.needed[ours] += size

    @property
    def blowup(self) -> float | None:
        """Bytes sent by both sides over those that one transmission of each message needs; None: nothing was sent."""
        needed = self.needed.total()
        return self.total.total() / needed if needed else None


@dataclass(slots=True)
class DriveResult(Generic[_Result]):
    """How a conversation went."""

    finished: _Result | None  # None: it was broken off
    why: str | None  # why it was broken off
    sent: int  # datagrams of ours that reached the wire
    received: int  # datagrams of the target's, those included that a fault of ours took away


class Driver:
    """Drives conversations over one transport, one after another."""

    def __init__(
        self,
        transport: PacketTransport,
        *,
        faults: FaultInjector | None = None,
        most: int = MOST_DATAGRAMS,
        stubborn: bool = False,
        tallies: dict[bytes, TrafficCounter] | None = None,
    ) -> None:
        """`most`: datagrams that are taken from the network in one conversation.

        `stubborn`: a conversation goes on though the network says that nobody is there. `tallies`: by SPIi, of all drivers over
        this transport: what comes when its conversation is over is counted there still, as it is in our capture.
        """
        self._transport = transport
        self._faults = faults or FaultInjector()
        self._most = most
        self._stubborn = stubborn
        self._asked: set[Role] = set()  # ports that something was sent to in this conversation
        self._offset = time.time_ns() - time.monotonic_ns()
        self._told = 0  # the last time that a conversation was told
        self._tallies = {} if tallies is None else tallies
        self.tally = TrafficCounter()

    def now(self) -> int:
        """Nanoseconds since 1970-01-01 UTC by a clock that never goes back."""
        return time.monotonic_ns() + self._offset

    def run(
        self,
        conversation: DrivenSession[_Result],
        begin: Callable[[int], DriverStep[_Result]],
        seconds: float,
        sent: Callable[[OutgoingDatagram, int], None] = lambda *_: None,
    ) -> DriveResult[_Result]:
        """From its first step, which `begin` gives, to its end, or for so many seconds.

        `sent` hears of each datagram when it was sent: a conversation learns the time before, when it may take a while yet.
        """
        counts = self._transport.counts
        before = replace(counts, refusals=counts.refusals.copy())
        self._asked.clear()
        inbox: deque[ReceivedDatagram] = deque()
        end_ns = self.now() + round(seconds * 1e9)
        step: DriverStep[_Result] | None = None
        try:
            step = begin(self._tell(self.now()))
            send = step.send
            while True:
                for outgoing in send:
                    sent(outgoing, self._take(outgoing))
                    self._put()  # at once, since its time is recorded
                self._put()
                why = self._broken_off(before, end_ns, seconds) if step.finished is None else None
                if step.finished is not None or why is not None:
                    break
                if not inbox:
                    self._wait(min(end_ns, step.wake_ns or end_ns))
                    inbox.extend(self._faults.pop_due(ours=False, now_ns=self.now()))
                send = ()
                if inbox:
                    datagram = inbox.popleft()
                    told_ns = self._tell(self._time(datagram))
                    step = conversation.receive(datagram.data, told_ns, datagram.role)
                    send = step.send
                elif step.wake_ns is not None and self.now() >= step.wake_ns:
                    step = conversation.tick(self._tell(self.now()))
                    send = step.send
        except KeyboardInterrupt:
            why = INTERRUPTED
        finished = None if step is None else step.finished
        return DriveResult(finished, why, counts.sent - before.sent, counts.received - before.received)

    def disable_faults(self) -> None:
        """From now on nothing goes wrong by our doing; what is still on its way is lost."""
        self._faults = FaultInjector()

    def _broken_off(self, before: TransportCounts, end_ns: int, seconds: float) -> str | None:
        """Why a conversation must not go on; None: it may. `before`: the counts when it began."""
        counts = self._transport.counts
        if self.now() >= end_ns:
            return f"not over after {seconds:g} s"
        if counts.taken - before.taken > self._most:
            return f"more than {self._most:,} datagrams came in"
        refused = {role for role in self._asked if counts.refusals[role] > before.refusals[role]}
        if refused and refused == self._asked and counts.received == before.received and not self._stubborn:
            return f"the network says: {counts.refusal}"
        return None

    def _wait(self, until_ns: int) -> None:
        """Until then, or until something comes or is due to go."""
        soonest = self._faults.next_ns
        if soonest is not None:
            until_ns = min(until_ns, soonest)
        datagram = self._transport.receive(max(until_ns - self.now(), 0) / 1e9)
        if datagram is None:
            return
        self._count(datagram.data, datagram.size, ours=False)
        header = parse_ikev2_header(datagram.data)
        number, total = parse_fragment_header(datagram.data) or (None, None)
        about = DatagramInfo(
            False,
            header.exchange_type if header else 0,
            header.message_id if header else 0,
            bool(header and header.response),
            number,
            total,
        )
        self._faults.add_datagram(datagram, about, self.now())

    def _take(self, outgoing: OutgoingDatagram) -> int:
        role: Role = 4500 if outgoing.port == NAT_PORT else 500
        packed, time_ns = self._transport.prepare(outgoing.data, role)
        self._count(outgoing.data, packed.size, ours=True)
        about = DatagramInfo(
            True, outgoing.exchange_type, outgoing.message_id, outgoing.response, outgoing.fragment, outgoing.fragments
        )
        self._faults.add_datagram(packed, about, self.now())
        return time_ns

    def _put(self) -> None:
        packed: PreparedDatagram
        for packed in self._faults.pop_due(ours=True, now_ns=self.now()):
            self._asked.add(packed.role)
            self._transport.send(packed)

    def _count(self, data: bytes, size: int, *, ours: bool) -> None:
        if ours:
            self._tallies[data[:8]] = self.tally
        tally = self._tallies.get(data[:8])
        if tally is not None and len(data) > _TYPE and data[_TYPE] in _SET_UP:
            tally.count(data, size, ours=ours)

    def _time(self, datagram: ReceivedDatagram) -> int:
        """When a datagram came: as the kernel says, unless a fault of ours may have held it up."""
        return self.now() if self._faults.rules else min(datagram.time_ns, self.now())

    def _tell(self, time_ns: int) -> int:
        """That time, but none before the last one that was told."""
        self._told = max(self._told, time_ns)
        return self._told
