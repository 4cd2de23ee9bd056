import errno
import json
import os
import subprocess
import sys

import pytest

from ikeanalyze.dataset.manifest import (
    SCHEMA,
    CaptureEntry,
    Change,
    DatasetError,
    DatasetManifest,
    ManifestJournal,
    Shard,
    load_manifest,
    lock_dataset,
    save_manifest,
)

ENTRY = CaptureEntry("a.pcap", "/r/a.pcap", 5, 6, "ab", "read", None, {"run": 1}, [("/r/a.keys", 7, 8)], "cd")
FAILED = CaptureEntry("b.pcap", "/r/b.pcap", 0, 6, None, "failed", "the file is empty", {}, [], None)


def shard(name, *entries):
    return Shard(name, "1.0", {"ports": [], "vantage": None}, {"run": "int"}, {"captures": len(entries)}, entries)


def saved(folder, *shards, complete=True):
    manifest = DatasetManifest(complete, {"run": "int"}, ["{run:int}.pcap"], {item.name: item for item in shards})
    save_manifest(folder, manifest, "1.0", {"captures": {"capture": "String"}})
    return manifest


def as_lists(manifest):
    return {name: [list(value.captures), dict(value.rows)] for name, value in manifest.shards.items()}


def test_what_is_saved_is_loaded(tmp_path):
    saved(tmp_path, shard("x", ENTRY), shard("y", FAILED))
    manifest = load_manifest(tmp_path)
    assert manifest.complete
    assert (manifest.labels, manifest.patterns) == ({"run": "int"}, ["{run:int}.pcap"])
    assert as_lists(manifest) == {"x": [[ENTRY], {"captures": 1}], "y": [[FAILED], {"captures": 1}]}
    assert [entry.capture for _, entry in manifest.entries()] == ["a.pcap", "b.pcap"]
    assert os.listdir(tmp_path) == ["manifest.json"]


def test_it_is_json_with_a_schema(tmp_path):
    saved(tmp_path, shard("x", ENTRY))
    document = json.loads((tmp_path / "manifest.json").read_text())
    assert document["schema"] == SCHEMA == "ikeanalyze.dataset/1"
    assert document["state"] == "complete"
    assert document["shards"][0]["captures"][0]["sha256"] == "ab"
    saved(tmp_path)
    assert json.loads((tmp_path / "manifest.json").read_text())["shards"] == []


def test_the_order_of_shards_is_that_of_captures(tmp_path):
    saved(tmp_path, shard("x", FAILED), shard("y", ENTRY))
    first = (tmp_path / "manifest.json").read_bytes()
    saved(tmp_path, shard("y", ENTRY), shard("x", FAILED))
    assert (tmp_path / "manifest.json").read_bytes() == first


def journalled(folder):
    saved(folder, shard("x", ENTRY))
    with ManifestJournal(folder) as journal:
        journal.add(Change(labels={"config": "str"}, patterns=["{config}"]))
        journal.add(Change(add=shard("y", FAILED)))
        journal.add(Change(drop=["x"], add=shard("z", ENTRY)))
    return {"y": [[FAILED], {"captures": 1}], "z": [[ENTRY], {"captures": 1}]}


def test_the_journal_counts(tmp_path):
    wanted = journalled(tmp_path)
    manifest = load_manifest(tmp_path)
    assert as_lists(manifest) == wanted
    assert (manifest.labels, manifest.patterns) == ({"config": "str"}, ["{config}"])
    assert not manifest.complete


def test_a_journal_read_twice_changes_nothing(tmp_path):
    wanted = journalled(tmp_path)
    journal = (tmp_path / "journal.jsonl").read_bytes()
    save_manifest(tmp_path, load_manifest(tmp_path), "1.0", {})
    assert not (tmp_path / "journal.jsonl").exists()
    (tmp_path / "journal.jsonl").write_bytes(journal)  # as if the kill came between the two
    assert as_lists(load_manifest(tmp_path)) == wanted


def test_a_journal_truncated_at_any_byte_is_read(tmp_path):
    journalled(tmp_path)
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10]
    states = [{"x"}, {"x"}, {"x", "y"}, {"y", "z"}]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        done = sum(end <= size for end in ends)
        assert set(load_manifest(tmp_path).shards) == states[done], size
        with ManifestJournal(tmp_path) as journal:  # what comes next stands behind the last whole line
            journal.add(Change(drop=["w"]))
        assert path.read_bytes() == whole[: ([0, *ends])[done]] + b'{"drop": ["w"]}\n'


