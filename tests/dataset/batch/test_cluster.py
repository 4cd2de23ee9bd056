"""A real Dask cluster on this machine: a scheduler, and two workers that are processes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import dask
import distributed
import pytest

from ikeanalyze.dataset.batch.cluster import DaskWorkers
from ikeanalyze.dataset.batch.processes import LocalWorkers
from ikeanalyze.dataset.batch.task import TaskError
from tests.dataset.made import MESSAGES, batch, files, manifest, runs, small_groups, tables

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    scratch = dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask"))})
    with (
        scratch,
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=50,
        ) as local_cluster,
    ):
        yield local_cluster


@pytest.fixture
def captures(tmp_path, monkeypatch):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 24)
    Path("runs/empty.pcap").touch()
    return tmp_path


def test_the_same_files_as_by_processes(cluster, captures):
    label = ["{config}/loss{loss:float}/{run:int}.pcap"]
    summary = batch("by-cluster", "runs", workers=DaskWorkers(cluster.scheduler_address), label=label)
    batch("by-processes", "runs", workers=LocalWorkers(2), label=label)
    assert files(captures / "by-cluster") == files(captures / "by-processes")
    assert (summary.read, len(summary.failed), summary.handshakes) == (25, 1, 24)
    assert sum(shard["rows"]["messages"] for shard in manifest(captures / "by-cluster")["shards"]) == 24 * MESSAGES


def test_both_workers_run_tasks(cluster, captures):
    workers = DaskWorkers(cluster.scheduler_address)
    assert workers.width == 2
    seen = set()
    submit = workers.submit

    def noting(task):
        future = submit(task)
        future.add_done_callback(lambda done: seen.add(done.result().process))
        return future

    workers.submit = noting
    batch("out", "runs", workers=workers)
    assert len(seen) == 2
    assert not any(f"process {os.getpid()}" in item for item in seen)


def test_tasks_of_a_lost_worker_are_repeated(cluster, captures):
    for copy in range(2):
        shutil.copytree("runs", f"runs/copy{copy}")
    batch("whole", "runs", workers=LocalWorkers(2))
    workers = DaskWorkers(cluster.scheduler_address)
    pids = list(workers._client.run(os.getpid).values())

    def kill():
        while not list(captures.glob("out/captures/part-*")):
            time.sleep(0.005)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    batch("out", "runs", workers=workers)
    killer.join()
    assert tables(captures / "out") == tables(captures / "whole")


def test_a_missing_scheduler_is_an_error(monkeypatch):
    from ikeanalyze.dataset.batch import cluster as module

    monkeypatch.setattr(module, "_PATIENCE", "0.5s")
    with pytest.raises(TaskError, match=r"--cluster tcp://127.0.0.1:9: no scheduler there \("):
        DaskWorkers("tcp://127.0.0.1:9")
    with pytest.raises(TaskError, match="no scheduler there"):
        DaskWorkers("nonsense://x y")


@contextmanager
def scheduler(folder, environment):
    """A scheduler that is a process of its own, with a worker where one is wanted."""
    began = folder / "scheduler.json"
    command = [
        sys.executable,
        "-m",
        "dask",
        "scheduler",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--no-dashboard",
    ]
    with subprocess.Popen(
        [*command, "--scheduler-file", str(began)],
        cwd=folder,
        env={**environment, "DASK_TEMPORARY_DIRECTORY": str(folder)},
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process, address_in(began, process)
        finally:
            process.kill()


def address_in(began, process):
    """The scheduler's address, when the file that it makes is there and whole."""
    while True:
        assert process.poll() is None
        with suppress(OSError, ValueError):
            return json.loads(began.read_text())["address"]
        time.sleep(0.02)


def test_a_scheduler_that_ends_is_an_error(captures):
    with scheduler(captures, os.environ) as (process, address):
        workers = DaskWorkers(address)
        assert workers.get_stall_reason() == f"the cluster {address} has no workers"
        threading.Timer(1, process.kill).start()
        with pytest.raises(TaskError, match=f"--cluster {address}: the scheduler is gone"):
            batch("out", "runs", workers=workers)
    assert manifest(captures / "out")["state"] == "unfinished"


@pytest.mark.parametrize("given_up", [False, True])
def test_a_scheduler_that_is_gone_is_no_disk_that_is_full(captures, monkeypatch, given_up):
    """What Dask raises then is an error of the system, as those of a disk are; or another one when it has given up."""
    from ikeanalyze.dataset.batch import cluster as module

    monkeypatch.setattr(module, "_PATIENCE", "2s")
    with scheduler(captures, os.environ) as (process, address):
        workers = DaskWorkers(address)
        process.kill()
        process.wait()
        if given_up:
            deadline = time.monotonic() + 30
            while workers._client.status != "closed":
                assert time.monotonic() < deadline
                time.sleep(0.05)
        with pytest.raises(TaskError, match=f"--cluster {address}: the scheduler is gone"):
            assert workers.width == 0  # is never; it asks the scheduler
        assert workers.get_stall_reason() == f"no connection to the scheduler {address}"
        with pytest.raises(TaskError, match="the scheduler is gone"):
            batch("out", "runs", workers=workers)


def test_a_scheduler_without_ikeanalyze(captures):
    (captures / "other").mkdir()
    (captures / "other" / "ikeanalyze.py").write_text("")  # found before any other
    environment = {**os.environ, "PYTHONPATH": str(captures / "other")}
    with scheduler(captures, environment) as (_, address):
        workers = DaskWorkers(address)
        with pytest.raises(TaskError, match="the scheduler or a worker does not have this version of ikeanalyze"):
            batch("out", "runs", workers=workers)


def test_a_missing_dask_is_an_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(TaskError, match=r"pip install 'ikeanalyze\[cluster\]'"):
        DaskWorkers("tcp://127.0.0.1:9")
