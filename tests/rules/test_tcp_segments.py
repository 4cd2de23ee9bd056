"""A set-up in TCP ends with the segments that first had its bytes, in Python, the core and the plugin (RFC 9329)."""

import pytest

import ikeanalyze
from tests.craft import MS, Handshake, Trace, transport
from tests.dissectors.run_plugin import run_plugin

HOSTS = "192.0.2.1", "192.0.2.2"
PORTS = 40000, 4500
OVERHEAD = 14 + 20 + 20  # Ethernet, IPv4, TCP
HANDSHAKE = Handshake(1)
MESSAGES = [transport.tcp_framed(message.ike[0]) for message in HANDSHAKE.setup()]
LATER = transport.tcp_framed(HANDSHAKE.informational()[0].ike[0])
PREFIX = transport.TCP_PREFIX


class Connection:
    """A TCP connection in the making, whose first segment with data comes at 0."""

    def __init__(self, *, syn=True):
        self.trace = Trace()
        self.sequence = {False: 1, True: 1}  # of the responder's segments: True
        self.sent = {False: 0, True: 0}  # bytes of the frames with data
        if not syn:
            return
        self.trace.ip(-2 * MS, transport.tcp_packet(b"", *PORTS, 0, flags=transport.SYN))
        both = transport.SYN | transport.ACK
        self.trace.ip(-MS, transport.tcp_packet(b"", *PORTS[::-1], 0, 1, both, *HOSTS[::-1]))

    def send(self, time, data, *, back=False):
        self.repeat(time, data, self.sequence[back], back=back)
        self.sequence[back] += len(data)

    def repeat(self, time, data, sequence, *, back=True):
        hosts, ports = (HOSTS[::-1], PORTS[::-1]) if back else (HOSTS, PORTS)
        self.sent[back] += OVERHEAD + len(data)
        self.trace.ip(time * MS, transport.tcp_packet(data, *ports, sequence, 1, transport.ACK, *hosts))


def begin(*first):
    """The initiator's first message in these parts, a millisecond apart, and the other three messages but the last."""
    connection = Connection()
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


def list_handshakes(tshark, connection):
    lines = run_plugin(tshark, connection.trace.pcap(), "-q", "-z", "ikex,handshakes").lines
    return [line.split() for line in lines if line.split()[:1] == ["1"]]
