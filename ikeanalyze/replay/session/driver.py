"""Drives a sans-IO session over a transport, with injected faults, a timeout and a limit for received datagrams."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from xxhash import xxh3_128_intdigest

from ikeanalyze.replay.initiator.interface import DriverStep, OutgoingDatagram, Result
from ikeanalyze.replay.responses import parse_ikev2_header
from ikeanalyze.replay.session.faults import DatagramInfo, FaultInjector
from ikeanalyze.replay.transport.interface import PacketTransport, PreparedDatagram, ReceivedDatagram, TransportCounts
from ikeanalyze.replay.transport.target import NAT_PORT, Role
from ikeanalyze.wire.header import EXCHANGE_TYPE_OFFSET
from ikeanalyze.wire.ikev2.message import parse_fragment_header
from ikeanalyze.wire.registries.ikev2 import SET_UP_EXCHANGES

_Result = TypeVar("_Result")

#: Limit for the datagrams received in a run; a handshake has dozens.
MAX_DATAGRAMS: Final = 2_000
#: Reason of a session that the user interrupted.
INTERRUPTED: Final = "interrupted"


class DrivenSession(Protocol[Result]):
    """A session that can be driven: an initiator, recorded messages, or mutants."""

    def receive(self, data: bytes, now_ns: int, from_port: int) -> DriverStep[Result]:
        """Process a datagram."""

    def tick(self, now_ns: int) -> DriverStep[Result]:
        """Process the time."""


@dataclass(slots=True)
class TrafficCounter:
    """Traffic at our end of the path, as in the recording: all transmissions, including those that a fault drops.

    Bytes are of IP packets. A datagram with the same bytes as an earlier one is a retransmission. Only exchanges that
    set up an IKE SA are counted.
    """

    datagrams: Counter[bool] = field(default_factory=Counter)  # True: ours
    total: Counter[bool] = field(default_factory=Counter)  # bytes
    needed: Counter[bool] = field(default_factory=Counter)  # bytes of first transmissions
    _digests: set[tuple[bool, int]] = field(default_factory=set)  # digests of the datagrams

    def count(self, data: bytes, size: int, *, ours: bool) -> None:
        """Count a datagram with this size in bytes."""
        self.datagrams[ours] += 1
        self.total[ours] += size
        digest = ours, xxh3_128_intdigest(data)
        if digest not in self._digests:
            self._digests.add(digest)
            self.needed[ours] += size

    @property
    def blowup(self) -> float | None:
        """Bytes of both sides divided by the bytes of one transmission of each message; None: no traffic."""
        needed = self.needed.total()
        return self.total.total() / needed if needed else None


@dataclass(slots=True)
class DriveResult(Generic[_Result]):
    """Result of a session."""

    finished: _Result | None  # None: aborted
    why: str | None  # why it was aborted
    sent: int  # datagrams sent to the network
    received: int  # datagrams of the target, including those that a fault drops


class Driver:
    """Drives sessions over one transport, one after another."""

    def __init__(
        self,
        transport: PacketTransport,
        *,
        faults: FaultInjector | None = None,
        max_datagrams: int = MAX_DATAGRAMS,
        ignore_refusals: bool = False,
        counters: dict[bytes, TrafficCounter] | None = None,
    ) -> None:
        """Prepare to drive sessions.

        Args:
            transport: to the target.
            faults: to inject.
            max_datagrams: limit for the datagrams received in one session.
            ignore_refusals: continue although the network reports an unreachable target.
            counters: by SPIi, shared by all drivers of this transport; a late datagram is counted for its session.
        """
        self._transport = transport
        self._faults = faults or FaultInjector()
        self._max_datagrams = max_datagrams
        self._ignore_refusals = ignore_refusals
        self._used_roles: set[Role] = set()  # target ports used in this session
        self._offset = time.time_ns() - time.monotonic_ns()
        self._last_time_ns = 0  # the latest time passed to a session
        self._counters = {} if counters is None else counters
        self.counter = TrafficCounter()

    def now(self) -> int:
        """Return nanoseconds since 1970-01-01 UTC by a monotonic clock."""
        return time.monotonic_ns() + self._offset

    def run(
        self,
        session: DrivenSession[_Result],
        begin: Callable[[int], DriverStep[_Result]],
        seconds: float,
        sent: Callable[[OutgoingDatagram, int], None] = lambda *_: None,
    ) -> DriveResult[_Result]:
        """Drive a session from the step that `begin` returns to its end, for at most `seconds`.

        `sent` is called with each datagram and the time at which it was sent, which is later than the time in the step.
        """
        counts = self._transport.counts
        counts_before = replace(counts, refusals=counts.refusals.copy())
        self._used_roles.clear()
        inbox: deque[ReceivedDatagram] = deque()
        end_ns = self.now() + round(seconds * 1e9)
        step: DriverStep[_Result] | None = None
        try:
            step = begin(self._make_monotonic(self.now()))
            send = step.send
            while True:
                for outgoing in send:
                    sent(outgoing, self._queue_outgoing(outgoing))
                    self._send_due()  # at once: its time is recorded
                self._send_due()
                why = self._get_abort_reason(counts_before, end_ns, seconds) if step.finished is None else None
                if step.finished is not None or why is not None:
                    break
                if not inbox:
                    self._wait(min(end_ns, step.wake_ns or end_ns))
                    inbox.extend(self._faults.pop_due(ours=False, now_ns=self.now()))
                send = ()
                if inbox:
                    datagram = inbox.popleft()
                    arrived_ns = self._make_monotonic(self._get_arrival_time(datagram))
                    step = session.receive(datagram.data, arrived_ns, datagram.role)
                    send = step.send
                elif step.wake_ns is not None and self.now() >= step.wake_ns:
                    step = session.tick(self._make_monotonic(self.now()))
                    send = step.send
        except KeyboardInterrupt:
            why = INTERRUPTED
        finished = None if step is None else step.finished
        return DriveResult(finished, why, counts.sent - counts_before.sent, counts.received - counts_before.received)

    def disable_faults(self) -> None:
        """Inject no more faults. Datagrams that are held back are lost."""
        self._faults = FaultInjector()

    def _get_abort_reason(self, counts_before: TransportCounts, end_ns: int, seconds: float) -> str | None:
        """Return why a session must end; None: continue. `counts_before`: when it began."""
        counts = self._transport.counts
        if self.now() >= end_ns:
            return f"timed out after {seconds:g} s"
        if counts.total_received - counts_before.total_received > self._max_datagrams:
            return f"received more than {self._max_datagrams:,} datagrams"
        refused = {role for role in self._used_roles if counts.refusals[role] > counts_before.refusals[role]}
        is_silent = counts.received == counts_before.received
        if refused and refused == self._used_roles and is_silent and not self._ignore_refusals:
            return f"network error: {counts.refusal}"
        return None

    def _wait(self, until_ns: int) -> None:
        """Wait until this time, a received datagram or a held-back one."""
        next_fault_ns = self._faults.next_ns
        until_ns = until_ns if next_fault_ns is None else min(until_ns, next_fault_ns)
        datagram = self._transport.receive(max(until_ns - self.now(), 0) / 1e9)
        if datagram is None:
            return
        self._count(datagram.data, datagram.size, ours=False)
        header = parse_ikev2_header(datagram.data)
        number, total = parse_fragment_header(datagram.data) or (None, None)
        exchange_type, message_id = (header.exchange_type, header.message_id) if header else (0, 0)
        info = DatagramInfo(False, exchange_type, message_id, bool(header and header.response), number, total)
        self._faults.add_datagram(datagram, info, self.now())

    def _queue_outgoing(self, outgoing: OutgoingDatagram) -> int:
        role: Role = 4500 if outgoing.port == NAT_PORT else 500
        prepared, time_ns = self._transport.prepare(outgoing.data, role)
        self._count(outgoing.data, prepared.size, ours=True)
        info = DatagramInfo(
            True, outgoing.exchange_type, outgoing.message_id, outgoing.response, outgoing.fragment, outgoing.fragments
        )
        self._faults.add_datagram(prepared, info, self.now())
        return time_ns

    def _send_due(self) -> None:
        prepared: PreparedDatagram
        for prepared in self._faults.pop_due(ours=True, now_ns=self.now()):
            self._used_roles.add(prepared.role)
            self._transport.send(prepared)

    def _count(self, data: bytes, size: int, *, ours: bool) -> None:
        if ours:
            self._counters[data[:8]] = self.counter
        counter = self._counters.get(data[:8])
        exchange_type = data[EXCHANGE_TYPE_OFFSET] if len(data) > EXCHANGE_TYPE_OFFSET else None
        # a responder may start other exchanges meanwhile
        if counter is not None and exchange_type in SET_UP_EXCHANGES:
            counter.count(data, size, ours=ours)

    def _get_arrival_time(self, datagram: ReceivedDatagram) -> int:
        """Return the kernel's receive time, or now if a fault may have delayed the datagram."""
        return self.now() if self._faults.rules else min(datagram.time_ns, self.now())

    def _make_monotonic(self, time_ns: int) -> int:
        """Return this time, or the last one if later."""
        self._last_time_ns = max(self._last_time_ns, time_ns)
        return self._last_time_ns
