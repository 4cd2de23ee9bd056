"""A report takes what the core began to read before the options were known, only if it would read the same itself."""

import os
import resource
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.equality import compare_early_tables, in_blocks, without_core
from ikeanalyze import cli, core
from ikeanalyze.analysis.exchanges.init_messages import InitReadings
from ikeanalyze.capture import frames
from ikeanalyze.capture.decode.plain import open_compiled_reader
from ikeanalyze.capture.frames import read_frames, read_joined_frames
from ikeanalyze.capture.reader import open_capture
from tests.craft import SECOND, Handshake, Trace, transport

pytestmark = pytest.mark.usefixtures("compiled_core")

BLOCK = 2000


@pytest.fixture(autouse=True)
def small_files_in_blocks() -> Iterator[None]:
    with in_blocks(BLOCK):
        yield
        core.discard_reading()


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    return make_trace().write(tmp_path / "some.pcap")


def make_trace() -> Trace:
    trace = Trace()
    for number in range(30):
        trace.play(Handshake(number).setup(intermediate=[(2, 1)], auth=(3, 2)), at=number * SECOND)
        trace.send(number * SECOND, transport.esp(1, number + 1, bytes(90)), sport=4500, dport=4500)
    return trace


def has_begun(
    path: Path, ports: tuple[int, ...] = (), spis: tuple[int, ...] | None = (), *, inits: bool = True
) -> bool:
    with open_capture(path) as reader:
        assert reader.plain_pcap is not None
        return open_compiled_reader(reader.source, reader.plain_pcap, ports, spis, read_inits=inits).has_begun


def test_a_report_without_keys_and_ports_takes_it(capture: Path):
    assert core.begin_reading(str(capture))
    assert has_begun(capture)


def test_it_is_taken_once(capture: Path):
    core.begin_reading(str(capture))
    assert has_begun(capture)
    assert not has_begun(capture)


def test_keys_and_ports_need_another_reading(capture: Path):
    core.begin_reading(str(capture))
    assert not has_begun(capture, ports=(700,))
    assert not has_begun(capture, spis=(1,))
    assert not has_begun(capture, spis=None)
    assert not has_begun(capture, inits=False)


def test_another_file_needs_another_reading(capture: Path, tmp_path: Path):
    other = make_trace().write(tmp_path / "other.pcap")
    core.begin_reading(str(other))
    assert not has_begun(capture)


def test_another_file_of_the_same_name_needs_another_reading(capture: Path, tmp_path: Path):
    core.begin_reading(str(capture))
    make_trace().write(tmp_path / "other.pcap").replace(capture)
    assert not has_begun(capture)


def test_what_nobody_takes_is_discarded(capture: Path):
    core.begin_reading(str(capture))
    core.discard_reading()
    assert not has_begun(capture)


def test_of_two_files_the_last_one_is_kept(capture: Path, tmp_path: Path):
    other = make_trace().write(tmp_path / "other.pcap")
    core.begin_reading(str(other))
    core.begin_reading(str(capture))
    assert not has_begun(other)
    assert has_begun(capture)


def test_reading_another_capture_discards_it(capture: Path, tmp_path: Path):
    other = make_trace().write(tmp_path / "other.pcap")
    core.begin_reading(str(capture))
    read_frames(str(other), make_readings=InitReadings)
    assert not has_begun(capture)


def test_reading_files_as_one_capture_discards_it(capture: Path, tmp_path: Path):
    other = make_trace().write(tmp_path / "other.pcap")
    core.begin_reading(str(capture))
    read_joined_frames([str(capture), str(other)])
    assert not has_begun(capture)


def test_the_tables_are_the_same(capture: Path, begun: list[bool]):
    core.begin_reading(str(capture))
    assert compare_early_tables(str(capture)) == []
    assert begun[0]
    assert not any(begun[1:])


def test_packets_that_were_added_meanwhile_are_read(capture: Path):
    whole = capture.read_bytes()
    capture.write_bytes(whole[:-5000])
    core.begin_reading(str(capture))
    capture.write_bytes(whole)
    assert has_begun(capture)
    core.begin_reading(str(capture))
    with open(capture, "ab") as file:
        file.write(whole[24:])
    read = read_frames(str(capture), make_readings=InitReadings)
    with without_core():
        assert read.packets == read_frames(str(capture)).packets


