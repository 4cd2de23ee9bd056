"""Reads the ESP packets of a capture as columns: addresses, SPI, sequence number, time and sizes.

`frames` only counts ESP packets. This module passes them on in blocks, so memory does not grow with the capture.
RFC 4303, section 2; ESP in UDP: RFC 3948.
"""

import builtins
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array, UInt64Array, read_struct_array
from ikeanalyze.capture.decode.classify import Encapsulation, classify_packets
from ikeanalyze.capture.decode.ip import (
    CAPTURE_BIT,
    AddressBook,
    IpPackets,
    build_reassembled_packets,
    extract_fragments,
)
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, IpReassembler, Key, sort_fragments
from ikeanalyze.capture.decode.link import get_link_type_name
from ikeanalyze.capture.decode.packets import IpPacketFinder
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.formats.records import Interface, RecordBatch
from ikeanalyze.capture.frames import Progress
from ikeanalyze.capture.protocol_numbers import ESP_HEADER_BYTES, PORT_IKE_NAT, PROTOCOL_ESP, PROTOCOL_TCP
from ikeanalyze.capture.reader import open_capture

#: Approximate number of packets in a block.
_BLOCK_PACKETS: Final = 1 << 18
#: Further SAs are not distinguished: random data on port 4500 has an SA for each packet.
MAX_ESP_SAS: Final = 50_000
_UDP_HEADER: Final = 8

_HEADER: Final = np.dtype([("spi", ">u4"), ("sequence", ">u4")])
_PORTS: Final = np.dtype([("source", ">u2"), ("destination", ">u2"), ("length", ">u2")])

#: Columns of a block, with a value for each packet.
LAYOUT: Final[dict[str, type[np.generic]]] = {
    "time_ns": np.int64,  # since 1970-01-01 UTC; of an IP-fragmented packet: of the fragment that arrived first
    "source": np.uint64,  # AddressBook codes, with the number of the tunnel in the bits from CAPTURE_BIT on
    "destination": np.uint64,
    "encapsulation": np.uint8,  # `classify.Encapsulation`
    "spi": np.uint32,
    "sequence": np.uint32,  # lower half of an extended sequence number
    "frames": np.uint32,  # 1, or the number of IP fragments
    "bytes": np.int64,  # of these frames, link header included
    "esp_bytes": np.int64,  # from the SPI to the end of the ICV; 0: unknown because a fragment is missing
}

Block = dict[str, npt.NDArray[np.generic]]

#: Called with source and destination (AddressBook codes) and SPI of a packet, its bytes from the SPI on (None:
#: truncated), and the IPv6 addresses of the AddressBook.
TakePacket = Callable[[tuple[int, int, int], bytes | None, Sequence[bytes]], None]


@dataclass(frozen=True, slots=True)
class EspPacketFilter:
    """Selects packets whose bytes are passed to `take`, one by one."""

    spis: Collection[int] | None  # None: all
    take: TakePacket


@dataclass(slots=True)
class EspCapture:
    """Totals of a capture, without the ESP packets themselves."""

    packets: int = 0  # of any protocol
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    esp_packets: int = 0  # passed on
    cut: int = 0  # frames whose ESP header is truncated
    #: Frames: IP fragments of ESP without their first fragment, and duplicates of a complete packet.
    lost_fragments: int = 0
    in_tcp: int = 0  # frames on the TCP ports of IKE, with or without ESP; streams are not reassembled here
    addresses: list[builtins.bytes] = field(default_factory=list)  # IPv6 addresses of the AddressBook codes
    warnings: list[str] = field(default_factory=list)


def read_esp(
    path: str,
    take: Callable[[Block], None],
    ports: Collection[int] = (),
    progress: Progress | None = None,
    wanted: EspPacketFilter | None = None,
) -> EspCapture:
    """Read a capture file, or standard input for "-", and pass its ESP packets to `take` in blocks, in file order.

    `ports` are UDP and TCP ports that carry IKE and ESP in addition to 500 and 4500. The bytes of the `wanted` packets
    are passed to its own callback.

    Raises:
        CaptureError: the file cannot be opened, or its header is invalid. Damage after the header is a warning.
    """
    with open_capture(path) as reader:
        collector = _EspCollector(take, ports, reader.interfaces, wanted)
        for batch in reader.iterate_batches():
            collector.add(batch)
            if progress is not None:
                progress(reader.source.consumed, reader.source.size)
        result = collector.finish()
        if reader.damage is not None:
            result.warnings.append(f"damaged at byte {reader.damage.offset}: {reader.damage.what}; read up to there")
        return result


