"""One request: counted by hand."""

from ikeanalyze.replay.initiator.pending_request import PendingRequest

SECOND = 10**9


def test_transmissions_and_waits():
    one = PendingRequest(43, 1, 1, [b"a" * 10, b"b" * 5], 4500, [1.0, 2.5])
    first = one.transmit(0)
    assert [(out.data, out.fragment, out.fragments, out.port) for out in first] == [
        (b"a" * 10, 1, 2, 4500),
        (b"b" * 5, 2, 2, 4500),
    ]
    assert (one.deadline_ns, one.exhausted) == (SECOND, False)
    again = one.transmit(2 * SECOND)
    assert [out.data for out in again] == [out.data for out in first]
    assert {out.transmission for out in again} == {2}
    assert (one.deadline_ns, one.exhausted) == (4_500_000_000, True)
    one.record_datagram(7)
    one.record_datagram(8)
    one.mark_used(7)
    one.mark_answered(2 * SECOND + 3)
    count = one.get_stats()
    assert (count.transmissions, count.datagrams_sent, count.bytes_sent) == (2, 4, 30)
    assert (count.datagrams_needed, count.bytes_needed) == (2, 15)
    assert (count.datagrams_received, count.bytes_received) == (2, 15)
    assert (count.datagrams_used, count.bytes_used) == (1, 7)
    assert count.round_trip_ns == 3  # after the latest transmission
    assert one.first_part == b"a" * 10


def test_a_message_that_is_not_cut():
    one = PendingRequest(34, 0, 2, [b"abc"], 500, [1.0])
    (out,) = one.transmit(5)
    assert (out.fragment, out.fragments, out.response) == (None, None, False)
    count = one.get_stats()
    assert (count.attempt, count.round_trip_ns, count.answer) == (2, None, None)
