"""The benchmark of many small captures, with a handful of them: that it makes what it says, and sees what is wrong."""

import subprocess
import sys

import dpkt
import polars as pl
import pytest

from benchmarks import many, small
from benchmarks.small import PACKETS, generate

pytestmark = pytest.mark.alone

OURS = [sys.executable, "-m", "ikeanalyze"]


@pytest.fixture(autouse=True)
def _few(monkeypatch, tmp_path):
    monkeypatch.setattr(small, "AT_ONCE", 40)
    monkeypatch.setattr(many, "DATA", tmp_path)


def spi(path):
    """SPIi of all packets of a capture, which are IKE over UDP 500 or 4500 (there behind four zeros: RFC 3948)."""
    result = []
    with path.open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            udp = dpkt.ethernet.Ethernet(data).data.data
            result.append(udp.data[:8] if 500 in (udp.sport, udp.dport) else udp.data[4:12])
    return result


def test_each_capture_is_a_handshake_of_its_own(tmp_path):
    paths = generate(5, tmp_path / "five")
    assert [path.name for path in paths] == [f"{number:05}.pcap" for number in range(5)]
    result = [spi(path) for path in paths]
    assert [len(item) for item in result] == [PACKETS] * 5
    assert all(len(set(item)) == 1 for item in result)
    assert len({item[0] for item in result}) == 5


def test_more_than_are_made_at_once_and_the_same_again(tmp_path):
    paths = generate(60, tmp_path / "sixty")
    contents = [path.read_bytes() for path in paths]
    assert len(set(contents)) == 60
    assert [path.read_bytes() for path in generate(5, tmp_path / "five")] == contents[:5]
    assert generate(1, tmp_path / "other", seed=2)[0].read_bytes() not in contents


@pytest.mark.tshark
def test_both_programs_read_all_captures():
    """The counts of our dataset are right, and a tshark for each capture reads all of it."""
    directory = many.make_captures(2)
    other = many.make_tshark_reader(["tshark"], "4", directory, 2)
    rows, wrong = many.time_readers(directory, OURS, [other], 2, 1)
    assert wrong == {}
    assert [(row.reader, row.error, len(row.times)) for row in rows] == [
        ("ikeanalyze batch", None, 1),
        ("xargs -P2 tshark 4 -T fields", None, 1),
    ]
    assert rows[0].ratio == 1
    assert rows[1].ratio == pytest.approx(other.seconds / rows[0].seconds)
    each = other.commands[1][4:]  # behind xargs and its options
    read = subprocess.run([*each, directory / "00001.pcap"], capture_output=True, check=True)
    assert read.stdout.count(b"\n") == PACKETS


def test_wrong_results_are_detected(tmp_path):
    directory = many.make_captures(3)
    out = tmp_path / "out"
    subprocess.run([*OURS, "batch", str(directory), "-o", str(out), "--quiet"], check=True)
    assert many.check_counts(out, directory) == {}
    (messages,) = (out / "messages").iterdir()
    pl.read_parquet(messages).head(-1).write_parquet(messages)
    wrong = many.check_counts(out, directory)
    assert wrong.keys() == {"messages", "frames", "bytes"}
    assert wrong["messages"] == {"right": 3 * many.MESSAGES, "found": 3 * many.MESSAGES - 1}
    # a reader that fails is said, and no time of it
    rows, wrong = many.time_readers(directory, ["false"], [], 1, 1)
    assert wrong == {"batch": "failed"}
    assert (rows[0].seconds, rows[0].error) == (None, "failed")
