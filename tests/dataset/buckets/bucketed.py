"""Analyses a capture in buckets, and compares each table with that of an analysis in memory."""

import tempfile
from pathlib import Path
from struct import pack, unpack_from

from polars.testing import assert_frame_equal

from ikeanalyze.analysis.options import ReadOptions
from ikeanalyze.analysis.read import read_captures
from ikeanalyze.analysis.result import Analysis
from ikeanalyze.dataset.buckets.analysis import BucketSettings, analyse_in_buckets

TABLES = ("frames", "messages", "exchanges", "handshakes")


def read_in_buckets(path: Path, buckets: int, **options) -> Analysis:
    """The analysis of a capture in this many buckets."""
    with (
        tempfile.TemporaryDirectory() as directory,
        analyse_in_buckets([str(path)], ReadOptions(**options), BucketSettings(buckets, directory)) as (result, tables),
    ):
        return result.make_analysis(tables)


def assert_same(whole: Analysis, parts: Analysis) -> None:
    """The two analyses have the same rows in the same order, ids included, the same summary and warnings."""
    for name in TABLES:
        assert_frame_equal(getattr(parts, name), getattr(whole, name), categorical_as_str=True)
    assert parts.captures == whole.captures
    assert parts.warnings == whole.warnings


def compare(path: Path, counts: tuple[int, ...], **options) -> Analysis:
    """Compare the analysis in memory with those in these numbers of buckets; return the former."""
    whole = read_captures(path, ReadOptions(**options))
    assert not whole.skipped
    for count in counts:
        assert_same(whole, read_in_buckets(path, count, **options))
    return whole


def read_records(path: Path) -> list[tuple[int, bytes]]:
    """Time in nanoseconds and frame of each packet of a little-endian pcap file; none if it is not Ethernet."""
    data = path.read_bytes()
    scale = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}.get(unpack_from("<I", data)[0])
    if scale is None or unpack_from("<I", data, 20)[0] != 1:
        return []
    records, at = [], 24
    while at + 16 <= len(data):
        seconds, fraction, captured, _ = unpack_from("<IIII", data, at)
        records.append((seconds * 10**9 + fraction * scale, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return records


def write_records(path: Path, records: list[tuple[int, bytes]]) -> Path:
    """Write a pcap file with packets in this order."""
    parts = [pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    for time, data in records:
        parts += [pack("<IIII", time // 10**9, time % 10**9, len(data), len(data)), data]
    path.write_bytes(b"".join(parts))
    return path