def test_only_a_part_is_read_before_it_is_wanted(capture: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(core, "_EARLY_BYTES", 3 * BLOCK)
    size = capture.stat().st_size
    core.begin_reading(str(capture))
    with open_capture(capture) as reader:
        assert reader.plain_pcap is not None
        core_reader = open_compiled_reader(reader.source, reader.plain_pcap, (), (), read_inits=True)
        while core_reader.position < 3 * BLOCK:
            time.sleep(0.001)
        assert core_reader.position < 4 * BLOCK + 2000 < size
        part = core_reader.read((24, size), 1, 2, BLOCK, core.REST_BYTES)
    assert part.stop == size


def test_another_part_of_the_file_is_read_anew(capture: Path):
    core.begin_reading(str(capture))
    with open_capture(capture) as reader:
        assert reader.plain_pcap is not None
        core_reader = open_compiled_reader(reader.source, reader.plain_pcap, (), (), read_inits=True)
        part = core_reader.read((24, 3000), 1, 1, BLOCK, core.REST_BYTES)
    assert 3000 <= part.stop < 5000


def write_header(order: str, magic: int, version: tuple[int, int], snaplen: int, network: int) -> bytes:
    return struct.pack(f"{order}IHHiIII", magic, *version, 0, 0, snaplen, network)


@pytest.mark.parametrize(
    ("header", "is_read"),
    [
        (write_header("<", 0xA1B2C3D4, (2, 4), 65535, 1), True),
        (write_header(">", 0xA1B2C3D4, (2, 4), 1 << 20, 1), True),
        (write_header("<", 0xA1B23C4D, (2, 4), 0, 276), True),
        (write_header(">", 0xA1B23C4D, (2, 4), 65535, 1 | 2 << 28 | 1 << 26), True),
        (write_header("<", 0xA1B2C3D4, (2, 3), 65535, 1), False),
        (write_header("<", 0xA1B2CD34, (2, 4), 65535, 1), False),
        (write_header("<", 0xA1B2C3D4, (2, 4), 65535, 105), False),  # 802.11
        (b"\x0a\x0d\x0d\x0a" + bytes(20), False),  # pcapng
        (bytes(24), False),
        (bytes(5), False),
    ],
)
def test_it_reads_the_header_as_python_does(header: bytes, is_read: bool, tmp_path: Path):
    path = tmp_path / "some.pcap"
    path.write_bytes(header)
    assert core.begin_reading(str(path)) == is_read
    if is_read:
        assert has_begun(path)


@pytest.mark.parametrize("name", ["", "missing.pcap", "."])
def test_what_is_no_large_file_is_not_read(name: str, tmp_path: Path):
    assert not core.begin_reading(str(tmp_path / name))
    (tmp_path / "small.pcap").write_bytes(write_header("<", 0xA1B2C3D4, (2, 4), 65535, 1))
    core.MIN_FILE_BYTES = 25
    assert not core.begin_reading(str(tmp_path / "small.pcap"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments that are tried."""
    made: list[str] = []

    def begin(argument: str) -> bool:
        made.append(argument)
        return argument.endswith(".pcap")

    monkeypatch.setattr(core, "begin_reading", begin)
    return made


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["report", "-o", "tables", "a.pcap", "b.pcap"], ["report", "-o", "tables", "a.pcap"]),
        (["report", "a.pcap", "--keys", "k"], []),
        (["report", "--keys=k", "a.pcap"], []),
        (["report", "a.pcap", "--port=700"], []),
        (["report", "--join", "a.pcap", "b.pcap"], []),
        (["report", "a.pcap", "--max-memory", "8G"], []),
        (["ladder", "a.pcap"], []),
        (["missing.pcap"], ["missing.pcap"]),
        (["report"], ["report"]),
        ([], []),
    ],
)
def test_the_first_capture_of_a_report_is_tried(arguments: list[str], expected: list[str], asked: list[str]):
    cli._begin_reading(arguments)
    assert asked == expected


def test_a_capture_in_place_of_a_command_is_tried(asked: list[str], capture: Path):
    cli._begin_reading([str(capture)])
    assert asked == [str(capture)]


def test_a_file_with_the_name_of_a_command_is_no_capture(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # batch forks, and the processes would wait for a thread that they do not have
    (tmp_path / "batch").write_text("")
    monkeypatch.chdir(tmp_path)
    cli._begin_reading(["batch", "a.pcap"])
    assert asked == []


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the core had begun to read each file, except in its samples."""
    made: list[bool] = []

    def open_reader(*arguments, **options):
        reader = open_compiled_reader(*arguments, **options)
        made.append(reader.has_begun)
        return reader

    monkeypatch.setattr(frames, "open_compiled_reader", open_reader)
    return made


def test_a_file_that_is_larger_than_the_address_space_leaves_room_for_modules(tmp_path: Path):
    trace = Trace()
    for number in range(1000):
        trace.play(Handshake(number).setup(intermediate=[(2, 1)], auth=(3, 2)), at=number * SECOND // 100)
    path = trace.write(tmp_path / "large.pcap")
    assert path.stat().st_size > core.BLOCK_BYTES
    os.truncate(path, 40 << 30)  # the rest is a hole
    command = [sys.executable, "-m", "ikeanalyze", "report", str(path), "--format", "csv"]
    limit = 4 << 30
    done = subprocess.run(
        command,
        env={},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert (done.returncode, done.stdout.count("\n")) == (0, 1001)
    assert "zero bytes instead of a packet; read up to there" in done.stderr


def test_the_command_writes_the_same_tables(tmp_path: Path):
    trace = make_trace()
    for number in range(7000):
        trace.send(SECOND, transport.esp(1, number, bytes(1400)), sport=4500, dport=4500)
    path = trace.write(tmp_path / "large.pcap")
    assert path.stat().st_size > 8 << 20
    outputs = {}
    for switch in "01":
        words = [sys.executable, "-m", "ikeanalyze", "report", str(path), "--format", "csv", "-o", "-"]
        done = subprocess.run(words, env={"IKEANALYZE_CORE": switch}, capture_output=True, check=True)
        outputs[switch] = done.stdout
    assert outputs["1"] == outputs["0"]
    assert outputs["1"].count(b"\n") == 31
