"""Rows of messages: what one transmission took."""

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from ikeanalyze import core
from ikeanalyze.analysis.messages.association import SaAssociation
from ikeanalyze.analysis.messages.datagrams import Datagrams
from ikeanalyze.analysis.messages.messages import group_messages
from tests.analysis.analyse_captures import Handshake, analyse, at, only, rows, size, sizes, timed
from tests.craft import MS, SECOND, Trace, ike, ip_fragments, link, udp_packet
from tests.craft.transport import ACK, PSH, SYN, TCP_PREFIX, tcp_framed, tcp_packet


def test_a_message_in_fragments_is_one_row():
    handshake = Handshake(1)
    trace = Trace()
    trace.play(handshake.init())
    request, response = handshake.auth(fragments=(3, 1))
    trace.message(100 * MS, request, gap=2 * MS)
    trace.message(120 * MS, response)
    row = analyse(trace).messages.row(2, named=True)
    assert (row["frames"], row["bytes"], row["needed_bytes"]) == (3, size(request), size(request))
    assert (row["fragments"], row["fragments_seen"], row["ip_fragments"]) == (3, 3, 0)
    assert (row["first_frame"], row["first_ns"], row["last_ns"]) == (3, at(100), at(104))
    assert (row["type"], row["sender"], row["kind"], row["message_id"]) == (
        "IKE_AUTH",
        "initiator",
        "request",
        1,
    )
    assert row["decrypted"] is None


def test_the_digest_tells_whether_two_messages_are_the_same():
    handshake = Handshake(1)
    start = handshake.init()
    request, response = handshake.auth(fragments=(3, 1))
    trace = Trace()
    trace.play(start)
    trace.message(100 * MS, request)
    # fragments in another order, and a different message later
    for place, number in enumerate((3, 1, 2)):
        trace.message((1000 + place) * MS, request, only=[number], gap=0)
    trace.message(1100 * MS, response)
    trace.play(handshake.informational(), at=1200 * MS)
    messages = analyse(trace).messages
    digests = messages.filter(pl.col("sender") == "initiator")["digest"].to_list()
    assert digests[1] == digests[2]
    assert len(set(digests)) == 3


def test_an_incomplete_transmission_has_what_was_seen():
    handshake = Handshake(1)
    handshake.init()
    request, _ = handshake.auth(fragments=(4, 1))
    trace = Trace()
    trace.message(0, request, only=[2, 4])
    row = analyse(trace).messages.row(0, named=True)
    assert (row["fragments"], row["fragments_seen"], row["frames"]) == (4, 2, 2)
    assert row["bytes"] == sizes(request)[1] + sizes(request)[3]


def test_messages_stand_in_order_of_time():
    first, second = Handshake(1), Handshake(2, initiator="192.0.2.3")
    messages = list(zip(first.setup(), second.setup(), strict=True))
    trace = timed(*((place * 10, pair[0]) for place, pair in enumerate(messages)))
    for place, pair in enumerate(messages):
        trace.message((place * 10 + 5) * MS, pair[1])
    result = analyse(trace).messages
    assert result["handshake"].to_list() == [1, 2] * 4
    assert result["message"].to_list() == list(range(8))
    assert result["first_frame"].to_list() == list(range(1, 9))


def test_a_message_inside_tcp_is_one_row():
    handshake = Handshake(1, switch=False)
    first, answer = handshake.init()
    stream = TCP_PREFIX + tcp_framed(first.datagrams[0])
    trace = Trace()
    trace.ip(0, tcp_packet(b"", 40000, 4500, 0, flags=SYN))
    # the message in two segments
    trace.ip(MS, tcp_packet(stream[:100], 40000, 4500, 1, flags=ACK | PSH))
    trace.ip(2 * MS, tcp_packet(stream[100:], 40000, 4500, 101, flags=ACK | PSH))
    back = tcp_framed(answer.datagrams[0])
    trace.ip(3 * MS, tcp_packet(back, 4500, 40000, 1, 1, ACK | PSH, "192.0.2.2", "192.0.2.1"))
    messages = analyse(trace).messages
    assert rows(messages, "type", "kind", "frames") == [
        ("IKE_SA_INIT", "request", 2),
        ("IKE_SA_INIT", "response", 1),
    ]
    around = 14 + 20 + 20
    # the prefix has no row of its own: its bytes are the first message's
    assert messages["bytes"].to_list() == [2 * around + len(stream), around + len(back)]


def test_ids_of_type_and_sender():
    handshake = Handshake(1)
    trace = Trace()
    trace.play([*handshake.setup(), *handshake.followup_ke(by_initiator=False)])
    messages = analyse(trace).messages
    assert rows(messages, "type", "sender", "kind", "set_up")[-2:] == [
        ("IKE_FOLLOWUP_KE", "responder", "request", False),
        ("IKE_FOLLOWUP_KE", "initiator", "response", False),
    ]
    assert set(messages["exchange"]) == {0, 1, 2}
    assert ike.IKE_FOLLOWUP_KE == 44


def test_a_message_that_lacks_a_fragment_in_all_its_transmissions_is_warned_of():
    def warned(*transmissions):
        trace = Trace()
        shake = Handshake(5)
        trace.play(shake.init())
        request, _ = shake.auth(fragments=(3, 1))
        for number, some in enumerate(transmissions, 1):
            trace.message(number * 1000 * MS, request, only=some)
        return [warning.message for warning in analyse(trace).warnings]

    assert warned([1, 3]) == ["a message lacks fragments that are not in the capture: counted with those that are"]
    # what one transmission lacks, another one has
    assert warned([1, 3], [1, 2]) == []


