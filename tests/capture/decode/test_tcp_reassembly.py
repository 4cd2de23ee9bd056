from itertools import pairwise, permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikeanalyze.capture.decode import tcp_reassembly
from ikeanalyze.capture.decode.classify import Encapsulation
from ikeanalyze.capture.decode.tcp_reassembly import TcpSegment, TcpStreams
from tests.capture.laws import bytes_by_datagram, counted, read_trace, rows, texts
from tests.craft import MS, SECOND, Handshake, Trace, ike, link, transport
from tests.craft.transport import ACK, FIN, RST, SYN, TCP_PREFIX, tcp_framed, tcp_framed_esp

SHAKE = Handshake(1, switch=False)
INIT, INIT_ANSWER = (message.datagrams[0] for message in SHAKE.init())
MESSAGES = [SHAKE.encrypted(ike.IKE_AUTH, 300 + n, message_id=n).datagrams[0] for n in range(1, 8)]
LARGE = SHAKE.encrypted(ike.IKE_AUTH, 5000, message_id=9).datagrams[0]
ESP = transport.esp(0xC0FFEE, 1, bytes(range(100)))
PORT = 40000
HEADERS = 14 + 20 + 20
MALFORMED = "malformed"


class Connection(Trace):
    """A TCP connection from the initiator to port 4500 of the responder, segment by segment."""

    def __init__(self, isn: int = 1000, back_isn: int = 5000, *, port: int = 4500, syn: bool = True) -> None:
        super().__init__()
        self.at = {True: isn, False: back_isn}
        self.first = dict(self.at)
        self.port = port
        self.time = 0
        if syn:
            self.segment(True, b"", seq=isn - 1, flags=SYN)
            self.segment(False, b"", seq=back_isn - 1, flags=SYN | ACK)
            self.segment(True, b"")

    def segment(
        self,
        out: bool,
        data: bytes,
        *,
        seq: int | None = None,
        flags: int = ACK,
        gap: int = MS,
        cut: int | None = None,
    ) -> int:
        """The number of the packet; `seq`: in place of the next one."""
        ends = ("192.0.2.1", "192.0.2.2") if out else ("192.0.2.2", "192.0.2.1")
        ports = (PORT, self.port) if out else (self.port, PORT)
        place = self.at[out] if seq is None else seq
        if seq is None:
            self.at[out] += len(data)
        frame = link.ethernet(transport.tcp_packet(data, *ports, place, 1, flags, *ends))
        self.add(self.time, frame[:cut], length=len(frame))
        self.time += gap
        return len(self.packets)

    def stream(self, data: bytes, sizes: list[int], out: bool = True) -> None:
        at = 0
        for size in sizes:
            self.segment(out, data[at : at + size])
            at += size
        if at < len(data):
            self.segment(out, data[at:])


def opened(**more: int) -> Connection:
    connection = Connection(**more)
    connection.segment(True, TCP_PREFIX + tcp_framed(INIT))
    connection.segment(False, tcp_framed(INIT_ANSWER))
    return connection


def test_messages_of_a_connection_are_reassembled() -> None:
    connection = opened()
    connection.segment(True, tcp_framed(MESSAGES[0]))
    connection.segment(False, b"")
    connection.segment(True, tcp_framed_esp(ESP))
    connection.segment(True, b"", flags=FIN | ACK)
    connection.segment(False, b"", flags=RST)
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 3, "esp": 1, "tcp_encapsulation": 6}
    frames = [len(packet.data) for packet in connection.packets]
    assert rows(capture, "number", "bytes", "source_port", "exchange_type", "ike_bytes", "encapsulation") == [
        (4, frames[3], PORT, 34, len(INIT), Encapsulation.TCP_4500),
        (5, frames[4], 4500, 34, len(INIT_ANSWER), Encapsulation.TCP_4500),
        (6, frames[5], PORT, 35, len(MESSAGES[0]), Encapsulation.TCP_4500),
    ]
    assert capture.clear == {0: INIT, 1: INIT_ANSWER}
    assert capture.warnings == []


def test_two_messages_in_one_segment() -> None:
    connection = opened()
    number = connection.segment(True, tcp_framed(MESSAGES[0]) + tcp_framed_esp(ESP) + tcp_framed(MESSAGES[1]))
    capture = read_trace(connection)
    first, second = rows(capture, "number", "message_id", "bytes")[2:]
    share = len(tcp_framed(MESSAGES[1]))
    assert first == (number, 1, connection.packets[-1].wire_length - share)
    assert second == (number, 2, share)


