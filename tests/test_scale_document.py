"""The code of docs/scale.md that reads the tables of a report with other programs."""

import re

import duckdb
import polars as pl
import pytest

from ikeanalyze.analysis import schema
from tests.paths import CAPTURES, ROOT

DOCUMENT = (ROOT / "docs" / "scale.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The folder above that of a report, which is named as in the document."""
    from typer.testing import CliRunner

    from ikeanalyze.cli.app import app

    folder = tmp_path_factory.mktemp("scale")
    capture = str(CAPTURES / "pq-mlkem768-psk.pcap")
    assert (
        CliRunner().invoke(app, ["report", capture, "--format", "parquet", "-o", str(folder / "huge")]).exit_code == 0
    )
    return folder


def test_polars_and_duckdb_read_the_tables(report, monkeypatch, capsys):
    monkeypatch.chdir(report)
    (code,) = (block for block in BLOCKS if "import polars" in block)
    exec(code, {})
    sql = re.search(r"DuckDB: `([^`]+)`", DOCUMENT)[1]
    outcomes = pl.read_parquet(report / "huge" / "handshakes.parquet")["outcome"].cast(pl.String).to_list()
    assert duckdb.sql(sql).fetchall() == [(outcomes[0], len(outcomes))]
    assert "handshake" in capsys.readouterr().out


def test_the_columns_of_spark_and_ray_exist():
    columns = {*schema.HANDSHAKES, *schema.EXCHANGES}
    names = {name for block in BLOCKS for name in re.findall(r"\b\w+_(?:ns|bytes|exchange)\b", block)}
    assert {"setup_ns", "rtt_ns", "key_exchange"} <= names
    assert names <= columns
