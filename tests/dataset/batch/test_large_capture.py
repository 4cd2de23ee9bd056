"""A capture of a batch that is larger than memory has the rows of an analysis in memory."""

import polars as pl
from polars.testing import assert_frame_equal

from ikeanalyze._version import installed_version
from ikeanalyze.dataset.batch import task as batch_task
from ikeanalyze.dataset.batch.task import BatchReadOptions, BatchTask, TaskCapture, run_task
from ikeanalyze.dataset.buckets.plan import plan_buckets
from ikeanalyze.dataset.manifest import TABLES
from tests.craft import MS, Handshake, Trace


def read(path, dataset) -> dict[str, pl.DataFrame]:
    for table in TABLES:
        (dataset / table).mkdir(parents=True)
    capture = TaskCapture(path.name, str(path), {}, ())
    run_task(BatchTask(str(dataset), (capture,), (), {}, BatchReadOptions(), installed_version()))
    return {table: pl.read_parquet(next((dataset / table).glob(".*"))) for table in TABLES}


def test_a_large_capture_has_the_same_rows(tmp_path, monkeypatch):
    trace = Trace()
    for seed in range(20):
        trace.play(Handshake(seed).setup(), at=seed * MS)
    path = trace.write(tmp_path / "large.pcap")
    whole = read(path, tmp_path / "whole")
    planned = []

    def plan(size, jobs, _):
        planned.append(plan_buckets(size, jobs, 1))
        return planned[-1]

    monkeypatch.setattr(batch_task, "plan_buckets", plan)
    parts = read(path, tmp_path / "parts")
    assert planned[0] is not None
    for table in TABLES:
        assert_frame_equal(parts[table], whole[table])
