"""Raw IP as transport: scapy builds, sends and receives IP packets. Needs CAP_NET_RAW.

Both UDP ports are also bound, because the kernel would otherwise answer the target's datagrams with ICMP errors. Their
sockets report the ICMP errors that we receive.

The target's IP fragments are reassembled (RFC 791, section 3.2; RFC 8200, section 4.5) within limits for memory and
work. Overlapping fragments discard the datagram (RFC 5722).
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
    PacketRecorder,
    PreparedDatagram,
    ReceivedDatagram,
    ReceivedPayload,
    TransportCounts,
    Way,
    build_udp_payload,
    classify_datagram,
)
from ikeanalyze.replay.transport.ports import UdpPorts
from ikeanalyze.replay.transport.target import Role, Target

#: Limits for incomplete datagrams, and for the fragments of each.
MAX_WAITING: Final = 16
MAX_FRAGMENTS: Final = 64
_MAX_DATAGRAM_BYTES: Final = 65_535


@dataclass(slots=True)
class _IncompleteDatagram:
    parts: dict[int, bytes] = field(default_factory=dict)  # by offset
    received_bytes: int = 0
    frame_bytes: int = 0  # bytes of the IP packets
    size: int | None = None  # bytes of the datagram; None: the last fragment is missing


@dataclass(frozen=True, slots=True)
class ReassembledDatagram:
    """A reassembled datagram."""

    data: bytes = field(repr=False)  # UDP header and payload
    size: int  # bytes of its IP packets


class FragmentReassembler:
    """Reassembles datagrams from scapy packets in any order."""

    def __init__(self) -> None:
        self._incomplete: dict[tuple[Any, ...], _IncompleteDatagram] = {}

    def add_fragment(self, packet: Any, size: int) -> ReassembledDatagram | None:
        """Add a fragment, an IP packet of `size` bytes; return the datagram that it completes, or None."""
        key, offset, last, data = _parse_fragment_fields(packet)
        datagram = self._incomplete.pop(key, None) or _IncompleteDatagram()
        end = offset + len(data)
        invalid = not data or end > _MAX_DATAGRAM_BYTES or len(datagram.parts) >= MAX_FRAGMENTS
        if invalid or any(at < end and offset < at + len(part) for at, part in datagram.parts.items()):
            return None  # discards the datagram
        datagram.parts[offset] = data
        datagram.received_bytes += len(data)
        datagram.frame_bytes += size
        if last:
            datagram.size = end
        if datagram.received_bytes == datagram.size:
            data = b"".join(part for _, part in sorted(datagram.parts.items()))
            return ReassembledDatagram(data, datagram.frame_bytes)
        while len(self._incomplete) >= MAX_WAITING:
            del self._incomplete[next(iter(self._incomplete))]
        self._incomplete[key] = datagram
        return None


def _parse_fragment_fields(packet: Any) -> tuple[tuple[Any, ...], int, bool, bytes]:
    """Return datagram key, offset, whether it is the last fragment, and data."""
    if isinstance(packet, IPv6):
        header = packet[IPv6ExtHdrFragment]
        # extension headers before it do not belong to the datagram
        size = packet.plen - (len(packet.payload) - len(header))
        data = bytes(header)[8 : max(size, 8)]
        return (packet.src, packet.dst, header.id), header.offset * 8, not header.m, data
    data = bytes(packet.payload)[: max(packet.len - packet.ihl * 4, 0)]
    return (packet.src, packet.dst, packet.proto, packet.id), packet.frag * 8, not packet.flags.MF, data


# irrelevant warnings, such as a host without IPv4 address
logging.getLogger("scapy").setLevel(logging.CRITICAL)


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
_MAX_OWN_FRAGMENTS: Final = 128


class RawIpTransport:
    """A transport to one target over a raw socket."""

    way: Way = "layer 3"

    def __init__(self, target: Target, record: PacketRecorder) -> None:
        """Bind the ports and open the raw socket.

        Raises:
            PermissionError: raw sockets are not allowed.
            TransportError: the target is not reachable.
        """
        self._target, self._record = target, record
        self._is_ipv6 = target.family == socket.AF_INET6
        self._ports = UdpPorts(target)
        self.local: LocalEndpoint = self._ports.local
        self.counts = TransportCounts()
        self._local_address, self._target_address = (
            text.partition("%")[0] for text in (self.local.address, target.address)
        )
        self._identification = random.randrange(1 << 16)
        self._reassembly = FragmentReassembler()
        #: Our own fragments, which the loopback interface returns.
        self._own_fragments: deque[bytes] = deque(maxlen=_MAX_OWN_FRAGMENTS)
        remote_address = self._ports.get_remote_address(500)
        self._destination = (remote_address[0], 0, *remote_address[2:])  # without port
        try:
            self._mtu = self._get_path_mtu()
            self._raw = self._open_socket()
        except BaseException:
            self._ports.close()
            raise
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._raw.ins, selectors.EVENT_READ, None)
        for role, sock in self._ports.sockets.items():
            self._selector.register(sock, selectors.EVENT_READ, role)
        self._make_packets(500, b"")  # warm up scapy: its first packet takes milliseconds

    def prepare(self, data: bytes, role: Role) -> tuple[PreparedDatagram, int]:
        """Build and record a datagram."""
        payload = build_udp_payload(data, self._target, role)
        packets = self._make_packets(role, payload)
        if len(packets) > 1 and self._local_address == self._target_address:
            self._own_fragments.extend(packets)
        now = time.time_ns()
        for packet in packets:
            self._record(now, packet)
        return PreparedDatagram(role, sum(map(len, packets)), payload, packets), now

    def send(self, prepared: PreparedDatagram) -> None:
        """Send a datagram."""
        for packet in prepared.packets:
            try:
                # scapy's `send` hides errors
                self._raw.outs.sendto(packet, self._destination)
            except OSError as error:
                self._ports.count_error(prepared.role, error, self.counts)
                return
        self.counts.sent += 1

    def receive(self, seconds: float) -> ReceivedDatagram | None:
        """Return the next datagram of the target."""
        datagram = None
        for key, _ in self._selector.select(max(seconds, 0)):
            if key.data is None:
                datagram = self._receive_packet()
            else:
                # already captured: read to empty the buffer and to get errors
                self._ports.receive(key.data, self.counts)
        return datagram

    def close(self) -> None:
        """Close the sockets."""
        self._selector.close()
        self._raw.close()
        self._ports.close()

    def _make_packets(self, role: Role, payload: bytes) -> tuple[bytes, ...]:
        """Return the IP packet of a datagram, or its fragments if it exceeds the path MTU."""
        # the kernel replaces 0
        self._identification = self._identification % 0xFFFF + 1
        udp = UDP(sport=self.local.port_of(role), dport=self._target.port_of(role)) / payload
        addresses: Any = {"src": self._local_address, "dst": self._target_address}
        whole: Any = IPv6(**addresses) / udp if self._is_ipv6 else IP(**addresses, id=self._identification) / udp
        if len(whole) <= self._mtu:
            return (bytes(whole),)
        fragment_any: Any = fragment6 if self._is_ipv6 else fragment
        parts = fragment_any(whole, self._mtu if self._is_ipv6 else self._mtu - _IPV4_HEADER)
        return tuple(bytes(part) for part in parts)

    def _receive_packet(self) -> ReceivedDatagram | None:
        try:
            packet = self._raw.recv()
        except OSError as error:
            self._ports.count_error(500, error, self.counts)
            return None
        if packet is None or not isinstance(packet, IPv6 if self._is_ipv6 else IP) or packet.dst != self._local_address:
            return None
        udp = packet.getlayer(UDP)
        is_fragment = _is_fragment(packet)
        if not is_fragment and (udp is None or self._get_role(udp.dport) is None):
            return None
        time_ns = int(packet.time * 1_000_000_000)
        frame = bytes(packet)[: packet.plen + 40 if self._is_ipv6 else packet.len]
        if is_fragment and frame in self._own_fragments:
            return None
        if packet.src == self._target_address:
            self._record(time_ns, frame)
        size = len(frame)
        if is_fragment:
            whole = self._reassembly.add_fragment(packet, size)
            udp = UDP(whole.data) if whole is not None and len(whole.data) >= _UDP_HEADER else None
            size = whole.size if whole is not None else 0
        role = None if udp is None else self._get_role(udp.dport)
        if udp is None or role is None:
            return None
        payload = bytes(udp.payload)[: max(udp.len - _UDP_HEADER, 0)]
        received = ReceivedPayload(time_ns, payload, packet.src, udp.sport)
        return classify_datagram(self._target, self.counts, received, role, size)

    def _get_role(self, port: int) -> Role | None:
        if port == self.local.port:
            return 500
        return 4500 if port == self.local.nat_port else None

    def _open_socket(self) -> Any:
        """Open the raw socket on the interface to the target."""
        conf.ifaces.reload()  # scapy's tables are those of its import
        conf.route.resync()
        conf.route6.resync()
        if self._local_address == self._target_address:
            interface = conf.loopback_name
        elif self._is_ipv6:
            interface = self._target.address.partition("%")[2] or conf.route6.route(self._target_address)[0]
        else:
            interface = conf.route.route(self._target_address)[0]
        kind = _ETH_P_IPV6 if self._is_ipv6 else _ETH_P_IP
        sock: Any = (L3RawSocket6 if self._is_ipv6 else L3RawSocket)(type=kind, iface=interface)
        try:
            sock.ins.bind((str(interface), kind))
            sock.ins.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
            sock.ins.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            sock.auxdata_available = True
            self._attach_filter(sock, str(interface))
        except BaseException:
            sock.close()
            raise
        return sock

    def _attach_filter(self, sock: Any, interface: str) -> None:
        """Filter packets in the kernel, if libpcap is available."""
        is_fragment = "ip6[6] == 44" if self._is_ipv6 else "ip[6:2] & 0x1fff != 0"
        ports = f"udp dst port {self.local.port} or udp dst port {self.local.nat_port}"
        with suppress(ImportError, OSError, Scapy_Exception):  # optional: `receive` filters too
            attach_filter(sock.ins, f"dst host {self._local_address} and ({ports} or {is_fragment})", interface)

    def _get_path_mtu(self) -> int:
        level, option = (socket.IPPROTO_IPV6, _IPV6_MTU) if self._is_ipv6 else (socket.IPPROTO_IP, _IP_MTU)
        with socket.socket(self._target.family, socket.SOCK_DGRAM) as probe:
            probe.connect(self._ports.get_remote_address(500))
            return probe.getsockopt(level, option)


def _is_fragment(packet: Any) -> bool:
    """Whether the packet is a fragment of a UDP datagram."""
    if isinstance(packet, IPv6):
        header = packet.getlayer(IPv6ExtHdrFragment)
        return header is not None and header.nh == _UDP
    return bool(packet.frag or packet.flags.MF) and packet.proto == _UDP
