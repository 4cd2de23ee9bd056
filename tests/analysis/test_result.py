"""What an analysis gives besides the tables."""

from ikeanalyze.analysis.result import ACCOUNTING
from tests.analysis.analyse_captures import Handshake, analyse, analyse_files, at
from tests.craft import MS, Trace, udp_packet


def test_the_summary_of_a_capture():
    trace = Trace()
    trace.ip(0, udp_packet(b"before", 53, 53))
    end = trace.play(Handshake(1).setup(), at=100 * MS)
    trace.ip(end + 500 * MS, udp_packet(b"after", 53, 53))
    (capture,) = analyse(trace).captures
    assert (capture.packets, capture.format, capture.damaged) == (6, "pcap", False)
    assert capture.bytes == sum(len(packet.data) for packet in trace.packets)
    assert (capture.first_ns, capture.last_ns) == (at(0), at(0) + end + 500 * MS)
    assert tuple(capture.accounting) == tuple(capture.accounting_bytes) == ACCOUNTING
    assert (capture.accounting["ike"], capture.accounting["other"]) == (4, 2)
    assert capture.snaplen_truncated == 0


def test_cut_packets_are_counted():
    trace = Trace()
    trace.play(Handshake(1).setup())
    (capture,) = analyse(trace.pcap(snaplen=250)).captures
    assert capture.snaplen_truncated == sum(len(packet.data) > 250 for packet in trace.packets)
    assert capture.bytes == sum(len(packet.data) for packet in trace.packets)


def test_warnings_name_capture_and_frame(tmp_path):
    trace = Trace()
    trace.play(Handshake(1).setup())
    trace.send(0, b"no IKE message", sport=500, dport=500)
    analysis = analyse_files(tmp_path, trace)
    (warning,) = analysis.warnings
    assert (warning.capture, warning.frame) == (str(tmp_path / "0.pcap"), 2)
    assert warning.message


def test_the_parts_have_their_places():
    trace = Trace()
    trace.play(Handshake(1).setup())
    analysis = analyse(trace)
    assert analysis.skipped == []
    assert analysis.warnings == []
    assert [len(table) for table in (analysis.frames, analysis.messages, analysis.exchanges)] == [4, 4, 2]
