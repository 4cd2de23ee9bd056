"""What two processes find in a capture is what one finds in it."""

import os
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from ikeanalyze.capture import parallel
from ikeanalyze.capture import parallel as capture_parallel
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from ikeanalyze.capture.parallel import ParallelReader
from tests.capture.laws import obey, read
from tests.craft import MS, SECOND, Handshake, Trace, pcap, transport, udp_packet
from tests.craft.tunnel import macsec, over_udp, vxlan

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has helpers")


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Reads with a helper; whether what it found could be used."""
    reported: list[bool] = []
    result = ParallelReader.result

    def listen(half: ParallelReader) -> object:
        found = result(half)
        reported.append(found is not None)
        return found

    monkeypatch.setattr(parallel, "MIN_CAPTURE_BYTES", 0)
    monkeypatch.setattr(parallel, "can_fork_reader", lambda: True)
    monkeypatch.setattr(ParallelReader, "result", listen)
    return reported


def many(count: int = 60) -> Trace:
    trace = Trace()
    for number in range(count):
        trace.play(Handshake(number).setup(intermediate=[(2, 1)], auth=(3, 2)), at=number * SECOND)
        trace.send(number * SECOND, transport.esp(1, number + 1, bytes(90)), sport=4500, dport=4500)
        if number % 7 == 0:
            trace.send(number * SECOND + MS, bytes(20), sport=500, dport=500)
    return trace


def equal(one: CaptureFrames, two: CaptureFrames) -> None:
    for name in ("format", "packets", "bytes", "first_ns", "last_ns", "snaplen_truncated", "damaged"):
        assert getattr(one, name) == getattr(two, name), name
    assert (one.accounting, one.accounting_bytes) == (two.accounting, two.accounting_bytes)
    assert one.warnings == two.warnings
    assert dict(one.clear) == dict(two.clear)
    assert dict(one.encrypted) == dict(two.encrypted)
    for name, column in one.columns.items():
        if name in ("source", "destination"):
            assert addresses(one, name) == addresses(two, name)
        elif name == "tunnel":
            assert tunnels(one) == tunnels(two)
        else:
            np.testing.assert_array_equal(column, two.columns[name], name)
    for name, column in one.icmp_errors.items():
        if name in ("sender", "source", "destination"):
            texts = [[capture.address(code) for code in capture.icmp_errors[name].tolist()] for capture in (one, two)]
            assert texts[0] == texts[1]
        else:
            np.testing.assert_array_equal(column, two.icmp_errors[name], name)


def addresses(capture: CaptureFrames, name: str) -> list[str]:
    return [capture.address(code) for code in capture.columns[name].tolist()]


def tunnels(capture: CaptureFrames) -> list[str | None]:
    names = [None, *capture.tunnels]
    return [names[number] for number in capture.columns["tunnel"].tolist()]


def both(
    data: bytes,
    used: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    usable: list[bool],
    spis: Collection[int] | None = (),
) -> CaptureFrames:
    two = read(data, spis=spis)
    assert used == usable
    monkeypatch.setattr(parallel, "can_fork_reader", lambda: False)
    one = read(data, spis=spis)
    equal(one, two)
    return one


@pytest.mark.parametrize("snaplen", [262144, 96])
def test_two_halves_give_the_same_as_one_process(
    snaplen: int, used: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = both(many().pcap(snaplen=snaplen), used, monkeypatch, [True])
    assert result.accounting["malformed"] > 4
    assert any(number is not None and number > result.packets // 2 for number, _ in result.warnings)


def test_encrypted_messages_are_kept_on_demand(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    result = both(many().pcap(), used, monkeypatch, [True], None)
    # IKE_INTERMEDIATE in 2 fragments and 1 message, IKE_AUTH in 3 and 2 fragments
    assert len(result.encrypted) == 60 * 8
    assert {data[16] for data in result.encrypted.values()} == {46, 53}


def test_those_of_some_ike_sas(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [int.from_bytes(Handshake(number).spi_i, "big") for number in (3, 58)]
    result = both(many().pcap(), used, monkeypatch, [True], wanted)
    assert {int.from_bytes(data[:8], "big") for data in result.encrypted.values()} == set(wanted)
    assert len(result.encrypted) == 2 * 8


def test_tunnels_are_the_same_in_halves(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    packets = [replace(packet, data=over_udp(vxlan(packet.data, 1 + number % 5), 4789, six=number % 2 == 1))
               for number, packet in enumerate(many().packets)]  # fmt: skip
    packets += [replace(packet, data=macsec(packet.data, control=0x2C)) for packet in packets[:9] + packets[-9:]]
    packets.sort(key=lambda packet: packet.time_ns)
    found = both(pcap(packets), used, monkeypatch, [True])
    assert {name for name in tunnels(found) if name} == {f"vxlan:{number}" for number in range(1, 6)}
    assert "18 packets are inside encrypted MACsec, which cannot be read: counted as other" in [
        text for _, text in found.warnings
    ]


def test_ipv6_addresses_have_the_same_codes_in_both_halves(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace(initiator="2001:db8::1", responder="2001:db8::2")
    for number in range(40):
        trace.initiator = f"2001:db8::{number % 30 + 1:x}"
        trace.play(Handshake(number).setup(), at=number * SECOND)
    both(trace.pcap(), used, monkeypatch, [True])


def test_icmp_errors(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace(initiator="2001:db8::1", responder="2001:db8::2")
    for number in range(40):
        trace.initiator = f"2001:db8::{number % 30 + 1:x}"
        [sent] = trace.send(number * SECOND, Handshake(number).init()[0].ike[0])
        router = f"2001:db8:1::{number % 20 + 1:x}"
        trace.ip(number * SECOND + MS, transport.icmp_error(sent.data[14:], router, trace.initiator, mtu=1280))
    errors = both(trace.pcap(), used, monkeypatch, [True]).icmp_errors
    assert errors["number"].tolist() == [*range(2, 82, 2)]


def test_damage_behind_the_middle(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    data = many().pcap()
    assert both(data[:-50], used, monkeypatch, [True]).damaged


def test_damage_before_the_middle(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    data = many().pcap()
    at = 24
    for _ in range(5):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    broken = data[: at + 8] + b"\xff\xff\xff\x7f" * 2 + data[at + 16 :]
    assert both(broken, used, monkeypatch, []).packets == 5


def test_fragments_cross_the_border(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the border is cannot be told from here, so there are fragments everywhere."""
    trace = many()
    trace.mtu = 576
    for number in range(60):
        trace.send(number * SECOND, bytes(900), sport=9, dport=9)
    both(trace.pcap(), used, monkeypatch, [])


