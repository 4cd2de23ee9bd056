"""A set-up in TCP ends with the segments that first had its bytes, in Python, the core and the plugin (RFC 9329)."""

import pytest

import ikeanalyze
from tests.craft import MS, Handshake, Trace, transport
from tests.dissectors.run_plugin import fields, run_plugin, tree

HOSTS = "192.0.2.1", "192.0.2.2"
PORTS = 40000, 4500
OVERHEAD = 14 + 20 + 20  # Ethernet, IPv4, TCP
HANDSHAKE = Handshake(1)
MESSAGES = [transport.tcp_framed(message.ike[0]) for message in HANDSHAKE.setup()]
LATER = transport.tcp_framed(HANDSHAKE.informational()[0].ike[0])
PREFIX = transport.TCP_PREFIX


class Connection:
    """A TCP connection in the making, whose first segment with data comes at 0."""

    def __init__(self, *, syn=True, hosts=HOSTS):
        self.trace, self.hosts = Trace(), hosts
        self.sequence = {False: 1, True: 1}  # of the responder's segments: True
        self.sent = {False: 0, True: 0}  # bytes of the frames with data
        if not syn:
            return
        self.trace.ip(-2 * MS, transport.tcp_packet(b"", *PORTS, 0, 0, transport.SYN, *hosts))
        both = transport.SYN | transport.ACK
        self.trace.ip(-MS, transport.tcp_packet(b"", *PORTS[::-1], 0, 1, both, *hosts[::-1]))

    def send(self, time, data, *, back=False):
        self.repeat(time, data, self.sequence[back], back=back)
        self.sequence[back] += len(data)

    def repeat(self, time, data, sequence, *, back=True):
        hosts, ports = (self.hosts[::-1], PORTS[::-1]) if back else (self.hosts, PORTS)
        (frame,) = self.trace.ip(time * MS, transport.tcp_packet(data, *ports, sequence, 1, transport.ACK, *hosts))
        self.sent[back] += len(frame.data)


def begin(*first, hosts=HOSTS):
    """The initiator's first message in these parts, a millisecond apart, and the other three messages but the last."""
    connection = Connection(hosts=hosts)
    for time, part in enumerate(first):
        connection.send(time, part)
    connection.send(20, MESSAGES[1], back=True)
    connection.send(25, MESSAGES[2])
    return connection


def without_retransmission():
    connection = begin(PREFIX + MESSAGES[0])
    connection.send(45, MESSAGES[3], back=True)
    return connection, 45.0


def last_response_again():
    connection, expected = without_retransmission()
    connection.repeat(300, MESSAGES[3], connection.sequence[True] - len(MESSAGES[3]))
    return connection, expected


def first_response_again():
    connection, expected = without_retransmission()
    connection.repeat(290, MESSAGES[1], 1)
    return connection, expected


def first_part_of_the_last_response_again():
    connection = begin(PREFIX + MESSAGES[0])
    sequence = connection.sequence[True]
    connection.send(45, MESSAGES[3][:60], back=True)
    connection.send(46, MESSAGES[3][60:], back=True)
    connection.repeat(300, MESSAGES[3][:60], sequence)
    return connection, 46.0


def last_response_again_with_the_next_message():
    """TCP may send again more than it did at first (RFC 9293, section 3.8.1)."""
    connection, expected = without_retransmission()
    connection.repeat(300, MESSAGES[3] + LATER, connection.sequence[True] - len(MESSAGES[3]))
    return connection, expected


def prefix_in_two_segments():
    """The second one begins the first message."""
    connection = begin(PREFIX[:3], PREFIX[3:] + MESSAGES[0])
    connection.send(45, MESSAGES[3], back=True)
    return connection, 44.0


def prefix_in_segments_of_its_own():
    connection = begin(PREFIX[:1], PREFIX[1:4], PREFIX[4:], MESSAGES[0])
    connection.send(45, MESSAGES[3], back=True)
    return connection, 42.0


CASES = (
    without_retransmission,
    last_response_again,
    first_response_again,
    first_part_of_the_last_response_again,
    last_response_again_with_the_next_message,
    prefix_in_two_segments,
    prefix_in_segments_of_its_own,
)
each_case = pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)


@pytest.mark.usefixtures("implementation")
@each_case
def test_reports_have_the_set_up_time(make):
    connection, expected = make()
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert (row["outcome"], row["setup_ns"] / 1e6) == ("completed", expected)


@pytest.mark.turns
@each_case
def test_the_plugin_has_the_set_up_time(make, tshark):
    connection, expected = make()
    (row,) = list_handshakes(tshark, connection)
    assert (row[13], float(row[12])) == ("completed", expected)


