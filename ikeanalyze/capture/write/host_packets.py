"""Finds packets that hosts exchange besides IKE messages: segments of IKE over TCP, ESP and NAT keepalives.

The frames table has a row for each frame with a message. A complete copy of a handshake over TCP (RFC 9329) also needs
the segments without one, and the ESP packets of an IKE SA are only counted there.
"""

import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array, read_struct_array
from ikeanalyze.capture.decode.classify import classify_packets
from ikeanalyze.capture.decode.ip import FIRST_IPV6, AddressBook, IpPackets, format_address_code
from ikeanalyze.capture.decode.ip_reassembly import TIMEOUT_NS
from ikeanalyze.capture.decode.packets import IpPacketFinder
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.frames import Progress
from ikeanalyze.capture.protocol_numbers import PORT_IKE_NAT, PROTOCOL_ESP, PROTOCOL_TCP
from ikeanalyze.capture.reader import CaptureReader, open_capture

_UDP_HEADER: Final = 8
_PORTS: Final = np.dtype([("source", ">u2"), ("destination", ">u2")])
_SPI: Final = np.dtype([("spi", ">u4")])

#: Source, destination, identification, protocol (IPv6: -1) and tunnel of an IP-fragmented packet.
_FragmentKey = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class HostPacket:
    """A packet between two hosts, or an IP fragment of one."""

    number: int  # from 1
    time_ns: int
    kind: PacketCategory  # ESP, NAT_KEEPALIVE, or TCP_ENCAPSULATION for any segment of IKE over TCP
    tunnel: str | None
    source: str
    source_port: int | None  # None: ESP as an IP protocol
    destination: str
    destination_port: int | None
    spi: int | None  # of ESP


def find_host_packets(
    path: str, hosts: Collection[str], ports: Collection[int] = (), progress: Progress | None = None
) -> list[HostPacket]:
    """The TCP segments on port 4500, ESP packets and NAT keepalives between any two of these addresses, in file order.

    `ports` are UDP and TCP ports that carry IKE and ESP in addition to 500 and 4500. A later IP fragment belongs to the
    latest packet with its identification, or to the next one, within the time of reassembly.

    Raises:
        CaptureError: the file cannot be opened, or its header is invalid.
    """
    with open_capture(path) as reader:
        finder = _HostPacketFinder(reader, hosts, ports)
        for batch in reader.iterate_batches():
            finder.add(batch)
            if progress is not None:
                progress(reader.source.consumed, reader.source.size)
    return sorted(finder.packets, key=lambda packet: packet.number)


@dataclass(slots=True)
class _Hosts:
    """The address codes of hosts."""

    ipv4: list[int] = field(default_factory=list)
    ipv6: set[bytes] = field(default_factory=set)

    @classmethod
    def parse(cls, hosts: Collection[str]) -> "_Hosts":
        parsed = cls()
        for host in hosts:
            if ":" in host:
                parsed.ipv6.add(socket.inet_pton(socket.AF_INET6, host))
            else:
                parsed.ipv4.append(int.from_bytes(socket.inet_aton(host), "big"))
        return parsed

    def select(self, codes: UInt64Array, book: AddressBook) -> BoolArray:
        """Whether each code is that of a host."""
        ipv6 = [FIRST_IPV6 + index for index, address in enumerate(book.ipv6) if address in self.ipv6]
        return np.isin(codes, np.array([*self.ipv4, *ipv6], np.uint64))


