import hashlib
import os
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import ikeanalyze
from ikeanalyze.dataset import shards
from ikeanalyze.dataset.batch.key_files import get_file_state
from ikeanalyze.dataset.batch.task import (
    BatchReadOptions,
    BatchTask,
    TaskCapture,
    TaskError,
    make_failed_shard,
    run_task,
)
from tests.dataset.made import MESSAGES, TABLES, capture
from tests.paths import CAPTURES


@pytest.fixture
def task(tmp_path):
    dataset = tmp_path / "out"
    shards.make_folders(dataset)
    for number in range(3):
        (tmp_path / f"{number}.pcap").write_bytes(capture(number, handshakes=number + 1))
    (tmp_path / "1.pcap").write_bytes(b"")
    wanted = [TaskCapture(f"runs/{n}.pcap", str(tmp_path / f"{n}.pcap"), {"run": n}, ()) for n in range(3)]
    return BatchTask(str(dataset), tuple(wanted), (), {"run": "int"}, BatchReadOptions(), ikeanalyze.__version__)


def hidden(task, written):
    return {
        table: pl.read_parquet(Path(task.dataset) / table / f".{written.token}.parquet.tmp", glob=False)
        for table in TABLES
    }


def test_a_task_counts_the_rows_that_it_writes(task):
    written = run_task(task)
    result = hidden(task, written)
    assert {name: table.height for name, table in result.items()} == written.shard.rows
    assert written.shard.rows == {
        "captures": 3,
        "handshakes": 4,
        "exchanges": 4 * MESSAGES // 2,
        "messages": 4 * MESSAGES,
    }
    assert result["handshakes"].select("capture", "handshake", "run").rows() == [
        ("runs/0.pcap", 1, 0),
        ("runs/2.pcap", 1, 2),
        ("runs/2.pcap", 2, 2),
        ("runs/2.pcap", 3, 2),
    ]
    assert result["captures"].select("capture", "state", "reason", "packets", "handshakes", "run").rows() == [
        ("runs/0.pcap", "read", None, MESSAGES, 1, 0),
        ("runs/1.pcap", "failed", "the file is empty", None, None, 1),
        ("runs/2.pcap", "read", None, 3 * MESSAGES, 3, 2),
    ]


def test_a_task_describes_each_capture_of_its_shard(task):
    entries = run_task(task).shard.captures
    data = Path(task.captures[0].path).read_bytes()
    assert entries[0].sha256 == hashlib.sha256(data).hexdigest()
    assert (entries[0].bytes, entries[0].mtime_ns) == (len(data), os.stat(task.captures[0].path).st_mtime_ns)
    assert [(entry.state, entry.labels) for entry in entries] == [
        ("read", {"run": 0}),
        ("failed", {"run": 1}),
        ("read", {"run": 2}),
    ]
    assert run_task(task).shard == run_task(task).shard


def test_no_capture_can_be_read(task):
    written = run_task(replace(task, captures=task.captures[1:2]))
    assert written.shard.rows == {"captures": 1, "handshakes": 0, "exchanges": 0, "messages": 0}


def test_a_capture_that_is_gone(task):
    os.unlink(task.captures[0].path)
    entries = run_task(task).shard.captures
    assert (entries[0].reason, entries[0].sha256) == ("no such file", None)
    assert entries[2].state == "read"


def test_accounting_adds_up(task):
    row = hidden(task, run_task(task))["captures"].row(2, named=True)
    packets = sum(value for name, value in row.items() if name.endswith("_packets"))
    total = sum(value for name, value in row.items() if name.endswith("_bytes") and name != "file_bytes")
    assert (packets, total) == (row["packets"], row["bytes"])
    assert row["ike_packets"] == 3 * MESSAGES


