import io
import json
import os
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.dataset.made import capture, files, runs
from tests.paths import CAPTURES


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 3)


def refused(run, *arguments):
    done = run("batch", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()
    return done.stderr


def test_a_second_batch_reads_nothing_again(run):
    done = run("batch", "runs", "-o", "out")
    assert (done.exit_code, done.stdout) == (0, "")
    assert re.fullmatch(r"ikeanalyze: 3 captures read in \d+\.\d s\. out: 3 captures, 3 handshakes\n", done.stderr)
    assert pl.read_parquet("out/handshakes").height == 3
    done = run("batch", "runs", "-o", "out")
    assert done.exit_code == 0
    assert "0 captures read" in done.stderr
    assert "3 unchanged" in done.stderr


def test_a_dataset_with_each_table_is_written(run):
    Path("one").mkdir()
    Path("one/a.pcap").write_bytes(capture(1))
    Path("one/a.keys").write_text("none")
    done = run("batch", "one", "-o", "out")
    assert done.exit_code == 0
    warned, read = done.stderr.splitlines()
    assert warned.startswith("ikeanalyze: 1 capture has warnings: ")
    assert re.fullmatch(r"ikeanalyze: 1 capture read in \d+\.\d s\. out: 1 capture, 1 handshake", read)


def test_quiet_prints_nothing(run):
    done = run("batch", "runs", "-o", "out", "--quiet", "--workers", "1")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_some_cannot_be_read(run):
    for number in range(12):
        Path(f"runs/empty{number:02}.pcap").touch()
    done = run("batch", "runs", "none.pcap", "-o", "out", "--quiet")
    assert (done.exit_code, done.stdout) == (3, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "ikeanalyze: none.pcap: no such file or folder"
    assert lines[1] == "ikeanalyze: runs/empty00.pcap: the file is empty"
    assert lines[-1].startswith("ikeanalyze: 2 more captures cannot be read. --verbose names all")
    assert len(lines) == 12
    Path("runs/empty99.pcap").touch()
    done = run("batch", "runs", "-o", "out", "--verbose")  # the others are still as they were
    assert done.exit_code == 3
    assert len(done.stderr.splitlines()) == 14
    # captures that were read, are unchanged and cannot be read are those of the dataset
    counts = r"0 captures read in \d+\.\d s, 3 unchanged, 13 cannot be read\. out: 16 captures, 3 handshakes\n"
    assert re.search(f"^ikeanalyze: {counts}$", done.stderr, re.MULTILINE)
    done = run("batch", "runs", "-o", "again")
    counts = r"3 captures read in \d+\.\d s, 13 cannot be read\. again: 16 captures, 3 handshakes\n"
    assert re.search(f"^ikeanalyze: {counts}$", done.stderr, re.MULTILINE)


def test_none_can_be_read(run):
    Path("empty.pcap").touch()
    done = run("batch", "empty.pcap", "-o", "out")
    assert done.exit_code == 1
    assert pl.read_parquet("out/captures")["reason"].to_list() == ["the file is empty"]
    done = run("batch", "nothing", "-o", "other")
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "ikeanalyze: nothing: no such file or folder",
        "ikeanalyze: no capture to read",
    ]
    assert not Path("other").exists()


def test_labels_and_keys_are_used(run):
    Path("psk").mkdir()
    Path("psk/1.pcap").write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    Path("keys").mkdir()
    Path("keys/1.json").write_bytes((CAPTURES / "psk-classic.keys.json").read_bytes())
    done = run("batch", "psk", "-o", "out", "--keys", "keys", "--label", "{config}/{n:int}.pcap", "--port", "4711")
    assert done.exit_code == 0
    (row,) = pl.read_parquet("out/handshakes").select("outcome", "config", "n").rows()
    assert row == ("established", "psk", 1)
    (shard,) = json.loads(Path("out/manifest.json").read_text())["shards"]
    assert shard["reading"] == {"ports": [4711], "vantage": None}


def test_the_manifest_of_the_lab_provides_the_path(run):
    for suffix in ("pcapng", "manifest.json"):
        Path(f"satellite.{suffix}").write_bytes((CAPTURES / "lab" / f"satellite.{suffix}").read_bytes())
    assert run("batch", "satellite.pcapng", "-o", "out").exit_code == 0
    columns = ("vantage", "path_rtt_source", "path_rtt_ns")
    (row,) = pl.read_parquet("out/handshakes").select(*columns).rows()
    assert row == ("responder", "manifest", 600_000_000)
    assert run("batch", "satellite.pcapng", "-o", "other", "--vantage", "initiator").exit_code == 0
    (row,) = pl.read_parquet("other/handshakes").select(*columns[:2]).rows()
    assert row == ("initiator", "smallest seen")


def test_no_key_in_the_output(run):
    Path("a.pcap").write_bytes((CAPTURES / "psk-classic.pcap").read_bytes())
    Path("a.keys.json").write_bytes((CAPTURES / "psk-classic.keys.json").read_bytes())
    run("batch", "a.pcap", "-o", "out", "--verbose")
    keys = re.findall(r'"([0-9a-f]{32,})"', Path("a.keys.json").read_text())
    assert keys
    written = b"".join(path.read_bytes() for path in Path("out").rglob("*") if path.is_file())
    assert not [key for key in keys if key.encode() in written or bytes.fromhex(key) in written]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["runs"], "Missing option '-o' / '--output'"),
        (["-o", "out"], "Missing argument 'PATH...'"),
        (["runs", "-o", "-"], "a dataset is a directory: name it"),
        (["-", "-o", "out"], "a batch reads files, not standard input"),
        (["runs", "-o", "out", "--keys", "-"], "a batch reads files, not standard input"),
        (["runs", "-o", "out", "--label", "{x"], "expected '}' before end of string"),
        (["runs", "-o", "out", "--label", "{x:date}.pcap"], "a label is int, float or str"),
        (["runs", "-o", "out", "--workers", "0"], "Invalid value for '--workers'"),
        (
            ["runs", "-o", "out", "--workers", "2", "--cluster", "tcp://x:1"],
            "--workers cannot be combined with --cluster",
        ),
        (["runs", "-o", "out", "--vantage", "left"], "'left' is not one of 'initiator', 'responder'"),
    ],
)
def test_wrong_usage_exits_with_2(run, arguments, why):
    assert why in refused(run, *arguments)


