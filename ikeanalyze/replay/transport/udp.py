"""Ordinary UDP sockets as the way to the wire: for those who may not send packets of their own making.

The IP packets of the recording are made up of the datagrams, with the times and TTLs that the kernel tells: nobody saw how the
network cut them.
"""

import random
import selectors
import time

from ikeanalyze.capture.write.frames import UdpEndpoint, build_datagram_frame
from ikeanalyze.replay.transport.interface import (
    LocalEndpoint,
    PreparedDatagram,
    ReceivedDatagram,
    Record,
    TransportCounts,
    Way,
    build_udp_payload,
    classify_datagram,
)
from ikeanalyze.replay.transport.ports import UdpPorts
from ikeanalyze.replay.transport.target import Role, Target


class UdpTransport:
    """A way to one target over two UDP sockets."""

    way: Way = "UDP"

    def __init__(self, target: Target, record: Record) -> None:
        self._target, self._record = target, record
        self._ports = UdpPorts(target)
        self.local: LocalEndpoint = self._ports.local
        self.counts = TransportCounts()
        self._identification = random.randrange(1 << 16)
        self._selector = selectors.DefaultSelector()
        for role, opened in self._ports.sockets.items():
            self._selector.register(opened, selectors.EVENT_READ, role)

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Make an IKE message ready and record it as sent now."""
        payload = build_udp_payload(data, self._target, role)
        now = time.time_ns()
        # a packet of another number is no copy of the one before it
        self._identification = (self._identification + 1) % (1 << 16)
        frame = self._frame(role, payload, sent=True)
        self._record(now, frame)
        return PreparedDatagram(role, len(frame), payload), now

    def send(self, packed: PreparedDatagram) -> None:
        """Put it on the wire."""
        try:
            self._ports.sockets[packed.role].sendto(packed.payload, self._ports.remote(packed.role))
        except BlockingIOError:
            return  # the queue is full: lost, as in a network
        except OSError as error:
            self._ports.note(packed.role, error, self.counts)
            return
        self.counts.sent += 1

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """The next datagram of the target."""
        for key, _ in self._selector.select(max(seconds, 0)):
            role: Role = key.data
            got = self._ports.receive(role, self.counts)
            if got is None:
                continue
            frame = self._frame(role, got.payload, sent=False, ttl=got.ttl)
            if got.address == self._target.address.partition("%")[0]:
                self._record(got.time_ns, frame)
            return classify_datagram(self._target, self.counts, got, role, len(frame))
        return None

    def close(self) -> None:
        """Give the ports back."""
        self._selector.close()
        self._ports.close()

    def _frame(self, role: Role, payload: bytes, *, sent: bool, ttl: int | None = None) -> bytes:
        ours = UdpEndpoint(self.local.packed, self.local.port_of(role))
        theirs = UdpEndpoint(self._target.packed, self._target.port_of(role))
        if sent:
            return build_datagram_frame(ours, theirs, payload, identification=self._identification)
        return build_datagram_frame(theirs, ours, payload, ttl=ttl)
