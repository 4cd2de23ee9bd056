"""IKE and ESP in TCP: the messages of RFC 9329 streams, and the segments that carried them.

RFC 9329, 3: the originator of the connection sends the prefix "IKETCP" once; then both sides send messages,
each behind its 16-bit length (which counts itself); an IKE message begins with four zero bytes, the non-ESP
marker. Segments may be out of order, sent twice, split or joined at will, and a capture may have lost some or
begin in the middle.

Every segment with data waits until the stretch of the stream that it covers has been cut into messages,
whether it was the first to bring these bytes or not: a segment that is sent again is one more frame of the
messages that it carries.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from ikeanalyze.capture.accounting import PacketCategory
from ikeanalyze.capture.protocol_numbers import ESP_HEADER_BYTES, IKE_HEADER_BYTES, NON_ESP_MARKER

PREFIX: Final = b"IKETCP"
#: Length, marker and IKE header: what is needed to recognise an IKE message.
_ENOUGH: Final = 2 + len(NON_ESP_MARKER) + IKE_HEADER_BYTES
#: Out-of-order segments that are held before the one that is missing is given up.
_MOST_HELD: Final = 64
#: Bytes between two segments that may be missing; more is another connection or garbage.
_MOST_MISSING: Final = 1 << 20
#: Messages of a direction that segments sent again may still belong to.
_REMEMBERED: Final = 256
#: Connections followed at the same time; the one that was silent for longest is given up for a new one.
_MOST_CONNECTIONS: Final = 8192
#: The same segment again within this time, elsewhere or with the same IP identification, is the capture's
#: doing.
DUPLICATE_NS: Final = 1_000_000
#: `ident` of packets that have none of their own (IPv4 and IPv6).
_NO_IDENTS: Final = (0, 0xFFFFFFFF)

Endpoint = tuple[int, int]


class StreamMessageKind(Enum):
    """What a message of a stream is."""

    IKE = auto()
    ESP = auto()
    MALFORMED = auto()  # behind a non-ESP marker, and not IKE


@dataclass(slots=True, eq=False)
class StreamMessage:
    """One message of a stream."""

    kind: StreamMessageKind
    data: bytes = b""  # of the IKE message, marker and length taken off, as far as it is known
    complete: bool = True  # all of its bytes are in the capture
    what: str | None = None  # why it is malformed
    unit: int | None = None  # given by whoever makes rows of it


@dataclass(slots=True, eq=False)
class TcpSegment:
    """One TCP segment, and what was found in it."""

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
    wire_size: int  # of the TCP header and what follows, on the wire
    begin: int = 0  # of its payload in the stream: the sequence number, not reduced modulo 2**32
    end: int = 0
    parts: list[tuple[StreamMessage, int]] = field(default_factory=list)  # messages, and how many bytes of each
    foreign: bool = False  # of a connection that is not RFC 9329
    unreadable: bool = False  # its TCP header is cut or impossible
    repeated: bool = False  # a duplicate of the capture
    resent: bool = False  # all of its bytes were there before

    @property
    def category(self) -> PacketCategory:
        """What the frame is counted as."""
        if self.unreadable:
            return PacketCategory.MALFORMED
        if self.foreign:
            return PacketCategory.OTHER
        kinds = {message.kind for message, _ in self.parts}
        for kind, category in _CATEGORIES:
            if kind in kinds:
                return category
        return PacketCategory.TCP_ENCAPSULATION

    def ike_shares(self) -> Iterator[tuple[StreamMessage, int]]:
        """The IKE messages in it and the bytes of the frame that count to each: headers to the first."""
        if self.foreign:
            return
        parts = [(message, size) for message, size in self.parts if message.kind is StreamMessageKind.IKE]
        others = sum(size for _, size in parts[1:])
        for index, (message, size) in enumerate(parts):
            yield message, size if index else self.length - others


_CATEGORIES: Final = (
    (StreamMessageKind.IKE, PacketCategory.IKE),
    (StreamMessageKind.ESP, PacketCategory.ESP),
    (StreamMessageKind.MALFORMED, PacketCategory.MALFORMED),
)


class _State(Enum):
    START = auto()  # the connection's first bytes are next
    FRAMED = auto()  # a length is next
    LOST = auto()  # the framing is unknown: begun in the middle, or bytes are missing


class _Connection:
    """Both directions of a connection."""

    def __init__(self, settle: Callable[[TcpSegment], None]) -> None:
        self.foreign = False  # it has no prefix, so it is not RFC 9329
        self._settle = settle
        self._directions: dict[Endpoint, _StreamDirection] = {}

    def direction(self, sender: Endpoint) -> "_StreamDirection":
        direction = self._directions.get(sender)
        if direction is None:
            direction = self._directions[sender] = _StreamDirection(self, self._settle)
        return direction

    def flush(self) -> None:
        """No more segments come: settle what is there."""
        for direction in self._directions.values():
            direction.give_up()


class _StreamDirection:
    """One direction of a connection: segments in sequence order, cut into messages.

    Positions in the stream are sequence numbers that go on beyond 2**32.
    """

    def __init__(self, connection: _Connection, settle: Callable[[TcpSegment], None]) -> None:
        self._connection = connection
        self._settle = settle
        self._state = _State.LOST
        self._expects_prefix = False
        self._syn: int | None = None  # sequence number of the SYN
        self._next: int | None = None  # position behind the buffer
        self._parsed = 0  # position of the buffer's first byte
        self._buffer = bytearray()
        self._unknown: deque[tuple[int, int]] = deque()  # stretches of the buffer that the capture cut off
        self._boundaries: deque[int] = deque()  # where segments begin in the buffer
        self._held: dict[int, tuple[bytes, int]] = {}  # out of order, by position: bytes, size on the wire
        self._waiting: list[TcpSegment] = []  # carry bytes that are not parsed yet
        self._history: deque[tuple[int, int, StreamMessage]] = deque(maxlen=_REMEMBERED)
        self._recent: deque[tuple[int, int, TcpSegment]] = deque(maxlen=_MOST_HELD)

    def begin(self, sequence: int, originator: bool) -> None:
        """A SYN was seen: the stream begins behind it."""
        if self._syn == sequence:
            return  # the SYN itself was sent twice
        self.give_up()
        if originator:
            self._connection.foreign = False
        self._syn = sequence
        self._next = self._parsed = sequence + 1
        self._state = _State.START
        self._expects_prefix = originator
        self._history.clear()
        self._recent.clear()

    def add(self, sequence: int, payload: bytes, size: int, segment: TcpSegment) -> None:
        """Take a segment with data: as captured, and its size on the wire."""
        if self._next is None:
            self._next = self._parsed = sequence
        begin = self._next + _distance(self._next & 0xFFFFFFFF, sequence)
        if size == 1 and begin == self._next - 1:
            self._done(segment)  # a keepalive probe (RFC 9293, 3.8.4) that brings nothing
            return
        segment.begin, segment.end = begin, begin + size
        segment.repeated = self._is_duplicate(segment)
        segment.resent = segment.end <= self._next or self._held.get(begin, (b"", 0))[1] >= size
        self._recent.append((begin, size, segment))
        if begin < self._parsed:
            self._assign_old(segment)
        if segment.end <= self._parsed:
            self._done(segment)
            return
        self._waiting.append(segment)
        if begin <= self._next:
            self._append(begin, payload, size)
        elif begin not in self._held or self._held[begin][1] < size:
            self._held[begin] = payload, size
            if len(self._held) > _MOST_HELD:
                self._skip_gap()
        self._drain()

    def give_up(self) -> None:
        """No more segments come: settle what is there."""
        while self._held:
            self._skip_gap()
            self._drain()
        self._abandon_buffer()
        for segment in self._waiting:
            self._done(segment)
        self._waiting.clear()

    def _is_duplicate(self, segment: TcpSegment) -> bool:
        for begin, size, other in self._recent:
            if (
                begin == segment.begin
                and size == segment.end - segment.begin
                and abs(segment.time_ns - other.time_ns) <= DUPLICATE_NS
                and (
                    other.ttl != segment.ttl
                    or other.interface != segment.interface
                    or (other.ident == segment.ident and segment.ident not in _NO_IDENTS)
                )
            ):
                return True
        return False

    def _assign_old(self, segment: TcpSegment) -> None:
        for begin, end, message in self._history:
            overlap = min(end, segment.end) - max(begin, segment.begin)
            if overlap > 0:
                segment.parts.append((message, overlap))

    def _done(self, segment: TcpSegment) -> None:
        segment.foreign = self._connection.foreign
        self._settle(segment)

    def _drain(self) -> None:
        while self._held:
            assert self._next is not None
            ready = [begin for begin in self._held if begin <= self._next]
            if not ready:
                return
            for begin in sorted(ready):
                self._append(begin, *self._held.pop(begin))

    def _skip_gap(self) -> None:
        """Give up the bytes that are missing, and go on with the first ones behind them.

        A message around the gap stays one: its length is known, so the framing is not lost.
        """
        assert self._next is not None
        begin = min(self._held)
        missing = begin - self._next
        if missing <= _MOST_MISSING:
            self._append(self._next, b"", missing)
            return
        self._abandon_buffer()
        self._next = begin
        self._state = _State.LOST
        self._consume(missing, None)

    def _append(self, begin: int, payload: bytes, size: int) -> None:
        assert self._next is not None
        old = self._next - begin
        fresh = size - old
        if fresh <= 0:
            return
        self._boundaries.append(self._next)
        known = payload[old:]
        self._next += fresh
        self._buffer += known
        if len(known) < fresh:
            self._buffer += bytes(fresh - len(known))
            self._unknown.append((self._next - fresh + len(known), self._next))
        self._parse()

    def _parse(self) -> None:
        while self._buffer:
            if self._state is _State.START:
                if len(self._buffer) < len(PREFIX) and PREFIX.startswith(bytes(self._buffer)):
                    return
                if self._buffer.startswith(PREFIX):
                    self._consume(len(PREFIX), None)
                elif self._expects_prefix and self._known(len(PREFIX)):
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
            if size < 2 or not self._known(2):
                self._state = _State.LOST
                continue
            if len(self._buffer) < size:
                return
            self._consume(size, self._message(size))

    def _known(self, size: int) -> bool:
        """So many of the buffer's bytes were captured, or are still to come."""
        return not self._unknown or self._unknown[0][0] - self._parsed >= size

    def _resynchronise(self) -> bool:
        """Drop segments until one begins with a message; True: the framing is known again."""
        while self._buffer:
            if self._buffer.startswith(PREFIX):
                self._consume(len(PREFIX), None)
                continue
            following = next((at for at in self._boundaries if at > self._parsed), None)
            if _begins_ike(self._buffer[:_ENOUGH]):
                if len(self._buffer) < _ENOUGH:
                    return False  # more of it has to come
                self._state = _State.FRAMED
                return True
            stretch = len(self._buffer) if following is None else following - self._parsed
            if self._known(stretch) and _is_framed_esp(self._buffer[:stretch]):
                self._state = _State.FRAMED
                return True
            self._consume(stretch, None)
        return False

    def _abandon_buffer(self) -> None:
        if not self._buffer:
            return
        message = None
        if self._state is _State.FRAMED and not self._connection.foreign and len(self._buffer) > 2:
            message = self._message(int.from_bytes(self._buffer[:2], "big"))
        self._consume(len(self._buffer), message)

    def _message(self, size: int) -> StreamMessage | None:
        """What the buffer begins with; `size`: what its length says. None: neither, or too little of it."""
        there = min(size, len(self._buffer))
        known = there if not self._unknown else min(there, self._unknown[0][0] - self._parsed)
        complete = known == size
        if known < 2 + len(NON_ESP_MARKER):
            return None
        if self._buffer[2:6] != NON_ESP_MARKER:
            return StreamMessage(StreamMessageKind.ESP, complete=complete) if size >= 2 + ESP_HEADER_BYTES else None
        if size < _ENOUGH:
            return StreamMessage(StreamMessageKind.MALFORMED, what=f"{size - 6} bytes, less than an IKE header")
        if known < _ENOUGH:
            if there < _ENOUGH:
                return None
            what = "cut inside its IKE header by the capture's snapshot length"
            return StreamMessage(StreamMessageKind.MALFORMED, what=what)
        data = bytes(self._buffer[6:known])
        length = int.from_bytes(data[24:28], "big")
        if data[17] >> 4 not in (1, 2):
            what = f"IKE version {data[17] >> 4}.{data[17] & 15} is unknown"
            return StreamMessage(StreamMessageKind.MALFORMED, what=what)
        if not IKE_HEADER_BYTES <= length <= size - 6:
            what = f"IKE length field says {length} bytes, its frame in the TCP stream has {size - 6}"
            return StreamMessage(StreamMessageKind.MALFORMED, what=what)
        return StreamMessage(StreamMessageKind.IKE, data[:length], complete)

    def _consume(self, size: int, message: StreamMessage | None) -> None:
        """Take bytes off the buffer's front and assign them to a message, or to none."""
        begin, end = self._parsed, self._parsed + size
        if message is not None:
            self._history.append((begin, end, message))
            for segment in self._waiting:
                overlap = min(end, segment.end) - max(begin, segment.begin)
                if overlap > 0:
                    segment.parts.append((message, overlap))
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
            done = [segment for segment in self._waiting if segment.end <= end]
            self._waiting = [segment for segment in self._waiting if segment.end > end]
            for segment in done:
                self._done(segment)


