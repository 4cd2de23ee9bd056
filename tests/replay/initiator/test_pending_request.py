"""One request: counted by hand."""

from ikeanalyze.replay.initiator.pending_request import PendingRequest

SECOND = 10**9


def test_transmissions_and_waits():
    pending_request = PendingRequest(43, 1, 1, [b"a" * 10, b"b" * 5], 4500, [1.0, 2.5])
    first = pending_request.transmit(0)
    assert [(out.data, out.fragment, out.fragments, out.port) for out in first] == [
        (b"a" * 10, 1, 2, 4500),
        (b"b" * 5, 2, 2, 4500),
    ]
    assert (pending_request.deadline_ns, pending_request.exhausted) == (SECOND, False)
    again = pending_request.transmit(2 * SECOND)
    assert [out.data for out in again] == [out.data for out in first]
    assert {out.transmission for out in again} == {2}
    assert (pending_request.deadline_ns, pending_request.exhausted) == (4_500_000_000, True)
    pending_request.record_datagram(7)
    pending_request.record_datagram(8)
    pending_request.mark_used(7)
    pending_request.mark_answered(2 * SECOND + 3)
    count = pending_request.get_stats()
    assert (count.transmissions, count.datagrams_sent, count.bytes_sent) == (2, 4, 30)
    assert (count.datagrams_needed, count.bytes_needed) == (2, 15)
    assert (count.datagrams_received, count.bytes_received) == (2, 15)
    assert (count.datagrams_used, count.bytes_used) == (1, 7)
    assert count.round_trip_ns == 3  # after the latest transmission
    assert pending_request.first_part == b"a" * 10


def test_a_message_that_is_not_cut():
    pending_request = PendingRequest(34, 0, 2, [b"abc"], 500, [1.0])
    (out,) = pending_request.transmit(5)
    assert (out.fragment, out.fragments, out.response) == (None, None, False)
    count = pending_request.get_stats()
    assert (count.attempt, count.round_trip_ns, count.answer) == (2, None, None)
