"""ESP packets of a capture in columns: who sent them, SPI, sequence number, time and sizes.

`frames` counts ESP and keeps none of it, so this is a way of its own over the same steps, for who asks about ESP alone. It
goes through the file once in memory that does not grow: packets are handed on in blocks. RFC 4303, section 2; in UDP RFC 3948.
"""

import builtins
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import Int64Array, UInt8Array, read_struct_array
from ikeanalyze.capture.decode.classify import Encapsulation, classify_packets
from ikeanalyze.capture.decode.ip import (
    AddressBook,
    IpPacketFinder,
    IpPackets,
    build_reassembled_packets,
    extract_fragments,
)
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpReassembler
from ikeanalyze.capture.decode.link import get_link_type_name
from ikeanalyze.capture.formats.records import Interface, RecordBatch
from ikeanalyze.capture.frames import Progress
from ikeanalyze.capture.protocol_numbers import ESP_HEADER_BYTES, PORT_IKE_NAT, PROTOCOL_ESP, PROTOCOL_TCP
from ikeanalyze.capture.reader import open_capture

#: Packets of a block, about.
_BLOCK: Final = 1 << 18
#: More SAs than this are not distinguished: a capture of noise on port 4500 has one for each packet.
MAX_ESP_SAS: Final = 50_000
_UDP_HEADER: Final = 8

_HEADER: Final = np.dtype([("spi", ">u4"), ("sequence", ">u4")])
_PORTS: Final = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2")])

#: Columns of a block, each with one value for a packet.
LAYOUT: Final[dict[str, type[np.generic]]] = {
    "time_ns": np.int64,  # since 1970-01-01 UTC; of an IP-fragmented packet that of its first fragment to arrive
    "source": np.uint64,  # AddressBook codes
    "destination": np.uint64,
    "encapsulation": np.uint8,  # `datagrams.Encapsulation`
    "spi": np.uint32,
    "sequence": np.uint32,  # the lower half, where extended sequence numbers are in use
    "frames": np.uint32,  # 1, or the IP fragments
    "bytes": np.int64,  # of these frames, link header included
    "esp_bytes": np.int64,  # from the SPI to the end of the ICV; 0: not known, a fragment is missing
}

Block = dict[str, npt.NDArray[np.generic]]

#: Takes a packet: source and destination (AddressBook codes) and SPI, its bytes from the SPI on (None: it is cut), and the IPv6
#: addresses of the AddressBook so far.
TakePacket = Callable[[tuple[int, int, int], bytes | None, Sequence[bytes]], None]


@dataclass(frozen=True, slots=True)
class EspPacketFilter:
    """Packets whose bytes are handed on, one by one."""

    spis: Collection[int] | None  # None: all
    take: TakePacket


@dataclass(slots=True)
class EspCapture:
    """What a capture holds beside the packets that were handed on."""

    packets: int = 0  # of the capture, whatever they are
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    esp_packets: int = 0  # handed on
    cut: int = 0  # frames: ESP, but its header is cut off
    #: Frames: IP fragments of protocol ESP whose first fragment is not in the capture, or that a link doubled behind the whole.
    lost_fragments: int = 0
    in_tcp: int = 0  # frames: on TCP port 4500, with or without ESP; streams are not followed here
    addresses: list[builtins.bytes] = field(default_factory=list)  # IPv6 addresses of the AddressBook codes
    warnings: list[str] = field(default_factory=list)


def read_esp(
    path: str,
    take: Callable[[Block], None],
    ports: Collection[int] = (),
    progress: Progress | None = None,
    wanted: EspPacketFilter | None = None,
) -> EspCapture:
    """Read a capture file, or standard input for "-", and hand on its ESP packets in blocks, in the order of the file.

    `ports` are UDP ports that carry IKE and ESP besides 500 and 4500. What is `wanted` is handed on
    as bytes too.

    Raises:
        CaptureError: nothing of it can be read. Damage further on is a warning.
    """
    with open_capture(path) as reader:
        collector = _Collector(take, ports, reader.interfaces, wanted)
        for batch in reader.iterate_batches():
            collector.add(batch)
            if progress is not None:
                progress(reader.source.consumed, reader.source.size)
        found = collector.finish()
        if reader.damage is not None:
            found.warnings.append(f"damaged at byte {reader.damage.offset}: {reader.damage.what}; read up to there")
        return found


