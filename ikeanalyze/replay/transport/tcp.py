"""A TCP connection as transport (RFC 9329), without privileges.

The recorded IP packets are constructed: the stream prefix, then one segment or more for each message, without the
acknowledgements and the TCP handshake, which a socket does not show. Times are those of our system calls.
"""

import select
import socket
import time
from ipaddress import ip_address
from typing import Final

from ikeanalyze.capture.decode.tcp_reassembly import PREFIX
from ikeanalyze.capture.protocol_numbers import NON_ESP_MARKER
from ikeanalyze.capture.write.frames import UdpEndpoint, build_segment_frame
from ikeanalyze.replay.transport.interface import (
    LocalEndpoint,
    PacketRecorder,
    PreparedDatagram,
    ReceivedDatagram,
    TransportCounts,
    TransportError,
    Way,
)
from ikeanalyze.replay.transport.target import Role, Target

_CONNECT_SECONDS: Final = 10
_LENGTH_BYTES: Final = 2
#: Largest IKE message: the length counts itself and the marker (RFC 9329, section 3.1).
_MAX_MESSAGE_BYTES: Final = 0xFFFF - _LENGTH_BYTES - len(NON_ESP_MARKER)
_SEGMENT_BYTES: Final = 1400  # of the constructed packets
_RECEIVE_BYTES: Final = 1 << 16


class TcpTransport:
    """A transport to one target over a TCP connection to its port 4500."""

    way: Way = "TCP"

    def __init__(self, target: Target, record: PacketRecorder) -> None:
        """Connect.

        Raises:
            TransportError: the target does not accept the connection.
        """
        self._target, self._record = target, record
        try:
            self._socket = socket.create_connection((target.address, target.nat_port), _CONNECT_SECONDS)
        except OSError as error:
            problem = error.strerror or "no answer"
            raise TransportError(f"{target.address}: no TCP connection to port {target.nat_port}: {problem}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address, port = self._socket.getsockname()[:2]
        packed = ip_address(str(address).partition("%")[0]).packed
        self.local = LocalEndpoint(str(address), packed, port, port)
        self.counts = TransportCounts()
        self._sequence = {True: 1, False: 1}  # of the constructed packets, ours and the target's
        self._buffer = b""
        self._role: Role = 500  # of the latest message: an answer has no other
        self._open = True
        self._prefix = PREFIX  # to be sent before the first message

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Build and record a message with its length and marker.

        Raises:
            TransportError: the message is too large.
        """
        if len(data) > _MAX_MESSAGE_BYTES:
            raise TransportError(f"a message of {len(data):,} bytes does not fit into the TCP encapsulation")
        body = NON_ESP_MARKER + data
        payload = (_LENGTH_BYTES + len(body)).to_bytes(_LENGTH_BYTES) + body
        now = time.time_ns()
        prefix, self._prefix = self._prefix, b""
        self._record_stream(now, prefix, ours=True)
        size = self._record_stream(now, payload, ours=True)
        return PreparedDatagram(role, size, prefix + payload), now

    def send(self, prepared: PreparedDatagram) -> None:
        """Send a message."""
        self._role = prepared.role
        if self._write(prepared.payload):
            self.counts.sent += 1

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """Return the next message of the target."""
        end = time.monotonic() + max(seconds, 0)
        while (received := self._pop_message()) is None:
            left = end - time.monotonic()
            if not self._open:
                time.sleep(max(left, 0))
                return None
            if left < 0 or not select.select([self._socket], [], [], left)[0]:
                return None
            self._read()
        return received

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _write(self, data: bytes) -> bool:
        """Send bytes; return whether that worked."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            self._end_connection(error.strerror or "no answer")
            return False
        return True

    def _read(self) -> None:
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except OSError as error:
            self._end_connection(error.strerror or "the connection failed")
            return
        if not data:
            self._end_connection("the target closed the connection")
        self._buffer += data

    def _end_connection(self, problem: str) -> None:
        """Count the end of the connection as a network error: no answer will arrive."""
        self._open = False
        self.counts.refusals.update({500: 1, 4500: 1})
        self.counts.refusal = self.counts.refusal or problem

    def _pop_message(self) -> ReceivedDatagram | None:
        """Return the first complete IKE message of the stream; None: more bytes are needed."""
        while len(self._buffer) >= _LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:_LENGTH_BYTES])
            if length < _LENGTH_BYTES:
                self._buffer = b""
                self._end_connection(f"the target sent an invalid length of {length}")
                return None
            if len(self._buffer) < length:
                return None
            payload, self._buffer = self._buffer[:length], self._buffer[length:]
            now = time.time_ns()
            size = self._record_stream(now, payload, ours=False)
            body = payload[_LENGTH_BYTES:]
            if body.startswith(NON_ESP_MARKER) and len(body) > len(NON_ESP_MARKER):
                self.counts.received += 1
                return ReceivedDatagram(now, body[len(NON_ESP_MARKER) :], self._role, size)
            self.counts.not_ike += 1  # ESP
        return None

    def _record_stream(self, time_ns: int, data: bytes, *, ours: bool) -> int:
        """Record bytes of the stream as segments; return the bytes of their IP packets."""
        here = UdpEndpoint(self.local.packed, self.local.nat_port)
        there = UdpEndpoint(self._target.packed, self._target.nat_port)
        source, destination = (here, there) if ours else (there, here)
        size = 0
        for start in range(0, len(data), _SEGMENT_BYTES):
            part = data[start : start + _SEGMENT_BYTES]
            frame = build_segment_frame(source, destination, part, self._sequence[ours], self._sequence[not ours])
            self._record(time_ns, frame)
            self._sequence[ours] = (self._sequence[ours] + len(part)) & 0xFFFFFFFF
            size += len(frame)
        return size
