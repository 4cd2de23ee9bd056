import numpy as np

from ikeanalyze.capture.buffers import LAYOUT
from ikeanalyze.capture.decode.ip import format_address_code, get_capture_numbers, strip_capture_numbers
from ikeanalyze.capture.traffic import CombinedFramesBuilder, retained_size, single_capture
from tests.capture.laws import read, read_trace
from tests.craft import Handshake, Trace, pcap


def traces():
    """Two captures of four frames, an empty one between them; of the second, both peers are in another order."""
    result = []
    for first, other in (("2001:db8::1", "2001:db8::2"), ("2001:db8::2", "2001:db8::1")):
        trace = Trace(initiator=first, responder=other)
        trace.play(Handshake(1, initiator=first, responder=other).setup())
        result.append(trace)
    return result


def test_one_capture_is_as_it_was_read():
    capture = read_trace(traces()[0])
    traffic = single_capture(capture)
    assert traffic.columns is capture.columns
    assert traffic.last_ns.tolist() == [capture.last_ns]
    assert not get_capture_numbers(traffic.columns["source"]).any()


def test_captures_stand_one_behind_the_other():
    first, second = traces()
    captures = [read_trace(first), read(pcap([])), read_trace(second)]
    group = CombinedFramesBuilder()
    for capture in captures:
        group.add(capture)
    assert len(group) == 3
    traffic = group.build()
    assert traffic.last_ns.tolist() == [captures[0].last_ns, 0, captures[2].last_ns]
    columns = traffic.columns
    assert (
        get_capture_numbers(columns["source"]).tolist()
        == get_capture_numbers(columns["destination"]).tolist()
        == [0] * 4 + [2] * 4
    )
    # a host of one capture is none of another, and yet has its address
    assert len(set(columns["source"].tolist())) == 4
    initiator = ["2001:db8::1", "2001:db8::2"]
    requested = [format_address_code(code, traffic.addresses) for code in columns["source"].tolist()]
    assert requested == [*initiator * 2, *initiator[::-1] * 2]
    assert len(np.unique(strip_capture_numbers(columns["source"]))) == 2
    assert len(np.unique(columns["datagram"])) == 8
    for name in set(LAYOUT) - {"source", "destination", "datagram"}:
        own = np.concatenate([captures[place].columns[name] for place in (0, 2)])
        assert columns[name].tolist() == own.tolist(), name


def test_bytes_of_messages_are_found_by_their_units():
    first, second = (read_trace(trace) for trace in traces())
    group = CombinedFramesBuilder()
    for capture in (first, second):
        group.add(capture)
    traffic = group.build()
    result = [traffic.clear[datagram] for datagram in traffic.columns["datagram"].tolist() if datagram in traffic.clear]
    assert result == [*first.clear.values(), *second.clear.values()]
    assert len(result) == 4


def test_what_a_capture_takes():
    capture = read_trace(traces()[0])
    clear = sum(map(len, capture.clear.values()))
    assert retained_size(capture) == clear + sum(column.nbytes for column in capture.columns.values())
    assert retained_size(read(pcap([]))) == 0