def test_one_message_over_five_segments() -> None:
    connection = opened()
    data = tcp_framed(LARGE)
    connection.stream(data, [1, 33, 1000, 2000])
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 7, "tcp_encapsulation": 3}
    assert rows(capture, "datagram", "message_id", "ike_bytes")[2:] == [(2, 9, len(LARGE))] * 5
    assert bytes_by_datagram(capture)[2] == len(data) + 5 * HEADERS


@pytest.mark.parametrize("isn", [1000, 2**32 - 900, 2**32 - 1])
def test_any_order_and_wrap_around(isn: int) -> None:
    data = tcp_framed(MESSAGES[0]) + tcp_framed(MESSAGES[1])
    parts = [(0, 200), (200, 400), (400, len(data))]
    for order in permutations(parts):
        connection = opened(isn=isn)
        base = connection.at[True]
        for begin, end in order:
            connection.segment(True, data[begin:end], seq=base + begin)
        connection.segment(True, tcp_framed(MESSAGES[2]), seq=base + len(data))
        capture = read_trace(connection)
        assert counted(capture) == {"ike": 6, "tcp_encapsulation": 3}
        # datagrams are numbered by their first segments in the capture: message 2 begins in the second part
        first, second = (3, 2) if order[0] == parts[-1] else (2, 3)
        datagrams = set(rows(capture, "message_id", "datagram"))
        assert sorted(datagrams) == [(0, 0), (0, 1), (1, first), (2, second), (3, 4)]
        cut = order.index((200, 400)) + 6
        assert [m for n, m in rows(capture, "number", "message_id") if n == cut] == [1, 2]


@pytest.mark.parametrize("isn", [1000, 2**32 - 900, 2**32 - len(TCP_PREFIX + tcp_framed(INIT)) - 100])
def test_retransmitted_segments_add_nothing(isn: int) -> None:
    connection = opened(isn=isn)
    base = connection.at[True]
    first, second = tcp_framed(MESSAGES[0]), tcp_framed(MESSAGES[1])
    data = first + second
    connection.segment(True, first, seq=base, gap=SECOND)
    again = connection.segment(True, first, seq=base, gap=SECOND)
    # with something new behind it, with part of it, and a keepalive probe
    both = connection.segment(True, data, seq=base, gap=SECOND)
    part = connection.segment(True, data[100:-100], seq=base + 100, gap=SECOND)
    probe = connection.segment(True, b"\0", seq=base + len(data) - 1)
    capture = read_trace(connection)
    result = rows(capture, "number", "message_id", "bytes", "datagram")
    at = len(first)
    assert [row for row in result if row[0] >= again - 1] == [
        (again - 1, 1, HEADERS + at, 2),
        (again, 1, HEADERS + at, 2),
        (both, 1, HEADERS + at, 2),
        (both, 2, len(second), 3),
        (part, 1, HEADERS + at - 100, 2),
        (part, 2, len(second) - 100, 3),
    ]
    assert probe not in {row[0] for row in result}
    assert not any(repeated for (repeated,) in rows(capture, "capture_duplicate"))


def test_sent_again_before_the_message_is_whole() -> None:
    connection = opened()
    base = connection.at[True]
    data = tcp_framed(LARGE)
    connection.segment(True, data[:1000], seq=base, gap=SECOND)
    connection.segment(True, data[:1000], seq=base, gap=SECOND)
    connection.segment(True, data[2000:3000], seq=base + 2000, gap=SECOND)
    connection.segment(True, data[2000:3000], seq=base + 2000, gap=SECOND)
    connection.segment(True, data[1000:2500], seq=base + 1000, gap=SECOND)
    connection.segment(True, data[3000:], seq=base + 3000)
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 8, "tcp_encapsulation": 3}
    assert bytes_by_datagram(capture)[2] == sum(packet.wire_length for packet in connection.packets[5:])


