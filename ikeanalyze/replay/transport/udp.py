"""UDP sockets as transport, without privileges.

The recorded IP packets are reconstructed from the datagrams with the kernel's times and TTLs; IP fragmentation is not
visible.
"""

import random
import selectors
import time

from ikeanalyze.capture.write.frames import UdpEndpoint, build_datagram_frame
from ikeanalyze.replay.transport.interface import (
    LocalEndpoint,
    PacketRecorder,
    PreparedDatagram,
    ReceivedDatagram,
    TransportCounts,
    Way,
    build_udp_payload,
    classify_datagram,
)
from ikeanalyze.replay.transport.ports import UdpPorts
from ikeanalyze.replay.transport.target import Role, Target


class UdpTransport:
    """A transport to one target over two UDP sockets."""

    way: Way = "UDP"

    def __init__(self, target: Target, record: PacketRecorder) -> None:
        self._target, self._record = target, record
        self._ports = UdpPorts(target)
        self.local: LocalEndpoint = self._ports.local
        self.counts = TransportCounts()
        self._identification = random.randrange(1 << 16)
        self._selector = selectors.DefaultSelector()
        for role, sock in self._ports.sockets.items():
            self._selector.register(sock, selectors.EVENT_READ, role)

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Build and record a datagram."""
        payload = build_udp_payload(data, self._target, role)
        now = time.time_ns()
        # another identification, so that it is not a copy of the previous packet
        self._identification = (self._identification + 1) % (1 << 16)
        frame = self._build_frame(role, payload, sent=True)
        self._record(now, frame)
        return PreparedDatagram(role, len(frame), payload), now

    def send(self, prepared: PreparedDatagram) -> None:
        """Send a datagram."""
        try:
            self._ports.sockets[prepared.role].sendto(prepared.payload, self._ports.get_remote_address(prepared.role))
        except BlockingIOError:
            return  # the queue is full: lost
        except OSError as error:
            self._ports.count_error(prepared.role, error, self.counts)
            return
        self.counts.sent += 1

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """Return the next datagram of the target."""
        for key, _ in self._selector.select(max(seconds, 0)):
            role: Role = key.data
            received = self._ports.receive(role, self.counts)
            if received is None:
                continue
            frame = self._build_frame(role, received.payload, sent=False, ttl=received.ttl)
            if received.address == self._target.address.partition("%")[0]:
                self._record(received.time_ns, frame)
            return classify_datagram(self._target, self.counts, received, role, len(frame))
        return None

    def close(self) -> None:
        """Close the sockets."""
        self._selector.close()
        self._ports.close()

    def _build_frame(self, role: Role, payload: bytes, *, sent: bool, ttl: int | None = None) -> bytes:
        ours = UdpEndpoint(self.local.packed, self.local.port_of(role))
        theirs = UdpEndpoint(self._target.packed, self._target.port_of(role))
        if sent:
            return build_datagram_frame(ours, theirs, payload, identification=self._identification)
        return build_datagram_frame(theirs, ours, payload, ttl=ttl)
