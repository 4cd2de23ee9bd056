"""What the core finds in a pcap file that it reads itself, in blocks and threads, is what Python finds in it."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.equality import compare_frames, in_blocks, without_core
from ikeanalyze import core
from ikeanalyze.analysis.exchanges.init_messages import InitMessages, InitReadings, parse_init_messages
from ikeanalyze.analysis.messages.datagrams import group_datagrams
from ikeanalyze.capture import frames
from ikeanalyze.capture.decode.plain import open_compiled_reader
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from tests.craft import SECOND, Handshake, Trace, pcap, transport, udp_packet
from tests.craft.tunnel import over_udp, vxlan

if TYPE_CHECKING:
    from ikeanalyze._core import PcapPart, PcapReader


def make_trace(count: int = 60) -> Trace:
    trace = Trace()
    for number in range(count):
        trace.initiator = f"2001:db8::{number % 30 + 1:x}" if number % 3 else f"192.0.2.{number + 1}"
        trace.responder = "2001:db8::ff" if number % 3 else "198.51.100.1"
        trace.play(Handshake(number).setup(intermediate=[(2, 1)], auth=(3, 2)), at=number * SECOND)
        trace.send(number * SECOND, transport.esp(1, number + 1, bytes(90)), sport=4500, dport=4500)
        trace.send(number * SECOND, bytes(20), sport=500, dport=500)
    return trace


class ListeningReader:
    """A reader of the core that notes how it is called."""

    def __init__(self, reader: "PcapReader", calls: "list[Call]") -> None:
        self._reader = reader
        self._calls = calls

    def read(self, bounds: tuple[int, int], first: int, threads: int, block: int, rest: int) -> "PcapPart":
        part = self._reader.read(bounds, first, threads, block, rest)
        self._calls.append(Call(bounds[0], part.stop, threads))
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


class Call(NamedTuple):
    begin: int
    stop: int
    threads: int


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Where each part of the file that the core reads begins and ends, except of its sample."""
    made: list[Call] = []

    def open_reader(*arguments, **options):
        return ListeningReader(open_compiled_reader(*arguments, **options), made)

    monkeypatch.setattr(frames, "open_compiled_reader", open_reader)
    return made


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
def test_blocks_and_threads_have_the_frames_of_the_file(make: Callable[[Trace], bytes], spis, tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(make(make_trace()))
    assert compare_frames(str(path), spis=spis) == []


def test_the_core_reads_the_file_to_its_end(calls: list[Call], tmp_path: Path):
    path = make_trace().write(tmp_path / "some.pcap")
    with in_blocks(20_000):
        read_frames(str(path))
    assert [(call.begin, call.stop) for call in calls] == [(24, path.stat().st_size)]


def test_reading_goes_on_after_each_part_of_the_packets_handed_back(calls: list[Call], tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(with_fragments(make_trace()))
    with in_blocks(2000, rest=500):
        read_frames(str(path))
    assert len(calls) > 2
    assert [call.begin for call in calls] == [24, *(call.stop for call in calls[:-1])]
    assert calls[-1].stop == path.stat().st_size


def test_messages_that_were_read_remain_in_the_file(tmp_path: Path):
    trace = make_trace()
    path = trace.write(tmp_path / "some.pcap")
    with in_blocks(20_000):
        capture = read_frames(str(path), make_readings=InitReadings)
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


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_the_core_finds_the_forms_and_hashes_that_python_finds(seed):
    rng = Random(seed)
    trace = Trace()
    for number in range(rng.randrange(1, 30)):
        rng.shuffle(hosts := ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"])
        trace.initiator, trace.responder = (
            hosts[0],
            next(host for host in hosts[1:] if (":" in host) == (":" in hosts[0])),
        )
        message = rng.choice(Handshake(number % 4).setup()[:2]).ike[0]
        changed = bytearray(message)
        for _ in range(rng.choice((0, 0, 1, 3))):
            changed[rng.randrange(28, len(changed))] = rng.randrange(256)
        trace.send(number * SECOND, bytes(changed), sport=500, dport=500)
    with tempfile.TemporaryDirectory() as folder:
        path = str(trace.write(Path(folder) / "some.pcap"))
        with in_blocks(2000):
            read = read_frames(path, make_readings=InitReadings)
        with without_core():
            kept = read_frames(path)
            expected = parse_messages(kept, None)
    assert isinstance(read.readings, InitReadings)
    found = parse_messages(read, read.readings)
    for name in ("rows", "sender_differs", "receiver_differs"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist(), name
    numbers = set(zip(found.form.tolist(), expected.form.tolist(), strict=True))  # their order differs
    assert len(numbers) == len(found.views) == len(expected.views)
    fixed = [(view.proposals, view.ke_method, view.vendor_ids, view.has_certreq, view.error) for view in found.views]
    for ours, theirs in numbers:
        view = expected.views[theirs]
        assert fixed[ours] == (view.proposals, view.ke_method, view.vendor_ids, view.has_certreq, view.error)


def parse_messages(capture: CaptureFrames, early: InitReadings | None) -> InitMessages:
    datagrams = group_datagrams(capture.columns, np.zeros(len(capture.columns["number"]), np.bool_))
    return parse_init_messages(datagrams, capture.clear, capture.addresses, early)


def test_as_many_threads_as_processors_read(calls: list[Call], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = make_trace().write(tmp_path / "some.pcap")
    monkeypatch.setattr(core, "count_processors", lambda: 3)
    with in_blocks(2000):
        read_frames(str(path))
    assert calls == [Call(24, path.stat().st_size, threads=3)]


def test_python_reads_on_where_a_file_is_damaged(calls: list[Call], tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(make_trace().pcap()[:-50])
    with in_blocks(1 << 20):
        capture = read_frames(str(path))
    assert capture.damaged
    assert calls[-1].stop < path.stat().st_size


def test_small_captures_are_read_without_threads(calls: list[Call], tmp_path: Path):
    read_frames(str(make_trace().write(tmp_path / "some.pcap")))
    assert calls == []


def test_captures_of_tunnels_are_not_read_by_the_core(calls: list[Call], tmp_path: Path):
    packets = [replace(packet, data=over_udp(vxlan(packet.data, 1), 4789)) for packet in make_trace().packets]
    path = tmp_path / "tunnels.pcap"
    path.write_bytes(pcap(packets))
    assert compare_frames(str(path)) == []
    assert calls == []


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path):
    path = make_trace().write(tmp_path / "some.pcap")
    reported: list[tuple[int, int | None]] = []
    with in_blocks(20_000):
        read_frames(str(path), progress=lambda done, size: reported.append((done, size)))
    size = path.stat().st_size
    assert reported[-1] == (size, size)
    assert reported == sorted(reported)


def test_other_work_is_done_once_while_the_core_reads(tmp_path: Path):
    done: list[bool] = []
    with in_blocks(20_000):
        read_frames(str(make_trace().write(tmp_path / "some.pcap")), meanwhile=lambda _: done.append(True))
    assert done == [True]


def test_an_error_in_other_work_ends_the_reading(tmp_path: Path):
    def fail(_: Callable[[], int]) -> None:
        raise ImportError("no such module")

    with in_blocks(2000), pytest.raises(ImportError, match="no such module"):
        read_frames(str(make_trace().write(tmp_path / "some.pcap")), meanwhile=fail)
