from pathlib import Path

import polars as pl
import pytest

from ikeanalyze.dataset.batch.task import TaskError
from tests.dataset.made import Here, Told, batch, runs, small_groups, tables


class LostError(Exception):
    """The process that did a task ended."""


class Deadly(Here):
    """Ends over any task with one of these captures in it, so many times."""

    def __init__(self, *names, times=1000):
        super().__init__()
        self.names, self.left = names, times

    def submit(self, task):
        if self.left and any(capture.path.endswith(self.names) for capture in task.captures):
            self.left -= 1
            future = super().submit(task.__class__)  # fails, whatever the task
            future._exception = LostError()
            return future
        return super().submit(task)

    def is_worker_loss(self, error):
        return isinstance(error, LostError)


@pytest.fixture
def out(tmp_path, monkeypatch):
    small_groups(monkeypatch, 4)
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 8)
    return tmp_path / "out"


def states(out):
    table = pl.read_parquet(out / "captures").select("capture", "state", "reason")
    return {capture[-9:]: (state, reason) for capture, state, reason in table.iter_rows()}


def test_a_capture_over_which_every_process_ends(out):
    summary = batch(out, "runs", workers=Deadly("0003.pcap"))
    assert (summary.read, len(summary.failed)) == (8, 1)
    result = states(out)
    state, reason = result.pop("0003.pcap")
    assert state == "failed"
    assert reason.startswith("the process that read it was killed twice")
    assert set(result.values()) == {("read", None)}
    assert pl.read_parquet(out / "handshakes").height == 7
    # and it is tried again, since nothing is known of it
    assert batch(out, "runs").failed == []
    assert set(states(out).values()) == {("read", None)}


def test_a_process_that_ends_once_changes_nothing(out):
    batch(out, "runs", workers=Deadly("0003.pcap", times=1))
    batch(out.with_name("other"), "runs")
    assert tables(out) == tables(out.with_name("other"))


def test_an_error_of_the_task_ends_the_batch(out):
    class Full(Here):
        def submit(self, task):
            future = super().submit(task)
            if len(self.tasks) == 2:
                future._exception = TaskError("no room")
            return future

    with pytest.raises(TaskError, match="no room"):
        batch(out, "runs", workers=Full())


def test_why_nothing_goes_on_is_said_once(out, monkeypatch):
    from concurrent.futures import Future

    from ikeanalyze.dataset.batch import dispatch

    monkeypatch.setattr(dispatch, "_TURN", 0.01)
    monkeypatch.setattr(dispatch, "_PATIENCE", 0.01)

    class Slow(Here):
        turns = 0
        held = None

        def submit(self, task):
            self.held = self.held or []
            future = Future()
            self.held.append((future, super().submit(task)))
            return future

        def get_stall_reason(self):
            self.turns += 1
            if self.turns == 3:
                for future, done in self.held:
                    future.set_result(done.result())
            return "the cluster has no workers"

    reported = Told()
    summary = batch(out, "runs", workers=Slow(), say=reported)
    assert reported == ["waiting: the cluster has no workers"]
    assert summary.read == 8
