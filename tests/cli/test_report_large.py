"""A report of a capture that needs more memory than it may take: analysed in parts, with the same output."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from benchmarks.generate import generate
from ikeanalyze.cli.large_captures import parse_size
from tests.craft import MS, Handshake, Trace
from tests.floods.measure import measure
from tests.paths import CAPTURES

#: So little that each capture is analysed in parts.
LITTLE = ("--max-memory", "1M", "--jobs", "1")
CAPTURE = str(CAPTURES / "pq-mlkem768-psk.pcap")


@pytest.fixture
def several(tmp_path):
    trace = Trace()
    for seed in range(20):
        trace.play(Handshake(seed).setup(), at=seed * MS)
    return str(trace.write(tmp_path / "several.pcap"))


@pytest.mark.parametrize("output_format", ["terminal", "json", "jsonl", "csv", "markdown"])
def test_the_output_is_the_same(run, several, output_format):
    for capture in (several, CAPTURE):
        whole, parts = (run("report", capture, "--format", output_format, *more) for more in ((), LITTLE))
        assert (parts.exit_code, parts.stdout) == (whole.exit_code, whole.stdout)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_parquet_is_the_same(run, several, tmp_path, jobs):
    for directory, more in (("whole", ()), ("parts", (*LITTLE[:3], jobs, "--verbose"))):
        done = run("report", several, "--format", "parquet", "-o", str(tmp_path / directory), *more)
        assert done.exit_code == 0
    assert "analysed in 1 part on disk, " in done.stderr
    assert sorted(os.listdir(tmp_path / "parts")) == sorted(os.listdir(tmp_path / "whole"))
    for path in sorted((tmp_path / "whole").iterdir()):
        assert_frame_equal(pl.read_parquet(tmp_path / "parts" / path.name), pl.read_parquet(path))


def test_files_of_one_recording(run, tmp_path):
    trace, files = Trace(), []
    for seed in range(10):
        trace.play(Handshake(seed).setup(), at=seed * MS)
    for number in range(2):
        part = Trace()
        part._packets = trace.packets[number::2]
        files.append(str(part.write(tmp_path / f"{number}.pcap")))
    whole, parts = (run("report", *files, "--join", "--format", "json", *more) for more in ((), LITTLE))
    assert parts.stdout == whole.stdout
    assert '"handshakes": 10' in whole.stdout or whole.stdout.count('"spi_i"') == 10


def test_a_capture_with_keys_is_analysed_in_memory(run):
    keys = str(CAPTURES / "pq-mlkem768-psk.keys.json")
    whole, parts = (run("report", CAPTURE, "--keys", keys, *more) for more in ((), LITTLE))
    assert parts.stdout == whole.stdout
    assert "a large capture that is read with keys is analysed in memory" in parts.stderr


def test_several_captures_are_analysed_in_memory(run, several):
    done = run("report", CAPTURE, several, *LITTLE)
    assert done.exit_code == 0
    assert "(--join reads them as one) is analysed in memory" in done.stderr


def test_a_missing_capture_is_reported_as_always(run):
    whole, parts = (run("report", "missing.pcap", *more) for more in ((), LITTLE))
    assert (parts.exit_code, parts.stderr) == (whole.exit_code, whole.stderr)


def test_a_file_that_is_not_a_capture_is_reported_as_always(run, tmp_path):
    path = tmp_path / "text.pcap"
    path.write_text("no capture\n" * 1000)
    whole, parts = (run("report", str(path), *more) for more in ((), LITTLE))
    assert (parts.exit_code, parts.stderr) == (whole.exit_code, whole.stderr)


@pytest.mark.parametrize("size", ["", "0", "5 apples", "-1G", "nan"])
def test_sizes_are_checked(run, size):
    assert run("report", CAPTURE, "--max-memory", size).exit_code == 2


def test_a_size_without_its_unit_is_an_error(run):
    done = run("report", CAPTURE, "--max-memory", "8")
    assert done.exit_code == 2
    assert "--max-memory: 8 is a number of bytes; with a unit it is written 8M or 8G" in done.stderr


def test_sizes_of_memory_have_binary_units():
    assert parse_size("9" * 400) == sys.maxsize
    assert parse_size("500M") == 500 << 20
    assert parse_size("1.5GiB") == 3 << 29
    assert parse_size("100000") == 100000


@pytest.mark.parametrize("directory", ["/nonexistent", "/dev/null", "/proc"])
def test_the_directory_of_the_parts_must_exist_and_take_files(run, directory):
    done = run("report", CAPTURE, *LITTLE, "--temp", directory)
    assert done.exit_code == 2
    assert f"--temp: {directory} is not a directory that can be written to" in done.stderr


def test_a_full_disk_is_named(run, monkeypatch, tmp_path):
    from ikeanalyze.dataset.buckets import frame_buckets

    monkeypatch.setattr(frame_buckets, "_RESERVE", 1 << 60)
    done = run("report", CAPTURE, *LITTLE, "--temp", str(tmp_path))
    assert done.exit_code == 1
    assert f"{tmp_path}: not enough space for the parts of a large capture" in done.stderr
    assert "--temp" in done.stderr
    assert not list(tmp_path.iterdir())


def start(capture: Path, directory: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ikeanalyze", "report", str(capture), "--format", "parquet"]
    return subprocess.Popen([*command, "-o", str(directory), "--quiet", *more])


@pytest.mark.large
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupted_analysis_leaves_nothing(tmp_path, jobs):
    generate("ike-heavy", 48 << 20, tmp_path / "large.pcap")
    output, temp = tmp_path / "out", tmp_path / "temp"
    temp.mkdir()
    options = ("--max-memory", "50M", "--jobs", jobs, "--temp", str(temp))
    with start(tmp_path / "large.pcap", output, *options) as process:
        while not list(temp.glob("*/*.message_handshake.npy")):  # the first bucket is done
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    assert process.returncode == 130
    assert not list(temp.iterdir())
    assert not list(output.iterdir())


@pytest.mark.large
@pytest.mark.alone
def test_memory_stays_near_the_limit(tmp_path):
    generate("ike-heavy", 1200 << 20, tmp_path / "large.pcap")
    peaks = []
    for limit in ("260M", "4G"):
        command = [
            "report",
            str(tmp_path / "large.pcap"),
            "--format",
            "parquet",
            "-o",
            str(tmp_path / limit),
            "--quiet",
        ]
        peaks.append(measure([*command, "--max-memory", limit, "--jobs", "1"]).peak / 2**20)
    assert peaks[0] < 300 < peaks[1]  # 214 and 335
    for path in sorted((tmp_path / "4G").iterdir()):
        assert_frame_equal(pl.read_parquet(tmp_path / "260M" / path.name), pl.read_parquet(path))
