"""Frames that a capture holds twice, told from those that were sent twice."""

import shutil
import subprocess

import polars as pl
import pytest

from tests.analysis.analyse_captures import Handshake, analyse, only, size
from tests.craft import MS, SECOND, Interface, Trace, ipv4, ipv6, udp
from tests.craft.link import ethernet
from tests.paths import CAPTURES


def frame(message, *, ident, ttl=64, sport=None, vlans=(), source=None, part=0):
    """An Ethernet frame of a message's datagram."""
    address = source or message.source
    port = message.sport if sport is None else sport
    payload = udp(message.datagrams[part], port, message.dport, address, message.destination)
    if ":" in address:
        packet = ipv6(payload, address, message.destination, hop_limit=ttl)
    else:
        packet = ipv4(payload, address, message.destination, ident=ident, ttl=ttl)
    return ethernet(packet, vlans=vlans)


def seen_twice(messages, later=20_000, **second):
    """Each message once more, so many ns later."""
    trace = Trace()
    for place, message in enumerate(messages):
        trace.add(place * 10 * MS, frame(message, ident=100 + place), interface=0)
        trace.add(place * 10 * MS + later, frame(message, ident=100 + place, **second), interface=1)
    return trace


TWO = (Interface(name="lan"), Interface(name="wan"))


@pytest.mark.parametrize(
    "second",
    [{}, {"ttl": 63}, {"vlans": [(0x8100, 7)]}, {"ttl": 63, "source": "203.0.113.5", "sport": 40000}],
    ids=["interface", "ttl", "vlan", "nat"],
)
def test_a_frame_seen_on_two_interfaces_was_sent_once(second):
    messages = Handshake(1).setup()
    trace = seen_twice(messages, **second)
    analysis = analyse(trace.pcapng(interfaces=TWO))
    row = only(analysis)
    assert row["capture_duplicates"] == 4
    assert (row["retransmitted_messages"], row["blowup"], row["initiator_messages"]) == (0, 1.0, 2)
    assert row["initiator_bytes"] + row["responder_bytes"] == size(*messages)
    assert analysis.frames["capture_duplicate"].to_list() == [False, True] * 4
    # flagged, but not lost: they are counted as IKE and belong to the message that they repeat
    assert analysis.captures[0].accounting["ike"] == 8
    assert analysis.frames["message"].to_list() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert analysis.frames["handshake"].to_list() == [1] * 8


def test_ipv6_has_no_identification():
    messages = Handshake(1, initiator="2001:db8::1", responder="2001:db8::2").setup()
    row = only(analyse(seen_twice(messages, ttl=63).pcapng(interfaces=TWO)))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (4, 0)


def test_a_retransmission_may_have_the_same_identification():
    messages = Handshake(1).setup()
    trace = Trace()
    trace.add(0, frame(messages[0], ident=7))
    trace.add(500 * MS, frame(messages[0], ident=7))
    trace.play(messages[1:], at=501 * MS)
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (0, 1)
    assert not analysis.frames["capture_duplicate"].any()