@pytest.mark.turns
@pytest.mark.parametrize("make", CASES[-2:], ids=lambda make: make.__name__)
def test_segments_of_the_prefix_alone_are_of_no_message(make, tshark):
    """A segment that begins a message counts whole, with the rest of the prefix."""
    connection, _ = make()
    rest = len(PREFIX[3:]) if make is prefix_in_two_segments else 0
    size = len(MESSAGES[0]) + rest + len(MESSAGES[2]) + 2 * OVERHEAD
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert (row["initiator_frames"], row["initiator_bytes"]) == (2, size)
    (shown,) = list_handshakes(tshark, connection)
    assert shown[6:8] == ["2", str(size)]


def request_again_with_the_next_one():
    """The repeated request has two frames then, and the next one another one."""
    connection = Connection()
    connection.send(0, PREFIX + MESSAGES[0])
    connection.send(20, MESSAGES[1], back=True)
    connection.repeat(25, PREFIX + MESSAGES[0] + MESSAGES[2], 1, back=False)
    connection.send(45, MESSAGES[3], back=True)
    return connection, 3, 2, 45.0


def end_of_the_response_again_with_the_next_one():
    connection = begin(PREFIX + MESSAGES[0])
    connection.repeat(45, MESSAGES[1][-50:] + MESSAGES[3], 1 + len(MESSAGES[1]) - 50)
    return connection, 2, 3, 45.0


def part_of_a_response_again_with_the_rest():
    connection = begin(PREFIX + MESSAGES[0])
    connection.repeat(45, MESSAGES[3][:60], connection.sequence[True])
    connection.repeat(300, MESSAGES[3], connection.sequence[True])
    return connection, 2, 3, 300.0


def request_out_of_order():
    """Its second segment comes after the third one, and the first one comes again."""
    connection = Connection()
    parts = [(PREFIX + MESSAGES[0])[at : at + 100] for at in range(0, len(PREFIX + MESSAGES[0]), 100)]
    assert len(parts) == 3
    for time, part in ((0, 0), (1, 2), (2, 1), (4, 0)):
        connection.repeat(time, parts[part], 1 + part * 100, back=False)
    connection.sequence[False] += sum(map(len, parts))
    connection.send(20, MESSAGES[1], back=True)
    connection.send(25, MESSAGES[2])
    connection.send(45, MESSAGES[3], back=True)
    return connection, 5, 2, 45.0


def without_syn_and_out_of_order():
    connection = Connection(syn=False)
    connection.repeat(0, MESSAGES[0][100:], 101, back=False)
    connection.repeat(1, MESSAGES[0][:100], 1, back=False)
    connection.sequence[False] += len(MESSAGES[0])
    connection.send(20, MESSAGES[1], back=True)
    connection.send(25, MESSAGES[2])
    connection.send(45, MESSAGES[3], back=True)
    return connection, 3, 2, 45.0


SHARED = (
    request_again_with_the_next_one,
    end_of_the_response_again_with_the_next_one,
    part_of_a_response_again_with_the_rest,
    request_out_of_order,
    without_syn_and_out_of_order,
)
each_shared_case = pytest.mark.parametrize("make", SHARED, ids=lambda make: make.__name__)


@pytest.mark.usefixtures("implementation")
@each_shared_case
def test_reports_count_each_segment_for_its_messages(make):
    connection, initiator, responder, expected = make()
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert [row[f"{side}_messages"] for side in ("initiator", "responder")] == [2, 2]
    assert (row["initiator_frames"], row["initiator_bytes"]) == (initiator, connection.sent[False])
    assert (row["responder_frames"], row["responder_bytes"]) == (responder, connection.sent[True])
    assert (row["outcome"], row["setup_ns"] / 1e6) == ("completed", expected)


@pytest.mark.turns
@each_shared_case
def test_the_plugin_counts_each_segment_for_its_messages(make, tshark):
    """Without the preference of Wireshark that its own reassembly needs for this."""
    connection, initiator, responder, expected = make()
    (row,) = list_handshakes(tshark, connection)
    frames = [str(initiator), str(connection.sent[False]), "2", str(responder), str(connection.sent[True])]
    assert row[5:11] == ["2", *frames]
    assert (row[13], float(row[12])) == ("completed", expected)