def _begins_ike(data: bytearray) -> bool:
    """An IKE message behind its length and marker: nothing that is there speaks against it."""
    size = int.from_bytes(data[:2], "big")
    if len(data) >= 2 and size < _ENOUGH:
        return False
    if data[2:6] != NON_ESP_MARKER[: len(data[2:6])]:
        return False
    if len(data) > 23 and data[23] not in (0x10, 0x20):
        return False
    return len(data) < _ENOUGH or int.from_bytes(data[30:34], "big") == size - 6


def _is_framed_esp(data: bytearray) -> bool:
    """One framed ESP packet or several, and nothing else."""
    at = 0
    while at + 2 + ESP_HEADER_BYTES <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 + ESP_HEADER_BYTES or data[at + 2 : at + 6] == NON_ESP_MARKER:
            return False
        at += size
    return at == len(data) > 0


def _distance(origin: int, sequence: int) -> int:
    """How far `sequence` is ahead of `origin`, negative: behind (RFC 9293, 3.4: modulo 2**32)."""
    return ((sequence - origin + 0x80000000) & 0xFFFFFFFF) - 0x80000000


class TcpStreams:
    """All RFC 9329 connections of a capture: segments in, settled segments out."""

    def __init__(self) -> None:
        self._connections: dict[tuple[Endpoint, Endpoint], _Connection] = {}  # the longest silent one first
        self._settled: list[TcpSegment] = []

    def add(self, segment: TcpSegment, header: bytes) -> str | None:
        """Take a TCP segment; `header`: from its header on, as captured. A text says why it is not read."""
        import dpkt  # here, because few captures have TCP and every start would wait for it

        try:
            tcp = dpkt.tcp.TCP(header)
        except dpkt.UnpackError as error:
            segment.unreadable = True
            self._settled.append(segment)
            return "TCP header is impossible" if len(header) >= 20 else f"cut inside its TCP header ({error})"
        size = segment.wire_size - tcp.off * 4
        if size < 0:
            segment.unreadable = True
            self._settled.append(segment)
            return "TCP header is longer than its packet"
        segment.source_port, segment.destination_port = tcp.sport, tcp.dport
        here = (segment.source, segment.source_port)
        there = (segment.destination, segment.destination_port)
        connection = self._connection(here, there)
        direction = connection.direction(here)
        sequence = tcp.seq
        if tcp.flags & dpkt.tcp.TH_SYN:
            direction.begin(sequence, originator=not tcp.flags & dpkt.tcp.TH_ACK)
            sequence = sequence + 1 & 0xFFFFFFFF  # data with it: RFC 7413
        if size > 0:
            direction.add(sequence, bytes(tcp.data)[:size], size, segment)
        else:
            segment.foreign = connection.foreign
            self._settled.append(segment)
        return None

    def settled(self) -> list[TcpSegment]:
        """Segments of which everything is known by now, in the order in which that came about."""
        settled = self._settled.copy()
        self._settled.clear()
        return settled

    def finish(self) -> list[TcpSegment]:
        """The end of the capture: what is unfinished stays so."""
        for connection in self._connections.values():
            connection.flush()
        self._connections.clear()
        return self.settled()

    def _connection(self, here: Endpoint, there: Endpoint) -> _Connection:
        key = (here, there) if here < there else (there, here)
        connection = self._connections.pop(key, None)
        if connection is None:
            connection = _Connection(self._settled.append)
            if len(self._connections) >= _MOST_CONNECTIONS:
                self._connections.pop(next(iter(self._connections))).flush()
        self._connections[key] = connection
        return connection