def test_shared_keys_are_read_once_and_used(task, monkeypatch):
    from ikeanalyze.keys import detect as module

    keys = get_file_state(str(CAPTURES / "psk-classic.keys.json"))
    psk = TaskCapture("psk", str(CAPTURES / "psk-classic.pcap"), {}, ())
    with_keys = replace(task, captures=(psk,), shared_keys=(keys,))
    count = []
    read = module.read_keys
    monkeypatch.setattr(module, "read_keys", lambda path: count.append(path) or read(path))
    for _ in range(2):
        written = run_task(with_keys)
    assert hidden(with_keys, written)["handshakes"]["outcome"].to_list() == ["established"]
    assert len(count) == 1
    (entry,) = written.shard.captures
    assert entry.keys == [(keys.path, keys.bytes, keys.mtime_ns)]


def test_shared_keys_that_this_process_does_not_see(task, tmp_path):
    (tmp_path / "keys").write_text("x")
    keys = get_file_state(str(tmp_path / "keys"))
    os.unlink(tmp_path / "keys")
    with pytest.raises(TaskError, match=r"keys: no such file\. The worker .* that all workers share"):
        run_task(replace(task, shared_keys=(keys,)))


def test_a_library_that_is_missing(task, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)  # as if it were not installed
    packed = Path(task.captures[0].path)
    packed.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(30))
    with pytest.raises(TaskError, match=r"the worker .* lacks a dependency of ikeanalyze \(.*zstandard"):
        run_task(task)


def test_a_capture_that_was_named_as_its_own_key(task):
    """One path, and both are told apart: the capture is read, and it is no file with keys."""
    one = task.captures[0]
    itself = replace(one, keys=(get_file_state(one.path),))
    captures = hidden(task, run_task(replace(task, captures=(itself,))))["captures"]
    assert captures["state"].to_list() == ["read"]
    assert captures["warnings"].to_list() == [["0.pcap: not used: this is a capture, not a key file"]]


def test_what_is_said_of_keys_does_not_depend_on_the_group(task, tmp_path):
    """Numbered captures have the same file with keys; two lines of it cannot be used."""
    keys = tmp_path / "run.keys"
    key, names = "00" * 16, '"AES-CBC-128 [RFC3602]",,,"NONE [RFC4306]"'
    keys.write_text(f"904a132d2b087803,f2748b73dae9f971,{key},{key},{names}\nx,y\nx,z\n")
    bad = tmp_path / "bad.keys"
    bad.write_text("none")
    own = (get_file_state(str(keys)), get_file_state(str(bad)))
    wanted = tuple(replace(task.captures[n], keys=own) for n in (0, 2))
    together = hidden(task, run_task(replace(task, captures=wanted)))["captures"]["warnings"].to_list()
    alone = [
        hidden(task, run_task(replace(task, captures=(one,))))["captures"]["warnings"][0].to_list() for one in wanted
    ]
    assert together == alone
    assert sum(said.startswith("run.keys: line ") for said in alone[0]) == 2
    assert sum(said.startswith("bad.keys: not used: ") for said in alone[0]) == 1


def test_how_far_a_capture_is_that_is_read_alone(task):
    reported = []
    run_task(task, lambda *how_far: reported.append(how_far))
    assert reported == []
    alone = replace(task, captures=task.captures[:1])
    run_task(alone, lambda *how_far: reported.append(how_far))
    size = os.stat(task.captures[0].path).st_size
    assert reported[-1] == (size, size)


def test_another_version_of_the_program_is_an_error(task):
    with pytest.raises(TaskError, match=r"has ikeanalyze .*, but this is 99\. Install the same version on all"):
        run_task(replace(task, version="99"))


def test_a_dataset_that_this_process_does_not_see(task):
    with pytest.raises(TaskError, match="cannot access this folder"):
        run_task(replace(task, dataset="/nowhere"))


def test_failed_captures_are_recorded(task):
    written = make_failed_shard(task, "too much for it")
    result = hidden(task, written)
    assert result["captures"]["reason"].to_list() == ["too much for it"] * 3
    assert result["handshakes"].height == 0
    assert {item.sha256 for item in written.shard.captures} == {None}
