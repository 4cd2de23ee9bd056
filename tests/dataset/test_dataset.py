import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ikeanalyze.dataset
from ikeanalyze.dataset.manifest import DatasetError
from tests.dataset.made import MESSAGES, batch, runs, small_groups


@pytest.fixture
def out(tmp_path, monkeypatch):
    small_groups(monkeypatch)
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 7)
    batch("out", "runs", label=["{config}/loss{loss:float}/{run:int}.pcap"])
    return tmp_path / "out"


def test_an_opened_dataset_has_its_tables_in_order_of_paths(out):
    data = ikeanalyze.dataset.open(out)
    assert (data.path, data.complete) == (out, True)
    assert dict(data.labels) == {"config": "str", "loss": "float", "run": "int"}
    assert data.messages.collect().height == 7 * MESSAGES
    assert data.exchanges.collect().height == 7 * MESSAGES // 2
    # in the order of paths: loss20 before loss5
    assert data.captures.collect()["run"].to_list() == [3, 5, 1, 0, 6, 2, 4]
    assert data.handshakes.collect()["run"].to_list() == [3, 5, 1, 0, 6, 2, 4]


def test_by_a_path_as_text(out):
    assert ikeanalyze.dataset.open("out").captures.collect().height == 7


def test_what_is_not_listed_is_not_there(out):
    (out / "messages" / "part-x.parquet").write_bytes(b"half a shard")
    assert ikeanalyze.dataset.open(out).messages.collect().height == 7 * MESSAGES


def test_columns_that_some_shards_lack(out):
    """As a batch leaves it that is killed while labels are changed."""
    document = json.loads((out / "manifest.json").read_text())
    document["labels"] = {"loss": "float", "other": "str"}
    (out / "manifest.json").write_text(json.dumps(document))
    table = ikeanalyze.dataset.open(out).handshakes.collect()
    assert table.columns[-2:] == ["loss", "other"]
    assert table["other"].null_count() == 7
    assert table["loss"].null_count() == 0


def test_a_dataset_without_captures(out):
    document = json.loads((out / "manifest.json").read_text())
    document["shards"] = []
    (out / "manifest.json").write_text(json.dumps(document))
    data = ikeanalyze.dataset.open(out)
    assert data.handshakes.collect().height == 0
    assert "config" in data.handshakes.collect_schema()


def test_another_folder_is_not_a_dataset(out):
    with pytest.raises(DatasetError, match="runs: not a dataset"):
        ikeanalyze.dataset.open("runs")
    (out / "manifest.json").write_text('{"schema": "ikeanalyze.dataset/7"}')
    with pytest.raises(
        DatasetError, match=r"schema ikeanalyze.dataset/7, but this ikeanalyze supports .*/1\. Use a newer version"
    ):
        ikeanalyze.dataset.open(out)


def test_a_shard_that_is_missing(out):
    next((out / "messages").iterdir()).unlink()
    with pytest.raises(DatasetError, match="is missing, although the manifest lists it"):
        ikeanalyze.dataset.open(out)


def test_a_truncated_shard_is_an_error(out):
    file = next((out / "messages").iterdir())
    size = file.stat().st_size
    os.truncate(file, size - 1)
    with pytest.raises(DatasetError, match=f"{file}: is damaged: it has {size - 1:,} bytes instead of {size:,}"):
        ikeanalyze.dataset.open(out)


def test_a_dataset_of_an_earlier_version(out):
    """It knows no sizes of files."""
    document = json.loads((out / "manifest.json").read_text())
    for shard in document["shards"]:
        del shard["bytes"]
    (out / "manifest.json").write_text(json.dumps(document))
    assert ikeanalyze.dataset.open(out).messages.collect().height == 7 * MESSAGES


def test_importing_loads_no_polars():
    program = "import sys, ikeanalyze.dataset; sys.exit('polars' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