def lack_a_byte_of_a_length(place):
    """The first or second byte of a message's length, 0 and 71, is not in the capture; other messages follow."""
    connection, expected = without_retransmission()
    first = connection.sequence[True]
    if place:
        connection.repeat(46, LATER[:place], first)
    connection.repeat(47, LATER[place + 1 :], first + place + 1)
    connection.sequence[True] += len(LATER)
    for time in range(4):
        connection.send(100 + time, LATER, back=True)
    return connection, expected


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("place", [0, 1])
def test_reports_go_on_after_a_message_without_its_length(place):
    connection, expected = lack_a_byte_of_a_length(place)
    analysis = ikeanalyze.read(connection.trace.pcap())
    (row,) = analysis.handshakes.iter_rows(named=True)
    assert (row["outcome"], row["setup_ns"] / 1e6) == ("completed", expected)
    assert analysis.captures[0].accounting["ike"] == len(MESSAGES) + 4


@pytest.mark.turns
@pytest.mark.parametrize("place", [0, 1])
def test_the_plugin_goes_on_after_a_message_without_its_length(place, tshark):
    connection, expected = lack_a_byte_of_a_length(place)
    (row,) = list_handshakes(tshark, connection)
    assert (row[13], float(row[12])) == ("completed", expected)


def segment_quoted_by_an_icmp_error():
    """The request for IKE_AUTH is too big for the path."""
    hosts = "2001:db8::1", "2001:db8::2"
    connection = begin(PREFIX + MESSAGES[0], hosts=hosts)
    quoted = transport.tcp_packet(MESSAGES[2], *PORTS, 1 + len(PREFIX + MESSAGES[0]), 1, transport.ACK, *hosts)
    connection.trace.ip(26 * MS, transport.icmp_error(quoted, *hosts[::-1], mtu=1280))
    return connection


def damage(changes, *, flags=transport.ACK):
    """The request for IKE_AUTH comes again, with other bytes at these offsets of its IP packet."""
    connection = begin(PREFIX + MESSAGES[0])
    packet = bytearray(transport.tcp_packet(MESSAGES[2], *PORTS, 1 + len(PREFIX + MESSAGES[0]), 1, flags))
    for offset, values in changes.items():
        packet[offset : offset + len(values)] = values
    connection.trace.ip(300 * MS, bytes(packet))
    return connection


def header_shorter_than_a_tcp_header():
    return damage({20 + 12: b"\x40"})


def header_longer_than_its_packet():
    """Its flags say that it begins another connection."""
    return damage({2: b"\0\x30", 20 + 12: b"\xf0"}, flags=transport.SYN)


def first_fragment_of_a_segment():
    """It is the only one; the segment has no IP fragments otherwise."""
    return damage({6: b"\x20\0"})


UNREAD = (
    segment_quoted_by_an_icmp_error,
    header_shorter_than_a_tcp_header,
    header_longer_than_its_packet,
    first_fragment_of_a_segment,
)
each_unread_case = pytest.mark.parametrize("make", UNREAD, ids=lambda make: make.__name__)


@pytest.mark.usefixtures("implementation")
@each_unread_case
def test_reports_count_no_segments_that_are_quoted_or_invalid(make):
    connection = make()
    connection.send(345, MESSAGES[3], back=True)
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert (row["initiator_frames"], row["initiator_bytes"]) == (2, connection.sent[False])
    assert (row["outcome"], row["setup_ns"] / 1e6) == ("completed", 345.0)


@pytest.mark.turns
@each_unread_case
def test_the_plugin_counts_no_segments_that_are_quoted_or_invalid(make, tshark):
    connection = make()
    connection.send(345, MESSAGES[3], back=True)
    (row,) = list_handshakes(tshark, connection)
    assert row[6:8] == ["2", str(connection.sent[False])]
    assert (row[13], float(row[12])) == ("completed", 345.0)


def test_a_length_beyond_the_frame_ends_with_the_frame(tshark):
    """The IP header is damaged; the segment has the bytes that its frame has."""
    connection = begin(PREFIX + MESSAGES[0])
    sequence, (first, rest) = connection.sequence[True], (MESSAGES[3][:60], MESSAGES[3][60:])
    packet = bytearray(transport.tcp_packet(first, *PORTS[::-1], sequence, 1, transport.ACK, *HOSTS[::-1]))
    packet[2:4] = (1400).to_bytes(2)
    connection.trace.ip(45 * MS, bytes(packet))
    connection.repeat(46, rest, sequence + len(first))
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert (row["outcome"], row["setup_ns"] / 1e6) == ("completed", 46.0)
    (shown,) = list_handshakes(tshark, connection)
    assert (shown[13], float(shown[12])) == ("completed", 46.0)


