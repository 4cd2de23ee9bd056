"""Layer 3 as the way to the wire: scapy builds, sends and receives IP packets. Needs CAP_NET_RAW.

The two UDP ports are bound beside it, by sockets that read nothing: the kernel would else answer what the target sends
to a port that nobody owns with ICMP errors. They also tell of the ICMP errors that come to us.

IP fragments of the target's to whole datagrams (RFC 791, 3.2; RFC 8200, 4.5), bounded in memory and work.

A datagram is put together when all of it is there, each byte once. Fragments that overlap make it worthless (RFC 5722).
"""

import logging
import random
import selectors
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from scapy.arch.linux import attach_filter
from scapy.config import conf
from scapy.error import Scapy_Exception
from scapy.layers.inet import IP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.supersocket import L3RawSocket, L3RawSocket6

from ikeanalyze.replay.transport.interface import (
    LocalEndpoint,
    PreparedDatagram,
    Received,
    ReceivedDatagram,
    Record,
    TransportCounts,
    Way,
    build_udp_payload,
    classify_datagram,
)
from ikeanalyze.replay.transport.ports import UdpPorts
from ikeanalyze.replay.transport.target import Role, Target

#: Datagrams that may wait for fragments, and fragments that one may have.
MAX_WAITING: Final = 16
MAX_FRAGMENTS: Final = 64
_LONGEST: Final = 65_535


@dataclass(slots=True)
class _Waiting:
    parts: dict[int, bytes] = field(default_factory=dict)  # by offset
    held: int = 0  # bytes
    frames: int = 0  # bytes of the IP packets
    size: int | None = None  # bytes of the whole; None: the last fragment is not there


@dataclass(frozen=True, slots=True)
class ReassembledDatagram:
    """A datagram that was put together."""

    data: bytes = field(repr=False)  # what IP carried: UDP header and payload
    size: int  # bytes of the IP packets that it came in


