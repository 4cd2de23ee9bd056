"""Datagrams, whole or in IP fragments, as the rules see them."""

import numpy as np

from ikeanalyze.analysis.messages.datagrams import group_datagrams
from ikeanalyze.analysis.messages.duplicates import find_duplicates
from ikeanalyze.capture.frames import read_frames
from tests.analysis.analyse_captures import Handshake
from tests.craft import MS, SECOND, Trace, ike


def datagrams_of(trace, tmp_path):
    columns = read_frames(str(trace.write(tmp_path / "one.pcap"))).columns
    return group_datagrams(columns, find_duplicates(columns).mask)


def test_a_datagram_in_ip_fragments_is_one_datagram(tmp_path):
    handshake = Handshake(1)
    trace = Trace()
    trace.play(handshake.init())
    request = handshake.encrypted(ike.IKE_AUTH, 3000, message_id=1)
    packets = trace.message(SECOND, request)
    datagrams = datagrams_of(trace, tmp_path)
    assert len(datagrams) == 3
    assert datagrams.frames.tolist() == [1, 1, 3]
    assert datagrams.ip_fragments.tolist() == [0, 0, 3]
    assert datagrams.bytes[2] == sum(len(packet.data) for packet in packets)
    assert (datagrams.last_ns - datagrams.first_ns).tolist() == [0, 0, 2000]  # a microsecond apart
    assert datagrams.number.tolist() == [1, 2, 3]


def test_datagrams_stand_in_order_of_their_first_frames(tmp_path):
    """The second fragment of one comes when another message is through already."""
    handshake = Handshake(1)
    handshake.init()
    request = handshake.encrypted(ike.IKE_AUTH, 2000, message_id=1)
    answer = handshake.encrypted(ike.IKE_AUTH, 50, message_id=1, from_initiator=False, response=True)
    trace = Trace()
    first, second = trace.message(0, request)
    trace.drop([second])
    trace.message(MS, answer)
    trace.add(2 * MS, second.data)
    datagrams = datagrams_of(trace, tmp_path)
    assert datagrams.first_ns.tolist() == [trace.start_ns, trace.start_ns + MS]
    assert datagrams.last_ns.tolist() == [trace.start_ns + 2 * MS, trace.start_ns + MS]
    assert datagrams.frames.tolist() == [2, 1]
    assert len(first.data) > len(second.data)


def test_header_flags_are_columns(tmp_path):
    handshake = Handshake(1)
    trace = Trace()
    trace.play([*handshake.setup(), *handshake.informational(by_initiator=False)])
    datagrams = datagrams_of(trace, tmp_path)
    assert datagrams.is_response.tolist() == [False, True] * 3
    assert datagrams.from_initiator.tolist() == [True, False, True, False, False, True]
    assert not datagrams.is_ikev1.any()


def test_select_keeps_the_chosen_datagrams(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    datagrams = datagrams_of(trace, tmp_path)
    some = datagrams.select(np.array([2, 0]))
    assert len(some) == 2
    assert some.number.tolist() == [3, 1]
    assert len(datagrams.select(np.zeros(0, np.int64))) == 0
