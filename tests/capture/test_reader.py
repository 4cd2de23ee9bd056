import gzip
import io
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import dpkt
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ikeanalyze.capture.formats.records import MAX_RECORD, PADDING, CaptureDamage, CaptureError
from ikeanalyze.capture.reader import CHUNK, CaptureReader, open_capture
from tests.capture.savefiles import (
    MODIFIED,
    NANOSECONDS,
    block,
    enhanced,
    interface,
    obsolete,
    option,
    pcap_header,
    pcap_record,
    section,
    simple,
)
from tests.paths import CAPTURES

RECORDED = sorted(p for p in CAPTURES.iterdir() if p.suffix in (".pcap", ".pcapng"))
Packet = tuple[bytes, int, int, int]

PCAP = pcap_header() + pcap_record(b"first", 1) + pcap_record(b"", 2, length=9) + pcap_record(bytes(range(60)), 3, 4)
PCAPNG = (
    section()
    + interface(options=option(2, b"left"))
    + enhanced(b"first", 1)
    + block(5, bytes(8))
    + simple(b"second")
    + interface(101)
    + obsolete(b"third", 3, 1)
    + section(">")
    + interface(113, order=">")
    + enhanced(bytes(range(60)), 4, order=">")
)
MODIFIED_PCAP = pcap_header(">", MODIFIED) + pcap_record(b"first", order=">", extra=bytes(8)) * 3


def drain(reader: CaptureReader) -> list[Packet]:
    """Bytes, length on the wire, time and interface of every packet."""
    packets: list[Packet] = []
    for batch in reader.iterate_batches():
        assert len(batch) > 0
        assert {column.dtype for column in (batch.offset, batch.captured, batch.length, batch.time_ns)} == {
            np.dtype(np.int64)
        }
        assert batch.interface.dtype == np.uint32
        behind = int(batch.offset[-1] + batch.captured[-1])
        if reader.format == "pcap":
            assert not batch.buffer[behind : behind + PADDING].any()
        assert len(batch.buffer) >= behind + PADDING
        columns = (batch.offset, batch.captured, batch.length, batch.time_ns, batch.interface)
        for at, captured, length, time, number in zip(*(c.tolist() for c in columns), strict=True):
            packets.append((batch.buffer[at : at + captured].tobytes(), length, time, number))
    return packets