def test_what_tcp_sends_again_is_not_needed():
    """Of three segments one is sent twice: the message is one, and its bytes are more than it needs."""
    first, answer, *_ = Handshake(1, switch=False).setup()
    trace = Trace()
    stream = TCP_PREFIX + tcp_framed(first.datagrams[0])
    trace.ip(0, tcp_packet(b"", 40000, 4500, 0, flags=SYN))
    pieces = [(0, 100), (100, 200), (100, 200), (200, len(stream))]
    for number, (begin, end) in enumerate(pieces):
        trace.ip(number * 300 * MS, tcp_packet(stream[begin:end], 40000, 4500, 1 + begin, flags=ACK | PSH))
    back = tcp_framed(answer.datagrams[0])
    trace.ip(2 * SECOND, tcp_packet(back, 4500, 40000, 1, 1 + len(stream), ACK | PSH, "192.0.2.2", "192.0.2.1"))
    row = only(analyse(trace))
    headers = 14 + 20 + 20
    needed = 3 * headers + len(stream) + headers + len(back)
    assert row["initiator_bytes"] + row["responder_bytes"] == needed + headers + 100
    assert row["blowup"] == (needed + headers + 100) / needed
    assert (row["initiator_messages"], row["initiator_frames"], row["retransmitted_messages"]) == (1, 4, 0)


def test_ip_fragments_that_the_network_doubled_are_not_needed():
    """As a link does that doubles packets and delays them unevenly."""
    request, _ = Handshake(1, notifies=[ike.notify(40000, bytes(3000))]).init()
    frames = [link.ethernet(part) for part in ip_fragments(udp_packet(request.datagrams[0]), 1280, 7)]
    assert len(frames) == 3
    trace = Trace()
    for number, place in enumerate((0, 1, 0, 2)):
        trace.add(number * 5 * MS, frames[place])
    row = only(analyse(trace))
    needed = sum(map(len, frames))
    assert (row["initiator_messages"], row["initiator_frames"]) == (1, 4)
    assert row["initiator_bytes"] == needed + len(frames[0])
    assert row["blowup"] == (needed + len(frames[0])) / needed


def test_who_has_all_fragments_does_not_wait_for_doubled_ones():
    """The last response is whole after its third fragment; the one that comes again later is only sent."""
    shake = Handshake(1, switch=False)
    trace = Trace()
    for number, message in enumerate((*shake.init(), shake.encrypted(ike.IKE_AUTH, 100))):
        trace.message(number * 100 * MS, message)
    answer = shake.encrypted(ike.IKE_AUTH, 3000, from_initiator=False, response=True, message_id=1)
    packet = udp_packet(answer.datagrams[0], 500, 500, "192.0.2.2", "192.0.2.1")
    frames = [link.ethernet(part) for part in ip_fragments(packet, 1280, 7)]
    assert len(frames) == 3
    for time, place in ((300, 0), (310, 1), (320, 2), (400, 2)):
        trace.add(time * MS, frames[place])
    row = only(analyse(trace))
    assert row["setup_ns"] == 320 * MS
    assert row["responder_frames"] == 1 + 4
    assert row["retransmitted_messages"] == 0


def test_tcp_delivers_the_segments_of_a_fragment_that_the_capture_lacks():
    handshake, trace = Handshake(1, switch=False), Trace()
    handshake.init()
    first, second = handshake.encrypted(ike.IKE_AUTH, 1200, message_id=1, fragments=2).ike
    stream = TCP_PREFIX + tcp_framed(first) + tcp_framed(second)
    for time, (begin, end) in enumerate(((0, 100), (400, len(stream)))):  # bytes 100 to 400 are not in the capture
        packet = tcp_packet(stream[begin:end], 40000, 4500, 1000 + begin)
        trace.add(time * MS, link.ethernet(packet))
    (message,) = analyse(trace).messages.iter_rows(named=True)
    assert (message["fragments"], message["fragments_seen"]) == (2, 2)


@pytest.mark.parametrize("compiled", [False, True])
def test_more_than_a_million_transmissions_are_those_of_one_message(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(core, "compiled", None)
    elif core.compiled is None:
        pytest.skip(f"the compiled core is {core.problem}")
    count = (1 << 20) + 2
    nothing = {name: np.zeros(count, np.uint32) for name in Datagrams.__struct_fields__}
    narrow = ("protocol", "next_payload", "exchange_type", "flags", "ttl")
    datagrams = replace(
        Datagrams(**nothing),
        **{name: np.zeros(count, np.uint8) for name in narrow},
        **{name: np.zeros(count, np.uint16) for name in ("fragment", "fragments", "source_port", "destination_port")},
        **{name: np.zeros(count, np.uint64) for name in ("source", "destination", "spi_i", "spi_r", "digest")},
        **{name: np.arange(count) * SECOND for name in ("first_ns", "last_ns")},
        **{name: np.broadcast_to(np.int64(value), count) for name, value in (("frames", 1), ("ip_fragments", 0))},
        resent_bytes=np.broadcast_to(np.int64(0), count),
        bytes=np.full(count, 100, np.int64),
        number=np.arange(1, count + 1, dtype=np.uint32),
    )
    association = SaAssociation(np.zeros(count, np.int32), np.ones(count, np.bool_), 1)
    messages, _ = group_messages(datagrams, association)
    assert np.array_equal(messages.transmission, np.arange(1, count + 1))
    assert not messages.body.any()
    assert messages.needed_bytes.sum() == 100