def test_a_label_that_is_a_column(run):
    done = run("batch", "runs", "-o", "out", "--label", "{outcome}/{}/{}.pcap")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "the label outcome has the name of another column" in done.stderr


def test_a_folder_that_is_something_else(run):
    done = run("batch", "runs", "-o", "runs")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "ikeanalyze: runs: is neither empty nor a dataset. Name another folder with -o\n"


@pytest.mark.parametrize("manifest", ['{"manifest_version": 3, "name": "an extension of a browser"}', "[", ""])
def test_a_folder_with_a_manifest_of_something_else_stays_as_it_is(run, manifest):
    Path("other").mkdir()
    Path("other/manifest.json").write_text(manifest)
    done = run("batch", "runs", "-o", "other")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("ikeanalyze: other/manifest.json: not a dataset manifest")
    assert [path.name for path in Path("other").iterdir()] == ["manifest.json"]
    assert Path("other/manifest.json").read_text() == manifest


def test_a_dataset_whose_path_is_not_utf_8_is_refused(run):
    """polars cannot open its tables."""
    path = os.fsdecode(b"out\xff")
    done = run("batch", "runs", "-o", path)
    assert (done.exit_code, done.stdout) == (1, "")
    problem = "its path is not UTF-8. Rename it, or name another folder\n"
    assert done.stderr == rf"ikeanalyze: out\xff: {problem}"
    assert not os.path.exists(path)
    assert run("batch", "runs", "-o", "out", "--quiet").exit_code == 0
    os.rename("out", path)
    done = run("compare", path, "--by", "capture")
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", rf"ikeanalyze: out\xff: {problem}")


def test_a_cluster_that_is_not_there(run, monkeypatch):
    from ikeanalyze.dataset.batch import cluster

    monkeypatch.setattr(cluster, "_PATIENCE", "0.5s")
    done = run("batch", "runs", "-o", "out", "--cluster", "tcp://127.0.0.1:9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("ikeanalyze: --cluster tcp://127.0.0.1:9: no scheduler there (")
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()


def test_a_cluster_that_is_not_there_changes_no_folder(run, monkeypatch):
    from ikeanalyze.dataset.batch import cluster

    monkeypatch.setattr(cluster, "_PATIENCE", "0.5s")
    at_cluster = ("--cluster", "tcp://127.0.0.1:9", "--label", "{run}.pcap")
    assert run("batch", "runs", "-o", "new/folders/out", *at_cluster).exit_code == 1
    assert not Path("new").exists()
    Path("empty").mkdir()
    assert run("batch", "runs", "-o", "empty", *at_cluster).exit_code == 1
    assert list(Path("empty").iterdir()) == []

    assert run("batch", "runs", "-o", "out").exit_code == 0
    before = files(Path("out"))
    Path("runs/more.pcap").write_bytes(capture(9))
    assert run("batch", "runs", "-o", "out", *at_cluster).exit_code == 1
    assert files(Path("out")) == before
    assert run("compare", "out", "--by", "capture").exit_code == 0
    # without captures to read, no cluster is needed
    Path("runs/more.pcap").unlink()
    assert run("batch", "runs", "-o", "out", *at_cluster).exit_code == 0
    assert "run" in pl.read_parquet("out/handshakes").columns


class Terminal(io.StringIO):
    """Standard error of somebody who looks."""

    def isatty(self):
        return True


def test_progress_for_people_who_look(monkeypatch):
    from ikeanalyze.cli.experiments.batch import _show_progress
    from ikeanalyze.dataset.batch.run import BatchStatus

    screen = Terminal()
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", screen)
    with _show_progress(quiet=False) as tell:
        tell(BatchStatus(2000, 500, 40_000_000, 10_000_000, 3))
    shown = screen.getvalue()
    assert "500/2,000 captures" in shown
    assert "10.0/40.0 MB" in shown
    assert "3 failed" in shown
    with _show_progress(quiet=True) as tell:
        assert tell is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with _show_progress(quiet=False) as tell:
        assert tell is None


def test_a_name_that_is_no_text(run):
    Path("runs/li\nne.pcap").write_bytes(capture(5))
    Path("runs/wei\udcfcrd.pcap").write_bytes(capture(6))
    Path("runs/li\nne.keys\udcff").write_text("x")
    done = run("batch", "runs", "-o", "out", "--label", "{name}.pcap")
    assert done.exit_code == 3
    assert "ikeanalyze: runs/wei\\xfcrd.pcap: its path is not UTF-8: rename it\n" in done.stderr
    rows = pl.read_parquet("out/captures").select("capture", "state", "name", "keys").rows()
    assert ("runs/li\nne.pcap", "read", "li\nne", ["li\nne.keys\\xff"]) in rows
    assert ("runs/wei\\xfcrd.pcap", "failed", "wei\\xfcrd", []) in rows