def requests_of_many_messages_again():
    """The 256th and 257th message of the initiator come again in one segment, whose headers count for the former."""
    connection = Connection()
    connection.send(0, PREFIX + MESSAGES[0])
    connection.send(20, MESSAGES[1], back=True)
    esp = transport.tcp_framed_esp(transport.esp(0x1000, 1, b""))
    for _ in range(2):
        connection.send(21, esp * 127)
    connection.send(25, MESSAGES[2])
    connection.send(45, MESSAGES[3], back=True)
    connection.send(50, LATER)
    connection.repeat(300, MESSAGES[2] + LATER, connection.sequence[False] - len(MESSAGES[2] + LATER), back=False)
    return connection, len(PREFIX + MESSAGES[0] + MESSAGES[2] * 2) + 3 * OVERHEAD


@pytest.mark.usefixtures("implementation")
def test_reports_count_headers_for_the_first_of_many_messages():
    connection, expected = requests_of_many_messages_again()
    (row,) = ikeanalyze.read(connection.trace.pcap()).handshakes.iter_rows(named=True)
    assert (row["initiator_frames"], row["initiator_bytes"]) == (3, expected)


def test_the_plugin_counts_headers_for_the_first_of_many_messages(tshark):
    connection, expected = requests_of_many_messages_again()
    (row,) = list_handshakes(tshark, connection)
    assert row[6:8] == ["3", str(expected)]


@pytest.mark.turns
@each_shared_case
def test_segments_count_alike_while_the_capture_is_read(make, tshark):
    """The fields of each packet are needed before the next one is read."""
    connection = make()[0]
    listing = "-Y", "ikex", "-Tfields", "-e", "ikex.exchange"
    assert list_handshakes(tshark, connection, *listing) == list_handshakes(tshark, connection)


def without_a_segment():
    """The capture lacks the first of three responses after the set-up, and the end of the fourth request."""
    connection = begin(PREFIX + MESSAGES[0])
    connection.send(45, MESSAGES[3], back=True)
    for number in range(4):
        request, response = (transport.tcp_framed(message.ike[0]) for message in HANDSHAKE.informational())
        connection.send(100 + 10 * number, request[:-10] if number == 3 else request)
        if number == 0:
            connection.sequence[True] += len(response)
        elif number < 3:
            connection.send(105 + 10 * number, response, back=True)
    connection.trace.ip(600 * MS, transport.tcp_packet(b"", *PORTS, 70_000, 0, transport.SYN, *HOSTS))
    return connection.trace.pcap()


def test_messages_after_a_missing_segment_are_shown_in_their_own_frames(tshark):
    shown = fields(tshark, without_a_segment(), "frame.number", "ikex.exchange", "ikex.kind")
    assert shown == [
        ["3", "IKE_SA_INIT", "request"],
        ["4", "IKE_SA_INIT", "response"],
        ["5", "IKE_AUTH", "request"],
        ["6", "IKE_AUTH", "response"],
        ["7", "INFORMATIONAL", "request"],
        ["8", "INFORMATIONAL", "request"],
        ["9", "INFORMATIONAL", "response"],
        ["10", "INFORMATIONAL", "request"],
        ["11", "INFORMATIONAL", "response"],
        ["12", "INFORMATIONAL", "request"],
    ]


def test_clear_payloads_of_a_truncated_message_are_shown(tshark):
    """The frames of IKE_SA_INIT are truncated within KE, the second payload."""
    connection = begin(PREFIX + MESSAGES[0])
    connection.send(45, MESSAGES[3], back=True)
    shown = fields(tshark, connection.trace.pcap(snaplen=200), "ikex.payload", only="ikex.exchange == 34")
    assert shown == [["SA"], ["SA"]]


def test_details_name_segments_and_not_fragments(tshark):
    """Of a message in two segments, and of one whose end is not in the capture."""
    connection = begin((PREFIX + MESSAGES[0])[:100], (PREFIX + MESSAGES[0])[100:])
    connection.send(45, MESSAGES[3][:-10], back=True)
    shown = tree(tshark, connection.trace.pcap())
    assert ": TCP segment of an IKE message" in shown
    assert "[Part of the message in: 4]" in shown
    assert "TCP segments of the message are not in the capture, or truncated" in shown
    assert "IP fragment" not in shown


def list_handshakes(tshark, connection, *listing):
    """Of the statistics; `listing`: what tshark prints before them, nothing by default."""
    lines = run_plugin(tshark, connection.trace.pcap(), *(listing or ["-q"]), "-z", "ikex,handshakes").lines
    return [line.split() for line in lines if line.startswith("  1 ")]
