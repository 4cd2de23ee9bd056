import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikeanalyze.capture.formats.pcap import Pcap, is_pcap
from ikeanalyze.capture.formats.records import PADDING, WalkResult
from tests.capture.savefiles import MODIFIED, NANOSECONDS, pcap_header, pcap_record
from tests.paths import CAPTURES

SECOND = 1_000_000_000


def walk(header: bytes, records: bytes) -> tuple[WalkResult, bytearray]:
    buffer = bytearray(records + bytes(PADDING))
    return Pcap(header).walk(buffer, np.frombuffer(buffer, np.uint8), 0, len(records)), buffer


def packets(walked: WalkResult, buffer: bytearray) -> list[tuple[bytes, int, int]]:
    b = walked.batch
    rows = zip(b.offset.tolist(), b.captured.tolist(), b.length.tolist(), b.time_ns.tolist(), strict=True)
    return [(bytes(buffer[at : at + captured]), length, time) for at, captured, length, time in rows]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "unit"), [(0xA1B2C3D4, 1000), (NANOSECONDS, 1), (MODIFIED, 1000)])
def test_all_magic_numbers_are_read(order: str, magic: int, unit: int) -> None:
    extra = b"\xff" * 8 if magic == MODIFIED else b""
    records = b"".join(
        pcap_record(data, seconds, 999_999, order=order, extra=extra)
        for data, seconds in [(b"abc", 0), (b"", 7), (bytes(range(100)), 0xFFFFFFFF)]
    )
    header = pcap_header(order, magic)
    assert is_pcap(header[:4])
    walked, buffer = walk(header, records)
    assert packets(walked, buffer) == [
        (b"abc", 3, 999_999 * unit),
        (b"", 0, 7 * SECOND + 999_999 * unit),
        (bytes(range(100)), 100, 0xFFFFFFFF * SECOND + 999_999 * unit),
    ]
    assert walked.stop == len(records)
    assert walked.wrong is None
    assert set(walked.batch.interface.tolist()) == {0}


def test_the_link_type_ignores_the_fcs_bits() -> None:
    reader = Pcap(pcap_header(network=0x14000000 | 0x04000000 | 276, snaplen=0, zone=-3600))
    assert reader.interfaces[0].link_type == 276
    assert reader.interfaces[0].snaplen == 0
    assert reader.interfaces[0].name is None


@pytest.mark.parametrize("version", [(1, 0), (0, 9)])
def test_archaic_versions_are_rejected(version: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"version \d\.\d"):
        Pcap(pcap_header(version=version))


@pytest.mark.parametrize("header", [b"", pcap_header()[:23], b"\0" * 24])
def test_other_headers_are_rejected(header: bytes) -> None:
    with pytest.raises(ValueError, match="not a pcap"):
        Pcap(header)


