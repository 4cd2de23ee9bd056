"""IKE and ESP in TCP: the messages of RFC 9329 streams, and the segments that carried them.

RFC 9329, 3: the originator of the connection sends the prefix "IKETCP" once; then both sides send messages, each behind its
16-bit length (which counts itself); an IKE message begins with four zero bytes, the non-ESP marker. Segments may be out of
order, sent twice, split or joined at will, and a capture may have lost some or begin in the middle.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import dpkt

from ikeanalyze.capture.accounting import Category

PREFIX: Final = b"IKETCP"
_MARKER: Final = bytes(4)
_IKE_HEADER: Final = 28
#: Out-of-order segments that are held before the one that is missing is given up.
_MOST_HELD: Final = 64
_REMEMBERED: Final = 256

Endpoint = tuple[int, int]


@dataclass(slots=True, eq=False)
class StreamMessage:
    """One message of a stream."""

    data: bytes  # of the IKE message, marker and length taken off
    is_ike: bool
    complete: bool
    unit: int | None = None  # given by whoever makes rows of it


@dataclass(slots=True, eq=False)
class Segment:
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
    payload: bytes = b""
    unparsed: int = 0  # bytes of the payload that are not assigned yet
    parts: list[tuple[StreamMessage, int]] = field(
        default_factory=list
    )  # messages, and how many bytes of each
    foreign: bool = False  # of a connection that is not RFC 9329

    @property
    def category(self) -> Category:
        """What the frame is counted as."""
        if self.foreign:
            return Category.OTHER
        if any(message.is_ike for message, _ in self.parts):
            return Category.IKE
        return Category.ESP if self.parts else Category.TCP_ENCAPSULATION

    def ike_shares(self) -> Iterator[tuple[StreamMessage, int]]:
        """The IKE messages in it and the bytes of the frame that count to each: headers and the rest to the first one."""
        parts = [(message, size) for message, size in self.parts if message.is_ike]
        others = sum(size for _, size in parts[1:])
        for index, (message, size) in enumerate(parts):
            yield message, size if index else self.length - others


class _State(Enum):
    START = auto()  # the connection's first bytes are next
    FRAMED = auto()  # a length is next
    LOST = auto()  # the framing is unknown: begun in the middle, or bytes are missing


@dataclass(slots=True)
class _Piece:
    segment: Segment
    size: int  # bytes of it that are in the buffer


class _Direction:
    """One direction of a connection: segments in sequence order, cut into messages."""

    def __init__(self, settle: Callable[[Segment], None]) -> None:
        self.foreign = False
        self._settle = settle
        self._next: int | None = None
        self._state = _State.LOST
        self._expects_prefix = False
        self._buffer = bytearray()
        self._pieces: deque[_Piece] = deque()  # where the buffer's bytes came from, in order
        self._held: dict[int, Segment] = {}
        self._history: deque[tuple[int, int, StreamMessage]] = deque(maxlen=_REMEMBERED)
        self._parsed = 0  # sequence number of the buffer's first byte

    def begin(self, sequence: int, originator: bool) -> None:
        """A SYN was seen: the stream begins behind it."""
        if self._next == (sequence + 1) & 0xFFFFFFFF and not self._buffer:
            return  # the SYN itself was sent twice
        self.give_up()
        self._next = self._parsed = (sequence + 1) & 0xFFFFFFFF
        self._state = _State.START
        self._expects_prefix = originator

    def add(self, sequence: int, segment: Segment) -> None:
        """Take a segment with data."""
        if self._next is None:
            self._next = self._parsed = sequence
        ahead = _distance(self._next, sequence)
        if ahead > 0:
            if sequence in self._held and len(self._held[sequence].payload) >= len(segment.payload):
                self._settle(segment)  # sent twice while an earlier one is missing
            else:
                previous = self._held.pop(sequence, None)
                if previous is not None:
                    self._settle(previous)
                self._held[sequence] = segment
            if len(self._held) > _MOST_HELD:
                self._skip_gap()
        else:
            self._accept(sequence, segment)
        self._drain()

    def give_up(self) -> None:
        """No more segments come: settle what is there."""
        while self._held:
            self._skip_gap()
            self._drain()
        self._abandon_buffer()

    def _drain(self) -> None:
        while self._held:
            ready = [one for one in self._held if _distance(self._next or 0, one) <= 0]
            if not ready:
                return
            for sequence in ready:
                self._accept(sequence, self._held.pop(sequence))

    def _skip_gap(self) -> None:
        self._abandon_buffer()
        base = self._next or 0
        self._next = self._parsed = min(self._held, key=lambda one: _distance(base, one))
        self._state = _State.LOST

    def _accept(self, sequence: int, segment: Segment) -> None:
        assert self._next is not None
        old = -_distance(self._next, sequence)
        fresh = len(segment.payload) - old
        if fresh <= 0:
            # all of it was there before: it is one more frame of the messages that it carried
            end = sequence + len(segment.payload)
            for first, last, message in self._history:
                overlap = min(last, end) - max(first, sequence)
                if overlap > 0:
                    segment.parts.append((message, overlap))
            self._settle(segment)
            return
        if self._state is _State.LOST and not self._buffer:
            self._parsed = self._next
        segment.unparsed = fresh
        self._buffer += segment.payload[old:]
        self._pieces.append(_Piece(segment, fresh))
        self._next = (self._next + fresh) & 0xFFFFFFFF
        self._parse()

    def _parse(self) -> None:
        while self._buffer:
            if self._state is _State.START:
                if len(self._buffer) < len(PREFIX) and PREFIX.startswith(bytes(self._buffer)):
                    return
                if self._buffer.startswith(PREFIX):
                    self._consume(len(PREFIX), None)
                elif self._expects_prefix:
                    self.foreign = True
                self._state = _State.FRAMED
                continue
            if self.foreign:
                self._consume(len(self._buffer), None)
                return
            if self._state is _State.LOST and not self._resynchronise():
                return
            if len(self._buffer) < 2:
                return
            size = int.from_bytes(self._buffer[:2], "big")
            if size < 2:
                self._state = _State.LOST
                continue
            if len(self._buffer) < size:
                return
            self._consume(size, _message(bytes(self._buffer[2:size]), complete=True))

    def _resynchronise(self) -> bool:
        """Drop segments until one begins with an IKE message; True: the framing is known again."""
        while self._pieces:
            if self._buffer.startswith(PREFIX):
                self._consume(len(PREFIX), None)
                continue
            size = int.from_bytes(self._buffer[:2], "big")
            version = self._buffer[23:24]
            if (
                size >= 6 + _IKE_HEADER
                and self._buffer[2:6] == _MARKER
                and version in (b"\x10", b"\x20")
                and int.from_bytes(self._buffer[30:34], "big") == size - 6
            ):
                self._state = _State.FRAMED
                return True
            if size >= 10 and len(self._buffer) == size and self._buffer[2:6] != _MARKER:
                self._state = _State.FRAMED  # one segment that is exactly one framed ESP packet
                return True
            self._consume(self._pieces[0].size, None)
        return False

    def _abandon_buffer(self) -> None:
        if not self._buffer:
            return
        if self._state is _State.FRAMED and not self.foreign and len(self._buffer) >= 6 + _IKE_HEADER:
            self._consume(len(self._buffer), _message(bytes(self._buffer[2:]), complete=False))
        else:
            self._consume(len(self._buffer), None)

    def _consume(self, size: int, message: StreamMessage | None) -> None:
        """Take bytes off the buffer's front and assign them to a message, or to none."""
        if message is not None:
            self._history.append((self._parsed, self._parsed + size, message))
        self._parsed = (self._parsed + size) & 0xFFFFFFFF
        del self._buffer[:size]
        while size:
            piece = self._pieces[0]
            segment = piece.segment
            taken = min(size, piece.size)
            if message is not None:
                segment.parts.append((message, taken))
            segment.unparsed -= taken
            piece.size -= taken
            size -= taken
            if piece.size == 0:
                self._pieces.popleft()
                segment.foreign = self.foreign
                self._settle(segment)


