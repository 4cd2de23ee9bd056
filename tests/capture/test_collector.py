"""The collector by itself; what it makes of packets is tested with whole captures, in test_frames."""

import tempfile
from collections.abc import Iterator

import pytest

from fuzz.equality import without_core
from ikeanalyze.capture.buffers import LAYOUT, FrameRows, MessageBytes, MessageStore
from ikeanalyze.capture.collector import MAX_PACKET_WARNINGS, FrameCollector
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.reader import open_capture
from tests.craft import SECOND, Handshake, Trace, ip, link, transport, tunnel


def collect(*traces: Trace, at_once: int | None = None) -> list[FrameCollector]:
    """A collector for each trace, whose packets it gets all at once, or so many at a time."""
    result = []
    for trace in traces:
        with tempfile.NamedTemporaryFile() as file:
            file.write(trace.pcap())
            file.flush()
            with open_capture(file.name) as reader:
                collector = FrameCollector((), reader.interfaces, FrameRows(LAYOUT), MessageStore())
                for batch in reader.iterate_batches():
                    for part in split(batch, at_once or len(batch)):
                        collector.add(part, None)
                collector.finish()
                result.append(collector)
    return result


def split(batch: RecordBatch, size: int) -> Iterator[RecordBatch]:
    for first in range(0, len(batch), size):
        yield batch.select(slice(first, first + size))


def some(first: int, count: int, version: int = 4) -> Trace:
    ends = ("192.0.2.1", "192.0.2.2") if version == 4 else ("2001:db8::1", "2001:db8::2")
    trace = Trace(initiator=ends[0], responder=ends[1])
    for number in range(first, first + count):
        trace.play(Handshake(number).setup(), at=number * SECOND)
    return trace


@pytest.mark.parametrize("version", [4, 6])
def test_a_partial_result_is_merged(version: int) -> None:
    whole = some(0, 9, version)
    first, second = some(0, 4, version), some(4, 5, version)
    one, two, all_of_it = collect(first, second, whole)
    columns = two.columns()
    half = two.make_partial_result(None)
    half.clear = half.encrypted = MessageBytes().entries()  # these are tested with shared memory
    one.merge_partial_result(half, columns)
    assert (one.packets, one.bytes) == (all_of_it.packets, all_of_it.bytes)
    assert (one.first_ns, one.last_ns) == (all_of_it.first_ns, all_of_it.last_ns)
    assert one.accounting.packets() == all_of_it.accounting.packets()
    assert one.accounting.bytes() == all_of_it.accounting.bytes()
    assert one.book.ipv6 == all_of_it.book.ipv6
    result, expected = one.columns(), all_of_it.columns()
    for name, column in expected.items():
        if name != "ip_id":
            assert result[name].tolist() == column.tolist(), name


def test_fragments_and_streams_across_a_border_are_reassembled() -> None:
    plain, fragmented = some(0, 2), some(0, 2)
    fragmented.mtu = 576
    fragmented.send(9 * SECOND, bytes(900))
    assert [collector.has_open_fragments for collector in collect(plain, fragmented)] == [False, True]


def tunnelled(frame: bytes) -> bytes:
    """An Ethernet frame with this one in VXLAN."""
    return tunnel.over_udp(tunnel.vxlan(frame), 4789)


def test_fragments_in_a_tunnel_wait_for_each_other_while_others_come_later() -> None:
    """A datagram lacks a fragment for 30 s at most, which only packets between its fragments can show."""
    trace = Trace()
    message = Handshake().init()[0].ike[0]
    datagram = ip.packet(transport.udp(message, 500, 500, "192.0.2.1", "192.0.2.2"), "192.0.2.1", "192.0.2.2")
    parts = ip.ip_fragments(datagram, 100)
    for number, part in enumerate(parts):
        trace.add(number * 1000, tunnelled(link.ethernet(part)))
    trace.mtu = 576
    trace.send(SECOND * 60, bytes(900), sport=9, dport=9)
    expected = {"ike": len(parts), "other": 2}
    for at_once in range(1, len(parts) + 3):
        (collector,) = collect(trace, at_once=at_once)
        counted = {name: count for name, count in collector.accounting.packets().items() if count}
        assert counted == expected, at_once
        assert not collector.incomplete


@pytest.mark.parametrize("with_core", [True, False])
def test_warnings_are_about_the_first_packets(with_core: bool) -> None:
    """Those about packets in tunnels are found later."""
    trace = Trace()
    bad = link.ethernet(
        ip.packet(transport.udp(bytes(9), 500, 500, "192.0.2.1", "192.0.2.2"), "192.0.2.1", "192.0.2.2")
    )
    for number in range(MAX_PACKET_WARNINGS):
        trace.add(number * 2000, tunnelled(bad))
        trace.add(number * 2000 + 1000, bad)
    for at_once in (7, None):
        if with_core:
            (collector,) = collect(trace, at_once=at_once)
        else:
            with without_core():
                (collector,) = collect(trace, at_once=at_once)
        *listed, more = collector.warnings()
        assert [number for number, _ in listed] == list(range(1, MAX_PACKET_WARNINGS + 1))
        assert more == (None, f"{MAX_PACKET_WARNINGS} more such packets, counted but not listed")
