"""`ikeanalyze live`, as a process that reads from a pipe."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.craft import SECOND, Handshake, Trace
from tests.live.live_records import read_report, without_id
from tests.paths import CAPTURES, LAB_CAPTURES

CAPTURE = CAPTURES / "loss20-classic.pcap"
COMMAND = [sys.executable, "-m", "ikeanalyze", "live"]


def run(*arguments: str, data: bytes = b""):
    """A command that hangs fails the test: it takes a second or two."""
    return subprocess.run([*COMMAND, *arguments], input=data, capture_output=True, timeout=300)


def test_a_pipe_gives_the_records_of_a_report():
    done = run("-", "--format", "jsonl", data=CAPTURE.read_bytes())
    assert done.returncode == 0
    records = without_id(json.loads(line) for line in done.stdout.splitlines())
    assert [record.pop("capture") for record in records.values()] == ["-"] * 25
    report = without_id(read_report(CAPTURE))
    for record in report.values():
        del record["capture"]
    assert records == report
    assert done.stderr.decode() == "ikeanalyze: 25 handshakes in 244 packets\n"


def test_the_table_has_a_row_for_each_handshake():
    done = run(str(CAPTURE))
    heading, *rows = done.stdout.decode().splitlines()
    names = "start, UTC # initiator responder key exchange set-up, ms bytes rtx outcome"
    assert " ".join(heading.split()) == names
    assert len(rows) == 25
    assert all(row.endswith("completed") for row in rows)
    assert all(len(row) <= 120 for row in rows)


def test_a_failure_has_its_diagnosis_below():
    done = run(str(LAB_CAPTURES / "mixed-refused.pcapng"))
    _, row, *diagnosis = done.stdout.decode().splitlines()
    assert "failed: NO_PROPOSAL" in row
    assert " ".join(diagnosis).endswith("(no-proposal-chosen)")
    assert all(line.startswith("  ") and len(line) <= 120 for line in diagnosis)


def test_keys_are_used(tmp_path):
    pair = (CAPTURES / "psk-classic.pcap"), (CAPTURES / "psk-classic.keys.json")
    done = run(str(pair[0]), "--format", "jsonl", "--keys", str(pair[1]))
    (record,) = without_id(json.loads(line) for line in done.stdout.splitlines()).values()
    (report,) = without_id(read_report(pair[0], keys=[str(pair[1])])).values()
    assert record["outcome"] == "established"
    assert {**record, "capture": None} == {**report, "capture": None}


def test_a_name_that_is_not_utf_8_is_written_as_in_a_report(tmp_path):
    path = tmp_path / os.fsdecode(b"a\xff.pcap")
    path.write_bytes(CAPTURE.read_bytes())
    done = run(str(path), "--format", "jsonl")
    assert (done.returncode, done.stderr) == (0, b"ikeanalyze: 25 handshakes in 244 packets\n")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["capture"] for record in records} == {rf"{tmp_path}/a\xff.pcap"}
    assert without_id(records) == without_id(read_report(path))


def test_a_truncated_stream_is_reported_up_to_there():
    done = run("-", data=CAPTURE.read_bytes()[:90_000])
    assert done.returncode == 0
    assert done.stdout.decode().splitlines()[-1].endswith("cut")
    assert "the capture ends early: the file ends inside a packet" in done.stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_capture_and_reports_what_is_left(number):
    trace = Trace()
    trace.play(Handshake(1).setup())
    trace.play(Handshake(2).setup(), at=15 * SECOND)
    trace.play(Handshake(3).setup()[:3], at=30 * SECOND)
    with subprocess.Popen(
        [*COMMAND, "-", "--format", "jsonl"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(trace.pcap())
        process.stdin.flush()
        first = [json.loads(process.stdout.readline())["outcome"] for _ in range(2)]  # it has read everything
        process.send_signal(number)
        rest = [json.loads(line)["outcome"] for line in process.stdout]
        process.stdin.close()
        assert process.wait(60) == 0
    assert (first, rest) == (["completed", "completed"], ["cut"])


def test_a_reader_that_is_gone_ends_it():
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        [*COMMAND, str(CAPTURE), "--format", "jsonl"], stdout=write_end, stderr=subprocess.PIPE
    ) as process:
        os.close(write_end)
        os.close(read_end)
        assert process.wait(60) == 0
        assert process.stderr
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "name an interface with -i, or a CAPTURE"),
        (("-i", "lo", "-"), "name an interface with -i, or a CAPTURE"),
        (("-", "--capture-filter", "udp"), "only with -i"),
        (("-", "--timeout", "5"), "less than --settle"),
        (("-", "--timeout", "inf"), "inf is not within 1 to 31,536,000"),
        (("-", "--settle", "1e300"), "1e+300 is not within 1 to 31,536,000"),
        (("lo",), "lo is an interface: use -i lo"),
    ],
)
def test_wrong_usage_says_what_to_use_instead(arguments, text):
    done = run(*arguments)
    assert done.returncode == 2
    assert text in done.stderr.decode()


def test_an_input_that_is_not_a_capture():
    done = run("-", data=b"no capture at all, but text")
    assert (done.returncode, done.stdout) == (1, b"")
    assert "not a pcap or pcapng file" in done.stderr.decode()


def test_a_file_that_does_not_exist():
    done = run("absent.pcap")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == "ikeanalyze: absent.pcap: no such file\n"


def test_a_directory_in_place_of_a_capture(tmp_path):
    done = run(str(tmp_path))
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == f"ikeanalyze: {tmp_path}: is a directory; name a capture in it\n"
