"""An hour of traffic of the lab, live and in a report: the same handshakes with the same numbers."""

import pytest

from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.rules import EndingRules
from tests.craft import Packet, link, pcap
from tests.live.live_records import SECOND, read_live, read_report, without_id
from tests.paths import CAPTURES, LAB_CAPTURES

HOUR = 3600 * SECOND


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """All recorded captures one after the other, so that each begins before the end of the previous one."""
    paths = sorted([*LAB_CAPTURES.glob("*.pcapng"), *CAPTURES.glob("*.pcap")])
    packets: list[Packet] = []
    for index, path in enumerate(paths):
        with open_capture(path) as reader:
            begin = None
            for batch in reader.iterate_batches():
                columns = (batch.offset, batch.captured, batch.length, batch.time_ns, batch.interface)
                for at, captured, length, time_ns, interface in zip(*(c.tolist() for c in columns), strict=True):
                    if reader.interfaces[interface].link_type == link.ETHERNET:
                        begin = time_ns if begin is None else begin
                        when = 1_764_000_000 * SECOND + index * HOUR // len(paths) + time_ns - begin
                        packets.append(Packet(when, batch.buffer[at : at + captured].tobytes(), 0, length))
    packets.sort(key=lambda packet: packet.time_ns)
    path = tmp_path_factory.mktemp("hour") / "hour.pcap"
    path.write_bytes(pcap(packets))
    return path


@pytest.fixture(scope="module")
def live(hour):
    return read_live(hour)


def test_all_records_are_those_of_a_report(hour):
    """With a given round-trip time, because otherwise later handshakes of the same hosts change the estimate.

    They do not depend on how much is read at once.
    """
    records, counts = read_live(hour, chunk=4096, rtt_ms=0.4)
    live, report = without_id(record for _, record in records), without_id(read_report(hour, rtt_ms=0.4))
    assert len(records) == len(live) > 100
    assert live.keys() == report.keys()
    for name, record in report.items():
        assert live[name] == record
    assert (counts.open, counts.late_frames) == (0, 0)


def test_only_the_estimated_path_depends_on_later_handshakes(hour, live):
    records, report = without_id(record for _, record in live[0]), without_id(read_report(hour))
    for name, record in report.items():
        ours, theirs = records[name].pop("breakdown"), record.pop("breakdown")
        assert records[name] == record
        if ours["path_rtt_ms"] == theirs["path_rtt_ms"]:
            assert ours == theirs
        else:
            assert ours["path_rtt_ms"] > theirs["path_rtt_ms"]  # a later handshake was faster


def test_most_are_reported_while_the_capture_goes_on(live):
    records, counts = live
    assert sum(packets < counts.packets for packets, _ in records) > len(records) // 2
    assert [record["id"] for _, record in records] == list(range(1, len(records) + 1))


def test_numbers_may_begin_again(hour):
    """After billions of packets in practice, and here each second.

    What is known about other handshakes of hosts is lost if there are IPv6 addresses.
    """
    rules = EndingRules(renewal_packets=300, renewal_addresses=1)
    records, counts = read_live(hour, rules, rtt_ms=0.4)
    live, report = without_id(record for _, record in records), without_id(read_report(hour, rtt_ms=0.4))
    different = {
        key for name, record in report.items() for key, value in record.items() if live[name].get(key) != value
    }
    assert live.keys() == report.keys()
    assert different <= {"diagnosis"}
    with open_capture(hour) as reader:
        assert counts.packets == sum(len(batch) for batch in reader.iterate_batches())
    assert sum(counts.accounting.values()) == counts.packets
