"""The interface of the ways to the wire: layer 3 by scapy (`layer3`), and ordinary UDP sockets (`udp`) where that is not allowed.

Both give the same: datagrams of the target's as they came, with times of the kernel, and a recording of all packets. What
is sent has two steps, so that it can be recorded as sent though a fault that we cause ourselves takes it away or
holds it up: `take` packs and records, `put` puts on the wire.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, Literal, Protocol

from ikeanalyze.replay.transport.target import Role, Target

#: Told the time (ns since 1970-01-01 UTC) and the IP packet of all that is sent and received.
Record = Callable[[int, bytes], None]
#: Bytes of an IKE message that a UDP datagram has room for, the non-ESP marker before it.
MAX_MESSAGE_BYTES: Final = 65_535 - 20 - 8 - 4

MARKER: Final = bytes(4)
Way = Literal["layer 3", "UDP"]


class TransportError(Exception):
    """There is no way to the target; one line that says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class LocalEndpoint:
    """Our end."""

    address: str
    packed: bytes  # 4 or 16 bytes
    port: int  # from which we talk to the target's port 500
    nat_port: int  # from which we talk to its port 4500

    def port_of(self, role: Role) -> int:
        """Our port for talking to the target's port with that role."""
        return self.port if role == 500 else self.nat_port


@dataclass(frozen=True, slots=True)
class ReceivedDatagram:
    """An IKE message, or a fragment of one, that came from the target."""

    time_ns: int  # when the kernel had it, since 1970-01-01 UTC
    data: bytes = field(repr=False)  # without non-ESP marker
    role: Role  # of the target's port that it came from
    size: int  # bytes of the IP packets that it came in


@dataclass(frozen=True, slots=True)
class Received:
    """A UDP datagram that came to one of our ports."""

    time_ns: int
    payload: bytes
    address: str
    port: int
    ttl: int | None = None  # None: unknown


@dataclass(slots=True)
class TransportCounts:
    """What went over a transport, besides IKE messages of the target what it did not give to anybody."""

    sent: int = 0  # datagrams put on the wire
    received: int = 0  # datagrams of the target given to the caller
    stray: int = 0  # from another address, or another port of the target's
    stray_from: str | None = None  # where the first of these came from
    not_ike: int = 0  # without marker on port 4500 (ESP, keepalives), or shorter than a marker
    #: Errors of the network by port: unreachable, or nothing listens there.
    refusals: Counter[Role] = field(default_factory=Counter)
    refusal: str | None = None  # the first of these, in the system's words

    @property
    def refused(self) -> int:
        """Errors of the network."""
        return self.refusals.total()

    @property
    def taken(self) -> int:
        """Datagrams that came in, whatever they were."""
        return self.received + self.stray + self.not_ike


@dataclass(frozen=True, slots=True)
class PreparedDatagram:
    """A datagram made ready."""

    role: Role
    size: int  # bytes of its IP packets
    payload: bytes = field(repr=False)  # of UDP, marker included
    #: IP packets, where the transport makes them itself.
    packets: tuple[bytes, ...] = field(default=(), repr=False)


class PacketTransport(Protocol):
    """A way to one target."""

    @property
    def way(self) -> Way:
        """Which one."""

    @property
    def local(self) -> LocalEndpoint:
        """Our end."""

    @property
    def counts(self) -> TransportCounts:
        """What went over it until now."""

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Make an IKE message ready and record it as sent now; the time, ns since 1970-01-01 UTC."""

    def send(self, packed: PreparedDatagram) -> None:
        """Put it on the wire. What the network refuses is counted, not raised."""

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """The next datagram of the target; None: none came within so many seconds, or something else did."""

    def close(self) -> None:
        """Free all that it holds."""


def build_udp_payload(data: bytes, target: Target, role: Role) -> bytes:
    """What UDP carries for an IKE message to that port (RFC 3948, 2.2).

    Raises:
        TransportError: no datagram has room for the message.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise TransportError(f"a message of {len(data):,} bytes fits into no UDP datagram")
    return MARKER + data if target.has_non_esp_marker(role) else data


def classify_datagram(
    target: Target, counts: TransportCounts, received: Received, role: Role, size: int
) -> ReceivedDatagram | None:
    """The target's IKE message that came to our port for `role`; None: it is not one, and is counted (RFC 3948, 2.2 to 2.4).

    `size`: bytes of the IP packets that it came in.
    """
    address, port, payload = received.address, received.port, received.payload
    if port != target.port_of(role) or ip_address(address).packed != target.packed:
        counts.stray += 1
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        counts.stray_from = counts.stray_from or where
        return None
    if target.has_non_esp_marker(role):
        payload = payload[len(MARKER) :] if payload.startswith(MARKER) else b""
    if not payload:
        counts.not_ike += 1
        return None
    counts.received += 1
    return ReceivedDatagram(received.time_ns, payload, role, size)