@pytest.mark.parametrize("addresses", [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")])
def test_two_answers_at_once_are_a_retransmission(addresses):
    """A responder that was busy answers both transmissions of the request within microseconds."""
    request, response, *auth = Handshake(1, initiator=addresses[0], responder=addresses[1]).setup()
    trace = Trace()
    for time, message in (
        (0, request),
        (SECOND, request),
        (2 * SECOND, response),
        (2 * SECOND + 50_000, response),
    ):
        trace.add(time, frame(message, ident=0))
    trace.play(auth, at=3 * SECOND)
    row = only(analyse(trace))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (0, 2)
    assert (row["initiator_messages"], row["responder_messages"]) == (3, 3)


def test_two_answers_at_once_with_identifications_of_their_own():
    request, response, *auth = Handshake(1).setup()
    trace = Trace()
    for time, ident, message in (
        (0, 1, request),
        (SECOND, 2, request),
        (2 * SECOND, 1, response),
        (2 * SECOND + 50_000, 2, response),
    ):
        trace.add(time, frame(message, ident=ident))
    trace.play(auth, at=3 * SECOND)
    row = only(analyse(trace))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (0, 2)


def test_each_transmission_has_its_own_duplicate():
    messages = Handshake(1).setup()
    trace = Trace()
    for time, ident in ((0, 1), (SECOND, 2), (3 * SECOND, 3)):
        trace.add(time, frame(messages[0], ident=ident))
        trace.add(time + 10_000, frame(messages[0], ident=ident, ttl=63))
    trace.play(messages[1:], at=4 * SECOND)
    analysis = analyse(trace)
    row = only(analysis)
    assert (row["capture_duplicates"], row["retransmitted_messages"], row["initiator_messages"]) == (3, 2, 4)
    assert analysis.frames["message"].to_list() == [0, 0, 1, 1, 2, 2, 3, 4, 5]


def test_three_sightings_are_two_duplicates():
    messages = Handshake(1).setup()
    trace = seen_twice(messages, ttl=63)
    for place, message in enumerate(messages):
        trace.add(place * 10 * MS + 60_000, frame(message, ident=100 + place, ttl=62))
    row = only(analyse(trace))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (8, 0)


def test_duplicates_of_fragments():
    handshake = Handshake(2)
    messages = handshake.setup(auth=(3, 3))
    trace = Trace()
    ident = 0
    for place, message in enumerate(messages):
        for part in range(len(message.datagrams)):
            ident += 1
            time = place * 10 * MS + part * 30_000
            trace.add(time, frame(message, ident=ident, part=part))
            trace.add(time + 15_000, frame(message, ident=ident, part=part, ttl=63))
    row = only(analyse(trace))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (8, 0)
    assert (row["ike_fragments"], row["blowup"]) == (6, 1.0)


@pytest.mark.parametrize("retransmitted", [False, True])
def test_duplicates_of_ip_fragments(retransmitted):
    handshake = Handshake(3)
    start = handshake.init()
    request = handshake.encrypted(35, 3000, message_id=1)
    answer = handshake.encrypted(35, 100, message_id=1, from_initiator=False, response=True)
    trace = Trace()
    trace.play(start)
    for seconds in (1, 2) if retransmitted else (1,):
        packets = trace.message(seconds * SECOND, request)
        # TTL: byte 8 of the IP header; IPv4's checksum is not looked at
        for packet in packets:
            data = bytearray(packet.data)
            data[14 + 8] -= 1
            trace.add(packet.time_ns - trace.start_ns + 5_000, bytes(data))
    trace.play([answer], at=3 * SECOND)
    analysis = analyse(trace)
    row = only(analysis)
    copies = 2 if retransmitted else 1
    assert len(packets) == 3
    assert row["capture_duplicates"] == 3 * copies
    assert row["retransmitted_messages"] == copies - 1
    assert row["initiator_frames"] == 1 + 3 * copies
    own = analysis.frames.filter(pl.col("message_id") == 1, pl.col("source") == "192.0.2.1")
    assert own["message"].to_list() == [2] * 6 + [3] * 6 * (copies - 1)


def test_the_law_of_packets_holds_with_duplicates():
    messages = Handshake(1).setup()
    trace = seen_twice(messages, ttl=63)
    capture = analyse(trace).captures[0]
    assert capture.packets == 8
    assert capture.accounting_bytes["ike"] == 2 * size(*messages)


IPV6 = ("2001:db8::1", "2001:db8::2")
DOUBLED = "the capture has every message at least twice, as a mirror port or a capture of several interfaces does: "


def mirrored(messages, copies=2):
    """A mirror port of both directions shows every frame again after 5 µs, on the same interface, byte for byte."""
    trace = Trace()
    for place, message in enumerate(messages):
        for copy in range(copies):
            trace.add(place * 10 * MS + copy * 5_000, frame(message, ident=0))
    return trace


@pytest.mark.parametrize("addresses", [("192.0.2.1", "192.0.2.2"), IPV6])
@pytest.mark.parametrize("copies", [2, 3])
def test_a_mirror_port_without_identifications_shows_both_directions_twice(addresses, copies):
    messages = Handshake(1, initiator=addresses[0], responder=addresses[1]).setup()
    plain = only(analyse(mirrored(messages, copies=1)))
    analysis = analyse(mirrored(messages, copies))
    row = only(analysis)
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (4 * (copies - 1), 0)
    names = ("initiator_bytes", "responder_bytes", "initiator_messages", "responder_messages", "blowup", "setup_ns")
    assert [row[name] for name in names] == [plain[name] for name in names]
    # an odd number of copies is not what a mirror port makes: it is counted right, and not named
    assert [warning.message for warning in analysis.warnings] == [f"{DOUBLED}the copies are not counted"] * (
        copies == 2
    )


def test_two_answers_at_once_on_a_mirror_port_are_two():
    request, response, *auth = Handshake(1, initiator=IPV6[0], responder=IPV6[1]).setup()
    trace = Trace()
    sent = [(0, request), (SECOND, request), (2 * SECOND, response), (2 * SECOND + 50_000, response)]
    sent += [(3 * SECOND + place * 10 * MS, message) for place, message in enumerate(auth)]
    for time, message in sent:
        trace.add(time, frame(message, ident=0))
        trace.add(time + 5_000, frame(message, ident=0))
    row = only(analyse(trace))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (6, 2)
    assert (row["initiator_messages"], row["responder_messages"]) == (3, 3)


def test_a_link_that_duplicated_one_request_is_not_a_mirror_port():
    """Its responder answers both copies, and both answers were sent."""
    request, response, *auth = Handshake(1, initiator=IPV6[0], responder=IPV6[1]).setup()
    trace = Trace()
    others = Handshake(2, initiator=IPV6[0], responder=IPV6[1]).setup()
    for place, message in enumerate([request, response, *auth, *others]):
        trace.add(place * 10 * MS, frame(message, ident=0))
    for place, message in ((0, request), (1, response)):
        trace.add(place * 10 * MS + 300_000, frame(message, ident=0))
    analysis = analyse(trace)
    assert analysis.handshakes["capture_duplicates"].to_list() == [1, 0]
    assert analysis.handshakes["retransmitted_messages"].to_list() == [1, 0]


@pytest.mark.parametrize("delay", [3 * MS, 300 * MS])
def test_a_capture_merged_of_two_points_has_each_frame_once(delay):
    """No router is between the points, so that TTLs are equal; the responder's point sees its messages first."""
    messages = Handshake(1).setup()
    trace = Trace()
    # the IKE_AUTH request is lost once between the points, and sent again
    for ident, time, message, arrives in (
        (1, 0, messages[0], True),
        (2, 400 * MS, messages[1], True),
        (3, 800 * MS, messages[2], False),
        (4, 4800 * MS, messages[2], True),
        (5, 5200 * MS, messages[3], True),
    ):
        first = 0 if message.from_initiator else 1
        trace.add(time, frame(message, ident=ident), interface=first)
        if arrives:
            trace.add(time + delay, frame(message, ident=ident), interface=1 - first)
    row = only(analyse(trace.pcapng(interfaces=TWO)))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (4, 1)


def test_copies_above_the_retransmission_timer_are_not_recognised_but_named():
    """An identification that another interface shows again half a second later may be a retransmission's."""
    messages = Handshake(1).setup()
    trace = seen_twice(messages, later=500 * MS)
    row = only(analyse(trace.pcapng(interfaces=TWO)))
    assert (row["capture_duplicates"], row["retransmitted_messages"]) == (0, 4)


UNCERTAIN = (
    "the times of a set-up are uncertain: requests were repeated and the repeats answered: the round trip may exceed the "
    "retransmission timer. Set the side of the capture and the round-trip time of the path with --vantage SIDE --rtt MS"
)


def warnings(analysis):
    return [warning.message for warning in analysis.warnings]


def test_messages_that_are_all_there_twice_without_proof_are_warned_of():
    """Two points, merged, without identifications, and further apart than a machine takes."""
    trace = Trace()
    for place, message in enumerate(Handshake(1, initiator=IPV6[0], responder=IPV6[1]).setup()):
        trace.add(place * 10 * MS, frame(message, ident=0), interface=0)
        trace.add(place * 10 * MS + 3 * MS, frame(message, ident=0), interface=1)
    analysis = analyse(trace.pcapng(interfaces=TWO))
    assert only(analysis)["retransmitted_messages"] == 4
    assert warnings(analysis) == [
        f"{DOUBLED}these look like retransmissions and are counted. Read a capture of one point instead",
        UNCERTAIN,
    ]


@pytest.mark.parametrize(
    ("idents", "ttls", "warned"),
    [
        ((1, 2), (64, 64), False),  # a sender with a timer of 0.3 s
        ((1, 2), (64, 63), True),  # a firewall that changes identifications (pf: random-id), on both sides of it
        ((1, 1), (64, 64), True),
        ((0, 0), (64, 64), True),  # of a sender without identifications, nothing tells
    ],
)
def test_messages_with_other_identifications_on_the_same_path_are_no_copies(idents, ttls, warned):
    trace = Trace()
    for place, message in enumerate(Handshake(1).setup()):
        for copy, (ident, ttl) in enumerate(zip(idents, ttls, strict=True)):
            trace.add(place * SECOND + copy * 300 * MS, frame(message, ident=ident and 2 * place + ident, ttl=ttl))
    analysis = analyse(trace)
    assert only(analysis)["retransmitted_messages"] == 4
    assert any(text.startswith(DOUBLED) for text in warnings(analysis)) is warned


def test_a_capture_in_which_everything_was_retransmitted_once_is_not_warned_of():
    trace = Trace()
    for place, message in enumerate(Handshake(1).setup()):
        trace.add(place * SECOND, frame(message, ident=2 * place + 1))
        trace.add(place * SECOND + 500 * MS, frame(message, ident=2 * place + 2))
    analysis = analyse(trace)
    assert only(analysis)["retransmitted_messages"] == 4
    assert warnings(analysis) == [UNCERTAIN]


COUNTED = ("initiator_messages", "responder_messages", "retransmitted_messages", "retransmitted_bytes", "blowup")


def merged(tmp_path, capture, seconds, mode):
    """A recording with a copy of itself so much later, on the same interface ("all") or on a second one ("none")."""
    later, both = tmp_path / "later.pcapng", tmp_path / "both.pcapng"
    subprocess.run(["editcap", "-t", seconds, capture, later], check=True)
    subprocess.run(["mergecap", "-I", mode, "-w", both, capture, later], check=True)
    return both.read_bytes()


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("mergecap"), reason="mergecap is not installed")
@pytest.mark.parametrize(
    ("name", "seconds", "mode"),
    [("lab/ipv6.pcapng", "0.000005", "all"), ("loss20-classic.pcap", "0.003", "none")],
    ids=["mirror", "two-points"],
)
def test_a_recording_with_every_frame_twice_counts_as_the_recording(tmp_path, name, seconds, mode):
    plain = analyse((CAPTURES / name).read_bytes())
    double = analyse(merged(tmp_path, CAPTURES / name, seconds, mode))
    assert double.handshakes.select(COUNTED).equals(plain.handshakes.select(COUNTED))
    assert double.frames["capture_duplicate"].sum() == plain.frames.height
