"""A capture in the making: packets with their times, from IP packets, datagrams or whole messages."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from . import link, pcapng_file
from .handshake import Message
from .ip import ip_fragments
from .link import ByteOrder
from .packet import MS, SECOND, Packet
from .pcap_file import pcap
from .transport import udp_packet

START_NS = 1_764_000_000 * SECOND


class Trace:
    """Collects packets. Times are nanoseconds after `start_ns`; `frame` makes a frame of an IP packet.

    A packet larger than `mtu` is sent as IP fragments, a microsecond apart. Packets are written in order of
    time, those of one time in the order in which they were added.
    """

    def __init__(
        self,
        *,
        start_ns: int = START_NS,
        frame: Callable[[bytes], bytes] = link.ethernet,
        initiator: str = "192.0.2.1",
        responder: str = "192.0.2.2",
        mtu: int = 1500,
    ) -> None:
        self.start_ns, self.frame, self.mtu = start_ns, frame, mtu
        self.initiator, self.responder = initiator, responder
        self._packets: list[Packet] = []
        self._ident = 0

    @property
    def packets(self) -> list[Packet]:
        """In order of time."""
        return sorted(self._packets, key=lambda packet: packet.time_ns)

    def add(
        self,
        time: int,
        data: bytes,
        *,
        interface: int = 0,
        length: int | None = None,
        comment: str | None = None,
    ) -> Packet:
        """A frame as it is. `length`: on the wire, where the capture holds less."""
        packet = Packet(self.start_ns + time, data, interface, length, comment)
        self._packets.append(packet)
        return packet

    def ip(self, time: int, packet: bytes, *, interface: int = 0, comment: str | None = None) -> list[Packet]:
        """An IP packet, in fragments where it is larger than the MTU."""
        self._ident += 1
        return [
            self.add(time + index * 1000, self.frame(part), interface=interface, comment=comment)
            for index, part in enumerate(ip_fragments(packet, self.mtu, self._ident))
        ]

    def send(
        self,
        time: int,
        payload: bytes,
        *,
        sport: int = 500,
        dport: int = 500,
        source: str | None = None,
        destination: str | None = None,
        from_initiator: bool = True,
        ttl: int = 64,
        interface: int = 0,
    ) -> list[Packet]:
        """A UDP datagram from initiator to responder, or back; or between `source` and `destination`."""
        ends = self.initiator, self.responder
        a, b = ends if from_initiator else ends[::-1]
        packet = udp_packet(payload, sport, dport, source or a, destination or b, ttl=ttl)
        return self.ip(time, packet, interface=interface)

    def message(
        self,
        time: int,
        message: Message,
        *,
        gap: int = 20_000,
        only: Sequence[int] | None = None,
        interface: int = 0,
    ) -> list[Packet]:
        """One transmission of an IKE message, its fragments `gap` apart.

        `only`: numbers, from 1, of the fragments that get here.
        """
        result = []
        for number, data in enumerate(message.datagrams, 1):
            if only is not None and number not in only:
                continue
            result += self.send(
                time + (number - 1) * gap,
                data,
                sport=message.sport,
                dport=message.dport,
                source=message.source,
                destination=message.destination,
                interface=interface,
            )
        return result

    def play(
        self,
        messages: Iterable[Message],
        *,
        at: int = 0,
        rtt: int = 20 * MS,
        think: int = 1 * MS,
        vantage: Literal["initiator", "responder"] = "initiator",
    ) -> int:
        """Messages one after another, as one side sees them: it sends after `think`, the other `rtt` later.

        Returns the time at which the next message could be sent.
        """
        time = at
        for message in messages:
            ours = message.from_initiator == (vantage == "initiator")
            if not ours:
                time += rtt
            self.message(time, message)
            time += think
        return time

    def repeat(self, packets: Iterable[Packet], after: int) -> list[Packet]:
        """The same frames once more, so much later: a retransmission, or a copy that the capture made."""
        again = [replace(packet, time_ns=packet.time_ns + after) for packet in packets]
        self._packets.extend(again)
        return again

    def drop(self, packets: Iterable[Packet]) -> None:
        """Take packets out again: they never reached the capture."""
        gone = {id(packet) for packet in packets}
        self._packets = [packet for packet in self._packets if id(packet) not in gone]

    def truncate(self, snapshot_length: int) -> None:
        """Keep the beginning of each packet, as tcpdump -s does."""
        self._packets = [
            replace(packet, data=packet.data[:snapshot_length], length=packet.wire_length) for packet in self._packets
        ]

    def pcap(
        self,
        *,
        byteorder: ByteOrder = "<",
        nanoseconds: bool = True,
        linktype: int = link.ETHERNET,
        snaplen: int = 262144,
    ) -> bytes:
        """The capture as a pcap file."""
        return pcap(self.packets, byteorder=byteorder, nanoseconds=nanoseconds, linktype=linktype, snaplen=snaplen)

    def pcapng(
        self,
        *,
        byteorder: ByteOrder | Sequence[ByteOrder] = "<",
        interfaces: Sequence[pcapng_file.Interface] = (pcapng_file.Interface(),),
        block: pcapng_file.BlockKind = "EPB",
        comment: str | None = None,
        unknown: bool = False,
        sections: int = 1,
    ) -> bytes:
        """The capture as a pcapng file."""
        return pcapng_file.pcapng(
            self.packets,
            byteorder=byteorder,
            interfaces=interfaces,
            block=block,
            comment=comment,
            unknown=unknown,
            sections=sections,
        )

    def write(self, path: Path) -> Path:
        """As pcap (nanoseconds, Ethernet)."""
        path.write_bytes(self.pcap())
        return path