class FragmentReassembler:
    """Takes fragments as scapy packets in whatever order."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[Any, ...], _Waiting] = {}

    def take(self, packet: Any, size: int) -> ReassembledDatagram | None:
        """The datagram that this fragment, an IP packet of so many bytes, completes; None: it completes none."""
        key, offset, last, data = _read(packet)
        waiting = self._waiting.pop(key, None) or _Waiting()
        end = offset + len(data)
        wrong = not data or end > _LONGEST or len(waiting.parts) >= MAX_FRAGMENTS
        if wrong or any(at < end and offset < at + len(part) for at, part in waiting.parts.items()):
            return None  # with it goes all that was there
        waiting.parts[offset] = data
        waiting.held += len(data)
        waiting.frames += size
        if last:
            waiting.size = end
        if waiting.held == waiting.size:
            return ReassembledDatagram(b"".join(part for _, part in sorted(waiting.parts.items())), waiting.frames)
        while len(self._waiting) >= MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]
        self._waiting[key] = waiting
        return None


def _read(packet: Any) -> tuple[tuple[Any, ...], int, bool, bytes]:
    """Which datagram a fragment belongs to, where in it, whether it is its end, and its bytes."""
    # here, because scapy is optional, and slow to import
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment

    if isinstance(packet, IPv6):
        header = packet[IPv6ExtHdrFragment]
        # extension headers before it are of the packet, not of the datagram
        size = packet.plen - (len(packet.payload) - len(header))
        data = bytes(header)[8 : max(size, 8)]
        return (packet.src, packet.dst, header.id), header.offset * 8, not header.m, data
    data = bytes(packet.payload)[: max(packet.len - packet.ihl * 4, 0)]
    return (packet.src, packet.dst, packet.proto, packet.id), packet.frag * 8, not packet.flags.MF, data


# it says on standard error what concerns nobody here: that a host has no IPv4 address, and the like
logging.getLogger("scapy").setLevel(logging.CRITICAL)


_fragment: Any = fragment
_fragment6: Any = fragment6

_ETH_P_IP: Final = 0x0800
_ETH_P_IPV6: Final = 0x86DD
#: Linux: <linux/in.h>, <linux/in6.h>.
_IP_MTU: Final = 14
_IPV6_MTU: Final = 24
_SO_TIMESTAMPNS: Final = 35
_BUFFER: Final = 4 << 20
_IPV4_HEADER: Final = 20
_UDP: Final = 17
_UDP_HEADER: Final = 8
_REMEMBERED: Final = 128


class RawIpTransport:
    """A way to one target over a raw socket of scapy's."""

    way: Way = "layer 3"

    def __init__(self, target: Target, record: Record) -> None:
        """Bind and open.

        Raises:
            PermissionError: raw sockets are not allowed here.
            TransportError: there is no way to the target.
        """
        self._target, self._record = target, record
        self._six = target.family == socket.AF_INET6
        self._ports = UdpPorts(target)
        self.local: LocalEndpoint = self._ports.local
        self.counts = TransportCounts()
        self._ours, self._theirs = (text.partition("%")[0] for text in (self.local.address, target.address))
        self._identification = random.randrange(1 << 16)
        self._reassembly = FragmentReassembler()
        #: Fragments of ours that come back: on the loopback interface nothing else tells them from the target's.
        self._own: deque[bytes] = deque(maxlen=_REMEMBERED)
        where = self._ports.remote(500)
        self._destination = (where[0], 0, *where[2:])  # a raw socket has no ports
        try:
            self._mtu = self._path_mtu()
            self._raw = self._opened()
        except BaseException:
            self._ports.close()
            raise
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._raw.ins, selectors.EVENT_READ, None)
        for role, opened in self._ports.sockets.items():
            self._selector.register(opened, selectors.EVENT_READ, role)
        self._packets(500, b"")  # scapy's first packet takes milliseconds

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Make an IKE message ready and record it as sent now."""
        payload = build_udp_payload(data, self._target, role)
        packets = self._packets(role, payload)
        if len(packets) > 1 and self._ours == self._theirs:
            self._own.extend(packets)
        now = time.time_ns()
        for packet in packets:
            self._record(now, packet)
        return PreparedDatagram(role, sum(map(len, packets)), payload, packets), now

    def send(self, packed: PreparedDatagram) -> None:
        """Put it on the wire."""
        for packet in packed.packets:
            try:
                # scapy's own `send` keeps errors to itself
                self._raw.outs.sendto(packet, self._destination)
            except OSError as error:
                self._ports.note(packed.role, error, self.counts)
                return
        self.counts.sent += 1

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """The next datagram of the target."""
        datagram = None
        for key, _ in self._selector.select(max(seconds, 0)):
            if key.data is None:
                datagram = self._sniffed()
            else:
                # what is read here was sniffed as well: it makes room, and tells of errors
                self._ports.receive(key.data, self.counts)
        return datagram

    def close(self) -> None:
        """Free the sockets."""
        self._selector.close()
        self._raw.close()
        self._ports.close()

    def _packets(self, role: Role, payload: bytes) -> tuple[bytes, ...]:
        """The IP packet of a datagram, in fragments if the path takes no more."""
        # with 0 the kernel would take a number of its own
        self._identification = self._identification % 0xFFFF + 1
        udp = UDP(sport=self.local.port_of(role), dport=self._target.port_of(role)) / payload
        ends: Any = {"src": self._ours, "dst": self._theirs}
        whole: Any = IPv6(**ends) / udp if self._six else IP(**ends, id=self._identification) / udp
        parts = [whole]
        if len(whole) > self._mtu:
            parts = _fragment6(whole, self._mtu) if self._six else _fragment(whole, self._mtu - _IPV4_HEADER)
        return tuple(bytes(part) for part in parts)

    def _sniffed(self) -> ReceivedDatagram | None:
        try:
            packet = self._raw.recv()
        except OSError as error:
            self._ports.note(500, error, self.counts)
            return None
        if packet is None or not isinstance(packet, IPv6 if self._six else IP) or packet.dst != self._ours:
            return None
        udp = packet.getlayer(UDP)
        cut = _is_fragment(packet)
        if not cut and (udp is None or self._role(udp.dport) is None):
            return None
        time_ns = int(packet.time * 1_000_000_000)
        frame = bytes(packet)[: packet.plen + 40 if self._six else packet.len]
        if cut and frame in self._own:
            return None
        if packet.src == self._theirs:
            self._record(time_ns, frame)
        size = len(frame)
        if cut:
            whole = self._reassembly.take(packet, size)
            udp = UDP(whole.data) if whole is not None and len(whole.data) >= _UDP_HEADER else None
            size = whole.size if whole is not None else 0
        role = None if udp is None else self._role(udp.dport)
        if udp is None or role is None:
            return None
        payload = bytes(udp.payload)[: max(udp.len - _UDP_HEADER, 0)]
        return classify_datagram(
            self._target, self.counts, Received(time_ns, payload, packet.src, udp.sport), role, size
        )

    def _role(self, port: int) -> Role | None:
        if port == self.local.port:
            return 500
        return 4500 if port == self.local.nat_port else None

    def _opened(self) -> Any:
        """The raw socket, listening on the interface that leads to the target."""
        conf.ifaces.reload()  # what scapy knows of the machine is as old as its import
        conf.route.resync()
        conf.route6.resync()
        if self._ours == self._theirs:
            interface = conf.loopback_name
        elif self._six:
            interface = self._target.address.partition("%")[2] or conf.route6.route(self._theirs)[0]
        else:
            interface = conf.route.route(self._theirs)[0]
        kind = _ETH_P_IPV6 if self._six else _ETH_P_IP
        opened: Any = (L3RawSocket6 if self._six else L3RawSocket)(type=kind, iface=interface)
        try:
            opened.ins.bind((str(interface), kind))
            opened.ins.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            opened.ins.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            opened.auxdata_available = True
            self._narrow(opened, str(interface))
        except BaseException:
            opened.close()
            raise
        return opened

    def _narrow(self, opened: Any, interface: str) -> None:
        """Let the kernel sort out what is not for us, where libpcap is there to tell it how."""
        cut = "ip6[6] == 44" if self._six else "ip[6:2] & 0x1fff != 0"
        ports = f"udp dst port {self.local.port} or udp dst port {self.local.nat_port}"
        with suppress(ImportError, OSError, Scapy_Exception):  # without it we look at every packet ourselves
            attach_filter(opened.ins, f"dst host {self._ours} and ({ports} or {cut})", interface)

    def _path_mtu(self) -> int:
        level, option = (socket.IPPROTO_IPV6, _IPV6_MTU) if self._six else (socket.IPPROTO_IP, _IP_MTU)
        with socket.socket(self._target.family, socket.SOCK_DGRAM) as probe:
            probe.connect(self._ports.remote(500))
            return probe.getsockopt(level, option)


def _is_fragment(packet: Any) -> bool:
    """A fragment of a UDP datagram."""
    if isinstance(packet, IPv6):
        header = packet.getlayer(IPv6ExtHdrFragment)
        return header is not None and header.nh == _UDP
    return bool(packet.frag or packet.flags.MF) and packet.proto == _UDP
