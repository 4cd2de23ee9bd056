import gzip
import io
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import zstandard
from msgspec.structs import fields

from ikeanalyze.capture import collector, frames, reader
from ikeanalyze.capture.decode.ip import format_address_code
from ikeanalyze.capture.frames import CaptureFrames, read_frames
from tests.capture.laws import counted, mixed, obey, read, read_packets, read_trace, rows, texts
from tests.craft import MS, SECOND, Handshake, Interface, Trace, link, pcapng, radius, transport, udp_packet
from tests.paths import CAPTURES

RECORDED = sorted(path for path in CAPTURES.iterdir() if path.suffix in (".pcap", ".pcapng"))
#: tshark shows a message that IP fragmented in its last frame alone, so its frames do not compare.
#: Of these, tshark itself decodes each message: not IKE in TCP with the prefix of RFC 9329.
UNCUT = [path for path in RECORDED if "ip-fragments" not in path.name and path.name != "tcp-psk.pcap"]
tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


def some_trace(mtu: int = 1500) -> Trace:
    trace = Trace(mtu=mtu)
    trace.play(Handshake(1).setup(intermediate=[(2, 1)], auth=(3, 2)))
    trace.send(SECOND, radius.access_request(1, b"\2\0\0\4", Random(1)), dport=1812, sport=40000)
    trace.send(SECOND, transport.esp(1, 1, bytes(90)), sport=4500, dport=4500)
    return trace


def same(one: CaptureFrames, other: CaptureFrames) -> bool:
    for field in fields(CaptureFrames):
        if field.name in ("columns", "icmp_errors"):
            columns, others = getattr(one, field.name), getattr(other, field.name)
            for name, column in columns.items():
                np.testing.assert_array_equal(column, others[name], name)
                assert column.dtype == others[name].dtype
        else:
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    return True


def test_the_summary_describes_the_file() -> None:
    trace = some_trace()
    capture = read_trace(trace)
    times = [packet.time_ns for packet in trace.packets]
    assert (capture.format, capture.damaged, capture.snaplen_truncated) == ("pcap", False, 0)
    assert (capture.first_ns, capture.last_ns) == (min(times), max(times))
    kept = [n for n, packet in enumerate(trace.packets, 1) if packet is not trace.packets[-1]]
    assert rows(capture, "number", "time_ns", "captured") == [
        (n, times[n - 1], len(trace.packets[n - 1].data)) for n in kept
    ]
    assert counted(capture) == {"ike": len(kept) - 1, "radius": 1, "esp": 1}


def test_ipv6_addresses_have_codes() -> None:
    assert format_address_code(0xC0000201, []) == "192.0.2.1"
    assert format_address_code((1 << 32) + 1, [bytes(16), bytes(15) + b"\1"]) == "::1"
    capture = read_packets(
        link.ethernet(udp_packet(Handshake(1).init()[0].ike[0], 500, 500, "fe80::1", "2001:db8::ff"))
    )
    [(source, destination)] = rows(capture, "source", "destination")
    assert (capture.address(source), capture.address(destination)) == ("fe80::1", "2001:db8::ff")