def read(path: Path, chunk: int = CHUNK) -> tuple[list[Packet], CaptureDamage | None]:
    with open_capture(path, chunk=chunk) as reader:
        return drain(reader), reader.damage


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.name)
def test_recorded_captures_agree_with_dpkt(path: Path) -> None:
    with path.open("rb") as file:
        kind = dpkt.pcap if path.suffix == ".pcap" else dpkt.pcapng
        expected = [(bytes(data), round(time * 1_000_000)) for time, data in kind.Reader(file)]
    with open_capture(path) as reader:
        assert reader.format == path.suffix[1:]
        assert [(p[0], p[2] // 1000) for p in drain(reader)] == expected
        assert reader.damage is None
        assert reader.notes == []
        assert reader.source.consumed == reader.source.size == path.stat().st_size


@pytest.mark.parametrize("content", [PCAP, PCAPNG, MODIFIED_PCAP], ids=["pcap", "pcapng", "modified"])
def test_chunks_of_any_size_give_the_same(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    whole = read(file)
    assert len(whole[0]) >= 3
    assert whole[1] is None
    for chunk in range(1, len(content) + 2):
        assert read(file, chunk) == whole, chunk


@pytest.mark.parametrize("chunk", [700, 4096, 30_000])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_recorded_capture_in_chunks(chunk: int, compress: Any, file: Path) -> None:
    path = CAPTURES / "loss20-classic.pcap"
    file.write_bytes(compress(path.read_bytes()))
    assert read(file, chunk) == read(path)


@pytest.mark.parametrize("content", [PCAP, PCAPNG, MODIFIED_PCAP], ids=["pcap", "pcapng", "modified"])
@pytest.mark.parametrize("chunk", [16, CHUNK])
def test_files_truncated_at_every_byte_keep_complete_packets(content: bytes, chunk: int, file: Path) -> None:
    file.write_bytes(content)
    whole, _ = read(file)
    header = {PCAP: 24, MODIFIED_PCAP: 24, PCAPNG: 28}[content]
    ends = [header]
    at = header
    order = "<"
    while at < len(content):
        if content is PCAPNG:
            if content[at : at + 4] == b"\n\r\r\n":
                order = "<" if content[at + 8 : at + 9] == b"\x4d" else ">"
            at += struct.unpack_from(order + "I", content, at + 4)[0]
        elif content is PCAP:
            at += 16 + struct.unpack_from("<I", content, at + 8)[0]
        else:
            at += 24 + struct.unpack_from(">I", content, at + 8)[0]
        ends.append(at)
    assert at == len(content)
    for kept in range(len(content)):
        file.write_bytes(content[:kept])
        if kept < header:
            with pytest.raises(CaptureError):
                open_capture(file, chunk=chunk)
            continue
        packets, damage = read(file, chunk)
        assert packets == whole[: len(packets)]
        before = max(end for end in ends if end <= kept)
        if kept == before:
            assert damage is None
        else:
            assert damage is not None
            assert damage.offset == before
            assert damage.what.startswith("the file ends inside ")
            assert " of which are missing" in damage.what
        if content is not PCAPNG:
            assert len(packets) == ends.index(before)


@pytest.mark.parametrize("content", [pcap_header(), section(), section() + interface()])
def test_no_packets_is_no_damage(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    assert read(file) == ([], None)


@pytest.mark.parametrize("size", [CHUNK - 30, CHUNK, CHUNK + 1, MAX_RECORD])
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_packets_larger_than_a_chunk(kind: str, size: int, file: Path) -> None:
    large = bytes(size - 4) + b"tail"
    if kind == "pcap":
        file.write_bytes(pcap_header() + b"".join(pcap_record(d) for d in (b"a", large, b"b")))
    else:
        file.write_bytes(section() + interface() + b"".join(enhanced(d) for d in (b"a", large, b"b")))
    packets, damage = read(file)
    assert damage is None
    assert [p[0] for p in packets] == [b"a", large, b"b"]


def test_packet_beyond_the_maximum(file: Path) -> None:
    content = pcap_header() + pcap_record(b"a")
    file.write_bytes(content + pcap_record(bytes(MAX_RECORD + 1)))
    packets, damage = read(file)
    assert len(packets) == 1
    assert damage == CaptureDamage(len(content), "a packet is said to be 16777217 bytes long")


def test_damage_in_a_later_chunk_has_its_offset_in_the_file(file: Path) -> None:
    content = pcap_header() + pcap_record(bytes(range(250))) * 40
    file.write_bytes(content + b"\xff" * 100)
    packets, damage = read(file, 1000)
    assert len(packets) == 40
    assert damage is not None
    assert damage.offset == len(content)
    file.write_bytes(section() + interface() + enhanced(b"a") * 40 + b"\0" * 12)
    packets, damage = read(file, 100)
    assert len(packets) == 40
    assert damage is not None
    assert damage.offset == 48 + 36 * 40


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (b"#!/bin/sh\necho hello\n", "not a pcap or pcapng file; it looks like text"),
        (b"\x7fELF\2\1\1" + bytes(40), "not a pcap or pcapng file; it looks like a program"),
        (b"snoop\0\0\0" + bytes(40), "convert it with editcap"),
        (
            b"\xfd7zXZ\0" + bytes(40),
            "not a pcap or pcapng file; it is compressed with xz: decompress it first",
        ),
        (b"\x80\x81\x82\x83" * 9, "not a pcap or pcapng file"),
        (b"\x80", "not a pcap or pcapng file"),
        (pcap_header()[:20], "ends inside the file header, after 20 bytes"),
        (pcap_header(version=(1, 2)), "unsupported pcap version 1.2"),
        (section()[:20], "ends inside the file header, after 20 bytes"),
        (section(options=bytes(400))[:100], "ends inside the file header, after 100 of 428 bytes"),
        (b"\n\r\r\n" + bytes(40), "has no byte-order magic"),
        (block(0x0A0D0D0A, section()[8:-4], size=8), "section header is said to be 8 bytes long"),
        (block(0x0A0D0D0A, section()[8:-4], trailer=8), "another length at its end"),
        (section(version=(3, 1)), "version 3.1"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (gzip.compress(gzip.compress(PCAP, mtime=0), mtime=0), "compressed twice"),
        (gzip.compress(PCAP, mtime=0)[:12], "(the gzip data ends too early)"),
        (b"\x1f\x8b\xff\xff" + bytes(40), "(the gzip data is damaged ("),
        (b"\x28\xb5\x2f\xfd\xff" + bytes(40), "(the zstd data is damaged ("),
    ],
)
def test_other_files_are_rejected_with_a_reason(content: bytes, text: str, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        open_capture(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_first_section_header_longer_than_what_is_read_at_once(file: Path) -> None:
    file.write_bytes(section(options=option(4, bytes(50_000))) + interface() + enhanced(b"a"))
    for chunk in (100, CHUNK):
        packets, damage = read(file, chunk)
        assert (len(packets), damage) == (1, None)


def test_cut_compressed_capture(file: Path) -> None:
    path = CAPTURES / "loss20-classic.pcap"
    whole, _ = read(path)
    compressed = gzip.compress(path.read_bytes())
    file.write_bytes(compressed[: len(compressed) // 2])
    packets, damage = read(file)
    assert 0 < len(packets) < len(whole)
    assert packets == whole[: len(packets)]
    assert damage is not None
    assert damage.what.startswith("the gzip data ends too early, inside ")
    assert damage.offset == 24 + sum(16 + len(p[0]) for p in packets)
    file.write_bytes(compressed[:-4])
    packets, damage = read(file)
    assert packets == whole
    assert damage == CaptureDamage(path.stat().st_size, "the gzip data ends too early")


def test_captures_are_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PCAPNG)))
    with open_capture("-") as reader:
        assert len(drain(reader)) == 4
        assert reader.source.size is None
        assert [i.name for i in reader.interfaces] == ["left", None, None]
        assert [i.link_type for i in reader.interfaces] == [1, 101, 113]
        assert [(n.first, n.count) for n in reader.notes] == [(2, 1)]


def test_pipe_of_another_process() -> None:
    path = CAPTURES / "loss20-classic.pcap"
    program = "from ikeanalyze.capture.reader import open_capture as o; print(sum(map(len, o('-').iterate_batches())))"
    with path.open("rb") as file, subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE) as cat:
        done = subprocess.run([sys.executable, "-c", program], stdin=cat.stdout, capture_output=True, text=True)
    assert int(done.stdout) == len(read(path)[0])


def test_the_file_is_closed_after_use(file: Path) -> None:
    file.write_bytes(PCAP)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with open_capture(file) as reader:
        next(reader.iterate_batches())
    file.write_bytes(b"not a capture")
    with pytest.raises(CaptureError):
        open_capture(file)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.sampled_from([PCAP, PCAPNG, MODIFIED_PCAP, gzip.compress(PCAPNG), zstandard.compress(PCAP)]),
    chunk=st.sampled_from([20, 64, CHUNK]),
    edits=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=4)), max_size=3),
)
def test_a_damaged_file_raises_capture_errors_only(
    content: bytes, chunk: int, edits: list[tuple[float, bytes]], file: Path
) -> None:
    data = bytearray(content)
    for where, value in edits:
        at = int(where * (len(data) - 1))
        data[at : at + len(value)] = value
    file.write_bytes(data)
    try:
        packets, damage = read(file, chunk)
    except CaptureError:
        return
    assert edits or damage is None
    assert all(len(p[0]) <= p[1] for p in packets)


