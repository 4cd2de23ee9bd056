"""Rewrites what is spread over several packets: IP-fragmented datagrams, and IKE in TCP (RFC 9329).

This is the first of two passes over the capture. It puts datagrams and streams together, rewrites them, and divides the
result into the same parts, which the second pass puts into the packets. Sizes do not change, so each byte keeps its
place. What cannot be read, because a part of it is not in the capture, becomes pseudorandom.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ikeanalyze.capture.arrays import read_uint16_be
from ikeanalyze.capture.decode.classify import classify_packets
from ikeanalyze.capture.decode.ip import FIRST_IPV6, AddressBook, IpPackets, extract_fragments
from ikeanalyze.capture.decode.ip_reassembly import FragmentedPacket, IpFragment, IpReassembler, Key, sort_fragments
from ikeanalyze.capture.decode.packets import IpPacketFinder
from ikeanalyze.capture.decode.tcp_reassembly import PREFIX, StreamMessageKind, TcpSegment, TcpStreams, make_segment
from ikeanalyze.capture.decode.tunnel_book import TunnelBook
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.frames import Progress
from ikeanalyze.capture.protocol_numbers import ESP_HEADER_BYTES, NON_ESP_MARKER, PORT_IKE_NAT, PROTOCOL_TCP
from ikeanalyze.capture.reader import CaptureReader, open_capture
from ikeanalyze.sharing.anonymize.messages import MessageAnonymizer
from ikeanalyze.sharing.anonymize.packets import DroppedPacketError, IpAddresses, PacketAnonymizer
from ikeanalyze.sharing.anonymize.payloads import SeenEndpoint
from ikeanalyze.sharing.anonymize.pseudonyms import Pseudonyms

#: Longest part of a stream, between its first and its last byte in the capture; longer ones are dropped.
_MAX_STREAM: Final = 256 << 20
_LENGTH: Final = 2
_SYN: Final = 0x02
_FLAGS_AT: Final = 13
_PORTS_AND_SEQUENCE: Final = 8

#: Packet number, and offset of an IP payload in its frame.
_Place = tuple[int, int]


@dataclass(slots=True)
class _StreamPart:
    """A TCP segment, and where its IP payload is."""

    segment: TcpSegment
    place: _Place
    data: bytes = field(repr=False)


@dataclass(slots=True)
class _Stream:
    """One direction of a connection."""

    source: SeenEndpoint
    destination: SeenEndpoint
    parts: list[_StreamPart] = field(default_factory=list)


def rewrite_split_payloads(
    path: str,
    pseudonyms: Pseudonyms,
    messages: MessageAnonymizer,
    ports: Collection[int] = (),
    progress: Progress | None = None,
) -> dict[_Place, bytes]:
    """The new payload of each IP fragment and the new data of each TCP segment with IKE, by their places.

    Raises:
        CaptureError: the file cannot be opened, or its header is invalid.
    """
    with open_capture(path) as reader:
        collector = _SplitCollector(reader, pseudonyms, messages, ports)
        for batch in reader.iterate_batches():
            collector.add(batch)
            if progress is not None:
                progress(reader.source.consumed, reader.source.size)
        return collector.finish()


class _SplitCollector:
    def __init__(
        self, reader: CaptureReader, pseudonyms: Pseudonyms, messages: MessageAnonymizer, ports: Collection[int]
    ) -> None:
        self._pseudonyms = pseudonyms
        self._messages = messages
        self._packets = PacketAnonymizer(pseudonyms, messages, ports)
        self._ports = ports
        self._tcp_ports = np.array(sorted({PORT_IKE_NAT, *ports}), np.uint16)
        self._book = AddressBook()
        self._ip = IpPacketFinder(reader.interfaces, self._book, TunnelBook())
        self._count = 0
        self._reassembler = IpReassembler()
        self._fragment_at: dict[tuple[int, int], int] = {}  # by packet number and tunnel: offset of the payload
        self._datagrams: dict[int, bytes | None] = {}  # rewritten payload by id() of the complete datagram
        self._kept: list[FragmentedPacket] = []  # so that ids stay unique
        self._streams = TcpStreams()
        self._directions: dict[tuple[int, int, int, int, int, int], _Stream] = {}
        self._generations: dict[tuple[int, int, int, int, int], tuple[int, int | None]] = {}
        self._result: dict[_Place, bytes] = {}

    def add(self, batch: RecordBatch) -> None:
        packets, depth = self._ip.read(batch), 1
        fragments: list[tuple[Key, int, IpFragment]] = []
        while packets is not None:
            fragmented = packets.fragmented
            if fragmented.any():
                fragments += self._take_fragments(batch, packets.select(fragmented))
                packets = packets.select(~fragmented)
            category, _, _ = classify_packets(batch.buffer, packets, self._ports)
            self._add_segments(batch, packets.select(packets.protocol == PROTOCOL_TCP))
            packets = self._ip.enter_tunnels(batch.buffer, packets, category, depth)
            depth += 1
        finished: list[FragmentedPacket] = []
        for part in sort_fragments(fragments):
            finished.extend(self._reassembler.add(*part))
        self._rewrite_datagrams(finished)
        self._ip.pop_malformed()
        self._count += len(batch)

    def finish(self) -> dict[_Place, bytes]:
        self._rewrite_datagrams(list(self._reassembler.finish()))
        self._streams.finish()
        for stream in self._directions.values():
            self._rewrite_stream(stream)
        return self._result

    def _get_address(self, code: int) -> bytes:
        return self._book.ipv6[code - FIRST_IPV6] if code >= FIRST_IPV6 else code.to_bytes(4, "big")

    def _take_fragments(self, batch: RecordBatch, packets: IpPackets) -> list[tuple[Key, int, IpFragment]]:
        fragments = list(extract_fragments(batch, packets, self._count + 1))
        offsets = (packets.at - batch.offset[packets.row]).tolist()
        for (_, _, fragment), tunnel, offset in zip(fragments, packets.tunnel.tolist(), offsets, strict=True):
            self._fragment_at[fragment.number, tunnel] = offset
        return fragments

    def _rewrite_datagrams(self, datagrams: Sequence[FragmentedPacket]) -> None:
        for datagram in datagrams:
            whole = datagram if datagram.repeats is None else datagram.repeats
            if id(whole) not in self._datagrams:
                self._kept.append(whole)
                self._datagrams[id(whole)] = self._rewrite_datagram(whole)
            payload = self._datagrams[id(whole)]
            if payload is not None:
                for fragment in datagram.fragments:
                    self._store_fragment(datagram, fragment, payload)

    def _rewrite_datagram(self, datagram: FragmentedPacket) -> bytes | None:
        """The payload as far as it is known, rewritten; None: it is not understood."""
        if not datagram.has_first:
            return b""
        known, size = datagram.payload()
        ends = IpAddresses(*(self._get_address(code) for code in datagram.key[:2]))
        try:
            return self._packets.rewrite_datagram(known, size, datagram.protocol, ends)
        except DroppedPacketError:
            return None

    def _store_fragment(self, datagram: FragmentedPacket, fragment: IpFragment, payload: bytes) -> None:
        part = payload[fragment.offset : fragment.offset + len(fragment.payload)]
        part += self._pseudonyms.map_bytes(fragment.payload[len(part) :])  # after a missing fragment
        at = self._fragment_at[fragment.number, datagram.key[5]]
        self._result[fragment.number, at] = part

    def _add_segments(self, batch: RecordBatch, packets: IpPackets) -> None:
        source, destination = (read_uint16_be(batch.buffer, packets.at + at) for at in (0, 2))
        selected = np.isin(source, self._tcp_ports) | np.isin(destination, self._tcp_ports)
        selected &= packets.end - packets.at >= 20
        view = batch.buffer.data
        for index in np.flatnonzero(selected).tolist():
            row, at = int(packets.row[index]), int(packets.at[index])
            packet = bytes(view[at : int(packets.end[index])])
            segment = make_segment(batch, packets, index, self._count + 1 + row)
            if self._streams.add(segment, packet) is not None:
                continue
            data = packet[(packet[12] >> 4) * 4 :]
            place = segment.number, at - int(batch.offset[row])
            self._get_stream(segment, packet).parts.append(_StreamPart(segment, place, data))

    def _get_stream(self, segment: TcpSegment, packet: bytes) -> _Stream:
        """The stream of a segment: a SYN with another sequence number begins a new one."""
        key = (segment.tunnel, segment.source, segment.source_port, segment.destination, segment.destination_port)
        generation, sequence = self._generations.get(key, (0, None))
        if packet[_FLAGS_AT] & _SYN:
            new = int.from_bytes(packet[4:_PORTS_AND_SEQUENCE], "big")
            if new != sequence:
                generation += 1
            self._generations[key] = generation, new
        return self._directions.setdefault(
            (*key, generation),
            _Stream(
                SeenEndpoint(self._get_address(segment.source), segment.source_port),
                SeenEndpoint(self._get_address(segment.destination), segment.destination_port),
            ),
        )

    def _rewrite_stream(self, stream: _Stream) -> None:
        parts = [part for part in stream.parts if not part.segment.foreign]
        with_data = [part for part in parts if part.segment.end > part.segment.begin and part.data]
        for part in parts:
            if not part.data:
                self._result[part.place] = b""
        if not with_data:
            return
        base = min(part.segment.begin for part in with_data)
        size = max(part.segment.begin + len(part.data) for part in with_data) - base
        if size > _MAX_STREAM:
            return
        data = bytearray(size)
        for part in with_data:
            begin = part.segment.begin - base
            data[begin : begin + len(part.data)] = part.data
        rewritten = _StreamRewriter(bytes(data), stream, self._pseudonyms, self._messages).rewrite(with_data)
        for part in with_data:
            begin = part.segment.begin - base
            self._result[part.place] = rewritten[begin : begin + len(part.data)]


class _StreamRewriter:
    """Rewrites the bytes of one direction of a connection."""

    def __init__(self, data: bytes, stream: _Stream, pseudonyms: Pseudonyms, messages: MessageAnonymizer) -> None:
        self._data = data
        self._stream = stream
        self._messages = messages
        self._out = bytearray(pseudonyms.map_bytes(data))

    def rewrite(self, parts: Sequence[_StreamPart]) -> bytes:
        """The stream with its messages rewritten; all other bytes but the prefix and lengths are pseudorandom."""
        at = len(PREFIX) if self._data.startswith(PREFIX) else 0
        self._out[:at] = self._data[:at]
        self._skip_esp(at)
        bodies = {
            part.message.data: None
            for stream_part in parts
            for part in stream_part.segment.parts
            if part.message.kind is StreamMessageKind.IKE
        }
        for body in bodies:
            self._rewrite_message(body)
        return bytes(self._out)

    def _rewrite_message(self, body: bytes) -> None:
        """Rewrite an IKE message wherever it is in the stream; after it comes the length of the next message."""
        marked = NON_ESP_MARKER + body
        at = self._data.find(marked)
        new = self._messages.rewrite(body, self._stream.source, self._stream.destination) if at >= 0 else b""
        while at >= 0:
            begin, end = max(at - _LENGTH, 0), at + len(NON_ESP_MARKER)
            self._out[begin:end] = self._data[begin:end]
            self._out[end : end + len(new)] = new
            self._skip_esp(end + len(new))
            at = self._data.find(marked, end)

    def _skip_esp(self, at: int) -> None:
        """Keep length, SPI and sequence number of the ESP packets from `at` on, up to something else."""
        while at + _LENGTH + ESP_HEADER_BYTES <= len(self._data):
            size = int.from_bytes(self._data[at : at + _LENGTH], "big")
            end = at + _LENGTH + ESP_HEADER_BYTES
            is_ike = self._data[at + _LENGTH : at + _LENGTH + len(NON_ESP_MARKER)] == NON_ESP_MARKER
            if is_ike or size < _LENGTH + ESP_HEADER_BYTES:
                return
            self._out[at:end] = self._data[at:end]
            at += size
