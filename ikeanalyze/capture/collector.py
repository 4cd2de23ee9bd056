"""Collects batches of packets into rows of the frames table, accounting and warnings."""

import builtins
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash
from msgspec import Struct, field

from ikeanalyze.capture.accounting import Accounting, PacketCategory
from ikeanalyze.capture.arrays import (
    Int64Array,
    UInt8Array,
    UInt32Array,
    UInt64Array,
    find_rows,
    rank_by_appearance,
    read_uint16_be,
)
from ikeanalyze.capture.buffers import Columns, FrameRows, MessageReadings, MessageStore
from ikeanalyze.capture.decode.classify import (
    ClassifiedMessages,
    Encapsulation,
    classify_packets,
    find_cleartext_messages,
    read_ike_headers,
)
from ikeanalyze.capture.decode.icmp import MAX_ERRORS, join_icmp_errors, read_icmp_errors
from ikeanalyze.capture.decode.ip import AddressBook, IpPackets, build_reassembled_packets, extract_fragments
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, IpReassembler, Key, sort_fragments
from ikeanalyze.capture.decode.link import get_link_type_name
from ikeanalyze.capture.decode.packets import IpPacketFinder
from ikeanalyze.capture.decode.plain import read_plain_packets
from ikeanalyze.capture.decode.tcp_reassembly import MessagePart, StreamMessage, TcpSegment, TcpStreams, make_segment
from ikeanalyze.capture.decode.tunnel_book import NO_TUNNEL, TunnelBook
from ikeanalyze.capture.formats.records import EARLIEST_NS, LATEST_NS, PADDING, CaptureDamage, Interface, RecordBatch
from ikeanalyze.capture.protocol_numbers import PORT_IKE_NAT, PROTOCOL_TCP

if TYPE_CHECKING:
    from ikeanalyze._core import PcapPart

#: Bytes of packets that the core has handed back and that are decoded at once.
_REST_BYTES: Final = 4 << 20
#: Further warnings about single packets are only counted.
MAX_PACKET_WARNINGS: Final = 1000
#: Result of `MessageBytes.entries`.
Entries = tuple[UInt32Array, Int64Array, Int64Array]


class PartialResult(Struct):
    """Result of collecting a part of a capture, without the rows and messages, which are in shared memory."""

    rows: int  # in shared memory
    datagrams: int
    packets: int
    bytes: int
    truncated: int
    first_ns: int | None
    last_ns: int | None
    accounting: Accounting
    clear: Entries
    encrypted: Entries
    ipv6: list[builtins.bytes]
    tunnels: list[str]
    packet_warnings: list[tuple[int, str]]
    packet_warning_count: int
    foreign_links: dict[int, int]
    unread: dict[str, int]
    damage: CaptureDamage | None
    icmp_errors: list[Columns] = field(default_factory=list)


