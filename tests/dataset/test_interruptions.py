"""Whatever ends a batch, the next one makes of it what an undisturbed one would have made."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.dataset.batch.task import TaskError
from ikeanalyze.dataset.dataset import open_dataset
from ikeanalyze.dataset.manifest import DatasetError
from tests.dataset.made import (
    MESSAGES,
    TABLES,
    Here,
    Told,
    batch,
    capture,
    files,
    manifest,
    runs,
    small_groups,
    tables,
)

pytestmark = pytest.mark.alone

LABEL = ["{config}/loss{loss:float}/{run:int}.pcap"]
#: What changes something on the disk, or makes sure that it is there.
CALLS = ("replace", "unlink", "fsync", "mkdir", "truncate")


class Killed(BaseException):
    """Nothing that our code expects, or handles."""


class Kill:
    """The n-th call of any of CALLS does not happen, and none after it: what a dead process leaves behind."""

    def __init__(self, monkeypatch, at):
        self.count, self.at = 0, at
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, call):
        def counted(*args, **options):
            self.count += 1
            if self.at is not None and self.count >= self.at:
                raise Killed
            return call(*args, **options)

        return counted


#: At each step, and for those in a hurry at some.
STRIDES = pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.large)])


def killed_everywhere(monkeypatch, stride, prepare, again, out):
    """Kill the job at its steps, one after another, do it again, and compare with one that nobody disturbed."""
    prepare()
    with monkeypatch.context() as patch:
        steps = Kill(patch, None)
        again()
    wanted = files(out)
    for at in range(1, steps.count + 1, stride):
        prepare()
        with monkeypatch.context() as patch:
            Kill(patch, at)
            with pytest.raises(Killed):
                again()
        if (out / "manifest.json").exists():
            lazy = open_dataset(out)  # what is done can be read, whatever lies beside it
            names = lazy.captures.filter(pl.col("state") == "read").select("capture").collect()["capture"]
            assert names.is_unique().all(), at
            assert lazy.messages.collect().height == len(names) * MESSAGES, at
        again()
        assert files(out) == wanted, at
    return steps.count


@pytest.fixture
def out(tmp_path, monkeypatch):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


@STRIDES
def test_a_batch_killed_at_any_step_can_be_resumed(out, monkeypatch, stride):
    runs(Path("runs"), 4)
    count = killed_everywhere(
        monkeypatch,
        stride,
        lambda: shutil.rmtree(out, ignore_errors=True),
        lambda: batch(out, "runs", label=LABEL),
        out,
    )
    assert count > 30  # 2 shards, each of 4 files that are written, named, and noted


@STRIDES
def test_killed_at_every_step_of_a_change(out, monkeypatch, tmp_path, stride):
    """One capture has changed, one is new, and labels have another name."""
    runs(Path("runs"), 4)
    batch(out, "runs", label=LABEL)
    finished = tmp_path / "finished"
    out.rename(finished)
    Path("runs/psk/loss0/0000.pcap").write_bytes(capture(70))
    runs(Path("more"), 1)

    def prepare():
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(finished, out)

    count = killed_everywhere(
        monkeypatch,
        stride,
        prepare,
        lambda: batch(out, "runs", "more", label=["{config}/loss{percent:int}/{run:int}.pcap"]),
        out,
    )
    assert count > 40
    assert manifest(out)["labels"] == {"config": "str", "percent": "int", "run": "int"}


def test_finished_captures_are_not_read_again(out, monkeypatch):
    runs(Path("runs"), 2)
    batch(out, "runs")
    runs(Path("runs"), 9)

    class Impatient(Here):
        def submit(self, task):
            if len(self.tasks) == 2:
                raise KeyboardInterrupt
            return super().submit(task)

    with pytest.raises(KeyboardInterrupt):
        batch(out, "runs", workers=Impatient())
    document = manifest(out)
    assert document["state"] == "unfinished"
    done = {item["capture"] for shard in document["shards"] for item in shard["captures"]}
    here = Here()
    batch(out, "runs", workers=here)
    assert {item.capture for task in here.tasks for item in task.captures}.isdisjoint(done)
    assert manifest(out)["state"] == "complete"


def command(out, *paths, workers=2):
    return [sys.executable, "-m", "ikeanalyze", "batch", *paths, "-o", str(out), "--workers", str(workers)]


def test_a_full_disk_leaves_a_resumable_batch(out):
    """A limit on the size of files stands in for it: the system refuses to write, in the workers and in us."""
    runs(Path("runs"), 2)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))

    done = subprocess.run(command(out, "runs"), capture_output=True, text=True, preexec_fn=limit, timeout=60)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "out: cannot be written to (File too large). Run the same command again to resume\n" in done.stderr
    assert not [path for path in out.rglob("*") if "part-" in path.name or path.name.endswith(".tmp")]
    subprocess.run(command(out, "runs"), check=True, capture_output=True, timeout=60)
    assert open_dataset(out).captures.collect().height == 2


def test_a_disk_that_is_full_when_we_note_it(out, monkeypatch):
    runs(Path("runs"), 6)
    fsync = os.fsync
    calls = 0

    def full(descriptor):
        nonlocal calls
        calls += 1
        if calls > 12:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises((DatasetError, TaskError), match="No space left on device"):
            batch(out, "runs")
    batch(out, "runs")
    batch(out.with_name("other"), "runs")
    assert tables(out) == tables(out.with_name("other"))


def alive(marker):
    """Processes that have this in their environment."""
    result = []
    for process in Path("/proc").iterdir():
        try:
            ours = process.name.isdigit() and marker.encode() in (process / "environ").read_bytes()
            if ours and (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                result.append(int(process.name))
        except OSError:
            continue
    return result


def test_an_interrupt_leaves_a_resumable_batch(out):
    runs(Path("runs"), 60)
    environment = {**os.environ, "BATCH_OF_A_TEST": str(out)}
    with subprocess.Popen(
        command(out, "runs"), stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        while not (out / "journal.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all
        reported = process.stderr.read()
    assert process.returncode in (130, 0)
    if process.returncode == 130:
        assert (
            reported
            == f"ikeanalyze: finished captures are in {out}. Run the same command again to resume\nikeanalyze: interrupted\n"
        )
    assert alive(str(out)) == []
    subprocess.run(command(out, "runs"), check=True, capture_output=True, timeout=60)
    assert open_dataset(out).handshakes.collect().height == 60


def reread(out, *paths, **options):
    """How many captures a second batch reads."""
    here = Here()
    batch(out, *paths, workers=here, **options)
    return sum(len(task.captures) for task in here.tasks)


def test_a_shard_that_was_cut_is_made_again(out):
    runs(Path("runs"), 6)
    batch(out, "runs")
    before = files(out)
    file = next((out / "messages").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])
    assert reread(out, "runs") == 3
    assert files(out) == before


def test_what_was_in_a_cut_shard_and_is_not_named(out):
    """It is said, as its rows are gone."""
    runs(Path("runs"), 4)
    batch(out, "runs/psk")
    batch(out, "runs/eap")
    for file in (out / "messages").iterdir():
        os.truncate(file, 10)
    reported = Told()
    assert batch(out, "runs/psk", say=reported).captures == 2
    assert reported == [
        "2 captures removed from the dataset because files are missing or damaged; name them in a batch to read them again: "
        "runs/eap/loss0/0003.pcap, ..."
    ]
    assert reread(out, "runs") == 2


def test_a_damaged_shard_that_other_labels_need(out):
    """Its size is as it was. What the message says to do is enough."""
    runs(Path("runs"), 6)
    batch(out, "runs")
    file = next((out / "handshakes").glob("*.parquet"))
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(DatasetError, match=f"{file}: cannot be read .*Remove it and run ") as error:
        batch(out, "runs", label=LABEL)
    assert "is kept" not in str(error.value)
    file.unlink()
    assert reread(out, "runs", label=LABEL) == 3
    assert open_dataset(out).handshakes.collect()["run"].to_list() == [3, 5, 1, 0, 2, 4]


def test_nothing_is_kept_where_nothing_was_made(out):
    runs(Path("runs"), 1)
    with pytest.raises(DatasetError, match=r"/proc/x: cannot be written to \(.*\)\. Name another folder with -o$"):
        batch("/proc/x", "runs")


@pytest.mark.large
def test_kill_9_at_ten_random_moments(tmp_path):
    rng = random.Random(7)
    folder = tmp_path / "runs"
    whole = runs(folder, 40)
    for copy in range(1, 30):  # in all 1,200 captures, ten shards
        shutil.copytree(whole / "psk", folder / f"copy{copy}" / "psk")
        shutil.copytree(whole / "eap", folder / f"copy{copy}" / "eap")
    wanted, out = tmp_path / "wanted", tmp_path / "out"
    start = time.monotonic()
    subprocess.run(command(wanted, str(folder)), check=True, capture_output=True, timeout=120)
    takes = time.monotonic() - start
    environment = {**os.environ, "BATCH_OF_A_TEST": str(out)}
    ended = 0
    for _ in range(10):
        with subprocess.Popen(command(out, str(folder)), stderr=subprocess.DEVNULL, env=environment) as process:
            try:
                process.wait(rng.uniform(0.2, takes))
            except subprocess.TimeoutExpired:
                process.kill()
                ended += 1
        deadline = time.monotonic() + 10
        while alive(str(out)) and time.monotonic() < deadline:
            time.sleep(0.02)  # workers see by themselves that they are alone
        assert alive(str(out)) == []
    assert ended >= 3
    subprocess.run(command(out, str(folder)), check=True, capture_output=True, timeout=120)
    assert files(out) == files(wanted)
    assert {table: pl.scan_parquet(out / table).select(pl.len()).collect().item() for table in TABLES} == {
        "captures": 1200,
        "handshakes": 1200,
        "exchanges": 1200 * MESSAGES // 2,
        "messages": 1200 * MESSAGES,
    }