def test_capture_that_saw_all_twice() -> None:
    frames = [packet.data for packet in opened().packets]
    trace, routed = Trace(), Trace()
    for index, frame in enumerate(frames):
        trace.add(index * MS, frame)
        trace.add(index * MS + 20_000, frame)
        routed.add(index * MS, frame)
        routed.add(index * MS + 20_000, frame[:22] + b"\x3f" + frame[23:])  # one hop less to live
    capture = read_trace(routed)
    assert counted(capture) == {"ike": 4, "tcp_encapsulation": 6}
    assert rows(capture, "number", "capture_duplicate", "datagram") == [
        (7, False, 0), (8, True, 0), (9, False, 1), (10, True, 1)
    ]  # fmt: skip
    # nothing tells packets without IP identification on one interface from ones that were sent twice
    assert not any(repeated for (repeated,) in rows(read_trace(trace), "capture_duplicate"))


def test_lost_segment_inside_a_message_leaves_the_framing() -> None:
    connection = opened()
    data = tcp_framed(LARGE)
    connection.segment(True, data[:1000])
    connection.at[True] += 1000  # this one the capture does not have
    connection.segment(True, data[2000:] + tcp_framed(MESSAGES[0])[:50])
    connection.segment(True, tcp_framed(MESSAGES[0])[50:])
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 5, "tcp_encapsulation": 3}
    assert set(rows(capture, "datagram", "message_id")[2:]) == {(2, 9), (3, 1)}
    [(number, warning)] = capture.warnings
    assert number == 6
    assert warning.startswith("a message lacks")


def test_lost_segment_with_the_end_of_a_message() -> None:
    connection = opened()
    data = tcp_framed(LARGE)
    connection.segment(True, data[:3000])
    connection.at[True] += len(data) - 3000 + 77
    connection.segment(True, b"\1\2\3 the end of something")
    for message in MESSAGES:
        connection.segment(True, tcp_framed(message))
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 3 + len(MESSAGES), "tcp_encapsulation": 4}
    assert [ident for (ident,) in rows(capture, "message_id")[2:]] == [9, *range(1, 8)]


def test_capture_begun_in_the_middle() -> None:
    connection = Connection(syn=False)
    connection.segment(True, tcp_framed(LARGE)[3000:])
    connection.segment(True, tcp_framed_esp(ESP) * 3)
    connection.segment(True, tcp_framed(MESSAGES[0])[:20])
    connection.segment(True, tcp_framed(MESSAGES[0])[20:] + tcp_framed(MESSAGES[1]))
    connection.segment(False, tcp_framed(INIT_ANSWER))
    capture = read_trace(connection)
    assert counted(capture) == {"tcp_encapsulation": 1, "esp": 1, "ike": 3}
    assert rows(capture, "number", "message_id") == [(3, 1), (4, 1), (4, 2), (5, 0)]


@pytest.mark.parametrize("isn", [1000, 2**32 - 300])
def test_first_segments_without_syn_may_be_out_of_order(isn: int) -> None:
    """The connection was set up before the capture began."""
    data = tcp_framed(INIT) + tcp_framed(MESSAGES[0]) + tcp_framed(MESSAGES[1])
    cuts = [0, 150, 300, 500, len(data)]
    for order in permutations(pairwise(cuts)):
        connection = Connection(isn=isn, syn=False)
        for begin, end in order:
            connection.segment(True, data[begin:end], seq=isn + begin)
        capture = read_trace(connection)
        assert counted(capture) == {"ike": 4}
        assert set(rows(capture, "message_id")) == {(0,), (1,), (2,)}


def test_a_segment_after_four_later_ones_does_not_begin_a_stream() -> None:
    """TCP sends it again then: its first transmission was before the capture."""
    connection = Connection(syn=False)
    first, *later = (tcp_framed(message) for message in MESSAGES[:6])
    for message in later:
        connection.segment(True, message)
    connection.segment(True, first, seq=connection.first[True] - len(first))
    assert counted(read_trace(connection)) == {"ike": 5, "tcp_encapsulation": 1}


def test_streams_may_begin_with_the_prefix() -> None:
    connection = Connection(syn=False)
    connection.segment(True, TCP_PREFIX)
    connection.segment(True, tcp_framed(INIT))
    assert counted(read_trace(connection)) == {"tcp_encapsulation": 1, "ike": 1}


@pytest.mark.parametrize("size", [1, 5, 6, 7])
def test_the_prefix_may_be_in_several_segments(size: int) -> None:
    connection = Connection()
    connection.stream(TCP_PREFIX + tcp_framed(INIT), [size])
    capture = read_trace(connection)
    assert capture.clear == {0: INIT}
    assert counted(capture)["ike"] == (1 if size <= 6 else 2)