class _EspCollector:
    """Collects the ESP packets of batches into blocks."""

    def __init__(
        self,
        take: Callable[[Block], None],
        ports: Collection[int],
        interfaces: Sequence[Interface],
        wanted: EspPacketFilter | None,
    ) -> None:
        self._take = take
        self._ports = ports
        self._tcp_ports = np.array(sorted({PORT_IKE_NAT, *ports}), np.uint16)
        self._book = AddressBook()
        self._ip = IpPacketFinder(interfaces, self._book, TunnelBook())
        self._wanted = wanted
        self._spis = np.array(sorted(wanted.spis or ()) if wanted else [], np.uint32)
        self._reassembler = IpReassembler()
        self._parts: list[Block] = []
        self._part_packets = 0  # packets in `_parts`
        self._result = EspCapture()

    def add(self, batch: RecordBatch) -> None:
        """Add a batch of packets."""
        result = self._result
        low, high = int(batch.time_ns.min()), int(batch.time_ns.max())
        result.first_ns = low if result.first_ns is None else min(result.first_ns, low)
        result.last_ns = high if result.last_ns is None else max(result.last_ns, high)
        packets, depth = self._ip.read(batch), 1
        fragments: list[tuple[Key, int, IpFragment]] = []
        while packets is not None:
            fragmented = packets.fragmented
            if fragmented.any():
                fragments += extract_fragments(batch, packets.select(fragmented), result.packets + 1)
                packets = packets.select(~fragmented)
            category, esp = self._extract_esp(batch.buffer, packets)
            row = packets.row[esp["packet"]]
            self._append(
                {
                    "time_ns": batch.time_ns[row],
                    "frames": np.ones(len(row), np.uint32),
                    "bytes": batch.length[row],
                    **esp,
                }
            )
            packets = self._ip.enter_tunnels(batch.buffer, packets, category, depth)
            depth += 1
        if fragments:
            self._reassemble(fragments)
        self._ip.pop_malformed()  # the report warns of them
        result.packets += len(batch)
        result.bytes += int(batch.length.sum())

    def finish(self) -> EspCapture:
        """Pass on the remaining packets at the end of the capture."""
        self._append_datagrams(list(self._reassembler.finish()))
        self._flush()
        self._result.addresses = self._book.ipv6
        self._result.warnings.extend(
            f"link type {get_link_type_name(kind)} is not decoded: its {number} packets are ignored"
            for kind, number in sorted(self._ip.foreign_links.items())
        )
        self._result.warnings.extend(self._ip.findings.warnings("ignored"))
        return self._result

    def _extract_esp(self, buffer: UInt8Array, packets: IpPackets) -> tuple[UInt8Array, Block]:
        """The category of each packet; columns of the ESP packets among them, and their indexes (`packet`)."""
        category, _, _ = classify_packets(buffer, packets, self._ports)
        self._count_tcp(buffer, packets)
        index = np.flatnonzero(category == PacketCategory.ESP)
        in_udp = packets.protocol[index] != PROTOCOL_ESP
        at, wire_end = packets.at[index], packets.wire_end[index]
        udp = read_struct_array(buffer, at, _PORTS)
        length = udp["length"].astype(np.int64)
        wire_end = np.where(in_udp & (length != 0), np.minimum(at + length, wire_end), wire_end)
        at = at + np.where(in_udp, _UDP_HEADER, 0)
        captured = at + ESP_HEADER_BYTES <= packets.end[index]
        self._result.cut += int((~captured).sum())
        on_4500 = (udp["source"] == PORT_IKE_NAT) | (udp["destination"] == PORT_IKE_NAT)
        encapsulation = np.where(on_4500, Encapsulation.UDP_4500, Encapsulation.UDP)
        header = read_struct_array(buffer, at, _HEADER)
        if self._wanted is not None:
            rows = captured if self._wanted.spis is None else captured & np.isin(header["spi"], self._spis)
            self._pass_bytes(self._wanted, buffer, packets.select(index[rows]), at[rows], wire_end[rows])
        columns: Block = {
            "packet": index,
            "source": _add_tunnels(packets.source, packets.tunnel)[index],
            "destination": _add_tunnels(packets.destination, packets.tunnel)[index],
            "encapsulation": np.where(in_udp, encapsulation, Encapsulation.IP).astype(np.uint8),
            "spi": header["spi"].astype(np.uint32),
            "sequence": header["sequence"].astype(np.uint32),
            "esp_bytes": wire_end - at,
        }
        return category, {name: column[captured] for name, column in columns.items()}

    def _pass_bytes(
        self, wanted: EspPacketFilter, buffer: UInt8Array, packets: IpPackets, at: Int64Array, end: Int64Array
    ) -> None:
        view = buffer.data
        spis = read_struct_array(buffer, at, _HEADER)["spi"].tolist()
        complete = (end <= packets.end).tolist()
        ends = (_add_tunnels(codes, packets.tunnel) for codes in (packets.source, packets.destination))
        sas = zip(*(codes.tolist() for codes in ends), spis, strict=True)
        for sa, is_complete, first, stop in zip(sas, complete, at.tolist(), end.tolist(), strict=True):
            wanted.take(sa, bytes(view[first:stop]) if is_complete else None, self._book.ipv6)

    def _count_tcp(self, buffer: UInt8Array, packets: IpPackets) -> None:
        tcp = packets.select((packets.protocol == PROTOCOL_TCP) & (packets.at + 4 <= packets.end))
        if len(tcp):
            ports = read_struct_array(buffer, tcp.at, _PORTS)
            of_ike = np.isin(ports["source"], self._tcp_ports) | np.isin(ports["destination"], self._tcp_ports)
            self._result.in_tcp += int(of_ike.sum())

    def _reassemble(self, fragments: list[tuple[Key, int, IpFragment]]) -> None:
        """Pass the IP fragments of a batch to the reassembler, and append the datagrams that it finishes."""
        datagrams: list[FragmentedPacket] = []
        for fragment in sort_fragments(fragments):
            datagrams.extend(self._reassembler.add(*fragment))
        self._append_datagrams(datagrams)

    def _append_datagrams(self, datagrams: list[FragmentedPacket]) -> None:
        """Append the ESP packets among reassembled datagrams; duplicates of the capture are ignored."""
        fresh = [datagram for datagram in datagrams if datagram.repeats is None and datagram.has_first]
        self._result.lost_fragments += sum(
            not part.repeated
            for datagram in datagrams
            if (datagram.repeats is not None or not datagram.has_first) and datagram.protocol == PROTOCOL_ESP
            for part in datagram.fragments
        )
        if not fresh:
            return
        buffer, reassembled, truncated = build_reassembled_packets(fresh)
        packets: IpPackets | None = reassembled.select(~truncated)
        depth = 1
        while packets is not None:
            # fragments inside fragments are not reassembled
            packets = packets.select(~packets.fragmented)
            category, esp = self._extract_esp(buffer, packets)
            self._append_reassembled([fresh[index] for index in packets.row[esp["packet"]].tolist()], esp)
            packets = self._ip.enter_tunnels(buffer, packets, category, depth)
            depth += 1

    def _append_reassembled(self, owners: list[FragmentedPacket], esp: Block) -> None:
        """Append the ESP packets in these datagrams."""
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
        self._result.esp_packets += count
        self._parts.append({name: columns[name].astype(dtype, copy=False) for name, dtype in LAYOUT.items()})
        self._part_packets += count
        if self._part_packets >= _BLOCK_PACKETS:
            self._flush()

    def _flush(self) -> None:
        if self._parts:
            self._take({name: np.concatenate([part[name] for part in self._parts]) for name in LAYOUT})
            self._parts, self._part_packets = [], 0


def _add_tunnels(codes: UInt64Array, tunnel: UInt32Array) -> UInt64Array:
    """Address codes that differ by tunnel: equal addresses in different tunnels are different hosts."""
    return codes | tunnel.astype(np.uint64) << np.uint64(CAPTURE_BIT)