class _Collector:
    """Batches in, blocks of ESP packets out."""

    def __init__(
        self,
        take: Callable[[Block], None],
        ports: Collection[int],
        interfaces: Sequence[Interface],
        wanted: EspPacketFilter | None,
    ) -> None:
        self._take = take
        self._ports = ports
        self._book = AddressBook()
        self._ip = IpPacketFinder(interfaces, self._book)
        self._wanted = wanted
        self._spis = np.array(sorted(wanted.spis or ()) if wanted else [], np.uint32)
        self._reassembler = IpReassembler()
        self._parts: list[Block] = []
        self._waiting = 0  # packets in them
        self._found = EspCapture()

    def add(self, batch: RecordBatch) -> None:
        """Take a batch of packets."""
        found = self._found
        low, high = int(batch.time_ns.min()), int(batch.time_ns.max())
        found.first_ns = low if found.first_ns is None else min(found.first_ns, low)
        found.last_ns = high if found.last_ns is None else max(found.last_ns, high)
        packets, _ = self._ip.read(batch)
        if packets is not None:
            whole = packets.fragmented
            if whole.any():
                self._fragments(batch, packets.select(whole))
                packets = packets.select(~whole)
            esp = self._esp(batch.buffer, packets)
            row = packets.row[esp["packet"]]
            self._append(
                {
                    "time_ns": batch.time_ns[row],
                    "frames": np.ones(len(row), np.uint32),
                    "bytes": batch.length[row],
                    **esp,
                }
            )
        found.packets += len(batch)
        found.bytes += int(batch.length.sum())

    def finish(self) -> EspCapture:
        """The end of the capture: hand on what is left."""
        self._datagrams(list(self._reassembler.finish()))
        self._flush()
        self._found.addresses = self._book.ipv6
        self._found.warnings.extend(
            f"link type {get_link_type_name(kind)} is not decoded: its {number} packets are not looked into"
            for kind, number in sorted(self._ip.foreign_links.items())
        )
        return self._found

    def _esp(self, buffer: UInt8Array, packets: IpPackets) -> Block:
        """Columns of the ESP packets among these, and which they are (`packet`)."""
        category, _, _ = classify_packets(buffer, packets, self._ports)
        self._count_tcp(buffer, packets)
        index = np.flatnonzero(category == PacketCategory.ESP)
        in_udp = packets.protocol[index] != PROTOCOL_ESP
        at, wire_end = packets.at[index], packets.wire_end[index]
        udp = read_struct_array(buffer, at, _PORTS)
        length = udp["length"].astype(np.int64)
        wire_end = np.where(in_udp & (length != 0), np.minimum(at + length, wire_end), wire_end)
        at = at + np.where(in_udp, _UDP_HEADER, 0)
        there = at + ESP_HEADER_BYTES <= packets.end[index]
        self._found.cut += int((~there).sum())
        on_4500 = (udp["source"] == PORT_IKE_NAT) | (udp["destination"] == PORT_IKE_NAT)
        encapsulation = np.where(on_4500, Encapsulation.UDP_4500, Encapsulation.UDP)
        header = read_struct_array(buffer, at, _HEADER)
        if self._wanted is not None:
            chosen = there if self._wanted.spis is None else there & np.isin(header["spi"], self._spis)
            self._hand_on(self._wanted, buffer, packets.select(index[chosen]), at[chosen], wire_end[chosen])
        columns: Block = {
            "packet": index,
            "source": packets.source[index],
            "destination": packets.destination[index],
            "encapsulation": np.where(in_udp, encapsulation, Encapsulation.IP).astype(np.uint8),
            "spi": header["spi"].astype(np.uint32),
            "sequence": header["sequence"].astype(np.uint32),
            "esp_bytes": wire_end - at,
        }
        return {name: column[there] for name, column in columns.items()}

    def _hand_on(
        self, wanted: EspPacketFilter, buffer: UInt8Array, packets: IpPackets, at: Int64Array, end: Int64Array
    ) -> None:
        """Give the bytes of packets."""
        view = buffer.data
        spis = read_struct_array(buffer, at, _HEADER)["spi"].tolist()
        whole = (end <= packets.end).tolist()
        ends = zip(packets.source.tolist(), packets.destination.tolist(), spis, strict=True)
        for sa, is_whole, first, stop in zip(ends, whole, at.tolist(), end.tolist(), strict=True):
            wanted.take(sa, bytes(view[first:stop]) if is_whole else None, self._book.ipv6)

    def _count_tcp(self, buffer: UInt8Array, packets: IpPackets) -> None:
        tcp = packets.select((packets.protocol == PROTOCOL_TCP) & (packets.at + 4 <= packets.end))
        if len(tcp):
            ports = read_struct_array(buffer, tcp.at, _PORTS)
            ours = (ports["source"] == PORT_IKE_NAT) | (ports["destination"] == PORT_IKE_NAT)
            self._found.in_tcp += int(ours.sum())

    def _fragments(self, batch: RecordBatch, packets: IpPackets) -> None:
        """Hand IP fragments to the reassembler, and take the datagrams that are settled by them."""
        settled: list[FragmentedPacket] = []
        for fragment in extract_fragments(batch, packets, self._found.packets + 1):
            settled.extend(self._reassembler.add(*fragment))
        self._datagrams(settled)

    def _datagrams(self, settled: list[FragmentedPacket]) -> None:
        """Take ESP packets that came in IP fragments; of a second sighting by the capture nothing counts."""
        fresh = [datagram for datagram in settled if datagram.repeats is None and datagram.has_first]
        self._found.lost_fragments += sum(
            not part.repeated
            for datagram in settled
            if (datagram.repeats is not None or not datagram.has_first) and datagram.protocol == PROTOCOL_ESP
            for part in datagram.fragments
        )
        if not fresh:
            return
        buffer, packets, cut = build_reassembled_packets(fresh)
        esp = self._esp(buffer, packets.select(~cut))
        esp["packet"] = np.flatnonzero(~cut)[esp["packet"]]
        owners = [fresh[i] for i in esp["packet"].tolist()]
        complete = np.array([datagram.complete for datagram in owners], np.bool_)
        sent = [[part for part in datagram.fragments if not part.repeated] for datagram in owners]
        self._append(
            {
                **esp,
                "time_ns": np.array([datagram.fragments[0].time_ns for datagram in owners], np.int64),
                "frames": np.array([len(parts) for parts in sent], np.uint32),
                "bytes": np.array([sum(part.length for part in parts) for parts in sent], np.int64),
                "esp_bytes": np.where(complete, esp["esp_bytes"], 0),
            }
        )

    def _append(self, columns: Block) -> None:
        count = len(columns["spi"])
        if not count:
            return
        self._found.esp_packets += count
        self._parts.append({name: columns[name].astype(dtype, copy=False) for name, dtype in LAYOUT.items()})
        self._waiting += count
        if self._waiting >= _BLOCK:
            self._flush()

    def _flush(self) -> None:
        if self._parts:
            self._take({name: np.concatenate([part[name] for part in self._parts]) for name in LAYOUT})
            self._parts, self._waiting = [], 0


__all__ = ["LAYOUT", "MAX_ESP_SAS", "Block", "EspCapture", "EspPacketFilter", "read_esp"]
