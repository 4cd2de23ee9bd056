"""Batches of packets to rows of the frames table, accounting and warnings.

What a helper found in the second half of a capture, as it sends it.

Messages of which the capture lacks bytes, because an IP fragment or a TCP segment is missing from it.

A transmission that is told by its content would be another message than the one that it repeats, if some
bytes of it are missing. So it takes the digest of a transmission with the same IKE header, length included;
payloads in the clear must agree as far as they are known (an IKE_SA_INIT request with another body may have
the same header).
"""

import builtins
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from ikeanalyze.capture.accounting import Accounting, PacketCategory
from ikeanalyze.capture.arrays import Int64Array, UInt8Array, UInt32Array, UInt64Array
from ikeanalyze.capture.buffers import Columns, FrameRows, MessageStore
from ikeanalyze.capture.decode.classify import (
    ClassifiedMessages,
    Encapsulation,
    classify_packets,
    find_cleartext_messages,
    read_ike_headers,
)
from ikeanalyze.capture.decode.ip import (
    AddressBook,
    IpPacketFinder,
    IpPackets,
    build_reassembled_packets,
    extract_fragments,
)
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, IpReassembler
from ikeanalyze.capture.decode.link import get_link_type_name
from ikeanalyze.capture.decode.tcp_reassembly import StreamMessage, TcpSegment, TcpStreams
from ikeanalyze.capture.formats.records import PADDING, CaptureDamage, Interface, RecordBatch
from ikeanalyze.capture.protocol_numbers import PORT_IKE_NAT, PROTOCOL_TCP

#: As `MessageBytes.entries` gives them.
Entries = tuple[UInt32Array, Int64Array, Int64Array]


@dataclass(slots=True)
class PartialResult:
    """The sums, and how much there is of what is in shared memory: rows, and bytes of messages."""

    rows: int
    units: int
    packets: int
    bytes: int
    truncated: int
    first_ns: int | None
    last_ns: int | None
    accounting: Accounting
    clear: Entries
    sealed: Entries
    ipv6: list[builtins.bytes]
    refused: list[tuple[int, str]]
    refused_count: int
    foreign_links: dict[int, int]
    damage: CaptureDamage | None


_HEADER: Final = (
    "protocol", "spi_i", "spi_r", "next_payload", "exchange_type", "flags", "message_id", "ike_bytes",
    "fragment", "fragments",
)  # fmt: skip


def share_digests(
    columns: dict[str, npt.NDArray[np.generic]], incomplete: set[int], clear: Mapping[int, bytes]
) -> None:
    """Change the digests of the frames of incomplete units, in place.

    Args:
        columns: of all kept frames.
        incomplete: units of which bytes are missing.
        clear: bytes of the units that can be read without keys, as far as they are known.
    """
    if not incomplete:
        return
    unit, digest = columns["unit"], columns["digest"]
    missing = np.isin(unit, np.fromiter(incomplete, np.uint32))
    rows = np.flatnonzero(np.isin(columns["spi_i"], columns["spi_i"][missing]))
    headers = list(zip(*(columns[name][rows].tolist() for name in _HEADER), strict=True))
    # whole ones first, then the longest: each unit is compared with those before it
    seen: dict[tuple[int, ...], list[int]] = {}
    first: dict[int, int] = {}
    header: dict[int, tuple[int, ...]] = {}
    for row, its_header in zip(rows.tolist(), headers, strict=True):
        number = int(unit[row])
        if number not in first:
            first[number], header[number] = row, its_header
    order = sorted(first, key=lambda unit: (unit in incomplete, -len(clear.get(unit, b""))))
    replaced: dict[int, np.generic] = {}
    for number in order:
        earlier = seen.setdefault(header[number], [])
        if number in incomplete:
            same = next((unit for unit in earlier if _agree(clear.get(unit), clear.get(number))), None)
            if same is not None:
                replaced[number] = replaced.get(same, digest[first[same]])
        earlier.append(number)
    for row in np.flatnonzero(missing).tolist():
        number = int(unit[row])
        if number in replaced:
            digest[row] = replaced[number]


def _agree(one: bytes | None, other: bytes | None) -> bool:
    if one is None or other is None:
        return one is other
    size = min(len(one), len(other))
    return one[:size] == other[:size]