class FrameCollector:
    """Collects the frames, accounting and warnings of batches."""

    def __init__(
        self,
        ports: Collection[int],
        interfaces: list[Interface],
        rows: FrameRows,
        messages: MessageStore,
        *,
        packets: int = 0,
        datagrams: int = 0,
    ) -> None:
        """`packets` and `datagrams` come before those of this collector, and count for their numbers."""
        self.accounting = Accounting()
        self.book = AddressBook()
        self.tunnels = TunnelBook()
        self.messages = messages
        self.readings: MessageReadings | None = None  # of the messages in `messages.clear.in_file`
        self.has_open_fragments = False  # later packets may belong to an IP datagram or TCP stream seen so far
        self.packets = packets
        self.bytes = self.truncated = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._ports = ports
        self._tcp_ports = {PORT_IKE_NAT, *ports}
        self._ip = IpPacketFinder(interfaces, self.book, self.tunnels)
        self._interfaces = interfaces
        self._rows = rows
        self._datagrams = datagrams
        self._positions: Int64Array = np.zeros(0, np.int64)  # of the packets that are being decoded, in their batch
        self._reassembler = IpReassembler()
        self._streams = TcpStreams()
        self._fragments: list[tuple[Key, int, IpFragment]] = []  # of the batch that is being decoded
        self._segments: list[tuple[TcpSegment, builtins.bytes]] = []  # and its TCP segments, from their headers on
        self._packet_warnings: list[tuple[int, str]] = []
        self._packet_warning_count = 0
        self._icmp_errors: list[Columns] = []
        self._icmp_error_count = 0
        self.incomplete: set[int] = set()  # datagrams with an IP fragment or TCP segment that is not in the capture
        self._first_incomplete = 0  # number of the first frame of such a datagram

    def add(self, batch: RecordBatch, share: float | None) -> None:
        """Add a batch of packets; `share` of the capture has been read after it, None: unknown."""
        count = len(batch)
        if not count:
            return
        self._set_share(share)
        self.bytes += int(batch.length.sum())
        self.truncated += int(np.count_nonzero(batch.captured < batch.length))
        self._extend_times(int(batch.time_ns.min()), int(batch.time_ns.max()))
        rest: RecordBatch | None = batch
        plain = read_plain_packets(batch, self.packets + 1, self._interfaces, self._ports)
        if plain is not None:
            columns = plain.columns
            self.accounting.add_counts(plain.packets, plain.wire_bytes)
            datagrams = self._append_plain(columns, plain.ipv6)
            if len(datagrams):
                self.messages.add(datagrams, batch.buffer, columns["begin"], columns["end"], columns["clear"], columns)
            rest = plain.rest
        if rest is not None:
            self._decode(rest)
        self.packets += count

    def add_part(self, part: "PcapPart", share: float | None) -> None:
        """Add a part of a file that the compiled core has read, with numbers after `packets`; `share` as in `add`."""
        if not part.packets:
            return
        self._set_share(share)
        self.bytes += part.bytes
        self.truncated += part.truncated
        self._extend_times(part.first_ns, part.last_ns)
        plain = part.plain
        self.accounting.add_counts(plain.packets, plain.wire_bytes)
        # a pcap file has one interface
        datagrams = self._append_plain({**plain.columns, "interface": 0}, plain.ipv6)
        for store, messages in ((self.messages.clear, part.clear), (self.messages.encrypted, part.encrypted)):
            rows, begin, end, heap = messages
            store.take(datagrams[rows], heap, begin, end)
        rows, place, size, form, sender_differs, receiver_differs = part.readings
        in_file = self.messages.clear.in_file
        if self.readings is not None and in_file is not None and len(rows):
            in_file.add_existing(datagrams[rows], place, size)
            self.readings.add(datagrams[rows], form, sender_differs, receiver_differs)
        for batch in _split_rest(*part.rest):
            self._decode(batch)
        self.packets += part.packets

    def _set_share(self, share: float | None) -> None:
        self._rows.share = share
        self.messages.clear.share = self.messages.encrypted.share = share

    def _extend_times(self, low: int, high: int) -> None:
        self.first_ns = low if self.first_ns is None else min(self.first_ns, low)
        self.last_ns = high if self.last_ns is None else max(self.last_ns, high)

    def _append_plain(self, columns: Mapping[str, Any], ipv6: list[builtins.bytes]) -> UInt32Array:
        """Append the rows of plain packets with a message, and return their datagrams; `ipv6` as in `PlainPackets`."""
        count = len(columns["number"])
        datagrams = np.arange(self._datagrams, self._datagrams + count, dtype=np.uint32)
        if not count:
            return datagrams
        self._datagrams += count
        codes = self.book.translation(ipv6)
        self._rows.append(
            count,
            {
                **columns,
                "source": codes(columns["source"]),
                "destination": codes(columns["destination"]),
                "tunnel": NO_TUNNEL,
                "ip_fragment": False,
                "capture_duplicate": False,
                "resent": False,
                "datagram": datagrams,
            },
            take=True,
        )
        return datagrams

    def _decode(self, batch: RecordBatch) -> None:
        """Count packets, and append the rows of those with a message."""
        self._positions = batch.positions()
        category = np.full(len(batch), PacketCategory.OTHER, np.uint8)
        packets = self._ip.read(batch)
        self._add_malformed(category)
        depth = 1
        while packets is not None:
            packets = self._add_packets(batch, packets, category, depth)
            self._add_malformed(category)
            depth += 1
        self._reassemble()
        self.accounting.add_batch(category, batch.length)

    def _add_malformed(self, category: UInt8Array) -> None:
        """Set the category of the packets with invalid headers, and warn of them."""
        for row, reason in self._ip.pop_malformed():
            category[row] = PacketCategory.MALFORMED
            self._warn(self._number(row), reason)

    def _add_packets(
        self, batch: RecordBatch, packets: IpPackets, category: UInt8Array, depth: int
    ) -> IpPackets | None:
        """Add the IP packets of one depth, from 1; return those inside them."""
        fragmented = packets.fragmented
        if fragmented.any():
            self._take_fragments(batch, packets.select(fragmented), category)
            packets = packets.select(~fragmented)
        found, message_batches, malformed = classify_packets(batch.buffer, packets, self._ports)
        if depth == 1:
            category[packets.row] = found
        else:
            _set_inner_categories(category, packets.row, found)
        for packet in malformed:
            self._warn(self._number(int(packets.row[packet.packet])), packet.reason)
        tcp = find_rows(packets.protocol == PROTOCOL_TCP)
        if len(tcp):
            self._take_segments(batch, packets.select(tcp), category)
        for messages in message_batches:
            self._append_messages(batch, packets, messages)
        icmp = find_rows(found == int(PacketCategory.ICMP))
        if len(icmp):
            self._add_icmp_errors(batch, packets.select(icmp))
        return self._ip.enter_tunnels(batch.buffer, packets, found, depth)

    def finish(self) -> None:
        """Count the IP fragments and TCP segments that are still pending at the end of the capture."""
        self._append_datagrams(list(self._reassembler.finish()))
        self._append_segments(self._streams.finish())

    @property
    def pending_ends(self) -> set[tuple[int, int]]:
        """Address codes of source and destination of the IP datagrams that still lack fragments."""
        return self._reassembler.pending_ends

    def expire_fragments(self, now_ns: int) -> None:
        """Give up the IP datagrams that have lacked fragments for too long, although no packet follows them yet."""
        self._append_datagrams(list(self._reassembler.expire(now_ns)))

    def make_partial_result(self, damage: CaptureDamage | None) -> PartialResult:
        """The result of this collector, for `merge_partial_result` of another collector."""
        self._keep_first_warnings()
        return PartialResult(
            rows=len(self._rows),
            datagrams=self._datagrams,
            packets=self.packets,
            bytes=self.bytes,
            truncated=self.truncated,
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            accounting=self.accounting,
            clear=self.messages.clear.entries(),
            encrypted=self.messages.encrypted.entries(),
            ipv6=self.book.ipv6,
            tunnels=self.tunnels.names,
            packet_warnings=self._packet_warnings,
            packet_warning_count=self._packet_warning_count,
            foreign_links=self._ip.foreign_links,
            unread=dict(self._ip.findings.unread),
            damage=damage,
            icmp_errors=self._icmp_errors,
        )

    def merge_partial_result(self, part: PartialResult, columns: Columns) -> None:
        """Add the result for the packets that follow; `columns` are its rows."""
        codes = self.book.translation(part.ipv6)
        self._rows.append(
            part.rows,
            {
                **columns,
                "number": columns["number"] + np.uint32(self.packets),
                "datagram": columns["datagram"] + np.uint32(self._datagrams),
                "source": codes(columns["source"]),
                "destination": codes(columns["destination"]),
                "tunnel": self.tunnels.translation(part.tunnels)[columns["tunnel"]] if part.tunnels else NO_TUNNEL,
            },
        )
        for store, entries in ((self.messages.clear, part.clear), (self.messages.encrypted, part.encrypted)):
            datagrams, begin, size = entries
            store.add_existing(datagrams + np.uint32(self._datagrams), begin, size)
        for errors in part.icmp_errors:
            ends = {name: codes(errors[name]) for name in ("sender", "source", "destination")}
            self._keep_icmp_errors({**errors, **ends, "number": errors["number"] + np.uint32(self.packets)})
        for number, text in part.packet_warnings:
            self._warn(number + self.packets, text)
        self._packet_warning_count += part.packet_warning_count - len(part.packet_warnings)
        for link_type, count in part.foreign_links.items():
            self._ip.foreign_links[link_type] = self._ip.foreign_links.get(link_type, 0) + count
        self._ip.findings.unread.update(part.unread)
        self.accounting.merge(part.accounting)
        self.packets += part.packets
        self.bytes += part.bytes
        self.truncated += part.truncated
        self._datagrams += part.datagrams
        self.first_ns = min((time for time in (self.first_ns, part.first_ns) if time is not None), default=None)
        self.last_ns = max((time for time in (self.last_ns, part.last_ns) if time is not None), default=None)

    @property
    def icmp_errors(self) -> Columns:
        """The first ICMP errors that quote a datagram of IKE: the columns of `decode.icmp.ICMP_LAYOUT`, in order."""
        errors = join_icmp_errors(self._icmp_errors)
        return {name: column[:MAX_ERRORS] for name, column in errors.items()}

    def forget_icmp_errors(self, before_ns: int | None) -> None:
        """Give up the ICMP errors from before this time; None: all."""
        if not self._icmp_error_count:
            return
        errors = self.icmp_errors
        kept = errors["time_ns"] >= before_ns if before_ns is not None else np.zeros(len(errors["number"]), np.bool_)
        self._icmp_errors, self._icmp_error_count = [], 0
        self._keep_icmp_errors({name: column[kept] for name, column in errors.items()})

    def count_frames(self) -> int:
        """Number of frames kept so far; can be called from another thread."""
        return len(self._rows)

    def columns(self) -> Columns:
        """All kept frames, in the order of their numbers."""
        columns = self._rows.columns()
        number = columns["number"].astype(np.uint32, copy=False)
        if (number[1:] < number[:-1]).any():
            order = np.argsort(number, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
        if self.incomplete:
            from ikeanalyze.capture.decode.incomplete_datagrams import share_digests  # few captures lack bytes

            share_digests(columns, self.incomplete, self.messages.clear)
        return columns

    def number_by_appearance(self, columns: Columns) -> None:
        """Number the datagrams of all kept frames in the order of their first frames, in place.

        Otherwise their order, which decides between messages with equal times, would depend on how much of the capture
        is read at once.
        """
        rank = rank_by_appearance(columns["datagram"], self._datagrams)
        if rank is not None:
            columns["datagram"][:] = rank[columns["datagram"]]
            self.messages.clear.renumber(rank)
            self.messages.encrypted.renumber(rank)
            if self.readings is not None:
                self.readings.renumber(rank)
            self.incomplete = set(rank[list(self.incomplete)].tolist())

    def warnings(self) -> list[tuple[int | None, str]]:
        """Warnings about the capture (packet number None) and about single packets, by packet number."""
        warnings: list[tuple[int | None, str]] = [
            (None, f"link type {get_link_type_name(number)} is not decoded: its {count} packets are counted as other")
            for number, count in sorted(self._ip.foreign_links.items())
        ]
        warnings.extend((None, text) for text in self._ip.findings.warnings("counted as other"))
        if self.last_ns == LATEST_NS or self.first_ns == EARLIEST_NS:
            text = "some packets have times before 1824 or after 2115, which are shown as the nearest possible time"
            warnings.append((None, f"{text}: time spans with them are meaningless"))
        if self.incomplete:
            count = len(self.incomplete)
            subject = f"{count} messages lack" if count > 1 else "a message lacks"
            text = f"{subject} IP fragments or TCP segments that are not in the capture"
            warnings.append((self._first_incomplete, f"{text}: only the captured frames are counted"))
        self._keep_first_warnings()
        warnings.extend(self._packet_warnings)
        more = self._packet_warning_count - len(self._packet_warnings)
        if more:
            warnings.append((None, f"{more} more such packets, counted but not listed"))
        return warnings

    def _number(self, row: int) -> int:
        """The number in the capture of a packet of the batch that is being decoded."""
        return self.packets + 1 + int(self._positions[row])

    def _warn(self, number: int, text: str) -> None:
        self._packet_warning_count += 1
        self._packet_warnings.append((number, text))
        if len(self._packet_warnings) >= 2 * MAX_PACKET_WARNINGS:
            self._keep_first_warnings()

    def _keep_first_warnings(self) -> None:
        """Keep those about the first packets: which come first depends on how much of the capture is read at once."""
        self._packet_warnings.sort(key=itemgetter(0))
        del self._packet_warnings[MAX_PACKET_WARNINGS:]

    def _mark_incomplete(self, datagram: int, number: int) -> None:
        """Note that bytes of this datagram are missing; `number` is that of its first frame."""
        if not self.incomplete or number < self._first_incomplete:
            self._first_incomplete = number
        self.incomplete.add(datagram)

    def _append_messages(self, batch: RecordBatch, packets: IpPackets, messages: ClassifiedMessages) -> None:
        """Append a row for each message that is in one frame."""
        index = messages.packet
        row = packets.row.take(index)  # `take` needs a quarter less time than an index
        datagrams = np.arange(self._datagrams, self._datagrams + len(row), dtype=np.uint32)
        self._datagrams += len(row)
        self._rows.append(
            len(row),
            {
                "number": self._positions.take(row) + (self.packets + 1),
                "time_ns": batch.time_ns.take(row),
                "interface": batch.interface.take(row),
                "bytes": batch.length.take(row),
                "captured": batch.captured.take(row),
                "encapsulation": messages.encapsulation,
                "source": packets.source.take(index),
                "source_port": messages.source_port,
                "destination": packets.destination.take(index),
                "destination_port": messages.destination_port,
                "tunnel": packets.tunnel.take(index),
                "ttl": packets.ttl.take(index),
                "ip_id": packets.ident.take(index),
                "ip_fragment": False,
                "capture_duplicate": False,
                "resent": False,
                "digest": self._digests(batch.buffer, messages, datagrams),
                "datagram": datagrams,
                **messages.header,
            },
            take=True,
        )

    def _digests(self, buffer: UInt8Array, messages: ClassifiedMessages, datagrams: UInt32Array) -> UInt64Array:
        """XXH3-64 of each message; also stores the bytes of the messages to be parsed."""
        view = buffer.data
        digest = xxhash.xxh3_64_digest
        begin, end = messages.at.tolist(), messages.end.tolist()
        self.messages.add(datagrams, buffer, messages.at, messages.end, messages.clear, messages.header)
        # as bytes, from which an array is made in less time than from numbers; they are in network byte order
        digests = b"".join([digest(view[a:b]) for a, b in zip(begin, end, strict=True)])
        return np.frombuffer(digests, ">u8").astype(np.uint64)

    def _take_fragments(self, batch: RecordBatch, packets: IpPackets, category: UInt8Array) -> None:
        """Keep IP fragments of one depth for `_reassemble`."""
        self.has_open_fragments = True
        category[packets.row] = PacketCategory.PENDING
        self._fragments += extract_fragments(batch, packets, self.packets + 1)

    def _reassemble(self) -> None:
        """Pass the fragments and segments of a batch on, and append the datagrams and messages that they complete.

        They come depth by depth. In the order of their packets, what is given up because of its age, or because too
        much is pending, does not depend on how much of the capture is read at once.
        """
        if self._fragments:
            datagrams: list[FragmentedPacket] = []
            for part in sort_fragments(self._fragments):
                datagrams.extend(self._reassembler.add(*part))
            self._fragments.clear()
            self._append_datagrams(datagrams)
        if self._segments:
            for segment, data in sorted(self._segments, key=lambda segment: segment[0].number):
                error = self._streams.add(segment, data)
                if error is not None:
                    self._warn(segment.number, error)
            self._segments.clear()
            self._append_segments(self._streams.pop_finished())

    def _append_datagrams(self, datagrams: list[FragmentedPacket]) -> None:
        """Count the fragments of finished datagrams, and append rows for those that carry a message."""
        first_sightings = [datagram for datagram in datagrams if datagram.repeats is None and datagram.has_first]
        for datagram in datagrams:
            if datagram.repeats is None and not datagram.has_first:
                datagram.category = PacketCategory.OTHER
        if first_sightings:
            self._classify_datagrams(first_sightings)
        for datagram in datagrams:
            fragments = datagram.fragments
            if datagram.repeats is not None:
                datagram.category, datagram.row = datagram.repeats.category, datagram.repeats.row
            self.accounting.add(
                PacketCategory(datagram.category), len(fragments), sum(fragment.length for fragment in fragments)
            )
            if datagram.row is not None and datagram.repeats is not None:
                self._rows.append(len(fragments), {**datagram.row, **_fragment_columns(fragments)})

    def _classify_datagrams(self, datagrams: list[FragmentedPacket]) -> None:
        """Set the category of datagrams, and append rows for those that carry a message."""
        buffer, outer, truncated = build_reassembled_packets(datagrams)
        category = np.full(len(datagrams), PacketCategory.OTHER, np.uint8)
        packets: IpPackets | None = outer
        depth = 1
        while packets is not None:
            found, message_batches, malformed = classify_packets(buffer, packets, self._ports)
            _set_inner_categories(category, packets.row, found)
            for malformed_packet in malformed:
                first = datagrams[int(packets.row[malformed_packet.packet])].fragments[0]
                self._warn(first.number, malformed_packet.reason)
            for messages in message_batches:
                self._append_reassembled(datagrams, buffer, packets, messages)
            packets = self._ip.enter_tunnels(buffer, packets, found, depth)
            for row, reason in self._ip.pop_malformed():
                category[row] = PacketCategory.MALFORMED
                self._warn(datagrams[row].fragments[0].number, reason)
            if packets is not None and packets.fragmented.any():
                carriers = [datagrams[row] for row in packets.row[packets.fragmented].tolist()]
                frames = sum(len(datagram.fragments) for datagram in carriers)
                self._ip.findings.unread["tunnels with two levels of IP fragments"] += frames
                packets = packets.select(~packets.fragmented)
            depth += 1
        category[truncated] = PacketCategory.MALFORMED
        for index in find_rows(truncated).tolist():
            self._warn(datagrams[index].fragments[0].number, "IPv6 header is truncated or invalid")
        for datagram, number in zip(datagrams, category.tolist(), strict=True):
            datagram.category = number

    def _append_reassembled(
        self, reassembled: list[FragmentedPacket], buffer: UInt8Array, packets: IpPackets, messages: ClassifiedMessages
    ) -> None:
        """Append a row for each fragment of the packets that carry these messages; `packets.row` is their index."""
        datagrams = np.arange(self._datagrams, self._datagrams + len(messages), dtype=np.uint32)
        self._datagrams += len(messages)
        digests = self._digests(buffer, messages, datagrams)
        owners = [reassembled[index] for index in packets.row[messages.packet].tolist()]
        for owner, datagram in zip(owners, datagrams.tolist(), strict=True):
            if not owner.complete:
                self._mark_incomplete(datagram, owner.fragments[0].number)
        repeat = np.repeat(np.arange(len(owners)), [len(owner.fragments) for owner in owners])
        fragments = [fragment for owner in owners for fragment in owner.fragments]
        packet = messages.packet[repeat]
        columns: Columns = {
            **_fragment_columns(fragments),
            "encapsulation": messages.encapsulation[repeat],
            "source": packets.source[packet],
            "source_port": messages.source_port[repeat],
            "destination": packets.destination[packet],
            "destination_port": messages.destination_port[repeat],
            "tunnel": packets.tunnel[packet],
            "ip_id": packets.ident[packet],
            "digest": digests[repeat],
            "datagram": datagrams[repeat],
            **{name: column[repeat] for name, column in messages.header.items()},
        }
        self._rows.append(len(fragments), columns)
        row = 0
        for owner in owners:
            owner.row = {name: column[row : row + 1] for name, column in columns.items()}
            row += len(owner.fragments)

    def _add_icmp_errors(self, batch: RecordBatch, packets: IpPackets) -> None:
        """Keep the errors among these packets of ICMP that quote a datagram of IKE."""
        if self._icmp_error_count >= MAX_ERRORS:
            return
        index, columns = read_icmp_errors(batch.buffer, packets, self.book, self._ports)
        if len(index):
            row = packets.row[index]
            number = (self._positions[row] + (self.packets + 1)).astype(np.uint32)
            self._keep_icmp_errors({**columns, "number": number, "time_ns": batch.time_ns[row].astype(np.int64)})

    def _keep_icmp_errors(self, columns: Columns) -> None:
        self._icmp_errors.append(columns)
        self._icmp_error_count += len(columns["number"])

    def _take_segments(self, batch: RecordBatch, packets: IpPackets, category: UInt8Array) -> None:
        """Keep TCP segments of one depth on the ports of RFC 9329 for `_reassemble`."""
        source, destination = read_uint16_be(batch.buffer, packets.at), read_uint16_be(batch.buffer, packets.at + 2)
        ports = np.array(sorted(self._tcp_ports), np.uint16)
        selected = (np.isin(source, ports) | np.isin(destination, ports)) & (packets.end - packets.at >= 4)
        view = batch.buffer.data
        self.has_open_fragments |= bool(selected.any())
        for index in find_rows(selected).tolist():
            row = int(packets.row[index])
            category[row] = PacketCategory.PENDING
            segment = make_segment(batch, packets, index, self._number(row))
            self._segments.append((segment, bytes(view[int(packets.at[index]) : int(packets.end[index])])))

    def _append_segments(self, segments: list[TcpSegment]) -> None:
        """Count finished segments, and append rows for those that carried IKE messages."""
        shares: list[tuple[TcpSegment, MessagePart, int]] = []
        for segment in segments:
            self.accounting.add(segment.category, 1, segment.length)
            shares.extend((segment, part, size) for part, size in segment.ike_shares())
            if segment.foreign:
                continue
            for part in segment.parts:
                if part.message.error is not None:
                    self._warn(segment.number, part.message.error)
                    part.message.error = None  # warn once per message
        if shares:
            self._append_shares(shares)

    def _append_shares(self, shares: list[tuple[TcpSegment, MessagePart, int]]) -> None:
        """Append a row for each message of a segment, given with the bytes of the frame that count for the message."""
        first: dict[int, tuple[TcpSegment, StreamMessage]] = {}
        for segment, part, _ in shares:
            first.setdefault(id(part.message), (segment, part.message))
        messages = [message for _, message in first.values()]
        for owner, message in first.values():
            if message.datagram is None:
                message.datagram = self._datagrams
                self._datagrams += 1
                if not message.complete:
                    self._mark_incomplete(message.datagram, owner.number)
        sizes = np.array([len(message.data) for message in messages], np.int64)
        end = np.cumsum(sizes)
        begin = end - sizes
        buffer = np.frombuffer(b"".join(message.data for message in messages) + bytes(PADDING), np.uint8)
        header, _ = read_ike_headers(buffer, begin, end)
        datagrams = np.array([message.datagram for message in messages], np.uint32)
        self.messages.add(datagrams, buffer, begin, end, find_cleartext_messages(header), header)
        digests = np.array([xxhash.xxh3_64_intdigest(message.data) for message in messages], np.uint64)
        place = {identity: index for index, identity in enumerate(first)}
        repeat = np.array([place[id(part.message)] for _, part, _ in shares], np.int64)
        segments = [segment for segment, _, _ in shares]
        self._rows.append(
            len(segments),
            {
                **_common_columns(segments),
                "resent": np.array([part.resent for _, part, _ in shares], np.bool_),
                "bytes": np.array([size for _, _, size in shares], np.uint32),
                "captured": np.array([min(segment.captured, size) for segment, _, size in shares], np.uint32),
                "encapsulation": np.uint8(Encapsulation.TCP_4500),
                "source": np.array([segment.source for segment in segments], np.uint64),
                "source_port": np.array([segment.source_port for segment in segments], np.uint16),
                "destination": np.array([segment.destination for segment in segments], np.uint64),
                "destination_port": np.array([segment.destination_port for segment in segments], np.uint16),
                "tunnel": np.array([segment.tunnel for segment in segments], np.uint32),
                "ip_id": np.array([segment.ident for segment in segments], np.uint32),
                "ip_fragment": False,
                "digest": digests[repeat],
                "datagram": datagrams[repeat],
                **{name: column[repeat] for name, column in header.items()},
            },
        )


def _split_rest(
    buffer: UInt8Array,
    offset: Int64Array,
    captured: Int64Array,
    length: Int64Array,
    time_ns: Int64Array,
    index: Int64Array,
) -> Iterator[RecordBatch]:
    """The packets that the core has handed back, in batches; `index` is the position of each in its part."""
    low = 0
    while low < len(offset):
        high = max(int(np.searchsorted(offset, offset[low] + _REST_BYTES)), low + 1)
        rows = slice(low, high)
        yield RecordBatch(
            buffer,
            offset[rows],
            captured[rows],
            length[rows],
            time_ns[rows],
            np.zeros(high - low, np.uint32),
            index[rows],
        )
        low = high


def _set_inner_categories(category: UInt8Array, row: Int64Array, found: UInt8Array) -> None:
    """Set the category of packets by what is inside them; AH with contents of no other category remains AH."""
    remains = (category[row] == PacketCategory.AH) & np.isin(found, (PacketCategory.OTHER, PacketCategory.ICMP))
    category[row] = np.where(remains, np.uint8(PacketCategory.AH), found)


def _fragment_columns(fragments: Sequence[IpFragment]) -> Columns:
    return {
        **_common_columns(fragments),
        "resent": np.array([fragment.resent for fragment in fragments], np.bool_),
        "bytes": np.array([fragment.length for fragment in fragments], np.uint32),
        "captured": np.array([fragment.captured for fragment in fragments], np.uint32),
        "ip_fragment": np.ones(len(fragments), np.bool_),
    }


def _common_columns(parts: Sequence[IpFragment | TcpSegment]) -> Columns:
    """The columns that IP fragments and TCP segments have in common."""
    return {
        "number": np.array([part.number for part in parts], np.uint32),
        "time_ns": np.array([part.time_ns for part in parts], np.int64),
        "interface": np.array([part.interface for part in parts], np.uint32),
        "ttl": np.array([part.ttl for part in parts], np.uint8),
        "capture_duplicate": np.array([part.repeated for part in parts], np.bool_),
    }
