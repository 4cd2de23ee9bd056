"""The messages of a batch: about keys, missing captures and progress."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.dataset.batch.run import BatchOptions, run_batch
from tests.dataset.made import Here, Told, batch, capture, runs, small_groups
from tests.paths import CAPTURES


@pytest.fixture
def out(tmp_path, monkeypatch):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def test_a_folder_with_keys_and_captures(out):
    """`batch runs --keys runs`, with all that the lab leaves."""
    Path("k").mkdir()
    for path in (CAPTURES / "lab").glob("psk.*"):
        shutil.copy(path, "k")
    reported = Told()
    summary = batch(out, "k", keys=["k"], say=reported)
    assert (summary.failed, summary.warned, reported) == ([], 0, [])
    assert pl.read_parquet(out / "captures")["keys"].to_list() == [
        ["psk.keys.json", "psk.initiator.log.gz", "psk.responder.log.gz"]
    ]


def test_keys_out_of_a_pipe(out):
    """What a process substitution of the shell gives: it can be read once."""
    shutil.copy(CAPTURES / "psk-classic.pcap", ".")
    reading, writing = os.pipe()
    os.write(writing, (CAPTURES / "psk-classic.keys.json").read_bytes())
    os.close(writing)
    reported = Told()
    summary = batch(out, ".", keys=[f"/dev/fd/{reading}"], say=reported)
    os.close(reading)
    assert summary.problems == 1
    assert reported == [
        f"/dev/fd/{reading}: not a regular file, but a batch reads keys more than once. Write them to a file"
    ]


def test_a_folder_with_keys_of_other_captures(out):
    runs(Path("runs"), 1)
    Path("keys").mkdir()
    shutil.copy(CAPTURES / "psk-classic.keys.json", "keys")
    reported = Told()
    assert batch(out, "runs", keys=["keys"], say=reported).problems == 0
    assert reported == [f"{Path.cwd()}/keys: no key file for these captures; NAME.* is for NAME.pcapng"]
    shutil.copy(CAPTURES / "psk-classic.keys.json", "keys/0000.json")
    reported.clear()
    batch(out, "runs", keys=["keys"], say=reported)
    assert reported == []


def test_captures_that_are_gone(out):
    runs(Path("runs"), 4)
    Path("z.pcap").write_bytes(capture(9))
    batch(out, "runs", "z.pcap")
    Path("runs/psk/loss0/0000.pcap").unlink()
    Path("runs/eap/loss5/0001.pcap").unlink()
    Path("z.pcap").unlink()  # in no folder that is named
    reported = Told()
    batch(out, "runs", say=reported)
    assert reported == [
        "2 captures of the dataset do not exist any more; their rows stay: runs/eap/loss5/0001.pcap, ..."
    ]
    assert pl.read_parquet(out / "handshakes").height == 5
    reported.clear()
    batch(out, "runs/psk", say=reported)
    assert reported == ["1 capture of the dataset does not exist any more; its rows stay: runs/psk/loss0/0000.pcap"]


def test_how_far_it_is(out):
    """Before the first group, while a task goes on, and in the end; never more than there is."""
    runs(Path("runs"), 4)
    total = sum(path.stat().st_size for path in Path("runs").rglob("*.pcap"))

    class Reading(Here):
        def bytes_read(self):
            return 10 * total

    reported = []
    run_batch(BatchOptions(["runs"], out), lambda _: Reading(), reported.append, print)
    assert (reported[0].captures, reported[0].captures_done, reported[0].bytes) == (4, 0, total)
    assert all(status.bytes_done == total for status in reported)
    reported.clear()
    shutil.rmtree(out)
    run_batch(BatchOptions(["runs"], out), lambda _: Here(), reported.append, print)
    assert (reported[0].bytes_done, reported[-1].bytes_done, reported[-1].captures_done) == (0, total, 4)


def test_workers_are_told_how_many_tasks_there_are(out):
    runs(Path("runs"), 7)
    requested = []
    run_batch(BatchOptions(["runs"], out), lambda tasks: requested.append(tasks) or Here(), None, print)
    assert requested == [3]


def test_a_name_that_is_not_utf8_and_a_file_called_as_it_is_written(out):
    """Byte 255, and a backslash, an x and two f: both are failed and read rows of their own, now and again."""
    Path("runs").mkdir()
    Path(os.fsdecode(b"runs/a\xff.pcap")).write_bytes(capture(1))
    Path("runs/a\\xff.pcap").write_bytes(capture(2))
    for _ in range(2):
        batch(out, "runs")
        rows = pl.read_parquet(out / "captures").sort("state").select("state", "reason", "capture").rows()
        assert [row[:2] for row in rows] == [("failed", "its path is not UTF-8: rename it"), ("read", None)]
        assert rows[1][2] == "runs/a\\xff.pcap"
        assert rows[0][2].startswith(f"{Path.cwd()}/runs/a\\xff.pcap")