class _HostPacketFinder:
    def __init__(self, reader: CaptureReader, hosts: Collection[str], ports: Collection[int]) -> None:
        self.packets: list[HostPacket] = []
        self._hosts = _Hosts.parse(hosts)
        self._ports = ports
        self._tcp_ports = np.array(sorted({PORT_IKE_NAT, *ports}), np.uint16)
        self._book = AddressBook()
        self._tunnels = TunnelBook()
        self._ip = IpPacketFinder(reader.interfaces, self._book, self._tunnels)
        self._count = 0
        self._first: dict[_FragmentKey, HostPacket] = {}
        self._later: dict[_FragmentKey, list[tuple[int, int]]] = {}  # number and time, without first fragment so far

    def add(self, batch: RecordBatch) -> None:
        packets, depth = self._ip.read(batch), 1
        while packets is not None:
            category, _, _ = classify_packets(batch.buffer, packets, self._ports)
            self._add_packets(batch, packets, category)
            packets = self._ip.enter_tunnels(batch.buffer, packets, category, depth)
            depth += 1
        self._ip.pop_malformed()
        self._count += len(batch)

    def _add_packets(self, batch: RecordBatch, packets: IpPackets, category: UInt8Array) -> None:
        """Add the packets and IP fragments between the hosts. A first fragment decides about the later ones."""
        between = self._hosts.select(packets.source, self._book) & self._hosts.select(packets.destination, self._book)
        later = packets.offset > 0
        ports = read_struct_array(batch.buffer, packets.at, _PORTS)
        on_port = np.isin(ports["source"], self._tcp_ports) | np.isin(ports["destination"], self._tcp_ports)
        tcp = (packets.protocol == PROTOCOL_TCP) & on_port
        kinds = np.where(tcp, PacketCategory.TCP_ENCAPSULATION, category).astype(np.uint8)
        wanted = np.isin(kinds, (PacketCategory.ESP, PacketCategory.NAT_KEEPALIVE, PacketCategory.TCP_ENCAPSULATION))
        wanted &= ~later & (packets.at + 4 <= packets.end)
        chosen = between & (wanted | later | packets.more)
        if not chosen.any():
            return
        packets = packets.select(chosen)
        found = iter(self._read_packets(batch, packets.select(wanted[chosen]), kinds[chosen & wanted]))
        columns = (packets.row, later[chosen], wanted[chosen], packets.more)
        keys = _make_keys(packets)
        for key, (row, is_later, is_wanted, more) in zip(
            keys, zip(*(column.tolist() for column in columns), strict=True), strict=True
        ):
            if is_later:
                self._add_later_fragment(key, self._count + 1 + row, int(batch.time_ns[row]))
                continue
            packet = next(found) if is_wanted else None
            if packet is not None:
                self.packets.append(packet)
            if more:
                self._begin_datagram(key, packet)

    def _read_packets(self, batch: RecordBatch, packets: IpPackets, kinds: UInt8Array) -> Iterator[HostPacket]:
        """The packets, which are not later IP fragments."""
        in_ip = packets.protocol == PROTOCOL_ESP
        header = read_struct_array(batch.buffer, packets.at, _PORTS)
        spi = read_struct_array(batch.buffer, packets.at + np.where(in_ip, 0, _UDP_HEADER), _SPI)["spi"]
        columns: list[npt.NDArray[Any]] = [
            packets.row, kinds, in_ip, packets.source, header["source"], packets.destination, header["destination"],
            spi, packets.tunnel,
        ]  # fmt: skip
        for values in zip(*(column.tolist() for column in columns), strict=True):
            row, kind, bare, source, source_port, destination, destination_port, number, tunnel = values
            yield HostPacket(
                number=self._count + 1 + row,
                time_ns=int(batch.time_ns[row]),
                kind=PacketCategory(kind),
                tunnel=self._tunnels.names[tunnel - 1] if tunnel else None,
                source=format_address_code(source, self._book.ipv6),
                source_port=None if bare else source_port,
                destination=format_address_code(destination, self._book.ipv6),
                destination_port=None if bare else destination_port,
                spi=number if kind == PacketCategory.ESP else None,
            )

    def _begin_datagram(self, key: _FragmentKey, packet: HostPacket | None) -> None:
        """Add the fragments that came before the first one, `packet`; None: it is of a datagram that is not wanted."""
        earlier = self._later.pop(key, ())
        if packet is None:
            self._first.pop(key, None)
            return
        self._first[key] = packet
        for number, time_ns in earlier:
            if packet.time_ns - time_ns <= TIMEOUT_NS:
                self._add_fragment(packet, number, time_ns)

    def _add_later_fragment(self, key: _FragmentKey, number: int, time_ns: int) -> None:
        first = self._first.get(key)
        if first is not None and time_ns - first.time_ns <= TIMEOUT_NS:
            self._add_fragment(first, number, time_ns)
            return
        waiting = self._later.setdefault(key, [])
        if waiting and time_ns - waiting[-1][1] > TIMEOUT_NS:
            waiting.clear()  # of an earlier datagram, whose first fragment is not in the capture
        waiting.append((number, time_ns))

    def _add_fragment(self, first: HostPacket, number: int, time_ns: int) -> None:
        self.packets.append(replace(first, number=number, time_ns=time_ns))


def _make_keys(packets: IpPackets) -> list[_FragmentKey]:
    protocol: Int64Array = np.where(packets.source < FIRST_IPV6, packets.protocol.astype(np.int64), -1)
    columns = (packets.source, packets.destination, packets.ident, protocol, packets.tunnel)
    return list(zip(*(column.tolist() for column in columns), strict=True))
