"""The packets of handshakes that failed: each frame as it was captured, and nothing else."""

from random import Random

import numpy as np
import pytest

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.capture.formats.records import RecordBatch
from ikeanalyze.capture.reader import open_capture
from ikeanalyze.live.engine import LiveEngine
from ikeanalyze.live.failure_captures import FailureCaptures
from ikeanalyze.live.packet_ring import PacketRing
from ikeanalyze.live.rules import EndingRules
from tests.craft import SECOND, Handshake, Interface, Trace, pcapng


def read_packets(path):
    """Time, length on the wire, bytes, and name of the interface of each packet."""
    with open_capture(path) as reader:
        for batch in reader.iterate_batches():
            columns = (batch.offset, batch.captured, batch.length, batch.time_ns, batch.interface)
            for at, captured, length, time_ns, interface in zip(*(c.tolist() for c in columns), strict=True):
                data = batch.buffer[at : at + captured].tobytes()
                yield time_ns, length, data, reader.interfaces[interface].name


def keep(path, directory, most=100, rules=EndingRules()):  # noqa: B008 - never changed
    with open_capture(path) as reader:
        failures = FailureCaptures(directory, most)
        engine = LiveEngine(
            "x",
            reader.interfaces,
            lambda analysis: failures.add(analysis, reader.interfaces),
            ReadOptions(),
            rules,
            packets=failures.packets,
        )
        for batch in reader.iterate_batches():
            engine.add(batch)
        engine.finish()
    return sorted(directory.iterdir())


@pytest.fixture
def trace():
    """A handshake that succeeds, one that is refused, and one in IP fragments of which one is lost."""
    trace = Trace(mtu=200)
    trace.play(Handshake(1).setup())
    trace.play(Handshake(2).refused(), at=SECOND)
    init = Handshake(3).init()[0]
    trace.drop(trace.message(2 * SECOND, init)[-1:])
    trace.message(6 * SECOND, init, interface=1)
    for second in range(1, 400):
        trace.send(second * SECOND, bytes([0, 0, 1, 0] * 10), sport=4500, dport=4500)  # ESP
    return trace


@pytest.mark.parametrize("rules", [EndingRules(), EndingRules(renewal_packets=3)], ids=["usual", "renumbered"])
def test_each_failure_has_its_packets(trace, tmp_path, rules):
    path = tmp_path / "capture.pcapng"
    interfaces = [Interface(name="eth0"), Interface(name="eth1")]
    path.write_bytes(pcapng(trace.packets, interfaces=interfaces))
    files = keep(path, tmp_path / "kept", rules=rules)
    refused, unanswered = Handshake(2).spi_i.hex(), Handshake(3).spi_i.hex()
    assert [file.name for file in files] == [
        f"20251124T160001.000Z-{refused}-failed.pcapng",
        f"20251124T160002.000Z-{unanswered}-unanswered.pcapng",
    ]
    ike = [packet for packet in trace.packets if b"\0\0\1\0\0\0\1\0" not in packet.data]
    starts = trace.start_ns + SECOND, trace.start_ns + 2 * SECOND, trace.start_ns + 10 * SECOND
    for file, begin, end in zip(files, starts[:-1], starts[1:], strict=True):
        expected = [
            (packet.time_ns, len(packet.data), packet.data, interfaces[packet.interface].name)
            for packet in ike
            if begin <= packet.time_ns < end
        ]
        assert len(expected) > 1
        assert list(read_packets(file)) == expected


def test_the_oldest_files_are_removed(tmp_path):
    trace = Trace()
    for number in range(20):
        trace.play(Handshake(number).refused(), at=number * 20 * SECOND)
    files = keep(trace.write(tmp_path / "capture.pcap"), tmp_path / "kept", most=3)
    assert [Handshake(number).spi_i.hex() in file.name for number, file in zip((17, 18, 19), files, strict=True)]


def make_batch(*packets: bytes):
    data = np.frombuffer(b"".join(packets) + bytes(256), np.uint8)
    sizes = np.array([len(packet) for packet in packets], np.int64)
    times = np.arange(len(packets), dtype=np.int64)
    return RecordBatch(data, np.cumsum(sizes) - sizes, sizes, sizes, times, np.zeros(len(packets), np.uint32))


def test_the_ring_has_the_last_packets_and_those_to_keep():
    rng = Random(1)
    packets = [rng.randbytes(100) for _ in range(100)]
    ring = PacketRing(recent_bytes=1000)
    for at in range(0, 100, 5):
        ring.add(make_batch(*packets[at : at + 5]), at + 1)
        if at == 50:
            ring.keep(np.array([3, 48, 54], np.uint32))  # the first one is gone
    assert [packet.data for packet in ring.get(np.array([3, 48, 54, 99], np.uint32))] == [packets[47], packets[53]]
    ring.keep(np.array([99], np.uint32))
    ring.renumber(10)
    assert [packet.data for packet in ring.get(np.array([44, 89], np.uint32))] == [packets[53], packets[98]]
    ring.release(np.array([89], np.uint32))
    assert len(ring) == 1
