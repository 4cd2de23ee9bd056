import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import ikeanalyze
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.batch.processes import LocalWorkers
from ikeanalyze.dataset.batch.task import BatchReadOptions, BatchTask, TaskCapture, TaskError
from ikeanalyze.machine import count_processors
from tests.dataset.made import capture
from tests.dataset.test_interruptions import alive

pytestmark = pytest.mark.alone


@pytest.fixture
def task(tmp_path):
    dataset = tmp_path / "out"
    shards.make_folders(dataset)
    path = tmp_path / "a.pcap"
    path.write_bytes(capture(1))
    return BatchTask(
        str(dataset), (TaskCapture("a.pcap", str(path), {}, ()),), (), {}, BatchReadOptions(), ikeanalyze.__version__
    )


@pytest.fixture
def processes():
    local_workers = LocalWorkers(1)
    yield local_workers
    local_workers.close()


def children():
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return {int(pid) for pid in own if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()}


def test_results_of_tasks_are_returned(task, processes):
    written = processes.submit(task).result(timeout=30)
    assert [entry.capture for entry in written.shard.captures] == ["a.pcap"]
    assert written.shard.rows["handshakes"] == 1
    assert f"process {os.getpid()}" not in written.process
    assert processes.get_stall_reason() is None


def test_progress_of_tasks_is_shared(task, processes):
    """What stands there in the end is the size of the capture; it does not count, as the task is done."""
    size = os.stat(task.captures[0].path).st_size
    processes.submit(task).result(timeout=30)
    assert sum(processes._read) == size
    assert processes.bytes_read() == 0
    assert ikeanalyze.dataset.batch.processes._read is None  # in this process
    for _ in range(5):  # places are given anew
        processes.submit(task).result(timeout=30)


def test_errors_of_tasks_are_returned(task, processes):
    with pytest.raises(TaskError, match=r"has ikeanalyze .*, but this is 99"):
        processes.submit(replace(task, version="99")).result(timeout=30)
    with pytest.raises(TaskError, match="cannot access this folder"):
        processes.submit(replace(task, dataset="/nowhere")).result(timeout=30)
    assert not processes.is_worker_loss(TaskError("x"))


def test_a_process_that_is_killed(task, processes):
    processes.submit(task).result(timeout=30)
    (process,) = children()
    os.kill(process, signal.SIGSTOP)
    future = processes.submit(task)
    os.kill(process, signal.SIGKILL)
    error = future.exception(timeout=30)
    assert processes.is_worker_loss(error)
    assert processes.submit(task).result(timeout=30).shard.rows["captures"] == 1


def test_closing_ends_them_at_once(task):
    processes = LocalWorkers(2)
    processes.submit(task).result(timeout=30)
    (process, *_) = children()
    os.kill(process, signal.SIGSTOP)  # as busy as one can be
    processes.submit(task)
    start = time.monotonic()
    processes.close()
    assert time.monotonic() - start < 5
    assert children() == set()


def test_they_end_with_the_process_that_began_them(tmp_path):
    program = (
        "import time; from concurrent.futures import Future; from ikeanalyze.dataset.batch.processes import LocalWorkers\n"
        "if __name__ == '__main__':\n"
        "    one = LocalWorkers(1); one.submit(None).exception(); print('there', flush=True); time.sleep(60)"
    )
    (tmp_path / "program.py").write_text(program)
    marker = str(tmp_path / "marker")
    environment = {**os.environ, "BATCH_OF_A_TEST": marker}
    command = [sys.executable, str(tmp_path / "program.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"there\n"
        assert len(alive(marker)) >= 2
        process.kill()
    deadline = time.monotonic() + 10
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert alive(marker) == []


FORK = """
import multiprocessing, pickle, sys
from ikeanalyze.dataset.batch.processes import LocalWorkers
processes = LocalWorkers(2)
processes.fork()
print(len(multiprocessing.active_children()), "polars" in sys.modules)
task = pickle.load(open(sys.argv[1], "rb"))
print(processes.submit(task).result(timeout=60).shard.rows["handshakes"])
processes.close()
print(len(multiprocessing.active_children()))
"""


@pytest.mark.skipif(sys.platform != "linux" or count_processors() == 1, reason="processes are spawned")
def test_processes_are_forked_before_polars_is_loaded(task, tmp_path):
    (tmp_path / "task").write_bytes(pickle.dumps(task))
    command = [sys.executable, "-c", FORK, str(tmp_path / "task")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("2 False\n1\n0\n", "")


def test_processes_are_not_forked_after_polars_is_loaded(processes):
    processes.fork()
    assert children() == set()


def test_a_script_without_a_main_guard_ends(tmp_path):
    """Each process runs the script again, and ends because it may not start processes while it starts."""
    for number in range(4):
        (tmp_path / f"{number}.pcap").write_bytes(capture(number))
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from ikeanalyze.dataset.batch.processes import LocalWorkers\n"
        "from ikeanalyze.dataset.batch.run import BatchOptions, run_batch\n"
        f"run_batch(BatchOptions(['{tmp_path}'], Path('{tmp_path}/out')), LocalWorkers, None, print)\n"
    )
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "ikeanalyze.dataset.batch.task.TaskError: the worker processes ended 3 times before they read anything"
    )