@pytest.mark.parametrize("end", [b"\0\0\0\n", b"[]\n", b"\xff\n", b'"x"\n'])
def test_a_journal_that_ends_in_something_else(tmp_path, end):
    wanted = journalled(tmp_path)
    with open(tmp_path / "journal.jsonl", "ab") as file:
        file.write(end)
    assert as_lists(load_manifest(tmp_path)) == wanted


def test_a_line_that_the_disk_has_no_room_for(tmp_path, monkeypatch):
    saved(tmp_path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with ManifestJournal(tmp_path) as journal:
        journal.add(Change(drop=["w"]))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(OSError, match="No space left"):
                journal.add(Change(add=shard("x", ENTRY)))
        journal.add(Change(add=shard("y", ENTRY)))
    assert set(load_manifest(tmp_path).shards) == {"y"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "not a dataset. `ikeanalyze batch PATH... -o DATASET` makes one"),
        ("{", "not a dataset manifest, or damaged"),
        ("[1]", "its schema is not ikeanalyze.dataset/1"),
        ('{"schema": "ikeanalyze.lab/1"}', "its schema is not ikeanalyze.dataset/1"),
        ('{"schema": "ikeanalyze.dataset/2"}', "schema ikeanalyze.dataset/2, but this ikeanalyze supports"),
        (
            '{"schema": "ikeanalyze.dataset/1", "state": "complete"}',
            "is damaged: Object missing required field `labels`. Make the dataset again",
        ),
        (
            '{"schema": "ikeanalyze.dataset/1", "state": "", "labels": {}, "patterns": [], "shards": [{"name": 1}]}',
            "is damaged",
        ),
        (
            '{"schema": "ikeanalyze.dataset/1", "state": "", "labels": {}, "patterns": [], "shards": [{"name": "x", '
            '"version": "1", "reading": {}, "labels": {}, "rows": {}, "captures": []}]}',
            "is damaged",
        ),
    ],
)
def test_another_folder_is_not_a_dataset(tmp_path, text, why):
    if text is not None:
        (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DatasetError) as raised:
        load_manifest(tmp_path)
    assert why in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def part_of(document, path):
    for key in path:
        document = document[key]
    return document


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("labels",), "x"),
        (("labels", "run"), "complex"),
        (("labels", "run"), []),
        (("patterns",), [1]),
        (("shards", 0, "name"), "../x"),
        (("shards", 0, "bytes"), []),
        (("shards", 0, "rows"), None),
        (("shards", 0, "rows", "captures"), "1"),
        (("shards", 0, "labels"), {"run": "date"}),
        (("shards", 0, "captures", 0, "path"), None),
        (("shards", 0, "captures", 0, "bytes"), "5"),
        (("shards", 0, "captures", 0, "sha256"), 1),
        (("shards", 0, "captures", 0, "state"), "maybe"),
        (("shards", 0, "captures", 0, "labels"), [["run", 1]]),
        (("shards", 0, "captures", 0, "labels", "run"), {}),
        (("shards", 0, "captures", 0, "keys", 0), ["/r/a.keys"]),
        (("shards", 0, "captures", 0, "keys", 0, 1), "7"),
    ],
)
def test_what_is_of_another_kind(tmp_path, path, kind):
    saved(tmp_path, shard("x", ENTRY))
    load_manifest(tmp_path)
    document = json.loads((tmp_path / "manifest.json").read_text())
    part_of(document, path[:-1])[path[-1]] = kind
    (tmp_path / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(DatasetError, match="is damaged"):
        load_manifest(tmp_path)


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        load_manifest(tmp_path / "none")


def test_a_second_batch_in_the_same_folder_is_refused(tmp_path):
    other = (
        "import sys, time; from pathlib import Path; from ikeanalyze.dataset.manifest import lock_dataset\n"
        "with lock_dataset(Path(sys.argv[1])): print('mine', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", other, tmp_path], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"mine\n"
        with pytest.raises(DatasetError, match="another batch is writing to it"), lock_dataset(tmp_path):
            pass
        process.kill()
        process.wait()
    with lock_dataset(tmp_path):
        pass
