"""Frames that a capture holds twice, told from those that were sent twice."""

import polars as pl
import pytest

from tests.analysis.analyse_captures import Handshake, analyse, only, size
from tests.craft import MS, SECOND, Interface, Trace, ipv4, ipv6, udp
from tests.craft.link import ethernet


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
    request = handshake.sealed(35, 3000, message_id=1)
    answer = handshake.sealed(35, 100, message_id=1, from_initiator=False, response=True)
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