def _message(data: bytes, *, complete: bool) -> StreamMessage:
    if data[:4] == _MARKER and len(data) >= 4 + _IKE_HEADER:
        return StreamMessage(data[4:], is_ike=True, complete=complete)
    return StreamMessage(b"", is_ike=False, complete=complete)


def _distance(origin: int, sequence: int) -> int:
    """How far `sequence` is ahead of `origin`, negative: behind (RFC 9293, 3.4: modulo 2**32)."""
    return ((sequence - origin + 0x80000000) & 0xFFFFFFFF) - 0x80000000


class Streams:
    """All RFC 9329 connections of a capture: segments in, settled segments out."""

    def __init__(self) -> None:
        self._directions: dict[tuple[Endpoint, Endpoint], _Direction] = {}
        self._settled: list[Segment] = []

    def add(self, segment: Segment, header: bytes) -> str | None:
        """Take the TCP segment that `header` (the TCP header on, as captured) is of; a text says why it cannot be read."""
        try:
            tcp = dpkt.tcp.TCP(header)
        except dpkt.UnpackError:
            self._settled.append(segment)
            return "cut inside its TCP header"
        segment.source_port, segment.destination_port = tcp.sport, tcp.dport
        segment.payload = bytes(tcp.data)
        here = (segment.source, segment.source_port)
        there = (segment.destination, segment.destination_port)
        direction = self._direction(here, there)
        if tcp.flags & dpkt.tcp.TH_SYN:
            direction.begin(tcp.seq, originator=not tcp.flags & dpkt.tcp.TH_ACK)
        opposite = self._directions.get((there, here))
        if direction.foreign or (opposite is not None and opposite.foreign):
            direction.foreign = True
        if segment.payload and not tcp.flags & dpkt.tcp.TH_SYN:
            direction.add(tcp.seq, segment)
        else:
            segment.foreign = direction.foreign
            self._settled.append(segment)
        return None

    def settled(self) -> list[Segment]:
        """Segments of which everything is known by now, in the order in which that came about."""
        settled, self._settled = self._settled, []
        return settled

    def finish(self) -> list[Segment]:
        """The end of the capture: what is unfinished stays so."""
        for direction in self._directions.values():
            direction.give_up()
        return self.settled()

    def _direction(self, here: Endpoint, there: Endpoint) -> _Direction:
        direction = self._directions.get((here, there))
        if direction is None:
            direction = self._directions[(here, there)] = _Direction(self._settled_one)
        return direction

    def _settled_one(self, segment: Segment) -> None:
        self._settled.append(segment)