def test_data_in_the_syn_segment_is_read() -> None:
    connection = Connection(syn=False)
    connection.segment(True, TCP_PREFIX + tcp_framed(INIT), seq=999, flags=SYN)
    connection.at[True] = 1000 + len(TCP_PREFIX + tcp_framed(INIT))
    connection.segment(True, tcp_framed(MESSAGES[0]))
    assert counted(read_trace(connection)) == {"ike": 2}


def test_connection_without_prefix_is_something_else() -> None:
    connection = Connection()
    connection.segment(False, b"SSH-2.0-server\r\n" + bytes(4) + INIT)
    connection.segment(True, b"SSH-2.0-client\r\n")
    connection.segment(True, tcp_framed(INIT))
    connection.segment(False, tcp_framed(INIT_ANSWER))
    connection.segment(False, b"")
    capture = read_trace(connection)
    assert counted(capture) == {"tcp_encapsulation": 3, "other": 5}
    assert capture.warnings == []
    # the ports are used again, for what they should be
    connection.at = {True: 900_000, False: 800_000}
    connection.segment(True, b"", seq=899_999, flags=SYN)
    connection.segment(False, b"", seq=799_999, flags=SYN | ACK)
    connection.segment(True, TCP_PREFIX + tcp_framed(INIT))
    connection.segment(False, tcp_framed(INIT_ANSWER))
    assert counted(read_trace(connection)) == {"tcp_encapsulation": 5, "other": 5, "ike": 2}


def test_syn_sent_again_changes_nothing() -> None:
    connection = Connection()
    connection.segment(True, TCP_PREFIX + tcp_framed(INIT)[:30])
    connection.segment(True, b"", seq=999, flags=SYN)
    connection.segment(True, tcp_framed(INIT)[30:])
    assert counted(read_trace(connection)) == {"ike": 2, "tcp_encapsulation": 4}


def set_bytes(message: bytes, at: int, value: bytes) -> bytes:
    return message[:at] + value + message[at + len(value) :]


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "0 bytes are less than an IKE header"),
        (MESSAGES[0][:27], "27 bytes are less than an IKE header"),
        (set_bytes(MESSAGES[0], 17, b"\x30"), "unknown IKE version 3.0"),
        (bytes(200), "unknown IKE version 0.0"),
        (set_bytes(MESSAGES[0], 24, b"\0\0\xff\xff"), "IKE length field is 65535, but"),
        (set_bytes(MESSAGES[0], 24, bytes(4)), "IKE length field is 0, but"),
    ],
)
def test_what_is_behind_a_marker_and_not_ike(message: bytes, text: str) -> None:
    connection = opened()
    number = connection.segment(True, tcp_framed(message))
    connection.segment(True, tcp_framed(MESSAGES[1]))
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 3, MALFORMED: 1, "tcp_encapsulation": 3}
    [(frame, warning)] = capture.warnings
    assert frame == number
    assert text in warning


@pytest.mark.parametrize("length", [b"\0\0", b"\0\1"])
def test_impossible_length_loses_the_framing_until_the_next_message(length: bytes) -> None:
    connection = opened()
    connection.segment(True, length + bytes(30))
    connection.segment(True, tcp_framed(MESSAGES[1]))
    assert counted(read_trace(connection)) == {"ike": 3, "tcp_encapsulation": 4}


def test_unfinished_at_the_end() -> None:
    connection = opened()
    connection.segment(True, tcp_framed(LARGE)[:100])
    connection.segment(False, tcp_framed(LARGE)[:33])
    capture = read_trace(connection)
    assert counted(capture) == {"ike": 3, "tcp_encapsulation": 4}
    assert rows(capture, "number", "ike_bytes")[-1] == (6, len(LARGE))


def test_truncated_segments_do_not_lose_the_stream() -> None:
    connection = opened()
    data = tcp_framed(LARGE)
    cut = connection.segment(True, data[:1400], cut=128)
    connection.segment(True, data[1400:2800], cut=128)
    connection.segment(True, data[2800:] + tcp_framed_esp(ESP) + tcp_framed(MESSAGES[0])[:9], cut=128)
    connection.segment(True, tcp_framed(MESSAGES[0])[9:])
    connection.segment(True, tcp_framed(MESSAGES[1]), cut=HEADERS + 34)
    connection.segment(True, tcp_framed(MESSAGES[2]), cut=HEADERS + 33)
    connection.segment(True, tcp_framed(MESSAGES[3]), cut=HEADERS - 1)
    capture = read_trace(connection)
    assert [m for n, m in rows(capture, "number", "message_id") if n >= cut] == [9, 9, 9, 2]
    assert counted(capture) == {"ike": 6, "tcp_encapsulation": 5 - 1, MALFORMED: 2}
    captured = [c for (c,) in rows(capture, "captured")]
    assert max(captured[2:]) <= 128


