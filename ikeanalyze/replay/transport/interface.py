"""Interface of the transports: raw IP with scapy (`raw_ip`), UDP sockets (`udp`), and a TCP connection (`tcp`).

Both return the target's datagrams with kernel times, and record all packets. Sending has two steps, so that a datagram
is recorded as sent although an injected fault drops or delays it: `prepare` builds and records it, `send` sends it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Literal, Protocol

from ikeanalyze.capture.protocol_numbers import NON_ESP_MARKER
from ikeanalyze.replay.transport.target import Role, Target

#: Called with the time (ns since 1970-01-01 UTC) and the IP packet of each sent or received packet.
PacketRecorder = Callable[[int, bytes], None]
#: Largest IKE message that fits into a UDP datagram with the non-ESP marker.
MAX_MESSAGE_BYTES: Final = 65_535 - 20 - 8 - 4

Way = Literal["layer 3", "UDP", "TCP"]


class TransportError(Exception):
    """The target is not reachable; one line with the problem and the remedy."""


@dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """Our address and ports."""

    address: str
    packed: bytes  # 4 or 16 bytes
    port: int  # local port for the target's port 500
    nat_port: int  # local port for the target's port 4500

    def port_of(self, role: Role) -> int:
        """Return our port for the target's port with that role."""
        return self.port if role == 500 else self.nat_port


@dataclass(frozen=True, slots=True)
class ReceivedDatagram:
    """An IKE message or fragment from the target."""

    time_ns: int  # when the kernel received it, since 1970-01-01 UTC
    data: bytes = field(repr=False)  # without non-ESP marker
    role: Role  # of its source port
    size: int  # bytes of its IP packets


@dataclass(frozen=True, slots=True)
class ReceivedPayload:
    """A UDP datagram that arrived at one of our ports."""

    time_ns: int
    payload: bytes
    address: str
    port: int
    ttl: int | None = None  # None: unknown


@dataclass(slots=True)
class TransportCounts:
    """Counts of a transport."""

    sent: int = 0  # datagrams
    received: int = 0  # datagrams of the target
    stray: int = 0  # from another address, or another port of the target's
    stray_from: str | None = None  # source of the first one
    not_ike: int = 0  # without marker on port 4500 (ESP, keepalives), or shorter than a marker
    refusals: Counter[Role] = field(default_factory=Counter)  # network errors by port, such as unreachable or refused
    refusal: str | None = None  # text of the first one

    @property
    def refused(self) -> int:
        """Number of network errors."""
        return self.refusals.total()

    @property
    def total_received(self) -> int:
        """Number of received datagrams of any kind."""
        return self.received + self.stray + self.not_ike


@dataclass(frozen=True, slots=True)
class PreparedDatagram:
    """A datagram ready to send."""

    role: Role
    size: int  # bytes of its IP packets
    payload: bytes = field(repr=False)  # of UDP, marker included
    packets: tuple[bytes, ...] = field(default=(), repr=False)  # IP packets, if the transport builds them itself


class PacketTransport(Protocol):
    """A transport to one target."""

    @property
    def way(self) -> Way:
        """Kind of transport."""

    @property
    def local(self) -> LocalEndpoint:
        """Our address and ports."""

    @property
    def counts(self) -> TransportCounts:
        """Counts so far."""

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Build and record a datagram; return it and its time (ns since 1970-01-01 UTC)."""

    def send(self, prepared: PreparedDatagram) -> None:
        """Send a datagram. Network errors are counted, not raised."""

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """Return the next datagram of the target; None if none arrives in time, or another datagram arrives."""

    def close(self) -> None:
        """Release the sockets."""


def build_udp_payload(data: bytes, target: Target, role: Role) -> bytes:
    """Return the UDP payload of an IKE message to that port (RFC 3948, section 2.2).

    Raises:
        TransportError: the message is too large.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise TransportError(f"a message of {len(data):,} bytes does not fit into a UDP datagram")
    return NON_ESP_MARKER + data if target.has_non_esp_marker(role) else data


def classify_datagram(
    target: Target, counts: TransportCounts, received: ReceivedPayload, role: Role, size: int
) -> ReceivedDatagram | None:
    """Return the target's IKE message that arrived at our port for `role`; None: not one (RFC 3948, 2.2 to 2.4).

    Counts the datagram. `size`: bytes of its IP packets.
    """
    address, port, payload = received.address, received.port, received.payload
    if port != target.port_of(role) or ip_address(address).packed != target.packed:
        counts.stray += 1
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        counts.stray_from = counts.stray_from or where
        return None
    if target.has_non_esp_marker(role):
        payload = payload[len(NON_ESP_MARKER) :] if payload.startswith(NON_ESP_MARKER) else b""
    if not payload:
        counts.not_ike += 1
        return None
    counts.received += 1
    return ReceivedDatagram(received.time_ns, payload, role, size)
