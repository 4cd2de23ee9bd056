"""Reassembles TCP streams with IKE and ESP (RFC 9329), and assigns the TCP segments to their messages.

RFC 9329, 3: the originator of the connection sends the prefix "IKETCP" once; then both sides send messages, each after
a 16-bit length (which includes itself); an IKE message begins with four zero bytes, the non-ESP marker. Segments may be
out of order, retransmitted, split or merged, and a capture may lack some or begin in the middle of a stream.

Every segment with data, retransmissions included, waits until its part of the stream has been split into messages: a
retransmitted segment is another frame of the messages that it carries.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Final

from msgspec import Struct, field

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.decode.ip import NO_IDENT, IpPackets
from ikeanalyze.capture.decode.ip_reassembly import DUPLICATE_NS
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.protocol_numbers import ESP_HEADER_BYTES, IKE_HEADER_BYTES, NON_ESP_MARKER

PREFIX: Final = b"IKETCP"
#: Bytes needed to recognise an IKE message: length, marker and IKE header.
_MIN_IKE_BYTES: Final = 2 + len(NON_ESP_MARKER) + IKE_HEADER_BYTES
#: Out-of-order segments that are held; then the missing segment is skipped.
_MAX_HELD: Final = 64
#: Segments that show where a stream without SYN begins: TCP takes a segment that comes after three later ones for lost
#: (RFC 5681, section 3.2), so one that is only out of order comes before.
_FIRST_SEGMENTS: Final = 4
#: Missing bytes between two segments; a larger gap means another connection or invalid data.
_MAX_GAP: Final = 1 << 20
#: Messages of a direction that retransmitted segments are still assigned to.
_MAX_HISTORY: Final = 256
#: Simultaneous connections; then the connection that was idle for longest is dropped.
_MAX_CONNECTIONS: Final = 8192
#: `ident` of packets without identification (IPv4 and IPv6).
_NO_IDENTS: Final = (0, NO_IDENT)

#: Tunnel, address and port.
Endpoint = tuple[int, int, int]


class StreamMessageKind(Enum):
    """Kind of a message in a stream."""

    IKE = auto()
    ESP = auto()
    MALFORMED = auto()  # after a non-ESP marker, but not IKE


class StreamMessage(Struct, eq=False):
    """A message of a stream."""

    kind: StreamMessageKind
    data: bytes = b""  # captured bytes of an IKE message, without length and marker
    complete: bool = True  # all bytes are in the capture
    error: str | None = None  # why the message is malformed, or of IKE: what is wrong with its length
    datagram: int | None = None  # set by the FrameCollector


class MessagePart(Struct, eq=False):
    """The part of a message that a segment carries."""

    message: StreamMessage
    size: int  # bytes
    resent: bool  # all of these bytes were sent before


class TcpSegment(Struct, eq=False):
    """A TCP segment, and the messages in it."""

    number: int
    time_ns: int
    interface: int
    length: int
    captured: int
    ttl: int
    ident: int
    source: int
    source_port: int
    destination: int
    destination_port: int
    wire_size: int  # of the TCP header and payload, on the wire
    tunnel: int = 0  # number in the TunnelBook
    begin: int = 0  # of its payload in the stream: the sequence number, not reduced modulo 2**32
    end: int = 0
    fresh: int = 0  # position of its first byte that was not sent before
    parts: list[MessagePart] = field(default_factory=list)
    foreign: bool = False  # of a connection that does not follow RFC 9329
    malformed: bool = False  # the TCP header is truncated or invalid
    repeated: bool = False  # a duplicate of the capture

    @property
    def category(self) -> PacketCategory:
        """The category of the frame."""
        if self.malformed:
            return PacketCategory.MALFORMED
        if self.foreign:
            return PacketCategory.OTHER
        kinds = {part.message.kind for part in self.parts}
        for kind, category in _CATEGORIES:
            if kind in kinds:
                return category
        return PacketCategory.TCP_ENCAPSULATION

    def ike_shares(self) -> Iterator[tuple[MessagePart, int]]:
        """The parts of IKE messages, and the bytes of the frame that count for each; headers count for the first."""
        if self.foreign:
            return
        parts = [part for part in self.parts if part.message.kind is StreamMessageKind.IKE]
        others = sum(part.size for part in parts[1:])
        for index, part in enumerate(parts):
            yield part, part.size if index else self.length - others

    def add_part(self, message: StreamMessage, begin: int, end: int) -> None:
        """Note a message with this range of the stream, if the segment has bytes of it."""
        last = min(end, self.end)
        size = last - max(begin, self.begin)
        if size > 0:
            self.parts.append(MessagePart(message, size, last <= self.fresh))


_CATEGORIES: Final = (
    (StreamMessageKind.IKE, PacketCategory.IKE),
    (StreamMessageKind.ESP, PacketCategory.ESP),
    (StreamMessageKind.MALFORMED, PacketCategory.MALFORMED),
)


def make_segment(batch: RecordBatch, packets: IpPackets, index: int, number: int) -> TcpSegment:
    """The TCP segment in the packet with this index; `TcpStreams.add` sets its ports.

    `number` is that of the packet in its capture.
    """
    row = int(packets.row[index])
    return TcpSegment(
        number=number,
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
        tunnel=int(packets.tunnel[index]),
    )


class _State(Enum):
    START = auto()  # at the start of the connection
    FRAMED = auto()  # at the length of a message
    LOST = auto()  # message boundaries are unknown: the start of the stream or other bytes are missing


class _HeldSegment(Struct):
    """An out-of-order segment, and all segments that begin where it does."""

    payload: bytes
    size: int  # on the wire
    waiting: list[TcpSegment] = field(default_factory=list)  # until their bytes are parsed


class _Connection:
    """Both directions of a connection."""

    def __init__(self, finish: Callable[[TcpSegment], None]) -> None:
        self.foreign = False  # it has no prefix, so it does not follow RFC 9329
        self._finish = finish
        self._directions: dict[Endpoint, _StreamDirection] = {}

    def direction(self, sender: Endpoint) -> "_StreamDirection":
        direction = self._directions.get(sender)
        if direction is None:
            direction = self._directions[sender] = _StreamDirection(self, self._finish)
        return direction

    def flush(self) -> None:
        """Finish all segments at the end of the connection."""
        for direction in self._directions.values():
            direction.flush()


class _StreamDirection:
    """One direction of a connection: orders its segments and splits the stream into messages.

    Positions in the stream are sequence numbers that do not wrap around at 2**32.
    """

    def __init__(self, connection: _Connection, finish: Callable[[TcpSegment], None]) -> None:
        self._connection = connection
        self._finish = finish
        self._state = _State.LOST
        self._expects_prefix = False
        self._syn: int | None = None  # sequence number of the SYN
        #: Of a stream without SYN, until its beginning is known: sequence number, bytes, size on the wire.
        self._first: list[tuple[int, bytes, int, TcpSegment]] = []
        self._next: int | None = None  # position after the buffer
        self._parsed = 0  # position of the buffer's first byte
        self._buffer = bytearray()
        self._unknown: deque[tuple[int, int]] = deque()  # ranges of the buffer that are not in the capture
        self._boundaries: deque[int] = deque()  # positions where segments begin in the buffer
        self._held: dict[int, _HeldSegment] = {}  # out-of-order segments by position
        #: Segments with bytes of the buffer. Those ahead of it wait with the held ones: however many these are, a
        #: message is compared with its own segments only.
        self._waiting: list[TcpSegment] = []
        self._history: deque[tuple[int, int, StreamMessage]] = deque(maxlen=_MAX_HISTORY)
        self._recent: deque[tuple[int, int, TcpSegment]] = deque(maxlen=_MAX_HELD)

    def begin(self, sequence: int, originator: bool) -> None:
        """Start the stream after a SYN."""
        if self._syn == sequence:
            return  # a retransmission of the SYN
        self.flush()
        if originator:
            self._connection.foreign = False
        self._syn = sequence
        self._next = self._parsed = sequence + 1
        self._state = _State.START
        self._expects_prefix = originator
        self._history.clear()
        self._recent.clear()

    def add(self, sequence: int, payload: bytes, size: int, segment: TcpSegment) -> None:
        """Add a segment with data; `payload` as captured, `size` on the wire."""
        if self._next is None:
            self._first.append((sequence, payload, size, segment))
            if len(self._first) >= _FIRST_SEGMENTS:
                self._begin_without_syn()
            return
        begin = self._next + _distance(self._next & 0xFFFFFFFF, sequence)
        if size == 1 and begin == self._next - 1:
            self._finish_segment(segment)  # a keepalive probe without data (RFC 9293, 3.8.4)
            return
        segment.begin, segment.end = begin, begin + size
        segment.repeated = self._is_duplicate(segment)
        held = self._held.get(begin)
        is_resent = segment.end <= self._next or (held is not None and held.size >= size)
        segment.fresh = segment.end if is_resent else max(begin, self._next)
        self._recent.append((begin, size, segment))
        if begin < self._parsed:
            self._assign_parsed(segment)
        if segment.end <= self._parsed:
            self._finish_segment(segment)
            return
        if begin <= self._next:
            self._waiting.append(segment)
            self._append(begin, payload, size)
        else:
            if held is None:
                held = self._held[begin] = _HeldSegment(payload, size)
            elif held.size < size:
                held.payload, held.size = payload, size
            held.waiting.append(segment)
            if len(self._held) > _MAX_HELD:
                self._skip_gap()
        self._drain()

    def _begin_without_syn(self) -> None:
        """Start the stream with the earliest of its first segments, which may be out of order."""
        first, self._first = self._first, []
        origin = first[0][0]
        ahead = min(
            _distance(origin, sequence) for sequence, *_ in first if abs(_distance(origin, sequence)) <= _MAX_GAP
        )
        self._next = self._parsed = origin + ahead
        for sequence, payload, size, segment in first:
            self.add(sequence, payload, size, segment)

    def flush(self) -> None:
        """Parse the remaining bytes and finish all segments at the end of the stream."""
        if self._first:
            self._begin_without_syn()
        while self._held:
            self._skip_gap()
            self._drain()
        self._flush_buffer()
        for segment in self._waiting:
            self._finish_segment(segment)
        self._waiting.clear()

    def _is_duplicate(self, segment: TcpSegment) -> bool:
        return any(
            begin == segment.begin
            and size == segment.end - segment.begin
            and abs(segment.time_ns - other.time_ns) <= DUPLICATE_NS
            and (
                other.ttl != segment.ttl
                or other.interface != segment.interface
                or (other.ident == segment.ident and segment.ident not in _NO_IDENTS)
            )
            for begin, size, other in self._recent
        )

    def _assign_parsed(self, segment: TcpSegment) -> None:
        for begin, end, message in self._history:
            segment.add_part(message, begin, end)

    def _finish_segment(self, segment: TcpSegment) -> None:
        segment.foreign = self._connection.foreign
        self._finish(segment)

    def _drain(self) -> None:
        while self._held:
            assert self._next is not None
            ready = [begin for begin in self._held if begin <= self._next]
            if not ready:
                return
            for begin in sorted(ready):
                held = self._held.pop(begin)
                self._waiting += held.waiting
                self._append(begin, held.payload, held.size)

    def _skip_gap(self) -> None:
        """Skip the missing bytes before the first held segment.

        Message boundaries stay known if the length of the message around the gap is known.
        """
        assert self._next is not None
        begin = min(self._held)
        missing = begin - self._next
        if missing <= _MAX_GAP:
            self._append(self._next, b"", missing)
            return
        self._flush_buffer()
        self._next = begin
        self._state = _State.LOST
        self._consume(missing, None)

    def _append(self, begin: int, payload: bytes, size: int) -> None:
        assert self._next is not None
        overlap = self._next - begin
        new_size = size - overlap
        if new_size <= 0:
            return
        self._boundaries.append(self._next)
        known = payload[overlap:]
        self._next += new_size
        self._buffer += known
        if len(known) < new_size:
            self._buffer += bytes(new_size - len(known))
            self._unknown.append((self._next - new_size + len(known), self._next))
        self._parse()

    def _parse(self) -> None:
        while self._buffer:
            if self._state is _State.START:
                if len(self._buffer) < len(PREFIX) and PREFIX.startswith(bytes(self._buffer)):
                    return
                if self._buffer.startswith(PREFIX):
                    self._consume(len(PREFIX), None)
                elif self._expects_prefix and self._is_captured(len(PREFIX)):
                    self._connection.foreign = True
                self._state = _State.FRAMED
                continue
            if self._connection.foreign:
                self._consume(len(self._buffer), None)
                return
            if self._state is _State.LOST and not self._resynchronise():
                return
            if len(self._buffer) < 2:
                return
            size = int.from_bytes(self._buffer[:2], "big")
            if size < 2 or not self._is_captured(2):
                self._state = _State.LOST
                continue
            if len(self._buffer) < size:
                return
            self._consume(size, self._parse_message(size))

    def _is_captured(self, size: int) -> bool:
        """Whether the first `size` bytes of the buffer were captured or are not received yet."""
        return not self._unknown or self._unknown[0][0] - self._parsed >= size

    def _resynchronise(self) -> bool:
        """Drop segments until one begins with a message; whether message boundaries are known again."""
        while self._buffer:
            if self._buffer.startswith(PREFIX):
                self._consume(len(PREFIX), None)
                continue
            boundary = next((at for at in self._boundaries if at > self._parsed), None)
            if self._is_captured(2) and _may_begin_ike(self._buffer[:_MIN_IKE_BYTES]):
                if len(self._buffer) < _MIN_IKE_BYTES:
                    return False  # wait for the next segment
                self._state = _State.FRAMED
                return True
            size = len(self._buffer) if boundary is None else boundary - self._parsed
            if self._is_captured(size) and _is_framed_esp(self._buffer[:size]):
                self._state = _State.FRAMED
                return True
            self._consume(size, None)
        return False

    def _flush_buffer(self) -> None:
        if not self._buffer:
            return
        message = None
        if self._state is _State.FRAMED and not self._connection.foreign and len(self._buffer) > 2:
            message = self._parse_message(int.from_bytes(self._buffer[:2], "big"))
        self._consume(len(self._buffer), message)

    def _parse_message(self, size: int) -> StreamMessage | None:
        """The message at the start of the buffer; None if too little of it is known. `size` is its length field."""
        available = min(size, len(self._buffer))
        known = available if not self._unknown else min(available, self._unknown[0][0] - self._parsed)
        complete = known == size
        if known < 2 + len(NON_ESP_MARKER):
            return None
        if self._buffer[2:6] != NON_ESP_MARKER:
            return StreamMessage(StreamMessageKind.ESP, complete=complete) if size >= 2 + ESP_HEADER_BYTES else None
        if size >= _MIN_IKE_BYTES > available:
            return None
        data = bytes(self._buffer[6:known])
        length = int.from_bytes(data[24:28], "big")
        error = None
        if size < _MIN_IKE_BYTES:
            error = f"{size - 6} bytes are less than an IKE header"
        elif known < _MIN_IKE_BYTES:
            error = "truncated inside its IKE header by the snapshot length"
        elif data[17] >> 4 not in (1, 2):
            error = f"unknown IKE version {data[17] >> 4}.{data[17] & 15}"
        elif not IKE_HEADER_BYTES <= length <= size - 6:
            error = f"IKE length field is {length}, but the message in the TCP stream has {size - 6} bytes"
        if error is not None:
            return StreamMessage(StreamMessageKind.MALFORMED, error=error)
        if length < size - 6:
            error = f"IKE length field is {length}, but the message in the TCP stream has {size - 6} bytes: those after it are ignored"
        return StreamMessage(StreamMessageKind.IKE, data[:length], complete, error)

    def _consume(self, size: int, message: StreamMessage | None) -> None:
        """Remove bytes from the start of the buffer, and assign them to a message if one is given."""
        begin, end = self._parsed, self._parsed + size
        for position, held in self._held.items():
            if position < end and held.waiting:  # a segment that began before has its bytes
                self._waiting += held.waiting
                held.waiting = []
        if message is not None:
            self._history.append((begin, end, message))
            for segment in self._waiting:
                segment.add_part(message, begin, end)
        self._parsed = end
        del self._buffer[:size]
        while self._boundaries and self._boundaries[0] < end:
            self._boundaries.popleft()
        while self._unknown and self._unknown[0][0] < end:
            _, last = self._unknown.popleft()
            if last > end:
                self._unknown.appendleft((end, last))
                break
        if any(segment.end <= end for segment in self._waiting):
            finished = [segment for segment in self._waiting if segment.end <= end]
            self._waiting = [segment for segment in self._waiting if segment.end > end]
            finished.sort(key=lambda segment: segment.number)
            for segment in finished:
                self._finish_segment(segment)


def _may_begin_ike(data: bytearray) -> bool:
    """Whether data, which may end early, can be the length, marker and header of an IKE message."""
    size = int.from_bytes(data[:2], "big")
    if len(data) >= 2 and size < _MIN_IKE_BYTES:
        return False
    if data[2:6] != NON_ESP_MARKER[: len(data[2:6])]:
        return False
    if len(data) > 23 and data[23] not in (0x10, 0x20):
        return False
    return len(data) < _MIN_IKE_BYTES or int.from_bytes(data[30:34], "big") == size - 6


def _is_framed_esp(data: bytearray) -> bool:
    """Whether data consists of framed ESP packets."""
    at = 0
    while at + 2 + ESP_HEADER_BYTES <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 + ESP_HEADER_BYTES or data[at + 2 : at + 6] == NON_ESP_MARKER:
            return False
        at += size
    return at == len(data) > 0


def _distance(origin: int, sequence: int) -> int:
    """`sequence` minus `origin`, modulo 2**32 (RFC 9293, 3.4) in the signed range."""
    return ((sequence - origin + 0x80000000) & 0xFFFFFFFF) - 0x80000000


class TcpStreams:
    """Reassembles all RFC 9329 connections of a capture."""

    def __init__(self) -> None:
        # the one idle for longest first; the first key of a dict is found slowly after others before it were removed
        self._connections: OrderedDict[tuple[Endpoint, Endpoint], _Connection] = OrderedDict()
        self._finished: list[TcpSegment] = []

    def add(self, segment: TcpSegment, packet: bytes) -> str | None:
        """Add a TCP segment, whose captured bytes from the TCP header on are `packet`; an error if it is malformed."""
        import dpkt  # slow to import, and few captures have TCP

        error = None
        try:
            tcp = dpkt.tcp.TCP(packet)
        except dpkt.UnpackError as unpack_error:
            error = "invalid TCP header" if len(packet) >= 20 else f"truncated inside its TCP header ({unpack_error})"
        else:
            size = segment.wire_size - tcp.off * 4
            if size < 0:
                error = "TCP header is longer than its packet"
        if error is not None:
            segment.malformed = True
            self._finished.append(segment)
            return error
        segment.source_port, segment.destination_port = tcp.sport, tcp.dport
        source = (segment.tunnel, segment.source, segment.source_port)
        destination = (segment.tunnel, segment.destination, segment.destination_port)
        connection = self._connection(source, destination)
        direction = connection.direction(source)
        sequence = tcp.seq
        if tcp.flags & dpkt.tcp.TH_SYN:
            direction.begin(sequence, originator=not tcp.flags & dpkt.tcp.TH_ACK)
            sequence = sequence + 1 & 0xFFFFFFFF  # data with it: RFC 7413
        if size > 0:
            direction.add(sequence, bytes(tcp.data)[:size], size, segment)
        else:
            segment.foreign = connection.foreign
            self._finished.append(segment)
        return None

    def pop_finished(self) -> list[TcpSegment]:
        """Segments whose messages are complete since the last call, in the order of completion."""
        finished = self._finished.copy()
        self._finished.clear()
        return finished

    def finish(self) -> list[TcpSegment]:
        """The remaining segments at the end of the capture."""
        for connection in self._connections.values():
            connection.flush()
        self._connections.clear()
        return self.pop_finished()

    def _connection(self, source: Endpoint, destination: Endpoint) -> _Connection:
        key = (source, destination) if source < destination else (destination, source)
        connection = self._connections.get(key)
        if connection is None:
            connection = _Connection(self._finished.append)
            if len(self._connections) >= _MAX_CONNECTIONS:
                self._connections.popitem(last=False)[1].flush()
            self._connections[key] = connection
        else:
            self._connections.move_to_end(key)
        return connection
