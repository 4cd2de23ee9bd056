"""Whoever reads Parquet reads a dataset as it is; docs/dataset.md says how, and is run here."""

import json
import re
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

from tests.dataset.made import TABLES, batch, runs, small_groups
from tests.paths import LAB_CAPTURES, ROOT

LAB = LAB_CAPTURES
DOCS = (ROOT / "docs" / "dataset.md").read_text()
PYTHON, SQL = (re.findall(rf"^```{kind}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL) for kind in ("python", "sql"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The recorded captures of the lab as a dataset; a folder to be in."""
    folder = tmp_path_factory.mktemp("lab")
    batch(folder / "lab-data", LAB)
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(lab, monkeypatch):
    monkeypatch.chdir(lab)


def manifests():
    return [json.loads(path.read_text()) for path in sorted(LAB.glob("*.manifest.json"))]


def test_polars_reads_a_dataset_as_documented():
    names = {}
    exec(PYTHON[0], names)
    by_loss = {row["link_loss_percent"]: row for row in names["by_loss"].iter_rows(named=True)}
    logged = {}
    for manifest in manifests():  # what the daemons' logs say
        loss = manifest["scenario"]["link.loss_percent"]
        logged[loss] = logged.get(loss, 0) + sum(shake["established"] for shake in manifest["handshakes"])
    assert {20.0, 5.0, 0.0} <= set(by_loss)
    assert by_loss[20.0]["len"] == logged[20]
    assert by_loss[5.0]["len"] == logged[5]
    assert 1 < by_loss[0.0]["blowup"] < 1.02  # what a lossy AAA link made initiators repeat
    assert by_loss[20.0]["blowup"] > 1.0
    assert by_loss[20.0]["setup_ms"] > by_loss[0.0]["setup_ms"]


def test_duckdb_reads_a_dataset_as_documented():
    assert len(SQL) == 1
    rows = duckdb.sql(SQL[0]).fetchall()
    repeated = {}
    for scenario, *_, again, _rtt in rows:
        repeated[scenario] = repeated.get(scenario, 0) + again
    logged = {
        manifest["name"]: sum(side["requests_retransmitted"] for side in manifest["expected"].values())
        for manifest in manifests()
        if manifest["scenario"]["link.loss_percent"] > 0
    }
    assert logged
    assert repeated == logged


def test_pandas_reads_a_dataset_as_documented():
    names = {}
    exec(PYTHON[1], names)
    failures = {(Path(row.capture).name, row.handshake): row.reason for row in names["failures"].itertuples()}
    assert failures["wrong-psk.pcapng", 1] == "AUTHENTICATION_FAILED"
    assert failures["no-proposal.pcapng", 1] == "NO_PROPOSAL_CHOSEN"


@pytest.mark.parametrize("table", TABLES)
def test_all_readers_return_the_same(table):
    mine = pl.read_parquet(f"lab-data/{table}").sort("capture", maintain_order=True)
    assert mine.height > 0
    other = duckdb.sql(f"SELECT * FROM 'lab-data/{table}/*.parquet'")
    assert other.columns == mine.columns
    assert sorted(map(repr, other.fetchall())) == sorted(repr(tuple(row)) for row in mine.iter_rows())
    frame = pd.read_parquet(f"lab-data/{table}", dtype_backend="pyarrow")
    assert list(frame.columns) == mine.columns
    assert len(frame) == mine.height
    for name in mine.columns:
        if mine.schema[name].is_integer():
            assert frame[name].sum() == mine[name].sum()


def test_the_key_is_a_key(lab):
    for table, ids in (("handshakes", "handshake"), ("exchanges", "exchange"), ("messages", "message")):
        ((doubled,),) = duckdb.sql(
            f"SELECT count(*) - count(DISTINCT (capture, {ids})) FROM 'lab-data/{table}/*.parquet'"
        ).fetchall()
        assert doubled == 0
    ((orphans,),) = duckdb.sql(
        "SELECT count(*) FROM 'lab-data/messages/*.parquet' WHERE handshake IS NOT NULL AND (capture, handshake) NOT IN "
        "(SELECT (capture, handshake) FROM 'lab-data/handshakes/*.parquet')"
    ).fetchall()
    assert orphans == 0


def test_several_shards_of_which_some_have_no_rows(tmp_path, monkeypatch):
    small_groups(monkeypatch, 2)
    monkeypatch.chdir(tmp_path)
    runs(Path("runs"), 4)
    for name in ("x", "y"):
        Path(f"runs/{name}.pcap").touch()
    batch("out", "runs", label=["{config}/loss{loss:float}/{run:int}.pcap"])
    assert len(list(Path("out/handshakes").iterdir())) == 3
    assert duckdb.sql("SELECT count(*), max(loss) FROM 'out/handshakes/*.parquet'").fetchall() == [(4, 20.0)]
    assert pd.read_parquet("out/handshakes")["config"].value_counts().to_dict() == {"psk": 2, "eap": 2}
    assert pl.scan_parquet("out/handshakes").select(pl.col("run").sum()).collect().item() == 6


def test_the_documented_columns_are_those_that_there_are():
    table = DOCS.partition("| column | type | |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"`([a-z0-9_]+)`", table))
    there = set(pl.read_parquet("lab-data/captures").columns)
    assert {"capture", "sha256", "warnings", "ike_bytes"} <= documented
    assert documented - {"read", "failed", "packets", "bytes"} <= there