def tshark(path: Path) -> list[tuple[str, int, int, int]]:
    """Time in seconds, length on the wire, captured length and interface of every packet."""
    fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id"]
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", *(x for f in fields for x in ("-e", f))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in text.splitlines())
    return [(time, int(length), int(captured), int(number or 0)) for time, length, captured, number in rows]


def as_tshark(packets: list[Packet]) -> list[tuple[str, int, int, int]]:
    return [(f"{t // 10**9}.{t % 10**9:09}", length, len(data), i) for data, length, t, i in packets]


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap is not installed")
@pytest.mark.parametrize(
    "options", ["pcap", "nsecpcap -t 0.000000001", "modpcap", "pcapng", "pcapng -s 96 -t 0.000000001"]
)
def test_tshark_agrees_on_converted_captures(options: str, file: Path) -> None:
    source = str(CAPTURES / "eap-md5-radius.pcapng")
    subprocess.run(["editcap", "-F", *options.split(), source, str(file)], check=True)
    packets, damage = read(file)
    assert damage is None
    assert as_tshark(packets) == tshark(file)


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("mergecap"), reason="mergecap is not installed")
def test_tshark_agrees_on_merged_captures(file: Path) -> None:
    subprocess.run(["mergecap", "-F", "pcapng", "-w", str(file), *map(str, RECORDED)], check=True)
    packets, damage = read(file)
    assert damage is None
    assert as_tshark(packets) == tshark(file)
    joined = file.with_suffix(".joined")
    joined.write_bytes(file.read_bytes() * 2)  # two sections, in each of which the interfaces count from 0
    with open_capture(joined) as reader:
        packets = drain(reader)
        assert reader.damage is None
        interfaces = len(reader.interfaces)
    count = subprocess.run(
        ["capinfos", "-M", "-c", "-r", "-T", str(joined)], capture_output=True, text=True, check=True
    )
    assert int(count.stdout.split("\t")[-1]) == len(packets)
    assert [p[:3] for p in as_tshark(packets)] == [p[:3] for p in tshark(joined)]
    assert {p[3] for p in packets} == set(range(interfaces))


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
def test_tshark_agrees_on_clocks(file: Path) -> None:
    frame = bytes(12) + b"\x88\xb5" + bytes(46)
    head, packets = section(), b""
    for number, resolution in enumerate([0, 3, 6, 7, 9, 0x80 | 10, 0x80 | 20, 0x80 | 30] * 2):
        unit = 2 ** (resolution & 127) if resolution & 128 else 10**resolution
        offset = 1_000_000_000 if number >= 8 else 0
        head += interface(options=option(9, bytes([resolution])) + option(14, struct.pack("<q", offset)))
        for ticks in (700_000_000 * unit, 700_000_000 * unit + unit * 2 // 3):
            packets += enhanced(frame, ticks, number)
    file.write_bytes(head + packets)
    assert as_tshark(read(file)[0]) == tshark(file)


@pytest.mark.tshark
@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize(
    "content",
    [
        pcap_header(">", NANOSECONDS) + pcap_record(bytes(60), 5, 999_999_999, 70, ">"),
        pcap_header(version=(2, 3)) + struct.pack("<4I", 1, 2, 90, 60) + bytes(60) + pcap_record(bytes(60), length=61),
        pcap_header(">", version=(2, 1)) + struct.pack(">4I", 1, 2, 90, 60) + bytes(60),
        pcap_header(snaplen=20) + pcap_record(bytes(60)) * 2,
    ],
    ids=["big-endian ns", "2.3", "2.1", "beyond snaplen"],
)
def test_tshark_agrees_on_old_and_odd_pcap(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    packets, damage = read(file)
    assert damage is None
    assert [p[:3] for p in as_tshark(packets)] == [p[:3] for p in tshark(file)]


@pytest.mark.parametrize("data", [PCAP, PCAPNG, MODIFIED_PCAP, section(), pcap_header()])
@pytest.mark.parametrize("chunk", [28, 100, CHUNK])
@pytest.mark.parametrize("cut", [0, 1, 30])
def test_stretches_are_the_file(tmp_path: Path, data: bytes, chunk: int, cut: int) -> None:
    path = tmp_path / "capture"
    path.write_bytes(data + (PCAPNG if data[0] == 10 else data[24:])[: -cut or None])
    with open_capture(path, chunk=chunk) as reader:
        expected = drain(reader)
    parts, packets = [], []
    with open_capture(path, chunk=chunk) as reader:
        for stretch in reader.iterate_segments():
            parts.append(bytes(stretch.buffer[: stretch.stop]))
            b = stretch.batch
            for at, size in zip(b.offset.tolist(), b.captured.tolist(), strict=True):
                assert at + size <= stretch.stop
                packets.append(bytes(stretch.buffer[at : at + size]))
        end = reader.damage.offset if reader.damage else path.stat().st_size
    assert b"".join(parts) == path.read_bytes()[:end]
    assert packets == [packet[0] for packet in expected]