def test_fragments_in_the_second_half_alone(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    trace = many()
    trace.mtu = 576
    trace.send(1000 * SECOND, bytes(900), sport=9, dport=9)
    both(trace.pcap(), used, monkeypatch, [False])


def test_data_that_look_like_records_are_no_border(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets with packets in them look like records where there are none."""
    inner = many(3).pcap()[24:]
    trace = Trace()
    for number in range(12):
        trace.add(number * SECOND, udp_frame(inner))
    data = trace.pcap()
    monkeypatch.setattr(capture_parallel, "_WORKER_START", 0.5)
    both(data, used, monkeypatch, [])


def udp_frame(payload: bytes) -> bytes:
    return bytes(12) + b"\x08\x00" + udp_packet(payload, sport=9, dport=9)


def test_reading_works_without_a_second_process(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    monkeypatch.setattr(os, "fork", refuse)
    both(many().pcap(), used, monkeypatch, [])


def test_formats_that_cannot_be_entered(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    both(many().pcapng(), used, monkeypatch, [])


def test_progress_of_both_halves_ends_at_the_file_size(used: list[bool], tmp_path: Path) -> None:
    path = many().write(tmp_path / "some.pcap")
    reported: list[tuple[int, int | None]] = []
    obey(read_frames(str(path), progress=lambda done, size: reported.append((done, size))))
    size = path.stat().st_size
    assert used == [True]
    assert reported[-1] == (size, size)


def test_what_is_done_meanwhile(used: list[bool], tmp_path: Path) -> None:
    path = many().write(tmp_path / "some.pcap")
    counts: list[int] = []
    frames = read_frames(str(path), meanwhile=lambda count_frames: counts.append(count_frames()))
    assert used == [True]
    assert len(counts) == 1
    assert 0 < counts[0] < len(frames.columns["number"])  # those of the first half


def test_random_traces_are_read_the_same(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(5)
    for _ in range(5):
        trace = many(rng.randrange(1, 40))
        trace.drop(rng.sample(trace.packets, len(trace.packets) // 10))
        trace.repeat(rng.sample(trace.packets, 5), after=rng.randrange(10 * SECOND))
        data = trace.pcap()
        monkeypatch.setattr(parallel, "can_fork_reader", lambda: True)
        two = read(data)
        monkeypatch.setattr(parallel, "can_fork_reader", lambda: False)
        equal(read(data), two)