#: More warnings about single packets than this are only counted.
MOST_PACKET_WARNINGS: Final = 1000

#: What times that 64 bits cannot hold are read as (see `pcapng`).
_EARLIEST_NS: Final = int(np.iinfo(np.int64).min)
_LATEST_NS: Final = int(np.iinfo(np.int64).max)


class FrameCollector:
    """Batches in; frames, accounting and warnings out."""

    def __init__(
        self, ports: Collection[int], interfaces: list[Interface], rows: FrameRows, kept: MessageStore
    ) -> None:
        self.accounting = Accounting()
        self.book = AddressBook()
        self.kept = kept
        self.crosses = False  # there was something that packets further on may belong to
        self.packets = self.bytes = self.truncated = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._ports = ports
        self._tcp_ports = {PORT_IKE_NAT, *ports}
        self._ip = IpPacketFinder(interfaces, self.book)
        self._rows = rows
        self._units = 0
        self._reassembler = IpReassembler()
        self._streams = TcpStreams()
        self._refused: list[tuple[int, str]] = []
        self._refused_count = 0
        self._incomplete: set[int] = set()  # units of which the capture lacks a fragment or a segment
        self._first_incomplete = 0  # the number of a frame

    def add(self, batch: RecordBatch, share: float | None) -> None:
        """Take a batch of packets; `share` of the capture has been read with it, as far as that is known."""
        count = len(batch)
        if not count:
            return
        self._rows.share = share
        self.kept.set_progress(share)
        self.bytes += int(batch.length.sum())
        self.truncated += int((batch.captured < batch.length).sum())
        low, high = int(batch.time_ns.min()), int(batch.time_ns.max())
        self.first_ns = low if self.first_ns is None else min(self.first_ns, low)
        self.last_ns = high if self.last_ns is None else max(self.last_ns, high)

        category = np.full(count, PacketCategory.OTHER, np.uint8)
        packets = self._network(batch, category)
        if packets is not None:
            whole = packets.fragmented
            if whole.any():
                self._fragments(batch, packets.select(whole), category)
                packets = packets.select(~whole)
            sorted_as, batches, refused = classify_packets(batch.buffer, packets, self._ports)
            category[packets.row] = sorted_as
            for refusal in refused:
                self._refuse(self.packets + 1 + int(packets.row[refusal.packet]), refusal.what)
            tcp = np.flatnonzero(packets.protocol == PROTOCOL_TCP)
            if len(tcp):
                self._segments(batch, packets.select(tcp), category)
            for messages in batches:
                self._keep(batch, packets, messages)
        self.accounting.add_batch(category, batch.length)
        self.packets += count

    def finish(self) -> None:
        """The end of the capture: settle what waited for more."""
        self._datagrams(list(self._reassembler.finish()))
        self._settle_segments(self._streams.finish())

    def make_partial_result(self, damage: CaptureDamage | None) -> PartialResult:
        """All that was found, for somebody else to include."""
        return PartialResult(
            rows=len(self._rows),
            units=self._units,
            packets=self.packets,
            bytes=self.bytes,
            truncated=self.truncated,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            accounting=self.accounting,
            clear=self.kept.clear.entries(),
            sealed=self.kept.sealed.entries(),
            ipv6=self.book.ipv6,
            refused=self._refused,
            refused_count=self._refused_count,
            foreign_links=self._ip.foreign_links,
            damage=damage,
        )

    def merge_partial_result(self, half: PartialResult, columns: Columns) -> None:
        """Take what was found in the packets that follow, with the rows made of them."""
        codes = self.book.translation(half.ipv6)
        self._rows.append(
            half.rows,
            {
                **columns,
                "number": columns["number"] + np.uint32(self.packets),
                "unit": columns["unit"] + np.uint32(self._units),
                "source": codes(columns["source"]),
                "destination": codes(columns["destination"]),
            },
        )
        for store, entries in ((self.kept.clear, half.clear), (self.kept.sealed, half.sealed)):
            units, begin, size = entries
            store.add_existing(units + np.uint32(self._units), begin, size)
        for number, what in half.refused:
            self._refuse(number + self.packets, what)
        self._refused_count += half.refused_count - len(half.refused)
        for kind, count in half.foreign_links.items():
            self._ip.foreign_links[kind] = self._ip.foreign_links.get(kind, 0) + count
        self.accounting.merge(half.accounting)
        self.packets += half.packets
        self.bytes += half.bytes
        self.truncated += half.truncated
        self._units += half.units
        self.first_ns = min((time for time in (self.first_ns, half.first_ns) if time is not None), default=None)
        self.last_ns = max((time for time in (self.last_ns, half.last_ns) if time is not None), default=None)

    def columns(self) -> Columns:
        """All kept frames, in the order of their numbers."""
        whole = self._rows.columns()
        number = whole["number"].astype(np.uint32, copy=False)
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            whole = {name: column[order] for name, column in whole.items()}
        share_digests(whole, self._incomplete, self.kept.clear)
        return whole

    def warnings(self) -> list[tuple[int | None, str]]:
        """What was strange about single packets and links."""
        warnings: list[tuple[int | None, str]] = [
            (None, f"link type {get_link_type_name(kind)} is not decoded: its {count} packets are counted as other")
            for kind, count in sorted(self._ip.foreign_links.items())
        ]
        if self.last_ns == _LATEST_NS or self.first_ns == _EARLIEST_NS:
            what = "some packets have times before 1678 or after 2261, which are shown as the nearest that can be"
            warnings.append((None, f"{what}: time spans with them say nothing"))
        if self._incomplete:
            count = len(self._incomplete)
            some = f"{count} messages lack" if count > 1 else "a message lacks"
            what = f"{some} IP fragments or TCP segments that are not in the capture"
            warnings.append((self._first_incomplete, f"{what}: counted with the frames that are"))
        warnings.extend(self._refused)
        if self._refused_count > len(self._refused):
            more = self._refused_count - len(self._refused)
            warnings.append((None, f"{more} more such packets, counted but not listed"))
        return warnings

    def _refuse(self, number: int, what: str) -> None:
        self._refused_count += 1
        if len(self._refused) < MOST_PACKET_WARNINGS:
            self._refused.append((number, what))

    def _lacks(self, unit: int, number: int) -> None:
        """The capture does not have all of this unit; `number`: of its first frame."""
        if not self._incomplete or number < self._first_incomplete:
            self._first_incomplete = number
        self._incomplete.add(unit)

    def _network(self, batch: RecordBatch, category: UInt8Array) -> IpPackets | None:
        """The IP packets of a batch; frames whose IP header is impossible become malformed."""
        packets, impossible = self._ip.read(batch)
        for row, version in impossible:
            category[row] = PacketCategory.MALFORMED
            self._refuse(self.packets + 1 + row, f"IPv{version} header is cut or impossible")
        return packets

    def _keep(self, batch: RecordBatch, packets: IpPackets, messages: ClassifiedMessages) -> None:
        """Rows for messages that are one frame each."""
        index = messages.packet
        row = packets.row[index]
        units = np.arange(self._units, self._units + len(row), dtype=np.uint32)
        self._units += len(row)
        self._rows.append(
            len(row),
            {
                "number": row + (self.packets + 1),
                "time_ns": batch.time_ns[row],
                "interface": batch.interface[row],
                "bytes": batch.length[row],
                "captured": batch.captured[row],
                "encapsulation": messages.encapsulation,
                "source": packets.source[index],
                "source_port": messages.source_port,
                "destination": packets.destination[index],
                "destination_port": messages.destination_port,
                "ttl": packets.ttl[index],
                "ip_id": packets.ident[index],
                "ip_fragment": False,
                "capture_duplicate": False,
                "resent": False,
                "digest": self._digests(batch.buffer, messages, units),
                "unit": units,
                **messages.header,
            },
        )

    def _digests(self, buffer: UInt8Array, messages: ClassifiedMessages, units: UInt32Array) -> UInt64Array:
        """XXH3-64 of each message; the bytes of those to be looked into are put aside."""
        view = buffer.data
        digest = xxhash.xxh3_64_intdigest
        begin, end = messages.at.tolist(), messages.end.tolist()
        self.kept.add(units, buffer, messages.at, messages.end, messages.clear, messages.header)
        return np.array([digest(view[a:b]) for a, b in zip(begin, end, strict=True)], np.uint64)

    def _fragments(self, batch: RecordBatch, packets: IpPackets, category: UInt8Array) -> None:
        """Hand IP fragments to the reassembler, and take the datagrams that are settled by them."""
        self.crosses = True
        category[packets.row] = PacketCategory.PENDING
        settled: list[FragmentedPacket] = []
        for fragment in extract_fragments(batch, packets, self.packets + 1):
            settled.extend(self._reassembler.add(*fragment))
        self._datagrams(settled)

    def _datagrams(self, settled: list[FragmentedPacket]) -> None:
        """Count the fragments of settled datagrams, and keep rows for those that carry a message."""
        if not settled:
            return
        fresh = [datagram for datagram in settled if datagram.repeats is None and datagram.has_first]
        for datagram in settled:
            if datagram.repeats is None and not datagram.has_first:
                datagram.category = PacketCategory.OTHER
        if fresh:
            self._sort_datagrams(fresh)
        for datagram in settled:
            fragments = datagram.fragments
            if datagram.repeats is not None:
                datagram.category, datagram.row = datagram.repeats.category, datagram.repeats.row
            self.accounting.add(
                PacketCategory(datagram.category), len(fragments), sum(fragment.length for fragment in fragments)
            )
            if datagram.row is not None and datagram.repeats is not None:
                self._rows.append(len(fragments), {**datagram.row, **_fragment_columns(fragments)})

    def _sort_datagrams(self, datagrams: list[FragmentedPacket]) -> None:
        buffer, packets, cut = build_reassembled_packets(datagrams)
        sorted_as, batches, refused = classify_packets(buffer, packets, self._ports)
        sorted_as[cut] = PacketCategory.MALFORMED
        for index in np.flatnonzero(cut).tolist():
            self._refuse(datagrams[index].fragments[0].number, "IPv6 header is cut or impossible")
        for datagram, category in zip(datagrams, sorted_as.tolist(), strict=True):
            datagram.category = category
        for refusal in refused:
            self._refuse(datagrams[refusal.packet].fragments[0].number, refusal.what)
        for messages in batches:
            units = np.arange(self._units, self._units + len(messages), dtype=np.uint32)
            self._units += len(messages)
            digests = self._digests(buffer, messages, units)
            owners = [datagrams[index] for index in messages.packet.tolist()]
            for datagram, unit in zip(owners, units.tolist(), strict=True):
                if not datagram.complete:
                    self._lacks(unit, datagram.fragments[0].number)
            repeat = np.repeat(np.arange(len(owners)), [len(datagram.fragments) for datagram in owners])
            fragments = [fragment for datagram in owners for fragment in datagram.fragments]
            packet = messages.packet[repeat]
            part: Columns = {
                **_fragment_columns(fragments),
                "encapsulation": messages.encapsulation[repeat],
                "source": packets.source[packet],
                "source_port": messages.source_port[repeat],
                "destination": packets.destination[packet],
                "destination_port": messages.destination_port[repeat],
                "ip_id": packets.ident[packet],
                "digest": digests[repeat],
                "unit": units[repeat],
                **{name: column[repeat] for name, column in messages.header.items()},
            }
            self._rows.append(len(fragments), part)
            row = 0
            for datagram in owners:
                datagram.row = {name: column[row : row + 1] for name, column in part.items()}
                row += len(datagram.fragments)

    def _segments(self, batch: RecordBatch, packets: IpPackets, category: UInt8Array) -> None:
        """Hand TCP segments on the ports of RFC 9329 to the stream follower."""
        buffer = batch.buffer
        source = buffer[packets.at].astype(np.int64) << 8 | buffer[packets.at + 1]
        destination = buffer[packets.at + 2].astype(np.int64) << 8 | buffer[packets.at + 3]
        ports = np.array(sorted(self._tcp_ports), np.int64)
        ours = (np.isin(source, ports) | np.isin(destination, ports)) & (packets.end - packets.at >= 4)
        view = buffer.data
        self.crosses |= bool(ours.any())
        for index in np.flatnonzero(ours).tolist():
            row = int(packets.row[index])
            category[row] = PacketCategory.PENDING
            segment = TcpSegment(
                number=self.packets + 1 + row,
                time_ns=int(batch.time_ns[row]),
                interface=int(batch.interface[row]),
                length=int(batch.length[row]),
                captured=int(batch.captured[row]),
                ttl=int(packets.ttl[index]),
                ident=int(packets.ident[index]),
                source=int(packets.source[index]),
                source_port=0,
                destination=int(packets.destination[index]),
                destination_port=0,
                wire_size=int(packets.wire_end[index] - packets.at[index]),
            )
            trouble = self._streams.add(segment, bytes(view[int(packets.at[index]) : int(packets.end[index])]))
            if trouble is not None:
                self._refuse(segment.number, trouble)
        self._settle_segments(self._streams.settled())

    def _settle_segments(self, segments: list[TcpSegment]) -> None:
        """Count segments, and keep rows for those that carried IKE messages."""
        shares: list[tuple[TcpSegment, StreamMessage, int]] = []
        for segment in segments:
            self.accounting.add(segment.category, 1, segment.length)
            shares.extend((segment, message, size) for message, size in segment.ike_shares())
            if segment.foreign:
                continue
            for message, _ in segment.parts:
                if message.what is not None:
                    self._refuse(segment.number, message.what)
                    message.what = None  # once is enough
        if shares:
            self._keep_shares(shares)

    def _keep_shares(self, shares: list[tuple[TcpSegment, StreamMessage, int]]) -> None:
        """Rows for TCP segments: each with a message that it carries, and the bytes of the frame counted with it."""
        first: dict[int, tuple[TcpSegment, StreamMessage]] = {}
        for segment, message, _ in shares:
            first.setdefault(id(message), (segment, message))
        messages = [message for _, message in first.values()]
        for owner, message in first.values():
            if message.unit is None:
                message.unit = self._units
                self._units += 1
                if not message.complete:
                    self._lacks(message.unit, owner.number)
        sizes = np.array([len(message.data) for message in messages], np.int64)
        end = np.cumsum(sizes)
        begin = end - sizes
        buffer = np.frombuffer(b"".join(message.data for message in messages) + bytes(PADDING), np.uint8)
        header = read_ike_headers(buffer, begin, end)
        units = np.array([message.unit for message in messages], np.uint32)
        self.kept.add(units, buffer, begin, end, find_cleartext_messages(header), header)
        digests = np.array([xxhash.xxh3_64_intdigest(message.data) for message in messages], np.uint64)
        place = {identity: index for index, identity in enumerate(first)}
        repeat = np.array([place[id(message)] for _, message, _ in shares], np.int64)
        segments = [segment for segment, _, _ in shares]
        self._rows.append(
            len(segments),
            {
                **_own_columns(segments),
                "bytes": np.array([size for _, _, size in shares], np.uint32),
                "captured": np.array([min(segment.captured, size) for segment, _, size in shares], np.uint32),
                "encapsulation": np.uint8(Encapsulation.TCP_4500),
                "source": np.array([segment.source for segment in segments], np.uint64),
                "source_port": np.array([segment.source_port for segment in segments], np.uint16),
                "destination": np.array([segment.destination for segment in segments], np.uint64),
                "destination_port": np.array([segment.destination_port for segment in segments], np.uint16),
                "ip_id": np.array([segment.ident for segment in segments], np.uint32),
                "ip_fragment": False,
                "digest": digests[repeat],
                "unit": units[repeat],
                **{name: column[repeat] for name, column in header.items()},
            },
        )


def _fragment_columns(fragments: Sequence[IpFragment]) -> Columns:
    return {
        **_own_columns(fragments),
        "bytes": np.array([fragment.length for fragment in fragments], np.uint32),
        "captured": np.array([fragment.captured for fragment in fragments], np.uint32),
        "ip_fragment": np.ones(len(fragments), np.bool_),
    }


def _own_columns(parts: Sequence[IpFragment | TcpSegment]) -> Columns:
    """Columns that each IP fragment and each TCP segment has of its own."""
    return {
        "number": np.array([part.number for part in parts], np.uint32),
        "time_ns": np.array([part.time_ns for part in parts], np.int64),
        "interface": np.array([part.interface for part in parts], np.uint32),
        "ttl": np.array([part.ttl for part in parts], np.uint8),
        "capture_duplicate": np.array([part.repeated for part in parts], np.bool_),
        "resent": np.array([part.resent for part in parts], np.bool_),
    }
