import os

import polars as pl
import pytest
from msgspec.structs import replace

from ikeanalyze.dataset import shards
from ikeanalyze.dataset.columns import get_columns
from ikeanalyze.dataset.manifest import CaptureEntry, DatasetError, Shard
from tests.dataset.made import TABLES


def empty(**rows):
    frames = {table: pl.DataFrame(schema=get_columns(table, {})) for table in TABLES}
    for table, captures in rows.items():
        blank = dict.fromkeys(get_columns(table, {}))
        frames[table] = pl.DataFrame(
            [{**blank, "capture": capture} for capture in captures], schema=get_columns(table, {})
        )
    return frames


def entry(name, **labels):
    return CaptureEntry(name, f"/r/{name}", 1, 1, "ab", "read", None, labels, [], None)


def shard(*entries, **more):
    fields = {"version": "1", "reading": {}, "labels": {}, "rows": {}, **more}
    return shards.name_shard(Shard(name="", captures=entries, **fields))


def publish(dataset, tables, name):
    """Write a shard and give it its name: the sizes of its files."""
    token, sizes = shards.write_unpublished(dataset, tables)
    shards.publish_shard(dataset, token, name)
    return sizes


@pytest.fixture
def dataset(tmp_path):
    shards.make_folders(tmp_path)
    return tmp_path


def there(dataset):
    return sorted(str(path.relative_to(dataset)) for path in dataset.rglob("*") if path.is_file())


def test_hidden_until_it_is_published(dataset):
    token, sizes = shards.write_unpublished(dataset, empty(captures=["a"]))
    assert len(there(dataset)) == 4
    assert not list(dataset.glob("*/*.parquet"))
    assert all(os.path.basename(name).startswith(".") for name in there(dataset))
    shards.publish_shard(dataset, token, "part-1")
    assert sizes == {table: (dataset / table / "part-1.parquet").stat().st_size for table in TABLES}
    assert there(dataset) == sorted(f"{table}/part-1.parquet" for table in TABLES)
    assert shards.read_shard_table(dataset, "captures", "part-1")["capture"].to_list() == ["a"]


def test_what_is_not_there_cannot_be_published(dataset):
    with pytest.raises(FileNotFoundError):
        shards.publish_shard(dataset, "x", "part-1")


def test_nothing_stays_of_what_cannot_be_written(dataset, monkeypatch):
    fsync = os.fsync
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        shards.write_unpublished(dataset, empty())
    assert there(dataset) == []


def test_sweep_and_lacking(dataset):
    names = [f"part-{digit * 24}" for digit in "123"]
    for name in names[:2]:
        publish(dataset, empty(), name)
    shards.write_unpublished(dataset, empty())
    # a user's own files: of another kind, and of other names
    own = ["captures/notes.txt", "captures/mine.parquet", "captures/part-1.parquet", "captures/.x.parquet.tmp"]
    for file in own:
        (dataset / file).touch()
    shards.remove_orphans(dataset, names[1:])
    assert there(dataset) == sorted([*own, *(f"{table}/{names[1]}.parquet" for table in TABLES)])
    two, three = (replace(shard(), name=name) for name in names[1:])
    assert shards.find_incomplete_shards(dataset, [two, three]) == [names[2]]
    (dataset / "messages" / f"{names[1]}.parquet").unlink()
    assert shards.find_incomplete_shards(dataset, [two]) == [names[1]]
    shards.remove_shards(dataset, [names[1]])
    assert there(dataset) == sorted(own)


def test_the_name_is_made_of_what_the_rows_come_from():
    one = shard(entry("a"), entry("b"))
    assert one.name.startswith("part-")
    assert one.name == shard(entry("a"), entry("b"), rows={"captures": 2}).name
    others = [
        shard(entry("a")),
        shard(entry("b"), entry("a")),
        shard(entry("a", x=1), entry("b")),
        shard(entry("a"), entry("b"), version="2"),
        shard(entry("a"), entry("b"), labels={"x": "int"}),
        shard(entry("a"), entry("b"), reading={"ports": [4711]}),
    ]
    assert len({one.name, *(other.name for other in others)}) == 7


def test_rewritten_with_some_captures_and_labels(dataset):
    old = shard(entry("a"), entry("b"))
    tables = empty(captures=["a", "b"], handshakes=["a", "b", "b"], messages=["a", "a", "b"])
    publish(dataset, tables, old.name)
    token, new = shards.rewrite_shard(dataset, old, [entry("b", x=5)], {"x": "int"})
    shards.publish_shard(dataset, token, new.name)
    assert new.rows == {"captures": 1, "handshakes": 2, "exchanges": 0, "messages": 1}
    assert new.labels == {"x": "int"}
    handshakes = shards.read_shard_table(dataset, "handshakes", new.name)
    assert handshakes.select("capture", "x").rows() == [("b", 5), ("b", 5)]
    assert "x" not in shards.read_shard_table(dataset, "messages", new.name).columns


def test_a_shard_that_is_damaged(dataset):
    old = shard(entry("a"))
    publish(dataset, empty(captures=["a"]), old.name)
    file = dataset / "messages" / f"{old.name}.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(DatasetError, match=f"{file}: cannot be read .*Remove it and run the same command"):
        shards.rewrite_shard(dataset, old, [entry("a")], {})


def test_a_file_of_another_size(dataset):
    sizes = publish(dataset, empty(captures=["a"]), "part-1")
    one = replace(shard(), name="part-1", bytes=sizes)
    assert shards.find_incomplete_shards(dataset, [one]) == []
    assert shards.list_table_files(dataset, [one], "messages") == [dataset / "messages" / "part-1.parquet"]
    file = dataset / "messages" / "part-1.parquet"
    file.write_bytes(file.read_bytes()[:-1])
    assert shards.find_incomplete_shards(dataset, [one]) == ["part-1"]
    assert shards.find_incomplete_shards(dataset, [replace(one, bytes={})]) == []  # sizes are not known
    with pytest.raises(DatasetError, match=f"{file}: is damaged: it has .* Run the batch again"):
        shards.list_table_files(dataset, [one], "messages")