@pytest.mark.parametrize("offset", [0, 4, 15])
def test_impossible_tcp_headers_are_malformed(offset: int) -> None:
    connection = Connection(syn=False)
    frame = bytearray(link.ethernet(transport.tcp_packet(b"", PORT, 4500, 1, 1)))
    frame[46] = offset << 4
    connection.add(0, bytes(frame))
    connection.add(1, bytes(frame[:50]), length=60)
    capture = read_trace(connection)
    assert counted(capture) == {MALFORMED: 2}
    assert len(texts(capture)) == 2


def test_other_ports_are_decoded_if_given() -> None:
    connection = Connection(port=443)
    connection.segment(True, TCP_PREFIX + tcp_framed(INIT))
    assert counted(read_trace(connection)) == {"other": 4}
    assert counted(read_trace(connection, ports=(443,))) == {"ike": 1, "tcp_encapsulation": 3}


def test_connections_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_reassembly, "_MAX_CONNECTIONS", 10)
    streams = TcpStreams()
    header = transport.tcp(TCP_PREFIX + tcp_framed(LARGE)[:60], PORT, 4500, 7)
    settled = 0
    for number in range(100):
        segment = TcpSegment(number, 0, 0, 200, 200, 64, 1, number, 0, 5, 0, wire_size=len(header))
        assert streams.add(segment, header) is None
        settled += len(streams.pop_finished())
    assert settled == 90
    assert len(streams._connections) == 10
    assert len(streams.finish()) == 10


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**30),
    isn=st.sampled_from([1, 2**31, 2**32 - 500]),
    largest=st.sampled_from([7, 60, 700, 1400, 9000]),
    again=st.integers(0, 5),
    shuffled=st.booleans(),
)
def test_all_is_found_however_it_is_cut(seed: int, isn: int, largest: int, again: int, shuffled: bool) -> None:
    rng = Random(seed)
    messages = rng.sample(MESSAGES, 4)
    data = TCP_PREFIX
    where = []
    for message in messages:
        if rng.random() < 0.5:
            data += tcp_framed_esp(ESP)
        where.append((len(data), len(data) + len(tcp_framed(message))))
        data += tcp_framed(message)
    cuts, at = [], 0
    while at < len(data):
        size = rng.randint(max(1, largest // 3), largest)
        cuts.append((at, min(at + size, len(data))))
        at += size
    segments = list(cuts)
    if shuffled:
        for index in range(len(segments) - 1):
            swap = min(len(segments) - 1, index + rng.randrange(3))
            segments[index], segments[swap] = segments[swap], segments[index]
    for _ in range(again):
        begin = rng.randrange(len(data))
        segments.insert(rng.randint(1, len(segments)), (begin, min(len(data), begin + rng.randint(2, largest + 1))))
    connection = Connection(isn=isn)
    for begin, end in segments:
        connection.segment(True, data[begin:end], seq=isn + begin, gap=SECOND)
    capture = read_trace(connection)
    bytes_of = dict.fromkeys(range(4), 0)
    for (begin, end), frame in zip(segments, connection.packets[3:], strict=True):
        mine = [n for n, (low, high) in enumerate(where) if min(end, high) > max(begin, low)]
        probe = end - begin == 1
        if not mine or probe:
            continue
        for n in mine[1:]:
            bytes_of[n] += min(end, where[n][1]) - max(begin, where[n][0])
        others = sum(min(end, where[n][1]) - max(begin, where[n][0]) for n in mine[1:])
        bytes_of[mine[0]] += frame.wire_length - others
    idents = [int.from_bytes(message[20:24], "big") for message in messages]
    result = dict.fromkeys(idents, 0)
    for ident, size in rows(capture, "message_id", "bytes"):
        result[ident] += size
    assert len(set(rows(capture, "datagram"))) == 4
    if all(end - begin > 1 for begin, end in segments):
        assert result == {ident: bytes_of[n] for n, ident in enumerate(idents)}
