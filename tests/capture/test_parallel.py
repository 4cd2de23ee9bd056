import os
import sys
import threading
from typing import Any

import numpy as np
import pytest

from ikeanalyze.capture.buffers import shared_bytes
from ikeanalyze.capture.parallel import WorkerProcess, can_fork_reader
from ikeanalyze.machine import count_processors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has helpers")


def test_a_helper_sends_its_result() -> None:
    shared = shared_bytes(4)

    def work(progress: Any) -> list[int]:
        progress[0] = 99
        shared[:] = [1, 2, 3, 4]
        return [os.getppid()] * 100_000

    worker_process = WorkerProcess(work)
    assert worker_process.result() == [os.getpid()] * 100_000
    assert worker_process.progress == 99
    assert shared.tolist() == [1, 2, 3, 4]
    worker_process.stop()  # nothing more


def fails(progress: Any) -> None:
    raise ValueError


def gives_up(progress: Any) -> None:
    return None


@pytest.mark.parametrize("work", [fails, gives_up])
def test_a_helper_that_fails_has_no_result(work: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert WorkerProcess(work).result() is None
    assert capfd.readouterr().err == ""


def test_a_stopped_helper_leaves_no_process() -> None:
    worker_process = WorkerProcess(lambda progress: threading.Event().wait())
    worker_process.stop()
    worker_process.stop()
    with pytest.raises(ChildProcessError):
        os.waitpid(worker_process._pid, 0)


def test_reading_works_without_a_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(BlockingIOError):
        WorkerProcess(gives_up)
    assert len(os.listdir("/proc/self/fd")) == before


def test_when_there_may_be_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.delitem(sys.modules, "polars", raising=False)
    assert can_fork_reader()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not can_fork_reader()
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert not can_fork_reader()


def test_not_with_the_threads_of_polars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setitem(sys.modules, "polars", np)
    assert not can_fork_reader()


def test_there_are_at_least_one_processor_and_no_more_than_the_machine_has():
    assert 1 <= count_processors() <= os.cpu_count()