def test_standard_input_and_compression(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for data in (some_trace(1280).pcap(), some_trace().pcapng(sections=2, unknown=True)):
        plain = read(data)
        assert plain.packets > 10
        for packed in (gzip.compress(data), zstandard.compress(data)):
            assert same(plain, read(packed))
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
            assert same(plain, obey(read_frames("-")))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert same(plain, obey(read_frames("-")))


@pytest.mark.parametrize("chunk", [600, 4096])
def test_batches_make_no_difference(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = some_trace(1280)
    shake = Handshake(2, switch=False)
    for index, part in enumerate([shake.encrypted(35, 5000, message_id=1), shake.encrypted(35, 4000, message_id=2)]):
        trace.message(2 * SECOND + index, part)
    stream = transport.TCP_PREFIX + transport.tcp_framed(shake.init()[0].ike[0]) * 3
    trace.ip(3 * SECOND, transport.tcp_packet(b"", 4500, 9, 0, flags=transport.SYN))
    for at in range(0, len(stream), 100):
        trace.ip(3 * SECOND + at * 9, transport.tcp_packet(stream[at : at + 100], 4500, 9, 1 + at))
    path = tmp_path / "some.pcap"
    trace.write(path)
    whole = obey(read_frames(str(path)))
    assert counted(whole)["ike"] > 20

    def in_chunks(name: str) -> reader.CaptureReader:
        return reader.open_capture(name, chunk=chunk)

    monkeypatch.setattr(frames, "open_capture", in_chunks)
    parts = obey(read_frames(str(path)))
    assert dict(parts.clear) == dict(whole.clear)
    assert parts.incomplete == whole.incomplete
    for name in whole.columns:
        np.testing.assert_array_equal(whole.columns[name], parts.columns[name], name)
    assert (parts.accounting, parts.accounting_bytes) == (whole.accounting, whole.accounting_bytes)


def test_progress_ends_at_the_file_size(tmp_path: Path) -> None:
    path = some_trace().write(tmp_path / "some.pcap")
    reported: list[tuple[int, int | None]] = []
    read_frames(str(path), progress=lambda done, size: reported.append((done, size)))
    size = path.stat().st_size
    assert reported[-1] == (size, size)


def test_interfaces_and_times_out_of_order() -> None:
    trace = Trace()
    data = link.ethernet(udp_packet(Handshake(1).init()[0].ike[0]))
    trace.add(0, data, interface=1)
    trace.add(5 * MS, data, interface=0)
    packets = list(reversed(trace.packets))
    capture = read(pcapng(packets, interfaces=[Interface(name="a"), Interface(name="b")]))
    assert (capture.first_ns, capture.last_ns) == (packets[1].time_ns, packets[0].time_ns)
    assert rows(capture, "number", "interface") == [(1, 0), (2, 1)]
    assert [interface.name for interface in capture.interfaces] == ["a", "b"]


def test_damage_and_too_many_warnings() -> None:
    good = some_trace().pcap()
    capture = read(good + b"\1\2\3")
    assert capture.damaged
    assert capture.packets == len(some_trace().packets)
    assert texts(capture)[-1].startswith("damaged at byte ")
    count = collector.MAX_PACKET_WARNINGS + 7
    capture = read_packets(*[link.ethernet(udp_packet(b"nonsense"))] * count)
    assert capture.accounting["malformed"] == count
    assert len(capture.warnings) == collector.MAX_PACKET_WARNINGS + 1
    assert texts(capture)[-1].startswith("7 more ")


def fields_of(path: Path, display: str, *names: str) -> list[list[str]]:
    command = ["tshark", "-n", "-r", str(path), "-Y", display, "-Tfields", "-Eoccurrence=f"]
    done = subprocess.run([*command, *(f"-e{name}" for name in names)], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in done.stdout.splitlines()]


@pytest.mark.tshark
@tshark
@pytest.mark.parametrize("path", UNCUT, ids=lambda path: path.name)
def test_tshark_counts_the_same(path: Path) -> None:
    capture = obey(read_frames(str(path)))
    assert capture.warnings == []
    names = ("number", "bytes", "exchange_type", "message_id", "ike_bytes", "fragment", "fragments")
    fields = ("exchangetype", "messageid", "length", "frag.number", "frag.total", "ispi", "rspi")
    reported = fields_of(
        path, "frame", "frame.protocols", "frame.time_epoch", "frame.number", "frame.len",
        *(f"isakmp.{name}" for name in fields),
    )  # fmt: skip
    assert (capture.packets, capture.bytes) == (len(reported), sum(int(row[3]) for row in reported))
    # an ICMP error that quotes a message has its fields too
    expected = [
        (*(int(value or "0", 0) for value in row[2:9]), *row[9:], row[1])
        for row in reported
        if ":isakmp" in row[0] and "icmp" not in row[0]
    ]
    assert expected
    result = [
        # these fields are RFC 7383's; tshark has others for IKEv1
        (
            *row[:5],
            *(row[5:] if protocol == 0 else (0, 0)),
            f"{i:016x}",
            f"{r:016x}",
            f"{time // 10**9}.{time % 10**9:09}",
        )
        for row, (i, r, time, protocol) in zip(
            rows(capture, *names), rows(capture, "spi_i", "spi_r", "time_ns", "protocol"), strict=True
        )
        if protocol < 2
    ]
    assert result == expected
    aaa = [number for number, protocol in rows(capture, "number", "protocol") if protocol == 2]
    assert aaa == [int(row[2]) for row in reported if ":radius" in row[0]]


@pytest.mark.tshark
@tshark
def test_tshark_counts_the_same_on_fragments_and_odd_ports(tmp_path: Path) -> None:
    trace = some_trace(1280)
    shake = Handshake(3, nat=True)
    trace.play(shake.setup(auth=(1, 1)), at=5 * SECOND)
    trace.send(9 * SECOND, shake.encrypted(35, 3000, message_id=7).datagrams[0], sport=40001, dport=4500)
    path = trace.write(tmp_path / "some.pcap")
    capture = obey(read_frames(str(path)))
    # tshark shows a message where its last IP fragment is
    last_frames = {
        datagram: number
        for number, datagram, protocol in rows(capture, "number", "datagram", "protocol")
        if protocol == 0
    }
    expected = [int(number) for (number,) in fields_of(path, "isakmp", "frame.number")]
    assert sorted(last_frames.values()) == expected


def test_mixed_links_keep_the_order_of_the_file() -> None:
    packet = udp_packet(Handshake(1).init()[0].ike[0])
    made = [(113, link.sll(packet)), (1, link.ethernet(packet)), (113, link.sll(packet)), (101, packet)]
    assert rows(read(mixed(*made)), "number", "interface") == [(1, 0), (2, 1), (3, 0), (4, 2)]


@pytest.mark.parametrize("seconds", [2**34, -(2**34)])
def test_times_that_64_bits_cannot_hold_are_warned_of(seconds: int) -> None:
    """An offset of 544 years (if_tsoffset) that no clock meant, as a damaged block may have it."""
    trace = Trace()
    trace.play(Handshake(1).setup())
    packets = [replace(packet, time_ns=packet.time_ns + seconds * SECOND) for packet in trace.packets]
    capture = read(pcapng(packets, interfaces=[Interface(tsoffset=seconds)]))
    assert counted(capture) == {"ike": 4}
    assert [text.partition(" which")[0] for text in texts(capture)] == [
        "some packets have times before 1824 or after 2115,"
    ]
    assert texts(read(trace.pcap())) == []


@pytest.mark.tshark
@pytest.mark.parametrize("snaplen", [40, 44, 60, 69])
def test_packets_that_the_snapshot_length_cut_are_not_malformed(snaplen, tmp_path):
    """The IKE header ends 70 bytes after the beginning of an Ethernet frame, that of UDP 42 bytes after it."""
    source, cut = CAPTURES / "loss20-classic.pcap", tmp_path / "cut.pcap"
    subprocess.run(["editcap", "-s", str(snaplen), source, cut], check=True)
    whole, capture = read_frames(str(source)), read_frames(str(cut))
    assert counted(capture) == {"other": whole.packets}
    assert any("truncated" in text for text in texts(capture))