def swapped(data: bytes, length: int, order: str) -> bytes:
    return struct.pack(order + "4I", 1, 0, length, len(data)) + data


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [(2, 0), (2, 2), (543, 0)])
def test_lengths_in_the_old_order(version: tuple[int, int], order: str) -> None:
    records = swapped(b"cut", 1000, order) + swapped(b"whole", 5, order)
    walked, buffer = walk(pcap_header(order, version=version), records)
    assert [p[:2] for p in packets(walked, buffer)] == [(b"cut", 1000), (b"whole", 5)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_lengths_of_version_2_3_are_told_apart_by_size(order: str) -> None:
    records = swapped(b"old", 1000, order) + pcap_record(b"new", length=60, order=order) + swapped(b"same", 4, order)
    walked, buffer = walk(pcap_header(order, version=(2, 3)), records + swapped(b"cut", 900, order)[:-1])
    assert [p[:2] for p in packets(walked, buffer)] == [(b"old", 1000), (b"new", 60), (b"same", 4)]
    assert walked.stop == len(records)
    assert walked.needed == 16 + 3


def test_unusual_lengths_and_times_are_tolerated() -> None:
    header = pcap_header(snaplen=4)
    records = (
        pcap_record(b"longer than the snaplen")
        + pcap_record(b"more than the wire had", length=3)
        + pcap_record(b"late", 1, 3_000_000)
        + pcap_record(b"", 0, 0, length=60)
    )
    walked, buffer = walk(header, records)
    assert walked.wrong is None
    assert [p[1:] for p in packets(walked, buffer)] == [(23, SECOND), (22, SECOND), (4, 4 * SECOND), (60, 0)]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (struct.pack("<4I", 1, 1, (16 << 20) + 1, (16 << 20) + 1), "16777217 bytes"),
        (struct.pack("<4I", 1, 1, 0xFFFFFFFF, 60), "4294967295 bytes"),
        (struct.pack("<4I", 1, 1, 300_000, 60), "300000 bytes of it"),
        (struct.pack("<4I", 1, 1, 300_000, 1 << 31), "2147483648 bytes long"),
        (struct.pack("<4I", 1, 1, 300_000, 60) + bytes(300_000), "300000 bytes of it"),
        (bytes(16), "zero bytes"),
        (bytes(160), "zero bytes"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_reading_stops_at_an_invalid_record(bad: bytes, what: str, before: int) -> None:
    good = pcap_record(b"good") * before
    walked, buffer = walk(pcap_header(), good + bad)
    assert walked.wrong is not None
    assert what in walked.wrong
    assert walked.stop == len(good)
    assert len(packets(walked, buffer)) == before


def test_large_record_that_is_believed() -> None:
    record = pcap_record(bytes(300_000))
    assert len(walk(pcap_header(), record)[0].batch) == 1
    assert len(walk(pcap_header(snaplen=500_000), pcap_record(bytes(300_000), length=3))[0].batch) == 1


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (1, "inside the 16 bytes before a packet, 15 of which are missing"),
        (15, "inside the 16 bytes before a packet, 1 of which are missing"),
        (16, "inside a packet of 50 bytes, 50 of which are missing"),
        (65, "inside a packet of 50 bytes, 1 of which are missing"),
    ],
)
def test_truncation_is_described(kept: int, text: str) -> None:
    buffer = bytearray(pcap_record(bytes(range(50)))[:kept] + bytes(PADDING))
    assert Pcap(pcap_header()).describe_truncation(buffer, 0, kept) == text


@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 500), st.integers(0, 255))
def test_any_byte_may_be_corrupted(data: list[bytes], at: int, value: int) -> None:
    records = bytearray(b"".join(pcap_record(d, 5, 6) for d in data))
    if records:
        records[at % len(records)] = value
    walked, _ = walk(pcap_header(), bytes(records))
    b = walked.batch
    assert 0 <= walked.stop <= len(records)
    assert all(b.offset + b.captured <= walked.stop)
    assert all(b.length >= b.captured)
    assert walked.wrong or walked.stop + walked.needed > len(records)


def test_recorded_files_are_read_as_by_dpkt(tmp_path: Path) -> None:
    import dpkt

    paths = sorted(CAPTURES.glob("*.pcap"))
    assert len(paths) > 10
    for path in paths:
        raw = path.read_bytes()
        walked, buffer = walk(raw[:24], raw[24:])
        expected: list[Any] = []
        with path.open("rb") as file:
            for time, data in dpkt.pcap.Reader(file):
                expected.append((bytes(data), round(time * 1_000_000)))
        assert [(p[0], p[2] // 1000) for p in packets(walked, buffer)] == expected


@pytest.mark.parametrize(
    ("network", "fcs_bytes"),
    [(1, None), (0x24000001, 4), (0x14000001, 2), (0x04000001, 0), (0x20000001, None)],
)
def test_the_frame_check_sequence(network: int, fcs_bytes: int | None) -> None:
    # the upper four bits count 16-bit words, if the bit 0x04000000 says that they count
    (interface,) = Pcap(pcap_header(network=network)).interfaces
    assert (interface.link_type, interface.fcs_bytes) == (1, fcs_bytes)


@pytest.mark.parametrize(("magic", "resolution"), [(0xA1B2C3D4, 6), (NANOSECONDS, 9), (MODIFIED, 6)])
def test_the_resolution_of_times(magic: int, resolution: int) -> None:
    assert Pcap(pcap_header(magic=magic)).interfaces[0].resolution == resolution
