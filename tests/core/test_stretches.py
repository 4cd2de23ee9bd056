"""What the core finds in a pcap file that it reads itself, in stretches and threads, is what Python finds in it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fuzz.equality import compare_frames, in_stretches
from ikeanalyze.analysis.exchanges.init_messages import InitReader
from ikeanalyze.capture import frames
from ikeanalyze.capture.decode import plain
from ikeanalyze.capture.frames import read_frames
from tests.craft import SECOND, Handshake, Trace, pcap, transport, udp_packet
from tests.craft.tunnel import over_udp, vxlan


def make_trace(count: int = 60) -> Trace:
    trace = Trace()
    for number in range(count):
        trace.initiator = f"2001:db8::{number % 30 + 1:x}" if number % 3 else f"192.0.2.{number + 1}"
        trace.responder = "2001:db8::ff" if number % 3 else "198.51.100.1"
        trace.play(Handshake(number).setup(intermediate=[(2, 1)], auth=(3, 2)), at=number * SECOND)
        trace.send(number * SECOND, transport.esp(1, number + 1, bytes(90)), sport=4500, dport=4500)
        trace.send(number * SECOND, bytes(20), sport=500, dport=500)
    return trace


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Where the parts of each stretch end."""
    reported: list[list[int]] = []
    read = plain.read_file_parts

    def listen(*arguments):
        parts = read(*arguments)
        reported.append([part.stop for part in parts])
        return parts

    monkeypatch.setattr(frames, "read_file_parts", listen)
    return reported


def in_tunnels(trace: Trace) -> bytes:
    packets = [
        replace(packet, data=over_udp(vxlan(packet.data, 1 + number % 5), 4789)) if number % 4 == 0 else packet
        for number, packet in enumerate(trace.packets)
    ]
    return pcap(packets)


def with_fragments(trace: Trace) -> bytes:
    trace.mtu = 576
    trace.send(100 * SECOND, bytes(900), sport=9, dport=9)
    trace.play(Handshake(99).setup(auth=(1, 1)), at=101 * SECOND)
    return trace.pcap()


def with_captures_inside(trace: Trace) -> bytes:
    """Packets with packets in them look like records where there are none."""
    inner = trace.pcap()[24:30_000]
    packets = Trace()
    for number in range(12):
        packets.add(number * SECOND, bytes(12) + b"\x08\x00" + udp_packet(inner, sport=9, dport=9))
    return packets.pcap()


def _records(data: bytes, count: int) -> bytes:
    at = 24
    for _ in range(count):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    return data[24:at]


@pytest.mark.parametrize(
    "make",
    [
        Trace.pcap,
        lambda trace: trace.pcap(snaplen=96),
        lambda trace: trace.pcap()[:-50],
        lambda trace: trace.pcap()[:24] + _records(trace.pcap(), 20) + bytes(16) + trace.pcap()[24:],
        in_tunnels,
        with_fragments,
        with_captures_inside,
    ],
    ids=["whole", "snaplen", "cut", "damaged", "tunnels", "fragments", "captures inside"],
)
@pytest.mark.parametrize("spis", [(), None, [int.from_bytes(Handshake(3).spi_i, "big")]], ids=["no", "all", "one"])
def test_stretches_and_threads_have_the_frames_of_the_file(make: Callable[[Trace], bytes], spis, tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(make(make_trace()))
    assert compare_frames(str(path), spis=spis) == []


def test_the_core_reads_the_file_to_its_end(stops: list[list[int]], tmp_path: Path):
    path = make_trace().write(tmp_path / "some.pcap")
    size = path.stat().st_size
    with in_stretches(20_000):
        read_frames(str(path))
    assert [stop for stretch in stops for stop in stretch][-1] == size
    assert size // 20_600 <= len(stops) <= size // 20_000 + 1  # a stretch ends with a packet


def test_messages_that_were_read_remain_in_the_file(tmp_path: Path):
    trace = make_trace()
    path = trace.write(tmp_path / "some.pcap")
    with in_stretches(20_000):
        capture = read_frames(str(path), make_reader=InitReader)
    path.unlink()
    clear = capture.clear
    assert clear.in_file is not None
    assert len(clear.in_file) == len(clear) == 120  # a request and a response of each handshake
    assert len(clear.entries()[0]) == 0
    expected = [message.ike[0] for number in range(60) for message in Handshake(number).setup()[:2]]
    assert [clear[datagram] for datagram in sorted(clear)] == expected
    with pytest.raises(KeyError):
        clear[max(clear) + 1]
    some = sorted(clear)[10:20]
    clear.keep(np.array(some, np.uint32))
    assert dict(clear) == dict(zip(some, expected[10:20], strict=True))
    clear.load()
    assert clear.in_file is None
    assert dict(clear) == dict(zip(some, expected[10:20], strict=True))
    clear.clear()
    assert dict(clear) == {}


def test_threads_share_a_stretch(stops: list[list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = make_trace().write(tmp_path / "some.pcap")
    monkeypatch.setattr(frames, "count_processors", lambda: 3)
    with in_stretches(1 << 20):
        read_frames(str(path))
    assert [len(stretch) for stretch in stops] == [3]
    assert stops[0][-1] == path.stat().st_size


def test_python_reads_on_where_a_file_is_damaged(stops: list[list[int]], tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(make_trace().pcap()[:-50])
    with in_stretches(1 << 20):
        capture = read_frames(str(path))
    assert capture.damaged
    assert stops[-1][-1] < path.stat().st_size


def test_small_captures_are_read_without_threads(stops: list[list[int]], tmp_path: Path):
    read_frames(str(make_trace().write(tmp_path / "some.pcap")))
    assert stops == []


def test_captures_of_tunnels_are_not_read_in_stretches(stops: list[list[int]], tmp_path: Path):
    packets = [replace(packet, data=over_udp(vxlan(packet.data, 1), 4789)) for packet in make_trace().packets]
    path = tmp_path / "tunnels.pcap"
    path.write_bytes(pcap(packets))
    assert compare_frames(str(path)) == []
    assert stops == []


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path):
    path = make_trace().write(tmp_path / "some.pcap")
    reported: list[tuple[int, int | None]] = []
    with in_stretches(20_000):
        read_frames(str(path), progress=lambda done, size: reported.append((done, size)))
    size = path.stat().st_size
    assert reported[-1] == (size, size)
    assert reported == sorted(reported)


def test_other_work_is_done_once_while_the_core_reads(tmp_path: Path):
    done: list[bool] = []
    with in_stretches(20_000):
        read_frames(str(make_trace().write(tmp_path / "some.pcap")), meanwhile=lambda _: done.append(True))
    assert done == [True]


def test_an_error_in_other_work_ends_the_reading(tmp_path: Path):
    def fail(_: Callable[[], int]) -> None:
        raise ImportError("no such module")

    with in_stretches(2000), pytest.raises(ImportError, match="no such module"):
        read_frames(str(make_trace().write(tmp_path / "some.pcap")), meanwhile=fail)
